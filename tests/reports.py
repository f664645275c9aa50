"""Reports of every kind, built by hand, for tests of what is made of a report. No process is started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from grader.model import (
    Case,
    Check,
    Deadlocked,
    Diagnosis,
    Ending,
    Exercise,
    Exited,
    Finding,
    Finished,
    Killed,
    Outcome,
    Raised,
    RankRecord,
    Report,
    RequiredName,
    Run,
    StackFrame,
    Submission,
    TimedOut,
    Verdict,
    Wait,
)

CHECKS = (
    Check(id="runs", title="Every rank finishes", points=20, hints=("Read the first traceback, not the last.",)),
    Check(
        id="same_as_one_process",
        title="The result equals training in one process",
        points=40,
        needs=("runs",),
        hints=("DDP averages gradients. What does your loss average over?", "Second.", "Third."),
    ),
    Check(
        id="reshuffles",
        title="The data is reshuffled every epoch",
        points=20,
        needs=("runs",),
        hints=("Which method of a distributed sampler knows the number of the epoch?",),
    ),
    Check(
        id="saves_once",
        title="Rank 0 alone writes the checkpoint",
        points=12.5,
        needs=("runs",),
        hints=("What happens when three processes write one file?",),
    ),
    Check(id="leaves", title="The process group is destroyed at the end", points=7.5, needs=("runs",)),
)

EXERCISE = Exercise(
    name="03_train_ddp",
    title="Train with DistributedDataParallel",
    summary="The complete training function of one rank.",
    folder=Path("/course/exercises/03_train_ddp"),
    file="train_ddp.py",
    requires=(RequiredName(name="train_ddp", signature="(rank, world_size, model_class, data, epochs)"),),
    cases=(),
    checks=CHECKS,
)

STUDENT = StackFrame(file="train_ddp.py", line=42, function="train_ddp", student=True)


def case(name: str = "equal_shards", world_size: int = 3) -> Case:
    """A case as a manifest would give it."""
    return Case(name=name, world_size=world_size, probe="train")


def frame(line: int, function: str = "train_ddp") -> StackFrame:
    """A frame in the student's file."""
    return StackFrame(file="train_ddp.py", line=line, function=function, student=True)


def ranks(*endings: Ending, outputs: Sequence[str] = ()) -> tuple[RankRecord, ...]:
    """One record for each ending, with what each printed."""
    texts = [*outputs, *[""] * len(endings)]
    return tuple(RankRecord(rank=i, ending=ending, output=texts[i]) for i, ending in enumerate(endings))


def finished_run(world_size: int, name: str = "equal_shards", outputs: Sequence[str] = ()) -> Run:
    """A run in which every rank finished."""
    endings = [Finished(seconds=0.2)] * world_size
    return Run(case=case(name, world_size), ranks=ranks(*endings, outputs=outputs), seconds=0.25)


def failed_run(kind: str, findings: tuple[Finding, ...], *endings: Ending, outputs: Sequence[str] = ()) -> Run:
    """A run that went wrong, diagnosed by these findings."""
    diagnosis = Diagnosis(kind=kind, ranks=findings[0].ranks, findings=findings)
    records = ranks(*endings, outputs=outputs)
    return Run(case=case(world_size=len(endings)), ranks=records, seconds=2.1, diagnosis=diagnosis)


def submission(path: str = "exercises/03_train_ddp/train_ddp.py", problem: Finding | None = None) -> Submission:
    """A student's file."""
    return Submission(path=Path(path), source=b"", digest="ab" * 32, problem=problem)


def report(
    outcomes: str, findings: dict[str, tuple[Finding, ...]], runs: tuple[Run, ...], handed_in: Submission
) -> Report:
    """A report whose checks came to `outcomes`, a letter each: Passed, Failed, Blocked, Skipped, X for broken."""
    letters = {
        "P": Outcome.PASSED,
        "F": Outcome.FAILED,
        "B": Outcome.BLOCKED,
        "S": Outcome.SKIPPED,
        "X": Outcome.BROKEN,
    }
    messages = {
        "S": "needs 2 GPUs, this machine has none",
        "X": "AttributeError: module 'probe' has no attribute 'model'",
    }
    verdicts = tuple(
        Verdict(
            check=check,
            outcome=letters[letter],
            findings=findings.get(check.id, ()),
            message=messages.get(letter, ""),
            seconds=0.01,
        )
        for check, letter in zip(CHECKS, outcomes, strict=True)
    )
    return Report(
        exercise=EXERCISE,
        submission=handed_in,
        verdicts=verdicts,
        runs=runs,
        seed=123,
        device="cpu",
        sandbox="bubblewrap",
        seconds=1.94,
        torch_version="2.13.0",
    )


def passed() -> Report:
    """Everything is right."""
    return report("PPPPP", {}, (finished_run(1), finished_run(2), finished_run(3)), submission())


def partial() -> Report:
    """Wrong numbers and a forgotten epoch, in a file that was handed in from elsewhere."""
    wrong = Finding(
        subject="parameter layer.weight after step 1",
        expected="the same as in one process, to 1e-12 relative",
        actual="31 of 32 elements differ, by 0.0625 at most; every difference is exactly 1/3 of the expected step",
        ranks=(0, 1, 2),
        line=41,
        case="equal_shards[3]",
    )
    order = Finding(
        subject="the order of samples in epoch 2",
        expected="an order other than that of epoch 1",
        actual="[4, 0, 7, 2, 5, 1, 3, 6], the same again",
        ranks=(1,),
        case="equal_shards[2]",
    )
    findings = {
        "same_as_one_process": (wrong, Finding(subject="the returned model", actual="is a DDP wrapper", ranks=(0, 1))),
        "reshuffles": (order,),
    }
    chatter = "\n".join(f"epoch {epoch} loss {2.5 / (epoch + 1):.3f}" for epoch in range(40))
    runs = (finished_run(1), finished_run(2), finished_run(3, outputs=(chatter, "ready", "ready")))
    return report("PFFPP", findings, runs, submission("handed_in/no_mean.py"))


def deadlock() -> Report:
    """Rank 1 calls a barrier where the others call an all-reduce."""
    findings = (
        Finding(subject="Deadlock", actual="wait in all_reduce", ranks=(0, 2), line=38, case="equal_shards[3]"),
        Finding(subject="Meanwhile", actual="waits in barrier", ranks=(1,), line=42, case="equal_shards[3]"),
    )
    stuck = [
        Deadlocked(stack=(frame(line),), seconds=0.4, wait=Wait(operation=operation, sequence=3))
        for line, operation in ((38, "all_reduce"), (42, "barrier"), (38, "all_reduce"))
    ]
    run = failed_run("deadlocked", findings, *stuck, outputs=("step 0", "step 0\nwaiting for the others", "step 0"))
    return report("FBBFB", {"runs": findings, "saves_once": findings}, (finished_run(1), run), submission())


def stub() -> Report:
    """Nothing has been written."""
    raised = Raised(stack=(frame(25),), type="NotImplementedError", message="TODO")
    findings = (
        Finding(subject="NotImplementedError was raised", actual="TODO", ranks=(0,), line=25, case="equal_shards[2]"),
        Finding(subject="As a consequence", actual="was stopped by the grader", ranks=(1,), case="equal_shards[2]"),
    )
    run = failed_run("raised", findings, raised, Killed(signal="SIGKILL", by_grader=True))
    attempt = Finding(subject="train_ddp(5, 2, …)", expected="ValueError", actual="NotImplementedError: TODO", line=25)
    return report("FBBFB", {"runs": findings, "saves_once": (attempt,)}, (run,), submission())


def syntax_error() -> Report:
    """The file does not compile."""
    code = "torch.optim.SGD(ddp_model.parameters(), lr=lr, momentum=0.9 nesterov=True)"
    problem = Finding(
        subject="SyntaxError: invalid syntax",
        actual=f"{code}\n{' ' * code.index('nesterov')}^",
        line=31,
        hint="Python names the place where it gave up; the mistake may stand just before it.",
    )
    return report("FBBBB", {"runs": (problem,)}, (), submission(problem=problem))


def broken() -> Report:
    """One check is broken, one needs hardware that is absent."""
    return report("PPXSP", {}, (finished_run(2),), submission())


def skipped() -> Report:
    """One check needs hardware that is absent, and the others passed."""
    return report("PPPSP", {}, (finished_run(2),), submission())


def endings() -> Report:
    """A rank that exits, one that is killed, one that runs out of time; an identical fault is told once."""
    left = Finding(
        subject="a rank left early",
        expected="every rank returns from train_ddp",
        actual="rank 1 left with os._exit(0)",
        ranks=(1,),
        line=55,
        case="equal_shards[2]",
        hint="A function that is graded returns to its caller; it does not end the process.",
    )
    killed = Finding(
        subject="a rank was killed", actual="rank 0 was killed by SIGSEGV", ranks=(0,), case="equal_shards[3]"
    )
    late = Finding(
        subject="no end within 20 s", actual="rank 0 was still in line 33", ranks=(0,), case="equal_shards[1]"
    )
    exited = (Killed(signal="SIGKILL", by_grader=True), Exited(stack=(frame(55),), code="0", how="os._exit"))
    dead = (Killed(signal="SIGSEGV"), Finished(), Raised(type="RuntimeError", message="Connection closed by peer"))
    slow = TimedOut(stack=(frame(33),), wait=Wait(operation="recv from rank 1", peer=1))
    runs = (
        failed_run("timed_out", (late,), slow),
        failed_run("exited", (left,), *exited, outputs=("", "goodbye")),
        failed_run("killed", (killed,), *dead),
    )
    findings = {"runs": (left,), "same_as_one_process": (killed,), "reshuffles": (late,), "saves_once": (left,)}
    return report("FFFFP", findings, runs, submission())


def sizes() -> Report:
    """A deadlock of ranks that call the same collective with tensors of different sizes; one has left."""
    waits = [
        Wait(operation="all_reduce", bytes=4_096),
        Wait(operation="all_reduce", bytes=8),
        Wait(operation="all_gather", group="group tp"),
    ]
    stuck = [Deadlocked(stack=(frame(61),), wait=wait) for wait in waits]
    actuals = ("waits in all_reduce of 4096 bytes", "waits in all_reduce of 8 bytes", "waits in all_gather in group tp")
    hint = "Every rank of a group must make the same collective calls in the same order."
    findings = (
        *(Finding(subject="Deadlock", actual=actuals[rank], ranks=(rank,), line=61, case="tp[4]") for rank in range(3)),
        Finding(subject="Had already returned", ranks=(3,), hint=hint, case="tp[4]"),
    )
    run = failed_run("deadlocked", findings, *stuck, Finished())
    return report("FBBBB", {"runs": findings}, (run,), submission())


def hostile() -> Report:
    """A student who tries to paint over the page."""
    escape = "\x1b[2J\x1b[31mScore 100/100\x1b[0m\x07\r\x9b1A\u202eabc\u2066\x00\x7f \udc80 [bold red]markup[/] :smile:"
    finding = Finding(
        subject=f"train_ddp raised {escape}",
        expected="no\ttabs\nno lines",
        actual="x" * 100_000 + escape,
        ranks=(0, 1),
        line=3,
        case="equal_shards[2]",
        hint="\x1b]0;title\x07",
    )
    lines = Finding(subject="\n" * 5_000, actual="line\n" * 5_000, case="hostile\x1b[2]")
    raised = Raised(stack=(frame(3),), type="Evil\x1b[1m", message=escape, causes=(escape,))
    output = f"{escape}\nScore 100/100\r\n" + "long " * 200 + "\n[link=file:///]click[/link]"
    run = failed_run(
        "raised", (finding,), raised, Killed(signal="SIGKILL", by_grader=True), outputs=(output, "\x1b[8m")
    )
    handed_in = submission("../inbox/$(shell rm -rf ~)\x1b[1m.py")
    return report("FFPPP", {"runs": (finding,), "same_as_one_process": (lines,)}, (run,), handed_in)


KINDS: dict[str, Callable[[], Report]] = {
    build.__name__: build
    for build in (passed, partial, deadlock, stub, syntax_error, broken, skipped, endings, sizes, hostile)
}
"""Every report, by its name."""
