"""Runs in every rank: builds parallel layers from dense ones, calls them, and records outputs and gradients.

The dense layers are equal on all ranks. As soon as a layer stands, its slices are overwritten by values from the rank's
secret, as an optimizer or a checkpoint would: so nobody can know the others' slices without asking them. Inputs that
all ranks share are from the seed; a row-parallel layer's inputs, and the gradient of outputs that are a rank's own, are
from its secret. Nothing here knows an expected value.
"""

import gc
import inspect
import itertools
import os
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from grader.kit import meeting, processes
from grader.kit.memory import Meter, disregard_existing, storages
from grader.kit.values import normal

# -- what is built and what goes in -----------------------------------------------------------------------------------

IN, HIDDEN, OUT = 5, 6, 7
"""One, two and three ranks divide the second; two and three neither of the others, and four none of them."""


@dataclass(frozen=True)
class Given:
    """What is built, and how it is used. `lead` are the inputs' dimensions before the features."""

    kind: str
    lead: tuple = (4,)
    bias: bool = True
    dtype: torch.dtype = torch.float64
    turned: bool = False
    """The inputs are not contiguous, nor are the gradients of the outputs."""
    needs_grad: bool = True
    """The inputs need a gradient."""
    graded: bool = True
    """False: called under no_grad."""
    summed: bool = False
    """The loss is the plain sum of the outputs, whose gradient is one number expanded."""
    residual: bool = False
    """The inputs are added to the outputs. In a later pass they are no leaf, as those of a block within a model."""
    passes: int = 1
    """So many forward passes, and then one backward through all of them."""
    shared: bool = False
    """All passes have the same inputs."""
    rounds: int = 1
    """So many backward passes through the same graph, from the upstream gradient times their number, which is 1 in the
    last one."""
    used: bool = False
    """It has been called before its slices got the values that they have now; under no_grad, and with the inputs that
    all passes share, if they do."""
    training: bool = True
    """False: called in evaluation mode."""
    frozen: str | tuple = "none"
    """The parameters whose names begin so, or in one of these ways, need no gradient."""

    @property
    def out(self):
        return IN if self.residual else OUT

    def layers(self):
        """(prefix of its parameters' names, dimension in which its weight is cut, in, out) of each dense layer."""
        up, down = ("up.", 0, IN, HIDDEN), ("down.", 1, HIDDEN, self.out)
        return [up, down] if self.kind == "mlp" else [("", *(down if self.kind == "row" else up)[1:])]

    def shapes(self):
        """By name the shape of each dense parameter, and the dimension in which it is cut; None for one that every
        rank has as a whole."""
        shapes = {}
        for prefix, dim, features, out in self.layers():
            shapes[f"{prefix}weight"] = (out, features), dim
            if self.bias:
                shapes[f"{prefix}bias"] = (out,), 0 if dim == 0 else None
        return shapes

    def dense(self, seed, name):
        """The dense parameters, the same on all ranks."""
        return {key: normal(shape, seed, name, key).to(self.dtype) for key, (shape, _) in self.shapes().items()}

    def slices(self, secret, seed, name, number):
        """What one of `number` ranks has in its slices from then on."""
        cut = {key: (cut_in(shape, dim, number), dim) for key, (shape, dim) in self.shapes().items()}
        own = {key: secret if dim is not None else seed for key, (_, dim) in cut.items()}
        return {key: normal(shape, own[key], name, "slice", key).to(self.dtype) for key, (shape, _) in cut.items()}

    def inputs(self, secret, seed, name, number):
        """A rank's inputs in each pass."""
        own = self.kind == "row"
        shape = (*self.lead, HIDDEN // number if own else IN)
        passes = [0] * self.passes if self.shared else range(self.passes)
        return [self.drawn(shape, secret if own else seed, name, "inputs", one) for one in passes]

    def drawn(self, shape, *place):
        """Values of this shape for one place, with the strides that are asked for."""
        if self.turned:
            values = normal(shape[::-1], *place)
            return values.permute(*range(values.dim())[::-1]).to(self.dtype)
        return normal(shape, *place).to(self.dtype)

    def upstream(self, secret, seed, name, number):
        """The gradient of a rank's outputs in each pass."""
        own = self.kind == "column"
        features = HIDDEN // number if own else HIDDEN if self.kind == "gathered" else self.out
        shape = (*self.lead, features)
        if self.summed:
            return [torch.ones((), dtype=self.dtype).expand(shape)] * self.passes
        place = secret if own else seed
        return [self.drawn(shape, place, name, "upstream", one) for one in range(self.passes)]


def cut_in(shape, dim, number):
    """The shape of one of `number` equal parts."""
    return tuple(size // number if place == dim else size for place, size in enumerate(shape))


BUILT = {
    "a new column-parallel layer": Given("column"),
    "a new row-parallel layer": Given("row"),
    "a new MLP": Given("mlp"),
    "a new column-parallel layer without bias": Given("column", bias=False),
    "a new row-parallel layer without bias": Given("row", bias=False),
}
"""Layers that are looked at and not called."""
LAYERS = ("column", "row", "mlp")
COLUMN = {
    "a column-parallel layer without bias": Given("column", bias=False),
    "a column-parallel layer": Given("column"),
    "a column-parallel layer that gathers": Given("gathered"),
}
ROW = {
    "a row-parallel layer without bias": Given("row", bias=False),
    "a row-parallel layer": Given("row"),
}
MLP = {"the MLP": Given("mlp"), "the MLP without biases": Given("mlp", bias=False)}
SHAPES = {
    "a column-parallel layer, three dimensions that are not contiguous": Given("column", (2, 3), turned=True),
    "a column-parallel layer that gathers, inputs of three dimensions": Given("gathered", (1, 3)),
    "a column-parallel layer that gathers, three dimensions that are not contiguous": Given(
        "gathered", (2, 3), turned=True
    ),
    "a row-parallel layer, inputs of three dimensions": Given("row", (2, 1)),
    "a row-parallel layer, three dimensions that are not contiguous": Given("row", (2, 3), turned=True),
    "the MLP, three dimensions that are not contiguous": Given("mlp", (2, 3), turned=True),
    "the MLP, a matrix that is not contiguous": Given("mlp", turned=True),
    "a column-parallel layer that gathers, one vector": Given("gathered", ()),
    "a row-parallel layer, one vector": Given("row", ()),
    "the MLP, one vector": Given("mlp", ()),
    "the MLP, an empty batch": Given("mlp", (0,)),
}
SUMS = {
    "a column-parallel layer whose outputs are summed": Given("column", summed=True),
    "a column-parallel layer that gathers, whose outputs are summed": Given("gathered", summed=True),
    "a row-parallel layer whose outputs are summed": Given("row", (2, 3), summed=True),
}
RESIDUAL = {"the MLP beside a residual connection": Given("mlp", residual=True, passes=2)}
TWICE = {
    "a column-parallel layer that is called under no_grad, and then twice with the same inputs": Given(
        "column", passes=2, shared=True, used=True
    ),
    "a column-parallel layer that gathers, called twice": Given("gathered", passes=2),
    "a row-parallel layer without bias that is called twice": Given("row", bias=False, passes=2),
    "the MLP, called twice": Given("mlp", passes=2),
    "the MLP, and backward twice through the same graph": Given("mlp", rounds=2),
    "the MLP, called again after its slices were trained": Given("mlp", used=True),
    "a row-parallel layer without bias under no_grad, called twice again after its slices were trained": Given(
        "row", bias=False, passes=2, graded=False, training=False, used=True
    ),
}
NO_GRADIENT = {
    "a column-parallel layer, inputs that need no gradient": Given("column", needs_grad=False),
    "a column-parallel layer that gathers, inputs that need no gradient": Given("gathered", needs_grad=False),
    "a row-parallel layer, inputs that need no gradient": Given("row", needs_grad=False),
    "the MLP, inputs that need no gradient": Given("mlp", needs_grad=False),
    "a column-parallel layer that gathers, under no_grad": Given("gathered", graded=False, training=False),
    "the MLP under no_grad": Given("mlp", graded=False, training=False),
    "the MLP in evaluation mode": Given("mlp", training=False),
    "the MLP with `up` frozen": Given("mlp", frozen="up."),
    "the MLP with `down` frozen": Given("mlp", frozen="down."),
    "the MLP with the weight of `up` and the bias of `down` frozen": Given("mlp", frozen=("up.weight", "down.bias")),
    "the MLP with the bias of `up` and the weight of `down` frozen": Given("mlp", frozen=("up.bias", "down.weight")),
}
DTYPES = {
    "the MLP in float32": Given("mlp", dtype=torch.float32),
    "a column-parallel layer that gathers, in bfloat16": Given("gathered", dtype=torch.bfloat16),
    "a row-parallel layer in bfloat16": Given("row", dtype=torch.bfloat16),
}
STAGES = (COLUMN, ROW, MLP, SHAPES | SUMS, RESIDUAL | TWICE, NO_GRADIENT | DTYPES)
"""What beginners meet first comes first, since a rank that is stuck goes no further. After each stage the rank tells
what it has communicated."""
CALLS = {name: given for stage in STAGES for name, given in stage.items()}

WIDE = 1536, 6
"""Features in and out of the layers whose tensors are counted. A row-parallel layer's bias is a large part of them."""
LARGE = 768, 1536
"""Those of the layers whose memory is measured, from outside as well: 9 MiB a weight, of which a slice has half."""
MEASURED, FLOAT = "large layers", 8
"""What is measured, and the bytes of an element."""

ORDERED = {"sort_ranks": False} if "sort_ranks" in inspect.signature(dist.new_group).parameters else {}
"""Whether this torch makes groups whose ranks are in another order than in the world."""
THREE = {"ranks 3, 1 and 2, in this order": (3, 1, 2)} if ORDERED else {"ranks 1, 2 and 3": (1, 2, 3)}
GROUPS = {"ranks 0 and 2": (0, 2), "ranks 1 and 2": (1, 2), **THREE}
"""The ranks of the world in some groups, in the order of the groups. One of them is in two groups of one size."""
IN_GROUPS = {
    "a column-parallel layer that gathers": Given("gathered"),
    "a row-parallel layer": Given("row"),
    "the MLP": Given("mlp"),
}
BAD = {
    "a row-parallel layer of 7 input features": ("row", 7, OUT),
    "a column-parallel layer of 7 output features": ("column", IN, 7),
    "an MLP of 7 hidden features": ("mlp", 7, 7),
    "a column-parallel layer of 1 output feature": ("column", IN, 1),
    "a row-parallel layer of 1 input feature": ("row", 1, OUT),
    "an MLP of 1 hidden feature": ("mlp", 1, 1),
}
"""Widths that neither two nor three ranks divide: the kind, then the layer's features in and out, or the MLP's hidden
ones twice."""
LATE, QUIET = 3, 25
"""So many of them are asked for once more, with a rank that comes late; and looks after which a process waits."""

# -- layers -----------------------------------------------------------------------------------------------------------


def linear(rank, features, out, weight, bias):
    """A dense layer of these values."""
    layer = nn.Linear(features, out, bias=bias is not None, dtype=weight.dtype, device=rank.device)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def dense_layers(rank, given, name):
    """New dense layers, the same on all ranks."""
    values = given.dense(rank.seed, name)
    return [
        linear(rank, features, out, values[f"{prefix}weight"], values.get(f"{prefix}bias"))
        for prefix, _, features, out in given.layers()
    ]


def dense_of(rank, sizes):
    """Likewise of these features in and out."""
    return [
        linear(rank, *size, normal(size[::-1], rank.seed, "weight", place), normal(size[1:], rank.seed, "bias", place))
        for place, size in enumerate(sizes)
    ]


def build(rank, kind, dense, *group, **named_group):
    """What the student makes of dense layers."""
    student = rank.student
    if kind == "gathered":
        return student.ColumnParallelLinear(*dense, *group, **named_group, gather_output=True)
    kinds = {"column": student.ColumnParallelLinear, "row": student.RowParallelLinear, "mlp": student.ParallelMLP}
    return kinds[kind](*dense, *group, **named_group)


def held(module, given):
    """Its `weight` and `bias`, or those of its `up` and `down`, by name, as they are; None where there is none."""
    found = {}
    for prefix, *_ in given.layers():
        layer = getattr(module, prefix[:-1], None) if prefix else module
        for part in ("weight", "bias"):
            value = getattr(layer, part, None)
            found[f"{prefix}{part}"] = value if isinstance(value, torch.Tensor) else None
    return found


def lacking(module, given):
    """Those of these names that are no attributes at all, or neither a tensor nor None."""
    layers = {prefix: getattr(module, prefix[:-1], None) if prefix else module for prefix, *_ in given.layers()}
    return [f"{prefix}{part}" for prefix in layers for part in ("weight", "bias") if odd(layers[prefix], part)]


def odd(layer, part):
    return not hasattr(layer, part) or not isinstance(getattr(layer, part), torch.Tensor | None)


def local(tensor):
    """A rank's own part of a DTensor; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def plain(tensor):
    """A copy on the CPU, or None."""
    return None if tensor is None else local(tensor.detach()).cpu().clone()


def values_of(module, given):
    """Copies of what it holds, by name."""
    return {key: plain(tensor) for key, tensor in held(module, given).items()}


def overwrite(module, given, values):
    """Give its slices other values, in place, as an optimizer would."""
    with torch.no_grad():
        for key, tensor in held(module, given).items():
            if key in values:
                local(tensor).copy_(values[key])


def freeze(module, given):
    """Its frozen parameters need no gradient from now on."""
    for key, tensor in held(module, given).items():
        if tensor is not None and key.startswith(given.frozen):
            tensor.requires_grad_(False)


def written(tensors, drawn):
    """How many of them are no longer what was drawn."""
    return sum(not plain(one).equal(before) for one, before in zip(tensors, drawn, strict=True))


# -- what is recorded -------------------------------------------------------------------------------------------------


def layers(rank):
    """What a layer holds; then the calls, in the default group, which some leave away, some give as None and some by
    its object; last widths that cannot be shared."""
    for name, given in BUILT.items():
        rank.record(name, look_at(rank, given, name))
    disregard_existing()
    rank.record("kept", {kind: kept_by(rank, kind) for kind in LAYERS})
    measure(rank)
    ways = itertools.cycle([(), (None,), (dist.group.WORLD,)])
    for stage in STAGES:
        for name, given in stage.items():
            call(rank, name, given, rank.world_size, *next(ways))
        rank.tell_trace()
    if rank.world_size > 1:
        rank.record("refusals", {name: refusal(rank, *bad) for name, bad in BAD.items()})
        rank.record("waits", {name: last_of_all(rank, name, *bad) for name, bad in list(BAD.items())[:LATE]})


def look_at(rank, given, name):
    """What the student's layer holds, also when the dense layer's memory has been written over; and what has become of
    the dense layer."""
    dense = dense_layers(rank, given, name)
    before = [(layer, key, one) for layer in dense for key, one in layer.named_parameters()]
    for *_, parameter in before:
        parameter.grad = torch.ones_like(parameter)
    outcome = rank.attempt(build, rank, given.kind, dense)
    found = held(outcome.value, given)
    seen = {
        **outcome.described(),
        "module": isinstance(outcome.value, nn.Module),
        "held": {key: plain(tensor) for key, tensor in found.items()},
        "lacks": lacking(outcome.value, given),
        "dense": dict(zip(given.shapes(), (plain(one) for *_, one in before), strict=True)),
        "replaced": [
            key for layer, key, one in before if getattr(layer, key, None) is not one or not one.requires_grad
        ],
        "gradients": [plain(one.grad) for *_, one in before],
        "training": all(layer.training for layer in dense),
    }
    with torch.no_grad():
        for *_, parameter in before:
            parameter.fill_(1e6)
    trained = list(outcome.value.parameters()) if seen["module"] else []
    return {
        **seen,
        "after": {key: plain(tensor) for key, tensor in found.items()},
        "bytes": {key: local(one).untyped_storage().nbytes() for key, one in found.items() if one is not None},
        "trained": {key: any(one is tensor for one in trained) for key, tensor in found.items() if tensor is not None},
        "elements": sum(local(one).numel() for one in trained),
    }


def sizes_of(kind, features, out):
    """Features in and out of each dense layer."""
    return [(features, out), (out, features)] if kind == "mlp" else [(features, out)[:: 1 if kind == "column" else -1]]


def made(rank, kind, width):
    """What came of building from dense layers of this width, which nobody but the student may have any more."""
    return rank.attempt(build, rank, kind, dense_of(rank, sizes_of(kind, *width)))


def measure(rank):
    """What the process keeps of one large module after the other."""
    meter, modules = Meter(rank, MEASURED), []
    for kind in LAYERS:
        modules.append(made(rank, kind, LARGE).value)
        rank.record(*meter.growth(kind))


def large_bytes(kind, number):
    """Those of the slices that one of `number` ranks has of a large module."""
    given, found = Given(kind), 0
    for (_, dim, *_), (features, out) in zip(given.layers(), sizes_of(kind, *LARGE), strict=True):
        found += FLOAT * (features * out // number + (out // number if dim == 0 else out))
    return found


def kept_by(rank, kind):
    """What a module of wide layers keeps alive when the caller has let go of the dense ones: bytes of all tensors, and
    of those of its slices."""
    given = Given(kind)
    gc.collect()
    before = storages()
    outcome = made(rank, kind, WIDE)
    gc.collect()
    own = sum(local(one).nbytes for one in held(outcome.value, given).values() if one is not None)
    return {**outcome.described(), "all": storages() - before, "slices": own}


def call(rank, name, given, number, *group, other=None, **named_group):
    """Build a layer, use it, and record what came of it. In `other`, a group of this rank alone, a second one of its
    kind is built and called meanwhile."""
    where, members = (rank.secret, rank.seed, name, number), named_group.get("group")
    inputs = [one.to(rank.device).requires_grad_(given.needs_grad) for one in given.inputs(*where)]
    inputs = inputs[:1] * given.passes if given.shared else inputs
    upstream, handed = [one.to(rank.device) for one in given.upstream(*where)], handed_back(inputs, given)
    dense, modules, outputs, slices = dense_layers(rank, given, name), [], [], {}

    def prepare():
        modules.append(build(rank, given.kind, dense, *group, **named_group))
        slices.update(values_of(modules[0], given))
        if isinstance(modules[0], nn.Module):
            modules[0].train(given.training)
        if given.used:
            with nullcontext() if given.graded and not given.shared else torch.no_grad():
                modules[0](inputs[0] if given.shared else inputs[0].detach().clone().requires_grad_())
        overwrite(modules[0], given, given.slices(*where))
        modules.extend(second(rank, given, name, other))
        freeze(modules[0], given)

    def forward():
        with rank.region(f"the forward pass of {name}"), nullcontext() if given.graded else torch.no_grad():
            for nth, one in enumerate(inputs):
                used = 1 * one if given.residual and nth else one
                outputs.append(modules[0](used) + used if given.residual else modules[0](used))
        for one in modules[1:]:
            one(torch.ones(1, given.layers()[0][2], dtype=given.dtype, device=rank.device, requires_grad=True))

    def backward():
        with rank.region(f"the backward pass of {name}"):
            for left in reversed(range(given.rounds)):
                gradients = [one * (left + 1) for one in upstream] if left else upstream
                torch.autograd.backward(outputs, gradients, retain_graph=left > 0)

    done = taken(rank, [prepare, forward, backward] if given.graded else [prepare, forward], members)
    found = held(modules[0], given) if modules else {}
    seen = seen_of(inputs, given.inputs(*where), upstream, given.upstream(*where), dense, handed)
    gradients = {key: plain(tensor.grad) for key, tensor in found.items() if tensor is not None}
    outputs = [plain(one) for one in outputs]
    rank.record(name, {"done": done, "slices": slices, "outputs": outputs, "gradients": gradients, **seen})


def handed_back(inputs, given):
    """What will hold the gradients of the inputs that each of several backward passes gave, as it gave them. Whoever
    keeps one finds it there as it was."""
    handed = []
    if given.rounds > 1:
        inputs[0].register_hook(handed.append)
    return handed


def seen_of(inputs, drawn, upstream, drawn_upstream, dense, handed):
    """What became of what the layer was handed: inputs and upstream gradients, beside what was drawn for them, and the
    dense layers."""
    return {
        "need gradients": sum(one.requires_grad for one in inputs),
        "written": written(inputs, drawn),
        "upstream written": written(upstream, drawn_upstream),
        "inputs": [plain(sum(handed))] if handed else [plain(one.grad) for one in inputs],
        "dense with gradients": sum(one.grad is not None for layer in dense for one in layer.parameters()),
    }


def taken(rank, steps, members):
    """What came of each step, by its name, up to the first that raised."""
    done = {}
    for step in steps:
        outcome = rank.attempt(step)
        done[step.__name__] = outcome.described()
        if outcome.error is not None:
            if dist.get_world_size(members) > 1:
                dist.barrier(members)  # all have raised; where one has alone, it waits here for the others
            break
    return done


def second(rank, given, name, group):
    """Another layer of the same kind, in another group, if there is one."""
    return [] if group is None else [build(rank, given.kind, dense_layers(rank, given, name), group=group)]


def refusal(rank, kind, *sizes):
    """What comes of building from layers whose width cannot be shared."""
    dense = dense_of(rank, [(IN, sizes[0]), (sizes[1], OUT)] if kind == "mlp" else [sizes])
    return rank.attempt(build, rank, kind, dense).described()


def last_of_all(rank, name, kind, *sizes):
    """The same of a last rank that comes later: when all others have been refused, or wait in their sleep. Which ranks
    waited for it."""
    pids = list(meeting.tell_all(rank, f"{name} pids", os.getpid()).values())
    done = [rank.shared / f"{name} {number}" for number in range(rank.world_size)]
    waiting = []
    if rank.rank == rank.world_size - 1:
        asleep = [processes.asleep_for(QUIET, [pid]) for pid in pids[:-1]]

        def settled():
            looked = [idle() for idle in asleep]
            return all(file.exists() or idle for file, idle in zip(done[:-1], looked, strict=True))

        meeting.wait_until(settled, look=0.02)
        waiting = [number for number, file in enumerate(done[:-1]) if not file.exists()]
    refusal(rank, kind, *sizes)
    done[rank.rank].touch()
    return waiting


def groups(rank):
    """The calls in groups of some of the ranks. For the others there is nothing to do meanwhile."""
    made = {name: dist.new_group(list(ranks), **ORDERED) for name, ranks in GROUPS.items()}
    lone, _ = dist.new_subgroups(1)
    for what, given in IN_GROUPS.items():
        for among, ranks in GROUPS.items():
            name = f"{what} among {among}"
            if rank.rank in ranks:
                call(rank, name, given, len(ranks), group=made[among], other=lone)
            else:
                rank.record(name, None)
