"""The debrief: what was missed, what is right, what comes next, as a text and as a page to keep."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grader.practice.store import Store
from grader.quiz.interview import debrief, debrief_page
from grader.quiz.interview.state import Interview
from tests.attempts import COURSE, NOW
from tests.interviewing import QUESTIONS, STATEMENT, Person, begun, kept, letter
from tests.reports import passed


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(store=Store(tmp_path / "progress.sqlite3"))


def finished(person: Person) -> debrief.Debrief:
    over = person.session(begun(), "g", "q", letter(False), "q", "<b>1</b> MB", "q", "2 GB", "q", "=1+1`", "f").hold()
    return debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT)


def test_a_debrief_says_what_was_missed_what_is_right_and_what_comes_next(person):
    text = debrief_page.text(finished(person))
    assert "40 of 100 points, 2 grades. Questions: 0 of 2 right." in " ".join(text.split())
    assert "not right in 0:00." in text and "You said: Magic" in text and "A good answer: Buckets" in text
    assert "96 MB = 48 × 2" in text and "yours to judge" in text and "Why: Buckets are ready early." in text
    assert max(map(len, text.splitlines())) <= 80
    assert "  - Who meets where?\n    At `MASTER_ADDR`, on a port.\n  - And then?" in text and "Not this" not in text


def test_a_question_that_was_skipped_is_not_called_wrong(person):
    over = person.session(begun(), "q", "skip", "f").hold()
    found = debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT)
    text = debrief_page.text(found)
    assert "skipped in 0:00." in text and "not right" not in text and "✗ skipped" in debrief_page.html(found)


def test_without_a_grade_every_check_was_missed(person):
    over = begun().ended("over", NOW)
    found = debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT)
    assert [check.id for check in found.missed] == ["runs", "sums"] and "not graded" in debrief_page.text(found)
    assert {asked.word for asked in found.asked} == {"not reached"}
    assert "Questions: none answered." in debrief_page.text(found)
    assert "questions: none answered" in debrief_page.html(found)


def test_an_exercise_that_was_passed_has_nothing_missed(person):
    person.report = lambda: replace(passed(), exercise=COURSE[0])
    over = person.session(begun(), "f").hold()
    checks = {"runs": "passed", "sums": "passed"}
    over = replace(over, grades=(replace(over.grades[0], checks=checks),))
    assert debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT).missed == ()


def test_the_page_to_keep_is_self_contained_and_runs_nothing(person):
    page = debrief_page.html(finished(person))
    assert "default-src 'none'" in page and "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "=1+1`" in page and "<b>1</b>" not in page
    assert "<code>MASTER_ADDR</code>" in page and "Who meets where?" in page
    assert datetime(2026, 11, 21, 20, 0, tzinfo=UTC) == NOW and "21 November 2026, 20:00 UTC" in page


def test_where_all_programs_to_mend_were_drawn_the_keys_name_them_no_more(person):
    person.session(replace(begun(questions=()), mends=1, mended=("mend-1",)), "what", "f").hold()
    assert "m a program" not in person.text


def test_an_interview_holds_mends_and_its_debrief_tells_of_them(person):
    held: list[Interview] = []

    def mend(interview: Interview) -> Interview:
        held.append(interview)
        return replace(interview, mended=(*interview.mended, f"mend-{len(held)}"))

    begin = replace(begun(questions=()), mends=2)
    over = replace(person.session(begin, "m", "m", "f"), mend=mend).hold()
    assert over.mended == ("mend-1", "mend-2") and kept(person).mended == over.mended
    text = " ".join(person.text.split())
    assert "0 questions, 2 mends. No hints." in text and "m a program to mend, q next" in text
    found = debrief.debrief(over, COURSE[0], {}, STATEMENT, mends=["01 Join: mended; 4:12 of 12:00"])
    assert "What was to be mended:\n  - 01 Join: mended" in debrief_page.text(found)
    assert "<li>01 Join: mended" in debrief_page.html(found)
