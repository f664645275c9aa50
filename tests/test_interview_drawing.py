"""What an interview draws: an exercise that is due, and questions that are not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from grader.practice.store import Store
from grader.quiz.interview import drawing
from tests.attempts import COURSE, NOW, attempt
from tests.interviewing import BANKS, CHOICE, Person, begun, letter
from tests.reports import partial, passed


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(store=Store(tmp_path / "progress.sqlite3"))


def passes(attempts) -> dict[str, datetime]:
    return {attempt.exercise: attempt.at for attempt in attempts if attempt.status == "passed"}


def test_an_exercise_that_was_passed_lately_is_not_drawn():
    attempts = [attempt("01_join", "passed", days=3), attempt("02_shard", "passed", days=20)]
    drawn = {drawing.draw_exercise(COURSE, passes(attempts), 55, NOW, seed).name for seed in range(30)}
    assert drawn == {"02_shard"}


def test_an_exercise_fits_the_time_and_comes_after_what_it_builds_on():
    assert {drawing.draw_exercise(COURSE, {}, 90, NOW, seed).name for seed in range(30)} == {"01_join"}
    attempts = [attempt("01_join", "passed", days=30), attempt("02_shard", "passed", days=30)]
    assert {drawing.draw_exercise(COURSE, passes(attempts), 90, NOW, seed).name for seed in range(30)} == {
        e.name for e in COURSE
    }
    assert "03_train" not in {drawing.draw_exercise(COURSE, passes(attempts), 45, NOW, seed).name for seed in range(30)}


def test_where_all_that_fit_were_just_passed_it_is_the_shortest_of_the_others():
    attempts = [attempt("01_join", "passed", days=0), attempt("02_shard", "passed", days=1)]
    shortest = min((each for each in COURSE if each.name not in passes(attempts)), key=lambda each: each.time_box)
    assert drawing.draw_exercise(COURSE, passes(attempts), 1, NOW, 3) == shortest


def test_what_was_passed_in_an_interview_counts_as_passed(person):
    over = begun().graded(partial(), NOW).graded(passed(), NOW + timedelta(minutes=9)).ended("over", NOW)
    assert drawing.passed_in([begun(), over]) == {"01_join": NOW}


def test_where_all_were_passed_lately_it_is_the_one_that_was_longest_ago():
    attempts = [attempt(each.name, "passed", days=days) for days, each in enumerate(COURSE, start=1)]
    assert drawing.draw_exercise(COURSE, passes(attempts), 90, NOW, 1).name == "03_train"


def test_questions_about_the_exercise_come_first_and_known_ones_do_not_come():
    for seed in range(20):
        drawn = drawing.draw_questions(BANKS, set(), COURSE[0], 55, seed)
        assert drawn[0] is CHOICE and len(drawn) == 3
    banks = (replace(BANKS[0], questions=(CHOICE, replace(CHOICE, id="overlap/other"))), *BANKS[1:])
    drawn = drawing.draw_questions(banks, {"overlap/why"}, COURSE[0], 55, 1, count=4)
    assert "overlap/why" not in {question.id for question in drawn}


def test_what_was_answered_right_lately_is_known_until_it_is_missed(person):
    session = person.session(begun(), "q", letter(True), "q", "1 MB", "f")
    session.hold()
    assert drawing.known_lately(person.store, NOW) == {"overlap/why"}
    assert drawing.known_lately(person.store, NOW + timedelta(days=15)) == set()
