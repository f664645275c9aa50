"""Exercise 20's clusters catch planners that leave something out or keep what they found, whatever is drawn.

No rank is started: the exercise's own cost model, in its checks, says what each rule of thumb would find.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "exercises" / "20_plan_parallelism"
SEEDS = range(5)
ENOUGH = 1.05
"""So many times the least time a plan may take."""


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"traps_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROBE, CHECKS = loaded("probe"), loaded("checks")


class Question:
    """A model and a cluster, and all legal plans: their fields as arrays, memory and time."""

    def __init__(self, model: Any, cluster: Any) -> None:
        self.model, self.cluster = model, cluster
        self.plans = CHECKS.legal_plans(model, cluster)
        self.dp, self.tp, self.pp, self.stage, self.batch, self.again = self.plans
        self.fits = CHECKS.memory(model, self.plans) <= cluster[2]
        self.times = CHECKS.seconds(model, cluster, self.plans)
        self.enough = self.fits & (self.times <= ENOUGH * self.times[self.fits].min())

    def good(self) -> set[tuple[int, ...]]:
        """All plans that are near enough to the best."""
        return {tuple(map(int, plan)) for plan in self.plans[:, self.enough].T}

    def misled(self, looked_at: Any) -> bool:
        """Whether the best plan of those that are looked at is too slow. Where none of them fits, all are."""
        among = self.fits & looked_at if (self.fits & looked_at).any() else self.fits
        return bool(self.times[among].min() > ENOUGH * self.times[self.fits].min())


def power_of_two(numbers: Any) -> Any:
    return (numbers & (numbers - 1)) == 0


def micro_batches(q: Question) -> Any:
    return q.model[5] // (q.dp * q.batch)


RULES: dict[str, Callable[[Question], Any]] = {
    "ZeRO stage 3 is the last resort": lambda q: q.stage < 3,
    "gradients are never sharded": lambda q: q.stage < 2,
    "stage 2 is never tried": lambda q: q.stage != 2,
    "replicas in powers of two": lambda q: power_of_two(q.dp),
    "tensor parallelism in powers of two": lambda q: power_of_two(q.tp),
    "stages in powers of two": lambda q: power_of_two(q.pp),
    "micro-batches in powers of two": lambda q: power_of_two(q.batch),
    "nothing is recomputed": lambda q: q.again == 0,
    "everything is recomputed": lambda q: q.again == 1,
    "no pipeline": lambda q: q.pp == 1,
    "no tensor parallelism": lambda q: q.tp == 1,
    "no replicas": lambda q: q.dp == 1,
    "half of a node at most": lambda q: 2 * q.tp <= q.cluster[1],
    "all of a node or nothing": lambda q: (q.tp == 1) | (q.tp == q.cluster[1]),
    "32 stages at most": lambda q: q.pp <= 32,
    "64 replicas at most": lambda q: q.dp <= 64,
    "256 replicas at most": lambda q: q.dp <= 256,
    "16 sequences at most": lambda q: q.batch <= 16,
    "pipelines are always full": lambda q: micro_batches(q) >= q.pp,
    "one of tensor parallelism and pipeline": lambda q: (q.tp == 1) | (q.pp == 1),
}


def asked(seed: int, name: str) -> list[Question]:
    secret = 0x9E3779B97F4A7C15 * (seed + 1) % 2**62
    return [Question(*one) for one in PROBE.traps(secret)[name]]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_rule_of_thumb_is_misled_by_some_cluster(seed: int) -> None:
    """Whatever speeds are drawn, a search by each of these rules finds a plan that is too slow."""
    questions = asked(seed, "unusual")
    assert [name for name, rule in RULES.items() if not any(one.misled(rule(one)) for one in questions)] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_no_plan_is_right_for_both_of_a_pair(seed: int) -> None:
    """What was kept from the first of a pair is wrong for the second, and the other way round."""
    questions = asked(seed, "twins")
    pairs = list(zip(questions[::2], questions[1::2], strict=True))
    assert len(pairs) == len(PROBE.TWINS)
    assert [pair[0].cluster for pair in pairs if pair[0].good() & pair[1].good()] == []


def test_every_field_has_a_pair_of_its_own() -> None:
    """For each field of model and cluster there are two questions that differ in it alone."""
    alone = {name for _, _, change in PROBE.TWINS for name in change if len(change) == 1}
    assert alone == {*PROBE.MODEL, *PROBE.CLUSTER}


def test_memory_has_a_pair_within_one_gigabyte() -> None:
    """What was kept by whole GB or GiB, cut off or rounded, is found by it."""
    pairs = [(row[1][2], row[2]["memory_bytes"]) for row in PROBE.TWINS if [*row[2]] == ["memory_bytes"]]
    coarse = [lambda size, unit=unit, to=to: to(size / unit) for unit in (1e9, 2**30) for to in (int, round)]
    assert any(all(kept(one) == kept(other) for kept in coarse) for one, other in pairs)


def test_plans_that_are_all_looked_at_mislead_nobody() -> None:
    """The control: a search that leaves nothing out is right everywhere."""
    assert not any(one.misled(np.ones_like(one.dp, dtype=bool)) for one in asked(0, "unusual"))
