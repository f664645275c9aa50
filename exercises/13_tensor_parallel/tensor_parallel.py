"""Exercise 13: linear layers cut over several ranks. Read README.md first.

The process group is up. All ranks of the group build a layer from equal dense layers, on the right device, and call it
together. N is the number of ranks in the group, r this rank's number in it.
"""

import torch
import torch.distributed as dist
from torch import nn


class ColumnParallelLinear(nn.Module):
    """A linear layer cut by its output features.

    Args:
        linear: the dense layer, of weight (out, in) and bias (out,) or None. It stays as it is.
        group: the ranks that share the layer; None is the default group.
        gather_output: whether forward returns all output features, on every rank.

    Attributes:
        weight: this rank's slice of the dense weight, a parameter of shape (out/N, in) in memory of its own.
        bias: the matching slice of the bias, a parameter of shape (out/N,), or None where the dense layer has none.

    Raises:
        ValueError: on every rank, if N does not divide out.
    """

    def __init__(self, linear: nn.Linear, group: dist.ProcessGroup | None = None, gather_output: bool = False) -> None:
        super().__init__()
        # TODO 1: keep this rank's slice of the weight and of the bias. The dense layer may be freed afterwards.
        raise NotImplementedError("ColumnParallelLinear is yours to write")

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Collective: every rank of the group calls it with the same inputs, of shape (…, in). Returns this rank's
        output features, (…, out/N), or with gather_output all of them, (…, out)."""
        # TODO 2: this rank's output features. What is the gradient of `inputs`, which all ranks use?
        # TODO 3: gather_output, and its gradient.
        raise NotImplementedError("ColumnParallelLinear.forward is yours to write")


class RowParallelLinear(nn.Module):
    """A linear layer cut by its input features.

    Args:
        linear: the dense layer, of weight (out, in) and bias (out,) or None. It stays as it is.
        group: the ranks that share the layer; None is the default group.

    Attributes:
        weight: this rank's slice of the dense weight, a parameter of shape (out, in/N) in memory of its own.
        bias: the bias, a parameter of shape (out,) in memory of its own, or None where the dense layer has none.

    Raises:
        ValueError: on every rank, if N does not divide in.
    """

    def __init__(self, linear: nn.Linear, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        # TODO 4: keep this rank's slice of the weight, and the bias.
        raise NotImplementedError("RowParallelLinear is yours to write")

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Collective: every rank of the group calls it with its own features of the input, of shape (…, in/N). Returns
        the dense layer's outputs, (…, out), on every rank."""
        # TODO 5: the sum over the ranks, the bias, and the gradient of a sum.
        raise NotImplementedError("RowParallelLinear.forward is yours to write")


class ParallelMLP(nn.Module):
    """down(gelu(up(x))), GELU in its exact form. For N > 1 it costs one all-reduce in forward and one in backward.

    Args:
        up, down: dense layers of weights (hidden, in) and (out, hidden). They stay as they are.
        group: the ranks that share the layers; None is the default group.

    Attributes:
        up: a column-parallel layer.
        down: a row-parallel layer.

    Raises:
        ValueError: on every rank, if N does not divide hidden.
    """

    def __init__(self, up: nn.Linear, down: nn.Linear, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        # TODO 6: which of the two is cut by its output features, and which by its input features?
        raise NotImplementedError("ParallelMLP is yours to write")

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Collective: every rank of the group calls it with the same inputs, of shape (…, in). Returns the dense
        layers' outputs, (…, out), on every rank."""
        raise NotImplementedError("ParallelMLP.forward is yours to write")
