"""What is kept of a person's work, in one file that two processes may write."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from grader.model.errors import UsageError
from grader.practice.store import Store, is_off, place
from tests.attempts import NOW, attempt


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
        "import sys; from pathlib import Path; from grader.practice.store import Store; "
        "from tests.attempts import attempt\n"
        f"store = Store(Path({str(store.path)!r} + '2'))\n"
        "for number in range(50): store.add(attempt(days=number))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2]) for _ in range(4)]
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
        "import sys; from pathlib import Path; from grader.practice.store import Store; "
        "from tests.attempts import attempt\n"
        f"store = Store(Path({str(path)!r})); store.add(attempt())\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2]) for _ in range(4)]
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


# -- hints and explanations --------------------------------------------------------------------------------------------


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
