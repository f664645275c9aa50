"""Runs in every rank: trains a few parameters with the student's ShardedOptimizer and records their values.

Parameters and gradients are pure functions of the seed and float64, the same on all ranks; only the memory case is
float32, and its values do not matter. Nothing here knows an expected value.
"""

import ctypes
import gc
import io
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, StepLR

SHAPES = {"embedding": (7, 4), "weight": (5, 4), "bias": (5,), "norm": (4,), "head": (3, 5), "scale": ()}
"""The parameters that most cases train. Names stand for nothing but themselves."""
FACTORS = ((1.0, 0.5, 0.1, 0.7), (0.3, 2.0, 1.0, 0.2))
"""What LambdaLR multiplies the learning rate with: one row a group, one number a step."""
BY_HAND = ({}, {"lr": 0.2, "momentum": 0.5}, {"weight_decay": 0.3}, {"lr": 0.03, "momentum": 0.95})
"""What is written into every group before each step."""


# Parameters and gradients


def value(seed, kind, name):
    """A float64 tensor of the name's shape. `kind` is a number: -1 the initial value, k the gradient of step k."""
    number = list(SHAPES).index(name)
    generator = torch.Generator().manual_seed((seed * 1009 + (kind + 2) * 31 + number) % 2**62)
    return torch.randn(SHAPES[name], dtype=torch.float64, generator=generator)


def initial(seed, name):
    return value(seed, -1, name)


def gradient(seed, step, name):
    return value(seed, step, name)


def make(rank, names=tuple(SHAPES)):
    """New parameters with their initial values, by name."""
    return {name: nn.Parameter(initial(rank.seed, name).to(rank.device)) for name in names}


def snapshot(parameters):
    return {name: parameter.detach().cpu().clone() for name, parameter in parameters.items()}


def give_gradients(rank, parameters, step, present=None):
    """Set the gradients of step `step`; to None where `present` (name -> one number a step) has a 0."""
    for name, parameter in parameters.items():
        there = present is None or present[name][step]
        parameter.grad = gradient(rank.seed, step, name).to(rank.device) if there else None


def advance(rank, optimizer, parameters, steps, present=None, before=None):
    """Take the steps with these numbers; returns the parameters after each. `before(step)` is called before each."""
    history = []
    for step in steps:
        if before is not None:
            before(step)
        give_gradients(rank, parameters, step, present)
        optimizer.step()
        history.append(snapshot(parameters))
    return history


def keywords(options):
    """Options as an optimizer wants them; JSON has no tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


# A drop-in for a real model


class Tied(nn.Module):
    """A model whose first and last weight are one parameter under two names."""

    def __init__(self, seed):
        super().__init__()
        self.embedding = nn.Parameter(initial(seed, "embedding"))
        self.weight = nn.Parameter(initial(seed, "weight"))
        self.bias = nn.Parameter(initial(seed, "bias"))
        self.last = self.embedding

    def forward(self, inputs):
        return outputs(dict(self.named_parameters()), inputs)


def outputs(tensors, inputs):
    """Shape (batch, 7)."""
    hidden = torch.tanh(inputs @ tensors["embedding"])
    hidden = torch.tanh(hidden @ tensors["weight"].T + tensors["bias"])
    return hidden @ tensors["weight"] @ tensors["embedding"].T


def batch(seed, step):
    """Inputs and targets of a step, both float64 of shape (8, 7)."""
    generator = torch.Generator().manual_seed(seed * 31 + step)
    return torch.randn(2, 8, 7, dtype=torch.float64, generator=generator)


def loss_of(tensors, seed, step, device="cpu"):
    inputs, targets = batch(seed, step).to(device)
    return (outputs(tensors, inputs) - targets).square().mean()


def train(rank):
    """The drop-in: a model's parameters(), real backward passes on the same data everywhere."""
    model = Tied(rank.seed).to(rank.device)
    options = keywords(rank.parameters["options"])
    optimizer = rank.student.ShardedOptimizer(model.parameters(), torch.optim.AdamW, **options)
    rank.record("is_optimizer", isinstance(optimizer, torch.optim.Optimizer))
    history = []
    for step in range(rank.parameters["steps"]):
        model.zero_grad()
        loss_of(dict(model.named_parameters()), rank.seed, step, rank.device).backward()
        optimizer.step()
        history.append(snapshot(dict(model.named_parameters())))
    rank.record("history", history)
    rank.record("tied", bool(model.last.equal(model.embedding)))


# Options, groups, gradients


def optimizers(rank):
    """Every kind of element-wise optimizer, one after the other. One list of parameters, no groups."""
    for title, (name, options) in rank.parameters["optimizers"].items():
        parameters = make(rank)
        optimizer_class = getattr(torch.optim, name)
        optimizer = rank.student.ShardedOptimizer(list(parameters.values()), optimizer_class, **keywords(options))
        rank.record(title, advance(rank, optimizer, parameters, range(rank.parameters["steps"])))


def visible(optimizer, parameters, names):
    """What `param_groups` shows: of each group the options called `names` that it has, and its parameters' names."""
    known = {id(parameter): name for name, parameter in parameters.items()}
    shown = []
    for group in optimizer.param_groups:
        options = {name: plain(group[name]) for name in names if name in group}
        shown.append({"options": options, "parameters": [known.get(id(p), "another") for p in group["params"]]})
    return shown


def plain(option):
    if isinstance(option, (tuple, list)):
        return [plain(item) for item in option]
    return float(option)


def grouped(parameters, groups):
    """The manifest's groups ({"names": [...], options}) as an optimizer takes them: with a list; with a generator where
    one is `lazy`, as `module.parameters()` gives; with a bare parameter where there is a name and no list."""
    made = []
    for group in groups:
        names, lazy = group["names"], group.get("lazy")
        chosen = parameters[names] if isinstance(names, str) else (parameters[name] for name in names)
        options = {name: value for name, value in group.items() if name not in ("names", "lazy")}
        made.append({"params": chosen if lazy or isinstance(names, str) else list(chosen), **keywords(options)})
    return made


def options(rank):
    groups(rank)
    schedule(rank)


def groups(rank):
    parameters = make(rank)
    defaults = keywords(rank.parameters["options"])
    made = grouped(parameters, rank.parameters["groups"])
    optimizer = rank.student.ShardedOptimizer(made, torch.optim.AdamW, **defaults)
    rank.record("visible", visible(optimizer, parameters, defaults))
    rank.record("history", advance(rank, optimizer, parameters, range(rank.parameters["steps"])))


def schedule(rank):
    """Learning rates and other options that change from step to step."""
    rank.record("by hand", changed_by_hand(rank))
    rank.record("LambdaLR", changed_by_lambda(rank))
    rank.record("StepLR", changed_stepwise(rank))


def changed_by_hand(rank):
    parameters = make(rank)
    optimizer = rank.student.ShardedOptimizer(parameters.values(), torch.optim.SGD, **rank.parameters["sgd"])

    def write(step):
        for group in optimizer.param_groups:
            group.update(BY_HAND[step])

    return advance(rank, optimizer, parameters, range(len(BY_HAND)), before=write)


def changed_by_lambda(rank):
    parameters = make(rank)
    made = grouped(parameters, rank.parameters["two groups"])
    optimizer = rank.student.ShardedOptimizer(made, torch.optim.SGD, **rank.parameters["sgd"])
    scheduler = LambdaLR(optimizer, [lambda step, row=row: row[step] for row in FACTORS])

    def next_rate(step):
        if step:
            scheduler.step()

    return advance(rank, optimizer, parameters, range(len(FACTORS[0])), before=next_rate)


def changed_stepwise(rank):
    """Every two steps a tenth; the learning rate is Adam's own default."""
    parameters = make(rank)
    optimizer = rank.student.ShardedOptimizer(parameters.values(), torch.optim.Adam)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.1)

    def next_rate(step):
        if step:
            scheduler.step()

    return advance(rank, optimizer, parameters, range(5), before=next_rate)


def gradless(rank):
    """Parameters that have a gradient in some steps only. One is frozen until its first gradient."""
    present = rank.parameters["present"]
    for title, (name, options) in rank.parameters["optimizers"].items():
        parameters = make(rank)
        frozen = parameters[rank.parameters["frozen"]].requires_grad_(False)
        optimizer_class = getattr(torch.optim, name)
        optimizer = rank.student.ShardedOptimizer(parameters.values(), optimizer_class, **keywords(options))

        def thaw(step, frozen=frozen):
            frozen.requires_grad_(bool(present[rank.parameters["frozen"]][step]) or frozen.requires_grad)

        steps = range(len(next(iter(present.values()))))
        rank.record(title, advance(rank, optimizer, parameters, steps, present, before=thaw))


def few(rank):
    """Fewer parameters than ranks: some may own nothing."""
    for title, names in rank.parameters["sets"].items():
        parameters = make(rank, names)
        optimizer = rank.student.ShardedOptimizer(parameters.values(), torch.optim.AdamW, **rank.parameters["adamw"])
        rank.record(title, advance(rank, optimizer, parameters, range(rank.parameters["steps"])))


def late(rank):
    """Groups that are added before the first step and between steps."""
    for title, (name, options) in rank.parameters["optimizers"].items():
        parameters = make(rank)
        first, *more = rank.parameters["groups"]
        made, optimizer_class = grouped(parameters, [first]), getattr(torch.optim, name)
        optimizer = rank.student.ShardedOptimizer(made, optimizer_class, **keywords(options))
        history = []
        for number, group in enumerate(more):
            optimizer.add_param_group(*grouped(parameters, [group]))
            history += advance(rank, optimizer, parameters, [2 * number, 2 * number + 1])
        shown = visible(optimizer, parameters, {"lr": None, **options})
        rank.record(title, {"history": history, "visible": shown, "cleared": cleared(rank, optimizer, parameters)})


# Calls


def cleared(rank, optimizer, parameters):
    """Which parameters still have a gradient that is not zero after zero_grad."""
    give_gradients(rank, parameters, 0)
    optimizer.zero_grad()
    return [name for name, p in parameters.items() if p.grad is not None and p.grad.count_nonzero()]


def calls(rank):
    clearing(rank)
    few(rank)
    closures(rank)


def clearing(rank):
    parameters = make(rank)
    made = grouped(parameters, rank.parameters["groups"])
    optimizer = rank.student.ShardedOptimizer(made, torch.optim.SGD, **rank.parameters["options"])
    before = cleared(rank, optimizer, parameters)
    advance(rank, optimizer, parameters, [0])
    rank.record("left", {"before the first step": before, "after a step": cleared(rank, optimizer, parameters)})


def objective(seed, tensors, step):
    """A loss, and its gradients in closed form: those of gradient() times (1 + the parameter)."""
    return sum((gradient(seed, step, name).to(t.device) * (t + t.square() / 2)).sum() for name, t in tensors.items())


def closures(rank):
    """Steps with a closure, which alone makes the gradients; by position and by keyword. Then a step without."""
    parameters = make(rank, rank.parameters["names"])
    optimizer = rank.student.ShardedOptimizer(parameters.values(), torch.optim.SGD, **rank.parameters["options"])
    calls, returned, history = [], [], []

    def closure():
        calls[-1].append(torch.is_grad_enabled())
        with torch.enable_grad():
            for parameter in parameters.values():
                parameter.grad = None
            loss = objective(rank.seed, parameters, len(calls) - 1)
            loss.backward()
        return loss

    for number in range(rank.parameters["steps"]):
        calls.append([])
        loss = optimizer.step(closure=closure) if number % 2 else optimizer.step(closure)
        returned.append(None if loss is None else float(torch.as_tensor(loss).detach()))
        history.append(snapshot(parameters))
    rank.record("calls", calls)
    rank.record("returned", returned)
    rank.record("history", history)
    rank.record("nothing", type(optimizer.step()).__name__)


# Saving and loading


def resume(rank):
    """Save in the middle; then the first optimizer goes on, a fresh one goes on, and the first one goes back."""
    half, steps = rank.parameters["half"], rank.parameters["steps"]
    for title, (name, options) in rank.parameters["optimizers"].items():
        first, first_parameters = built(rank, name, options)
        history = advance(rank, first, first_parameters, range(half), before=halver(first))
        saved, values = packed(first.state_dict()), snapshot(first_parameters)
        history += advance(rank, first, first_parameters, range(half, steps), before=halver(first))
        fresh, fresh_parameters = built(rank, name, {**options, "lr": 7.0})
        again = restored(rank, fresh, fresh_parameters, values, saved)
        back = restored(rank, first, first_parameters, values, saved)
        rank.record(title, {"first": history, "fresh": again, "back": back})


def built(rank, name, options):
    parameters = make(rank)
    made = grouped(parameters, rank.parameters["groups"])
    return rank.student.ShardedOptimizer(made, getattr(torch.optim, name), **keywords(options)), parameters


def halver(optimizer):
    """Halves every learning rate before step 1, so that the options to save are not those of the constructor."""

    def halve(step):
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] / 2 if step == 1 else group["lr"]

    return halve


def packed(state_dict):
    """The bytes of a checkpoint file. A copy: what torch.optim returns refers to the living state."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    return file.getvalue()


def restored(rank, optimizer, parameters, values, saved):
    """Load the model's values, then the optimizer's state, as one resumes; and train on."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])
    optimizer.load_state_dict(torch.load(io.BytesIO(saved), weights_only=False))
    return advance(rank, optimizer, parameters, range(rank.parameters["half"], rank.parameters["steps"]))


# Memory


UNIT = 2**14
"""Elements. Parameters of the memory case are a few of these, so that anything kept in full stands out."""


def layout(world_size):
    """The sizes of the parameters in units: a list of groups, the last of which is added later.

    No parameter exceeds a quarter of a rank's share. The order is unkind: every N-th parameter is large, the first half
    is larger than the second, and many groups have one parameter only.
    """
    period = [3] + [1] * (world_size - 1)
    repeats = 48 // max(world_size, 3)
    many = [size * (2 if number < repeats * world_size // 2 else 1) for number, size in enumerate(period * repeats)]
    return [many, *[[3]] * 8, period * 4]


def memory(rank):
    gc.freeze()  # what is here already is of no interest; looking through it would take most of the time
    for title, (name, options) in rank.parameters["optimizers"].items():
        measure(rank, title, getattr(torch.optim, name), options)


def measure(rank, title, optimizer_class, options):
    """What the process keeps alive because of the optimizer: after two steps, after another group was added, and
    after loading its own state. The second for Adam alone: torch's own Adagrad makes no state for such a group."""
    sharded = rank.student.ShardedOptimizer
    small = parameter_groups(rank, [[1] * 4, [1]], 1)
    rank.attempt(reload, stepped(sharded(as_groups(small), optimizer_class, **options), small))  # warm up
    del small
    *first, last = parameter_groups(rank, layout(rank.world_size), UNIT)
    rank.record(f"{title}: bytes", {"first": size(first), "all": size([*first, last])})
    before = settled(rank)
    optimizer = stepped(sharded(as_groups(first), optimizer_class, **options), first)
    rank.record(f"{title}: after steps", grown(before, settled(rank)))
    if title == "Adam":
        optimizer.add_param_group({"params": last})
        stepped(optimizer, [*first, last])
        rank.record(f"{title}: after adding", grown(before, settled(rank)))
    if rank.attempt(reload, optimizer).error is None:  # else round_trip says so
        rank.record(f"{title}: after loading", grown(before, settled(rank)))


def size(groups):
    """Bytes."""
    return sum(parameter.nbytes for group in groups for parameter in group)


def as_groups(groups):
    return [{"params": list(group)} for group in groups]


def parameter_groups(rank, sizes, unit):
    return [[nn.Parameter(torch.ones(size * unit, device=rank.device)) for size in group] for group in sizes]


def stepped(optimizer, groups):
    """The optimizer after two steps; no gradient is left."""
    parameters = [parameter for group in groups for parameter in group]
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    optimizer.zero_grad()
    for parameter in parameters:
        parameter.grad = None
    return optimizer


def reload(optimizer):
    optimizer.load_state_dict(torch.load(io.BytesIO(packed(optimizer.state_dict())), weights_only=False))


def grown(before, after):
    """Bytes by instrument; None where this system does not have it."""
    return {name: None if now is None else now - before[name] for name, now in after.items()}


def settled(rank):
    """A reading once it no longer changes: a collective's buffer may be released some milliseconds after its end."""
    dist.barrier()
    gc.collect()
    last, calm = reading(rank), 0
    for _ in range(200):
        time.sleep(0.003)
        now = reading(rank)
        calm = calm + 1 if same(last, now) else 0
        last = now
        if calm == 4:
            break
    return {**last, "storages": storages()}


def same(last, now):
    return all(now[name] is None or abs(now[name] - last[name]) < 2**12 for name in now)


def reading(rank):
    """Bytes that this process has: on the heap, in shared memory, in files of its own, on its GPU."""
    gpu = torch.cuda.memory_allocated(rank.device) if rank.device.type == "cuda" else 0
    return {"heap": heap(), "shared": shared(), "files": files(rank.scratch), "gpu": gpu}


class Mallinfo2(ctypes.Structure):
    NAMES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES]


def heap():
    """What malloc has handed out and not got back, whoever holds it and however; None without glibc."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def shared():
    """Shared memory that this process has touched: shared tensors, anonymous maps."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssShmem:"))


def files(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def storages():
    """Bytes of all tensors that Python's collector knows, each storage once; those made before gc.freeze() excluded."""
    sizes = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and type(thing) in (torch.Tensor, nn.Parameter):
            storage = thing.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
