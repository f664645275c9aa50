"""Which questions come now: spaced repetition by FSRS over what a store keeps. Pure but for the store.

A day's new questions are few, due ones go first, topics alternate. Intervals are whole days (no learning steps): a
question that was missed comes again at the end of the same quiz, which the session sees to.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from fsrs import Card, Rating, ReviewLog, Scheduler

from grader.quiz.questions import Bank, Item

T = TypeVar("T")
NEW_A_DAY = 12
"""New questions a day. With some 150 in all, everyone has met each of them within two weeks."""
AHEAD = timedelta(hours=8)
"""What is due within this time is asked already: who comes an hour earlier than yesterday finds yesterday's cards."""
_SCHEDULER = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False, maximum_interval=365)
_READING = 4.0
"""Words a second that a person reads."""


class Store(Protocol):
    """Where cards and reviews are kept. Both are JSON text that only this module reads."""

    def cards(self) -> Mapping[str, str]:
        """The newest card of each question, by the question's id."""

    def keep(self, id: str, card_json: str, review_json: str, /) -> None:
        """Keep a question's card in place of the one before, and one more review, in one step: both or neither."""

    def reviews(self) -> Iterable[str]:
        """All reviews, the oldest first. Each is a JSON object with "question", "right" and what FSRS logs."""


def choose(
    banks: Sequence[Bank],
    store: Store,
    now: datetime,
    *,
    limit: int,
    topic: str | None = None,
    passed: Collection[str] = (),
) -> tuple[Item, ...]:
    """At most `limit` questions to ask now, or those of one topic: due ones, then new ones, topics alternating.

    Who names a topic wants to see it, so there the day's share of new ones does not count. `passed` are the numbers of
    the exercises that the learner has passed; their questions are introduced first."""
    cards = known(store)
    wanted = [bank for bank in banks if topic in (None, bank.topic)]
    again = due(wanted, cards, now)[:limit]
    room = limit - len(again)
    if topic is None:
        room = min(room, NEW_A_DAY - introduced(store, now))
    fresh = unseen(wanted, cards, passed)[: max(room, 0)]
    return (*_alternating(again), *_alternating(fresh))


def due(banks: Sequence[Bank], cards: Mapping[str, Card], now: datetime) -> list[Item]:
    """The questions that are due at `now` or soon after, the one that is most likely forgotten first."""
    listed = [question for bank in banks for question in bank.questions if question.id in cards]
    found = [question for question in listed if cards[question.id].due <= now + AHEAD]
    return sorted(found, key=lambda question: retrievability(cards[question.id], now))


def unseen(banks: Sequence[Bank], cards: Mapping[str, Card], passed: Collection[str] = ()) -> list[Item]:
    """The questions that were never asked, in the order in which to introduce them: those of exercises passed, then
    those of none, then the rest; the easy before the hard; one of each topic in turn."""
    keyed = []
    for place, bank in enumerate(banks):
        new = [question for question in bank.questions if question.id not in cards]
        new.sort(key=lambda question: (_tier(question, passed), question.difficulty))
        keyed += [((_tier(question, passed), turn, place), question) for turn, question in enumerate(new)]
    return [question for _, question in sorted(keyed, key=lambda pair: pair[0])]


def _tier(question: Item, passed: Collection[str]) -> int:
    if question.exercise in passed:
        return 0
    return 1 if question.exercise is None or not passed else 2


def _alternating(questions: Sequence[Item]) -> list[Item]:
    """The same questions in nearly the same order, no two of one topic in a row where that can be had."""
    left, found = list(questions), list[Item]()
    while left:
        last = found[-1].topic if found else None
        topic, count = Counter(question.topic for question in left).most_common(1)[0]
        urgent = topic if 2 * count > len(left) and topic != last else None  # later there would not be others enough
        fits = (index for index, one in enumerate(left) if (one.topic == urgent if urgent else one.topic != last))
        found.append(left.pop(next(fits, 0)))
    return found


def introduced(store: Store, now: datetime) -> int:
    """How many questions were asked for the first time on the day of `now`, in its time zone."""
    first: dict[str, datetime] = {}
    for review in reviews(store):
        first.setdefault(str(review["question"]), review["review_datetime"])
    return sum(moment.astimezone(now.tzinfo).date() == now.date() for moment in first.values())


def reviews(store: Store) -> Iterator[Mapping[str, Any]]:
    """The reviews that can be read, the oldest first, with "review_datetime" as a moment."""
    for text in store.reviews():
        review = _read(text, _review)
        if review is not None:
            yield review


def _review(text: str) -> dict[str, Any]:
    review = dict(json.loads(text))
    moment = _zoned(datetime.fromisoformat(review["review_datetime"]))
    return {**review, "question": str(review["question"]), "right": bool(review["right"]), "review_datetime": moment}


def known(store: Store) -> dict[str, Card]:
    """The cards that can be read. A damaged one is as if its question had never been asked."""
    found = {identity: _read(text, _card) for identity, text in store.cards().items()}
    return {identity: card for identity, card in found.items() if card is not None}


def _card(text: str) -> Card:
    card = Card.from_json(text)
    _zoned(card.due)
    _zoned(card.last_review or card.due)
    return card


def _zoned(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone")
    return moment


def _read(text: str, parse: Callable[[str], T]) -> T | None:
    try:
        return parse(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def keep(store: Store, question: Item, rating: Rating, now: datetime, seconds: float) -> datetime:
    """Keep one answer, `seconds` after the question was shown. When the question is due again."""
    card, log = _reviewed(known(store).get(question.id), question.id, rating, now, max(0, round(seconds * 1000)))
    review = {"question": question.id, "right": rating > Rating.Again, **log.to_dict()}
    store.keep(question.id, card.to_json(), json.dumps(review))
    return card.due


def _reviewed(
    card: Card | None, id: str, rating: Rating, at: datetime, milliseconds: int | None = None
) -> tuple[Card, ReviewLog]:
    moment = at.astimezone(UTC)
    before = card or Card(card_id=zlib.crc32(id.encode()), due=moment)
    return _SCHEDULER.review_card(before, rating, moment, milliseconds)


def replayed(id: str, reviews: Iterable[tuple[datetime, Rating]]) -> Card | None:
    """The card of anything that was reviewed at these moments, the oldest first; None where it never was."""
    card = None
    for at, rating in reviews:
        card, _ = _reviewed(card, id, rating, at)
    return card


def retrievability(card: Card, now: datetime) -> float:
    """How likely it is known at `now`, by FSRS: 1 on the day of its last review, and less each day after."""
    return float(_SCHEDULER.get_card_retrievability(card, now.astimezone(UTC)))


def rating(question: Item, *, right: bool, hinted: bool, seconds: float, first: bool) -> Rating:
    """How well an answer shows that the question is known. The `first` time a letter may be a lucky guess, so it counts
    as good at most."""
    if not right:
        return Rating.Again
    if hinted:
        return Rating.Hard
    guess = first and question.guessable
    return Rating.Easy if seconds <= _quick(question) and not guess else Rating.Good


def _quick(question: Item) -> float:
    """Seconds within which an answer needs no thought: the time to read, and some to type."""
    words = len(" ".join([question.text, *question.choices]).split())
    return words / _READING + question.typing_seconds
