"""grader.ranks.diagnosis: the first failure in time is the cause, and its sentence is a student's."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from grader.model import (
    Case,
    Deadlocked,
    Diagnosis,
    Ending,
    Exited,
    Finished,
    Killed,
    Raised,
    RankRecord,
    StackFrame,
    TimedOut,
    Wait,
)
from grader.ranks.answer import safe_ending
from grader.ranks.diagnosis import AT_IMPORT, NOBODY_TYPES, SAME_SIZE, diagnose
from grader.ranks.watch.parsing import stack_from

CASE = Case(name="sgd", world_size=3, probe="sgd")


def at(line: int) -> tuple[StackFrame, ...]:
    return (StackFrame(file="train_ddp.py", line=line, function="train_ddp", student=True),)


def diagnosis(*endings: Ending) -> Diagnosis | None:
    return diagnose(CASE, [RankRecord(rank=i, ending=ending) for i, ending in enumerate(endings)], "train_ddp.py")


def sentences(*endings: Ending) -> list[str]:
    found = diagnosis(*endings)
    assert found is not None
    return [finding.sentence() for finding in found.findings]


def raised(line: int, seconds: float, type_: str = "ValueError", **more: Any) -> Raised:
    return Raised(**{"type": type_, "message": "boom", "stack": at(line), "seconds": seconds, **more})


def stuck(operation: str, line: int, size: int | None = None) -> Deadlocked:
    return Deadlocked(wait=Wait(operation=operation, bytes=size), stack=at(line), seconds=2)


def test_no_diagnosis_where_all_finished() -> None:
    """There is nothing to explain."""
    assert diagnosis(Finished(), Finished()) is None


def test_the_earliest_exception_is_the_cause() -> None:
    """A later one is a consequence."""
    assert sentences(raised(9, 2.0, "KeyError"), raised(5, 1.0)) == [
        "ValueError was raised on rank 1: boom (line 5)",
        "As a consequence on rank 0: KeyError was raised (line 9)",
    ]


def test_what_the_probe_raised_itself_is_told_with_its_line() -> None:
    """Where no line of the student's is in the stack; else that line says more."""
    probe = StackFrame(file="/grader/exercises/03/probe.py", line=41, function="sgd")
    own = Raised(type="KeyError", message="'b'", stack=(probe, StackFrame(file="/torch/x.py", line=7, function="f")))
    assert sentences(own) == ["KeyError was raised in the grader's probe.py, line 41 on rank 0: 'b'"]
    theirs = Raised(type="KeyError", message="'b'", stack=(probe, *at(5)))
    assert sentences(theirs) == ["KeyError was raised on rank 0: 'b' (line 5)"]


def test_ranks_that_fail_alike_are_told_together() -> None:
    """Same type, same line, one sentence."""
    assert sentences(raised(5, 1.0), raised(5, 1.1)) == ["ValueError was raised on ranks 0, 1: boom (line 5)"]


@pytest.mark.parametrize(
    "cause",
    [Killed(signal="SIGKILL", seconds=1.5), Exited(code="0", how="os._exit", seconds=1.5), raised(3, 1.5)],
    ids=["killed", "exited", "raised"],
)
def test_a_broken_connection_is_never_the_cause(cause: Ending) -> None:
    """Even where the clock says that it came first."""
    broken = raised(7, 1.0, "RuntimeError", communication=True)
    found = diagnosis(broken, cause)
    assert found is not None and found.ranks == (1,) and found.kind == cause.kind


def test_a_broken_connection_alone_is_told_as_it_is() -> None:
    """A communication error that nothing else explains is the cause after all."""
    found = diagnosis(raised(7, 1.0, "RuntimeError", communication=True), Finished())
    assert found is not None and found.ranks == (0,)


def test_a_deadlock_names_for_each_group_of_ranks_where_it_waits() -> None:
    """Who waits in what at which line, and who has already returned."""
    assert sentences(stuck("all_reduce", 40, 12), stuck("barrier", 42), stuck("all_reduce", 40, 12)) == [
        "Deadlock on ranks 0, 2: wait in all_reduce of 12 bytes (line 40)",
        "Meanwhile on rank 1: waits in barrier (line 42)",
    ]
    assert sentences(stuck("barrier", 4), Finished())[1] == "Had already returned on rank 1"


def test_ranks_that_wait_for_a_failed_one_are_consequences() -> None:
    """The exception is told first, then who waited for it."""
    assert sentences(stuck("barrier", 8), raised(5, 1.0))[1] == "As a consequence on rank 0: waits in barrier (line 8)"


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        (Exited(code="3", how="sys.exit", stack=at(2)), "The process was left by sys.exit(3) on rank 0 (line 2)"),
        (Killed(signal="SIGSEGV"), "The process was ended by a memory fault (SIGSEGV) on rank 0"),
        (
            TimedOut(seconds=20, stack=at(6)),
            "Still busy after 20 s, and stopped on rank 0: it was in train_ddp (line 6)",
        ),
        (
            raised(4, 1, causes=("ZeroDivisionError: division by zero",)),
            "ValueError was raised on rank 0: boom\ncaused by ZeroDivisionError: division by zero (line 4)",
        ),
        (
            raised(1, 1, "ImportError", importing=True),
            "train_ddp.py could not be imported on rank 0: ImportError: boom (line 1)",
        ),
    ],
    ids=["exited", "killed", "timed out", "chained", "import"],
)
def test_each_ending_has_its_sentence(ending: Ending, sentence: str) -> None:
    """In a student's words."""
    assert sentences(ending, Finished())[0] == sentence


@pytest.mark.parametrize(
    ("ending", "hint"),
    [
        (
            raised(1, 1, "ValueError", message="Default process group has not been initialized", importing=True),
            AT_IMPORT,
        ),
        (raised(1, 1, "ValueError", message="Error initializing using env:// rendezvous", importing=True), AT_IMPORT),
        (raised(1, 1, "NotImplementedError", importing=True), AT_IMPORT),
        (raised(1, 1, "EOFError", message="EOF when reading a line"), NOBODY_TYPES),
        (raised(1, 1, "EOFError", message="EOF when reading a line", importing=True), NOBODY_TYPES),
        (Killed(signal="SIGABRT"), SAME_SIZE),
        (raised(1, 1, "EOFError", message="Ran out of input"), None),
        (raised(1, 1, "ImportError", importing=True), None),
        (Killed(signal="SIGSEGV"), None),
    ],
    ids=[
        "group",
        "meeting",
        "unwritten",
        "input",
        "input at import",
        "sizes",
        "another end of a file",
        "import",
        "memory fault",
    ],
)
def test_what_an_ending_comes_from_is_its_hint(ending: Ending, hint: str | None) -> None:
    """Where the ending itself says nothing of it; else the check's own hint is shown."""
    found = diagnosis(ending, Finished())
    assert found is not None and found.findings[0].hint == hint


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "finished", "stack": None},
        {"kind": "nonsense"},
        {"kind": "raised"},
        {"kind": "exited", "code": None},
    ],
)
def test_forged_or_poor_endings_are_read_without_an_error(raw: dict[str, Any]) -> None:
    """A rank may say anything."""
    assert isinstance(safe_ending(raw), Ending)


def test_an_ending_crosses_from_the_supervisor_to_the_judge_whole() -> None:
    """But for texts that no supervisor of ours sends."""
    for ending in (raised(3, 1.5, causes=("KeyError: x",)), stuck("barrier", 4, 8), Finished(seconds=1.0)):
        assert safe_ending({"kind": ending.kind, **json_able(ending)}) == ending
    told = safe_ending({"kind": "raised", **json_able(raised(3, 1.5, "E" * 9000))})
    assert isinstance(told, Raised) and len(told.type) == 4000


def json_able(ending: Ending) -> dict[str, Any]:
    return dict(json.loads(json.dumps(asdict(ending))))


def test_stacks_name_the_students_file_and_hide_the_machine() -> None:
    """Paths of site-packages are cut to the package."""
    stack = [["/x/lib/python3.11/site-packages/torch/nn/a.py", 1, "f", False], ["/tmp/run/code/t.py", 2, "g", True]]
    ending = TimedOut(stack=stack_from(stack, "train_ddp.py"))
    assert [frame.file for frame in ending.stack] == ["torch/nn/a.py", "train_ddp.py"] and ending.at == 2


def test_a_rank_that_waits_at_the_deadline_is_told_after_one_that_is_busy() -> None:
    """Both were still there when the time was up; the one that communicates waits for the other, or was about to."""
    waiting = TimedOut(wait=Wait(operation="all_reduce"), stack=at(7), seconds=6.0)
    found = diagnosis(waiting, TimedOut(stack=at(9), seconds=7.0))
    assert found is not None and found.ranks == (1,)
    assert found.findings[1].sentence() == "Meanwhile on rank 0: was still in all_reduce (line 7)"


def test_ranks_that_a_look_finds_a_line_apart_are_alike() -> None:
    """Nobody is the other's consequence: they go round in the same loop."""
    found = diagnosis(TimedOut(stack=at(33), seconds=6.0), TimedOut(stack=at(34), seconds=6.1))
    assert found is not None and found.ranks == (0, 1)
    assert [finding.sentence() for finding in found.findings] == [
        "Still busy after 6 s, and stopped on rank 0: it was in train_ddp (line 33)",
        "Still busy after 6 s, and stopped on rank 1: it was in train_ddp (line 34)",
    ]


@pytest.mark.parametrize(
    ("endings", "word"),
    [
        ((stuck("all_reduce", 4), stuck("barrier", 5)), "same order"),
        ((stuck("barrier", 4), Finished()), "same order"),
        ((stuck("all_reduce", 4, 8), stuck("all_reduce", 4, 12)), "same size"),
        ((stuck("send to rank 1", 4), stuck("send to rank 0", 4)), "both send first"),
        ((stuck("the rendezvous", 4), stuck("the rendezvous", 4)), "one address"),
        ((stuck("barrier", 4), stuck("barrier", 4)), None),
    ],
)
def test_every_deadlock_has_the_hint_of_its_kind(endings: tuple[Ending, ...], word: str | None) -> None:
    """On its first finding, so that every page shows it; where ranks wait in just the same there is none to give."""
    found = diagnosis(*endings)
    assert found is not None
    hints = [finding.hint for finding in found.findings]
    assert (word is None and not any(hints)) or (hints[0] and word in hints[0] and not any(hints[1:]))


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        (
            raised(3, 1, "ContractError", importing=True),
            "The file is not what the exercise asks for on rank 0: boom (line 3)",
        ),
        (raised(3, 1, "NeverMeet"), "Processes that were to meet never did on rank 0: boom (line 3)"),
        (
            Raised(type="BdbQuit", message="", stack=at(3)),
            "A debugger was called (breakpoint or pdb), and nobody sits at it on rank 0 (line 3)",
        ),
        (
            raised(3, 1, "BrokenProcessPool", causes=('_RemoteTraceback: \n"""\nTraceback',)),
            'BrokenProcessPool was raised on rank 0: boom\ncaused by _RemoteTraceback: """\nTraceback (line 3)',
        ),
        (
            Raised(type="RuntimeError", message="\n\nProcess 1 failed", stack=at(3)),
            "RuntimeError was raised on rank 0: Process 1 failed (line 3)",
        ),
    ],
    ids=["contract", "never met", "debugger", "a cause of another process", "an empty first line"],
)
def test_names_that_say_nothing_to_a_student_are_told_in_plain_words(ending: Ending, sentence: str) -> None:
    """Nor is a line wasted that is empty."""
    assert sentences(ending, Finished())[0] == sentence


def test_a_limit_is_the_cause_and_named_where_the_grader_stopped_the_rank() -> None:
    """The others were stopped with it."""
    over = Killed(signal="SIGKILL", by_grader=True, limit="processes: 812, at most 500")
    found = diagnosis(Killed(signal="SIGKILL", by_grader=True), over)
    assert found is not None and (found.kind, found.ranks) == ("limit", (1,))
    assert found.findings[0].sentence() == "Reached the limit on processes on rank 1: 812, at most 500"
    assert str(found.findings[0].hint).startswith("A right solution stays far below the limit on processes, 500. ")


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ("output: more than 32 MiB", "output, 32 MiB."),
        ("memory: 5000 MiB, at most 4096 MiB for each rank", "memory, 4096 MiB for each rank."),
        ("disk: at most 64 MiB of files", "files, 64 MiB of files."),
        ("disk: more than can be looked at", "files."),
    ],
)
def test_the_hint_of_a_limit_names_it_since_it_is_told_alone_too(limit: str, told: str) -> None:
    """`make hint` shows no finding above it."""
    found = diagnosis(Killed(signal="SIGKILL", by_grader=True, limit=limit))
    assert found and str(found.findings[0].hint).startswith(f"A right solution stays far below the limit on {told} ")


def test_a_rank_that_was_stopped_is_the_cause_for_one_that_seems_busy() -> None:
    """The other one waits for it in C++, where nobody sees what it waits in."""
    busy = RankRecord(rank=0, ending=TimedOut(seconds=7.0))
    stopped = RankRecord(rank=1, ending=Killed(signal="SIGSTOP", seconds=7.0))
    found = diagnose(Case(name="a", world_size=2, probe="a"), (busy, stopped), "a.py")
    assert found is not None and found.ranks == (1,)
    assert found.findings[0].subject == "The process was stopped by a signal and never went on"
