"""Runs in one rank: asks for scaled rates, and trains under the student's scheduler. Nothing here knows what is right.

At which rate a step was taken is seen by what it did: parameters begin each step at 0 and have gradients of 1, so plain
SGD moves them by minus the rate, and so do Adam, Adamax and an RMSprop without a memory, with ε = 0, and SGD whose
momentum is dampened as much.
"""

import copy
import io

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from grader.kit.values import kind_of, number, random_for

# -- linear_scaled_lr -------------------------------------------------------------------------------------------------


def multiples(secret):
    """Arguments of linear_scaled_lr, the batch some times as large as the recipe's; the last rate is a tiny one."""
    draw = random_for(secret, "multiples")
    bases = [draw.choice([1, 32, 96, 256, 1000]) for _ in range(8)]
    rates = [*(draw.uniform(1e-4, 2.0) for _ in bases[1:]), draw.uniform(1e-12, 1e-11)]
    return [(rate, base, base * draw.randrange(2, 200)) for rate, base in zip(rates, bases, strict=True)]


def fractions(secret):
    """The same for batches that are smaller than the recipe's, equal, and no multiple of it."""
    draw = random_for(secret, "fractions")
    drawn = [(draw.randrange(200, 1000), draw.randrange(3, 190)) for _ in range(6)]
    pairs = [*drawn, *((small, large) for large, small in drawn if large % small), (256, 256), (8192, 1), (3, 2)]
    return [(draw.uniform(1e-4, 2.0), *pair) for pair in pairs]


def impossible(secret):
    """Arguments of which one is not positive."""
    draw = random_for(secret, "impossible")
    rate, base, batch = draw.uniform(0.01, 1.0), draw.randrange(2, 512), draw.randrange(2, 512)
    wrong = [(0.0, base, batch), (-rate, base, batch), (rate, 0, batch), (rate, -base, batch)]
    pairs = [(-rate, base, -batch), (-rate, -base, batch), (rate, -base, -batch)]  # whose quotient is positive
    return [*wrong, (rate, base, 0), (rate, base, -batch), *pairs]


WHOLE = [(1, 256, 1024), (2, 32, 32), (1, 8, 4)]
"""Arguments without a fractional part."""


def scale(rank):
    for name, drawn in (("multiples", multiples), ("fractions", fractions), ("impossible", impossible)):
        rank.record(name, [asked(rank, arguments) for arguments in drawn(rank.secret)])
    rank.record("whole", [asked(rank, arguments) for arguments in WHOLE])


def asked(rank, arguments):
    """What linear_scaled_lr returned, and of which type."""
    outcome = rank.attempt(rank.student.linear_scaled_lr, *arguments)
    return {"outcome": outcome.described(), "value": number(outcome.value), "type": kind_of(outcome.value)}


# -- warmup_scheduler -------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": lambda groups, lr: torch.optim.SGD(groups, lr=lr),
    "momentum": lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.75, dampening=0.75),
    "AdamW": lambda groups, lr: torch.optim.AdamW(groups, lr=lr, eps=0.0, weight_decay=0.0),
    "RMSprop, rates in tensors": lambda groups, lr: torch.optim.RMSprop(tensors(groups, lr), lr, alpha=0.0, eps=0.0),
    "Adamax": lambda groups, lr: torch.optim.Adamax(groups, lr=lr, eps=0.0),
}

AFTER, LONG_AFTER = 5, 500
"""Steps that are taken after the warm-up; the second in one training."""


def tensors(groups, lr):
    """The groups, each with a tensor for its rate."""
    return [{**group, "lr": tensor(group.get("lr", lr))} for group in groups]


def single(secret):
    """(rate, warm-up steps) of trainings with one group of parameters; the last is a long one towards a low rate."""
    draw = random_for(secret, "single")
    short = [(draw.uniform(0.01, 2.0), steps) for steps in (2, draw.randrange(5, 12, 2))]
    return [*short, (10 ** draw.uniform(-6, -4), draw.randrange(150, 300))]


def several(secret):
    """Groups as an optimizer is handed them: rates, of which None is the optimizer's own; how many are added later; the
    optimizer's own rate; warm-up steps."""
    draw = random_for(secret, "several")
    rates = [draw.uniform(0.5, 1.0), draw.uniform(0.01, 0.1), None, draw.uniform(1.5, 3.0), None]
    return {"rates": rates, "late": 2, "lr": draw.uniform(0.2, 0.4), "warmup": draw.randrange(4, 9)}


def own_rates(groups):
    """Each group's own rate."""
    return [groups["lr"] if rate is None else rate for rate in groups["rates"]]


def stops(secret):
    """After how many steps a training is stopped and resumed: before its first, in the warm-up, at its end, later."""
    warmup = several(secret)["warmup"]
    return [0, random_for(secret, "stops").randrange(1, warmup - 1), warmup - 1, warmup, warmup + 2]


class Training:
    """Parameters in groups under an optimizer and, once `begin` was called, under the student's scheduler."""

    def __init__(self, rank, groups, optimizer="SGD", factor=1.0):
        self.rank, self.warmup = rank, groups["warmup"]
        zeros = torch.zeros(2, dtype=torch.float64, device=rank.device)
        self.parameters = [nn.Parameter(zeros.clone()) for _ in groups["rates"]]
        handed = [
            {"params": [parameter]} | ({} if rate is None else {"lr": factor * rate})
            for parameter, rate in zip(self.parameters, groups["rates"], strict=True)
        ]
        first = len(handed) - groups["late"]
        self.optimizer = OPTIMIZERS[optimizer](handed[:first], factor * groups["lr"])
        for group in handed[first:]:
            self.optimizer.add_param_group(group)
        self.options = self.other_options()

    def other_options(self):
        """What the groups say beside the rate, in words."""
        rate = ("params", "lr", "initial_lr")
        return [{name: repr(value) for name, value in group.items() if name not in rate} for group in self.groups()]

    def groups(self):
        return self.optimizer.param_groups

    def changed(self):
        """Which of the options that the groups had at first are other ones now."""
        pairs = zip(self.options, self.other_options(), strict=False)
        return sorted({name for before, now in pairs for name in before if now.get(name) != before[name]})

    def begin(self):
        self.gradients_of_one()
        self.scheduler = self.rank.student.warmup_scheduler(self.optimizer, self.warmup)
        return self

    def moved(self):
        """`params`, if a parameter is not at 0."""
        return {"params" for parameter in self.parameters if parameter.any()}

    def gradients_of_one(self):
        for parameter in self.parameters:
            parameter.grad = torch.ones_like(parameter)

    def step(self):
        """One optimizer step and one of the scheduler; at which rate each group took it."""
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.zero_()
        self.gradients_of_one()
        self.optimizer.step()
        self.scheduler.step()
        return [-float(parameter.detach()[0]) for parameter in self.parameters]

    def advance(self, steps):
        return [self.step() for _ in range(steps)]

    def state(self):
        return {"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict()}

    def load(self, state, order):
        for name in order:
            getattr(self, name).load_state_dict(state[name])
        return self


def one_group(rate, warmup):
    return {"rates": [None], "late": 0, "lr": rate, "warmup": warmup}


def tensor(rates):
    """Rates by step and group, float64."""
    return torch.tensor(rates, dtype=torch.float64)


def trained(rank, groups, optimizer="SGD", after=AFTER):
    """An undisturbed training."""
    return tensor(Training(rank, groups, optimizer).begin().advance(groups["warmup"] + after))


def options_changed(rank, groups):
    """By optimizer, which of its groups' options are not as they were, at some step of a training, and whether the
    parameters moved before it."""
    found = {}
    for kind in OPTIMIZERS:
        training = Training(rank, groups, kind).begin()
        names = training.moved()
        for _ in range(groups["warmup"] + AFTER):
            names.update(training.changed())
            training.step()
        found[kind] = sorted(names.union(training.changed()))
    return found


LATE = 2
"""The third of three trainings at once begins after so many steps of the others."""


def at_once(secret):
    """(rate, warm-up steps) of three trainings at once. The last two have as long a warm-up."""
    (rate, warmup), (other, longer), _ = single(secret)
    return [(rate, warmup), (other, longer), (rate, longer)]


def side_by_side(rank, pairs):
    """Trainings at once, step by step in turn; what was made first is the first to go on."""
    early, late = [Training(rank, one_group(*pair)) for pair in pairs[:2]], Training(rank, one_group(*pairs[2]))
    for training in early:
        training.begin()
    rates, steps = [[], [], []], max(warmup for _, warmup in pairs) + AFTER
    for turn in range(LATE + steps):
        if turn == LATE:
            late.begin()
        for place, training in enumerate([*early, late]):
            if turn >= LATE if training is late else turn < steps:
                rates[place] += training.step()
    return tensor(rates).t()


def from_one_state(rank, groups):
    """Two trainings that have loaded one state: the rates that one's scheduler reports when the other has gone on, and
    those at which it takes its next step."""
    before = Training(rank, groups, "AdamW").begin()
    before.advance(1)
    state, order = copy.deepcopy(before.state()), FIRST["the optimizer first"]
    one, other = (Training(rank, groups, "AdamW").begin().load(state, order) for _ in range(2))
    one.advance(1)
    other.advance(2)
    return tensor([[float(rate) for rate in one.scheduler.get_last_lr()], one.step()])


def reported(rank, groups):
    """The rates that the scheduler reports before each step, and those at which it is taken."""
    training, seen = Training(rank, groups).begin(), []
    for _ in range(groups["warmup"] + AFTER):
        last = [float(rate) for rate in training.scheduler.get_last_lr()]
        seen.append([last, training.step()])
    return tensor(seen)


def resumed(rank, groups, order, factor=1.0, through=copy.deepcopy):
    """A training that is stopped some times, and goes on with a new optimizer and a new scheduler each time, at the
    second try: the first one, from the same state, breaks off after a step. `factor` is that of the rates with which
    the new optimizer is made."""
    training, rates, done = Training(rank, groups, "AdamW").begin(), [], 0
    for stop in stops(rank.secret):
        rates += training.advance(stop - done)
        state, done = through(training.state()), stop
        for steps in (1, 0):
            training = Training(rank, groups, "AdamW", factor).begin().load(state, order)
            training.advance(steps)
    return tensor(rates + training.advance(groups["warmup"] + AFTER - done))


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


FIRST = {"the optimizer first": ["optimizer", "scheduler"], "the scheduler first": ["scheduler", "optimizer"]}


def schedule(rank):
    def tried(name, function, *args, **fields):
        outcome = rank.attempt(function, rank, *args, **fields)
        rank.record(name, {"outcome": outcome.described(), "rates": outcome.value})

    groups = several(rank.secret)
    tried("two steps", lambda rank: tensor(Training(rank, one_group(0.1, 4)).begin().advance(2)))
    rank.record("is one", bool(rank.attempt(made, rank, 4).value))
    tried("reported", reported, groups)
    for place, pair in enumerate(single(rank.secret)):
        tried(f"single {place}", trained, one_group(*pair), after=AFTER if place else LONG_AFTER)
    for kind in OPTIMIZERS:
        tried(kind, trained, groups, kind)
    outcome = rank.attempt(options_changed, rank, groups)
    rank.record("options", {"outcome": outcome.described(), "changed": outcome.value or {}})
    for warmup in (0, 1):
        tried(f"warm-up of {warmup}", trained, {**groups, "warmup": warmup})
        rank.record(f"is one for {warmup}", bool(rank.attempt(made, rank, warmup).value))
    tried("side by side", side_by_side, at_once(rank.secret))
    tried("from one state", from_one_state, groups)
    for order, names in FIRST.items():
        tried(order, resumed, groups, names)
        tried(f"{order}, other rates", resumed, groups, names, factor=3.0)
        tried(f"{order}, from a file", resumed, groups, names, through=through_a_file)
    tried("undisturbed", trained, groups, "AdamW")
    rank.record("refused", [refused(rank, steps) for steps in negative(rank.secret)])


def made(rank, warmup):
    return isinstance(Training(rank, one_group(0.1, warmup)).begin().scheduler, LRScheduler)


def negative(secret):
    return [-1, -random_for(secret, "negative").randrange(2, 1000)]


def refused(rank, steps):
    return rank.attempt(Training(rank, one_group(0.1, steps)).begin).described()
