"""Exercise 09: DistributedDataParallel, written by hand. Read README.md first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist


class BucketedDDP(torch.nn.Module):
    """Wraps a module so that backward averages its gradients over all ranks, in buckets, while it runs."""

    def __init__(self, module: torch.nn.Module, bucket_cap_mb: float = 25.0) -> None:
        """Collective: every rank calls it. The default process group is up, and the module is on the right device.

        Args:
            module: what to train. Afterwards its parameters and buffers have rank 0's values on every rank. Some of
                its parameters may be frozen, shared by several layers, or of another dtype.
            bucket_cap_mb: the most that a bucket holds, in units of 10^6 or 2^20 bytes, unless it holds one parameter.
        """
        super().__init__()
        # TODO 1: give every rank the parameters and buffers of rank 0.
        # TODO 2: pack the parameters that are trained into buckets, the last one first, each bucket of one dtype.
        # TODO 3: register a hook on each of them that is called when its gradient is final.
        raise NotImplementedError("BucketedDDP is yours to write")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns for these arguments."""
        raise NotImplementedError("forward is yours to write")

    # TODO 4: in the hook, note the gradient, and launch the bucket's all-reduce once it is complete, without waiting.
    #         In which order must all ranks launch their buckets, and what if a parameter gets no gradient?

    def finish_gradient_synchronization(self) -> None:
        """Wait until every gradient is the average over all ranks. Collective: every rank calls it, once after each
        synchronised backward pass."""
        # TODO 5: send what has not been sent, wait for all, write the averages into .grad, be ready for the next step.
        raise NotImplementedError("finish_gradient_synchronization is yours to write")

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward passes add to .grad and nothing is sent; the next one outside averages the sum."""
        # TODO 6: tell the hooks to do nothing until this ends, however it ends.
        raise NotImplementedError("no_sync is yours to write")
        yield
