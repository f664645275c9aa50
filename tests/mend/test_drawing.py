"""Mend this: which program comes next, which are open to whom, what is kept of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from grader.model.errors import UsageError
from grader.practice.mend import choice, pack
from grader.practice.mend.draw import NOT_MENDED, Offer, draw, failed_before, weight
from grader.practice.mend.kept import Mend
from grader.practice.store import Store
from tests import mending, small
from tests.attempts import attempt
from tests.mending import mend

OFFERS = tuple(
    Offer(exercise=exercise, mutant=mutant, fails=fails)
    for exercise, mutant, fails in [
        ("01_join", "ends_early", ("runs",)),
        ("01_join", "adds_twice", ("sums",)),
        ("02_shard", "drops_the_last", ("sums",)),
    ]
)


# -- drawing -----------------------------------------------------------------------------------------------------------


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


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_mends_come_back_as_they_were_each_once(store):
    first, second = mend(OFFERS[0]), mend(OFFERS[2], "2", grades=(("sums",), ()), hints=2, seconds=31.5)
    store.keep_mend(first)
    store.keep_mend(second)
    store.keep_mend(replace(first, status="mended"))
    again = Store(store.path)
    assert again.mends() == (replace(first, status="mended"), second)
    assert again.mends("02_shard") == (second,) and second.open and second.left == 12 * 60 - 31.5


# -- what is open ------------------------------------------------------------------------------------------------------


def test_a_mend_comes_after_a_pass(root, store):
    with pytest.raises(UsageError, match=r"comes after you have passed it \(make grade EX=90\). You have passed none"):
        choice.open_packs(root, store, small.NAME, spoil=False)
    with pytest.raises(UsageError, match="comes after a pass"):
        choice.open_packs(root, store, None, spoil=False)
    assert choice.open_packs(root, store, None, spoil=True)
    store.add(attempt(small.NAME, "failed"))
    assert choice.passed(store) == set()
    store.add(attempt(small.NAME, "passed"))
    assert [found.exercise for found in choice.open_packs(root, store, None, spoil=False)] == [small.NAME]


def test_a_copy_without_packs_says_so(root, store, tmp_path):
    copy = small.build(tmp_path / "other")
    with pytest.raises(UsageError, match="No mends of 90 are in this copy"):
        choice.open_packs(copy, store, small.NAME, spoil=True)


def test_mends_whose_checks_are_gone_are_not_drawn(root, store, tmp_path):
    copy = small.build(tmp_path / "other")
    first, second = mending.packed(copy)
    save = lambda *found: pack.save(pack.place(small.NAME, copy), small.NAME, found)  # noqa: E731
    save(replace(first, fails=("gone",)), second)
    packs = choice.open_packs(copy, store, None, spoil=True)
    assert {choice.drawn(packs, copy, store, seed).packed.mutant for seed in range(9)} == {second.mutant}
    save(replace(first, fails=("gone",)))
    with pytest.raises(UsageError, match="packed for other exercises"):
        choice.drawn(choice.open_packs(copy, store, None, spoil=True), copy, store, 1)


def test_a_program_is_written_beside_those_that_are_there(root, store, tmp_path):
    copy = small.build(tmp_path / "other")
    mending.packed(copy)
    chosen = choice.drawn(choice.open_packs(copy, store, None, spoil=True), copy, store, 1)
    first, second = choice.write(chosen, copy), choice.write(chosen, copy)
    assert [file.relative_to(copy).as_posix() for file in (first, second)] == [
        "mends/90_total/1/total.py", "mends/90_total/2/total.py",
    ]  # fmt: skip
    written = {path.name for path in (copy / "mends").rglob("*") if path.is_file()}
    assert written == {"total.py"} and first.read_text() == chosen.packed.source
