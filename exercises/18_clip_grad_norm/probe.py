"""Runs in every rank: sets gradients, has them clipped, and records the norm that came back and what became of them.

A rank's gradients are from its secret, so that nobody can know the norm over all ranks without asking. What beginners
meet first comes first, and what may leave a rank waiting comes last. Nothing here knows an expected value.
"""

import itertools
import math
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from grader.kit.values import normal, number

# -- what is handed in ------------------------------------------------------------------------------------------------

INF = float("inf")  # equal to math.inf, and another object
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
ODD = {"inf": math.inf, "nan": math.nan}
"""Gradients of which one element is this."""


@dataclass(frozen=True)
class Shard:
    """One parameter of a rank. Its gradient is "normal", "unit" (of norm 1, or of the scale), "zero", "none" (there is
    none), "inf" or "nan"; `layout` says how it lies in memory: "whole", "transposed", or as a "view" of something
    longer."""

    shape: tuple = (5,)
    dtype: torch.dtype = F64
    gradient: str = "normal"
    layout: str = "whole"
    frozen: bool = False
    """The parameter needs no gradient any more, and has this one."""

    def values(self, scale, *place):
        """Its gradient before the call, or None."""
        drawn = normal(self.shape, *place, scale=scale)
        if self.gradient in ODD:
            drawn.view(-1)[1] = ODD[self.gradient]
        kinds = {"none": None, "unit": drawn / drawn.norm() * scale, "zero": torch.zeros(self.shape, dtype=F64)}
        drawn = kinds.get(self.gradient, drawn)
        return None if drawn is None else drawn.to(self.dtype)


USUAL = (Shard(), Shard((3, 4)))


@dataclass(frozen=True)
class Given:
    """What is clipped, and how. The ranks of a group have `shards` in turn, but the "first" or "last" of them may have
    others, `odd`. `kind` is what the parameters come in; a `strange` caller has another default dtype than torch's own
    and records no gradients."""

    max_norm: float = 1.0
    norm_type: float = 2.0
    shards: tuple = (USUAL,)
    odd: tuple = ("", ())
    scale: float = 1.0
    kind: str = "list"
    strange: bool = False

    def of(self, place, among):
        """The shards of a rank, by its number in its group of so many."""
        which, others = self.odd
        if which and place == (among - 1 if which == "last" else 0):
            return others
        return self.shards[place % len(self.shards)]

    def gradients(self, secret, name, place, among):
        """A rank's gradients before the call, by number; None where there is none."""
        shards = enumerate(self.of(place, among))
        return {str(nth): shard.values(self.scale, secret, name, nth) for nth, shard in shards}


def with_odd(gradient):
    """Two shards, of which one has such a gradient."""
    return (Shard(), Shard((3, 4), gradient=gradient))


def on_first(norm, max_norm):
    """Gradients of this norm on the first rank, and zeros on the others."""
    return Given(max_norm, shards=((Shard(gradient="zero"),),), odd=("first", (Shard(gradient="unit"),)), scale=norm)


FIRST = {"gradients of norm above 0.5": Given(0.5, shards=((Shard(), Shard((20, 30))),))}
MAXIMUM = {"gradients with an element above 0.1": Given(0.1, INF)}
SMALL = {
    "gradients of norm below 1000": Given(1000),
    "gradients without an element above 1000": Given(1000, INF),
    "a max_norm of infinity": Given(INF),
    "gradients that are all zero": Given(shards=((Shard(gradient="zero"), Shard((3, 4), gradient="zero")),)),
}
UNIT = ((Shard(gradient="unit"),),)
TOGETHER = {
    "gradients of norm 1 on each rank, and a max_norm of 1.2": Given(1.2, shards=UNIT),
    "gradients of norm 1 on each rank, and a max_norm of 1.732": Given(1.732, shards=UNIT),
    "gradients of norm 1 on each rank, and a max_norm of 1.732053": Given(1.732053, shards=UNIT),
    "gradients of norm 1000000.04, and a max_norm of 1000000.05": on_first(1e6 + 0.04, 1e6 + 0.05),
    "gradients of norm 1000000.02, and a max_norm of 1000000.01": on_first(1e6 + 0.02, 1e6 + 0.01),
    "gradients of norm 5e38, and a max_norm of 1e39": on_first(5e38, 1e39),
}
"""Two ranks have a norm of 1.4142 together, three have 1.7320508. In float32 1000000.04 is more than 1000000.05,
1000000.02 is 1000000, and 5e38 is infinite."""
TINY = {
    "tiny gradients": Given(1e-4, scale=1e-3),
    "gradients of norm above 1e6": Given(1.0, scale=1e6),
    "a max_norm of 0": Given(0.0),
    "gradients that are all zero, and a max_norm of 0": Given(0.0, shards=((Shard(gradient="zero"),),)),
}
LONG = {"a gradient of 1 MiB": Given(0.5, shards=((Shard((2**17,)),),))}
"""Whoever sends it sends more than the kernel's count may differ from what is told of the calls."""
PLACES = {
    "a gradient that is transposed": Given(shards=((Shard((4, 3), layout="transposed"), Shard()),)),
    "a gradient without dimensions": Given(shards=((Shard(()), Shard((3, 4))),)),
    "gradients that are views of a buffer": Given(shards=((Shard(layout="view"), Shard((3, 4), layout="view")),)),
}
KINDS = {
    "parameters from a generator": Given(kind="generator"),
    "parameters in a tuple": Given(0.1, INF, kind="tuple", strange=True),
    "the gradient of a parameter that has been frozen": Given(shards=((Shard(), Shard((3, 4), frozen=True)),)),
    "a norm_type of 2, an int": Given(norm_type=2),
}
WITHIN = {
    "float32 gradients": Given(shards=((Shard(dtype=F32), Shard((3, 4), F32)),)),
    "bfloat16, float32 and float64 on each rank": Given(shards=((Shard((3, 4), BF16), Shard(), Shard(dtype=F32)),)),
    "float32 and float64 on each rank, by the infinity norm": Given(0.1, INF, ((Shard((3, 4), F32), Shard()),)),
}
LARGE = {"float16 gradients whose squares overflow": Given(100.0, shards=((Shard((3, 4), F16),),), scale=400.0)}
BOTH = (Shard(gradient="nan"), Shard((3, 4), gradient="inf"))
NOT_FINITE = {
    "an infinite gradient on the last rank": Given(odd=("last", with_odd("inf"))),
    "a gradient of NaN on the first rank, and infinite ones on the others": Given(
        shards=(with_odd("inf"),), odd=("first", with_odd("nan"))
    ),
    "a gradient of NaN on the last rank": Given(odd=("last", with_odd("nan"))),
    "a gradient of NaN on the last rank, and a max_norm of infinity": Given(INF, odd=("last", with_odd("nan"))),
    "a gradient of NaN on the last rank, and a max_norm of 0": Given(0.0, odd=("last", with_odd("nan"))),
    "an infinite gradient on the first rank, by the infinity norm": Given(1.0, INF, odd=("first", with_odd("inf"))),
    "a gradient of NaN before an infinite one on the first rank": Given(odd=("first", BOTH)),
}
MAXIMUM_OF_NAN = {
    "a gradient of NaN before an infinite one on the first rank, by the infinity norm": Given(
        1.0, INF, odd=("first", BOTH)
    ),
    "a gradient of NaN on the last rank, by the infinity norm": Given(1.0, INF, odd=("last", with_odd("nan"))),
}
OTHERS = {f"norm_type {p:g}": Given(1.0, p) for p in (1.0, 3.0, 0.5, 2.5)}
OTHERS["norm_type 3, of bfloat16 beside float64"] = Given(1.0, 3.0, ((Shard((3, 4), BF16), Shard()),))
BETWEEN = {
    "float32, float64 and bfloat16, another on each rank": Given(
        shards=((Shard(dtype=F32), Shard((3, 4), F32)), USUAL, (Shard((3, 4), BF16),))
    ),
    "float64 and float32, another on each rank, by the infinity norm": Given(0.1, INF, (USUAL, (Shard((3, 4), F32),))),
}
NONE = {
    "a gradient that is None": Given(0.05, shards=(with_odd("none"),)),
    "no gradient but None on the first rank": Given(odd=("first", (Shard(gradient="none"),))),
    "no gradient but None on the last rank, by the infinity norm": Given(
        0.1, INF, odd=("last", (Shard(gradient="none"),))
    ),
    "no gradient on any rank": Given(shards=((Shard(gradient="none"),),)),
}
EMPTY = {
    "an empty shard beside others": Given(shards=((Shard((0,)), *USUAL),)),
    "an empty shard beside others, by the infinity norm": Given(0.1, INF, ((Shard((0, 4)), *USUAL),)),
    "an empty shard alone on the last rank": Given(odd=("last", (Shard((0, 4)),))),
    "an empty shard alone on the first rank, by the infinity norm": Given(0.1, INF, odd=("first", (Shard((0,)),))),
}
NO_PARAMETERS = {
    "no parameters on the last rank": Given(odd=("last", ())),
    "no parameters on the first rank, by the infinity norm": Given(0.1, INF, odd=("first", ())),
    "no parameters on the first rank, float32 on the others": Given(shards=((Shard((3, 4), F32),),), odd=("first", ())),
    "no parameters on the last rank, by norm_type 2.5": Given(1.0, 2.5, odd=("last", ())),
}
STAGES = (
    FIRST,
    MAXIMUM | SMALL | TOGETHER | TINY | LONG,
    PLACES | KINDS | WITHIN | LARGE,
    NOT_FINITE | MAXIMUM_OF_NAN,
    OTHERS,
    BETWEEN,
    NONE,
    EMPTY,
    NO_PARAMETERS,
)
"""What is handed in, by name and in order. After each stage the rank tells what it has communicated, as it may be stuck
in the next one."""
CALLS = {name: given for stage in STAGES for name, given in stage.items()}

GROUPS = {"ranks 0 and 2": (0, 2), "ranks 2 and 3": (2, 3), "ranks 1, 2 and 3": (1, 2, 3)}
"""The ranks of the world in some groups. One of them is in two groups of one size."""
IN_GROUPS = {
    "gradients of norm above 0.5": Given(0.5),
    "gradients with an element above 0.1": Given(0.1, INF),
    "gradients of norm below 1000": Given(1000.0),
    "no parameters on the first rank": Given(odd=("first", ())),
    "no gradient but None on the last rank, by the infinity norm": Given(
        0.1, INF, odd=("last", (Shard(gradient="none"),))
    ),
}

# -- calls ------------------------------------------------------------------------------------------------------------


def clipping(rank):
    """The calls in the default group, which some leave away, some give as None and some by its object."""
    ways, former = itertools.cycle([{}, {"group": None}, {"group": dist.group.WORLD}]), None
    for stage in STAGES:
        for name, given in stage.items():
            former = call(rank, name, given, rank.rank, rank.world_size, former, **next(ways))
        rank.tell_trace()


def groups(rank):
    """The calls in groups of some of the ranks. For the others there is nothing to do meanwhile."""
    made = {name: dist.new_group(list(ranks)) for name, ranks in GROUPS.items()}
    for what, given in IN_GROUPS.items():
        for among, ranks in GROUPS.items():
            name = f"{what} among {among}"
            if rank.rank in ranks:
                call(rank, name, given, ranks.index(rank.rank), len(ranks), None, group=made[among])
            else:
                rank.record(name, None)


def parameter(rank, shard, gradient):
    """A parameter with this gradient, and the memory around the gradient."""
    made = nn.Parameter(torch.ones(shard.shape, dtype=shard.dtype, device=rank.device), not shard.frozen)
    memory = torch.full((shard_size(shard) + 8,), 7.0, dtype=shard.dtype, device=rank.device)
    if gradient is None:
        return made, memory
    gradient = gradient.to(rank.device)
    if shard.layout == "view":
        place = memory[3 : 3 + shard_size(shard)].view(shard.shape)
        made.grad = place.copy_(gradient)
    else:
        made.grad = gradient.t().contiguous().t() if shard.layout == "transposed" else gradient.clone()
    return made, memory


def shard_size(shard):
    return math.prod(shard.shape)


def handed(kind, parameters):
    """The parameters, as the caller has them."""
    return {"list": list, "tuple": tuple, "generator": lambda some: (one for one in some)}[kind](parameters)


def call(rank, name, given, place, among, former, **group):
    """Have a rank's gradients clipped, and record what came of it, and whether it changed the norm that the former call
    returned. Gives the norm, and a copy of it."""
    before = given.gradients(rank.secret, name, place, among)
    made = [parameter(rank, shard, before[str(nth)]) for nth, shard in enumerate(given.of(place, among))]
    parameters = [one for one, _ in made]
    places = [place_of(one.grad) for one in parameters]
    how = () if given.norm_type == 2.0 and isinstance(given.norm_type, float) else (given.norm_type,)
    with caller(given.strange):
        before_it = state(parameters)
        with rank.region(f"the call with {name}"):
            outcome = rank.attempt(
                rank.student.clip_grad_norm_sharded_, handed(given.kind, parameters), given.max_norm, *how, **group
            )
        changed = [what for what, now in state(parameters).items() if now != before_it[what]]
    if among > 1:
        dist.barrier(group.get("group"))  # who has left something out, or raised alone, meets no call but this one
    value = outcome.value
    is_tensor = isinstance(value, torch.Tensor)
    norm = value.detach().cpu().clone() if is_tensor else torch.tensor(number(value) or 0.0, dtype=F64)
    rank.record(
        name,
        {
            **outcome.described(),
            "type": type(value).__name__ if value is None or not is_tensor else "",
            "norm": norm,
            "after": {str(nth): plain(one.grad) for nth, one in enumerate(parameters)},
            "elsewhere": [str(nth) for nth, one in enumerate(parameters) if place_of(one.grad) != places[nth]],
            "moved": sum(bool(one.ne(1).any()) for one in parameters),
            "around": [around(shard, memory) for shard, (_, memory) in zip(given.of(place, among), made, strict=True)],
            "changed": changed,
            "overwritten": former is not None and not same(*former),
        },
    )
    return (value, norm) if is_tensor else None


@contextmanager
def caller(strange):
    """What a caller may have set before the call."""
    usual = torch.get_default_dtype()
    with torch.set_grad_enabled(not strange):
        torch.set_default_dtype(F64 if strange else usual)
        yield
    torch.set_default_dtype(usual)


def state(parameters):
    """What a call is to leave as it is beside the gradients, by the words for it."""
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "whether gradients are recorded": torch.is_grad_enabled(),
        "torch's random numbers": torch.get_rng_state().tolist(),
        "requires_grad of the parameters": [one.requires_grad for one in parameters],
    }


def place_of(gradient):
    """Which tensor it is, and where its elements lie."""
    return None if gradient is None else (id(gradient), gradient.data_ptr(), gradient.stride())


def same(tensor, copy):
    """Whether a tensor is as its copy is, NaN included."""
    return torch.equal(plain(tensor).nan_to_num(-1.0), copy.nan_to_num(-1.0))


def plain(tensor):
    return None if tensor is None else tensor.detach().cpu().clone()


def around(shard, memory):
    """How many elements beside the gradient's own have changed."""
    inside = shard_size(shard) if shard.layout == "view" else 0
    others = torch.cat([memory[:3], memory[3 + inside :]])
    return int(others.ne(7).sum())
