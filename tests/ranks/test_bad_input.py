"""Real ranks: what a student's file prints, reads, sets, records or lacks."""

from __future__ import annotations

import pytest

from grader.model import TimedOut
from tests.conftest import RunIt
from tests.ranks.told import sentences


def test_endless_output_is_cut_in_the_middle(run_on_ranks: RunIt) -> None:
    """Head and tail stay; the run is judged by what it did."""
    run = run_on_ranks("prints_without_end")
    assert run.diagnosis is None
    text = run.ranks[0].output
    assert len(text) < 40_000 and text.startswith("0 x") and "bytes left out" in text and "299999 x" in text


def test_there_is_no_input_to_read(run_on_ranks: RunIt) -> None:
    """input() raises instead of waiting for ever."""
    assert "EOFError was raised" in sentences(run_on_ranks("reads_input"))


def test_a_start_method_of_his_own_does_no_harm(run_on_ranks: RunIt) -> None:
    """set_start_method is the student's own business."""
    assert run_on_ranks("sets_a_start_method").diagnosis is None


def test_only_data_of_exact_types_crosses(run_on_ranks: RunIt) -> None:
    """A function is refused where it is recorded, and so is a second report under one name."""
    assert "WireError was raised" in sentences(run_on_ranks("records_a_function"))
    assert "recorded twice" in sentences(run_on_ranks("records_twice"))


IMPORTS = {
    "a missing name": ("def other(): ...", "does not define wanted"),
    "a name that is no function": ("wanted = 3", "wanted must be callable"),
    "too few parameters": ("def wanted(): ...", "wanted must be callable as wanted(rank, *, lr=0.1)"),
    "a missing keyword": ("def wanted(rank): ...", "unexpected keyword argument 'lr'"),
    "an import error": ("import no_such_module", "No module named 'no_such_module'"),
    "an exit at import": ("import sys\nsys.exit(0)", "left by sys.exit(0)"),
    "an exception at import": ("x = 1\nraise RuntimeError('at the top')", "at the top"),
}


@pytest.mark.parametrize("fault", IMPORTS)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(run_on_ranks: RunIt, fault: str) -> None:
    """What is missing is named, as the contract calls it."""
    source, sentence = IMPORTS[fault]
    run = run_on_ranks("", source=source, process_group=False, world_size=1)
    assert sentence in sentences(run)


def test_a_file_that_cannot_be_imported_is_called_as_it_was_handed_in(run_on_ranks: RunIt) -> None:
    """Ranks have it under the exercise's name, which is another file's where the student looks."""
    how = {"process_group": False, "world_size": 1, "handed_in": "elsewhere/mine.py"}
    assert "mine.py could not be imported" in sentences(run_on_ranks("", source="import no_such_module", **how))


def test_a_right_file_is_usable(run_on_ranks: RunIt) -> None:
    """The control beside the faults: the contract's signature, one that takes more, and one that a decorator makes of
    a function that takes more still, whose name and signature it copies."""
    decorated = "import functools as f\ndef inner(a, b, c): ...\n@f.wraps(inner)\ndef wanted(rank, *, lr=0.1): ..."
    for source in (
        "def wanted(rank, *, lr=0.1): ...",
        "def wanted(rank, lr=0.1, more=2): ...",
        "def wanted(*a, **k): ...",
        decorated,
    ):
        assert run_on_ranks("", source=source, process_group=False, world_size=1).diagnosis is None


def test_an_import_that_never_ends_is_stopped_at_its_line(run_on_ranks: RunIt) -> None:
    """The line of the loop is named."""
    run = run_on_ranks("", source="x = 1\nwhile True:\n    x += 1\n", process_group=False, world_size=1, deadline=1.0)
    assert isinstance(run.ranks[0].ending, TimedOut) and run.ranks[0].ending.at in (2, 3)
