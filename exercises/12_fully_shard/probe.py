"""Runs in every rank: shards small models with the student's shard_model, trains them, and saves them.

What a model computes is recorded, never how it stores its parameters. All ranks begin with the same values, as the
contract has it; a rank's batches are its own, from its secret. Nothing here knows an expected value.
"""

import contextlib
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import cross_entropy, linear

from grader.kit import disturb, files, meeting, processes, values
from grader.kit.memory import Meter, disregard_existing

VOCABULARY, WIDTH, HIDDEN, BATCH = 19, 10, 14, 4
"""Two, three or four ranks divide none of the first two, and three or four not the third."""
LAYOUTS = {
    "list": "three blocks in a ModuleList",
    "one": "one block",
    "none": "no block",
    "inside": "no parameter outside of the blocks, in float32",
    "nested": "three blocks in nested containers, beside an embedding and a head",
    "subclass": "three blocks of a subclass of block_class",
    "tied": "tied and frozen parameters",
}
"""The models, by what they come with."""
BLOCKS = {"list": 3, "one": 1, "none": 0, "inside": 2, "nested": 3, "subclass": 3, "tied": 2}
OPTIONS = {"list": {"lr": 0.2}, "tied": {"lr": 0.1, "momentum": 0.9}}
"""What SGD is built with; the others as "list"."""
COMPUTES_IN = {"inside": torch.float32}
"""The dtype of a model; float64 where none is said."""
STEPS = {"list": 3}
"""Training steps of a model, 2 of the others; after them it is evaluated once."""
SAVED = "checkpoints in between"
"""The model that is saved while it trains, of layout "tied", in the same words."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""Of models that are saved without training."""
LARGER = 200_000
"""Bytes of a file, no checkpoint, that is there already where one is saved; more than that has."""
LIMIT, LOOKS = 20.0, 30
"""Seconds after which a wait for another rank is given up, by which nothing is judged; and looks in a row that must
find all other ranks asleep before a slow writer goes on."""


# The models


class Block(nn.Module):
    """Parameters of several shapes, one with fewer rows than there are ranks, in a submodule called `module` as well;
    buffers that are saved, one of which counts the forward passes, and one that is not. In evaluation it adds twice as
    much, as other layers that know the two modes compute something else in each."""

    def __init__(self, dtype):
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, dtype=dtype)
        self.module = nn.Linear(HIDDEN, WIDTH, bias=False, dtype=dtype)
        self.gain = nn.Parameter(torch.empty(1, WIDTH, dtype=dtype))
        self.register_buffer("scale", torch.empty(WIDTH, dtype=dtype))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", (torch.arange(WIDTH) % 3 > 0).to(dtype), persistent=False)

    def forward(self, hidden):
        """Shape (batch, WIDTH), in and out."""
        self.calls += 1
        added = self.gain * self.module(torch.tanh(self.up(hidden * self.scale * self.mask)))
        return hidden + (added if self.training else 2 * added)


class OtherBlock(Block):
    """A block of a class of its own."""


class Stage(nn.Module):
    """A block among other things."""

    def __init__(self, block):
        super().__init__()
        self.inner = block

    def forward(self, hidden):
        return self.inner(hidden)


def containers(layout, dtype):
    """The blocks of a layout, as the model holds them."""
    blocks = [(OtherBlock if layout == "subclass" else Block)(dtype) for _ in range(BLOCKS[layout])]
    if layout == "nested":
        first, second, third = blocks
        return nn.ModuleDict({"encoder": nn.ModuleList([first, nn.Sequential(second)]), "decoder": Stage(third)})
    return nn.ModuleList(blocks)


def run_through(module, hidden):
    """What the blocks of a container make of it, in order."""
    if not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        return module(hidden)
    for part in module.values() if isinstance(module, nn.ModuleDict) else module:
        hidden = run_through(part, hidden)
    return hidden


class Model(nn.Module):
    """A language model of one token: from token to scores of the next one, shape (batch, VOCABULARY). Its embedding,
    head and offset lie outside of the blocks; in layout "inside" they are buffers, in "nested" the first two are
    modules, and in "tied" they are one parameter, the offset is frozen, and the blocks share a buffer. There a block is
    in evaluation from the beginning, as frozen ones often are."""

    def __init__(self, layout, dtype):
        super().__init__()
        for name, shape in {"embedding": (VOCABULARY, WIDTH), "head": (VOCABULARY, WIDTH), "offset": (WIDTH,)}.items():
            tensor = torch.empty(shape, dtype=dtype)
            if layout == "inside":
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))
        self.blocks = containers(layout, dtype)
        if layout == "nested":
            del self.embedding, self.head
            self.embedding = nn.Embedding(VOCABULARY, WIDTH, dtype=dtype)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=dtype)
        if layout == "tied":
            self.head = self.embedding
            self.offset.requires_grad_(False)
            self.blocks[1].scale = self.blocks[0].scale
            self.blocks[1].up.bias.requires_grad_(False)
            self.blocks[1].eval()

    def forward(self, tokens):
        embedded = self.embedding(tokens) if isinstance(self.embedding, nn.Module) else self.embedding[tokens]
        hidden = run_through(self.blocks, embedded + self.offset)
        return self.head(hidden) if isinstance(self.head, nn.Module) else linear(hidden, self.head)


def build(layout, seed, dtype=None):
    """A model with the values of a seed, on the CPU."""
    model = Model(layout, dtype or COMPUTES_IN.get(layout, torch.float64))
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(values.normal(tensor.shape, seed, name, scale=0.5))
    return model


def batch(secret, step):
    """(tokens, targets) of one rank in one step, int64 of shape (BATCH,)."""
    return torch.randint(VOCABULARY, (2, BATCH), generator=values.generator(secret, "batch", step)).unbind()


@contextlib.contextmanager
def evaluating(model):
    """While a model is evaluated: without gradients, and with every module in the mode that it had after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        yield
    for module, training in modes:
        module.training = training


def options_of(layout):
    """What its optimizer, SGD, is built with."""
    return OPTIONS.get(layout, OPTIONS["list"])


def steps_of(layout):
    """How many training steps it makes."""
    return STEPS.get(layout, 2)


# Training


def sharded(rank, model, mesh, block_class):
    """What shard_model returned, or the model if that was none; and what it was."""
    returned = rank.student.shard_model(model, mesh, block_class)
    is_module = isinstance(returned, nn.Module)
    return returned if is_module else model, {"module": is_module, "type": type(returned).__name__}


class Trainee:
    """A model that the student has sharded, and its optimizer. `outputs` are those of each forward pass, on the batch
    of that step."""

    def __init__(self, rank, layout, mesh, seed, title=""):
        self.rank, self.title, self.outputs = rank, title or LAYOUTS[layout], []
        model = build(layout, seed).to(rank.device)
        with rank.region(f"sharding {self.title}"):
            self.model, self.returned = sharded(rank, model, mesh, Block)
        # where a part is not sharded, torch's kernels for many tensors at once, the default on GPUs, refuse the mixture
        self.optimizer = torch.optim.SGD(self.model.parameters(), foreach=False, **options_of(layout))

    def step(self, number):
        with self.rank.region(f"step {number} with {self.title}"):
            self.backward(number)
            self.update()

    def backward(self, number):
        outputs, targets = self.forward(number)
        cross_entropy(outputs, targets).backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def forward(self, number):
        tokens, targets = (part.to(self.rank.device) for part in batch(self.rank.secret, number))
        outputs = self.model(tokens)
        self.outputs.append(outputs.detach().cpu().clone())
        return outputs, targets

    def evaluate(self, number):
        with evaluating(self.model):
            self.forward(number)


def whole_mesh(rank):
    """All ranks in one dimension."""
    return init_device_mesh(rank.device.type, (rank.world_size,), mesh_dim_names=("dp",))


def train(rank, layout, mesh, seed, name):
    """Shard a model and train it; record its outputs, up to where something was raised."""
    trainees = []

    def go():
        trainees.append(trainee := Trainee(rank, layout, mesh, seed))
        for step in range(steps_of(layout)):
            trainee.step(step)
        trainee.evaluate(steps_of(layout))

    outcome = rank.attempt(go).described()
    returned = trainees[0].returned if trainees else {"module": False, "type": "nothing"}
    rank.record(name, {**outcome, "outputs": trainees[0].outputs if trainees else [], "returned": returned})


def sharding(rank):
    """Train a model of each layout that the manifest names, all ranks in one mesh; then its other parts."""
    spy, mesh = disturb.WriteSpy(), whole_mesh(rank)
    for layout in rank.parameters["layouts"]:
        train(rank, layout, mesh, rank.seed, layout)
    rank.tell_trace()
    folder = files.shared_folder(rank, "checkpoints")
    parts = {
        "memory": lambda: measure_memory(rank, mesh),
        "checkpoints": lambda: save_while_training(rank, mesh, spy, folder),
        "dtypes": lambda: save_dtypes(rank, mesh, folder),
        "slow": lambda: save_slowly(rank, mesh, spy, folder),
        "saved_memory": lambda: measure_saving(rank, mesh, folder),
    }
    for part in rank.parameters["then"]:
        parts[part]()


def column_of(number):
    """Four ranks in two columns: which one a rank is in. Its ranks are no neighbours, and it need not hold rank 0."""
    return number % 2


def submesh(rank):
    """All four ranks in one mesh; then two meshes of two ranks, each with a model of its own, one after the other: the
    ranks of a mesh do without the rest."""
    train(rank, "list", whole_mesh(rank), rank.seed, "list")
    mesh = init_device_mesh(rank.device.type, (2, 2), mesh_dim_names=("row", "other"))["row"]
    before = group_names()
    for column in (0, 1):
        if column == column_of(rank.rank):
            train(rank, "one", mesh, values.seed_for(rank.seed, column), "column")
            rank.record("groups", [name for name in group_names() if name not in before])
        meeting.meet(rank, f"column {column}")


def group_names():
    """The process groups that this process is in, by the names under which their members look for one another."""
    world = getattr(dist.distributed_c10d, "_world", None)
    return [str(name) for name in getattr(world, "pg_names", {}).values()]


# Checkpoints


def save_while_training(rank, mesh, spy, folder):
    """Save after the first step, in the middle of the second one over a larger file, and after an evaluation over the
    first file; then train on. Where slow writing is another part, the first save of all is slow, too."""
    noted, path = [], folder / "model.pt"
    trainee, note = Trainee(rank, "tied", mesh, rank.seed, SAVED), disturb.note_writes(noted, rank.shared, rank.scratch)

    def save(what, to, *, slow=False):
        if slow:
            save_held_up(rank, spy, trainee.model, to, what, note)
        else:
            with spy.telling(note):
                outcome = save_model(rank, trainee.model, to)
            rank.record(f"{what}_saved", outcome)
        if rank.rank == 0:
            rank.record(f"{what}_file", files.content(to))
        dist.barrier()

    trainee.step(0)
    save("first", str(path), slow="slow" in rank.parameters["then"])
    trainee.backward(1)
    if rank.rank == 0:
        (folder / "inside.pt").write_bytes(bytes(LARGER))
    save("inside", folder / "inside.pt")
    trainee.update()
    trainee.evaluate(2)
    save("second", str(path))
    rank.record("writes", sorted(set(noted)))
    trainee.step(3)
    trainee.evaluate(4)
    rank.record("outputs", trainee.outputs)


def save_model(rank, model, path):
    """What came of a save, and whether it left torch's random numbers as they were."""
    torch.rand(1)  # where an earlier save has seeded the generator, it is no longer as seeding leaves it
    before = torch.get_rng_state()
    outcome = rank.attempt(rank.student.save_full_checkpoint, model, path)
    return {**outcome.described(), "same_draws": torch.get_rng_state().equal(before)}


def save_dtypes(rank, mesh, folder):
    """Save models of other dtypes as they are."""
    for name, dtype in DTYPES.items():
        model, _ = sharded(rank, build("list", rank.seed, dtype).to(rank.device), mesh, Block)
        path = folder / f"{name}.pt"
        rank.record(f"{name}_saved", rank.attempt(rank.student.save_full_checkpoint, model, str(path)).described())
        if rank.rank == 0:
            rank.record(f"{name}_file", files.content(path))
        dist.barrier()


def save_slowly(rank, mesh, spy, folder):
    """Save over an older file while rank 0's writing is held up."""
    path, trainee = str(folder / "slow.pt"), Trainee(rank, "list", mesh, rank.seed)
    disturb.shorten_sleeps()
    outcome = rank.attempt(rank.student.save_full_checkpoint, trainee.model, path)
    rank.record("older_saved", outcome.described())
    dist.barrier()
    trainee.backward(0)
    trainee.update()
    save_held_up(rank, spy, trainee.model, path, "slow")


def save_held_up(rank, spy, model, path, name, *handlers):
    """Save while rank 0's writing is held up until another rank returns, or all of them wait. What each rank finds as
    it returns is compared with what was there before, and with what is there in the end."""
    older = files.content(path)
    pids = meeting.tell_all(rank, f"{name} pids", os.getpid())
    told = [*handlers, *([hold_up(rank, name, pids)] if rank.rank == 0 else [])]
    with spy.telling(lambda write: [handler(write) for handler in told]):
        outcome = save_model(rank, model, path)
    found = files.content(path)
    returned(rank, name).touch()
    rank.record(f"{name}_saved", outcome)
    dist.barrier()
    settled, there = files.content(path), found is not None
    rank.record(f"{name}_held_up", {"older": there and found == older, "settled": found == settled, "there": there})


def returned(rank, name, number=None):
    """The file that tells that a rank, this one unless numbered, has returned from a save that was held up."""
    return rank.shared / f"{name} returned {rank.rank if number is None else number}"


def hold_up(rank, name, pids):
    """A handler that keeps rank 0 from writing on until some rank has returned or all others have slept for a while."""
    others = {other: pid for other, pid in pids.items() if other != rank.rank}

    def hold(_):
        asleep = processes.asleep_for(LOOKS, others.values())
        meeting.wait_until(lambda: any(returned(rank, name, one).exists() for one in others) or asleep(), LIMIT)

    return hold


# Memory


SIDE, LAYERS, LARGE_RATE = 320, 4, 0.1


class LargeBlock(nn.Module):
    """Two square weights, float64: 1.6 MB."""

    def __init__(self, side):
        super().__init__()
        self.first, self.second = (nn.Linear(side, side, bias=False, dtype=torch.float64) for _ in range(2))

    def forward(self, hidden):
        return hidden + self.second(torch.tanh(self.first(hidden)))


def large(side, seed):
    """Blocks, two of which are frozen, and before them a weight of half a block's size; drawn in place."""
    blocks = [LargeBlock(side).requires_grad_(number in (0, LAYERS - 1)) for number in range(LAYERS)]
    model = nn.Sequential(nn.Linear(side, side, bias=False, dtype=torch.float64), *blocks)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=side**-0.5, generator=values.generator(seed, "large", name))
    return model


def large_inputs(secret, name, side=SIDE):
    """A rank's batch for the model that is measured under this name."""
    return values.normal((1, side), secret, name)


def sizes():
    """Bytes of all of it, and of one block."""
    weight = 8 * SIDE * SIDE
    return (1 + 2 * LAYERS) * weight, 2 * weight


def measure_memory(rank, mesh):
    """What the process keeps because of a large model: at rest, between forward and backward, at rest again, and after
    an evaluation. The first model, a small one, is there for what is allocated once."""
    disregard_existing()
    for name, side in {"warm up": 2 * rank.world_size, "large": SIDE}.items():
        measure(rank, mesh, side, name)


def measure_saving(rank, mesh, folder):
    """What the process keeps because of a large model that was saved."""
    meter = Meter(rank, "saved")
    model, _ = sharded(rank, large(SIDE, rank.seed).to(rank.device), mesh, LargeBlock)
    rank.record("large_saved", rank.attempt(rank.student.save_full_checkpoint, model, folder / "large.pt").described())
    rank.record(*meter.growth("after saving"))


def measure(rank, mesh, side, name):
    meter, measured = Meter(rank, name), []
    model, _ = sharded(rank, large(side, rank.seed).to(rank.device), mesh, LargeBlock)
    measured.append(meter.growth("at rest"))
    optimizer = torch.optim.SGD(model.parameters(), lr=LARGE_RATE, foreach=False)
    inputs = large_inputs(rank.secret, name, side).to(rank.device)
    output = model(inputs)
    outputs = [output.detach().cpu().clone()]
    loss = output.square().mean()
    del output
    measured.append(meter.growth("after forward"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    del loss
    measured.append(meter.growth("after a step"))
    with evaluating(model):
        outputs.append(model(inputs).cpu().clone())
    measured.append(meter.growth("after an evaluation"))
    rank.record(f"{name}: outputs", outputs)
    for growth in measured:
        rank.record(*growth)
