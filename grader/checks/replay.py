"""What training computes, repeated in the judge: gradients of a function of named tensors, their sums and means, and
the element-wise optimizers written out once.

The optimizers follow the formulas of the PyTorch pages "SGD", "Adam", "AdamW", "RMSprop" and "Adagrad"; Adam is
Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, AdamW is Loshchilov and Hutter, "Decoupled
Weight Decay Regularization", ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from grader.checks.tolerance import lost_in_difference

Tensors = dict[str, torch.Tensor]
Memory = dict[str, Any]
"""What an optimizer keeps of one parameter."""


# -- gradients --------------------------------------------------------------------------------------------------------


def gradient(
    loss: Callable[[Tensors], torch.Tensor], tensors: Mapping[str, torch.Tensor], names: Iterable[str] | None = None
) -> Tensors:
    """The gradient of `loss(tensors)`, a tensor of one element, by name: of the tensors called `names`, or of all."""
    leaves = {name: tensors[name].detach().clone().requires_grad_() for name in (tensors if names is None else names)}
    found = torch.autograd.grad(loss({**tensors, **leaves}), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def combined(gradients: Sequence[Mapping[str, torch.Tensor]], weights: Sequence[float]) -> Tensors:
    """The weighted sum of several gradients, by name."""
    pairs = list(zip(gradients, weights, strict=True))
    return {name: torch.stack([weight * one[name] for one, weight in pairs]).sum(0) for name in gradients[0]}


def total(*gradients: Mapping[str, torch.Tensor]) -> Tensors:
    """Their sum, by name."""
    return combined(gradients, [1.0] * len(gradients))


def mean(gradients: Sequence[Mapping[str, torch.Tensor]]) -> Tensors:
    """Their mean, by name."""
    return combined(gradients, [1.0 / len(gradients)] * len(gradients))


def dot(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> float:
    """The inner product over all entries of both."""
    return sum(float((left[name] * right[name]).sum()) for name in left)


def projection(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> float:
    """The factor f by which f · right comes closest to left, in least squares; 0 where `right` is 0."""
    size = dot(right, right)
    return dot(left, right) / size if size else 0.0


def but_rounding(
    used: Mapping[str, torch.Tensor],
    wanted: Mapping[str, torch.Tensor],
    before: Mapping[str, torch.Tensor],
    after: Mapping[str, torch.Tensor],
    rate: float = 1.0,
) -> Tensors:
    """What a step used, which is (before - after) / rate, and what is wanted in its place where they are no further
    apart than the states round: of a large parameter and a small gradient little is left in that difference."""
    found = {}
    for name, one in used.items():
        near = (one - wanted[name]).abs() * abs(rate) <= lost_in_difference(before[name], after[name])
        found[name] = wanted[name].where(near & one.isfinite(), one)
    return found


# -- optimizers, for one parameter p with gradient g; they give back its new value ------------------------------------


def sgd(
    p: Any, g: Any, memory: Memory, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
    weight_decay: float = 0.0, nesterov: bool = False, maximize: bool = False,
) -> Any:  # fmt: skip
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        memory["b"] = momentum * memory["b"] + (1 - dampening) * g if "b" in memory else g
        g = g + momentum * memory["b"] if nesterov else memory["b"]
    return p - lr * g


def adam(
    p: Any, g: Any, memory: Memory, lr: float = 1e-3, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0.0, amsgrad: bool = False,
) -> Any:  # fmt: skip
    return _adam_step(p, g + weight_decay * p, memory, lr, betas, eps, amsgrad)


def adamw(
    p: Any, g: Any, memory: Memory, lr: float = 1e-3, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2, amsgrad: bool = False,
) -> Any:  # fmt: skip
    return _adam_step(p * (1 - lr * weight_decay), g, memory, lr, betas, eps, amsgrad)


def _adam_step(p: Any, g: Any, memory: Memory, lr: float, betas: Sequence[float], eps: float, amsgrad: bool) -> Any:
    t = memory["t"] = memory.get("t", 0) + 1
    m = memory["m"] = betas[0] * memory.get("m", 0) + (1 - betas[0]) * g
    v = memory["v"] = betas[1] * memory.get("v", 0) + (1 - betas[1]) * g * g
    if amsgrad:
        v = memory["v_max"] = torch.maximum(v, memory.get("v_max", v))
    return p - lr * (m / (1 - betas[0] ** t)) / ((v / (1 - betas[1] ** t)).sqrt() + eps)


def rmsprop(
    p: Any, g: Any, memory: Memory, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, momentum: float = 0.0,
    centered: bool = False,
) -> Any:  # fmt: skip
    v = memory["v"] = alpha * memory.get("v", 0) + (1 - alpha) * g * g
    if centered:
        average = memory["mean"] = alpha * memory.get("mean", 0) + (1 - alpha) * g
        v = v - average * average
    b = memory["b"] = momentum * memory.get("b", 0) + g / (v.sqrt() + eps)
    return p - lr * b


def adagrad(
    p: Any, g: Any, memory: Memory, lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
    initial_accumulator_value: float = 0.0, eps: float = 1e-10,
) -> Any:  # fmt: skip
    t = memory["t"] = memory.get("t", 0) + 1
    g = g + weight_decay * p
    squares = memory["sum"] = memory.get("sum", initial_accumulator_value) + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (squares.sqrt() + eps)


RULES: dict[str, Callable[..., Any]] = {
    "SGD": sgd, "Adam": adam, "AdamW": adamw, "RMSprop": rmsprop, "Adagrad": adagrad
}  # fmt: skip
"""By the names of torch.optim."""


class Optimizer:
    """An element-wise optimizer over named tensors, in one process. `values` are as of now."""

    def __init__(self, rule: Callable[..., Any], values: Mapping[str, torch.Tensor]) -> None:
        self.rule, self.values = rule, dict(values)
        self.memory: dict[str, Memory] = {}

    def step(
        self,
        gradients: Mapping[str, torch.Tensor | None],
        options: Callable[[str], Mapping[str, Any]] = lambda name: {},
    ) -> Tensors:
        """The values after one step; those without a gradient stay. `options(name)` is what the rule is called with."""
        for name, g in gradients.items():
            if g is not None:
                memory = self.memory.setdefault(name, {})
                self.values[name] = self.rule(self.values[name], g, memory, **options(name))
        return dict(self.values)


def history(
    kind: str,
    start: Mapping[str, torch.Tensor],
    steps: Iterable[int],
    gradient: Callable[[int, str, Tensors], torch.Tensor | None],
    options: Callable[[int, str], Mapping[str, Any]],
) -> list[Tensors]:
    """The values before the first step and after each, under the torch.optim class of this name.
    `gradient(step, name, values)` is None where there is none; `options(step, name)` are those of the parameter."""
    optimizer = Optimizer(RULES[kind], start)
    values = [dict(start)]
    for step in steps:
        given = {name: gradient(step, name, values[-1]) for name in values[-1]}
        values.append(optimizer.step(given, lambda name, step=step: options(step, name)))  # type: ignore[misc]
    return values
