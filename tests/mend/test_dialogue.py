"""Mend this: the dialogue, and the command. Only the last test starts ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader.model import Report
from grader.model.errors import RunError
from grader.practice.mend import pack
from grader.practice.store import Store
from grader.quiz.interview.session import TimeUp
from tests import mending, small
from tests.mending import OTHERWISE_WRONG, SOLUTION, Person


@pytest.fixture
def person(root: Path, store: Store, tmp_path: Path) -> Person:
    return Person(root=root, folder=tmp_path, store=store)


def test_a_program_is_mended_and_then_the_mistake_is_told(person):
    started: list[str] = []
    over = person.session(
        person.waits(seconds=20), "", person.writes(OTHERWISE_WRONG), "g", person.writes(SOLUTION),
        person.waits(seconds=60), "", begun=lambda: started.append(person.text),
    ).hold()  # fmt: skip
    assert (over.status, over.seconds, over.grades) == ("mended", 80.0, (("refuses",), ()))
    assert person.store.mends() == (over,)
    assert "✗ All ranks get the sum" in started[0] and "Find it and mend it in" in started[0]
    assert "is as it was drawn" in person.text, "and that costs no grade"
    assert "Not yet: 1 check fails, which passed before. 11:40 left." in person.text
    assert "1:20 of 12:00, 2 grades, no hint. The mistake: Every rank keeps its own value." in person.text
    assert "+ dist.all_reduce(result)" in person.text and "Why it matters, of “All ranks get the sum”" in person.text
    assert "The mistake" not in started[0] and "You go on" not in started[0]


def test_hints_say_more_each_time_and_the_last_says_the_line(person):
    over = person.session("h", "h", "h", "h", "h", "x", "no", "x", "yes").hold()
    assert (over.status, over.hints) == ("given up", 4)
    hints = [text for text in person.said if text.startswith("Hint")]
    assert [hint.partition(": ")[2] for hint in hints[:3]] == ["idea", "The mistake is in total.", "code"]
    assert hints[3] == hints[4] and "line 9: return result" in hints[3]
    assert "0:00 of 12:00, no grade, 4 hints." in person.text


def test_when_the_time_is_up_what_was_saved_counts(person):
    late = person.session(person.waits(minutes=13), "").hold()
    assert (late.status, late.seconds, late.grades) == ("late", 720.0, ())
    assert "Not mended in time" in person.text
    mended = person.session(person.writes(SOLUTION), TimeUp).hold()
    assert mended.status == "mended" and mended.grades == ((),)


@pytest.mark.parametrize("ends", ["q", EOFError, KeyboardInterrupt])
def test_who_leaves_goes_on_where_they_were(person, ends):
    left = person.session(person.waits(minutes=5), "h", ends).hold()
    assert left.open and left.seconds == 300.0 and person.store.mends() == (left,)
    assert "Kept, with 7:00 left. make mend goes on." in person.text
    person.clock.move(hours=20)
    over = person.session("t", person.writes(SOLUTION), "", kept=left).hold()
    assert (over.status, over.seconds, over.hints) == ("mended", 300.0, 1)
    assert "You go on with 7:00 left." in person.text and "7:00 left." in person.said


def test_a_grade_that_is_interrupted_or_impossible_loses_nothing(person):
    def stopped() -> Report:
        person.clock.move(seconds=30)
        raise KeyboardInterrupt

    def impossible() -> Report:
        raise RunError("No rank could be started.")

    left = person.session(person.writes(SOLUTION), "", grade=stopped).hold()
    assert left.open and left.seconds == 30.0 and left.grades == ()
    over = person.session("", "q", kept=left, grade=impossible).hold()
    assert over.open and "grader: No rank could be started." in person.said


def test_while_nothing_is_typed_the_clock_is_kept(person):
    session = person.session()
    person.clock.move(seconds=20)
    assert session.left() == 700.0 and person.store.mends() == ()
    person.clock.move(seconds=20)
    assert session.left() == 680.0 and person.store.mends()[0].seconds == 40.0


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
def test_the_command_shows_the_page_grades_on_ranks_and_tells_the_mistake(root, store, tmp_path, monkeypatch):
    """From the drawn program to the mended one, as it is typed. The solution is put in its place meanwhile."""
    copy = small.build(tmp_path / "course")
    first, _ = mending.packed(copy)
    pack.save(pack.place(small.NAME, copy), small.NAME, (first,))
    monkeypatch.setenv("RANKLINGS_DATA", str(tmp_path))
    words = [sys.executable, "-m", "grader", "mend", "90", "--spoil", "--plain", "--html", "page.html"]
    left = subprocess.run(words, cwd=copy, input="", capture_output=True, text=True, check=False)
    assert left.returncode == 0 and "Kept, with " in left.stdout, left.stderr
    assert "got" in (copy / "page.html").read_text() and not store.mends()[0].grades
    (copy / "mends/90_total/1/total.py").write_text(SOLUTION)
    over = subprocess.run(words, cwd=copy, input="\n", capture_output=True, text=True, check=False)
    assert over.returncode == 0 and "You go on with" in over.stdout, over.stderr
    assert store.mends()[0].status == "mended", over.stdout + over.stderr
    assert "The mistake: Every rank keeps its own value." in over.stdout
