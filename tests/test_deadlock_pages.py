"""A deadlock on every page: the terminal's, the browser's, watch mode's, the lines of other formats, the hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from grader.model import Deadlocked, Ending, Finding, Raised, Report, Run, StackFrame, Wait, alone
from grader.practice.watch.details import details
from grader.practice.watch.nouns import Phase, State
from grader.practice.watch.state import begin
from grader.ranks.diagnosis import SAME_ORDER, diagnose
from grader.render import github, html, junit, terminal
from grader.wording.text import place
from tests import reports

PROBE = (StackFrame(file="probe.py", line=7, function="save"),)


def watched(report: Report, width: int = 100) -> str:
    """What watch mode says of the first check that fails."""
    state = begin(report.exercise, Path("train_ddp.py"), (report.exercise.name,), digest="a")
    rows = tuple(
        replace(row, outcome=verdict.outcome.value) for row, verdict in zip(state.rows, report.verdicts, strict=True)
    )
    shown: State = replace(state, phase=Phase.IDLE, rows=rows, report=report, hints={"runs": 1})
    return "\n".join(line.plain for line in details(shown, width))


PAGES: dict[str, Callable[[Report], str]] = {
    "terminal": terminal.render,
    "html": lambda report: unescape(html.render(alone(report))),
    "watch": watched,
    "junit": lambda report: unescape(junit.render(alone(report))),
    "summary": lambda report: github.summary(alone(report)),
}


def report_of(*endings: Ending) -> Report:
    """A report whose first check failed because the ranks of one run ended so."""
    records = reports.ranks(*endings)
    case = reports.case(world_size=len(endings))
    found = diagnose(case, records, "train_ddp.py")
    assert found is not None
    run = Run(case=case, ranks=records, seconds=1.0, diagnosis=found)
    return reports.report("FBBBB", {"runs": found.findings}, (run,), reports.submission())


def stuck(operation: str, line: int) -> Deadlocked:
    return Deadlocked(stack=(reports.frame(line),), wait=Wait(operation=operation))


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_what_one_rank_raised_stands_beside_those_that_wait_for_it(page: Callable[[Report], str]) -> None:
    """With its line and its cause; and so does what the grader has caught before its own code waits."""
    raised = Raised(stack=(reports.frame(41),), type="SaveError", message="not saved", causes=("OSError: \nno space",))
    shown = page(report_of(raised, stuck("broadcast", 52)))
    for words in ("SaveError was raised", "not saved", "caused by OSError: no space", "41", "broadcast", "52"):
        assert words in shown, words


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_what_the_grader_has_caught_stands_beside_its_own_operation(page: Callable[[Report], str]) -> None:
    """Whose it is, and the line that raised."""
    own = Deadlocked(stack=PROBE, wait=Wait(operation="barrier"), caught="KeyError: epoch", caught_at=12)
    shown = page(report_of(own, stuck("broadcast", 52)))
    for words in ("barrier, the grader's own", "an exception was raised", "KeyError: epoch", "12", "52"):
        assert words in shown, words


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_a_deadlock_in_different_collectives_has_its_hint(page: Callable[[Report], str]) -> None:
    """The deadlock's, and not the check's, which knows nothing of it."""
    shown = " ".join(page(report_of(stuck("all_reduce", 38), stuck("barrier", 42))).split())
    assert SAME_ORDER in shown


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_a_deadlock_stands_with_the_checks_that_it_has_failed_alone(page: Callable[[Report], str]) -> None:
    """And not before what another check has found in what the same run had recorded until then."""
    (run,) = report_of(stuck("all_reduce", 38), stuck("barrier", 42)).runs
    before = Finding(subject="the first step", expected="1.5", actual="3.0", case=run.case.id)
    shown = page(reports.report("FBBBB", {"runs": (before,)}, (run,), reports.submission()))
    assert "the first step" in shown
    assert "Deadlock: no rank can go on" not in shown


@pytest.mark.parametrize("width", [40, 60])
def test_the_lines_of_a_deadlock_stay_on_a_narrow_page(width: int) -> None:
    """What is cut is the name of what a rank waits in."""
    long = report_of(stuck("reduce_scatter_tensor (called by reduce_scatter_in_a_long_function)", 61), stuck("x", 62))
    for page in (terminal.render(long, width=width), watched(long, width)):
        assert re.search(r" 61$", page, re.M) and re.search(r" 62$", page, re.M)


@pytest.mark.parametrize(
    ("subject", "ranks", "told"),
    [
        ("rank 0 of 5, 20 samples (shuffle=True)", (), "line 4"),
        ("rank 0 of 5, 20 samples (shuffle=True)", (1,), "asked in the process of rank 1 · line 4"),
        ("5 ranks together, 20 samples", (0, 2), "asked in the processes of ranks 0, 2 · line 4"),
        ("the order of samples", (1,), "rank 1 of 3 · line 4"),
        ("the order of samples", (), "on 3 ranks · line 4"),
    ],
)
def test_ranks_that_were_only_asked_for_are_not_told_beside_those_of_the_run(
    subject: str, ranks: tuple[int, ...], told: str
) -> None:
    """`rank 0 of 5 … on 3 ranks` makes nobody wiser."""
    finding = Finding(subject=subject, ranks=ranks, line=4, case="general[3]")
    assert place(finding, reports.EXERCISE) == told


def test_watch_draws_the_timeline_of_a_deadlock_once() -> None:
    """As the terminal's page does."""
    from tests.pages import timelines

    report = timelines()
    failed = next(verdict.check.id for verdict in report.verdicts if verdict.findings)
    state = begin(report.exercise, Path("train_ddp.py"), (report.exercise.name,), digest="a")
    rows = tuple(replace(row, outcome="failed") for row in state.rows)
    shown = replace(state, phase=Phase.IDLE, rows=rows, report=report, chosen=failed)
    assert "\n".join(line.plain for line in details(shown, 80)).count("in order, from left to right") == 1
