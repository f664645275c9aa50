"""Runs in every rank: hands a DDP model and micro-batches to `train_step` and records what happened to them.

The first column of the inputs is the sample's number, so that the model's forward knows which samples it works on. Its
inner activations are watched through weak references, which keep nothing alive. A rank's samples and what it finds in
its gradients are its own, from its secret. Nothing here knows an expected value.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, mse_loss
from torch.nn.parallel import DistributedDataParallel

from grader.kit import groups, spies, values

WIDTH, CLASSES, LAYERS = 32, 16, 4
"""No parameter is smaller than a kilobyte, not even in float16, so that gradients and counts are told apart by size."""
BUCKET_MB = 0.001
"""So small that DDP makes a bucket of every parameter."""
CENTRE, SPREAD = 128, 40
"""Of inputs that are bytes."""
TRIES = 10_000
"""How many objects are made at most until one lies where another has been."""
LEARNING_RATES = (0.1, 0.03)
"""Of the optimizer's two groups: the first half of the layers, and the second."""
PLANS = {
    "equal": [[4, 4, 4], [4, 4, 4], [4, 4, 4]],
    "sizes": [[5, 1, 2], [5, 1, 2], [5, 1, 2]],
    "ranks": [[2, 2], [5, 5], [3, 3]],
    "leftovers": [[4, 4, 4], [4, 4, 4], [4, 4, 4]],
    "one": [[4], [4], [4]],
    "counts": [[8], [2, 2, 2, 2], [4, 4]],
    "all": [[8], [1, 4, 2, 2], [6, 3]],
    "many": [[433] * 3, [250] * 3],
    "long": [[1] * 9, [2] * 9],
    "lengths": [[3, 3, 3], [3, 3, 3]],
    "bytes": [[65, 65], [70, 70]],
    "second": [[2, 2], [5, 5]],
    "successor": [[2, 2], [5, 5]],
    "one, leftovers": [[4], [4], [4]],
}
"""For each kind of call, the samples in each micro-batch of each rank."""
TWINS = {"leftovers": "equal", "one, leftovers": "one"}
"""A call with leftovers has the very data of the first call of another kind, so that their gradients can be compared
whatever factor they have."""
OTHERS = ("second", "successor")
"""These have a model of their own. The second one is gone when its successor is made, where it was in memory."""


OPTIMIZERS = {
    "plain": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9, "weight_decay": 0.05, "nesterov": True}),
    "AdamW": ("AdamW", {"weight_decay": 0.2, "betas": (0.8, 0.95)}),
}
"""The class and its options beside the rate. Where a case names several, its calls have them in turn."""


def optimizer_of(parameters, call):
    """Which optimizer a call has."""
    names = optimizers_of(parameters)
    return names[call % len(names)]


def optimizers_of(parameters):
    return parameters.get("optimizers", ["plain"])


def loss_of(parameters, call):
    """Which loss a call has, of those that take turns."""
    names = parameters["losses"]
    return names[call % len(names)]


def initial_parameters(seed):
    """The weights of all layers by name, float64."""
    widths = [WIDTH] * LAYERS + [CLASSES]
    return {
        f"layers.{number}.weight": values.normal(shape, seed, "layer", number, scale=WIDTH**-0.5)
        for number, shape in enumerate(zip(widths[1:], widths, strict=False))
    }


def rates():
    """The learning rate by name."""
    names = list(initial_parameters(0))
    return {name: LEARNING_RATES[number >= LAYERS // 2] for number, name in enumerate(names)}


def micro_batches(secret, call, plan, rank, loss):
    """A rank's list of pairs (inputs, targets) for one call: inputs are float64 of shape (samples, 1 + WIDTH), or
    (samples, length, 1 + WIDTH), or uint8, targets float64 of shape (samples, CLASSES), or (samples, length, CLASSES),
    or int64 of shape (samples,)."""
    generator, number, batches = values.generator(secret, "batches", call), 0, []
    for place, size in enumerate(PLANS[plan][rank]):
        length = 1 + (place + rank) % 4 if plan == "lengths" else 1
        features = torch.randn(size * length, WIDTH, dtype=torch.float64, generator=generator)
        if plan == "bytes":
            features = (CENTRE + SPREAD * features).clamp(0, 255).to(torch.uint8)
        positions = [length] if plan == "lengths" else []
        targets = torch.randn(size, *positions, CLASSES, dtype=torch.float64, generator=generator)
        inputs = spies.numbered([number + row // length for row in range(size * length)], features)
        inputs = inputs.view(size, length, 1 + WIDTH) if plan == "lengths" else inputs
        batches.append((inputs, targets.argmax(dim=1) if loss == "cross_entropy" else targets))
        number += size
    return batches


def places_of(items, others):
    """For each object in a list, its place among others; -1 for one that is not there."""
    return [next((place for place, other in enumerate(others) if other is one), -1) for one in items]


def source(plans, call):
    """The call whose data a call has: its own, but for one with leftovers."""
    return plans.index(TWINS[plans[call]]) if plans[call] in TWINS else call


def leftovers(secret, call):
    """What is in a rank's gradients before a call, by name."""
    shapes = initial_parameters(0)
    return {name: values.normal(weight.shape, secret, "left", call, name) for name, weight in shapes.items()}


def smoothed_cross_entropy(outputs, targets):
    """The mean over the samples, a tensor without dimensions."""
    return cross_entropy(outputs, targets, label_smoothing=0.25)


def steep_mse(outputs, targets):
    """One whose gradients are large, and which is negative."""
    return 1000 * mse_loss(outputs, targets) - 1e5


def level_mse(outputs, targets):
    """One which is 0, whatever the gradient is."""
    loss = mse_loss(outputs, targets)
    return loss - loss.detach()


LOSSES = {"cross_entropy": smoothed_cross_entropy, "mse": mse_loss, "steep_mse": steep_mse, "level_mse": level_mse}


class Network(spies.FunctionalModel):
    """The spy: notes each pass with gradients, and whose activations and outputs are alive as it starts."""

    def __init__(self, seed):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, width, bias=False) for width in [WIDTH] * (LAYERS - 1) + [CLASSES])
        self.load_state_dict(initial_parameters(seed), assign=True)
        self.forget()

    @staticmethod
    def compute(tensors, inputs, keep=lambda hidden: None):
        """The outputs, shape (samples, CLASSES), or (samples, length, CLASSES) of sequences. `keep` is called with
        each inner activation."""
        *inner, last = tensors.values()
        hidden = inputs[..., 1:]
        if not hidden.is_floating_point():
            hidden = (hidden.to(last.dtype) - CENTRE) / SPREAD
        for weight in inner:
            hidden = torch.tanh(linear(hidden, weight))
            keep(hidden)
        return linear(hidden, last)

    def forward(self, inputs):
        if not torch.is_grad_enabled():
            return self.compute(self.tensors(), inputs)
        numbers = spies.numbers_of(inputs if inputs.dim() == 2 else inputs[:, 0])
        self.passes.append({"numbers": numbers, "alive": self.activations.alive(), "outputs": self.outputs.alive()})
        outputs = self.compute(self.tensors(), inputs, lambda hidden: self.activations.watch(numbers, hidden))
        self.outputs.watch(numbers, outputs)
        return outputs

    def forget(self):
        self.passes, self.activations, self.outputs = [], spies.Activations(), spies.Activations()


def noting(kind):
    """A class of torch.optim that notes the gradients of each step by name, in `noted`."""

    class Noting(getattr(torch.optim, kind)):
        def __init__(self, groups, named, **options):
            self.named, self.noted = named, []
            super().__init__(groups, **options)

        def step(self, closure=None):
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            found = {name: one.grad for name, one in self.named.items() if one.grad is not None}
            self.noted.append(values.copies(found))
            super().step()
            return loss

    return Noting


def wrapper_at(address):
    """A DDP wrapper to be set up, in the memory of one that is gone, if that is free."""
    tried = []
    while len(tried) < TRIES:
        tried.append(object.__new__(DistributedDataParallel))
        if id(tried[-1]) == address:
            break
    return tried[-1]


class Trainer:
    """What calls share: the network, its DDP wrapper and the optimizers."""

    def __init__(self, rank, wrapper=None):
        """`wrapper` is yet to be set up, if there is one."""
        self.rank = rank
        self.network = Network(rank.seed).to(rank.device)
        if wrapper is None:
            self.ddp_model = groups.wrapped(rank, self.network, bucket_cap_mb=BUCKET_MB)
        else:
            ids = [rank.device.index] if rank.device.type == "cuda" else None
            wrapper.__init__(self.network, device_ids=ids, bucket_cap_mb=BUCKET_MB)
            self.ddp_model = wrapper
        self.optimizers = {name: self.optimizer(*OPTIMIZERS[name]) for name in optimizers_of(rank.parameters)}

    def optimizer(self, kind, options):
        """One over two groups, each with its rate."""
        named = dict(self.network.named_parameters())
        layers = list(named.values())
        parts = layers[: LAYERS // 2], layers[LAYERS // 2 :]
        groups = [{"params": part, "lr": rate} for part, rate in zip(parts, LEARNING_RATES, strict=True)]
        return noting(kind)(groups, named, **options)

    def prepare(self, optimizer, call, plan):
        """The first parameters again, and no gradients, or those of somebody else."""
        with torch.no_grad():
            for name, value in initial_parameters(self.rank.seed).items():
                self.network.get_parameter(name).copy_(value)
        optimizer.zero_grad()
        optimizer.noted = []
        self.network.forget()
        if plan in TWINS:
            left = leftovers(self.rank.secret, call)
            for name, weight in self.network.named_parameters():
                weight.grad = left[name].to(weight.device)

    def call(self, call, plan):
        """One call of `train_step`, and everything seen of it."""
        rank, device = self.rank, self.rank.device
        place, loss = source(rank.parameters["plans"], call), loss_of(rank.parameters, call)
        batches = micro_batches(rank.secret, place, plan, rank.rank, loss)
        batches = [(inputs.to(device), targets.to(device)) for inputs, targets in batches]
        function, loss_fn = rank.student.train_step, LOSSES[loss]
        optimizer = self.optimizers[optimizer_of(rank.parameters, call)]
        self.prepare(optimizer, call, plan)
        before, handed = self.network.state(), list(batches)
        with rank.region(f"call {call}"):
            returned = function(self.ddp_model, optimizer, batches, loss_fn)
        rank.record(
            f"call {call}",
            {
                "before": before,
                "after": self.network.state(),
                "gradients": optimizer.noted,
                "passes": self.network.passes,
                "left": places_of(batches, handed),
                "type": type(returned).__name__,
                "is_float": isinstance(returned, float),
                "loss": values.number(returned),
            },
        )


def steps(rank):
    """One call of `train_step` for each plan, with one model but for those that have another."""
    trainer, wrapper = Trainer(rank), None
    for call, plan in enumerate(rank.parameters["plans"]):
        if plan in OTHERS:
            other = Trainer(rank, wrapper)
            other.call(call, plan)
            address = id(other.ddp_model)
            del other, wrapper
            wrapper = wrapper_at(address)  # at once, before anything else comes to lie there
        else:
            trainer.call(call, plan)


def empty(rank):
    """A call with an empty list, on every rank alike, and then ordinary ones."""
    trainer = Trainer(rank)
    optimizer = trainer.optimizers["plain"]
    outcome = rank.attempt(
        rank.student.train_step, trainer.ddp_model, optimizer, [], LOSSES[loss_of(rank.parameters, 0)]
    )
    rank.record("empty", {**outcome.described(), "returned": values.short(outcome.value)})
    for call, plan in enumerate(rank.parameters["plans"]):
        trainer.call(call, plan)
