"""The model of watch mode: what each key asks for."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from grader.practice.overview import Entry
from grader.practice.watch.keys import KEYS, failing_line
from grader.practice.watch.nouns import (
    Copy,
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
    Start,
    Watch,
)
from grader.practice.watch.state import advance
from tests import reports
from tests.watch.states import NAMES, PATH, began, fresh, graded, pressed, said, shown
from tests.watching import Office


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
    for key in ("escape", "enter", "other"):
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
    assert pressed(state, "enter").effects == () and pressed(state, "escape").overlay is Overlay.NONE
    assert pressed(state, *["up"] * 5).cursor == 0


def test_what_is_found_out_of_the_exercises_later_moves_nothing():
    """The list is there at once with what is known; what files hold is looked at meanwhile."""
    known = tuple(Entry(name=name, exercise=None) for name in NAMES)
    found = tuple(replace(entry, exercise=replace(reports.EXERCISE, name=entry.name), begun=True) for entry in known)
    state = pressed(advance(fresh(), Listed(entries=known)), "down")
    assert "at fault" not in shown(state)
    later = advance(state, Listed(entries=found, since=True))
    assert later.cursor == state.cursor == 2 and later.overlay is Overlay.LIST and "begun" in shown(later)
    left = advance(pressed(state, "escape"), Listed(entries=found, since=True))
    assert left.overlay is Overlay.NONE and left.effects == ()


def test_a_key_for_the_list_waits_for_no_look_into_files(tmp_path, monkeypatch):
    office = Office(tmp_path)
    look, done = threading.Event(), threading.Event()

    def entries(root: Path, passed: object) -> list[Entry]:
        look.wait(20)
        done.set()
        return [Entry(name="90_total", exercise=None), Entry(name="91_total", exercise=None, begun=True)]

    monkeypatch.setattr("grader.practice.overview.entries", entries)
    office.loop.handle(Key(name="list"))
    assert office.loop.state.overlay is Overlay.LIST and not done.is_set()
    look.set()
    while not isinstance(event := office.events.get(timeout=20), Listed):
        pass
    assert event.since and event.entries[1].begun
    office.effects.close()


def test_a_submission_from_elsewhere_is_neither_reset_nor_left():
    state = graded(reports.partial(), fresh(submission=True))
    for key in ("next", "previous", "reset"):
        assert pressed(state, key).effects == () and pressed(state, key).notice
        assert pressed(state, key).overlay is Overlay.NONE


def test_help_names_every_key_and_any_key_leaves_it():
    state = pressed(fresh(), "help")
    assert all(what.split()[0] in shown(state) for _, what in KEYS.values())
    assert pressed(state, "other").overlay is Overlay.NONE


def test_q_quits_wherever_the_last_line_says_so_and_the_last_line_names_no_key_that_does_nothing():
    listed = advance(fresh(), Listed(entries=(Entry(name=NAMES[0], exercise=None),)))
    over = [pressed(fresh(), "help"), pressed(fresh(), "reset"), listed]
    for state in [fresh(), *over]:
        assert "q quit" in shown(state) and pressed(state, "quit").effects == (Quit(),)
    assert [("r rerun" in shown(state), "Esc back" in shown(state)) for state in over] == [
        (False, False), (False, False), (False, True),
    ]  # fmt: skip


def test_a_key_takes_away_what_was_said():
    state = advance(graded(reports.partial()), Notice(text="Opened it"))
    assert "Opened it" in shown(state) and "Opened it" not in shown(pressed(state, "down"))
