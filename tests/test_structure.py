"""grader.records.structure: nouns come back from plain data, and nothing comes in but what they declare."""

from __future__ import annotations

import math
from typing import Any

import pytest

from grader.model import Case, Deadlocked, Ending, Finished, Killed, RankRecord, Run, TimedOut, Wait
from grader.model.trace import Communication, Span, Trace
from grader.records.structure import REFUSALS, structure, trace_of, unstructure

CALL = Communication(operation="send", bytes=8, dtype="float32", group=(0, 1), peer=1, start=0.5)
TRACE = Trace(communications=(CALL,), spans=(Span(kind="region", name="step", start=0, end=1.5),))
ENDINGS = (
    Finished(seconds=1.0),
    Killed(signal="SIGKILL", limit="memory"),
    Deadlocked(wait=Wait(operation="barrier", sequence=3)),
    TimedOut(),
)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.kind)
def test_an_ending_comes_back_by_its_kind(ending: Ending) -> None:
    """Whichever of the classes it is."""
    assert structure(Ending, unstructure(ending)) == ending


def test_a_run_comes_back_with_all_that_is_in_it() -> None:
    """Nested nouns, mappings, tuples, and None where a field may be empty."""
    case = Case(name="train", world_size=4, probe="train", parameters={"steps": [1, 2]}, environment={"X": None})
    ranks = tuple(
        RankRecord(rank=i, ending=ending, observations={"loss": [0.5, math.nan]}, trace=TRACE if i else None)
        for i, ending in enumerate(ENDINGS)
    )
    run = Run(case=case, ranks=ranks, seconds=2)
    assert repr(structure(Run, unstructure(run))) == repr(run)


@pytest.mark.parametrize(
    "noun, raw",
    [
        (Wait, {"operation": "barrier", "bytes": True}),
        (Wait, {"operation": "barrier", "bytes": 2**63}),
        (Wait, {"operation": "barrier", "colour": "red"}),
        (Wait, {"group": "default"}),
        (Wait, ["barrier"]),
        (Finished, {"seconds": math.nan}),
        (Finished, {"stack": "abc"}),
        (Ending, {"seconds": 1.0}),
        (Ending, {"kind": "won"}),
        (Ending, {"kind": []}),
    ],
)
def test_what_does_not_fit_is_refused(noun: Any, raw: Any) -> None:
    """A bool is no int, a text is no list, and a number is finite and of a size that arithmetic can take."""
    with pytest.raises(REFUSALS):
        structure(noun, raw)


def test_a_field_that_older_files_lack_has_its_default() -> None:
    """So that a noun can grow."""
    assert structure(Wait, {"operation": "barrier"}) == Wait(operation="barrier")


def test_a_refusal_names_the_place() -> None:
    """Of the value that does not fit."""
    with pytest.raises(TypeError, match=r"RankRecord\.ending: Deadlocked\.wait: Wait\.peer: a str where a int belongs"):
        ending = {"kind": "deadlocked", "wait": {"operation": "recv", "peer": "1"}}
        structure(RankRecord, {"rank": 0, "ending": ending})


def test_a_trace_of_endless_names_is_none() -> None:
    """A rank's texts are short; what is not has been forged."""
    plain = unstructure(TRACE)
    plain["spans"][0]["name"] = "x" * 201
    assert trace_of(unstructure(TRACE)) == TRACE and trace_of(plain) is None
