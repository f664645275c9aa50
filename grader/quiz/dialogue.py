"""A question is put and an answer is read, in a quiz and in an interview alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from grader.quiz.answers import Correctness, Judgement
from grader.quiz.page import Page
from grader.quiz.questions import Question

AGAIN = (Correctness.UNREADABLE, Correctness.WRONG_UNIT)
"""What is asked once more and costs nothing: what cannot be read, and a time where an amount of data was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What was typed, empty where a key was pressed instead, what it is worth, and the seconds that it took."""

    typed: str
    judgement: Judgement
    seconds: float

    @property
    def right(self) -> bool | None:
        """None where only the person who answered can say."""
        return self.judgement.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Puts questions over two functions: `ask` puts a prompt and gives a line, `say` shows text.

    `keys` are what may be typed in place of an answer, and what it does: it ends the question with a judgement, or
    gives None, and the question stays."""

    page: Page
    now: Callable[[], datetime]
    ask: Callable[[str], str]
    say: Callable[[str], None]
    keys: Mapping[str, Callable[[Question], Judgement | None]] = field(default_factory=dict)
    told: str = ""
    """The keys as a prompt names them."""
    skips: str = "goes on without an answer"
    """What skipping does."""

    def put(self, question: Question, heading: str) -> Answered:
        """Show a question and read until an answer can be judged. What `ask` raises ends it."""
        self.say(self.page.question(question, heading))
        begun = self.now()
        while True:
            typed = self.ask(f"Your answer, {question.asks_for} [{self.told}]: ").strip()
            key = self.keys.get(typed.lower())
            judgement = key(question) if key else question.judge(typed)
            if judgement and judgement.correctness not in AGAIN:
                seconds = (self.now() - begun).total_seconds()
                return Answered(typed="" if key else typed, judgement=judgement, seconds=seconds)
            if judgement:
                self.say(self.page.prose(f"{judgement.message}{self._way_out}").rstrip("\n"))

    @property
    def _way_out(self) -> str:
        """For somebody who does not know, and was just asked once more."""
        ways = {"skip": f"skip, which {self.skips}", "later": "later, which comes back to it"}
        told = ", or ".join(way for key, way in ways.items() if key in self.keys)
        return f" Or {told}." if told else ""
