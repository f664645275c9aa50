"""Runs in every rank: hands a DDP model and micro-batches to `train_step` and records what happened to them.

The first column of the inputs is the sample's number, so that the model's forward knows which samples it works on. Its
inner activations are watched through weak references to their storages, which nothing but the student's code keeps
alive. Nothing here knows an expected value.
"""

import gc

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import cross_entropy, linear, mse_loss
from torch.nn.parallel import DistributedDataParallel

WIDTH, CLASSES, LAYERS = 32, 16, 4
"""No parameter is smaller than a kilobyte, not even in float16, so that gradients and counts are told apart by size."""
BUCKET_MB = 0.001
"""So small that DDP makes a bucket of every parameter."""
LEARNING_RATE = 0.1
PLANS = {
    "equal": [[4, 4, 4], [4, 4, 4], [4, 4, 4]],
    "sizes": [[5, 1, 2], [5, 1, 2], [5, 1, 2]],
    "ranks": [[2, 2], [5, 5], [3, 3]],
    "leftovers": [[3, 3, 3], [3, 3, 3], [3, 3, 3]],
    "one": [[4], [4], [4]],
    "counts": [[8], [2, 2, 2, 2], [4, 4]],
    "all": [[3], [1, 4, 2, 2], [6, 1]],
}
"""For each kind of call, the samples in each micro-batch of each rank."""


def generator_for(seed, *place):
    """A generator for one place: equal for equal arguments, different otherwise."""
    for number in place:
        seed = (seed * 1_000_003 + number + 1) % 2**31
    return torch.Generator().manual_seed(seed)


def initial_parameters(seed):
    """The weights of all layers by name, float64."""
    generator = generator_for(seed, 0)
    widths = [WIDTH] * LAYERS + [CLASSES]
    shapes = list(zip(widths[1:], widths, strict=False))
    return {
        f"layers.{number}.weight": torch.randn(shape, dtype=torch.float64, generator=generator) / WIDTH**0.5
        for number, shape in enumerate(shapes)
    }


def micro_batches(seed, call, plan, rank, loss):
    """A rank's list of pairs (inputs, targets) for one call: inputs are float64 of shape (samples, 1 + WIDTH), and
    targets int64 of shape (samples,) or, for "mse", float64 of shape (samples, CLASSES)."""
    generator, number, batches = generator_for(seed, 1, call, rank), 0, []
    for size in PLANS[plan][rank]:
        numbers = torch.arange(number, number + size, dtype=torch.float64).unsqueeze(1)
        features = torch.randn(size, WIDTH, dtype=torch.float64, generator=generator)
        targets = torch.randn(size, CLASSES, dtype=torch.float64, generator=generator)
        batches.append((torch.cat([numbers, features], dim=1), targets if loss == "mse" else targets.argmax(dim=1)))
        number += size
    return batches


def leftovers(seed, call, rank):
    """What is in a rank's gradients before a call, by name."""
    generator, shapes = generator_for(seed, 2, call, rank), initial_parameters(seed)
    return {
        name: torch.randn(weight.shape, dtype=torch.float64, generator=generator) for name, weight in shapes.items()
    }


def smoothed_cross_entropy(outputs, targets):
    """The mean over the samples, a tensor without dimensions."""
    return cross_entropy(outputs, targets, label_smoothing=0.25)


LOSSES = {"cross_entropy": smoothed_cross_entropy, "mse": mse_loss}


def outputs_of(parameters, inputs, keep=None):
    """The network's outputs, shape (samples, CLASSES). `keep` is called with each inner activation."""
    *inner, last = parameters.values()
    hidden = inputs[:, 1:]
    for weight in inner:
        hidden = torch.tanh(linear(hidden, weight))
        if keep is not None:
            keep(hidden)
    return linear(hidden, last)


class Network(nn.Module):
    """The spy: notes each pass with gradients, and whose activations are alive as it starts."""

    def __init__(self, seed):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, width, bias=False) for width in [WIDTH] * (LAYERS - 1) + [CLASSES])
        self.load_state_dict(initial_parameters(seed), assign=True)
        self.passes, self.activations = [], []

    def forward(self, inputs):
        parameters = dict(self.named_parameters())
        if not torch.is_grad_enabled():
            return outputs_of(parameters, inputs)
        numbers = [round(number) for number in inputs[:, 0].tolist()]
        self.passes.append({"numbers": numbers, "alive": self.alive()})
        return outputs_of(parameters, inputs, lambda hidden: self.watch(numbers, hidden))

    def watch(self, numbers, hidden):
        self.activations.append((numbers, StorageWeakRef(hidden.untyped_storage())))

    def alive(self):
        """The numbers of the samples of which an activation of an earlier pass is still alive."""
        if any(not storage.expired() for _, storage in self.activations):
            gc.collect()
        return sorted({one for numbers, storage in self.activations if not storage.expired() for one in numbers})

    def forget(self):
        self.passes, self.activations = [], []


class NotingSGD(torch.optim.SGD):
    """Plain SGD that notes the gradients of each step."""

    def __init__(self, named_parameters):
        self.named, self.noted = dict(named_parameters), []
        super().__init__(self.named.values(), lr=LEARNING_RATE)

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        graded = {name: weight.grad for name, weight in self.named.items() if weight.grad is not None}
        self.noted.append(copies(graded))
        super().step()
        return loss


def copies(tensors):
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


class Trainer:
    """What the calls of one run share: the network, its DDP wrapper, the optimizer and the loss."""

    def __init__(self, rank):
        self.rank, self.loss = rank, rank.parameters["loss"]
        self.network = Network(rank.seed).to(rank.device)
        ids = [rank.device.index] if rank.device.type == "cuda" else None
        self.ddp_model = DistributedDataParallel(self.network, device_ids=ids, bucket_cap_mb=BUCKET_MB)
        self.optimizer = NotingSGD(self.network.named_parameters())

    def parameters(self):
        return copies(dict(self.network.named_parameters()))

    def prepare(self, call, plan):
        """Leave no gradients, or those of somebody else."""
        self.optimizer.zero_grad()
        self.optimizer.noted = []
        self.network.forget()
        if plan == "leftovers":
            left = leftovers(self.rank.seed, call, self.rank.rank)
            for name, weight in self.network.named_parameters():
                weight.grad = left[name].to(weight.device)

    def call(self, call, plan):
        """One call of `train_step`, and everything seen of it."""
        rank, device = self.rank, self.rank.device
        batches = micro_batches(rank.seed, call, plan, rank.rank, self.loss)
        batches = [(inputs.to(device), targets.to(device)) for inputs, targets in batches]
        function, loss_fn = rank.student.train_step, LOSSES[self.loss]
        self.prepare(call, plan)
        before = self.parameters()
        with rank.region(f"call {call}"):
            returned = function(self.ddp_model, self.optimizer, batches, loss_fn)
        rank.record(
            f"call {call}",
            {
                "before": before,
                "after": self.parameters(),
                "gradients": self.optimizer.noted,
                "passes": self.network.passes,
                "type": type(returned).__name__,
                "is_float": isinstance(returned, float),
                "loss": as_number(returned),
            },
        )


def as_number(value):
    """A float, from a number or a tensor with one element; else None."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def steps(rank):
    """One call of `train_step` for each plan, with one model."""
    trainer = Trainer(rank)
    for call, plan in enumerate(rank.parameters["plans"]):
        trainer.call(call, plan)


def empty(rank):
    """A call with an empty list, on every rank alike, and then ordinary ones."""
    trainer = Trainer(rank)
    arguments = (trainer.ddp_model, trainer.optimizer, [], LOSSES[trainer.loss])
    outcome = rank.attempt(rank.student.train_step, *arguments)
    returned = None if outcome.value is None else f"{outcome.value!r:.40}"
    rank.record("empty", {**outcome.described(), "returned": returned})
    for call, plan in enumerate(rank.parameters["plans"]):
        trainer.call(call, plan)
