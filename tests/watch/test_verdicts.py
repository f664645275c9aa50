"""The model of watch mode: verdicts as they come."""

from __future__ import annotations

from grader.practice.watch.nouns import Chosen, Saved
from grader.practice.watch.state import State, advance
from tests import reports
from tests.watch.states import CHECKS, STUCK, after, began, fresh, graded, pressed, said, shown


def verdict(state: State, check: str, outcome: str, message: str = "") -> State:
    return said(state, "verdict", check=check, outcome=outcome, score=0.0, message=message)


def test_what_fails_stands_first_and_the_rest_keeps_its_order():
    state = verdict(verdict(began(fresh()), "runs", "passed"), "reshuffles", "failed", "the same order")
    assert [row.id for row in state.ordered] == [
        "reshuffles",
        "runs",
        "same_as_one_process",
        "saves_once",
        "leaves",
    ]
    assert state.selected and state.selected.id == "reshuffles" and "the same order" in shown(state)


def test_the_order_holds_while_the_next_grade_has_not_judged_anew():
    state = graded(reports.partial())
    order = [row.id for row in state.ordered]
    state = began(after(state, Saved(digest="b")))
    assert [row.id for row in state.ordered] == order and all(row.outcome is None for row in state.rows)
    assert "as it was before the last save" in shown(state)


def test_a_check_that_was_chosen_stays_chosen():
    state = pressed(began(fresh()), "down", "down")
    chosen = state.chosen
    state = verdict(state, "leaves", "failed")
    assert state.selected and state.selected.id == chosen == "reshuffles"


def test_escape_goes_back_to_the_first_that_fails():
    state = pressed(graded(reports.partial()), "down", "down", "down")
    assert state.selected and state.selected.outcome == "passed"
    assert pressed(state, "escape").selected == state.ordered[0]


def test_a_check_that_is_not_judged_anew_has_no_mark_of_before():
    state = began(after(graded(reports.passed()), Saved(digest="b")))
    assert "✓" not in shown(state) and "0/100" in shown(state)


def test_the_selection_ends_at_the_first_and_at_the_last_check():
    assert pressed(began(fresh()), "up").chosen == "runs"
    assert pressed(began(fresh()), *["down"] * 9).chosen == "leaves"
    assert advance(began(fresh()), Chosen(check="leaves")).chosen == "leaves"


def test_the_score_grows_as_verdicts_come():
    state = verdict(verdict(began(fresh()), "runs", "passed"), "saves_once", "passed")
    assert "32.5/100 points" in shown(state)
    assert "running 3 cases" in shown(state)


def test_finished_cases_are_counted_and_the_import_is_none():
    state = began(fresh())
    for case in ("import[1]", "train[1]", "train[3]"):
        state = said(state, "run", case=case, seconds=0.1, diagnosis=None)
    assert "running 2 of 3 cases" in shown(state)


def test_ranks_that_stand_still_are_shown_until_they_move_or_end():
    state = said(began(fresh()), "live", case="train[2]", ranks=STUCK)
    assert "train[2] stands still:" in shown(state) and "rank 1  waits in barrier" in shown(state)
    assert "line 42" in shown(state)
    assert said(state, "live", case="train[2]", ranks=[]).live == ()
    assert said(state, "run", case="train[2]", seconds=2.0, diagnosis="deadlocked").live == ()
    assert advance(state, Saved(digest="b")).live == ()


def test_an_edited_manifest_brings_its_checks():
    checks = [*CHECKS[1:], {"id": "new", "title": "A new one", "points": 3.0}]
    state = said(graded(reports.passed()), "ready")
    state = said(pressed(state, "rerun"), "began", seed=1, checks=checks, cases=[])
    assert [row.id for row in state.rows][-1] == "new" and "runs" not in [row.id for row in state.rows]


def test_after_a_pass_it_waits():
    state = graded(reports.passed())
    assert state.effects == () and "Every check passed" in shown(state) and "passed · 100/100" in shown(state)


def test_attempts_are_counted():
    state = graded(reports.partial(), graded(reports.partial()) and fresh())
    state = graded(reports.passed(), advance(state, Saved(digest="b")))
    assert state.attempts == 2 and "attempt 2" in shown(state)
