"""The interview as a dialogue. `ask` puts a prompt and gives a line, or raises TimeUp when the time is up meanwhile.

Every step is kept before anything more is said, so a crash at any moment loses at most the line that was being typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from fsrs import Rating

from grader.model import Exercise, Report, Verdict
from grader.model.errors import GraderError
from grader.model.words import count as count_of
from grader.quiz import deck
from grader.quiz.answers import Correctness, Judgement
from grader.quiz.dialogue import Dialogue
from grader.quiz.interview.state import Answer, Interview, as_json, clock
from grader.quiz.page import Page
from grader.quiz.questions import Question

KEYS = "q next question, g grade, s statement, t time, p pause, f finish, abort"

SECONDS_UNSEEN = 30.0
"""While nothing is typed, it is noted as often that the time goes on."""


class TimeUp(Exception):
    """The interview's time is over."""


class Left(Exception):
    """The person has paused, finished or given up."""


class Store(deck.Store, Protocol):
    """Where an interview is kept, and what the quiz learns from it."""

    def keep_interview(self, name: str, at: datetime, content: str, /) -> None:
        """Keep an interview in place of what was kept of it before."""


@dataclass(slots=True, kw_only=True)
class InterviewSession:
    """An interview from where it begins, or goes on, until the person leaves or the time is up."""

    interview: Interview
    exercise: Exercise
    file: Path
    questions: Mapping[str, Question]
    store: Store
    now: Callable[[], datetime]
    ask: Callable[[str], str]
    say: Callable[[str], None]
    grade: Callable[[], Report]
    show: Callable[[Report], str]
    statement: str
    page: Page

    def hold(self) -> Interview:
        """Go on until the person leaves or the time is up. The interview as it is then."""
        self._keep(self.interview)
        self.say(self._welcome())
        try:
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
        action = commands.get(typed)
        if action is None:
            self.say(f"{KEYS}.")
        else:
            action()

    def _line(self, prompt: str) -> str:
        if self.interview.left(self.now()) <= 0:
            raise TimeUp
        typed = self.ask(prompt).strip()
        if self.interview.left(self.now()) <= 0:
            raise TimeUp
        self._keep(self.interview.seen_at(self.now()))
        return typed

    def _question(self) -> None:
        wanted = self.interview.next_question()
        if wanted is None or wanted not in self.questions:
            self.say("Those were all the questions. g grades, f finishes.")
            return
        place, count = len(self.interview.answers) + 1, len(self.interview.questions)
        shown = self.interview.shown(self.questions[wanted])
        begun = self.now()
        try:
            answered = self._dialogue().put(shown, f"Question {place} of {count}")
        except BaseException:  # a pause, or the end: the time that went by belongs to the question
            self.interview = self.interview.interrupted(wanted, (self.now() - begun).total_seconds())
            raise
        seconds = self.interview.spent.get(wanted, 0.0) + answered.seconds
        answer = Answer(question=wanted, typed=answered.typed, right=answered.right, seconds=seconds)
        self._keep(self.interview.answered(answer, self.now()))
        self.say("Noted. The answers come in the debrief.")

    def _dialogue(self) -> Dialogue:
        """An open answer is for the person to rate in the debrief; who skips a question does not know it."""
        keys = {"skip": lambda question: Judgement(correctness=Correctness.WRONG)}
        return Dialogue(page=self.page, now=self.now, ask=self._line, say=self.say, keys=keys, told="skip")

    def _grade(self) -> None:
        """A grade on demand: counted, and without hints."""
        report = self._graded()
        if report:
            count = len(self.interview.grades)
            self.say(self.show(unhinted(report)))
            self.say(f"That was grade {count}. {clock(self.interview.left(self.now()))} left.")

    def _graded(self) -> Report | None:
        try:
            report = self.grade()
        except GraderError as error:
            self.say(f"grader: {error}")
            return None
        self._keep(self.interview.graded(report, self.now()))
        return report

    # -- leaving ------------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._keep(self.interview.paused(self.now()))
        self.say(f"Paused: {self.interview.left_in_words(self.now())}. make interview goes on.")

    def _pause_and_leave(self) -> None:
        self._pause()
        raise Left

    def _finish(self) -> None:
        """The last grade, and the end."""
        stopped = self.interview.ended("over", self.now())
        self.say("The last grade:")
        report = self._graded()
        if report:
            self.say(self.show(unhinted(report)))
        self._keep(replace(stopped, grades=self.interview.grades))
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
        """The quiz learns what was known."""
        for answer in self.interview.answers:
            if answer.right is not None and answer.question in self.questions:
                rating = Rating.Good if answer.right else Rating.Again
                deck.keep(self.store, self.questions[answer.question], rating, self.now(), answer.seconds)

    def _welcome(self) -> str:
        exercise, count = self.exercise, len(self.interview.questions)
        paragraphs = [
            *self._so_far(),
            f"{clock(self.interview.left(self.now()))} for exercise {exercise.number}, {exercise.title}, and {count} "
            "questions. No hints.",
            f"Write in {self.file}",
            f"The statement is in exercises/{exercise.name}/README.md (s shows it).",
            f"Keys, each with Enter: {KEYS}. Ctrl-C pauses.",
        ]
        return self.page.heading("Interview") + self.page.prose("\n".join(paragraphs)).rstrip("\n")

    def _so_far(self) -> list[str]:
        """Of an interview that was paused, or that a crash has ended: what is left of it."""
        interview = self.interview
        if len(interview.spans) == 1:
            return []
        answered, grades = f"{len(interview.answers)} of {len(interview.questions)}", len(interview.grades)
        left = interview.left_in_words(self.now())
        told = f"You go on with the interview that was paused: {left}, {answered} questions answered, "
        return [f"{told}{count_of(grades, 'grade')}."]


def unhinted(report: Report) -> Report:
    """The report as an interviewer would let it be seen: what fails, and no hint."""

    def bare(verdict: Verdict) -> Verdict:
        findings = tuple(replace(finding, hint=None) for finding in verdict.findings)
        return replace(verdict, check=replace(verdict.check, hints=()), findings=findings)

    return replace(report, verdicts=tuple(map(bare, report.verdicts)))
