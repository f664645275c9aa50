"""What an interview is about: an exercise and questions, drawn by what the person was asked and knew lately."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from grader.model import Exercise
from grader.quiz import deck
from grader.quiz.chains import Chain, DesignCase
from grader.quiz.interview.state import Interview
from grader.quiz.questions import Bank, Item, Question

LATELY = timedelta(days=14)
MINUTES_A_QUESTION = 9
"""One question for so many minutes of the interview, and at least `FEWEST`."""
FEWEST, MOST = 3, 10
LINKED = 2
"""A chain or a design case takes the time of so many questions."""
BOTH = 5
"""From so many questions on there are a chain and a design case among them, from FEWEST on one of the two."""


def draw_exercise(
    exercises: Sequence[Exercise], passed: Mapping[str, datetime], minutes: float, now: datetime, seed: int
) -> Exercise:
    """One that fits the time and was not `passed` lately, at random. Where all that fit were, the shortest of the
    others; where all were, the one whose pass is oldest."""
    fitting = [each for each in exercises if each.time_box <= minutes] or [min(exercises, key=lambda e: e.time_box)]
    open_ones = [each for each in exercises if each.name not in passed or now - passed[each.name] > LATELY]
    stale = [each for each in fitting if each in open_ones]
    if not stale and open_ones:
        return min(open_ones, key=lambda each: each.time_box)
    if not stale:
        return min(fitting, key=lambda each: passed[each.name])
    ready = [each for each in stale if set(each.prerequisites) <= passed.keys()]
    return random.Random(seed).choice(ready or stale)


def draw_questions(
    banks: Sequence[Bank],
    known: Collection[str],
    exercise: Exercise,
    minutes: float,
    seed: int,
    count: int | None = None,
) -> tuple[Item, ...]:
    """Questions that were not answered right lately (`known` were): those about the exercise first, then one topic
    after the other; then a chain and a design case where there is time for them. `count` overrides how many there
    are."""
    number = min(MOST, max(FEWEST, int(minutes // MINUTES_A_QUESTION))) if count is None else count
    chance = random.Random(seed)
    linked = _linked(banks, known, exercise, number, chance)
    singles = number - len(linked) * (1 if count is not None else LINKED)
    return (*_singles(banks, known, exercise, singles, chance), *linked)


def _linked(
    banks: Sequence[Bank], known: Collection[str], exercise: Exercise, number: int, chance: random.Random
) -> list[Item]:
    """A chain and a case, or one of the two, or none: those about the exercise before others, the unknown before the
    known."""
    items = [item for bank in banks for item in bank.questions if isinstance(item, Chain)]
    kinds = [[item for item in items if isinstance(item, DesignCase) == is_case] for is_case in (False, True)]
    found: list[Item] = []
    for kind in filter(None, kinds):
        chance.shuffle(kind)
        found.append(min(kind, key=lambda item: (item.id in known, item.exercise != exercise.number)))
    if number < FEWEST:
        return []
    return found if number >= BOTH else chance.sample(found, min(1, len(found)))


def _singles(
    banks: Sequence[Bank], known: Collection[str], exercise: Exercise, number: int, chance: random.Random
) -> list[Question]:
    pools = []
    for bank in banks:
        single = [item for item in bank.questions if isinstance(item, Question)]
        pool = [question for question in single if question.id not in known] or single
        chance.shuffle(pool)
        pools.append(pool)
    chance.shuffle(pools)
    dealt = [
        question for layer in range(max(map(len, pools), default=0)) for pool in pools for question in pool[layer:][:1]
    ]
    about = [question for question in dealt if question.exercise == exercise.number]
    first = about[: max(1, number // 3)]
    return [*first, *(question for question in dealt if question not in first)][: max(0, number)]


def passed_in(interviews: Iterable[Interview]) -> dict[str, datetime]:
    """When each exercise was last passed in an interview, as a whole."""
    found: dict[str, datetime] = {}
    for interview in interviews:
        if any(grade.status == "passed" and grade.whole for grade in interview.grades):
            found[interview.exercise] = max(interview.seen, found.get(interview.exercise, interview.seen))
    return found


def known_lately(store: deck.Store, now: datetime) -> set[str]:
    """The questions whose last answer was right and is not long ago."""
    last: dict[str, bool] = {}
    for review in deck.reviews(store):
        last[review["question"]] = review["right"] and now - review["review_datetime"] <= LATELY
    return {question for question, right in last.items() if right}
