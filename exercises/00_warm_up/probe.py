"""Runs in every rank: calls the five functions and records what they return. Nothing here knows an expected value.

What a rank puts into a collective is its own, from its secret. What `right_neighbour` and `stuck` are asked is the same
for all, for they need no other rank.
"""

import copy
import os
from dataclasses import dataclass

import torch

from grader.kit import meeting, processes
from grader.kit.values import generator, kind_of, normal, random_for, short, token

# -- total ------------------------------------------------------------------------------------------------------------

ELEMENTS = 512
AFTERWARDS = ", looked at after later calls"


def vector(secret, device="cpu", name="vector"):
    return normal((ELEMENTS,), secret, name).to(device)


def kinds(secret, device="cpu"):
    """Further tensors to add up, by what is special about them. Views are made on the device, where they stay views."""
    numbers = torch.tensor([token(secret, "whole", place) for place in range(8)])
    return {
        "a tensor without dimensions": normal((), secret, "single").to(device),
        "a matrix of float32": normal((3, 4), secret, "float32", dtype=torch.float32).to(device),
        "whole numbers, int64": (numbers + 2**55).to(device),
        "whole numbers, int32": numbers.to(torch.int32).to(device),
        "a transposed matrix": normal((3, 5), secret, "transposed").to(device).T,
        "every second element of a vector": normal((64,), secret, "second").to(device)[::2],
    }


def total(rank):
    value = vector(rank.secret, rank.device)
    first = rank.student.total(value)
    rank.record("vector", summed(first, value))
    earlier = {"vector": (first, value)}
    for name, value in kinds(rank.secret, rank.device).items():
        earlier[name] = (rank.student.total(value), value)
        rank.record(name, summed(*earlier[name]))
    for _, value in earlier.values():
        rank.student.total(value + 1)
    for name, (result, value) in earlier.items():
        rank.record(f"{name}{AFTERWARDS}", summed(result, value))


def summed(result, value):
    """What came of a call of `total`, and what has become of its argument. What is no tensor has none."""
    if isinstance(result, torch.Tensor):
        kind, tensor = "tensor", result.detach().cpu().clone()
    else:
        kind, tensor = type(result).__name__, torch.empty(0)
    return {"type": kind, "tensor": tensor, "argument": value.cpu().clone()}


# -- gather_in_order --------------------------------------------------------------------------------------------------

LETTER = 16 * 1024
"""Bytes of a letter, in which there is nothing to compress. More than the barriers move that go with files."""
LOOKS, LIMIT = 5, 2.0
"""Looks in a row that must find all others asleep before rank 1 comes with its letter, so that arrival and rank are two
orders; and seconds after which it comes anyway, by which nothing is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """An object that is nobody's but ours."""

    sender: int
    words: tuple


def word(secret):
    return f"word {token(secret, 'word'):06x}"


def letter(secret, length=LETTER):
    return bytes(torch.randint(256, (length,), generator=generator(secret, "letter", length)).tolist())


OBJECTS = {
    "none": lambda secret: None,
    "large": lambda secret: letter(secret, 20_000),
    "nested": lambda secret: {"loss": [0.5, token(secret, "nested")], "best": (True, None), "name": word(secret)},
    "parcel": lambda secret: Parcel(sender=token(secret, "parcel"), words=(word(secret), "")),
    "zero": lambda secret: 0,
    "nothing": lambda secret: [],
    "same": lambda secret: "the same on every rank",
    "single": lambda secret: [token(secret, "single")],
    "scores": lambda secret: [3.5, token(secret, "scores"), -1, 0.25],
    "tensor": lambda secret: normal((3,), secret, "tensor"),
    "matrix": lambda secret: normal((2, 2), secret, "matrix", dtype=torch.float32),
}
ROUNDS = [
    ["none", "nested", "large"],
    ["large", "none", "nested"],
    ["parcel", "zero", "nothing"],
    ["same", "same", "same"],
    ["scores", "nested", "single"],
    ["tensor", "matrix", "none"],
]
"""Which object each rank hands in, call by call."""


def gather_in_order(rank):
    gather = rank.student.gather_in_order
    first = gather(word(rank.secret))
    rank.record("words", described(first))
    own, pids = letter(rank.secret), meeting.tell_all(rank, "pids", os.getpid())
    if rank.rank == 1:
        others = [pid for number, pid in pids.items() if number != 1]
        meeting.wait_until(processes.asleep_for(LOOKS, others), LIMIT)
    rank.record("letters", described(gather(own)))
    for number, names in enumerate(ROUNDS):
        value = OBJECTS[names[rank.rank]](rank.secret)
        rank.record(f"round {number}", {**described(gather(value)), "argument": plain(value)})
    rank.record("words at the end", described(first))


def described(returned):
    """What `gather_in_order` returned."""
    if isinstance(returned, list):
        return {"type": "list", "values": plain(list(returned))}
    return {"type": type(returned).__name__, "values": []}


def plain(value, depth=5):
    """A value as it may cross to the checks, so that values of different types stay different."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if depth and type(value) is list:
        return [plain(one, depth - 1) for one in value]
    if depth and type(value) is tuple:
        return {"tuple": plain(list(value), depth - 1)}
    if depth and type(value) is dict:
        return {"dict": [[plain(key, depth - 1), plain(one, depth - 1)] for key, one in value.items()]}
    if type(value) is torch.Tensor:
        return {str(value.dtype): value.tolist()}
    if depth and type(value) is Parcel:
        return {"parcel": [plain(value.sender, depth - 1), plain(value.words, depth - 1)]}
    return short(value)


# -- right_neighbour --------------------------------------------------------------------------------------------------


def rings(seed):
    """(rank, world size) of every place on some rings."""
    large = random_for(seed, "ring").randrange(60, 90)
    return [(rank, size) for size in (1, 2, 3, 4, 7, large) for rank in range(size)]


def right_neighbour(rank):
    """One place after the other. Only the last rank asks: whoever talks to the others waits for them in vain."""
    if rank.rank == rank.world_size - 1:
        rank.record("answers", [asked(rank, rank.student.right_neighbour, *place) for place in rings(rank.seed)])


def asked(rank, function, *args):
    """What a function said that communicates with nobody, or what it raised."""
    outcome = rank.attempt(function, *args)
    return {**outcome.described(), "answer": plain(outcome.value), "type": kind_of(outcome.value)}


# -- average ----------------------------------------------------------------------------------------------------------

NAMES = ["loss", "Loss", "accuracy", "learning_rate", "tokens", *(f"layer{number}.norm" for number in range(60))]
PREFIXES = ["", "test.", ""]


def numbers(secret, call):
    """A rank's numbers by name, in the order in which all ranks have them. None is near zero, nor is their mean."""
    drawn = 1 + normal((len(NAMES),), secret, "numbers", call).abs()
    return dict(zip(names_of(call), drawn.tolist(), strict=True))


def names_of(call):
    """Other names than in the call before."""
    return [f"{PREFIXES[call]}{name}" for name in NAMES]


def own_order(secret, call):
    """The same in an order that is this rank's own."""
    names = random_for(secret, "order", call).sample(names_of(call), len(NAMES))
    return {name: numbers(secret, call)[name] for name in names}


def average(rank):
    """With each rank's names in its own order, with all ranks' in one, and again in their own; then a look at what the
    first call returned, whose names were those of the last."""
    given_back = []
    for call, given in enumerate((own_order, numbers, own_order)):
        values = given(rank.secret, call)
        given_back.append(rank.student.average(values))
        rank.record(f"call {call}", averaged(given_back[call], values))
    rank.record(f"call 0{AFTERWARDS}", averaged(given_back[0], {}))


def averaged(returned, values):
    """What `average` returned, and what has become of its argument."""
    kind = "dict" if isinstance(returned, dict) else type(returned).__name__
    return {"type": kind, "means": means(returned), "argument": [list(one) for one in values.items()]}


def means(returned):
    """What is in a dict of floats, by name; a type's name stands for what is no float."""
    if not isinstance(returned, dict):
        return {}
    return {
        key if isinstance(key, str) else short(key): float(one) if isinstance(one, float) else type(one).__name__
        for key, one in returned.items()
    }


# -- stuck ------------------------------------------------------------------------------------------------------------

COLLECTIVES = ["all_reduce", "broadcast", "barrier", "all_gather", "reduce_scatter"]
CALLS = [
    {0: ["all_reduce"], 1: ["all_reduce"]},
    {0: ["all_reduce", "barrier"], 1: ["all_reduce", "barrier"]},
    {0: ["all_reduce"], 1: ["broadcast"]},
    {0: ["all_reduce"], 1: ["barrier"]},
    {0: ["broadcast", "all_reduce"], 1: ["all_reduce", "broadcast"]},
    {0: ["barrier", "all_reduce", "all_reduce"], 1: ["barrier", "all_reduce", "barrier"]},
    {0: ["all_reduce", "barrier", "barrier"], 1: ["all_reduce", "all_reduce", "barrier"]},
    {0: ["all_gather"], 1: ["all_gather"], 2: ["all_reduce"]},
    {0: ["all_reduce"], 1: ["all_gather"], 2: ["all_gather"]},
    {0: ["all_gather"], 1: ["all_reduce"], 2: ["all_gather"]},
    {0: ["all_reduce", "barrier"], 1: ["all_reduce"]},
    {0: ["all_reduce"], 1: ["all_reduce", "barrier"]},
    {0: ["reduce", "scatter"], 1: ["reduce_scatter"]},
    {0: ["all_reduce", "all_reduce"], 1: ["all_reduce"]},
    {0: ["barrier"], 1: []},
    {0: [], 1: ["barrier"]},
    {0: ["barrier"], 1: ["barrier"], 2: []},
    {0: ["barrier"], 1: [], 2: ["barrier"]},
    {0: ["barrier"], 1: ["barrier"], 2: ["barrier", "all_reduce"]},
    {0: [], 1: [], 2: []},
    {0: ["all_reduce", "barrier"]},
    {0: []},
    {3: ["broadcast"]},
    {1: ["broadcast", "barrier"], 4: ["broadcast", "barrier"]},
    {2: ["broadcast"], 3: ["broadcast"], 7: ["barrier"]},
    {5: ["all_gather"], 2: ["all_gather", "barrier"]},
    {4: ["all_gather", "barrier"], 9: ["all_gather"]},
]
"""Written by hand, for what drawing them would take long to come upon."""
DRAWN = 40


def calls(seed):
    """The calls of the ranks of many groups: those above, then some that are drawn, each with a twin in which one rank
    makes one call more or less, makes another one, or makes two in the other order."""
    draw = random_for(seed, "calls")
    return [copy.deepcopy(one) for one in CALLS] + [group for _ in range(DRAWN) for group in twins(draw)]


def twins(draw):
    names = draw.choices(COLLECTIVES, k=draw.randrange(2, 7))
    group = {rank: list(names) for rank in range(draw.randrange(2, 5))}
    other, place = copy.deepcopy(group), draw.randrange(len(names) - 1)
    own = other[draw.randrange(len(group))]
    how = draw.randrange(4)
    if how == 0:
        own.insert(place, draw.choice(COLLECTIVES))
    elif how == 1:
        del own[place]
    elif how == 2:
        own[place] = draw.choice(COLLECTIVES)
    else:
        own[place], own[place + 1] = own[place + 1], own[place]
    return group, other


def stuck(rank):
    """Only the last rank asks, as above."""
    if rank.rank < rank.world_size - 1:
        return
    answers = []
    for group in calls(rank.seed):
        answer = asked(rank, rank.student.stuck, group)
        answers.append({**answer, "argument": [[key, plain(group[key])] for key in group]})
    rank.record("answers", answers)
