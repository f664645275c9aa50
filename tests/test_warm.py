"""A worker that is kept warm: what it is told, when it is replaced, what an interrupt does. No process is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.cli.warm import WarmGrader
from grader.model import Report
from grader.model.errors import Cancelled, RunError, UsageError
from grader.practice import warm
from grader.practice.watch.nouns import Ended, Event, Said
from tests.reports import passed

ROOT, FILE = Path("/course"), Path("/course/interviews/a/join.py")


class Link:
    """A worker that answers each grade at once, with what `answers` has for it in turn, and a cancel if it is kind."""

    made: list[Link]
    answers: list[list[dict[str, Any]]]
    kind = True

    def __init__(self, number: int, words: list[str], emit: Callable[[Event], None]) -> None:
        self.words, self.emit, self.told, self.closed = words, emit, [], False
        self.grade = 0
        type(self).made.append(self)

    def send(self, command: dict[str, Any]) -> None:
        self.told.append(command)
        if command["do"] == "grade":
            self.grade += 1
            for event in type(self).answers.pop(0) if type(self).answers else [{"event": "report"}]:
                self.say(**event)
        elif self.kind:
            self.say(event="cancelled")

    def say(self, event: str, **facts: Any) -> None:
        if event == "ended":
            self.emit(Ended(worker=1, reason="The process that grades has ended (signal 9)."))
            return
        report: Report | None = passed() if event == "report" else None
        self.emit(Said(worker=1, event={"event": event, "grade": self.grade, **facts}, report=report))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> type[Link]:
    fresh = type("Fresh", (Link,), {"made": [], "answers": []})
    monkeypatch.setattr(warm, "Link", fresh)
    return fresh


def silent(event: Any) -> None:
    """Hears what a worker says."""


def interrupted(event: Any) -> None:
    raise KeyboardInterrupt


def test_one_worker_grades_a_file_again_and_again_and_is_told_which_checks_are_wanted(link):
    grader = WarmGrader("01_join", ROOT, FILE, plain=True)
    grader.start()
    assert len(link.made) == 1 and not link.made[0].told, "it starts before anything is graded"
    assert grader.grade().status == grader.grade(("runs",)).status == "passed"
    assert len(link.made) == 1 and [command["only"] for command in link.made[0].told] == [[], ["runs"]]
    assert link.made[0].words == ["01_join", "--root", str(ROOT), "--sandbox", "auto", "--submission", str(FILE)]
    grader.close()
    assert link.made[0].closed


def test_another_file_gets_another_worker(link):
    session = warm.Warm()
    session.grade("01_join", ROOT, FILE, silent)
    session.grade("01_join", ROOT, FILE.with_name("other.py"), silent)
    assert [each.closed for each in link.made] == [True, False]


def test_an_interrupt_ends_the_grade_and_keeps_the_session(link):
    session = warm.Warm()
    link.answers = [[{"event": "began", "cases": [], "checks": []}]]
    with pytest.raises(KeyboardInterrupt):
        session.grade("01_join", ROOT, FILE, interrupted)
    assert [command["do"] for command in link.made[0].told] == ["grade", "cancel"]
    assert session.grade("01_join", ROOT, FILE, silent).status == "passed" and len(link.made) == 1


def test_a_worker_that_does_not_stop_is_replaced(link, monkeypatch):
    monkeypatch.setattr(warm, "CANCELLING_SECONDS", 0.01)
    monkeypatch.setattr(link, "kind", False)
    session = warm.Warm()
    link.answers = [[{"event": "began", "cases": [], "checks": []}]]
    with pytest.raises(KeyboardInterrupt):
        session.grade("01_join", ROOT, FILE, interrupted)
    assert link.made[0].closed
    assert session.grade("01_join", ROOT, FILE, silent).status == "passed" and len(link.made) == 2


def test_a_worker_that_has_ended_says_how_and_the_next_grade_has_another(link):
    session = warm.Warm()
    link.answers = [[{"event": "ended"}]]
    with pytest.raises(RunError, match="has ended \\(signal 9\\)"):
        session.grade("01_join", ROOT, FILE, silent)
    assert session.grade("01_join", ROOT, FILE, silent).status == "passed" and len(link.made) == 2


def test_a_fault_is_a_sentence_and_what_is_called_off_is_said(link):
    session = warm.Warm()
    link.answers = [[{"event": "fault", "sentence": "join.py is missing."}], [{"event": "cancelled"}]]
    with pytest.raises(UsageError, match=r"join\.py is missing\."):
        session.grade("01_join", ROOT, FILE, silent)
    with pytest.raises(Cancelled):
        session.grade("01_join", ROOT, FILE, silent)
    assert len(link.made) == 1, "the session has no fault"


def test_what_a_worker_still_says_of_an_earlier_grade_is_not_heard(link):
    session = warm.Warm()
    session.grade("01_join", ROOT, FILE, silent)
    link.answers = [[{"event": "fault", "sentence": "late", "grade": 1}, {"event": "report"}]]
    assert session.grade("01_join", ROOT, FILE, silent).status == "passed"
