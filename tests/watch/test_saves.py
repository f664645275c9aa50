"""The model of watch mode, events in and a State out: saves, and a worker that dies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.practice.watch.nouns import Cancel, Ended, Grade, Said, Saved, Start, Watch
from grader.practice.watch.state import Phase, advance
from tests import reports
from tests.watch.states import began, fresh, graded, pressed, said, shown


def test_at_the_start_the_file_is_graded_as_it_is():
    state = fresh(seed=5)
    assert state.effects == (
        Watch(exercise=reports.EXERCISE, digest="a"),
        Start(worker=1, name="03_train_ddp"),
        Grade(seed=5),
    )
    assert state.phase is Phase.RUNNING and "starting" in shown(state)


def test_a_save_during_a_grade_calls_it_off_and_grades_again_when_the_worker_is_free():
    state = advance(began(fresh()), Saved(digest="b"))
    assert (state.effects, state.phase) == ((Cancel(),), Phase.CANCELLING)
    state = said(state, "cancelled")
    assert (state.effects, state.phase, state.grade) == ((Grade(),), Phase.RUNNING, 2)


def test_a_burst_of_saves_is_graded_once():
    state = began(fresh())
    effects = []
    for digest in "bcdefg":
        state = advance(state, Saved(digest=digest))
        effects += state.effects
    state = said(state, "cancelled")
    assert [*effects, *state.effects] == [Cancel(), Grade()] and state.digest == "g"


def test_an_editor_that_writes_the_same_twice_disturbs_no_grade():
    state = advance(began(fresh()), Saved(digest="a"))
    assert state.effects == () and state.phase is Phase.RUNNING


def test_saving_the_same_again_grades_again_when_nothing_runs():
    assert advance(graded(reports.passed()), Saved(digest="a")).effects == (Grade(),)


def test_a_deleted_file_calls_the_grade_off_and_is_waited_for():
    state = said(advance(began(fresh()), Saved(digest=None)), "cancelled")
    assert state.effects == () and "waiting for the file" in shown(state)
    assert advance(state, Saved(digest="b")).effects == (Grade(),)


def test_a_file_that_is_missing_at_the_start_is_waited_for():
    state = fresh(digest=None)
    assert Grade() not in state.effects and state.phase is Phase.IDLE
    assert advance(state, Saved(digest="b")).effects == (Grade(),)


def test_a_report_that_comes_before_the_cancel_counts_and_the_new_file_is_graded():
    state = advance(began(fresh()), Saved(digest="b"))
    state = said(state, "report", reports.partial(), first=0.1, seconds=0.2)
    assert state.attempts == 1 and state.effects == (Grade(),) and state.busy


def test_what_an_earlier_grade_or_worker_says_is_not_heard():
    state = began(fresh())
    late = {"event": "verdict", "grade": 0, "check": "runs", "outcome": "failed", "score": 0.0, "message": ""}
    assert advance(state, Said(worker=1, event=late)).rows == state.rows
    assert advance(state, Said(worker=0, event={**late, "grade": 1})).rows == state.rows
    assert advance(state, Ended(worker=0)).phase is Phase.RUNNING


@pytest.mark.parametrize("event", [{}, {"event": "verdict"}, {"event": "began", "grade": 1}, {"event": "report"}])
def test_an_odd_event_changes_nothing(event):
    state = began(fresh())
    assert advance(state, Said(worker=1, event={"grade": 1, **event})) == replace(state, effects=())


# -- a worker that dies ------------------------------------------------------------------------------------------------


def test_a_worker_that_died_is_replaced_at_the_next_save():
    state = advance(began(fresh()), Ended(worker=1, reason="The process that grades has ended (signal 9)."))
    assert state.phase is Phase.DOWN and state.effects == () and "signal 9" in shown(state)
    state = advance(state, Saved(digest="b"))
    assert state.effects == (Start(worker=2, name="03_train_ddp"), Grade())
    assert (state.grade, state.fault) == (1, "")


def test_a_worker_that_died_is_replaced_at_a_key():
    state = pressed(advance(began(fresh()), Ended(worker=1)), "rerun")
    assert state.effects == (Start(worker=2, name="03_train_ddp"), Grade())


def test_a_fault_is_shown_and_the_next_save_is_graded():
    state = said(began(fresh()), "fault", sentence="The ranks could not be run: no room.")
    assert "no room" in shown(state) and "not graded" in shown(state)
    assert advance(state, Saved(digest="b")).effects == (Grade(),)
