"""The model of watch mode: what is shown of it, on a screen and as plain lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.model import Case, Diagnosis, Finding, Run
from grader.practice.watch import details, pages, plain
from grader.practice.watch.nouns import Ended, Event, Said, Saved
from grader.practice.watch.state import State, advance
from tests import reports
from tests.watch.states import STUCK, began, fresh, graded, pressed, said, shown


def test_a_failed_check_shows_expected_and_got_with_its_line():
    text = shown(graded(reports.partial()))
    assert "expected  the same as in one process" in text and "line 41" in text
    assert "h gives a hint." in text and "printed" in text


def test_a_deadlock_is_a_table_of_ranks():
    text = shown(graded(reports.deadlock()))
    assert "waits in" in text and "barrier" in text and "42" in text


def test_a_stub_says_where_to_start():
    assert "Where to start:" in shown(graded(reports.stub()))


def test_a_syntax_error_keeps_its_caret_in_place():
    lines = shown(graded(reports.syntax_error()), 100).splitlines()
    caret = next(index for index, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1].index("nesterov") == lines[caret].index("^")


def test_a_syntax_error_is_told_whichever_check_is_selected():
    report = reports.syntax_error()
    state = graded(report)
    for check in (verdict.check.id for verdict in report.verdicts):
        text = shown(replace(state, chosen=check), 100)
        assert text.count("SyntaxError") == 1 and text.count("line 31") == 1, check
    fault = Finding(subject="train_ddp.py could not be imported", actual="ModuleNotFoundError: nosuch", line=1)
    imported = Run(case=Case(name="import", world_size=1, probe=""), ranks=(), seconds=0.1,
                   diagnosis=Diagnosis(kind="raised", ranks=(0,), findings=(fault,)))  # fmt: skip
    state = graded(replace(report, submission=reports.submission(), runs=(imported,)))
    assert "ModuleNotFoundError: nosuch" in shown(replace(state, chosen="leaves"), 100)


EVERY = [
    reports.passed,
    reports.partial,
    reports.deadlock,
    reports.stub,
    reports.syntax_error,
    reports.broken,
    reports.endings,
    reports.sizes,
]


@pytest.mark.parametrize("report", EVERY)
@pytest.mark.parametrize("width", [8, 20, 38, 60, 100])
def test_no_line_is_wider_than_the_screen(report, width):
    state = said(pressed(graded(report()), "hint", "hint", "hint"), "ready")
    stuck = said(began(pressed(state, "rerun")), "live", case="train[2]", ranks=STUCK)
    for shown_state in (state, stuck):
        lines = [
            *pages.header(shown_state, width),
            *pages.checks(shown_state, width),
            *pages.footer(shown_state, width),
        ]
        lines += details.details(shown_state, max(width, 38))
        assert max(line.cell_len for line in lines) <= max(width, 38)
    assert max(line.cell_len for line in pages.overlay(pressed(state, "help"), 38)) <= 38


def lines_of(state: State, *events: Event) -> list[str]:
    lines: list[str] = []
    for event in events:
        before, state = state, advance(state, event)
        lines += plain.changes(before, state)
    return lines


# -- plain lines -------------------------------------------------------------------------------------------------------


def test_plain_lines_come_in_reading_order():
    state = graded(reports.partial())
    now = Said(worker=1, event={"event": "verdict", "grade": 2, "check": "reshuffles", "outcome": "failed",
                                "score": 0.0, "message": "the same order (line 3)"})  # fmt: skip
    passed = Said(worker=1, event={**now.event, "check": "runs", "outcome": "passed", "message": ""})
    blocked = Said(worker=1, event={**now.event, "check": "leaves", "outcome": "blocked", "message": "needs: x"})
    stuck = Said(worker=1, event={"event": "live", "grade": 2, "case": "train[2]", "ranks": STUCK})
    end = Said(worker=1, event={"event": "report", "grade": 2, "first": 0.1, "seconds": 0.2}, report=reports.partial())
    assert lines_of(state, Saved(digest="b"), stuck, passed, now, now, blocked, end) == [
        "Saved; grading.",
        "train[2] stands still:",
        "  rank 0 waits in all_reduce, line 38",
        "  rank 1 waits in barrier, line 42",
        "Failed: The data is reshuffled every epoch",
        "  the same order (line 3)",
        "Blocked: The process group is destroyed at the end (needs: x)",
        *[line for line in lines_of(began(advance(state, Saved(digest="b"))), end) if line.startswith("Failed: The r")],
        "Score 40 of 100, seed 123.",
        "Waiting for a save.",
    ]


def test_plain_lines_say_a_save_during_a_grade_once():
    state = began(fresh())
    cancelled = Said(worker=1, event={"event": "cancelled", "grade": 1})
    assert lines_of(state, Saved(digest="b"), Saved(digest="c"), cancelled) == ["Saved; grading."]


def test_plain_lines_say_a_fault_and_a_death():
    fault = Said(worker=1, event={"event": "fault", "grade": 1, "sentence": "No room."})
    assert lines_of(began(fresh()), fault) == ["No room.", "Waiting for a save."]
    assert lines_of(began(fresh()), Ended(worker=1, reason="It ended.")) == ["It ended.", "Waiting for a save."]
