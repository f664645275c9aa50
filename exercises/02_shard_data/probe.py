"""Runs in every rank: asks the student's sampler for indices in many settings and records what came.

No process group exists, and the number of replicas is independent of the number of rank processes: every process asks
for the shards of all replicas, so that the judge can compare the shards with each other and the processes with each
other. Nothing here knows what is right.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

CALM_SEED = 20  # The global generators start here in every process, except where their influence is measured.
FRESH = 10  # So many of the general settings are asked of a freshly started interpreter too.

BAD_RANKS = [(3, 3), (3, 4), (3, -1), (3, -3), (1, 1), (5, 100), (0, 0), (-2, 0)]
"""(num_replicas, rank), none of which can be a rank of a training run; each is tried with 12 samples and with none."""


class Setting(NamedTuple):
    """One way to build a sampler. `epoch` None: set_epoch is not called."""

    n: int
    replicas: int
    shuffle: bool = True
    drop_last: bool = False
    seed: int = 0
    epoch: int | None = None


TABLES = {
    "one_rank": (Setting(24, 1), 16),
    "two_ranks": (Setting(24, 2), 72),
    "three_ranks": (Setting(24, 3), 72),
    "dropping_three": (Setting(11, 4, drop_last=True), 24),
    "dropping_one": (Setting(5, 2, drop_last=True), 18),
}
"""A setting and the number of epochs that one sampler for each replica goes through."""


class Numbers:
    """A map-style data set with nothing but a length and items, which notes what it was asked for."""

    def __init__(self, n: int, offset: int = 0) -> None:
        self.n, self.offset = n, offset
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        if not 0 <= index < self.n:
            raise IndexError(index)
        return index + self.offset


# What is asked: pure functions of the seed, which the judge calls too.


def general(seed: int) -> list[Setting]:
    """At least as many samples as replicas, divisible and not, with every pair of flags.

    The first FRESH settings shuffle and pad, with 12 or 13 samples on 1 to 5 replicas; the second calls set_epoch.
    """
    rng = random.Random(seed)
    sizes = [12, 13, rng.randrange(20, 40), rng.randrange(40, 70)]
    epochs = [None, 0, 1, rng.randrange(2, 30)]
    shapes = product((True, False), (False, True), sizes, (1, 2, 3, 4, 5))
    return [
        Setting(n, replicas, shuffle, drop_last, rng.randrange(1000), epochs[number % 4])
        for number, (shuffle, drop_last, n, replicas) in enumerate(shapes)
    ]


def in_order(seed: int) -> list[Setting]:
    """The general settings that do not shuffle."""
    return [setting for setting in general(seed) if not setting.shuffle]


def small(seed: int) -> list[Setting]:
    """Fewer samples than replicas; some need more padding than they have samples, and some have none."""
    rng = random.Random(seed + 1)
    shapes = [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (2, 5), (3, 8), (5, 11)]
    flags = [(True, False), (False, False), (True, True), (False, True)]
    return [Setting(n, N, *flag, seed=rng.randrange(1000)) for n, N in shapes for flag in flags]


def seeds(seed: int) -> list[int]:
    """Six different seeds for a sampler."""
    return random.Random(seed + 2).sample(range(1000), 6)


def history(seed: int) -> tuple[Setting, int]:
    """The setting whose order is asked in many ways, and another epoch to wander through."""
    rng = random.Random(seed + 3)
    epoch, detour = rng.sample(range(1, 30), 2)
    return Setting(rng.randrange(20, 40), 3, seed=rng.randrange(1000), epoch=epoch), detour


# Asking.


def build(student: Any, data: Numbers, s: Setting, replica: int) -> Any:
    sampler = student.ShardedSampler(data, s.replicas, replica, shuffle=s.shuffle, seed=s.seed, drop_last=s.drop_last)
    if s.epoch is not None:
        sampler.set_epoch(s.epoch)
    return sampler


def plain(index: Any) -> int:
    """The index as a Python int, whatever integer type it came as: which type is judged apart."""
    try:
        return int(index)
    except (TypeError, ValueError) as error:
        raise TypeError(f"an index of type {type(index).__name__} is no integer") from error


def indices(sampler: Any, n: int) -> list[int]:
    """All indices that the sampler yields, cut off where there are absurdly many, so that an endless one ends."""
    return [plain(index) for index in islice(iter(sampler), 4 * n + 64)]


def draw(student: Any, data: Numbers, setting: Setting, replica: int) -> dict[str, Any]:
    sampler = build(student, data, setting, replica)
    before = len(sampler)
    drawn = indices(sampler, setting.n)
    return {"before": before, "indices": drawn, "after": len(sampler)}


def draw_epochs(student: Any, data: Numbers, setting: Setting, replica: int, epochs: int) -> list[list[int]]:
    sampler = build(student, data, setting, replica)
    drawn = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        drawn.append(indices(sampler, setting.n))
    return drawn


def attempted(rank: Any, function: Callable[..., Any], *args: Any) -> Any:
    """What the function returned, or a description of what it raised."""
    outcome = rank.attempt(function, *args)
    return outcome.value if outcome.error is None else outcome.described()


def shards(rank: Any, setting: Setting, ask: Callable[..., Any] = draw, *args: Any, offset: int = 0) -> list[Any]:
    """What each replica answers; they share one data set object."""
    data = Numbers(setting.n, offset)
    return [attempted(rank, ask, rank.student, data, setting, replica, *args) for replica in range(setting.replicas)]


# The same order, asked in many ways.


def by_history(student: Any, data: Numbers, setting: Setting, replica: int, name: str, detour: int) -> list[int]:
    sampler = build(student, data, setting, replica)
    if name == "second_pass":
        indices(sampler, setting.n)
    if name == "abandoned_pass":
        next(iter(sampler))
    if name == "detour":
        sampler.set_epoch(detour)
        indices(sampler, setting.n)
    if name in ("detour", "epoch_set_twice"):
        sampler.set_epoch(setting.epoch)
    return indices(sampler, setting.n)


@contextmanager
def launcher_variables() -> Iterator[None]:
    """RANK and its like as torchrun would set them for a rank of some other group."""
    names = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    os.environ.update(names)
    yield
    for name in names:
        del os.environ[name]


@contextmanager
def process_group() -> Iterator[None]:
    """A default group of this process alone: its rank and size differ from what the samplers are told."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def histories(rank: Any) -> dict[str, list[Any]]:
    setting, detour = history(rank.seed)
    data = Numbers(setting.n)  # stays alive beside the other data set, so that their ids differ

    def ask(name: str, data: Numbers = data) -> list[Any]:
        fixed = (rank, by_history, rank.student, data, setting)
        return [attempted(*fixed, replica, name, detour) for replica in range(setting.replicas)]

    names = ("first", "second_pass", "abandoned_pass", "detour", "epoch_set_twice")
    told = {name: ask(name) for name in names}
    told["other_samples"] = ask("", Numbers(setting.n, offset=1000))
    with launcher_variables():
        told["launcher_variables"] = ask("")
    with process_group():
        told["process_group"] = ask("")
    return told


def three_calls(student: Any, data: Numbers, setting: Setting, replica: int) -> dict[str, list[int]]:
    """One sampler, written in three ways."""
    calls = {
        "defaults": student.ShardedSampler(data, 3, replica),
        "keywords": student.ShardedSampler(
            dataset=data, num_replicas=3, rank=replica, shuffle=True, seed=0, drop_last=False
        ),
        "positions": student.ShardedSampler(data, 3, replica, True, 0, False),
    }
    return {name: indices(sampler, setting.n) for name, sampler in calls.items()}


# A freshly started interpreter.

FRESH_PROGRAM = """
import gc, os, sys
gc.disable()  # this and the short way out halve the time that importing torch costs
sys.path.insert(0, sys.argv[1])
import probe
probe.answer_freshly(*sys.argv[2:])
os._exit(0)
"""


def start_fresh_interpreter(rank: Any) -> subprocess.Popen[bytes]:
    """A new Python with another hash seed, which writes what its samplers draw to a file."""
    folder = str(Path(rank.student.__file__).parent)
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with open(rank.scratch / "fresh.err", "wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-B", "-c", FRESH_PROGRAM, folder, rank.student.__name__, str(rank.seed), "fresh.json"],
            cwd=rank.scratch,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )


def answer_freshly(module: str, seed: str, path: str) -> None:
    """What the fresh interpreter does."""
    student = importlib.import_module(module)
    seed_globals(CALM_SEED)
    answers = []
    for setting in general(int(seed))[:FRESH]:
        data = Numbers(setting.n)
        answers.append([draw(student, data, setting, replica)["indices"] for replica in range(setting.replicas)])
    Path(path).write_text(json.dumps(answers))


def fresh_answers(rank: Any, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    if process.wait() == 0:
        return {"orders": json.loads((rank.scratch / "fresh.json").read_text())}
    lines = (rank.scratch / "fresh.err").read_text(errors="replace").split("\n")
    return {"code": process.returncode, "error": next((line[:300] for line in reversed(lines) if line.strip()), "")}


# The global generators.


def seed_globals(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def generator_states() -> dict[str, str]:
    """A short digest of the state of each global generator."""
    legacy: Any = np.random.get_state()
    states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "NumPy": repr((legacy[1].tobytes(), *legacy[2:])).encode(),
        "Python": repr(random.getstate()).encode(),
    }
    return {name: hashlib.sha256(state).hexdigest()[:16] for name, state in states.items()}


def watched(student: Any, data: Numbers, setting: Setting, replica: int, global_seed: int) -> dict[str, Any]:
    """Draws once, with the state of the global generators before the first and after each step."""
    seed_globals(global_seed)
    states = {"at the start": generator_states()}
    sampler = build(student, data, setting._replace(epoch=None), replica)
    states["while it was built"] = generator_states()
    sampler.set_epoch(setting.epoch)
    states["during set_epoch"] = generator_states()
    iterator = iter(sampler)
    drawn = [plain(index) for index in islice(iterator, 1)]
    states["with the first index"] = generator_states()
    drawn += indices(iterator, setting.n)
    states["during the pass"] = generator_states()
    return {"indices": drawn, "states": states}


def global_generators(rank: Any) -> list[list[Any]]:
    """For each replica three draws: the global generators seeded with a, with b, and with a again."""
    setting, _ = history(rank.seed)
    data, starts = Numbers(setting.n), (1000 + rank.rank, 2000 + rank.rank, 1000 + rank.rank)
    return [
        [attempted(rank, watched, rank.student, data, setting, replica, start) for start in starts]
        for replica in range(setting.replicas)
    ]


# As a DataLoader's sampler.


def kind_of(value: Any) -> str:
    return "int" if type(value) is int else f"{type(value).__module__}.{type(value).__qualname__}"


def loaded(student: Any, data: Any, setting: Setting, replica: int) -> dict[str, Any]:
    """The sampler alone, then inside a DataLoader with batches of two."""
    asked_before = len(data.asked)
    sampler = build(student, data, setting, replica)
    kinds = sorted({kind_of(index) for index in islice(iter(sampler), 4 * setting.n)})
    told = {"is_sampler": isinstance(sampler, Sampler), "kinds": kinds, "length": len(sampler)}
    touched = len(data.asked) - asked_before
    loader: DataLoader[int] = DataLoader(data, batch_size=2, sampler=sampler)
    batches = [batch.tolist() for batch in islice(loader, 4 * setting.n)]
    return {**told, "touched": touched, "batches": batches}


def bad_rank(rank: Any, n: int, replicas: int, number: int) -> dict[str, Any]:
    described: dict[str, Any] = rank.attempt(rank.student.ShardedSampler, Numbers(n), replicas, number).described()
    return described


def orders(rank: Any) -> None:
    """The one case. All but the fresh interpreter takes a few milliseconds."""
    seed_globals(CALM_SEED)
    told = histories(rank)
    fresh = start_fresh_interpreter(rank) if rank.rank == 0 and is_settled(told) else None
    rank.record("histories", told)
    rank.record("general", [shards(rank, setting) for setting in general(rank.seed)])
    rank.record("small", [shards(rank, setting) for setting in small(rank.seed)])
    rank.record("seeds", [shards(rank, Setting(24, 2, seed=seed, epoch=1)) for seed in seeds(rank.seed)])
    rank.record("in_order", [shards(rank, s._replace(seed=s.seed + 1, epoch=31)) for s in in_order(rank.seed)])
    rank.record("three_calls", shards(rank, Setting(13, 3), three_calls))
    rank.record("bad_ranks", [bad_rank(rank, n, *each) for n in (12, 0) for each in BAD_RANKS])
    rank.record("loaded", shards(rank, Setting(14, 3, seed=1, epoch=1), loaded, offset=100))
    rank.record("global_generators", global_generators(rank))
    seed = seeds(rank.seed)[0]
    tables = {name: (setting._replace(seed=seed), epochs) for name, (setting, epochs) in TABLES.items()}
    rank.record("tables", {name: shards(rank, s, draw_epochs, epochs) for name, (s, epochs) in tables.items()})
    rank.record("fresh", fresh_answers(rank, fresh) if fresh else None)


def is_settled(told: dict[str, list[Any]]) -> bool:
    """Whether a new process can tell more: where this one disagrees with itself already, it need not be started."""
    first = told["first"]
    return isinstance(first[0], list) and all(answer == first for answer in told.values())
