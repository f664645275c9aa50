"""Results for the HTML page: traced runs, a file with marked lines, texts that want to be markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grader.model import (
    Case,
    Deadlocked,
    Diagnosis,
    Ending,
    Entry,
    Finding,
    Finished,
    Late,
    Outcome,
    Raised,
    RankRecord,
    Report,
    Result,
    Run,
    Wait,
)
from grader.model.trace import Communication, Span, Trace
from tests.reports import deadlock, frame, partial, passed

SOURCE = '''"""Train on every rank."""

import torch.distributed as dist


def train_ddp(rank, world_size, model_class, data, epochs):
    """One rank of the training."""
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = model_class()
    for epoch in range(epochs):
        for inputs, targets in data:
            loss = model(inputs).sub(targets).square().mean()
            loss.backward()  # gradients of this shard
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            if rank == 0:
                dist.barrier()
            step(model, lr=0.1)
    return model
'''

MARKUP = (
    "<script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "</code></div></script></style><svg onload=window.owned=1>",
    '" onmouseover="window.owned=1" x="',
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.owned=1",
    "::error::owned ##[error]owned",
    "```\n| a | b |\n|---|---|\n=HYPERLINK(1)",
    "\x1b[2J\x00\x0b\udc80\u202e",
)


def call(operation: str, start: float, end: float | None, **more: Any) -> Communication:
    """A communication of both ranks."""
    given = {"bytes": 4_096, "dtype": "float32", "group": (0, 1), "line": 15, **more}
    return Communication(operation=operation, start=start, end=end, **given)


def step(number: int, begin: float) -> tuple[Span, ...]:
    """Forward, backward and optimizer step of one training step, 10 ms long."""
    return (
        Span(kind="region", name=f"step {number}", start=begin, end=begin + 0.01),
        Span(kind="forward", name="Linear", start=begin, end=begin + 0.003),
        Span(kind="backward", name="backward", start=begin + 0.003, end=begin + 0.007),
        Span(kind="optimizer", name="SGD", start=begin + 0.008, end=begin + 0.01),
    )


def traced(rank: int, ending: Ending, talks: tuple[Communication, ...], spans: tuple[Span, ...] = ()) -> RankRecord:
    """A rank with what it communicated."""
    return RankRecord(rank=rank, ending=ending, trace=Trace(communications=talks, spans=spans))


def pipeline(lasts: float = 0.005) -> Run:
    """Two ranks, two micro-batches: two forwards and two backwards each, of `lasts` seconds, and what crosses."""

    def rank(number: int, begins: tuple[float, ...]) -> RankRecord:
        names = zip(("forward 0", "forward 1", "backward 0", "backward 1"), begins, strict=True)
        marked = (Span(kind="step", name=name, start=begin, end=begin + lasts) for name, begin in names)
        whole = Span(kind="region", name="run_gpipe", start=0.09, end=0.4)
        there, back = ("send", "recv") if number == 0 else ("recv", "send")
        talks = [call(there, begin, begin + 0.001, peer=1 - number) for begin in (0.1195, 0.1395)]
        talks += [call(back, begin, begin + 0.001, peer=1 - number) for begin in (0.1795, 0.1995)]
        return traced(number, Finished(seconds=0.5), tuple(talks), (whole, *marked))

    records = (rank(0, (0.1, 0.12, 0.19, 0.21)), rank(1, (0.121, 0.141, 0.16, 0.18)))
    return Run(case=Case(name="pipeline", world_size=2, probe="train"), ranks=records, seconds=0.5)


def exchange() -> Run:
    """Two ranks that finish: an all-reduce, and a message in each direction."""
    common = (call("all_reduce", 0.105, 0.107), call("all_gather", 0.111, 0.113, bytes=96))
    there = (*common, call("send", 0.114, 0.116, peer=1), call("recv", 0.117, 0.121, peer=1))
    back = (*common, call("recv", 0.113, 0.117, peer=0), call("send", 0.118, 0.12, peer=0))
    ended = Finished(seconds=0.13)
    records = (traced(0, ended, there, step(0, 0.1)), traced(1, ended, back, step(0, 0.1)))
    return Run(case=Case(name="exchange", world_size=2, probe="train"), ranks=records, seconds=0.2)


def stuck() -> Run:
    """Two ranks that deadlock after one step: rank 0 in a barrier, rank 1 in an all-reduce."""
    begun = (call("all_reduce", 0.104, 0.107),)
    waits = [
        Deadlocked(stack=(frame(line),), seconds=1.4, wait=Wait(operation=operation))
        for line, operation in ((17, "barrier"), (15, "all_reduce"))
    ]
    records = (
        traced(0, waits[0], (*begun, call("barrier", 0.112, None, bytes=0, line=17)), step(0, 0.1)),
        traced(1, waits[1], (*begun, call("all_reduce", 0.118, None)), step(0, 0.1)),
    )
    findings = (
        Finding(subject="Deadlock", actual="waits in barrier", ranks=(0,), line=17, case="train[2]"),
        Finding(subject="Meanwhile", actual="waits in all_reduce", ranks=(1,), line=15, case="train[2]"),
    )
    case = Case(name="train", world_size=2, probe="train")
    diagnosis = Diagnosis(kind="deadlocked", ranks=(0, 1), findings=findings)
    return Run(case=case, ranks=records, seconds=1.6, diagnosis=diagnosis)


def timelines() -> Report:
    """A deadlock that was traced, and a run that went well."""
    report = deadlock()
    found = stuck().diagnosis
    assert found
    failed = replace(report.verdicts[0], findings=found.findings)
    rest = (replace(report.verdicts[3], outcome=Outcome.PASSED, findings=()), report.verdicts[4])
    verdicts = (failed, *report.verdicts[1:3], *rest)
    submission = replace(report.submission, source=SOURCE.encode())
    return replace(report, submission=submission, verdicts=verdicts, runs=(exchange(), stuck()))


def markup() -> Report:
    """Every text that a student can influence wants to be markup, and so does the author's title."""
    text = "\n".join(MARKUP)
    findings = tuple(
        Finding(subject=evil, expected=evil, actual=evil, ranks=(0,), line=1 + n, hint=evil, case=evil)
        for n, evil in enumerate(MARKUP)
    )
    raised = Raised(stack=(frame(3, MARKUP[0]),), type=MARKUP[0], message=text, seconds=0.1)
    talks = tuple(call(evil, 0.01 * n, 0.01 * n + 0.005, dtype=evil) for n, evil in enumerate(MARKUP))
    kinds = ("region", *MARKUP[1:])
    spans = tuple(Span(kind=kinds[n], name=evil, start=0.01 * n, end=None) for n, evil in enumerate(MARKUP))
    record = replace(traced(0, raised, talks, spans), output=text)
    case = Case(name=MARKUP[1], world_size=1, probe="train")
    run = Run(
        case=case, ranks=(record,), seconds=0.2, diagnosis=Diagnosis(kind=MARKUP[3], ranks=(0,), findings=findings)
    )
    report = partial()
    check = replace(report.verdicts[1].check, title=MARKUP[0], hints=(MARKUP[3],))
    verdict = replace(report.verdicts[1], check=check, findings=findings)
    broken = replace(report.verdicts[2], outcome=Outcome.BROKEN, message=text, findings=())
    skipped = replace(report.verdicts[3], outcome=Outcome.SKIPPED, message=text)
    return replace(
        report,
        submission=replace(report.submission, source=f"{text}\nx = '{text}'\n".encode("utf-8", "surrogatepass")),
        verdicts=(verdict, broken, skipped),
        runs=(run,),
        notes=(text,),
        exercise=replace(report.exercise, title=MARKUP[2], summary=text, checks=(check,)),
    )


def assignment() -> Result:
    """Two exercises, the second handed in late."""
    late = Late(kept=0.8, told="2 days late: 10 % a day.")
    second = replace(passed(), exercise=replace(passed().exercise, name="05_no_sync", title="Accumulate gradients"))
    return Result(
        title="Assignment 2",
        entries=(Entry(report=timelines(), weight=40), Entry(report=second, weight=60, late=late)),
    )


def hidden() -> Report:
    """One check and its run are not for students."""
    report = timelines()
    check = replace(report.verdicts[1].check, visibility="after_published")
    return replace(
        report, verdicts=(report.verdicts[0], replace(report.verdicts[1], check=check), *report.verdicts[2:])
    )
