"""Runs in every rank: hands tensors to `ring_all_reduce`, and records what has become of them.

A rank's tensors are its own, from its secret. Those of one call are alike in dtype and shape on all ranks; how they lie
in memory may differ. What beginners meet first comes first, since a rank that is stuck goes no further. Nothing here
knows an expected value.
"""

import inspect
import itertools
import math
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist

from grader.kit.values import generator, normal

# -- what is handed in ------------------------------------------------------------------------------------------------

LARGEST = {torch.int8: 2**4, torch.uint8: 2**5, torch.int16: 2**13, torch.int32: 2**28, torch.int64: 2**60}
"""Four of them can be added. float32 and float64 cannot hold those of the last two."""
UNKNOWN_TO_NCCL = (torch.int16,)
"""These lie on the CPU, on every machine."""
SCALES = {torch.bfloat16: 1e5}
"""float16 cannot hold them."""
LAYOUTS = {
    "whole": lambda memory, shape: memory[: math.prod(shape)].view(shape).clone(),
    "expanded": lambda memory, shape: memory[: shape[-1]].expand(shape).clone(),
    "part": lambda memory, shape: memory[5 : 5 + math.prod(shape)].view(shape),
    "every second": lambda memory, shape: memory[1 : 1 + 2 * math.prod(shape) : 2].view(shape),
    "columns": lambda memory, shape: memory[: 2 * math.prod(shape)].view(shape[0], -1)[:, 3 : 3 + shape[1]],
    "reversed": lambda memory, shape: (
        memory[3 : 3 + math.prod(shape)].view(shape[::-1]).permute(*range(-1, -len(shape) - 1, -1))
    ),
    "turned": lambda memory, shape: memory[: math.prod(shape)].clone().view(shape[::-1]).t(),
}
"""How a tensor of some shape lies in a longer piece of memory, or is made from one."""


@dataclass(frozen=True)
class Given:
    """What the ranks hand in: of one dtype and shape, laid out as each of these says in turn, for these world sizes."""

    dtype: torch.dtype = torch.float32
    shape: tuple = (480,)
    layouts: tuple = ("whole",)
    sizes: tuple = (1, 2, 3, 4)
    finite: bool = True
    """Or inf, -inf and NaN are among the elements, on every rank in other places."""

    def values(self, secret, name):
        """A rank's elements. One alone is above 0, as those of several ranks might cancel out and leave nothing but
        rounding errors."""
        if most := LARGEST.get(self.dtype):
            least = -most if self.dtype.is_signed else 0
            return torch.randint(least, most, self.shape, generator=generator(secret, name), dtype=self.dtype)
        drawn = normal(self.shape, secret, name, scale=SCALES.get(self.dtype, 1.0))
        if not self.finite:
            kinds = torch.randint(12, self.shape, generator=generator(secret, name, "kinds"))
            for kind, value in enumerate((math.inf, -math.inf, math.nan)):
                drawn[kinds == kind] = value
        return (drawn.abs() + 0.1 if drawn.numel() == 1 else drawn).to(self.dtype)

    def memory(self, secret, name):
        """What lies around a rank's tensor, before the call."""
        return normal((2 * math.prod(self.shape) + 8,), secret, name, "around", scale=100.0).to(self.dtype)

    def placed(self, memory, rank):
        """The tensor of a rank in this memory, or the like of it, without its elements."""
        return LAYOUTS[self.layouts[rank % len(self.layouts)]](memory, self.shape)

    def around(self, memory, rank):
        """The memory without the tensor's own elements."""
        others = torch.ones(memory.shape, dtype=torch.bool)
        self.placed(others, rank).fill_(False)
        return memory.cpu()[others]


FIRST = {"a vector": Given()}
AGAIN = {"a vector, and then its sum": Given(shape=(96,), sizes=(3,))}
SHAPES = {
    "a matrix": Given(shape=(24, 10), sizes=(3,)),
    "a tensor of three dimensions": Given(shape=(4, 6, 5), sizes=(2,)),
    "a part of a longer vector": Given(shape=(48,), layouts=("part",), sizes=(3,)),
    "a matrix that was expanded and cloned": Given(shape=(12, 4), layouts=("expanded",), sizes=(2,)),
}
VIEWS = {
    "a transposed matrix": Given(shape=(12, 10), layouts=("reversed",), sizes=(2,)),
    "every second element of a vector": Given(shape=(120,), layouts=("every second",), sizes=(2, 3)),
    "columns of a matrix": Given(shape=(12, 5), layouts=("columns",), sizes=(3,)),
    "a tensor with its dimensions turned round": Given(shape=(4, 6, 5), layouts=("reversed",), sizes=(3,)),
}
DTYPES = {
    "a vector of float64": Given(torch.float64, sizes=(2, 3)),
    "a vector of int64": Given(torch.int64, sizes=(2, 4)),
    "a vector of int32": Given(torch.int32, sizes=(3,)),
    "a vector of int16": Given(torch.int16, sizes=(2,)),
    "a vector of int8": Given(torch.int8, sizes=(3,)),
    "a vector of uint8": Given(torch.uint8, sizes=(2,)),
    "a vector of float16": Given(torch.float16, sizes=(3,)),
    "a vector of bfloat16": Given(torch.bfloat16, sizes=(2,)),
    "a vector with inf and NaN": Given(shape=(48,), sizes=(2, 3), finite=False),
}
LONG = "a vector of 1 MiB"
"""Who sends it twice sends more than the kernel's count may differ from what is told of all calls."""
SINGLE, TIMES = "a single number, many times", 16
"""Of so many numbers, each of which has a call of its own, some are another sum if they are added in another order."""
SIZES = {
    "7 elements": Given(shape=(7,), sizes=(2, 4)),
    "5 elements": Given(shape=(5,), sizes=(2, 3, 4)),
    "29 elements": Given(shape=(29,), sizes=(3,)),
    "a matrix of 33 elements": Given(shape=(3, 11), sizes=(2, 4)),
    "2 elements": Given(shape=(2,), sizes=(3, 4)),
    "3 elements": Given(shape=(3,), sizes=(3, 4)),
    "1 element": Given(shape=(1,), sizes=(2,)),
    "a number without dimensions": Given(shape=(), sizes=(2, 3)),
    "no elements": Given(shape=(0,), sizes=(2, 3)),
    "no elements in two dimensions": Given(shape=(3, 0), sizes=(2,)),
    "13 elements": Given(shape=(13,), sizes=(2, 3)),
    LONG: Given(shape=(2**18,), sizes=(2,)),
}
LATE = {
    "a vector that is overwritten at once": Given(shape=(48,), sizes=(2,)),
    "another vector that is overwritten at once": Given(shape=(48,), sizes=(2,)),
}
"""In the first rank 1 receives late, in the second rank 0."""
STAGES = (FIRST, AGAIN | SHAPES | VIEWS, SIZES, DTYPES, LATE)
"""What is handed in, by name and in order. After each stage the rank tells what it has sent, as it may crash in the
next one: a buffer of the default dtype ends the process where the tensor has another."""
CALLS = {name: given for stage in STAGES for name, given in stage.items()}

GROUPS = {
    "ranks 0, 2 and 3": (0, 2, 3),
    "ranks 1 and 3": (1, 3),
    "rank 2 alone": (2,),
    "ranks 2, 0 and 3, in this order": (2, 0, 3),
}
"""The ranks of the world in some groups, in the order of the groups."""
WORLD = 4
"""The world size for which they are made."""
IN_GROUPS = {
    "a vector": Given(shape=(48,)),
    "an odd matrix": Given(torch.int64, (4, 5), ("whole", "reversed", "columns", "turned")),
}
"""What the ranks of each group hand in, one after the other, when all other calls are done."""

# -- calls ------------------------------------------------------------------------------------------------------------


def ring(rank):
    """The calls for this world size: in the default group, which some leave away, some give as None and some by its
    object, then in groups of some of the ranks. For the others there is nothing to do meanwhile."""
    rank.record("ordered", ORDERED)
    made = {name: new_group(ranks) for name, ranks in GROUPS.items() if rank.world_size == WORLD}
    ways = itertools.cycle([(), (None,), (dist.group.WORLD,)])
    for stage in STAGES:
        for number, (name, given) in enumerate(stage.items(), start=1):
            with receiving_late() if stage is LATE and rank.rank == len(LATE) - number else nullcontext():
                call(rank, name, given, rank.world_size in given.sizes, *next(ways))
        rank.tell_trace()
        if stage is SIZES:
            rank.record(SINGLE, singles(rank))
    for what, given in IN_GROUPS.items():
        for name, ranks in GROUPS.items():
            call(rank, f"{what} among {name}", given, name in made and rank.rank in ranks, group=made.get(name))


def singles(rank):
    """The sums of some numbers, each in a call of its own; nothing where one of these calls has raised an exception."""
    numbers = normal((TIMES,), rank.secret, SINGLE).to(rank.device)
    outcomes = [rank.attempt(rank.student.ring_all_reduce, number) for number in numbers]
    return None if any(one.error is not None for one in outcomes) else numbers.cpu()


ORDERED = "sort_ranks" in inspect.signature(dist.new_group).parameters
"""Whether this torch makes groups whose ranks are in another order than in the world."""


def new_group(ranks):
    return dist.new_group(list(ranks), **({"sort_ranks": False} if ORDERED else {}))


def call(rank, name, given, takes_part, *group, **named_group):
    """Hand this rank's tensor to the student, and record what came of it."""
    if not takes_part:
        rank.record(name, None)
        return
    memory = given.memory(rank.secret, name).to("cpu" if given.dtype in UNKNOWN_TO_NCCL else rank.device)
    tensor = given.placed(memory, rank.rank)
    tensor.copy_(given.values(rank.secret, name))
    before = place(tensor)
    with rank.region(f"the call with {name}"):
        outcome = rank.attempt(rank.student.ring_all_reduce, tensor, *group, **named_group)
    if name in AGAIN:
        outcome = rank.attempt(rank.student.ring_all_reduce, tensor, *group, **named_group)
    if outcome.error is not None and dist.get_world_size(named_group.get("group")) > 1:
        dist.barrier(named_group.get("group"))  # all have raised; where one has alone, it waits here for the others
    result, after = tensor.detach().cpu().clone(), place(tensor)
    if name in LATE:
        tensor.detach().fill_(0)  # as its owner may
    rank.record(
        name,
        {
            **outcome.described(),
            "returned": type(outcome.value).__name__,
            "before": before,
            "after": after,
            "result": result,
            "around": given.around(memory, rank.rank),
        },
    )


def place(tensor):
    """What a tensor is, but for its elements: above all where it keeps them."""
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
        "memory": tensor.untyped_storage().data_ptr(),
        "place in memory": tensor.storage_offset(),
        "strides": list(tensor.stride()),
        "requires_grad": tensor.requires_grad,
    }


LATENESS = 0.1
"""Seconds. Who receives so late finds what a neighbour has overwritten meanwhile, if that one has not waited. Nothing
is judged by it: right code waits, however long it takes."""


@contextmanager
def receiving_late():
    """In here this process begins to receive a little later than it could."""
    method, receive = vars(dist.ProcessGroup)["recv"], dist.ProcessGroup.recv

    def late(*args, **kwargs):
        time.sleep(LATENESS)
        return receive(*args, **kwargs)

    dist.ProcessGroup.recv = late
    try:
        yield
    finally:
        dist.ProcessGroup.recv = method
