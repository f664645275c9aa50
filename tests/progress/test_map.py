"""What is made of attempts: how each exercise stands, what comes next, and the map."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from grader.practice import course_map, history
from grader.practice.store import Store
from tests.attempts import COURSE, NOW, attempt, exercise
from tests.reports import partial


def test_a_report_becomes_an_attempt():
    made = history.attempt_of(partial(), NOW)
    assert (made.exercise, made.status, made.score, made.max_score, made.seed) == (
        "03_train_ddp",
        "failed",
        40,
        100,
        123,
    )
    assert made.checks["reshuffles"] == "failed" and made.checks["leaves"] == "passed"


def test_a_standing_counts_the_attempts_until_the_first_pass(store):
    for status in ("failed", "failed", "passed", "failed", "passed"):
        store.add(attempt(status=status))
    store.add_hint("01_join", "runs", 1, NOW)
    (standing, *_) = history.standings(COURSE, store)
    assert (standing.state, standing.attempts, standing.until_pass, standing.best, standing.hints) == (
        "passed",
        5,
        3,
        100,
        1,
    )


def test_what_comes_next_is_what_was_begun_last_then_what_builds_on_what_is_passed(store):
    assert history.next_one(history.standings(COURSE, store)).exercise.name == "01_join"
    store.add(attempt("01_join", "passed"))
    assert history.next_one(history.standings(COURSE, store)).exercise.name == "02_shard"
    store.add(attempt("03_train"))
    assert history.next_one(history.standings(COURSE, store)).exercise.name == "03_train"
    for name in ("02_shard", "03_train"):
        store.add(attempt(name, "passed"))
    assert history.next_one(history.standings(COURSE, store)) is None


def shown(store: Store, **how) -> str:
    return course_map.page(history.standings(COURSE, store), NOW, **{"color": False, "width": 80, **how})


def test_the_map_shows_what_is_done_and_what_comes_next(store):
    for each in (attempt(days=3), attempt(status="passed", days=2), attempt("02_shard", days=0.1)):
        store.add(each)
    page = shown(store)
    assert page.splitlines()[0] == "1 of 3 passed, about 1 h 30 min to go"
    assert "passed on try 2, 2 days ago" in page and "last tried 2 hours ago" in page
    assert "Go on with: 02 Shard" in page and "60 min, after 01, 02" in page
    assert max(map(len, page.splitlines())) <= 80


def test_the_map_tells_of_a_pass_in_an_interview_until_the_file_itself_passes(store):
    interviewed = {"01_join": NOW - timedelta(hours=3)}

    def remark() -> str:
        return course_map.remark(history.standings(COURSE, store, interviewed)[0], NOW)

    assert remark() == "passed in an interview, 3 hours ago"
    store.add(attempt(days=1))
    assert remark() == "last tried 1 day ago; passed in an interview, 3 hours ago"
    store.add(attempt(status="passed"))
    assert remark().startswith("passed on try 2")


def test_the_map_ends_with_the_parts_and_what_one_can_do_now(store):
    """A part of which the course has nothing is not shown; one of which it has not all promises nothing."""
    course = (exercise("00_first"), *COURSE)
    store.add(attempt("00_first", "passed"))
    store.add(attempt("02_shard", "passed"))
    found = history.standings(course, store)
    page = " ".join(course_map.page(found, NOW, color=False, width=200).split())
    assert "✓ Warm-up 1/1 You can call a collective, and say when ranks wait for ever" in page
    assert "Part 1 · Data parallel training 1/3 Next: 01" in page and "Part 2" not in page
    plain = course_map.page(found, NOW, color=False, width=200, plain=True)
    assert "Warm-up: 1 of 1 passed. You can call a collective, and say when ranks wait for ever." in plain
    assert "Part 1 · Data parallel training: 1 of 3 passed.\n" in plain
    whole = (exercise(f"{number:02}_part") for number in range(1, 8))
    page = " ".join(course_map.page(history.standings(tuple(whole), store), NOW, color=False, width=200).split())
    assert "0/7 Then you can train a model on several GPUs exactly as on one" in page
    parts = json.loads(course_map.as_json(found))["parts"]
    assert [(part["title"], part["passed"], part["of"]) for part in parts] == [
        ("Warm-up", 1, 1), ("Part 1 · Data parallel training", 1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_map_fits_its_width(store, width):
    store.add(attempt(status="passed"))
    assert max(map(len, shown(store, width=width).splitlines())) <= width


def test_the_plain_map_is_sentences_in_reading_order(store):
    store.add(attempt(status="passed", days=1))
    lines = shown(store, plain=True).splitlines()
    assert lines[0] == "01 Join: passed, best 100 %, 1 tries. Passed on the first try, 1 day ago."
    assert lines[1] == "02 Shard: not begun. 30 min, after 01."


def test_the_map_as_data(store):
    store.add(attempt(status="passed"))
    data = json.loads(course_map.as_json(history.standings(COURSE, store)))
    assert data["next"] == "02_shard"
    assert data["exercises"][0] | {"passed_at": 0, "last_at": 0} == {
        "exercise": "01_join", "state": "passed", "attempts": 1, "until_pass": 1, "best": 100.0, "hints": 0,
        "passed_at": 0, "last_at": 0,
    }  # fmt: skip


def test_a_finished_course_says_what_keeps_it_fresh(store):
    for each in COURSE:
        store.add(attempt(each.name, "passed"))
    assert "make quiz and make interview keep it fresh" in shown(store)
