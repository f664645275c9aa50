"""Runs in every rank: trains a few parameters with the student's ShardedOptimizer and records their values.

Parameters and gradients are pure functions of the seed and float64, the same on all ranks; only the memory case is
float32, and of its values each rank is asked for some, at places of its own. Nothing here knows an expected value.
"""

import io
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR, StepLR

from grader.kit import samples, spies, values
from grader.kit.memory import Meter, disregard_existing, layout, settled

SHAPES = {"embedding": (7, 4), "weight": (5, 4), "bias": (5,), "norm": (4,), "head": (3, 5), "scale": ()}
"""The parameters that most cases train. Most names are names only, with no model behind them."""
MODEL = ("embedding", "weight", "bias")
"""Those of the model."""
FACTORS = ((1.0, 0.5, 0.1, 0.7), (0.3, 2.0, 1.0, 0.2))
"""What LambdaLR multiplies the learning rate with: one row a group, one number a step."""
BY_HAND = (
    {"lr": 0.15}, {"lr": 0.2, "momentum": 0.5}, {"weight_decay": 0.3}, {"lr": 0.03, "momentum": 0.95},
    {"dampening": 0.6}, {"maximize": True},
)  # fmt: skip
"""What is written into every group before each step."""
OF_ADAM = ({"betas": (0.9, 0.99)}, {"betas": (0.5, 0.9)}, {"betas": (0.7, 0.8)}, {"eps": 0.5})
"""The same for Adam, the momentum of which schedulers turn."""
ONE_CYCLE = {"max_lr": 0.3, "total_steps": 5}
"""What OneCycleLR is called with, which turns the momentum as well."""


def initial(seed, name):
    """The value of a parameter before the first step, float64."""
    return values.normal(SHAPES[name], seed, "initial", name)


def model_initial(seed, name):
    """That of a model's parameter. Values no larger than what a step changes: where a rank adds a difference to the old
    value in place of taking over the new one, some of the many sums are rounded, and the bits are others."""
    return initial(seed, name) / 50


def gradient(seed, step, name):
    return values.normal(SHAPES[name], seed, "gradient", step, name)


def gradient_that(there, seed, step, name):
    """The gradient of a step where `there` is 1, one of zeros where it is "zeros", and None where it is 0."""
    if there == "zeros":
        return torch.zeros(SHAPES[name], dtype=torch.float64)
    return gradient(seed, step, name) if there else None


def keywords(options):
    """Options as an optimizer wants them; JSON has no tuples."""
    return {name: tuple(option) if isinstance(option, list) else option for name, option in options.items()}


class Training:
    """Named parameters under a ShardedOptimizer. `groups` are the manifest's; without any the optimizer is handed what
    `hand` makes of all parameters."""

    def __init__(self, rank, kind, options, groups=None, names=tuple(SHAPES), hand=iter, frozen=()):
        self.rank, self.options = rank, options
        self.parameters = {name: nn.Parameter(initial(rank.seed, name).to(rank.device)) for name in names}
        for name in frozen:
            self.parameters[name].requires_grad_(False)
        params = self.grouped(groups) if groups else hand(self.parameters.values())
        with handing(groups or []):
            self.begin(kind, options, params)

    def begin(self, kind, options, params=None):
        """A new optimizer, over what the last one had unless it is told."""
        params = list(self.parameters.values()) if params is None else params
        self.optimizer = self.rank.student.ShardedOptimizer(params, getattr(torch.optim, kind), **keywords(options))

    def grouped(self, groups):
        """The manifest's groups ({"names": [...], options}) as an optimizer takes them: with a list; with a generator
        where one is `lazy`, as `module.parameters()` gives; with a bare parameter where there is a name and no list."""
        made = []
        for group in groups:
            names, lazy = group["names"], group.get("lazy")
            chosen = self.parameters[names] if isinstance(names, str) else (self.parameters[name] for name in names)
            options = {name: option for name, option in group.items() if name not in ("names", "lazy")}
            made.append({"params": chosen if lazy or isinstance(names, str) else list(chosen), **keywords(options)})
        return made

    def add(self, group):
        with handing([group]):
            self.optimizer.add_param_group(*self.grouped([group]))

    def give_gradients(self, step, present=None):
        """Set the gradients of a step, to what `present` (name -> what `gradient_that` takes for each step) says. What
        is frozen is so until its first gradient."""
        for name, parameter in self.parameters.items():
            there = present is None or present[name][step]
            parameter.requires_grad_(parameter.requires_grad or bool(there))
            given = gradient_that(there, self.rank.seed, step, name)
            parameter.grad = None if given is None else given.to(self.rank.device)

    def advance(self, steps, present=None, before=lambda step: None):
        """Take the steps with these numbers, `before(step)` before each; returns the parameters after each."""
        history = []
        for step in steps:
            before(step)
            self.give_gradients(step, present)
            self.optimizer.step()
            history.append(values.copies(self.parameters))
        return history

    def again(self):
        """One more step with the gradients that are there; returns the parameters after it, as `advance` does. Nothing
        with Nesterov momentum, for which torch's own SGD writes into the gradients where they are on a GPU."""
        if self.options.get("nesterov"):
            return []
        self.optimizer.step()
        return [values.copies(self.parameters)]

    def visible(self):
        """What `param_groups` shows: of each group lr and the options that were given, and its parameters' names."""
        known = {id(parameter): name for name, parameter in self.parameters.items()}
        shown = []
        for group in self.optimizer.param_groups:
            options = {name: plain(group[name]) for name in ("lr", *self.options) if name in group}
            shown.append({"options": options, "parameters": [known.get(id(p), "another") for p in group["params"]]})
        return shown

    def uncleared(self, *frozen):
        """The names of the parameters that have a gradient other than zero after zero_grad. Some are frozen when they
        have it."""
        self.give_gradients(0)
        for name in frozen:
            self.parameters[name].requires_grad_(False)
        self.optimizer.zero_grad()
        return [name for name, p in self.parameters.items() if p.grad is not None and p.grad.count_nonzero()]


@contextmanager
def handing(groups):
    """What is raised inside says in which form the parameters of the groups were handed in."""
    forms = [
        "a bare Parameter" if isinstance(g["names"], str) else ("a list", "a generator")["lazy" in g] for g in groups
    ]
    try:
        yield
    except Exception as error:
        if forms:
            error.add_note(f'"params" was {", ".join(forms)}')
        raise


def plain(option):
    return [plain(item) for item in option] if isinstance(option, (tuple, list)) else float(option)


def trainings(rank, case, groups=None, **how):
    """(title, training) for each optimizer of the case, one after the other."""
    for title, (kind, options) in case["optimizers"].items():
        yield title, Training(rank, kind, options, groups, **how)


# On one rank, and on several


def alone(rank):
    """Every part on one rank, whatever becomes of the parts before it: there nobody waits for others."""
    for name, parts in PARTS.items():
        for part in parts:
            outcome = rank.attempt(part, rank, rank.parameters[name])
            rank.record(f"{part.__name__} alone", outcome.described())


def on_several(rank, name):
    """The parts of a family, one after the other."""
    for part in PARTS[name]:
        part(rank, rank.parameters)


def train(rank):
    on_several(rank, "train")


def optimizers(rank):
    on_several(rank, "optimizers")


def options(rank):
    on_several(rank, "options")


def gradless(rank):
    on_several(rank, "gradless")


def late(rank):
    on_several(rank, "late")


def calls(rank):
    on_several(rank, "calls")


def resume(rank):
    on_several(rank, "resume")


# A drop-in for a real model


class Tied(spies.FunctionalModel):
    """A model whose first and last weight are one parameter under two names."""

    def __init__(self, seed):
        super().__init__()
        for name in MODEL:
            self.register_parameter(name, nn.Parameter(model_initial(seed, name)))
        self.last = self.embedding

    @staticmethod
    def compute(tensors, inputs):
        """Shape (batch, 7)."""
        hidden = torch.tanh(inputs @ tensors["embedding"])
        hidden = torch.tanh(hidden @ tensors["weight"].T + tensors["bias"])
        return hidden @ tensors["weight"] @ tensors["embedding"].T


def loss_of(tensors, seed, step, device="cpu"):
    """The loss of the model with these tensors on the batch of a step: 8 inputs and targets of shape (7,)."""
    inputs, targets = values.normal((2, 8, 7), seed, "batch", step).to(device)
    return (Tied.compute(tensors, inputs) - targets).square().mean()


def model_under_adamw(rank, case):
    """The drop-in: a model's parameters(), real backward passes on the same data everywhere."""
    model, options = Tied(rank.seed).to(rank.device), keywords(case["options"])
    optimizer = rank.student.ShardedOptimizer(model.parameters(), torch.optim.AdamW, **options)
    rank.record("is_optimizer", isinstance(optimizer, torch.optim.Optimizer))
    history = []
    for step in range(case["steps"]):
        model.zero_grad()
        loss_of(model.tensors(), rank.seed, step, rank.device).backward()
        optimizer.step()
        history.append(model.state())
    rank.record("a model under AdamW", history)
    rank.record("tied", bool(model.last.equal(model.embedding)))


# Options, groups, gradients


def kinds(rank, case):
    """Every kind of element-wise optimizer. One list of parameters, no groups. Then another optimizer goes on with the
    parameters of the last."""
    for title, training in trainings(rank, case, hand=list):
        rank.record(title, training.advance(range(case["steps"])) + training.again())
    training.begin(*case["then"])
    rank.record("an optimizer after another", training.advance(range(case["steps"])))


def several_groups(rank, case):
    """Groups with options of their own."""
    training = Training(rank, "AdamW", case["options"], case["groups"])
    rank.record("visible", training.visible())
    rank.record("several groups", training.advance(range(case["steps"])))


def changing_options(rank, case):
    """Options that change from step to step."""
    rank.record("options written into param_groups", changed_by_hand(Training(rank, "SGD", case["sgd"]), BY_HAND))
    training = Training(rank, "SGD", case["sgd"], case["two groups"])
    scheduler = LambdaLR(training.optimizer, [row.__getitem__ for row in FACTORS])
    rank.record("a LambdaLR with two groups", scheduled(training, scheduler, len(FACTORS[0])))
    training = Training(rank, "Adam", {})
    scheduler = StepLR(training.optimizer, step_size=2, gamma=0.1)
    rank.record("a StepLR with Adam's own learning rate", scheduled(training, scheduler, 5))
    training = Training(rank, "SGD", case["sgd"])
    history = training.advance(range(2))
    scheduler = StepLR(training.optimizer, step_size=1, gamma=0.5)
    rank.record("a StepLR from the third step on", history + scheduled(training, scheduler, 5, first=2))
    rank.record("options of Adam written into param_groups", changed_by_hand(Training(rank, "Adam", {}), OF_ADAM))
    training = Training(rank, "SGD", case["sgd"])
    scheduler = OneCycleLR(training.optimizer, **ONE_CYCLE)
    rank.record("a OneCycleLR", scheduled(training, scheduler, ONE_CYCLE["total_steps"]))


def changed_by_hand(training, changes):
    def write(step):
        for group in training.optimizer.param_groups:
            group.update(changes[step])

    return training.advance(range(len(changes)), before=write)


def scheduled(training, scheduler, steps, first=0):
    return training.advance(range(first, steps), before=lambda step: step > first and scheduler.step())


def now_and_then(rank, case):
    """Parameters that have a gradient in some steps only. One is frozen until its first gradient."""
    present = case["present"]
    for title, training in trainings(rank, case, frozen=[case["frozen"]]):
        rank.record(f"gradients now and then, {title}", training.advance(range(len(present["head"])), present))


def added_groups(rank, case):
    """Groups that are added before the first step and between steps."""
    first, *more = case["groups"]
    for title, training in trainings(rank, case, [first]):
        history = []
        for number, group in enumerate(more):
            training.add(group)
            history += training.advance([2 * number, 2 * number + 1])
        rank.record(f"groups added, {title}", history)
        rank.record(f"{title}: visible", training.visible())
        for group in training.optimizer.param_groups[1:]:
            group.update(case["changed"])
        rank.record(f"groups added and changed, {title}", training.advance([2 * len(more)]))
        rank.record(f"{title}: uncleared", training.uncleared())


# Calls


def clearing(rank, case):
    """zero_grad before the first step and after one; then some parameters with a gradient are frozen."""
    training = Training(rank, "SGD", case["options"], case["groups"])
    before = training.uncleared()
    training.advance([0])
    rank.record("uncleared", {"before the first step": before, "after a step": training.uncleared(*case["frozen"])})


def few(rank, case):
    """Fewer parameters than ranks, some of which own nothing."""
    for title, names in case["sets"].items():
        rank.record(title, Training(rank, "AdamW", case["adamw"], names=names).advance(range(case["steps"])))


def few_loaded(rank, case):
    """The same, saved and loaded: a rank that owns nothing has no state."""
    for title, names in case["sets"].items():
        first, fresh = (Training(rank, "AdamW", case["adamw"], names=names) for _ in range(2))
        history, saved = first.advance([0]), packed(first.optimizer)
        history += restored(fresh, values.copies(first.parameters), saved, [1])
        rank.record(f"{title}, saved and loaded", history)


def objective(seed, tensors, step):
    """A loss, and its gradients in closed form: those of gradient() times (1 + the parameter)."""
    return sum((gradient(seed, step, name).to(t.device) * (t + t.square() / 2)).sum() for name, t in tensors.items())


def closures(rank, case):
    """Steps with a closure, which alone makes the gradients; by position, and by keyword where the caller has switched
    gradients off. Then a step with a loss of zero, and one without a closure."""
    training = Training(rank, "SGD", case["options"], names=case["names"])
    optimizer, calls, losses, history = training.optimizer, [], [], []

    def closure():
        calls[-1].append(torch.is_grad_enabled())
        with torch.enable_grad():
            for parameter in training.parameters.values():
                parameter.grad = None
            loss = objective(rank.seed, training.parameters, len(calls) - 1)
            loss.backward()
        return loss + rank.rank  # each rank has a loss of its own

    for number in range(case["steps"]):
        calls.append([])
        with torch.set_grad_enabled(not number % 2):
            losses.append(optimizer.step(closure=closure) if number % 2 else optimizer.step(closure))
        history.append(values.copies(training.parameters))
    losses.append(optimizer.step(lambda: torch.zeros((), device=rank.device)))
    returned = [None if loss is None else float(torch.as_tensor(loss).detach()) for loss in losses]
    rank.record("calls", calls)
    rank.record("returned", returned)
    rank.record("steps with a closure", history)
    rank.record("nothing", type(optimizer.step()).__name__)


# Saving and loading


def saving(rank, case):
    """Save before the first step and in the middle, where options have changed since the last step; then the first
    optimizer goes on, a fresh one goes on, and the first one goes back."""
    groups, steps = case["groups"], range(case["steps"])
    early, rest = steps[: case["half"]], steps[case["half"] :]
    for title, (kind, options) in case["optimizers"].items():
        first = Training(rank, kind, options, groups)
        saved, model = packed(first.optimizer), values.copies(first.parameters)
        fresh = Training(rank, kind, {**options, "lr": 7.0}, groups)
        history = restored(fresh, model, saved, early, before=halver(fresh))
        rank.record(f"{title}, saved and loaded before the first step", history)
        history = first.advance(early, before=halver(first))
        write_others(first)
        saved, model = packed(first.optimizer), values.copies(first.parameters)
        rank.record(f"{title}, saved in the middle", history + first.advance(rest, before=halver(first)))
        fresh = Training(rank, kind, {**options, "lr": 7.0}, groups)
        rank.record(f"{title}, loaded into a new optimizer", restored(fresh, model, saved, rest))
        rank.record(f"{title}, gone back to what was saved", restored(first, model, saved, rest))


def saving_added(rank, case):
    """A group that is added after loading, and loading what was saved with it; then other learning rates. What is
    saved first lacks the state of a parameter that was frozen. Where it is loaded, nothing is frozen any more."""
    first, added = case["groups"]
    present = {name: [name != case["later"]] for name in SHAPES}
    for title, training in trainings(rank, case, [first], frozen=[case["later"]]):
        history = training.advance([0], present)
        loaded = Training(rank, *case["optimizers"][title], [first])
        saved = packed(training.optimizer)
        outcome = rank.attempt(restored, loaded, values.copies(training.parameters), saved, [])
        rank.record(f"{title}: loaded", outcome.described())
        if outcome.error is not None:
            raise outcome.error
        loaded.add(added)
        history += loaded.advance([1, 2])
        fresh = Training(rank, *case["optimizers"][title], [first])
        fresh.add(added)
        history += restored(fresh, values.copies(loaded.parameters), packed(loaded.optimizer), [3])
        for group in fresh.optimizer.param_groups:
            group["lr"] = group["lr"] / 2
        rank.record(f"{title}, saved with a group that was added", history + fresh.advance([4]))
        rank.record(f"{title}, loaded: uncleared", fresh.uncleared())


def halver(training):
    """Halves every learning rate before step 1, so that the options to save are not those of the constructor."""

    def halve(step):
        for group in training.optimizer.param_groups:
            group["lr"] = group["lr"] / 2 if step == 1 else group["lr"]

    return halve


def write_others(training):
    """Other options in every group, as a scheduler leaves them that is called after a step."""
    for group in training.optimizer.param_groups:
        group.update(lr=group["lr"] / 2, weight_decay=group["weight_decay"] + 0.1)


def packed(optimizer):
    """The bytes of a checkpoint file. A copy: what torch.optim returns refers to the living state."""
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    return file.getvalue()


def load(optimizer, saved):
    optimizer.load_state_dict(torch.load(io.BytesIO(saved), weights_only=False))


def restored(training, model, saved, steps, **how):
    """Load the model's values, then the optimizer's state, as one resumes; and train on."""
    with torch.no_grad():
        for name, parameter in training.parameters.items():
            parameter.copy_(model[name])
    load(training.optimizer, saved)
    return training.advance(steps, **how)


PARTS = {
    "train": [model_under_adamw],
    "optimizers": [kinds],
    "options": [several_groups, changing_options],
    "gradless": [now_and_then],
    "late": [added_groups],
    "calls": [clearing, few, closures, few_loaded],
    "resume": [saving, saving_added],
}
"""What the probe of each family but the last does."""


# Memory


UNIT = 2**14
"""Elements. Parameters of the memory case are a few of these, so that anything kept in full stands out."""
SMALL = [[120] * 12, *[[120]] * 6]
"""How many elements the parameters of `small` have, by group; all but the first are added later. Two, three and four
ranks divide each."""


def memory(rank):
    """Each optimizer in a function of its own, so that none is kept alive while the next is measured."""
    disregard_existing()
    for title, (kind, options) in rank.parameters["optimizers"].items():
        measure(rank, title, kind, options)
    small(rank)


def measure(rank, title, kind, options):
    """What the process keeps alive because of the optimizer: after two steps, after another group was added, and after
    loading its own state. The second for Adam alone: torch's own Adagrad makes no state for such a group, and
    before 2.13 cannot train it, so with Adagrad it is added after loading, and has no gradient. Then one more step.
    Some values of what was trained are recorded, so that who trains otherwise where memory is measured is found."""

    def built(groups, name):
        made = [{"params": list(group)} for group in groups]
        optimizer = rank.student.ShardedOptimizer(made, getattr(torch.optim, kind), **options)
        return stepped(rank, optimizer, groups, name, range(2))

    groups = parameters(rank, layout(rank.world_size), UNIT, title)
    name = f"{title}: warm up"
    rank.attempt(reload, built(parameters(rank, [[1] * 4, [1]], 1, name), name))
    meter = Meter(rank, title)
    there = groups[:-1]
    optimizer = built(there, title)
    rank.record(f"{title}: values after steps", sampled(rank, there, title))
    rank.record(*meter.growth("after steps"))
    if title == "Adam":
        there = groups
        optimizer.add_param_group({"params": groups[-1]})
        stepped(rank, optimizer, there, title, [2])
        rank.record(f"{title}: values after adding", sampled(rank, there, title))
        rank.record(*meter.growth("after adding"))
    if rank.attempt(reload, optimizer).error is not None:  # round_trip says so
        return
    rank.record(*meter.growth("after loading"))
    if title == "Adagrad":
        if rank.attempt(optimizer.add_param_group, {"params": groups[-1]}).error is not None:
            return
        rank.record(*meter.growth("with a group that has no gradient yet"))
    outcome = rank.attempt(stepped, rank, optimizer, there, title, [3])
    rank.record(f"{title}: a step after loading", outcome.described())
    rank.record(f"{title}: values after loading", sampled(rank, groups, title))


def small(rank):
    """Some small parameters, then one group after another, before each of which the optimizer loads its own state.
    Recorded are the bytes of all tensors that there are more than before: malloc and Python take far more than these
    for each of them; and some values of what was trained."""
    first, *later = parameters(rank, SMALL, 1, "small")
    for parameter in (one for group in (first, *later) for one in group):  # each has had an optimizer of its own
        rank.student.ShardedOptimizer([parameter], torch.optim.SGD, lr=0.01)
    before = settled(rank)["storages"]  # the last steps' collectives may hold tensors for some time
    optimizer = rank.student.ShardedOptimizer([{"params": list(first)}], torch.optim.SGD, lr=0.01, momentum=0.9)
    groups = [first]
    stepped(rank, optimizer, groups, "small", [0])
    for step, group in enumerate(later, start=1):
        if rank.attempt(reload, optimizer).error is not None:  # round_trip says so
            return
        optimizer.add_param_group({"params": group})
        groups.append(group)
        stepped(rank, optimizer, groups, "small", [step])
    rank.record("small: values", sampled(rank, groups, "small"))
    # the fewest of two looks, as a backend lets go of a buffer some time after its end
    rank.record("small: bytes of tensors", min(settled(rank)["storages"] for _ in range(2)) - before)


def parameters(rank, sizes, unit, title):
    """Groups of so many units each. About half of them are matrices."""
    parts = samples.drawn([size * unit for group in sizes for size in group], rank.seed, title, "initial")
    shapes = [
        [
            (size * unit // 2, 2) if (number + place) % 2 and unit % 2 == 0 else (size * unit,)
            for place, size in enumerate(group)
        ]
        for number, group in enumerate(sizes)
    ]
    return [[nn.Parameter(next(parts).clone().view(shape).to(rank.device)) for shape in group] for group in shapes]


def stepped(rank, optimizer, groups, title, steps):
    """The optimizer after the steps with these numbers; no gradient is left."""
    every = [parameter for group in groups for parameter in group]
    for step in steps:
        give_drawn(rank, every, title, step)
        optimizer.step()
    optimizer.zero_grad()
    for parameter in every:
        parameter.grad = None
    return optimizer


def give_drawn(rank, every, title, step):
    """A function of its own, so that nothing of what was drawn is alive during the step but the gradients."""
    parts = samples.drawn([parameter.numel() for parameter in every], rank.seed, title, "gradient", step)
    for parameter, part in zip(every, parts, strict=True):
        parameter.grad = part.clone().view(parameter.shape).to(rank.device)


def sampled(rank, groups, title):
    """What the rank is asked for, one parameter after the other."""
    return samples.sample(rank.secret, title, [parameter for group in groups for parameter in group])


def reload(optimizer):
    load(optimizer, packed(optimizer))
