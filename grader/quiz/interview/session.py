"""The interview as a dialogue. `ask` puts a prompt and gives a line, or raises TimeUp when the time is up meanwhile.

Every step is kept before anything more is said, so a crash at any moment loses at most the line that was being typed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from fsrs import Rating

from grader import calling
from grader.model import Exercise, Report
from grader.model.errors import GraderError
from grader.model.words import count as count_of
from grader.quiz import deck
from grader.quiz.answers import Correctness, Judgement
from grader.quiz.dialogue import Dialogue
from grader.quiz.interview import levels
from grader.quiz.interview.state import Answer, Interview, as_json, clock
from grader.quiz.page import Page
from grader.quiz.questions import Item, Question

KEYS = "q next question, g grade, s statement, t time, p pause, f finish, abort"
LEVEL_KEYS = "q next question, g grade, l level, h hint, s statement, t time, p pause, f finish, abort"

SECONDS_UNSEEN = 30.0
"""While nothing is typed, it is noted as often that the time goes on."""


class TimeUp(Exception):
    """The interview's time is over."""


class Left(Exception):
    """The person has paused, finished or given up."""


class Later(Exception):
    """The person goes back to the exercise and leaves a question for later."""


class Store(deck.Store, Protocol):
    """Where an interview is kept, and what the quiz learns from it."""

    def keep_interview(self, name: str, at: datetime, content: str, /) -> None:
        """Keep an interview in place of what was kept of it before."""


@dataclass(slots=True, kw_only=True)
class InterviewSession:
    """An interview from where it begins, or goes on, until the person leaves or the time is up. `grade` judges these
    checks alone, or all where none is named."""

    interview: Interview
    exercise: Exercise
    file: Path
    questions: Mapping[str, Item]
    store: Store
    now: Callable[[], datetime]
    ask: Callable[[str], str]
    say: Callable[[str], None]
    grade: Callable[[tuple[str, ...]], Report]
    show: Callable[[Report], str]
    statement: str
    page: Page
    mend: Callable[[Interview], Interview] = lambda interview: interview
    """Holds the next program to mend, and gives the interview as it is then."""
    begun: Callable[[], None] = lambda: None
    """Called when the person has something to read: what grading needs can start."""

    def hold(self) -> Interview:
        """Go on until the person leaves or the time is up. The interview as it is then."""
        self._keep(self.interview.begun_at(self.now()))
        self.say(self._welcome())
        try:
            self.begun()
            while True:
                self._do(self._line("> ").lower())
        except TimeUp:
            self.say("The time is up.")
            self._finish()
        except Left:
            pass
        except (EOFError, KeyboardInterrupt):
            self._pause()
        return self.interview

    def tick(self) -> None:
        """Note that the interview goes on, so that a crash costs no more than the time after."""
        if (self.now() - self.interview.seen).total_seconds() > SECONDS_UNSEEN:
            self._keep(self.interview.seen_at(self.now()))

    # -- what can be typed --------------------------------------------------------------------------------------------

    def _do(self, typed: str) -> None:
        commands: dict[str, Callable[[], None]] = {
            "q": self._question,
            "g": self._grade,
            "s": lambda: self.say(self.statement),
            "t": lambda: self.say(f"{clock(self.interview.left(self.now()))} left."),
            "p": self._pause_and_leave,
            "f": self._finish_and_leave,
            "abort": self._abort,
        }
        if self.interview.levels:
            commands |= {"l": self._level, "h": self._hint}
        if self.interview.mends:
            commands["m"] = lambda: self._keep(self.mend(self.interview))
        commands.get(typed, lambda: self._prose(f"{self._keys}."))()

    @property
    def _keys(self) -> str:
        more = self.interview.mends > len(self.interview.mended)  # one that was left says itself how to go on
        return ("m a program to mend, " if more else "") + (LEVEL_KEYS if self.interview.levels else KEYS)

    def _prose(self, text: str) -> None:
        self.say(self.page.prose(text).rstrip("\n"))

    def _line(self, prompt: str) -> str:
        if self.interview.left(self.now()) <= 0:
            raise TimeUp
        typed = self.ask(prompt).strip()
        if self.interview.left(self.now()) <= 0:
            raise TimeUp
        self._keep(self.interview.seen_at(self.now()))
        return typed

    def _question(self) -> None:
        """The next question, or what is left of a chain."""
        item = self.interview.next_question(self.questions)
        if item is None:
            self.say("Those were all the questions. g grades, f finishes.")
            return
        begun, parts = self.interview.parts_answered(item.id), list(self.interview.shown(item))
        if begun:  # what it was about may have been told days ago
            setting = item.setting(self.interview.seed_of(item))
            parts[begun] = replace(parts[begun], text=f"{setting}\n\n{parts[begun].text}".lstrip())
        try:
            for part in range(begun, len(parts)):
                self._put(item, parts, part)
        except Later:
            self.say("Left for later; q comes back to it.")
            return
        self.say("Noted. The answers come in the debrief.")

    def _put(self, item: Item, parts: Sequence[Question], part: int) -> None:
        place, count = self.interview.questions.index(item.id) + 1, len(self.interview.questions)
        heading = f"Question {place} of {count}" + (f" · part {part + 1} of {len(parts)}" if len(parts) > 1 else "")
        begun = self.now()
        try:
            answered = self._dialogue().put(parts[part], heading)
        except BaseException:  # a pause, or the end: the time that went by belongs to the question
            self.interview = self.interview.interrupted(item.id, (self.now() - begun).total_seconds())
            raise
        seconds = self.interview.spent.get(item.id, 0.0) + answered.seconds
        answer = Answer(question=item.id, typed=answered.typed, right=answered.right, seconds=seconds, part=part)
        self._keep(self.interview.answered(answer, self.now()))

    def _dialogue(self) -> Dialogue:
        """An open answer is for the person to rate in the debrief; who skips a question does not know it. What the
        quiz has as a key for hints is no answer here."""
        keys = {"skip": lambda question: Judgement(correctness=Correctness.WRONG), "later": _later, "?": _no_hint}
        return Dialogue(page=self.page, now=self.now, ask=self._line, say=self.say, keys=keys, told="skip, later")

    def _level(self) -> None:
        self._prose(levels.sentence(self.interview, self.exercise))

    def _hint(self) -> None:
        hint = levels.next_hint(self.interview, self.exercise)
        if hint is None:
            self.say("There is no further hint.")
            return
        self._keep(levels.hinted(self.interview, hint, self.now()))
        about = f"“{hint.check.title}”" if hint.check else "the exercise"
        seen = f"Seen in the run: {hint.seen}\n" if hint.seen else ""
        self._prose(f"{seen}Hint {hint.number} of {hint.of} for {about}; it is noted.\n{hint.text}")

    def _grade(self) -> None:
        """A grade on demand: counted, and without hints."""
        report = self._graded()
        if report:
            count = len(self.interview.grades)
            self.say(self.show(levels.unhinted(report)))
            self.say(f"That was grade {count}. {clock(self.interview.left(self.now()))} left.")
            self._advance()

    def _advance(self) -> None:
        """The next level, where all that was asked for passed."""
        number = len(self.interview.levels)
        after = levels.advanced(self.interview, self.exercise, self.now())
        if after is not self.interview:
            self._keep(after)
            over = after.levels[number - 1]
            self.say(f"Level {number} passed, in {clock((over.passed or 0.0) - over.begun)}.")
            self._level()

    def _graded(self, at: datetime | None = None) -> Report | None:
        """A grade, which counts as come when it is there, or else `at` another moment."""
        asked = levels.wanted(self.interview, self.exercise)
        try:
            report = self.grade(asked)
        except GraderError as error:
            self.say(f"grader: {error}")
            return None
        self._keep(self.interview.graded(report, at or self.now(), whole=not asked))
        return report

    # -- leaving ------------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._keep(self.interview.paused(self.now()))
        self.say(f"Paused: {self.interview.left_in_words(self.now())}. {calling.command('interview')} goes on.")

    def _pause_and_leave(self) -> None:
        self._pause()
        raise Left

    def _finish(self) -> None:
        """The last grade, and the end. The clock stands while that is graded."""
        end = self.now()
        stopped = self.interview.ended("over", end)
        self.say("The last grade:")
        report = self._graded(end)
        if report:
            self.say(self.show(levels.unhinted(report)))
        after = levels.advanced(self.interview, self.exercise, end).levels[: len(self.interview.levels)]
        if after != self.interview.levels:
            self.say(f"Level {len(after)} passed.")
        self._keep(replace(stopped, grades=self.interview.grades, levels=after))
        self._remember()

    def _finish_and_leave(self) -> None:
        self._finish()
        raise Left

    def _abort(self) -> None:
        if self._line("Give this interview up? Type yes: ").lower() == "yes":
            self._keep(self.interview.ended("aborted", self.now()))
            self.say(f"Given up. {self.file} stays where it is.")
            raise Left

    def _keep(self, interview: Interview) -> None:
        self.interview = interview
        self.store.keep_interview(interview.name, interview.spans[0][0], as_json(interview))

    def _remember(self) -> None:
        """The quiz learns what was known: of a chain, that a part was missed, or that all were right."""
        for item in (self.questions[name] for name in self.interview.questions if name in self.questions):
            answers = [answer for answer in self.interview.answers if answer.question == item.id]
            judged = [answer.right for answer in answers if answer.right is not None]
            if judged and (False in judged or len(answers) == len(self.interview.shown(item))):
                rating = Rating.Again if False in judged else Rating.Good
                deck.keep(self.store, item, rating, self.now(), sum(answer.seconds for answer in answers))

    def _welcome(self) -> str:
        interview, exercise, count = self.interview, self.exercise, len(self.interview.questions)
        mends = f", {count_of(interview.mends, 'mend')}" if interview.mends else ""
        place = f"exercises/{exercise.name}/README.md"
        paragraphs = [
            *self._so_far(),
            f"{clock(math.ceil(interview.left(self.now())))} for exercise {exercise.number}, {exercise.title}, and "
            f"{count_of(count, 'question')}{mends}. {'Hints are noted.' if self.interview.levels else 'No hints.'}",
            f"Write in {self.file}",
            f"The statement is in {place} (s shows it).",
            f"Keys, each with Enter: {self._keys}. Ctrl-C pauses.",
            *([levels.sentence(self.interview, exercise)] if self.interview.levels else []),
        ]
        return self.page.heading("Interview") + self.page.prose("\n".join(paragraphs)).rstrip("\n")

    def _so_far(self) -> list[str]:
        """Of an interview that was paused, or that a crash has ended: what is left of it."""
        interview = self.interview
        if len(interview.spans) == 1:
            return []
        done = sum(
            interview.parts_answered(name) >= len(interview.shown(self.questions[name]))
            for name in interview.questions
            if name in self.questions
        )
        answered, grades = f"{done} of {len(interview.questions)}", len(interview.grades)
        left = interview.left_in_words(self.now())
        told = f"You go on with the interview that was paused: {left}, {answered} questions answered, "
        return [f"{told}{count_of(grades, 'grade')}."]


def _later(question: Question) -> Judgement:
    raise Later


def _no_hint(question: Question) -> Judgement:
    return Judgement(correctness=Correctness.UNREADABLE, message="No hints for questions.")
