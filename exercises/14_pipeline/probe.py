"""Runs in every rank: hands stages and batches to `run_gpipe` and `run_1f1b`, and records what became of them.

A stage's parameters are of its rank's secret, inputs of the first rank's, targets of the last one's. Activations carry
the number of their sample as their first element, so that a stage knows what it works on; it notes its forwards and
backwards, in order, and whose outputs are alive. What beginners meet first comes first, since a rank that is stuck goes
no further. Nothing here knows an expected value.
"""

import inspect
import itertools
import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from grader.kit import groups, meeting, memory, processes, spies, values

SCHEDULES = ("run_gpipe", "run_1f1b")
ROWS, WIDTH, CLASSES, VOCABULARY = 8, 20, 5, 11
SHAPE = (ROWS, WIDTH)
"""Of one sample between stages. A first stage takes 1 + WIDTH numbers a sample."""
PATIENCE, QUIET = 5.0, 25
"""Seconds that a rank waits at least for its neighbour to begin, and looks that then have to find it asleep in a row:
right code lets it begin, however long a busy machine takes for that."""


@dataclass(frozen=True)
class Given:
    """One batch: so many micro-batches of so many samples, and `more` that do not fit, for these world sizes.
    `kinds` are those of the stages, in turn."""

    micro_batches: int = 4
    samples: int = 2
    more: int = 0
    dtype: torch.dtype = torch.float64
    kinds: tuple = ("layers",)
    sizes: tuple = (2, 3, 4)
    everywhere: bool = False
    """Whether ranks that read neither inputs nor targets are given some, too."""
    leftovers: bool = False
    """Whether parameters have gradients before the call."""
    shape: type = tuple
    """What `activation_shape` comes in."""
    read_in: torch.dtype | None = None
    """The dtype of the inputs, where it is not that of the model."""

    @property
    def batch(self):
        return max(self.micro_batches, 0) * self.samples + self.more

    def kind(self, place):
        return self.kinds[place % len(self.kinds)]

    def parameters(self, secret, name, place):
        """A stage's parameters by name."""
        shapes = SHAPES[self.kind(place)]
        return {key: values.normal(shape, secret, name, key, scale=0.3).to(self.dtype) for key, shape in shapes.items()}

    def gradients(self, secret, name, place):
        """What is in their gradients before the call, if anything."""
        shapes = SHAPES[self.kind(place)] if self.leftovers else {}
        return {key: values.normal(shape, secret, name, key, "left").to(self.dtype) for key, shape in shapes.items()}

    def inputs(self, secret, name):
        """What a rank gives as inputs, shape (batch, 1 + WIDTH): the first column numbers the samples from 1."""
        generator = values.generator(secret, name, "inputs")
        if self.kind(0) == "tokens":
            features = torch.randint(VOCABULARY, (self.batch, WIDTH), generator=generator)
        else:
            features = torch.randn(self.batch, WIDTH, dtype=torch.float64, generator=generator)
            features = features.to(self.read_in or self.dtype)
        return spies.numbered(range(1, self.batch + 1), features)

    def targets(self, secret, name):
        return torch.randint(CLASSES, (self.batch,), generator=values.generator(secret, name, "targets"))


LAYERS = {"weight": (WIDTH, WIDTH), "bias": (WIDTH,)}
SHAPES = {
    "layers": LAYERS,
    "frozen": LAYERS,
    "half frozen": LAYERS,
    "plain": {},
    "turned": {},
    "tokens": {"table": (VOCABULARY, WIDTH), **LAYERS},
}
"""The parameters of each kind of stage. One that is "turned" has none, and its outputs and their gradients are
transposes."""
FROZEN = {"frozen": ("weight", "bias"), "half frozen": ("weight",)}

ORDINARY = "8 micro-batches"
FIRST = {ORDINARY: Given(8, sizes=(1, 2, 3, 4))}
FEW = {
    "a single micro-batch": Given(1, 3, sizes=(1, 2)),
    "2 micro-batches": Given(2, 1, sizes=(3, 4)),
}
LEFT = {"gradients that are there already": Given(3, 1, leftovers=True, sizes=(1, 2))}
READ = {
    "float32 inputs, and tensors on ranks that do not read them": Given(
        4, 1, everywhere=True, read_in=torch.float32, sizes=(3,)
    ),
    "inputs that are whole numbers": Given(2, 2, kinds=("tokens", "layers", "layers"), sizes=(3,)),
    "activation_shape in a list": Given(2, 1, shape=list, sizes=(2,)),
}
DTYPES = {
    "float32": Given(2, 2, dtype=torch.float32, sizes=(2,)),
    "bfloat16": Given(2, 2, dtype=torch.bfloat16, sizes=(3,)),
}
ALONE = {"a frozen stage": Given(2, 2, kinds=("frozen",), sizes=(1,))}
FROZEN_STAGES = {
    "a frozen stage in the middle": Given(2, 2, kinds=("half frozen", "frozen", "layers"), sizes=(3,)),
    "a frozen first stage": Given(2, 2, kinds=("frozen", "half frozen"), sizes=(2,)),
}
PLAIN = {
    "a first stage without parameters": Given(2, 2, dtype=torch.float32, kinds=("plain", "layers"), sizes=(2,)),
    "no parameters but in the first stage": Given(1, 2, dtype=torch.float32, kinds=("layers", "plain"), sizes=(2,)),
    "no parameters but in the last stage": Given(2, 1, kinds=("plain", "plain", "layers"), sizes=(3,)),
    "a middle stage without parameters": Given(3, 1, kinds=("layers", "turned", "layers"), sizes=(4,)),
}
BAD = {
    "0 micro-batches": Given(0, 0, 4, sizes=(1, 3)),
    "-1 micro-batches": Given(-1, 0, 4, sizes=(2,)),
    "7 samples in 2 micro-batches": Given(2, 3, 1, sizes=(1, 2, 3)),
    "2 samples in 4 micro-batches": Given(4, 0, 2, sizes=(1, 2)),
}
AFTER = {"a batch after those": Given(2, 1, sizes=(1, 2, 3))}
LATE = {"ranks that come late for what is sent": Given(2, 1, sizes=(2,))}
CALLS = FIRST | FEW | ALONE | LEFT | READ | DTYPES | FROZEN_STAGES | PLAIN | BAD | AFTER
"""What is handed in, by name."""
RETURNING = [*LEFT, *FEW, *READ, *AFTER]
"""Those whose loss is judged as well, beside the ordinary one's."""
F32, F64, OF_ANOTHER_DTYPE = torch.float32, torch.float64, DTYPES | PLAIN
"""In all other calls torch's default dtype is that of the model: whoever receives into it is wrong here alone."""

GROUPS = {"ranks 1 and 3": (1, 3), "ranks 2, 0 and 3, in this order": (2, 0, 3), "ranks 1 and 2": (1, 2)}
"""The ranks of the world in some groups, in the order of the groups, at world size WORLD. One of them is in two groups
of one size."""
WORLD = 4
IN_GROUPS = Given(3, 1)
BAD_GROUP = "ranks 1 and 3"
BAD_IN_GROUP = {
    f"0 micro-batches, in a group of {BAD_GROUP}": Given(0, 0, 4, sizes=(WORLD,)),
    f"5 samples in 2 micro-batches, in a group of {BAD_GROUP}": Given(2, 2, 1, sizes=(WORLD,)),
}
"""Bad input that two ranks get, while the others wait for them elsewhere."""
FAULTS = {
    "a stage that raises in its second forward": (Given(sizes=(4,)), "run_gpipe", 2, "forward 1"),
    "a stage that raises in its second backward": (Given(sizes=(2,)), "run_1f1b", 1, "backward 1"),
    "a first stage that raises while the pipeline fills": (Given(sizes=(3,)), "run_1f1b", 0, "forward 1"),
}
FAULTS_LATER = {
    "a last stage that raises in its second backward": (Given(sizes=(2,)), "run_gpipe", 1, "backward 1"),
}
"""What is handed in, by which function, which rank's stage raises, and where: in the one family and in the other."""
FAULT = "this stage is broken"


# -- the model --------------------------------------------------------------------------------------------------------


def numbers_of(inputs, first):
    """The numbers of the samples that a stage is given."""
    return (inputs[:, 0] if first else inputs[:, 0, 0]).detach()


def samples_in(inputs, first):
    """The same as whole numbers: 0 in what is no sample, such as a tensor that only has its shape."""
    if inputs.is_meta:
        return [0] * len(inputs)
    return [round(number) for number in numbers_of(inputs, first).double().nan_to_num().clamp(0, 1e6).tolist()]


def compute(kind, tensors, inputs, first, last):
    """A stage: from its inputs to its outputs, (samples, *SHAPE), or logits (samples, CLASSES) from the last one."""
    hidden = lifted(tensors, inputs) if first else inputs
    if kind == "turned":  # a product is contiguous, so neither its transpose is nor the gradient of what it took
        hidden = (hidden.mT @ torch.ones(ROWS, ROWS, dtype=hidden.dtype, device=hidden.device).tril()).mT / ROWS
    elif kind == "plain":
        hidden = hidden.sin()
    else:
        hidden = (hidden @ tensors["weight"] + tensors["bias"]).tanh()
    if last:
        return 3 * hidden.mean(1).view(len(hidden), CLASSES, -1).sum(-1)
    corner = torch.zeros(SHAPE, dtype=hidden.dtype, device=hidden.device)
    corner[0, 0] = 1
    return hidden * (1 - corner) + numbers_of(inputs, first).to(hidden.dtype).view(-1, 1, 1) * corner


def lifted(tensors, inputs):
    """A first stage's inputs, as activations, in the dtype of its parameters."""
    if "table" in tensors:
        return tensors["table"][inputs[:, 1:]][:, :ROWS]
    if "weight" in tensors and inputs.dtype != (dtype := tensors["weight"].dtype):
        inputs = inputs.to(dtype) / 2  # so that a stage sees which dtype it was given
    heights = torch.arange(1, ROWS + 1, device=inputs.device).to(inputs.dtype) / 4
    return inputs[:, 1:].unsqueeze(1) * heights.view(-1, 1)


def loss_fn(outputs, targets):
    """The mean over the samples, a tensor without dimensions."""
    return cross_entropy(outputs, targets, label_smoothing=0.25)


class Stage(nn.Module):
    """The spy: notes each of its passes and, where it is `watched`, whose outputs are alive as one begins. `at` has
    what is to be done as a pass begins, such as "forward 1", the second one."""

    def __init__(self, rank, given, name, place, stages, *, watched=False):
        super().__init__()
        self.kind, self.first, self.last = given.kind(place), place == 0, place == stages - 1
        for key, value in given.parameters(rank.secret, name, place).items():
            self.register_parameter(key, nn.Parameter(value, key not in FROZEN.get(self.kind, ())))
        self.rank, self.watched, self.passes, self.outputs, self.at = rank, watched, [], spies.Activations(), {}
        self.inputs = [] if name in LATE else None
        self.part = nn.Identity()
        self.train(self.kind != "frozen")
        self.part.train(not self.training)
        self.modes = [] if name in FROZEN_STAGES else None

    def forward(self, inputs):
        numbers = samples_in(inputs, self.first)
        if self.inputs is not None:
            self.inputs.append(inputs)
        if self.modes is not None:
            self.modes.append(self.training)
        with self.noted("forward", numbers):
            outputs = compute(self.kind, dict(self.named_parameters()), inputs, self.first, self.last)
            outputs = Noted.apply(outputs, self, numbers)
        if self.watched:
            self.outputs.watch(numbers, outputs)
        return outputs

    @contextmanager
    def noted(self, kind, numbers):
        """Note that a pass begins, for some samples; of a stage that is watched it is a step that is drawn."""
        of_a_kind = [one["numbers"] for one in self.passes if one["kind"] == kind]
        forwards = [one["numbers"] for one in self.passes if one["kind"] == "forward"]
        alive = self.outputs.alive() if self.watched else []
        self.passes.append({"kind": kind, "numbers": numbers, "alive": alive, "waited": None})
        self.passes[-1]["waited"] = self.at.get(f"{kind} {len(of_a_kind)}", lambda: None)()
        number = forwards.index(numbers) if kind == "backward" else len(forwards)
        with self.rank.step(f"{kind} {number}") if self.watched else nullcontext():
            yield


class Noted(torch.autograd.Function):
    """A stage's outputs, whose backward is noted as it begins; in the form that `torch.func` takes, too."""

    @staticmethod
    def forward(outputs, stage, numbers):
        return outputs.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.stage, ctx.numbers = inputs

    @staticmethod
    def backward(ctx, gradient):
        with ctx.stage.noted("backward", ctx.numbers):
            return gradient, None, None


# -- calls ------------------------------------------------------------------------------------------------------------


def key(schedule, name):
    """What a call is recorded as, and its region is called."""
    return f"{schedule} with {name}"


def names():
    """All calls of a schedule, in order: in groups once the first few are done."""
    before = [*FIRST, *LEFT, *FEW, *ALONE]
    rest = (name for name in CALLS if name not in before)
    return [*before, *GROUPS, *rest, *BAD_IN_GROUP]


KEYS = [key(schedule, name) for schedule in SCHEDULES for name in names()]
LATE_KEYS = [key(schedule, name) for name in LATE for schedule in SCHEDULES]
"""All calls of each family, in order."""


def pipeline(rank):
    """The calls of one schedule and then of the other: in the default group, which some leave away, some give as None
    and some by its object, and in groups of some of the ranks. For the others there is nothing to do meanwhile."""
    memory.disregard_existing()
    rank.record("ordered", ORDERED)
    made = {name: new_group(ranks) for name, ranks in GROUPS.items() if rank.world_size == WORLD}
    meeting_place = new_group(range(rank.world_size))  # of all ranks, and nobody else knows it
    ways = itertools.cycle([{}, {"group": None}, {"group": dist.group.WORLD}])
    for schedule in SCHEDULES:
        for name in names():
            if name in GROUPS:
                call(rank, schedule, name, IN_GROUPS, name in made and rank.rank in GROUPS[name], group=made.get(name))
            elif name in BAD_IN_GROUP:
                takes_part = BAD_GROUP in made and rank.rank in GROUPS[BAD_GROUP]
                call(rank, schedule, name, BAD_IN_GROUP[name], takes_part, group=made.get(BAD_GROUP))
                dist.barrier(meeting_place)
            else:
                call(rank, schedule, name, CALLS[name], rank.world_size in CALLS[name].sizes, **next(ways))
            if name in FIRST | DTYPES:
                rank.tell_trace()
    for name, fault in FAULTS.items() if rank.device.type == "cpu" else ():  # NCCL does not tell the others of it
        fail(rank, name, *fault)


def lately(rank):
    """Calls in which each rank is late for what the other one sends. Nothing is traced: a trace holds what is under
    way, and so delivers what nobody waits for."""
    for name, given in LATE.items():
        for schedule in SCHEDULES:
            well = call(rank, schedule, name, given, takes_part=True)
            if not all(meeting.tell_all(rank, f"{schedule} went well", well).values()):
                return  # the connection is gone
    for name, fault in FAULTS_LATER.items():
        fail(rank, name, *fault)


ORDERED = "sort_ranks" in inspect.signature(dist.new_group).parameters
"""Whether this torch makes groups whose ranks are in another order than in the world."""


def new_group(ranks):
    return dist.new_group(list(ranks), **({"sort_ranks": False} if ORDERED else {}))


def call(rank, schedule, name, given, takes_part, **group):
    """One call of a student's function, and everything seen of it. Whether it raised nothing."""
    if not takes_part:
        rank.record(key(schedule, name), None)
        return True
    place, stages = dist.get_rank(group.get("group")), dist.get_world_size(group.get("group"))
    stage = Stage(rank, given, name, place, stages, watched=name in FIRST).to(rank.device)
    if name in FIRST and stages == 3:
        stage.at = neighbours(rank, schedule, given.micro_batches)
    if name in LATE:
        stage.at = late(rank, schedule)
    for parameter, left in given.gradients(rank.secret, name, place).items():
        stage.get_parameter(parameter).grad = left.to(rank.device)
    if name in AFTER:
        use(rank, schedule, name, given, stage, **group)
    outcome, changed = attempt(rank, schedule, name, given, stage, **group)
    if name in LATE:
        settle(rank, schedule, stage, outcome)
    elif outcome.error is not None and stages > 1:
        dist.barrier(group.get("group"))  # all have raised; where one has alone, it waits here for the others
    gradients = {key: one.grad for key, one in stage.named_parameters() if one.grad is not None}
    rank.record(
        key(schedule, name),
        {
            **outcome.described(),
            "returned": values.kind_of(outcome.value),
            "loss": values.number(outcome.value),
            "gradients": values.copies(gradients),
            "passes": stage.passes,
            "changed": changed["batch"],
            "stage_changed": changed["stage"],
            "modes": stage.modes or [],
        },
    )
    return outcome.error is None


def use(rank, schedule, name, given, stage, **group):
    """Use a stage before the call that is judged: for a larger batch, in as many micro-batches. What that leaves in its
    gradients is cleared."""
    larger = replace(given, samples=2 * given.samples)
    attempt(rank, schedule, name, larger, stage, **group)
    stage.zero_grad()
    stage.passes.clear()


def attempt(rank, schedule, name, given, stage, default=None, **group):
    """Call the student's function with this rank's part of a batch. Gives what came of it, and what has changed of the
    batch and of the stage, of which only gradients are to change. `default` is torch's default dtype then."""
    inputs = handed(rank, given, stage.first, given.inputs(rank.secret, name))
    targets = handed(rank, given, stage.last, given.targets(rank.secret, name))
    function, shape = getattr(rank.student, schedule), given.shape(SHAPE)
    torch.rand(1)  # where an earlier call has seeded the generator, it is no longer as seeding leaves it
    with default_dtype(default or (F32 if name in OF_ANOTHER_DTYPE else F64)):
        before = as_handed(stage, inputs, targets, shape)
        with rank.region(key(schedule, name)):
            outcome = rank.attempt(function, stage, inputs, targets, loss_fn, given.micro_batches, shape, **group)
        after = as_handed(stage, inputs, targets, shape)
    return outcome, {
        part: [what for what in before[part] if not same(what, before[part], after[part])] for part in before
    }


def as_handed(stage, inputs, targets, shape):
    """What a call is to leave as it is, by the words for it."""
    batch = {"activation_shape": list(shape), "torch's default dtype": torch.get_default_dtype()}
    for name, tensor in {"inputs": inputs, "targets": targets}.items():
        if isinstance(tensor, torch.Tensor):
            batch |= {f"the values of the {name}": tensor.detach().clone()}
            batch |= {f"requires_grad of the {name}": tensor.requires_grad}
    parameters = dict(stage.named_parameters())
    own = {f"the values of {key}": one.detach().clone() for key, one in parameters.items()}
    own |= {f"requires_grad of {key}": one.requires_grad for key, one in parameters.items()}
    modes = {"the stage's mode": stage.training, "the mode of a module in the stage": stage.part.training}
    return {"batch": batch, "stage": modes | own | {"torch's random numbers": torch.get_rng_state()}}


def same(what, before, after):
    one, other = before[what], after.get(what)
    return one.equal(other) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else one == other


def handed(rank, given, reads, samples):
    """A rank's inputs or targets: what it reads; or None, or what it is not to look at."""
    if reads:
        return samples.to(rank.device)
    if not given.everywhere:
        return None
    return "not to be read" if rank.rank == 1 else samples.repeat_interleave(2, 0).to(rank.device)


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def neighbours(rank, schedule, count):
    """Three stages: the first holds its last forward until the next one has begun, the last its last backward until
    the one before has. (A later pass than the first one waits for other ranks as well, and would be a lottery.)"""
    forward, backward = (rank.shared / f"{schedule} {kind}" for kind in ("forward", "backward"))

    pid = meeting.tell_all(rank, f"{schedule} pids", os.getpid())[1]

    def until(begun):
        def wait():
            idle = processes.asleep_for(QUIET, [pid])
            if not meeting.wait_until(begun.exists, PATIENCE):
                meeting.wait_until(lambda: begun.exists() or idle(), look=0.02)
            return begun.exists()

        return wait

    return (
        {f"forward {count - 1}": until(forward)},
        {"forward 0": forward.touch, "backward 0": backward.touch},
        {f"backward {count - 1}": until(backward)},
    )[rank.rank]


def late(rank, schedule):
    """Two stages: the last begins its first forward when the first one waits in its sleep for a gradient; the first
    begins its first backward when the last one has returned, or waits in its sleep. What the last one sends by then is
    of memory that is used for something else."""
    others = meeting.tell_all(rank, f"{schedule} late pids", os.getpid()).values()

    def wait():
        idle = processes.asleep_for(QUIET, [pid for pid in others if pid != os.getpid()])
        meeting.wait_until(lambda: returned(rank, schedule, 1 - rank.rank).exists() or idle(), look=0.02)

    return {"forward 0" if rank.rank else "backward 0": wait, "settle": wait}


def settle(rank, schedule, stage, outcome):
    """After such a call: the first rank waits for the last gradient, if that is on its way. One that has got lost it
    would wait for without end, so the other one hangs up, as if its process had ended. So does who has raised."""
    let_go(stage)
    returned(rank, schedule, rank.rank).touch()
    if outcome.error is None and stage.last:
        stage.at["settle"]()
    lost = outcome.error is None and not returned(rank, schedule, 0).exists()
    rank.record(f"lost in {schedule}", lost)
    if lost or outcome.error is not None:
        groups.hang_up()


def let_go(stage):
    """Of what the stage was given. The memory of its gradients is used for something else; and nobody here holds what
    an input, its graph or its hooks may hold, such as messages that are under way."""
    while stage.inputs:
        one = stage.inputs.pop()
        if stage.last and one.is_leaf and one.grad is not None:
            one.grad.zero_()


def returned(rank, schedule, number):
    return rank.shared / f"{schedule} returned on {number}"


def fail(rank, name, given, schedule, broken, where):
    """A call in which one rank's stage raises. Afterwards that rank is gone for the others, as if it had ended."""
    if rank.world_size not in given.sizes:
        rank.record(name, None)
        return
    stage = Stage(rank, given, name, rank.rank, rank.world_size).to(rank.device)
    if rank.rank == broken:
        stage.at = {where: give_up}
    # Where the first stage raises, the default dtype is another than the model's: on all ranks, as in any job.
    outcome, changed = attempt(rank, schedule, name, given, stage, F32 if broken == 0 else F64)
    rank.record(name, {**outcome.described(), "changed": changed["batch"]})
    groups.hang_up()


def give_up():
    raise RuntimeError(FAULT)
