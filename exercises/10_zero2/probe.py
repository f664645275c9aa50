"""Runs in every rank: trains a few parameters with the student's Zero2Optimizer and records their values.

Initial values are the same on all ranks; gradients are each rank's own, from its secret, and come from a real backward
pass. Nearly all is float64. Nothing here knows an expected value.
"""

import gc

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from grader.kit import parts as in_parts
from grader.kit import samples, spies, values
from grader.kit.memory import Meter, disregard_existing, layout, settled, storages

EVEN = {"embedding": (6, 4), "weight": (12, 4), "bias": (12,), "norm": (24,), "head": (4, 6)}
"""The parameters of most parts. Two, three and four ranks divide the size of each: other sizes have a part of their
own."""
ONE_EACH = ("embedding", "norm", "head")
"""Three of one size."""
MODEL = {"embedding": (6, 4), "weight": (12, 4), "bias": (12,)}
ODD = {"matrix": (5, 3), "vector": (7,), "pair": (2,), "one": (1,), "scalar": ()}
SIZES = {"sizes that no number of ranks divides": ODD, "a scalar": {"scalar": ()}, "two elements": {"pair": (2,)}}
STRIDED = {"transposed": (4, 6), "strided": (12, 3)}
LARGE = {"first": (1200, 3), "second": (2004,), "third": (696, 2)}
LARGE_ODD = {"first": (1201, 3), "second": (2005,), "third": (697, 3)}
"""Float64; a quarter of each has more than a kilobyte. Two and four divide the size of each of the first, and of none
of the second."""
LARGE_COARSE = {"bfloat16": (1200, 3), "more bfloat16": (2400,)}
"""The same with a quarter as many bytes an element. Two and four divide the size of each."""
DTYPES = {"float64": (12,), "float32": (12, 2), "bfloat16": (24,), "more float32": (12,)}
FACTORS = ((1.0, 0.5, 0.1, 0.7), (0.3, 2.0, 1.0, 0.2))
"""What LambdaLR multiplies the learning rate with: one row a group, one number a step."""
BY_HAND = (
    *({"lr": 0.15}, {"lr": 0.2, "momentum": 0.5, "dampening": 0.4}),
    *({"weight_decay": 0.3, "maximize": True}, {"lr": 0.03, "momentum": 0.95}),
)
"""What is written into every group before each step."""
OF_ADAM = ({"betas": (0.9, 0.99)}, {"betas": (0.5, 0.9)}, {"betas": (0.7, 0.8)}, {"eps": 0.5})
"""The same for Adam, the momentum of which schedulers turn."""


def dtype_of(name):
    """That of the parameter with this name."""
    return getattr(torch, name.removeprefix("more ")) if name in {*DTYPES, *LARGE_COARSE} else torch.float64


def initial(seed, name, shape):
    """The value of a parameter before the first step, of its own dtype."""
    return values.normal(shape, seed, "initial", name).to(dtype_of(name))


def gradient(secret, step, name, shape, micro_batch=0):
    """What a rank's backward pass leaves in a parameter's `grad`."""
    return values.normal(shape, secret, "gradient", step, name, micro_batch).to(dtype_of(name))


def keywords(options):
    """Options as an optimizer wants them; JSON has no tuples."""
    return {name: tuple(option) if isinstance(option, list) else option for name, option in options.items()}


ZEROS = 2


def there(present, rank):
    """Whether a rank has a gradient: `present` is 1 for all ranks, 0 for none, ZEROS where all have one of zeros, or
    lists those that have."""
    return rank in present if isinstance(present, list) else present


class Training:
    """Named parameters under a Zero2Optimizer; `groups` are the manifest's."""

    def __init__(self, rank, kind, options, shapes=None, groups=None, frozen=(), placed=lambda tensor: tensor):
        self.rank, self.shapes, self.options = rank, shapes or EVEN, options
        made = {name: placed(initial(rank.seed, name, shape)) for name, shape in self.shapes.items()}
        self.parameters = {name: nn.Parameter(one.to(rank.device), name not in frozen) for name, one in made.items()}
        params = [self.grouped(group) for group in groups] if groups else self.parameters.values()
        self.optimizer = rank.student.Zero2Optimizer(params, getattr(torch.optim, kind), **keywords(options))

    def grouped(self, group):
        """A group of the manifest, {"names": [...], options}, as an optimizer takes it: with a list; with a generator
        where it is `lazy`, as `module.parameters()` gives; with a bare parameter where there is a name and no list."""
        names, options = group["names"], {name: group[name] for name in group if name not in ("names", "lazy")}
        if isinstance(names, str):
            return {"params": self.parameters[names], **keywords(options)}
        chosen = (self.parameters[name] for name in names)
        return {"params": chosen if group.get("lazy") else list(chosen), **keywords(options)}

    def backward(self, step, present=None, micro_batch=0):
        """Add this rank's gradients of a step to `grad`; `present` is by name, one entry a step."""
        losses = []
        for name, p in self.parameters.items():
            has = there(present[name][step] if present else 1, self.rank.rank)
            if p.requires_grad and has:
                made = gradient(self.rank.secret, step, name, self.shapes[name], micro_batch).to(p.device)
                losses.append((made * p if has != ZEROS else 0 * p).sum())
        if losses:
            sum(losses).backward()

    def clear(self):
        """No gradients, whatever zero_grad does."""
        self.optimizer.zero_grad()
        for parameter in self.parameters.values():
            parameter.grad = None

    def advance(self, steps, present=None, before=lambda step: None, micro_batches=1):
        """Take the steps with these numbers, `before(step)` before each; returns the parameters after each."""
        history = []
        for step in steps:
            before(step)
            self.clear()
            for micro_batch in range(micro_batches):
                self.backward(step, present, micro_batch)
            self.optimizer.step()
            history.append(values.copies(self.parameters))
        return history

    def visible(self):
        """What `param_groups` shows: of each group lr and the options that were given, and its parameters' names."""
        known = {id(parameter): name for name, parameter in self.parameters.items()}
        shown = []
        for group in self.optimizer.param_groups:
            options = {name: plain(group[name]) for name in ("lr", *self.options) if name in group}
            shown.append({"options": options, "names": [known.get(id(p), "another") for p in group["params"]]})
        return shown


def plain(option):
    return [plain(item) for item in option] if isinstance(option, (tuple, list)) else float(option)


# The runs


def alone(rank):
    in_parts.each(rank, PARTS)


def train(rank):
    in_parts.in_turn(rank, PARTS["train"])


def parts(rank):
    in_parts.in_turn(rank, PARTS["parts"])


# Values


class Tied(spies.FunctionalModel):
    """A model whose first and last weight are one parameter under two names."""

    def __init__(self, seed):
        super().__init__()
        for name, shape in MODEL.items():
            self.register_parameter(name, nn.Parameter(initial(seed, name, shape)))
        self.last = self.embedding

    @staticmethod
    def compute(tensors, inputs):
        """Shape (batch, 6)."""
        hidden = torch.tanh(inputs @ tensors["embedding"])
        hidden = torch.tanh(hidden @ tensors["weight"].T + tensors["bias"])
        return hidden @ tensors["weight"] @ tensors["embedding"].T


def loss_of(tensors, secret, step, device="cpu"):
    """The loss of the model with these tensors on a rank's batch of a step: 8 inputs and targets of shape (6,)."""
    inputs, targets = values.normal((2, 8, 6), secret, "batch", step).to(device)
    return (Tied.compute(tensors, inputs) - targets).square().mean()


def model(rank):
    """A model's parameters() and real backward passes, each rank on its own data."""
    case = rank.parameters["model"]
    trained = Tied(rank.seed).to(rank.device)
    optimizer = rank.student.Zero2Optimizer(trained.parameters(), torch.optim.SGD, **case["options"])
    rank.record("is_optimizer", isinstance(optimizer, torch.optim.Optimizer))
    history = []
    for step in range(case["steps"]):
        optimizer.zero_grad()
        trained.zero_grad()
        loss_of(trained.tensors(), rank.secret, step, rank.device).backward()
        optimizer.step()
        history.append(trained.state())
    rank.record("a model under SGD", history)


def sizes(rank):
    """Parameters that no number of ranks divides, and fewer elements than ranks; then large ones for their traffic."""
    case = rank.parameters["sizes"]
    for title, shapes in SIZES.items():
        rank.record(title, Training(rank, "SGD", case["options"], shapes).advance(range(case["steps"])))
    with rank.region("a step on odd sizes"):
        Training(rank, "SGD", {"lr": 0.1}, LARGE_ODD).advance([0])


def traffic(rank):
    """Two steps on large parameters; the second is looked at."""
    training = Training(rank, "SGD", {"lr": 0.1}, LARGE)
    training.advance([0])
    with rank.region("a step"):
        training.advance([1])


def kinds(rank):
    """Every kind of element-wise optimizer."""
    case = rank.parameters["kinds"]
    for title, (kind, options) in case["optimizers"].items():
        rank.record(title, Training(rank, kind, options).advance(range(case["steps"])))


def transposed(tensor):
    """The same values, but not contiguous."""
    return tensor.mT.contiguous().mT


def strides(rank):
    """Parameters that are not contiguous."""
    case = rank.parameters["sizes"]
    training = Training(rank, "SGD", case["options"], STRIDED, placed=transposed)
    rank.record("transposed parameters", training.advance(range(case["steps"])))


def dtypes(rank):
    """Parameters of several dtypes."""
    case = rank.parameters["sizes"]
    rank.record("several dtypes", Training(rank, "SGD", case["options"], DTYPES).advance(range(case["steps"])))


# Groups and options


UNSAID = ("SGD", "AdamW", "Adagrad")
"""Optimizers that are handed no learning rate."""


def shown_rate(rank, kind):
    """The learning rate that param_groups shows where none was given; None where there is none to be seen."""
    (group,) = Training(rank, kind, {}).optimizer.param_groups
    return values.number(group.get("lr"))


def groups(rank):
    """Groups with options of their own."""
    case = rank.parameters["groups"]
    training = Training(rank, "AdamW", case["options"], groups=case["groups"])
    rank.record("visible", training.visible())
    rank.record("visible beside a frozen one", Training(rank, "SGD", {}, frozen=["norm"]).visible()[0]["names"])
    rank.record("rates that nobody gave", [shown_rate(rank, kind) for kind in UNSAID])
    rank.record("several groups", training.advance(range(case["steps"])))


def schedules(rank):
    """Options that change from step to step: written by hand, and by a scheduler."""
    case = rank.parameters["schedules"]
    rank.record("options written into param_groups", changed_by_hand(Training(rank, "SGD", case["sgd"]), BY_HAND))
    training = Training(rank, "SGD", case["sgd"], groups=case["groups"])
    scheduler = LambdaLR(training.optimizer, [row.__getitem__ for row in FACTORS])
    steps = range(len(FACTORS[0]))
    rank.record("a LambdaLR", training.advance(steps, before=lambda step: step and scheduler.step()))
    rank.record("options of Adam written into param_groups", changed_by_hand(Training(rank, "Adam", {}), OF_ADAM))


def changed_by_hand(training, changes):
    def write(step):
        for group in training.optimizer.param_groups:
            group.update(changes[step])

    return training.advance(range(len(changes)), before=write)


def added(rank):
    """Groups that are added, two steps before each. Then other options are written into these."""
    case = rank.parameters["added"]
    first, *more = case["groups"]
    training = Training(rank, "SGD", case["options"], groups=[first])
    history = training.advance([0, 1])
    for number, group in enumerate(more, 1):
        training.optimizer.add_param_group(training.grouped(group))
        history += training.advance([2 * number, 2 * number + 1])
    rank.record("groups that are added", history)
    rank.record("visible after adding", training.visible())
    for group in training.optimizer.param_groups[1:]:
        group.update(case["changed"])
    rank.record("groups that were added and changed", training.advance([2 * len(case["groups"])]))
    rank.record("rates of added groups that nobody gave", [added_rate(rank, kind, case) for kind in UNSAID])


def added_rate(rank, kind, case):
    """The learning rate that param_groups shows of a group that was added, where none was given."""
    first, *_, last = case["groups"]
    training = Training(rank, kind, {}, groups=[{"names": first["names"]}])
    training.optimizer.add_param_group(training.grouped({"names": last["names"]}))
    return values.number(training.optimizer.param_groups[-1].get("lr"))


# Gradients


def absent(rank):
    """Parameters that no rank has a gradient for, in some steps; one is frozen."""
    case = rank.parameters["absent"]
    for title, (kind, options) in case["optimizers"].items():
        training = Training(rank, kind, options, frozen=[case["frozen"]])
        rank.record(f"nowhere, {title}", training.advance(range(case["steps"]), case["present"]))


def uneven(rank):
    """Parameters that some ranks have a gradient for. At first each rank has a single one, all of one size, so that
    ranks that do not agree still come to the end of the step."""
    case = rank.parameters["uneven"]
    rank.record("one gradient a rank", Training(rank, "SGD", case["first"]).advance([0], one_each()))
    for title, (kind, options) in case["optimizers"].items():
        rank.record(f"somewhere, {title}", Training(rank, kind, options).advance(range(case["steps"]), case["present"]))


def one_each():
    """The first rank has a gradient for the first of these parameters alone, and so on; nobody has others."""
    return {name: [[ONE_EACH.index(name)] if name in ONE_EACH else 0] for name in EVEN}


def accumulating(rank):
    """Two backward passes before each step."""
    case = rank.parameters["sizes"]
    rank.record("accumulated", Training(rank, "SGD", case["options"]).advance(range(case["steps"]), micro_batches=2))


def computed_again(steps):
    """A gradient for each parameter in each step, but for one in the last."""
    return {name: [1] * (steps - 1) + [int(name != "norm")] for name in EVEN}


def clearing(rank):
    """Gradients that zero_grad clears before others are computed, before and after a step. Once they become zeros, not
    None; in the last step those that are computed again lack one. The grader itself leaves `grad` alone here. Meanwhile
    another optimizer has gradients of its own, and steps after this one."""
    case = rank.parameters["sizes"]
    training, history = Training(rank, "SGD", case["options"]), []
    other, beside = Training(rank, "SGD", case["options"], MODEL), []
    for step in range(case["steps"]):
        training.backward(step, micro_batch=1)
        training.optimizer.zero_grad(set_to_none=step != 1)
        training.backward(step, computed_again(case["steps"]))
        other.backward(step)
        training.optimizer.step()
        training.optimizer.zero_grad()
        history.append(values.copies(training.parameters))
        other.optimizer.step()
        other.optimizer.zero_grad()
        beside.append(values.copies(other.parameters))
    rank.record("another optimizer beside it", beside)
    rank.record("cleared", history)


def closures(rank):
    """Steps with a closure, which alone makes the gradients; by position and by keyword. Then a step without."""
    case = rank.parameters["sizes"]
    training, calls, returned, made, history = Training(rank, "SGD", case["options"]), [], [], [], []

    def closure():
        calls[-1].append(torch.is_grad_enabled())
        with torch.enable_grad():
            training.clear()
            training.backward(len(calls) - 1)
        return torch.tensor(float(len(calls) + rank.rank))

    for number in range(case["steps"]):
        calls.append([])
        loss = training.optimizer.step(closure=closure) if number % 2 else training.optimizer.step(closure)
        returned.append(None if loss is None else values.number(loss))
        made.append(type(loss).__name__)
        history.append(values.copies(training.parameters))
    rank.record("calls", calls)
    rank.record("returned", returned)
    rank.record("types returned", made)
    rank.record("steps with a closure", history)
    training.clear()
    rank.record("nothing", type(training.optimizer.step()).__name__)


def lone(rank):
    """A first group with one scalar, of which some ranks may own nothing."""
    case = rank.parameters["lone"]
    training = Training(rank, "SGD", case["options"], {**MODEL, "scale": ()}, case["groups"])
    rank.record("a group with one scalar", training.advance(range(case["steps"])))


def coarse(rank):
    """Large parameters of two bytes an element, for their traffic."""
    training = Training(rank, "SGD", {"lr": 0.1}, LARGE_COARSE)
    with rank.region("a step on bfloat16"):
        training.advance([0])


PARTS = {
    "train": [model, traffic, sizes, coarse],
    "parts": [kinds, strides, dtypes, groups, schedules, added, absent, uneven, accumulating, clearing, closures, lone],
}
"""What the probe of each family does."""


# Memory


UNIT = 12 * 2**10
"""Elements. Parameters of the memory case are a few of these, so that anything kept in full stands out."""
SMALL = [[15] * 12, [15], [15], [15], [180]]
"""How many elements small parameters have, by group. Three ranks divide each; the last is more than a third of all."""
SMALL_TITLES = ("SGD", "Adam")
"""The optimizers that these are looked at with."""
ADDED_TO = "Adam"
"""The optimizer to which all groups but the first are added later; torch's own Adagrad makes no state for such."""


def memory(rank):
    """Each optimizer in a function of its own, so that none is kept alive while the next is measured."""
    disregard_existing()
    for title, (kind, options) in rank.parameters["optimizers"].items():
        measure(rank, title, kind, options)


def measure(rank, title, kind, options):
    """What the process keeps alive because of the optimizer: after two steps, and once zero_grad was called. Of each
    step, what is left of the gradients; and some of the values in the end, so that who trains otherwise where memory is
    measured is found. At first the same with small parameters, of which the bytes of all tensors are counted: malloc
    and Python take far more than these for each."""

    def stepped(sizes, place, name=None):
        groups = [{"params": group} for group in initials(rank, sizes, place)]
        parameters = [parameter for group in groups for parameter in group["params"]]
        gc.collect()
        before = Meter(rank, name) if name else storages()
        first = 1 if title == ADDED_TO else len(groups)
        optimizer = rank.student.Zero2Optimizer(groups[:first], getattr(torch.optim, kind), **options)
        for group in groups[first:]:
            optimizer.add_param_group(group)
        for unused in range(2):  # in the second step one parameter has no gradient
            optimizer.zero_grad()
            backward_drawn(rank, parameters, place, unused)
            optimizer.step()
            left.append(gradient_elements(parameters))
        if name or title in SMALL_TITLES:
            rank.record(f"{place}: values", samples.sample(rank.secret, place, parameters))
        return parameters, before, optimizer

    left = []
    parameters, before, optimizer = stepped(SMALL, f"{title}, small")  # and warm up
    cleared(optimizer, parameters)
    if title in SMALL_TITLES:  # the fewest of two looks, as a backend lets go of a buffer some time after its end
        fewest = min(settled(rank)["storages"] for _ in range(2))
        rank.record(f"{title}: small", {"gradients": left[:], "bytes": fewest - before})
    left.clear()
    parameters, meter, optimizer = stepped(lengths(rank.world_size), title, title)
    rank.record(*meter.growth("after a step"))
    rank.record(f"{title}: gradient elements", left)
    cleared(optimizer, parameters)
    rank.record(*meter.growth("between steps"))


def cleared(optimizer, parameters):
    optimizer.zero_grad()
    for parameter in parameters:
        parameter.grad = None


def lengths(world_size):
    """How many elements each parameter of the memory case has, by group. The three ranks divide none."""
    return [[UNIT * size + 4 for size in group] for group in layout(world_size)[:-1]]


def initials(rank, sizes, place):
    """Groups of parameters of so many elements each, the same on all ranks. Every second one is a matrix."""
    parts = samples.drawn([size for group in sizes for size in group], rank.seed, place, "initial")
    shapes = [
        [(size // 4, 4) if number % 2 and not size % 4 else (size,) for number, size in enumerate(group)]
        for group in sizes
    ]
    return [[nn.Parameter(next(parts).clone().view(shape).to(rank.device)) for shape in group] for group in shapes]


def backward_drawn(rank, parameters, place, step):
    """A backward pass that gives each parameter, but for the first so many ones, a gradient of this rank's own with a
    storage of its own. Nothing else of what it makes is alive afterwards."""
    parts = samples.drawn([parameter.numel() for parameter in parameters], rank.secret, place, "gradient", step)
    pairs = [(p, part.view(p.shape).to(p.device)) for p, part in zip(parameters, parts, strict=True)]
    sum((p * part).sum() for p, part in pairs[step:]).backward()


def gradient_elements(parameters):
    """In the storages of all gradients, each counted once."""
    storages = [parameter.grad.untyped_storage() for parameter in parameters if parameter.grad is not None]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values()) // 4
