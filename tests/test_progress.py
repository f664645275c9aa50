"""What is kept of a person's work, and what is made of it: attempts, hints tied to checks, the map, explanations."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.model import Check, Exercise
from grader.model.errors import UsageError
from grader.practice import coach, course_map, history
from grader.practice.store import Attempt, Store, is_off, place
from tests.reports import partial

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
HINTS = ("look", "think", "write `this`")
CHECKS = (
    Check(
        id="runs",
        title="It runs",
        points=60,
        hints=HINTS,
        why="A job that ends early wastes all ranks.",
        section="The idea",
    ),
    Check(id="sums", title="It sums", points=40, hints=HINTS, needs=("runs",)),
)


def exercise(name: str, *prerequisites: str, time_box: int = 30, hints: tuple[str, ...] = HINTS) -> Exercise:
    return Exercise(
        name=name, title=name[3:].title(), summary="", folder=Path("exercises") / name, file=f"{name[3:]}.py",
        requires=(), cases=(), checks=CHECKS, prerequisites=prerequisites, time_box=time_box, hints=hints,
    )  # fmt: skip


COURSE = (
    exercise("01_join"),
    exercise("02_shard", "01_join"),
    exercise("03_train", "01_join", "02_shard", time_box=60),
)


def attempt(name: str = "01_join", status: str = "failed", days: float = 0, **outcomes: str) -> Attempt:
    checks = outcomes or {"runs": status, "sums": status if status == "passed" else "blocked"}
    score = sum(check.points for check in CHECKS if checks.get(check.id) == "passed")
    return Attempt(
        exercise=name, at=NOW - timedelta(days=days), status=status, score=score, max_score=100, seed=7, seconds=1.5,
        digest="ab", checks=checks,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "progress.sqlite3")


# -- the file ---------------------------------------------------------------------------------------------------------


def test_attempts_come_back_as_they_were(store):
    first, second = attempt(days=1), attempt("02_shard", "passed")
    store.add(first)
    store.add(second)
    again = Store(store.path)
    assert again.attempts() == (first, second)
    assert again.attempts("02_shard") == (second,)
    assert again.last("01_join") == first and again.last("03_train") is None


def test_two_processes_at_once_lose_nothing(store):
    """Four processes begin the same new file and add fifty attempts each."""
    code = (
        "import sys; from pathlib import Path; from tests.test_progress import Store, attempt\n"
        f"store = Store(Path({str(store.path)!r} + '2'))\n"
        "for number in range(50): store.add(attempt(days=number))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent.parent) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(Store(Path(f"{store.path}2")).attempts()) == 200


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "torn"]
)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(tmp_path, content):
    path = tmp_path / "progress.sqlite3"
    path.write_bytes(content)
    store = Store(path)
    assert store.set_aside is not None and store.set_aside.read_bytes() == content
    store.add(attempt())
    assert len(Store(path).attempts()) == 1 and Store(path).set_aside is None


def test_two_that_find_the_same_damage_lose_nothing(tmp_path):
    """One sets the file aside; the other finds the new one, with what is in it by then."""
    path = tmp_path / "progress.sqlite3"
    path.write_bytes(b"not a database at all" * 100)
    code = (
        "import sys; from pathlib import Path; from tests.test_progress import Store, attempt\n"
        f"store = Store(Path({str(path)!r})); store.add(attempt())\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent.parent) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(Store(path).attempts()) == 4 and len(list(tmp_path.glob("*.damaged-*"))) == 1


def test_a_file_with_other_tables_is_set_aside_too(tmp_path):
    path = tmp_path / "progress.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE attempts (id INTEGER, other TEXT)")
    assert Store(path).set_aside is not None


def test_a_file_of_a_newer_version_is_left_alone(store):
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="newer version"):
        Store(store.path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="RANKLINGS_DATA names another folder"):
        Store(tmp_path / "file" / "progress.sqlite3")


def test_deleting_forgets_everything(store):
    store.add(attempt())
    store.delete()
    assert not store.path.exists() and Store(store.path).attempts() == ()


def test_the_place_follows_the_variable_then_the_repository_then_the_person(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKLINGS_DATA", str(tmp_path / "mine"))
    assert place(tmp_path) == tmp_path / "mine" / "progress.sqlite3"
    monkeypatch.delenv("RANKLINGS_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    assert place(tmp_path) == tmp_path / "home" / "ranklings" / "progress.sqlite3"
    (tmp_path / ".ranklings").mkdir()
    assert place(tmp_path) == tmp_path / ".ranklings" / "progress.sqlite3"
    monkeypatch.setenv("RANKLINGS_DATA", "off")
    assert is_off()


def test_a_card_and_its_review_are_kept_together(store):
    store.keep("q1", "{}", '{"rating": 3}')
    store.keep("q1", '{"due": 1}', '{"rating": 4}')
    assert store.cards() == {"q1": '{"due": 1}'}
    assert store.reviews() == ('{"rating": 3}', '{"rating": 4}')


def test_an_interview_is_replaced_by_its_later_state(store):
    store.keep_interview("a", NOW, "begun")
    store.keep_interview("b", NOW + timedelta(hours=1), "other")
    store.keep_interview("a", NOW, "over")
    assert store.interviews() == (("a", "over"), ("b", "other"))


# -- standings and the map --------------------------------------------------------------------------------------------


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


# -- hints and explanations -------------------------------------------------------------------------------------------


def test_each_hint_for_a_failing_check_says_more_and_the_third_is_the_last(store):
    levels = []
    for _ in range(4):
        hint = coach.next_hint(COURSE[0], attempt(runs="failed", sums="failed"), store, level=None)
        coach.take(hint, store, NOW)
        levels.append((hint.check.id, hint.level, hint.text, hint.others))
    assert levels == [("runs", 1, "look", 1), ("runs", 2, "think", 1), *[("runs", 3, "write `this`", 1)] * 2]


def test_hints_of_the_next_check_begin_anew(store):
    coach.take(coach.next_hint(COURSE[0], attempt(runs="failed"), store, level=2), store, NOW)
    assert coach.next_hint(COURSE[0], attempt(runs="passed", sums="failed"), store, level=None).level == 1


def test_a_blocked_check_is_not_hinted_at(store):
    assert coach.failing(COURSE[0], attempt(runs="failed", sums="blocked")) == (CHECKS[0],)


def test_before_anything_is_graded_the_hint_is_for_the_whole(store):
    hint = coach.next_hint(COURSE[0], None, store, level=None)
    assert hint.check is None and "01_join as a whole" in coach.hint_page(hint, 80)


def test_a_hint_page_says_how_to_go_on(store):
    failed = attempt(runs="failed", sums="failed")
    assert "make hint EX=01" in coach.hint_page(coach.next_hint(COURSE[0], failed, store, level=1), 80)
    last = coach.hint_page(coach.next_hint(COURSE[0], failed, store, level=3), 80)
    assert "That was the last" in last and "1 other check fails" in last


def test_where_everything_passes_there_is_nothing_to_hint_at(store):
    with pytest.raises(UsageError, match="nothing to hint at"):
        coach.next_hint(COURSE[0], attempt(status="passed"), store, level=None)


def test_a_check_that_is_not_there_is_answered_with_those_that_are(store):
    with pytest.raises(UsageError, match="has no check 'rnus'; there are runs, sums"):
        coach.next_hint(COURSE[0], None, store, level=None, wanted="rnus")


def test_an_explanation_says_why_and_where_to_read_on():
    page = coach.explanation_page(COURSE[0], CHECKS[:1], color=False, width=80)
    assert "A job that ends early wastes all ranks." in page
    assert "Read “The idea” in exercises/01_join/README.md." in page


def test_the_environment_of_tests_is_not_that_of_a_person():
    assert os.environ["RANKLINGS_DATA"] not in ("", "off")


def test_a_file_of_the_version_before_is_brought_up_to_date(tmp_path):
    """Its attempts stay; they have no hints."""
    path = tmp_path / "progress.sqlite3"
    Store(path).add(attempt("01_join", "failed"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE attempts DROP COLUMN hints")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    again = Store(path)
    assert again.set_aside is None and [each.exercise for each in again.attempts()] == ["01_join"]
    again.add(replace(attempt("01_join", "failed"), hints={"sums": "All in one order."}))
    assert [dict(each.hints) for each in again.attempts()] == [{}, {"sums": "All in one order."}]
