"""Distributed data parallel from scratch: replicas, gradient buckets, and all-reduces that hide behind backward.

N ranks hold the same parameters and differ in their data. With g_r the gradient on rank r, each rank should end with
g = 1/N Σ_r g_r. Done naively that is one blocking all-reduce for each parameter after backward:

    for p in module.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()

It is right and slow in two ways: many small messages pay the latency many times, and the network idles while backward
computes, the processor while the network sends. Buckets mend the first, launching each from a hook the second.

Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (VLDB 2020), sections
3.2.1 to 3.2.4.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist


@dataclass
class Bucket:
    """Parameters whose gradients travel together, and how far they have come in this step."""

    parameters: list[torch.nn.Parameter] = field(default_factory=list)
    ready: set[torch.nn.Parameter] = field(default_factory=set)
    flat: torch.Tensor | None = None
    work: dist.Work | None = None

    @property
    def size(self) -> int:
        return sum(parameter.numel() * parameter.element_size() for parameter in self.parameters)


def packed(parameters: list[torch.nn.Parameter], cap: float) -> list[Bucket]:
    """Greedy packing: a parameter goes into the newest bucket of its dtype, or opens the next one if that is full.

    The buckets are in the order in which they get complete, if gradients come in the order of the parameters.
    """
    buckets: list[Bucket] = []
    newest: dict[torch.dtype, Bucket] = {}
    place = {parameter: number for number, parameter in enumerate(parameters)}
    for parameter in parameters:
        bucket = newest.get(parameter.dtype)
        if bucket is None or bucket.size + parameter.numel() * parameter.element_size() > cap:
            bucket = newest[parameter.dtype] = Bucket()
            buckets.append(bucket)
        bucket.parameters.append(parameter)
    # Not in the order in which they were opened: the bucket of a rare dtype may be opened second and complete last.
    return sorted(buckets, key=lambda bucket: place[bucket.parameters[-1]])


class BucketedDDP(torch.nn.Module):
    """Wraps a module so that backward averages its gradients over all ranks, in buckets, while it runs.

    To construct it is a collective call, and so is a synchronised backward with finish_gradient_synchronization().
    """

    def __init__(self, module: torch.nn.Module, bucket_cap_mb: float = 25.0) -> None:
        super().__init__()
        self.module = module
        self.synchronises = True
        for tensor in (*module.parameters(), *module.buffers()):  # frozen ones too, and each shared one once
            values = tensor.detach()
            sent = values.contiguous()  # the values themselves, or a copy of what is laid out otherwise: so asks NCCL
            dist.broadcast(sent, src=0)
            values.copy_(sent)
        # Backward goes through the layers from the last to the first, so the buckets are packed in that order.
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.buckets = packed(trained[::-1], bucket_cap_mb * 2**20)
        self.launched = 0
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(partial(self._note, bucket))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here only add to .grad, which the next one outside averages as a whole."""
        self.synchronises = False
        try:
            yield
        finally:
            self.synchronises = True

    def _note(self, bucket: Bucket, parameter: torch.nn.Parameter) -> None:
        """The gradient of a parameter is final: autograd has added all of this backward's contributions to it."""
        if not self.synchronises:
            return
        if parameter in bucket.ready:
            raise RuntimeError(
                "a second backward pass without no_sync, before finish_gradient_synchronization was called"
            )
        bucket.ready.add(parameter)
        # Collectives are matched by their order. Gradients may come in another order on another rank, so a bucket
        # waits for those before it even if it is complete.
        while self.launched < len(self.buckets) and self._complete(self.buckets[self.launched]):
            self._launch()

    def _complete(self, bucket: Bucket) -> bool:
        return len(bucket.ready) == len(bucket.parameters)

    def _launch(self) -> None:
        """Begin to average the next bucket, and go on computing."""
        bucket = self.buckets[self.launched]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket.parameters]
        bucket.flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        bucket.flat /= dist.get_world_size()  # before the sum, which might overflow in half precision
        bucket.work = dist.all_reduce(bucket.flat, async_op=True)
        self.launched += 1

    def finish_gradient_synchronization(self) -> None:
        """Wait until all gradients are averaged. Collective; once after each synchronised backward."""
        # A parameter that this backward did not use holds up its bucket, and all after it, perhaps on this rank alone.
        # The others wait for these buckets, so they are sent now, with what there is.
        while self.launched < len(self.buckets):
            self._launch()
        for bucket in self.buckets:
            bucket.work.wait()
            parts = bucket.flat.split([parameter.numel() for parameter in bucket.parameters])
            for parameter, part in zip(bucket.parameters, parts, strict=True):
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(part.view(parameter.shape))
            bucket.ready, bucket.flat, bucket.work = set(), None, None
        self.launched = 0
