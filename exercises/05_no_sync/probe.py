"""Runs in every rank: hands a DDP model and micro-batches to `train_step` and records what happened to them.

The first column of the inputs is the sample's number, so that the model's forward knows which samples it works on. Its
inner activations are watched through weak references, which keep nothing alive. A rank's samples and what it finds in
its gradients are its own, from its secret. Nothing here knows an expected value.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, mse_loss

from grader.kit import groups, spies, values

WIDTH, CLASSES, LAYERS = 32, 16, 4
"""No parameter is smaller than a kilobyte, not even in float16, so that gradients and counts are told apart by size."""
BUCKET_MB = 0.001
"""So small that DDP makes a bucket of every parameter."""
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
}
"""For each kind of call, the samples in each micro-batch of each rank. A call with leftovers has the very data of the
first call with equal micro-batches, so that their gradients can be compared whatever factor they have."""


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


def micro_batches(secret, call, sizes, loss):
    """A rank's list of pairs (inputs, targets) for one call, one for each of `sizes`: inputs are float64 of shape
    (samples, 1 + WIDTH), targets float64 of shape (samples, CLASSES) or int64 of shape (samples,), as loss wants."""
    generator, number, batches = values.generator(secret, "batches", call), 0, []
    for size in sizes:
        features = torch.randn(size, WIDTH, dtype=torch.float64, generator=generator)
        targets = torch.randn(size, CLASSES, dtype=torch.float64, generator=generator)
        inputs = spies.numbered(range(number, number + size), features)
        batches.append((inputs, targets.argmax(dim=1) if loss == "cross_entropy" else targets))
        number += size
    return batches


def samples_in(pair):
    """How many samples a pair of inputs and targets has; 0 for what is none."""
    inputs = pair[0] if isinstance(pair, tuple) and pair else None
    return len(inputs) if isinstance(inputs, torch.Tensor) and inputs.dim() else 0


def source(plans, call):
    """The call whose data a call has: its own, but for one with leftovers."""
    return plans.index("equal") if plans[call] == "leftovers" else call


def leftovers(secret, call):
    """What is in a rank's gradients before a call, by name."""
    shapes = initial_parameters(0)
    return {name: values.normal(weight.shape, secret, "left", call, name) for name, weight in shapes.items()}


def smoothed_cross_entropy(outputs, targets):
    """The mean over the samples, a tensor without dimensions."""
    return cross_entropy(outputs, targets, label_smoothing=0.25)


def steep_mse(outputs, targets):
    """One whose gradients are large."""
    return 1000 * mse_loss(outputs, targets)


LOSSES = {"cross_entropy": smoothed_cross_entropy, "mse": mse_loss, "steep_mse": steep_mse}


class Network(spies.FunctionalModel):
    """The spy: notes each pass with gradients, and whose activations and outputs are alive as it starts."""

    def __init__(self, seed):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, width, bias=False) for width in [WIDTH] * (LAYERS - 1) + [CLASSES])
        self.load_state_dict(initial_parameters(seed), assign=True)
        self.forget()

    @staticmethod
    def compute(tensors, inputs, keep=lambda hidden: None):
        """The outputs, shape (samples, CLASSES). `keep` is called with each inner activation."""
        *inner, last = tensors.values()
        hidden = inputs[:, 1:]
        for weight in inner:
            hidden = torch.tanh(linear(hidden, weight))
            keep(hidden)
        return linear(hidden, last)

    def forward(self, inputs):
        if not torch.is_grad_enabled():
            return self.compute(self.tensors(), inputs)
        numbers = spies.numbers_of(inputs)
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


class Trainer:
    """What the calls of one run share: the network, its DDP wrapper, the optimizers and the loss."""

    def __init__(self, rank):
        self.rank, self.loss = rank, rank.parameters["loss"]
        self.network = Network(rank.seed).to(rank.device)
        self.ddp_model = groups.wrapped(rank, self.network, bucket_cap_mb=BUCKET_MB)
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
        if plan == "leftovers":
            left = leftovers(self.rank.secret, call)
            for name, weight in self.network.named_parameters():
                weight.grad = left[name].to(weight.device)

    def call(self, call, plan):
        """One call of `train_step`, and everything seen of it."""
        rank, device = self.rank, self.rank.device
        place = source(rank.parameters["plans"], call)
        batches = micro_batches(rank.secret, place, PLANS[plan][rank.rank], self.loss)
        batches = [(inputs.to(device), targets.to(device)) for inputs, targets in batches]
        function, loss_fn = rank.student.train_step, LOSSES[self.loss]
        optimizer = self.optimizers[optimizer_of(rank.parameters, call)]
        self.prepare(optimizer, call, plan)
        before = self.network.state()
        with rank.region(f"call {call}"):
            returned = function(self.ddp_model, optimizer, batches, loss_fn)
        rank.record(
            f"call {call}",
            {
                "before": before,
                "after": self.network.state(),
                "gradients": optimizer.noted,
                "passes": self.network.passes,
                "left": [samples_in(one) for one in batches],
                "type": type(returned).__name__,
                "is_float": isinstance(returned, float),
                "loss": values.number(returned),
            },
        )


def steps(rank):
    """One call of `train_step` for each plan, with one model."""
    trainer = Trainer(rank)
    for call, plan in enumerate(rank.parameters["plans"]):
        trainer.call(call, plan)


def empty(rank):
    """A call with an empty list, on every rank alike, and then ordinary ones."""
    trainer = Trainer(rank)
    optimizer = trainer.optimizers["plain"]
    outcome = rank.attempt(rank.student.train_step, trainer.ddp_model, optimizer, [], LOSSES[trainer.loss])
    rank.record("empty", {**outcome.described(), "returned": values.short(outcome.value)})
    for call, plan in enumerate(rank.parameters["plans"]):
        trainer.call(call, plan)
