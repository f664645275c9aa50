"""Mastery: of each topic, how much would be known today, over its questions and its exercise.

Each question and each exercise is a card of FSRS, the quiz's scheduler, which says how likely it is known today. What
was missed last, and what was never met, is not known. docs/practice.md says it for students.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fsrs import Card, Rating

from grader.model import Exercise
from grader.practice.interviews import held
from grader.practice.store import Store
from grader.quiz import deck
from grader.quiz.questions import Bank

OTHERS = "Processes and groups"
"""What exercises are about that no question names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One time at which an exercise showed what is known of it."""

    at: datetime
    rating: Rating


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """How one topic stands: `known` is the sum over its questions and exercises of how likely each is known today,
    `met` how many of its `count` were met. `name` is the bank's, empty where there is none; `due` is when the next of
    them should come again."""

    name: str
    title: str
    known: float
    met: int
    count: int
    due: datetime | None = None

    @property
    def share(self) -> float:
        return self.known / self.count if self.count else 0.0


def topics(exercises: Sequence[Exercise], banks: Sequence[Bank], store: Store, now: datetime) -> tuple[Topic, ...]:
    """One for each bank, and one for the exercises that no question names."""
    missed = {review["question"]: not review["right"] for review in deck.reviews(store)}
    chances = {name: _chance(card, missed.get(name, False), now) for name, card in deck.known(store).items()}
    cards = dict(deck.known(store))
    for name, reviews in reviews_of(store).items():
        card = deck.replayed(name, [(review.at, review.rating) for review in reviews])
        if card:
            cards[name], chances[name] = card, _chance(card, reviews[-1].rating == Rating.Again, now)
    homes = _homes(exercises, banks)
    found = [
        _topic(bank.topic, bank.title, [*(item.id for item in bank.questions), *_in(homes, bank.topic)], chances, cards)
        for bank in banks
    ]
    return (*found, *([_topic("", OTHERS, _in(homes, ""), chances, cards)] if _in(homes, "") else []))


def _chance(card: Card, missed: bool, now: datetime) -> float:
    """Right after a miss FSRS expects the answer that was just told; here it counts when it was given."""
    return 0.0 if missed else deck.retrievability(card, now)


def _topic(
    name: str, title: str, items: Sequence[str], chances: Mapping[str, float], cards: Mapping[str, Card]
) -> Topic:
    met = [item for item in items if item in chances]
    return Topic(
        name=name,
        title=title,
        known=sum(chances[item] for item in met),
        met=len(met),
        count=len(items),
        due=min((cards[item].due for item in met), default=None),
    )


def _homes(exercises: Sequence[Exercise], banks: Sequence[Bank]) -> dict[str, str]:
    """For each exercise the topic whose questions name it most often, the first of several; empty where none does."""
    found = {}
    for exercise in exercises:
        named = Counter(
            {bank.topic: sum(item.exercise == exercise.number for item in bank.questions) for bank in banks}
        )
        topic, times = named.most_common(1)[0] if named else ("", 0)
        found[exercise.name] = topic if times else ""
    return found


def _in(homes: Mapping[str, str], topic: str) -> list[str]:
    return [name for name, home in homes.items() if home == topic]


# -- what an exercise's card is made of -------------------------------------------------------------------------------


def reviews_of(store: Store) -> dict[str, list[Review]]:
    """By exercise, each time at which it showed what is known: the oldest first."""
    found: dict[str, list[Review]] = {}
    for name, review in sorted([*_passes(store), *_interviews(store), *_mends(store)], key=lambda pair: pair[1].at):
        found.setdefault(name, []).append(review)
    return found


def due(store: Store, exercise: str) -> datetime | None:
    """When an exercise should come again; None where nobody has tried it in a way that counts."""
    card = deck.replayed(exercise, [(each.at, each.rating) for each in reviews_of(store).get(exercise, ())])
    return card.due if card else None


def _passes(store: Store) -> list[tuple[str, Review]]:
    """Files that passed for the first time: good, hard where a hint was taken. A file that passed before says nothing
    new, and one that fails is on its way."""
    seen, found = set[tuple[str, str]](), []
    for attempt in store.attempts():
        key = (attempt.exercise, attempt.digest)
        if attempt.status == "passed" and key not in seen:
            seen.add(key)
            rating = Rating.Hard if store.hints(attempt.exercise) else Rating.Good
            found.append((attempt.exercise, Review(at=attempt.at, rating=rating)))
    return found


def _mends(store: Store) -> list[tuple[str, Review]]:
    """A wrong program that was mended in time: good, hard where a hint was taken; else missed."""
    ratings = {"mended": Rating.Good, "late": Rating.Again, "given up": Rating.Again}
    found = []
    for mend in store.mends():
        if mend.status in ratings:
            most = Rating.Hard if mend.hints else Rating.Good
            found.append((mend.exercise, Review(at=mend.at, rating=min(ratings[mend.status], most))))
    return found


def _interviews(store: Store) -> list[tuple[str, Review]]:
    """An interview that is over: good where all checks passed, hard where a hint was taken, else missed."""
    found = []
    for interview in held(store):
        if interview.status == "over" and interview.grades:
            passed = any(grade.status == "passed" and grade.whole for grade in interview.grades)
            rating = (Rating.Hard if interview.hints else Rating.Good) if passed else Rating.Again
            found.append((interview.exercise, Review(at=interview.seen, rating=rating)))
    return found
