"""Small banks for the tests of the quiz, a store in memory, and a clock and a person that follow a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from grader.quiz.numbers import NumberQuestion
from grader.quiz.questions import Bank, CardQuestion, ChoiceQuestion, Option, Question

START = datetime(2026, 3, 2, 19, 0, tzinfo=UTC)
EXPLANATION = "Because each rank sends it to its right neighbour and to nobody else."


class Memory:
    """A store that forgets when the test ends."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.log: list[str] = []

    def cards(self) -> Mapping[str, str]:
        return dict(self.kept)

    def keep(self, id: str, card_json: str, review_json: str) -> None:
        self.kept[id] = card_json
        self.log.append(review_json)

    def reviews(self) -> Iterable[str]:
        return list(self.log)


class Clock:
    """A clock that moves by `tick` at each look."""

    def __init__(self, start: datetime = START, tick: timedelta = timedelta(seconds=5)) -> None:
        self.time, self.tick = start, tick

    def __call__(self) -> datetime:
        self.time += self.tick
        return self.time


class Person:
    """Types what a script says, and remembers all that was shown. An exception in the script is raised."""

    def __init__(self, *script: str | type[BaseException] | Callable[[str], str]) -> None:
        self.script, self.seen = list(script), list[str]()

    def ask(self, prompt: str) -> str:
        self.seen.append(prompt)
        if not self.script:
            raise EOFError
        line = self.script.pop(0)
        if isinstance(line, type):
            raise line
        return line if isinstance(line, str) else line(self.page)

    def say(self, text: str) -> None:
        self.seen.append(text)

    @property
    def page(self) -> str:
        return "\n".join(self.seen)


def _shared(word: str, topic: str, changes: dict[str, Any]) -> dict[str, Any]:
    usual = {"text": f"What about {word} in {topic}?", "explanation": EXPLANATION, "difficulty": 1, "line": 3}
    return {"id": f"{topic}/{word}", "topic": topic, **usual, **changes}


def choice(word: str = "ring", topic: str = "all_reduce", right: int = 0, **changes: Any) -> ChoiceQuestion:
    texts = [f"{word} answer {letter}" for letter in ("one", "two", "six", "ten")]
    options = tuple(
        Option(text=text, right=index == right, why="" if index == right else f"{text} is not it")
        for index, text in enumerate(texts)
    )
    return ChoiceQuestion(**_shared(word, topic, {"options": options, **changes}))


def number(word: str = "bytes", topic: str = "all_reduce", **changes: Any) -> NumberQuestion:
    usual = {"value": 96.0, "unit": "MB", "tolerance": 0.03, "calculation": "96 * MB"}
    return NumberQuestion(**_shared(word, topic, {**usual, **changes}))


def card(word: str = "overlap", topic: str = "all_reduce", **changes: Any) -> CardQuestion:
    usual = {"answer": "Gradients of late layers are ready while early layers still compute."}
    return CardQuestion(**_shared(word, topic, {**usual, **changes}))


def bank(*questions: Question, topic: str = "all_reduce", order: int = 1) -> Bank:
    title = topic.replace("_", " ").capitalize()
    return Bank(topic=topic, title=title, order=order, questions=questions, path=Path(f"quizzes/{topic}.yaml"))


def banks(topics: Sequence[str], each: int, **changes: Any) -> tuple[Bank, ...]:
    """Banks of `each` choices, number i named q0i."""
    return tuple(
        bank(*(choice(f"q{index:02}", topic, **changes) for index in range(each)), topic=topic, order=order)
        for order, topic in enumerate(topics, 1)
    )
