"""Mend this: what is drawn, what a pack holds, the dialogue, what is kept. No process is started."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from grader.practice.mend.draw import NOT_MENDED, Offer, draw, failed_before, weight
from grader.practice.mend.kept import Mend
from grader.practice.store import Store
from tests.test_progress import NOW, attempt

OFFERS = tuple(
    Offer(exercise=exercise, mutant=mutant, fails=fails)
    for exercise, mutant, fails in [
        ("01_join", "ends_early", ("runs",)),
        ("01_join", "adds_twice", ("sums",)),
        ("02_shard", "drops_the_last", ("sums",)),
    ]
)


def mend(offer: Offer, name: str = "1", **facts) -> Mend:
    given = {"at": NOW, "file": "mends/01_join/1/join.py", "minutes": 12.0, **facts}
    return Mend(name=name, exercise=offer.exercise, mutant=offer.mutant, fails=offer.fails, **given)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "progress.sqlite3")


# -- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_none_comes_twice_before_all_were_seen(seed):
    seen: list[Mend] = []
    for number in range(3 * len(OFFERS)):
        drawn = draw(OFFERS, seen, [], seed + number)
        seen.append(mend(drawn, str(number), status="mended"))
    keys = [(each.exercise, each.mutant) for each in seen]
    assert [len(set(keys[start : start + 3])) for start in (0, 3, 6)] == [3, 3, 3]
    assert all(one != other for one, other in pairwise(keys))


def test_what_the_person_failed_before_comes_rather():
    attempts = [attempt(runs="passed", sums="failed"), attempt(runs="passed", sums="failed")]
    drawn = Counter(draw(OFFERS[:2], [], attempts, seed).mutant for seed in range(400))
    assert drawn["adds_twice"] > 2 * drawn["ends_early"] > 0


def test_a_failure_counts_for_its_own_exercise_and_up_to_a_limit():
    failures = failed_before([attempt(runs="failed", sums="blocked")] * 9, [])
    assert [weight(offer, failures, []) for offer in OFFERS] == [4, 1, 1]


def test_one_that_was_not_mended_weighs_more_and_so_do_checks_that_failed_meanwhile():
    given_up = mend(OFFERS[0], status="given up", grades=(("runs",), ("runs", "sums")))
    assert failed_before([], [given_up]) == {("01_join", "runs"): 2, ("01_join", "sums"): 1}
    assert weight(OFFERS[0], Counter(), [given_up]) == 1 + NOT_MENDED
    assert weight(OFFERS[0], Counter(), [given_up, replace(given_up, status="mended")]) == 1


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_mends_come_back_as_they_were_each_once(store):
    first, second = mend(OFFERS[0]), mend(OFFERS[2], "2", grades=(("sums",), ()), hints=2, seconds=31.5)
    store.keep_mend(first)
    store.keep_mend(second)
    store.keep_mend(replace(first, status="mended"))
    again = Store(store.path)
    assert again.mends() == (replace(first, status="mended"), second)
    assert again.mends("02_shard") == (second,) and second.open and second.left == 12 * 60 - 31.5
