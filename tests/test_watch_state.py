"""The model of watch mode: events and keys in, a State out. No process, no terminal, no file."""

from __future__ import annotations

import queue
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.model import Report
from grader.practice.overview import Entry
from grader.practice.watch import details, pages, plain
from grader.practice.watch.keys import KEYS, failing_line
from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import (
    Cancel,
    Chosen,
    Copy,
    Ended,
    Event,
    Grade,
    Key,
    List,
    Listed,
    Load,
    Loaded,
    Notice,
    Open,
    Overlay,
    Quit,
    Reset,
    Said,
    Saved,
    Start,
    Watch,
)
from grader.practice.watch.state import Phase, State, advance, begin
from tests import reports
from tests.watching import Office

PATH = Path("/course/exercises/03_train_ddp/train_ddp.py")
NAMES = ("02_shard_data", "03_train_ddp", "04_launch")
CHECKS = [{"id": check.id, "title": check.title, "points": check.points} for check in reports.CHECKS]
CASES = ["train[1]", "train[2]", "train[3]"]
STUCK = [
    {"rank": 0, "told": "waits in all_reduce", "line": 38},
    {"rank": 1, "told": "waits in barrier", "line": 42},
]


def fresh(**changes: Any) -> State:
    return begin(reports.EXERCISE, PATH, NAMES, **{"digest": "a", **changes})


def after(state: State, *events: Event) -> State:
    for event in events:
        state = advance(state, event)
    return state


def said(state: State, event: str, report: Report | None = None, **facts: Any) -> State:
    """What the worker says of the grade that is under way."""
    told = {"event": event, "grade": state.grade, **facts}
    return advance(state, Said(worker=state.worker, event=told, report=report))


def began(state: State) -> State:
    return said(said(state, "ready"), "began", seed=7, checks=CHECKS, cases=CASES)


def verdict(state: State, check: str, outcome: str, message: str = "") -> State:
    return said(state, "verdict", check=check, outcome=outcome, score=0.0, message=message)


def graded(report: Report, state: State | None = None) -> State:
    return said(began(state or fresh()), "report", report, first=0.3, seconds=0.7)


def pressed(state: State, *keys: str) -> State:
    return after(state, *(Key(name=key) for key in keys))


def shown(state: State, width: int = 80) -> str:
    lines = [*pages.header(state, width), *pages.checks(state, width), *details.details(state, width)]
    lines += [*pages.footer(state, width), *pages.overlay(state, width)]
    return "\n".join(line.plain for line in lines)


# -- saves ------------------------------------------------------------------------------------------------------------


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


# -- a worker that dies -----------------------------------------------------------------------------------------------


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


# -- verdicts ---------------------------------------------------------------------------------------------------------


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


# -- keys -------------------------------------------------------------------------------------------------------------


def test_hints_come_one_by_one_and_belong_to_their_check():
    state = pressed(graded(reports.partial()), "hint")
    assert "Hint 1 of 3  DDP averages gradients." in shown(state) and "Second." not in shown(state)
    state = pressed(state, "hint", "hint")
    assert "Hint 3 of 3  Third." in shown(state)
    assert "last hint" in pressed(state, "hint").notice
    assert "Hint 1" not in shown(pressed(state, "down")) and "Hint 2" in shown(pressed(state, "down", "up"))


def test_a_check_that_passes_has_no_hint_to_give():
    assert "passes" in pressed(graded(reports.passed()), "hint").notice


def test_rerun_draws_a_seed_and_replay_keeps_it():
    state = graded(reports.partial())
    assert pressed(state, "rerun").effects == (Grade(seed=None),)
    assert pressed(state, "replay").effects == (Grade(seed=123),)
    assert pressed(graded(reports.partial(), fresh(seed=5)), "rerun").effects == (Grade(seed=5),)


def test_the_failing_line_is_shown_and_copied():
    state = pressed(graded(reports.partial()), "place")
    assert state.notice == f"{PATH}:41" and state.effects == (Copy(text=f"{PATH}:41"),)
    assert failing_line(graded(reports.syntax_error())) == 31
    elsewhere = replace(graded(reports.partial()), chosen="leaves")
    assert failing_line(elsewhere) is None and pressed(elsewhere, "place").notice == str(PATH)
    assert pressed(fresh(), "place").notice == str(PATH)


def test_the_report_is_opened_once_there_is_one():
    assert "no report" in pressed(fresh(), "report").notice
    report = reports.partial()
    assert pressed(graded(report), "report").effects == (Open(kind="report", report=report),)


def test_the_trace_is_recorded_by_the_same_grade_and_then_opened():
    state = pressed(graded(reports.partial()), "trace")
    assert state.effects == (Grade(seed=123, trace=True),)
    report = reports.partial()
    state = said(began(state), "report", report, first=0.1, seconds=0.2)
    assert state.effects == (Open(kind="trace", report=report),) and not state.open_trace


def test_reset_asks_first():
    state = pressed(graded(reports.partial()), "reset")
    assert state.overlay is Overlay.RESET and state.effects == () and "Put the stub" in shown(state)
    assert pressed(state, "yes").effects == (Reset(exercise=reports.EXERCISE),)
    for key in ("quit", "enter", "other"):
        assert pressed(state, key).effects == () and pressed(state, key).overlay is Overlay.NONE


def test_next_and_previous_stay_in_the_course():
    state = graded(reports.passed())
    assert pressed(state, "next").effects == (Load(name="04_launch"),)
    assert pressed(state, "previous").effects == (Load(name="02_shard_data"),)
    last = replace(state, names=NAMES[:2])
    assert pressed(last, "next").effects == () and "last exercise" in pressed(last, "next").notice


def test_keys_that_were_typed_ahead_find_done_what_the_ones_before_them_asked_for(tmp_path):
    """A list or another exercise is there at once, however fast somebody types while it starts."""
    office = Office(tmp_path)
    for name in ("list", "down", "enter", "down"):
        office.loop.handle(Key(name=name))
    state = office.loop.state
    assert state.exercise.name == "91_total" and state.chosen == state.ordered[1].id
    office.effects.close()


def test_another_exercise_gets_a_worker_of_its_own():
    other = replace(reports.EXERCISE, name="04_launch")
    state = advance(graded(reports.partial()), Loaded(exercise=other, path=PATH, digest="x"))
    assert state.effects == (Watch(exercise=other, digest="x"), Start(worker=2, name="04_launch"), Grade())
    assert (state.attempts, state.report, state.grade) == (0, None, 1)


def test_the_list_is_loaded_walked_and_left():
    entries = tuple(Entry(name=name, exercise=None) for name in NAMES)
    assert pressed(fresh(), "list").effects == (List(),)
    state = advance(fresh(), Listed(entries=entries))
    assert state.cursor == 1 and "› 03" in shown(state)
    assert pressed(state, "down", "enter").effects == (Load(name="04_launch"),)
    assert pressed(state, "enter").effects == () and pressed(state, "quit").overlay is Overlay.NONE
    assert pressed(state, *["up"] * 5).cursor == 0


def test_a_submission_from_elsewhere_is_neither_reset_nor_left():
    state = graded(reports.partial(), fresh(submission=True))
    for key in ("next", "previous", "reset"):
        assert pressed(state, key).effects == () and pressed(state, key).notice
        assert pressed(state, key).overlay is Overlay.NONE


def test_help_names_every_key_and_any_key_leaves_it():
    state = pressed(fresh(), "help")
    assert all(what.split()[0] in shown(state) for _, what in KEYS.values())
    assert pressed(state, "quit").effects == () and pressed(state, "other").overlay is Overlay.NONE
    assert pressed(fresh(), "quit").effects == (Quit(),)


def test_a_key_takes_away_what_was_said():
    state = advance(graded(reports.partial()), Notice(text="Opened it"))
    assert "Opened it" in shown(state) and "Opened it" not in shown(pressed(state, "down"))


# -- what is shown ----------------------------------------------------------------------------------------------------


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


# -- plain lines ------------------------------------------------------------------------------------------------------


def lines_of(state: State, *events: Event) -> list[str]:
    lines: list[str] = []
    for event in events:
        before, state = state, advance(state, event)
        lines += plain.changes(before, state)
    return lines


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


# -- anything at all --------------------------------------------------------------------------------------------------

names = st.sampled_from([*KEYS, "yes", "enter", "escape", "other"])
facts = st.sampled_from(
    [
        {"event": "ready"},
        {"event": "began", "seed": 3, "checks": CHECKS, "cases": CASES},
        {"event": "case", "case": "train[1]"},
        {"event": "live", "case": "train[2]", "ranks": STUCK},
        {"event": "run", "case": "train[2]", "seconds": 0.1, "diagnosis": None},
        {"event": "verdict", "check": "runs", "outcome": "failed", "score": 0.0, "message": "no"},
        {"event": "verdict", "check": "leaves", "outcome": "passed", "score": 7.5, "message": ""},
        {"event": "report", "first": 0.1, "seconds": 0.2},
        {"event": "cancelled"},
        {"event": "fault", "sentence": "no room"},
    ]
)
steps = st.one_of(
    st.builds(Key, name=names),
    st.builds(Saved, digest=st.sampled_from(["a", "b", None])),
    st.builds(lambda fact, grade: ("said", fact, grade), facts, st.integers(-1, 0)),
    st.just(Ended(worker=1)),
    st.just(Notice(text="done")),
    st.just(Listed(entries=tuple(Entry(name=name, exercise=None) for name in NAMES))),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_whatever_happens_it_goes_on_and_can_be_shown(happened):
    """At most one grade is ever under way, and every state has a page."""
    state, under_way = fresh(), 1
    for step in happened:
        if isinstance(step, tuple):
            _, fact, grade = step
            report = reports.partial() if fact["event"] == "report" else None
            counts = grade == 0 and state.busy and fact["event"] in ("report", "cancelled", "fault")
            event: Event = Said(worker=state.worker, event={**fact, "grade": state.grade + grade}, report=report)
            under_way -= counts
        else:
            event = step
            under_way = 0 if isinstance(step, Ended) and step.worker == state.worker else under_way
        before, state = state, advance(state, event)
        under_way += sum(isinstance(order, Grade) for order in state.effects)
        assert under_way in (0, 1) and (under_way == 1) == state.busy
        shown(state, 40)
        list(plain.changes(before, state))


def test_a_burst_of_saves_is_told_once():
    """Where each save calls off the grade of the one before, the lines would say nothing new."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    for grade, digest in enumerate("bcdef", start=1):
        events.put(Saved(digest=digest))
        events.put(Said(worker=1, event={"event": "cancelled", "grade": grade}))
    events.put(Key(name="quit"))
    said: list[str] = []
    plain.run(Loop(fresh(), Idle(), lambda report: None), events, said.append)  # type: ignore[arg-type]
    assert said.count("Saved; grading.") == 1


class Idle:
    """Effects that do nothing."""

    def carry_out(self, order: object) -> None: ...
