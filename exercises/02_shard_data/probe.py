"""Runs in every rank: asks the student's sampler for indices in many settings and records what came.

No process group exists, and the number of replicas is independent of the number of rank processes: every process asks
for the shards of all replicas, so that the judge can compare the shards with each other and the processes with each
other. Nothing here knows what is right.
"""

import hashlib
import importlib
import os
import random
from contextlib import contextmanager
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

from grader.kit import groups, values
from grader.kit.interpreter import FreshInterpreter

CALM_SEED = 20
"""The global generators start here in every process, except where their influence is measured."""
FRESH = 10
"""So many of the general settings, and of those with something left out, are asked of a freshly started interpreter."""
DEFAULTS = {"shuffle": True, "seed": 0, "drop_last": False}
BAD_RANKS = [(3, 3), (3, 4), (3, -1), (3, -3), (1, 1), (5, 100), (0, 0), (-2, 0)]
"""(num_replicas, rank), none of which can be a rank of a training run; each is tried with 12 samples and with none."""


class Setting(NamedTuple):
    """One way to build a sampler. `epoch` None: set_epoch is not called. `short`: the constructor is not handed what
    equals its default."""

    n: int
    replicas: int
    shuffle: bool = True
    drop_last: bool = False
    seed: int = 0
    epoch: int | None = None
    short: bool = False

    def options(self):
        """What the constructor is handed by keyword."""
        given = {name: getattr(self, name) for name in DEFAULTS}
        return {name: value for name, value in given.items() if not self.short or value != DEFAULTS[name]}

    def shortened(self):
        """The same with the default seed, and with all that can be left out left out."""
        return self._replace(seed=0, short=True)


TABLES = {
    "one_rank": (Setting(24, 1), 16),
    "two_ranks": (Setting(24, 2), 72),
    "three_ranks": (Setting(24, 3), 72),
    "dropping_three": (Setting(11, 4, drop_last=True), 24),
    "dropping_one": (Setting(5, 2, drop_last=True), 18),
    "large": (Setting(4500, 3), 2),
}
"""A setting and the number of epochs that one sampler for each replica goes through."""
SHORT_TABLES = ("one_rank", "two_ranks", "dropping_one")
"""Those that are asked of samplers with options left out, too."""


# What is asked: pure functions of the seed, which the judge calls too.


def general(seed):
    """At least as many samples as replicas, divisible and not, with every pair of flags.

    The first FRESH settings shuffle and pad, with 12 or 13 samples on 1 to 5 replicas.
    """
    rng = values.random_for(seed, "general")
    sizes = [12, 13, rng.randrange(20, 40), rng.randrange(40, 70)]
    epochs = [0, 1, rng.randrange(2, 30)]
    shapes = product((True, False), (False, True), sizes, (1, 2, 3, 4, 5))
    return [
        Setting(n, replicas, shuffle, drop_last, rng.randrange(1, 1000), epochs[number % 3])
        for number, (shuffle, drop_last, n, replicas) in enumerate(shapes)
    ]


def in_order(seed):
    """The general settings that do not shuffle, with another seed and epoch."""
    return [one._replace(seed=one.seed + 1, epoch=31) for one in general(seed) if not one.shuffle]


def small(seed):
    """Fewer samples than replicas; some need more padding than they have samples, and some have none."""
    rng = values.random_for(seed, "small")
    shapes = [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (2, 5), (3, 8), (5, 11)]
    return [
        Setting(n, N, *flags, rng.randrange(1, 1000), rng.randrange(30))
        for n, N in shapes
        for flags in product((True, False), (False, True))
    ]


def left_out(seed):
    """Settings whose options are left out where they equal the defaults; set_epoch is called for half of them."""
    rng = values.random_for(seed, "left out")
    shapes = product((13, rng.randrange(20, 40), 2), (1, 3, 4), (True, False), (False, True))
    settings = [Setting(*shape, epoch=rng.randrange(30)).shortened() for shape in shapes]
    return [one if number % 8 < 4 else one._replace(epoch=None) for number, one in enumerate(settings)]


def seeds(seed):
    """One setting with different seeds, among them 0, 1, such as code has of its own, and such as share their last bits
    or digits; in two epochs."""
    few = [0, 1, 42, 1234, 257, 1001, 65537, 100_001, 999_983]
    few += values.random_for(seed, "seeds").sample(range(2, 1000), 4)
    return [Setting(24, 2, seed=one, epoch=epoch) for epoch in (1, 0) for one in few]


def epoch_left_out(seed):
    """One setting with different seeds, where set_epoch is not called."""
    two = values.random_for(seed, "epoch left out").sample(range(2, 1000), 2)
    return [Setting(24, 2, seed=one) for one in (0, 1, *two)]


def far_epochs(seed):
    """One setting in epochs that lie far apart, powers of two and of ten among them."""
    far = [0, 1, 10, 64, 100, 128, 256, 500, 512, 1000, 1024, 4096, 10_000, 2**16, 10**6, 2**24]
    one = values.random_for(seed, "far epochs").randrange(1, 1000)
    return [Setting(24, 2, seed=one, epoch=epoch) for epoch in far]


def history(seed):
    """The settings whose orders are asked in many ways, by name."""
    rng = values.random_for(seed, "history")
    n = 3 * rng.randrange(7, 13) + rng.randrange(1, 3)  # which needs padding, or drops something
    given = Setting(n, 3, seed=rng.randrange(1, 1000), epoch=wandering(seed)[0])
    return {
        "given": given,
        "dropping": given._replace(drop_last=True),
        "first_epoch": given._replace(epoch=0),
        "left_out": given.shortened(),
        "epoch_left_out": given.shortened()._replace(epoch=None),
    }


def wandering(seed):
    """The epoch of these settings, and another one to wander through."""
    return values.random_for(seed, "wandering").sample(range(1, 30), 2)


def tables(seed):
    """A setting and a number of epochs by name: TABLES with a seed, and some with what can be left out left out."""
    given = {name: (one._replace(seed=seeds(seed)[-1].seed), epochs) for name, (one, epochs) in TABLES.items()}
    return given | {f"short_{name}": (TABLES[name][0].shortened(), TABLES[name][1]) for name in SHORT_TABLES}


def owner(name, run):
    """The process that goes through a table: one for each, for these are most of the draws."""
    return list(tables(run.seed)).index(name) % run.world_size


def in_loaders():
    """What a DataLoader draws with, by name."""
    given = Setting(14, 3, seed=1, epoch=1)
    return {"given": given, "in_order": given._replace(shuffle=False), "left_out": given.shortened()}


# Asking


class Numbers:
    """A map-style data set with nothing but a length and items, which notes what it was asked for."""

    def __init__(self, n, offset=0):
        self.n, self.offset, self.asked = n, offset, []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.asked.append(index)
        if not 0 <= index < self.n:
            raise IndexError(index)
        return index + self.offset


def build(student, data, s, replica):
    sampler = student.ShardedSampler(data, s.replicas, replica, **s.options())
    if s.epoch is not None:
        sampler.set_epoch(s.epoch)
    return sampler


def plain(index):
    """The index as a Python int, whatever integer type it came as: which type is judged apart."""
    try:
        return int(index)
    except (TypeError, ValueError) as error:
        raise TypeError(f"an index of type {type(index).__name__} is no integer") from error


def indices(sampler, n):
    """All indices that the sampler yields; of an endless one more than any share can have, and no more than is kept."""
    return [plain(index) for index in islice(iter(sampler), n + 16)]


def draw(student, data, setting, replica):
    sampler = build(student, data, setting, replica)
    before = len(sampler)
    drawn = indices(sampler, setting.n)
    return {"before": before, "indices": drawn, "after": len(sampler)}


def draw_epochs(student, data, setting, replica, epochs):
    sampler, drawn = build(student, data, setting, replica), []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        drawn.append(indices(sampler, setting.n))
    return drawn


def attempted(rank, function, *args):
    """What the function returned, or a description of what it raised."""
    outcome = rank.attempt(function, *args)
    return outcome.value if outcome.error is None else outcome.described()


def shards(rank, setting, ask=draw, *args, data=None):
    """What each replica answers; they share one data set object."""
    data = Numbers(setting.n) if data is None else data
    return [attempted(rank, ask, rank.student, data, setting, replica, *args) for replica in range(setting.replicas)]


# The same order, asked in many ways


WAYS = (
    "first",
    "second_pass",
    "abandoned_pass",
    "two_passes",
    "another_sampler",
    "another_split",
    "epoch_set_meanwhile",
    "detour",
    "epoch_set_twice",
)
EPOCH_SET_AGAIN = ("detour", "epoch_set_twice")


def by_history(student, data, setting, replica, way, detour):
    sampler = build(student, data, setting, replica)
    if way == "second_pass":
        indices(sampler, setting.n)
    if way == "abandoned_pass":
        next(iter(sampler))
    if way == "two_passes":
        one, other = iter(sampler), iter(sampler)
        begun = [plain(index) for index in [*islice(one, 1), *islice(other, 2)]][:1]
        return begun + indices(one, setting.n - len(begun))
    if way == "another_sampler":
        another = build(student, data, setting, replica)
        another.set_epoch(detour)
        indices(another, setting.n)
    if way == "another_split":  # which pads more
        indices(build(student, data, setting._replace(replicas=setting.n - 1), 0), setting.n)
    if way == "epoch_set_meanwhile":
        going_on = iter(sampler)
        begun = [plain(index) for index in islice(going_on, 1)]
        sampler.set_epoch(detour)
        return begun + indices(going_on, setting.n - len(begun))
    if way == "detour":
        sampler.set_epoch(detour)
        indices(sampler, setting.n)
    if way in EPOCH_SET_AGAIN:
        sampler.set_epoch(setting.epoch)
    return indices(sampler, setting.n)


@contextmanager
def launcher_variables():
    """RANK and its like as torchrun would set them for a rank of some other group."""
    names = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    os.environ.update(names)
    yield
    for name in names:
        del os.environ[name]


@contextmanager
def pretended_group(rank, world_size):
    """A default group of so many ranks, of which this process is one and the others do not exist."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    yield
    dist.destroy_process_group()


def histories(rank):
    """By setting and way, what each replica drew."""
    asked, (_, detour) = history(rank.seed), wandering(rank.seed)
    told = {name: {} for name in asked}
    data = Numbers(asked["given"].n)  # stays alive beside the other data set, so that their ids differ

    def ask(way, data=data):
        for name, setting in asked.items():
            if setting.epoch is not None or way not in EPOCH_SET_AGAIN:
                told[name][way] = shards(rank, setting, by_history, way, detour, data=data)

    for way in WAYS:
        ask(way)
    ask("other_samples", Numbers(data.n, offset=1000))
    with launcher_variables():
        ask("launcher_variables")
    with groups.alone():
        ask("process_group")
    with pretended_group(1, 3):
        ask("group_of_three")
    return told


def four_calls(student, data, setting, replica):
    """One sampler, written in two ways, and another one in two more."""
    make, flags = student.ShardedSampler, {"shuffle": True, "seed": 0, "drop_last": False}
    calls = {
        "defaults": make(data, 3, replica),
        "keywords": make(dataset=data, num_replicas=3, rank=replica, **flags),
        "positions": make(data, 3, replica, True, 2, True),
        "named": make(dataset=data, num_replicas=3, rank=replica, shuffle=True, seed=2, drop_last=True),
    }
    return {name: indices(sampler, setting.n) for name, sampler in calls.items()}


# Other processes, other generators


def asked_freshly(module, seed):
    """What a fresh interpreter answers: the shards of each setting; where a default fails, None."""
    student = importlib.import_module(module)
    seed_globals(CALM_SEED)
    told = {"general": [drawn_freshly(student, setting) for setting in general(seed)[:FRESH]], "left_out": []}
    for setting in left_out(seed)[:FRESH]:
        try:
            told["left_out"].append(drawn_freshly(student, setting))
        except Exception:  # which is told by the ranks, too
            told["left_out"].append(None)
    return told


def drawn_freshly(student, setting):
    data = Numbers(setting.n)
    return [draw(student, data, setting, replica)["indices"] for replica in range(setting.replicas)]


def is_settled(told):
    """Whether a new process can tell more: where this one disagrees with itself already, it need not be started."""
    first = told["given"]["first"]
    return isinstance(first[0], list) and all(answer == first for answer in told["given"].values())


def seed_globals(seed):
    values.seed_generators(seed)
    np.random.seed(seed)


def generator_states():
    """A digest of the state of each global generator."""
    legacy = np.random.get_state()
    states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "NumPy": repr((legacy[1].tobytes(), *legacy[2:])).encode(),
        "Python": repr(random.getstate()).encode(),
    }
    if torch.cuda.is_available():
        states["torch on GPUs"] = b"".join(state.numpy().tobytes() for state in torch.cuda.get_rng_state_all())
    return {name: hashlib.sha256(state).hexdigest() for name, state in states.items()}


def watched(student, data, setting, replica, global_seed):
    """Draws once, and notes which global generators are no longer in their first state after each step."""
    seed_globals(global_seed)
    torch.randn(1), np.random.standard_normal(), random.gauss(0.0, 1.0)  # of two normal numbers each keeps the other
    start, moved = generator_states(), {}

    def look(step):
        moved[step] = [name for name, state in generator_states().items() if state != start[name]]

    sampler = build(student, data, setting._replace(epoch=None), replica)
    look("while it was built")
    if setting.epoch is not None:
        sampler.set_epoch(setting.epoch)
        look("during set_epoch")
    iterator = iter(sampler)
    drawn = [plain(index) for index in islice(iterator, 1)]
    look("with the first index")
    drawn += indices(iterator, setting.n)
    look("during the pass")
    return {"indices": drawn, "moved": moved}


def global_generators(rank):
    """By setting, three draws of each replica: the global generators seeded with a, with b, and with a again."""
    starts, told = (1000 + rank.rank, 2000 + rank.rank, 1000 + rank.rank), {}
    for name, setting in history(rank.seed).items():
        data = Numbers(setting.n)
        draws = [shards(rank, setting, watched, start, data=data) for start in starts]
        told[name] = [list(of_replica) for of_replica in zip(*draws, strict=True)]
    return told


# As a DataLoader's sampler


def loaded(student, data, setting, replica):
    """The sampler alone, then inside a DataLoader with batches of two; as far as an endless one is followed."""
    asked_before = len(data.asked)
    sampler = build(student, data, setting, replica)
    kinds = [values.kind_of(index) for index in islice(iter(sampler), 2 * setting.n)]
    touched = len(data.asked) - asked_before
    sizes = [len(batch) for batch in islice(DataLoader(data, batch_size=2, sampler=sampler), setting.n)]
    return {
        "is_sampler": isinstance(sampler, Sampler),
        "drawn": len(kinds),
        "kinds": sorted(set(kinds)),
        "touched": touched,
        "sizes": sizes,
    }


def bad_rank(rank, n, replicas, number):
    return rank.attempt(rank.student.ShardedSampler, Numbers(n), replicas, number).described()


def orders(rank):
    """The one case. All but the fresh interpreter takes a few milliseconds."""
    seed_globals(CALM_SEED)
    told = histories(rank)
    fresh = FreshInterpreter(rank, "asked_freshly", rank.seed) if rank.rank == 0 and is_settled(told) else None
    rank.record("histories", told)
    for asked in (general, small, seeds, far_epochs, in_order, left_out, epoch_left_out):
        rank.record(asked.__name__, [shards(rank, setting) for setting in asked(rank.seed)])
    rank.record("four_calls", shards(rank, Setting(13, 3), four_calls))
    rank.record("bad_ranks", [bad_rank(rank, n, *each) for n in (12, 0) for each in BAD_RANKS])
    data = Numbers(14, offset=100)
    rank.record("loaded", {name: shards(rank, one, loaded, data=data) for name, one in in_loaders().items()})
    rank.record("global_generators", global_generators(rank))
    asked = {name: one for name, one in tables(rank.seed).items() if owner(name, rank) == rank.rank}
    told = {name: shards(rank, setting, draw_epochs, epochs) for name, (setting, epochs) in asked.items()}
    rank.record("tables", told)
    rank.record("fresh", fresh.ended() if fresh else None)
