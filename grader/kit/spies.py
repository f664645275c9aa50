"""Spies: what a probe hands to student code in order to see what becomes of it.

A model whose forward is a function of its named tensors, which the judge can repeat; inputs that carry the numbers of
their samples; optimizers and forwards that note their steps; what notes which objects are made and when is waited.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import reductions
from torch.utils.data import Dataset

from grader.kit.values import copies, generator, unwrapped

Tensors = dict[str, torch.Tensor]


class FunctionalModel(nn.Module):
    """A model whose forward is `compute(tensors, inputs)`, a function of its named parameters and buffers: called with
    recorded tensors it is the same computation in the judge. A subclass has `compute` as a static method."""

    compute: Callable[[Mapping[str, torch.Tensor], torch.Tensor], torch.Tensor]

    def tensors(self) -> Tensors:
        """All parameters and buffers by name, frozen ones too."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def state(self) -> Tensors:
        """Copies of them, on the CPU."""
        return copies(self.tensors())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return type(self).compute(self.tensors(), inputs)


# -- samples that carry their numbers ---------------------------------------------------------------------------------


def numbered(numbers: Iterable[int], features: torch.Tensor) -> torch.Tensor:
    """Inputs of shape (samples, 1 + width): the first column is the sample's number."""
    column = torch.tensor(list(numbers), dtype=features.dtype).unsqueeze(1)
    return torch.cat([column, features], dim=1)


def numbers_of(inputs: torch.Tensor) -> list[int]:
    """The numbers of the samples in a batch."""
    return [round(number) for number in inputs[:, 0].tolist()]


class NumberedData(Dataset[Any]):
    """Pairs (x, y): x, float64 of shape (1 + features,), begins with the sample's number; y is int64 of shape (),
    below `classes`. All of it is `inputs` and `targets`."""

    def __init__(self, samples: int, seed: int, *, features: int, classes: int) -> None:
        random = generator(seed, "numbered data")
        values = torch.randn(samples, features, dtype=torch.float64, generator=random)
        self.inputs = numbered(range(samples), values)
        self.targets = torch.randint(classes, (samples,), generator=random)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[index], self.targets[index]


_weak_reference: Callable[[Any], Any] = reductions.StorageWeakRef


# -- what notes its steps ---------------------------------------------------------------------------------------------


class StepNotes:
    """What one model trained on in this process: `batches[k]` holds the numbers of the samples of step k, `states[k]`
    the model's tensors before it, and `trained` is the model. A forward counts as a step only when a gradient flows
    back through its outputs; evaluation passes do not."""

    def __init__(self, at_first: Callable[[], Any] = lambda: None) -> None:
        """`at_first` is asked for `seen` in the first step's forward."""
        self.batches: list[list[int]] = []
        self.states: list[Tensors] = []
        self.trained: FunctionalModel | None = None
        self.seen: Any = None
        self._at_first = at_first

    def listen(self, model: FunctionalModel, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        """Note the batch and the state as of now, and keep them once a gradient reaches the outputs."""
        if not outputs.requires_grad:
            return
        numbers, state, seen, kept = numbers_of(inputs), model.state(), self._at_first(), list[bool]()

        def keep(_: torch.Tensor) -> None:
            if not kept:
                kept.append(True)
                self.batches.append(numbers)
                self.states.append(state)
                self.trained, self.seen = model, self.seen or seen

        outputs.register_hook(keep)  # type: ignore[no-untyped-call]


class NotingSGD(torch.optim.SGD):
    """Plain SGD that notes the gradients of each step by name, in `noted`."""

    def __init__(self, named_parameters: Iterable[tuple[str, torch.Tensor]], lr: float) -> None:
        self.named, self.noted = dict(named_parameters), list[Tensors]()
        super().__init__(self.named.values(), lr=lr)

    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.noted.append(copies({name: p.grad for name, p in self.named.items() if p.grad is not None}))
        super().step()
        return loss


# -- what a process makes, and what it waits for ---------------------------------------------------------------------


def note_instances(kind: type) -> list[str]:
    """The names of the classes of all instances of `kind` that are made from now on, subclasses included."""
    original, made = kind.__init__, list[str]()  # type: ignore[misc]

    @functools.wraps(original)
    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(type(self).__name__)
        original(self, *args, **kwargs)

    del noted.__wrapped__  # else who unwraps it makes one that nobody notes
    kind.__init__ = noted  # type: ignore[misc]
    return made


@contextmanager
def marked_waits(rank: Any, name: str, beside: str | None = None) -> Iterator[None]:
    """Each wait for a collective is a region called `name`, so that its place among what a trace shows is known: one
    for its Work, for a future that is not done yet, or for the tensor of a functional collective. One in another thread
    that Python has started, which holds up nobody else, begins with a region called `beside`, if that is given."""
    caller, waiting = threading.current_thread(), set[int]()

    def marked(original: Any, over: Callable[..., bool] = lambda *_: False) -> Any:
        @functools.wraps(original)
        def wait(*args: Any, **kwargs: Any) -> Any:
            thread, number = threading.current_thread(), threading.get_ident()
            if number in waiting or over(*args):
                return original(*args, **kwargs)
            waiting.add(number)
            try:
                if beside is None or thread is caller or isinstance(thread, threading._DummyThread):  # autograd's own
                    with rank.region(name):
                        return original(*args, **kwargs)
                with rank.region(beside):
                    pass
                return original(*args, **kwargs)
            finally:
                waiting.discard(number)

        return wait

    work: Any = dist.Work
    future: Any = torch._C.Future
    functional: Any = torch.ops._c10d_functional
    places = [(work, "wait", marked(work.wait)), (future, "wait", marked(future.wait, lambda one, *_: one.done()))]
    if hasattr(functional, "wait_tensor"):  # private: in a torch without it such waits are not seen
        places.append((functional, "wait_tensor", marked(functional.wait_tensor)))
        places[-1][2].default = functional.wait_tensor.default  # which others look for
    originals = [getattr(place, method) for place, method, _ in places]
    for place, method, marking in places:
        setattr(place, method, marking)
    try:
        yield
    finally:
        for (place, method, _), original in zip(places, originals, strict=True):
            setattr(place, method, original)


class Activations:
    """Which samples' activations are alive, seen through weak references that keep nothing alive themselves."""

    def __init__(self) -> None:
        self._watched: list[tuple[Sequence[int], Any]] = []

    def watch(self, numbers: Sequence[int], activation: torch.Tensor) -> None:
        """`activation` belongs to the samples with these numbers."""
        self._watched.append((numbers, _weak_reference(unwrapped(activation).untyped_storage())))

    def alive(self) -> list[int]:
        """The numbers of the samples of which an activation is still alive, in ascending order."""
        if any(not storage.expired() for _, storage in self._watched):
            gc.collect()
        return sorted({one for numbers, storage in self._watched if not storage.expired() for one in numbers})
