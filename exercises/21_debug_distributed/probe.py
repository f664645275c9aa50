"""Runs in every rank: calls each of the programs and records what came of it. Nothing here knows an expected value.

Each program that may leave a rank waiting has a run of its own, so that none keeps another from being judged. What
ranks feed in is their own, from their secrets. What beginners meet first comes first.
"""

import inspect
import itertools
import math
import os
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear, mse_loss

from grader.kit import groups, meeting, processes, spies, values

# -- what is handed to the first four ---------------------------------------------------------------------------------

F16, F32, F64, BF16, INT, BOOL = torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool


@dataclass(frozen=True)
class Given:
    """A tensor of each rank. Where `strided`, which the ranks go through in turn, it is transposed, and a part of a
    longer piece of memory; `graph` makes it need a gradient: as in training it is no leaf, but for rank 0's. With `odd`
    the last rank's loss is this, or what it has before a broadcast; where `opposed`, the others' minus this."""

    shape: tuple = ()
    dtype: torch.dtype = F64
    strided: tuple = (False,)
    graph: bool = False
    odd: float | None = None
    opposed: bool = False

    def values(self, secret, *place):
        """A rank's elements; of whole numbers such as float64 cannot hold. One alone is above 0, as those of several
        ranks might cancel out and leave nothing but rounding errors."""
        if self.dtype is INT:
            return torch.randint(-(2**60), 2**60, self.shape, generator=values.generator(secret, *place))
        drawn = values.normal(self.shape, secret, *place)
        drawn = drawn.abs() + 0.1 if drawn.numel() == 1 else drawn
        return drawn > 0 if self.dtype is BOOL else drawn.to(self.dtype)

    def placed(self, elements, rank):
        """A rank's tensor with these elements."""
        made, device = elements.to(rank.device), rank.device
        if self.strided[rank.rank % len(self.strided)]:
            memory = torch.zeros((made.shape[1], made.shape[0] + 2), dtype=made.dtype, device=device)
            made = memory[:, 1:-1].t().copy_(made)
        made = made.requires_grad_() if self.graph else made
        return made.clone() if self.graph and rank.rank else made


LOSSES = {
    "losses": Given(),
    "losses in float16, of shape (1,)": Given((1,), F16),
    "losses that need a gradient": Given(graph=True),
    "a loss of NaN on the last rank": Given(odd=math.nan),
    "an infinite loss on the last rank": Given(odd=math.inf),
    "infinite losses, and those of the last rank have another sign": Given(odd=math.inf, opposed=True),
    "a loss of 0 on the last rank": Given(odd=0.0),
    "a loss far below 0 on the last rank": Given(odd=-1000.0),
}
PAIRS = {
    "two vectors": (Given((5,)), Given((3,))),
    "a strided matrix and one of bool": (Given((4, 3), F32, strided=(True,)), Given((2, 5), BOOL, strided=(True,))),
    "matrices that only some ranks have strided": (
        Given((3, 4), strided=(False, True)),
        Given((2, 3), strided=(True, False)),
    ),
    "int64 and bfloat16": (Given((2, 2), INT), Given((4,), BF16)),
    "two numbers, in float16 and int64": (Given((), F16), Given((), INT)),
    "two vectors, of which the second is empty": (Given((6,)), Given((0,))),
    "no elements, and a vector": (Given((0, 2)), Given((3,))),
    "two vectors that need gradients": (Given((4,), graph=True), Given((4,), graph=True)),
}
TENSORS = {
    "a vector": Given((7,)),
    "a vector of 1 MiB": Given((2**17,), odd=math.nan),
    "a strided matrix": Given((4, 3), F32, strided=(True,)),
    "a matrix that only some ranks have strided": Given((3, 5), strided=(True, False)),
    "a number of int64": Given((), INT),
    "a matrix of bfloat16": Given((2, 3), BF16),
    "no elements": Given((0, 3)),
    "a vector that needs a gradient": Given((5,), graph=True),
}
UNSORTED = {"sort_ranks": False} if "sort_ranks" in inspect.signature(dist.new_group).parameters else {}
"""Older torch makes no groups whose ranks are in another order than in the world."""
GROUPS = {
    "ranks 1 and 2": (1, 2),
    "ranks 0 and 2": (0, 2),
    "ranks 2, 1 and 0, in this order": (2, 1, 0) if UNSORTED else (0, 1, 2),
    "rank 1 alone": (1,),
}
"""Ranks of the world in some groups, in the order of the groups."""
WORLD = 3
"""The world size for which they are made."""
LATE, QUIET = "a vector that the first rank comes late for", 25
"""A call at that world size; so many looks in a row find the rank asleep that has sent to the first one and waits."""


def members(name, world_size):
    """The ranks that make a call, in the order of their group."""
    among = name.partition(" among ")[2]
    return GROUPS[among] if among else tuple(range(world_size))


def names(given, world_size):
    """The names of the calls with these for a world size, in their order: first in the default group."""
    return [*given, *(in_groups(given) if world_size == WORLD else ())]


def in_groups(given):
    return [f"{name} among {among}" for name in list(given)[:1] for among in GROUPS]


def groups_of(world_size):
    """The groups by name. Collective."""
    made = GROUPS if world_size == WORLD else {}
    return {name: dist.new_group(list(ranks), **UNSORTED) for name, ranks in made.items()}


def collective(rank, program, given, call, ways=({}, {"group": None}, {"group": dist.group.WORLD})):
    """`call(name, given, group)` for each call of this rank, and what it gives is recorded. The default group is given
    in these ways in turn. After a call the ranks of its group wait for one another, so that one which has come back
    alone meets no call but this."""
    made, ways = groups_of(rank.world_size), itertools.cycle(ways)
    for name in names(given, rank.world_size):
        what, _, among = name.partition(" among ")
        took_part = rank.rank in members(name, rank.world_size)
        group = {"group": made[among]} if among else next(ways)
        came = call(name, given[what], **group) if took_part else None
        if took_part and rank.world_size > 1:
            dist.barrier(made.get(among))
        rank.record(f"{program}: {name}", came)


def place_of(tensor):
    """Where a tensor's elements are in memory, and whether it comes from an operation of autograd."""
    return tensor.data_ptr(), tensor.stride(), tensor.grad_fn is not None


def plain(value):
    return value.detach().cpu().clone() if isinstance(value, torch.Tensor) else None


def own_of(given, secret, name, last):
    """A rank's loss before the call, or its tensor before a broadcast."""
    elements = given.values(secret, name)
    if given.odd is None or not (last or given.opposed):
        return elements
    return torch.full_like(elements, given.odd if last else -given.odd)


def mean_loss(rank):
    def call(name, given, **group):
        last = rank.rank == members(name, rank.world_size)[-1]
        loss = given.placed(own_of(given, rank.secret, name, last), rank)
        before = place_of(loss)
        outcome = rank.attempt(rank.student.mean_loss, loss, **group)
        return {
            **outcome.described(),
            "type": values.kind_of(outcome.value),
            "mean": values.number(outcome.value),
            "after": plain(loss),
            "graph": [loss.requires_grad],
            "moved": place_of(loss) != before,
        }

    collective(rank, "mean_loss", LOSSES, call)


def overwritten(value):
    """As its owner may: what is returned is new."""
    if isinstance(value, torch.Tensor) and value.numel():
        value.detach().zero_()


def pair_of(given, secret, name):
    """The elements of a rank's two tensors before the call."""
    return [one.values(secret, name, place) for place, one in enumerate(given)]


def exchange(rank):
    def call(name, given, **group):
        drawn = pair_of(given, rank.secret, name)
        handed = [one.placed(elements, rank) for one, elements in zip(given, drawn, strict=True)]
        before = [place_of(one) for one in handed]
        outcome = rank.attempt(rank.student.exchange, *handed, **group)
        returned = outcome.value if isinstance(outcome.value, tuple | list) else ()
        came = [plain(one) for one in returned]
        for one in returned:
            overwritten(one)
        return {
            **outcome.described(),
            "returned": came,
            "needs_gradient": any(isinstance(one, torch.Tensor) and one.requires_grad for one in returned),
            "after": [plain(one) for one in handed],
            "graph": [one.requires_grad for one in handed],
            "moved": [place_of(one) for one in handed] != before,
        }

    collective(rank, "exchange", PAIRS, call)


def pass_around(rank):
    def call(name, given, **group):
        handed = given.placed(given.values(rank.secret, name), rank)
        before = place_of(handed)
        outcome = rank.attempt(rank.student.pass_around, handed, **group)
        came, value = plain(outcome.value), outcome.value
        overwritten(value)
        after = plain(handed)
        if name == LATE:
            overwritten(handed)  # as well, from then on
        return {
            **outcome.described(),
            "returned": [came],
            "needs_gradient": isinstance(value, torch.Tensor) and value.requires_grad,
            "after": [after],
            "graph": [handed.requires_grad],
            "moved": place_of(handed) != before,
            "itself": value is handed,
        }

    collective(rank, "pass_around", TENSORS, call)
    came = None
    if rank.world_size == WORLD:
        returned, pid = rank.shared / "returned", meeting.tell_all(rank, "pids", os.getpid())[WORLD - 1]
        if rank.rank == 0:
            idle = processes.asleep_for(QUIET, [pid])
            meeting.wait_until(lambda: returned.exists() or idle(), look=0.02)
        came = call(LATE, TENSORS["a vector"])
        if rank.rank == WORLD - 1:
            returned.touch()
        dist.barrier()
    rank.record(f"pass_around: {LATE}", came)


def broadcast_in_group(rank):
    def call(name, given, **group):
        last = rank.rank in members(name, rank.world_size)[1:][-1:]  # which is not the first
        tensor = given.placed(own_of(given, rank.secret, name, last), rank)
        memory, before = tensor.detach(), place_of(tensor)
        outcome = rank.attempt(rank.student.broadcast_in_group, tensor, **group)
        moved = place_of(tensor) != before
        seen = {"graph": [tensor.requires_grad], "moved": moved, "elsewhere": plain(tensor) if moved else None}
        return {**outcome.described(), "after": plain(memory), **seen}

    collective(rank, "broadcast_in_group", TENSORS, call, [{"group": dist.group.WORLD}])


# -- training ---------------------------------------------------------------------------------------------------------

WIDTH, OUT = 6, 3
LEARNING_RATE, EPS = 0.1, 1.0
PARAMETERS = {
    **dict.fromkeys(("first", "still", "left", "right", "never"), (WIDTH, WIDTH)),
    "last": (OUT, WIDTH),
}
"""Shapes by name."""


def initial(seed, model, name):
    """What a model begins with, by name."""
    return {one: values.normal(PARAMETERS[one], seed, name, one, scale=WIDTH**-0.5) for one in model.names}


class Network(spies.FunctionalModel):
    """The spy: knows on which samples it was trained. The first column of inputs has their numbers."""

    def __init__(self, rank, name):
        super().__init__()
        for one, value in initial(rank.seed, type(self), name).items():
            self.register_parameter(one, nn.Parameter(value, requires_grad=one != self.frozen))
        self.notes = spies.StepNotes()
        self.to(rank.device)

    def forward(self, inputs):
        outputs = super().forward(inputs)
        self.notes.listen(self, inputs, outputs)
        return outputs


class Straight(Network):
    """Its middle layer is frozen."""

    names, frozen, decay = ("first", "left", "last"), "left", 0.1

    @staticmethod
    def compute(tensors, inputs):
        hidden = torch.tanh(linear(inputs[:, 1:], tensors["first"]))
        return linear(torch.tanh(linear(hidden, tensors["left"])), tensors["last"])


WAYS = {"<": ("left",), "-": (), ">": ("right",), "+": ("left", "right")}
"""The layers that a model takes on a way, of which its first input is the number."""


class Branching(Network):
    """Goes left or right, nowhere or both ways, by its first input. One layer before that is frozen, another is never
    used."""

    names, frozen, decay = tuple(PARAMETERS), "still", 0.0

    @staticmethod
    def compute(tensors, inputs):
        hidden = torch.tanh(linear(inputs[:, 1:], tensors["first"]))
        hidden = torch.tanh(linear(hidden, tensors["still"]))
        for layer in [*WAYS.values()][int(inputs[0, 0])]:
            hidden = torch.tanh(linear(hidden, tensors[layer]))
        return linear(hidden, tensors["last"])


class Whole(Branching):
    """Both ways take all of its layers."""

    names = tuple(one for one in PARAMETERS if one != "never")


@dataclass(frozen=True)
class Plan:
    """A training: how many batches each rank has, of 1 to 4 samples. `ways` has for each rank where its batches turn,
    as WAYS has it. Which parameters have a gradient of ones before the first step: those that are `left` "trained", or
    "all", with those that are frozen."""

    batches: tuple = (4, 4, 4)
    ways: tuple = ()
    model: type = field(default=Straight)
    left: str = ""

    def of(self, secret, name, rank):
        """A rank's batches: pairs (inputs, targets), both float64, of shapes (samples, 1 + WIDTH), (samples, OUT)."""
        ways = self.ways[rank] if self.ways else ">" * self.batches[rank]
        return [batch(secret, name, step, way) for step, way in enumerate(ways)]


def batch(secret, name, step, way):
    samples = values.random_for(secret, name, step).randint(1, 4)
    features = values.normal((samples, WIDTH), secret, name, step, "inputs")
    number = torch.full((samples, 1), float([*WAYS].index(way)), dtype=F64)
    return torch.cat([number, features], dim=1), values.normal((samples, OUT), secret, name, step, "targets")


def batch_afterwards(secret, name):
    """A rank's batch for a backward pass after the training, which uses every layer that is ever used."""
    return batch(secret, name, "afterwards", "+")


def turning(*ways, model=Branching, left=""):
    return Plan(ways=ways, model=model, left=left)


LEFT = "gradients left over from before the call"
BRANCHES = {
    "one branch in the first two steps": turning("<<>>", "<<>>", "<<>>"),
    "all ranks in one branch, another in each step": turning("<><>", "<><>", "<><>"),
    "a last step in one branch": turning("><", "><", "><"),
    "no batch": turning("", "", ""),
    "all parameters in the first step, and fewer later": turning("+<>", "+<>", "+<>", model=Whole),
    LEFT: turning("<>", "<>", "<>", left="trained"),
}
RANKS = {
    "another branch on each rank": turning("<>-<", "><>-", "-<<>"),
    "branches on rank 0 alone": turning("<><", "---", "---"),
    "no branch on rank 0": turning("---", "<>>", "><<"),
}
UNEVEN = {
    "most batches on the last rank": Plan((2, 3, 5)),
    "most batches on rank 0": Plan((4, 1, 3)),
    "as many batches on each rank": Plan((3, 3, 3)),
    LEFT: Plan((1, 2, 3), left="all"),
}
NONE = {
    "no batch on rank 0": Plan((0, 2, 4)),
    "no batch on the last ranks": Plan((3, 0, 0)),
    "no batch on any rank": Plan((0, 0, 0)),
}
BY_HAND = {
    "four steps": Plan(),
    "one step": Plan((1, 1, 1)),
    "no batch": Plan((0, 0, 0)),
    LEFT: Plan((2, 2, 2), left="all"),
}


def loss_fn(outputs, targets):
    """A mean over the batch that is another one where outputs and targets are exchanged."""
    return mse_loss(outputs, targets) + outputs.mean() / 4


def optimizer_of(model):
    """A group for each parameter. Those that are frozen are among them: they would decay, had they gradients. The mean
    of the ranks' steps is not the step by their mean gradient, as it would be with SGD. Without decay a gradient of
    zero changes nothing."""
    every = [{"params": [one], "weight_decay": model.decay if one.requires_grad else 1.0} for one in model.parameters()]
    return torch.optim.Adagrad(every, LEARNING_RATE, eps=EPS)


def trained(rank, program, plans, calls=1):
    """What the model is after each of these trainings, or what was raised. In several calls, each has a part of the
    batches."""
    for name, plan in plans.items():
        model = plan.model(rank, name)
        optimizer = optimizer_of(model)
        leave_gradients(model, plan.left)
        batches = [tuple(one.to(rank.device) for one in pair) for pair in plan.of(rank.secret, name, rank.rank)]
        parts = [batches[call * len(batches) // calls : (call + 1) * len(batches) // calls] for call in range(calls)]
        outcome = rank.attempt(in_parts, getattr(rank.student, program), model, parts, optimizer)
        if rank.world_size > 1:
            dist.barrier()  # as for the others
        seen = {**found(model), "left": sum(map(len, parts))}
        came = outcome.described()
        later = {} if came["raised"] else gradients_afterwards(rank, model, name)
        rank.record(f"{program}: {name}", {**came, **seen, "later": later})


def leave_gradients(model, left):
    for one in model.parameters():
        if left == "all" or (left and one.requires_grad):
            one.grad = torch.ones_like(one)


def gradients_afterwards(rank, model, name):
    """Those of a backward pass of the bare model, which all ranks take, each with a batch of its own."""
    model.zero_grad()
    inputs, targets = [one.to(rank.device) for one in batch_afterwards(rank.secret, name)]
    loss_fn(model(inputs), targets).backward()
    learning = {name: one for name, one in model.named_parameters() if one.requires_grad}
    return {name: plain(torch.zeros_like(one) if one.grad is None else one.grad) for name, one in learning.items()}


def in_parts(program, model, parts, optimizer):
    for batches in parts:
        program(model, batches, optimizer, loss_fn)


def found(model):
    """A model as it is after a training."""
    learning = [name for name, one in model.named_parameters() if one.requires_grad]
    return {"after": model.state(), "learning": learning, "mode": model.training}


def train_branches(rank):
    trained(rank, "train_branches", BRANCHES | RANKS)


def train_uneven(rank):
    trained(rank, "train_uneven", UNEVEN | NONE)


def train_by_hand(rank):
    trained(rank, "train_by_hand", BY_HAND, calls=2)


BATCH_SIZE = 8
SAMPLES = {"40 samples": 40, "41 samples": 41}
EPOCHS = {"40 samples": 3, "41 samples": 10}


class Data(spies.NumberedData):
    """Pairs (inputs, targets), both float64; the same on all ranks."""

    def __init__(self, samples, seed):
        super().__init__(samples, seed, features=WIDTH, classes=2)
        self.targets = values.normal((samples, OUT), seed, "targets", samples)


def train_epochs(rank):
    for name, samples in SAMPLES.items():
        model = Straight(rank, name)
        handed = groups.wrapped(rank, model), Data(samples, rank.seed), EPOCHS[name], BATCH_SIZE, optimizer_of(model)
        outcome = rank.attempt(rank.student.train_epochs, *handed, loss_fn)
        if rank.world_size > 1:
            dist.barrier()
        seen = {**found(model), "batches": model.notes.batches}
        rank.record(f"train_epochs: {name}", {**outcome.described(), **seen})


CALLS = {
    "mean_loss": LOSSES,
    "exchange": PAIRS,
    "pass_around": TENSORS,
    "broadcast_in_group": TENSORS,
    "train_epochs": SAMPLES,
    "train_branches": BRANCHES | RANKS,
    "train_uneven": UNEVEN | NONE,
    "train_by_hand": BY_HAND,
}
"""By program what it is called with."""


def alone(rank):
    """All of them, for one rank, which cannot wait for another."""
    for program in CALLS:
        globals()[program](rank)


# -- dumps of the Flight Recorder -------------------------------------------------------------------------------------

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
SIZES = (4, 8, 4096, 65536, 2**20, 4 * 2**20, 25 * 2**20)
DUMPS, MOST_DUMPS = 12, 36
"""So many of each kind, and of the one that has everything in it: in a tenth of its dumps alone it tells whether all
entries of a list were looked at for one that is not completed."""
KINDS = {
    "operation": "another collective",
    "size": "another size",
    "absent": "a rank that does not come",
    "extra": "one collective more",
    "skipped": "one left out",
    "groups": "several groups",
    "absent in groups": "several groups, and a rank that does not come",
    "lost": "beginnings lost, and entries in any order",
    "lost in groups": "several groups, beginnings lost, and entries in any order",
}
"""What is wrong in a dump, or what makes it hard to find."""
LIKELY = {
    "groups": ("operation", "size"),
    "lost": ("operation", "size", "absent", "skipped"),
    "lost in groups": ("operation", "size", "absent", "absent"),
}
"""What may be wrong where a kind says only what makes it hard to find."""


def dumps_of(secret, kind):
    """The dumps of a kind: dicts of what `find_culprit` takes."""
    count = MOST_DUMPS if kind == "lost in groups" else DUMPS
    return [Job(values.random_for(secret, "dump", kind, number), kind, number).dump() for number in range(count)]


class Job:
    """Ranks that run collectives in some groups, of which one does once what the others do not; each goes on until it
    waits for what does not come."""

    def __init__(self, draw, kind, number):
        self.draw, self.kind, grouped = draw, kind, "groups" in kind
        self.at_once = number % 4 == 0  # the fault is the first thing that is known of the culprit
        self.ranks = range(draw.randint(5, 8) if grouped else draw.randint(3, 6))
        self.palette = [(draw.choice(OPERATIONS), draw.choice(SIZES)) for _ in range(draw.randint(2, 5))]
        self.palette = self.palette[:1] if kind == "skipped" else self.palette  # then nothing differs but the number
        self.unnoticed = not grouped and draw.random() < 0.5  # what does not fit together completes all the same
        self.groups = {"default": list(self.ranks)}
        if grouped:
            self.groups |= {name: sorted(draw.sample(self.ranks, 3)) for name in ("tensor", "data")}
        names = list(self.groups)
        work = [(draw.choice(names), *self.collective()) for _ in range(draw.randint(12, 30))]
        self.fault = draw.randrange(6, len(work) - 1)
        self.group = draw.choice(names[1:] or names)
        self.culprit = draw.choice(self.groups[self.group])
        work[self.fault] = (self.group, *self.collective())
        if "in groups" in kind:  # nobody comes to another collective of the culprit's
            work[self.fault + 1 :] = [one for one in work[self.fault + 1 :] if self.goes_on(one[0])]
        start = [(name, *self.collective()) for name in names for _ in range(draw.randint(1, 4))]
        if self.at_once and kind in ("operation", "size"):
            self.work, self.fault = work[self.fault :], 0
        else:
            self.work, self.fault = [*start, *work], len(start) + self.fault
        self.ahead = [draw.choice([0, 0, 1, 3]) for _ in self.ranks]
        self.behind = draw.choice([rank for rank in self.ranks if rank != self.culprit]) if kind != "extra" else None
        self.known = draw.randint(0, 8)  # what became of what it launched later, that rank has not been told yet
        self.did = {}

    def goes_on(self, group):
        return group == self.group or self.culprit not in self.groups[group]

    def collective(self):
        return self.draw.choice(self.palette)

    def plan(self, rank):
        """What a rank would launch, in order."""
        own = [(place, one) for place, one in enumerate(self.work) if rank in self.groups[one[0]]]
        if rank != self.culprit:
            return [one for _, one in own]
        if self.kind == "extra":
            return [*(one for _, one in own), (self.group, *self.collective())]
        likely = LIKELY.get(self.kind, (self.kind,))
        kind = self.draw.choice(likely[:2] if self.at_once else likely)
        if kind == "skipped":
            return [one for place, one in own if place != self.fault]
        if "absent" in kind:
            return [one for place, one in own if place < self.fault]
        again = [place for place, one in own if place > self.fault and one[0] == self.group]
        wrong = {self.fault, *(again[-1:] if self.unnoticed else [])}
        return [self.another(kind, *one) if place in wrong else one for place, one in own]

    def another(self, kind, group, operation, size):
        """The same but for one thing."""
        if kind == "operation":
            return group, self.draw.choice([one for one in OPERATIONS if one != operation]), size
        return group, operation, self.draw.choice([one for one in SIZES if one != size])

    def run(self):
        """By rank what it launches, as (group, operation, bytes, number), each until it waits."""
        plans, launched, moved = [self.plan(rank) for rank in self.ranks], [[] for _ in self.ranks], True
        waiting = [[] for _ in self.ranks]  # of what each launched
        while moved:
            moved = False
            for rank, plan in enumerate(plans):
                waiting[rank] = [one for one in waiting[rank] if not self.complete(one)]
                if len(launched[rank]) < len(plan) and len(waiting[rank]) <= self.ahead[rank]:
                    group, operation, size = plan[len(launched[rank])]
                    number = 1 + sum(one[0] == group for one in launched[rank])
                    launched[rank].append((group, operation, size, number))
                    waiting[rank].append(launched[rank][-1])
                    self.did.setdefault((group, number), []).append((operation, size))
                    moved = True
        return launched

    def complete(self, one):
        """All ranks of its group have launched the same, or just as many."""
        group, *_, number = one
        did = self.did[group, number]
        return len(did) == len(self.groups[group]) and (self.unnoticed or len(set(did)) == 1)

    def dump(self):
        launched, order, found = self.run(), self.draw.sample(self.ranks, len(self.ranks)), {}
        if self.draw.random() < 0.5:
            order.sort(key=lambda rank: rank != self.culprit)
        for rank in order:
            entries = [
                self.entry(one, self.complete(one) and (rank != self.behind or place < self.known))
                for place, one in enumerate(launched[rank])
            ]
            if "lost" in self.kind:
                entries = entries[self.lost(rank, launched[rank], rank == order[-1]) :]
                self.draw.shuffle(entries)
            found[rank] = entries
        return found

    def lost(self, rank, launched, busiest):
        """How many of a rank's entries its buffer has lost. It still has one of the group from before the fault, or the
        fault itself; but the busiest rank of a large group, if it went on, has none of these."""
        number = sum(group == self.group for group, *_ in self.work[: self.fault + 1])
        places = [place for place, (group, *_) in enumerate(launched) if group == self.group]
        if self.at_once and rank == self.culprit:
            return places[number - 1]
        if busiest and rank != self.culprit and len(self.groups[self.group]) > 3 and len(places) > number:
            return places[number]
        return min(self.draw.randint(0, 6), places[:number][-1] if places else 6)

    def entry(self, one, complete):
        group, operation, size, number = one
        state = "completed" if complete else self.draw.choice(["scheduled", "started"])
        return {"sequence": number, "operation": operation, "group": group, "bytes": size, "state": state}


def source_of(number, world_size):
    """The rank whose dumps a rank is handed: who draws a dump knows who is the culprit in it."""
    return (number + 1) % world_size


def find_culprit(rank):
    """Each dump by itself. They come from another rank, by a file that has nothing but the dumps."""
    own = {kind: [list(dump.items()) for dump in dumps_of(rank.secret, kind)] for kind in KINDS}
    others = meeting.tell_all(rank, "dumps", own)[source_of(rank.rank, rank.world_size)]
    for kind in KINDS:
        came = []
        for dump in map(dict, others[kind]):
            outcome = rank.attempt(rank.student.find_culprit, dump)
            value = outcome.value
            pair = value if isinstance(value, tuple | list) and len(value) == 2 else ()
            numbers = [int(one) for one in pair if isinstance(one, int)]
            came.append({**outcome.described(), "value": values.short(value), "numbers": numbers})
        rank.record(kind, came)
