"""Mending as a dialogue. `ask` puts a prompt and gives a line, or raises TimeUp when the time is up meanwhile.

Every step is kept before anything more is said, so a crash at any moment loses at most the line that was being typed
and the last half minute of the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from grader.model import Exercise, Outcome, Report
from grader.model.errors import GraderError
from grader.practice.mend import telling
from grader.practice.mend.kept import Mend
from grader.practice.mend.pack import Packed
from grader.quiz.interview.session import SECONDS_UNSEEN, TimeUp
from grader.quiz.interview.state import clock
from grader.quiz.page import Page

KEYS = "Enter grades, h hint, p the page again, t time, x give up and see, q leave"


class Left(Exception):
    """The person has left, or it is over."""


class Store(Protocol):
    """Where a mend is kept."""

    def keep_mend(self, mend: Mend, /) -> None:
        """Keep a mend in place of what was kept of it before."""


@dataclass(slots=True, kw_only=True)
class MendSession:
    """A mend from where it begins, or goes on, until it is mended or given up, the person leaves, or the time is up.
    `grade` grades the file as it is, `show` makes a page of a report; `recorded` is what the program got as it was
    drawn."""

    mend: Mend
    packed: Packed
    exercise: Exercise
    file: Path
    recorded: Report
    store: Store
    now: Callable[[], datetime]
    ask: Callable[[str], str]
    say: Callable[[str], None]
    grade: Callable[[], Report]
    show: Callable[[Report], str]
    page: Page
    begun: Callable[[], None] = lambda: None
    """Called when the page is there: what grading needs can start."""
    again: str = "make mend"
    """How to go on with one that was left."""
    _mark: datetime = field(init=False)
    """Until when the clock has been added up."""

    def __post_init__(self) -> None:
        self._mark = self.now()

    def hold(self) -> Mend:
        """Go on until it is over, or the person leaves. The mend as it is then."""
        told = telling.welcome(self.mend, self.exercise, self.file, KEYS, self.page)
        self._keep()
        self.say(self.show(self.recorded))
        self.say(told)
        try:
            self.begun()
            while True:
                self._do(self._line())
        except TimeUp:
            self._time_is_up()
        except Left:
            pass
        except (EOFError, KeyboardInterrupt):
            self._leave()
        return self.mend

    def left(self) -> float:
        """Seconds that are left. Asking notes now and then that the time goes on."""
        gone = (self.now() - self._mark).total_seconds()
        if gone > SECONDS_UNSEEN:
            self._keep()
            gone = 0.0
        return max(0.0, self.mend.left - gone)

    # -- what can be typed --------------------------------------------------------------------------------------------

    def _do(self, typed: str) -> None:
        commands: dict[str, Callable[[], None]] = {
            "": self._grade,
            "g": self._grade,
            "h": self._hint,
            "p": lambda: self.say(self.show(self.recorded)),
            "t": lambda: self.say(f"{clock(self.left())} left."),
            "x": self._give_up,
            "q": self._leave_now,
        }
        commands.get(typed, lambda: self.say(f"{KEYS}."))()

    def _line(self) -> str:
        if self.left() <= 0:
            raise TimeUp
        typed = self.ask("> ").strip().lower()
        self._keep()
        if self.left() <= 0:
            raise TimeUp
        return typed

    def _grade(self) -> None:
        """A grade on demand. It was asked for in time, so it counts."""
        if self._source() == self.packed.source.encode():
            self.say(f"{self.file} is as it was drawn. Mend it, save it, and press Enter.")
            return
        report = self._graded()
        if report is None:
            return
        if is_mended(report):
            self._end("mended")
            raise Left
        self.say(self.show(report))
        self.say(f"Not yet: {telling.verdict(report, self.mend)} {clock(self.left())} left.")

    def _graded(self) -> Report | None:
        try:
            report = self.grade()
        except GraderError as error:
            self.say(f"grader: {error}")
            return None
        finally:
            self._keep()
        failed = tuple(v.check.id for v in report.verdicts if v.outcome is Outcome.FAILED)
        self._keep(grades=(*self.mend.grades, failed))
        return report

    def _hint(self) -> None:
        hints = telling.hints(self.packed, self.exercise)
        if self.mend.hints < len(hints):
            self._keep(hints=self.mend.hints + 1)
        place = self.mend.hints
        self.say(self.page.prose(f"Hint {place} of {len(hints)}: {hints[place - 1]}").rstrip("\n"))

    # -- leaving ------------------------------------------------------------------------------------------------------

    def _time_is_up(self) -> None:
        """What was saved in time counts."""
        self._keep()
        self.say("The time is up.")
        unchanged = self._source() == self.packed.source.encode()
        report = None if unchanged else self._graded()
        self._end("mended" if report is not None and is_mended(report) else "late")

    def _give_up(self) -> None:
        if self.ask("Give up and see the mistake? Type yes: ").strip().lower() == "yes":
            self._end("given up")
            raise Left

    def _leave(self) -> None:
        self._keep()
        self.say(f"\nKept, with {clock(self.left())} left. {self.again} goes on.")

    def _leave_now(self) -> None:
        self._leave()
        raise Left

    def _end(self, status: str) -> None:
        self._keep(status=status)
        self.say(telling.conclusion(self.mend, self.packed, self.exercise, self.page))

    def _keep(self, **changed: object) -> None:
        """Keep the mend with what changed, and with the time that went by."""
        now = self.now()
        seconds = min(self.mend.seconds + max(0.0, (now - self._mark).total_seconds()), 60 * self.mend.minutes)
        self._mark = now
        self.mend = replace(self.mend, seconds=seconds, **changed)  # type: ignore[arg-type]
        self.store.keep_mend(self.mend)

    def _source(self) -> bytes:
        try:
            return self.file.read_bytes()
        except OSError:
            return b""  # grading says what is wrong with it


def is_mended(report: Report) -> bool:
    """Whether nothing fails any more. A check that could not be judged here (no GPU) says nothing against it."""
    return report.status == "passed"
