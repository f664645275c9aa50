"""Exercise 14: pipeline parallelism. Read README.md first.

The process group is up when your functions are called. Rank r of the group holds stage r of N; what comes out of stage
r goes into stage r + 1.
"""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist


def run_gpipe(
    stage: torch.nn.Module,
    inputs: torch.Tensor | None,
    targets: torch.Tensor | None,
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    num_micro_batches: int,
    activation_shape: Sequence[int],
    group: dist.ProcessGroup | None = None,
) -> float | None:
    """Forward and backward of one batch through the pipeline: all forwards first, then all backwards. Collective:
    every rank of the group calls it.

    Args:
        stage: this rank's part of the model, on its device. It may have frozen parameters, or none at all.
        inputs: the batch, of shape (samples, …), read by the first rank alone; elsewhere it may be None.
        targets: what belongs to each sample, read by the last rank alone; elsewhere it may be None.
        loss_fn: `loss_fn(outputs, targets)` is the mean loss of the samples that it is given.
        num_micro_batches: into how many equal parts the batch is cut.
        activation_shape: the shape of one sample between stages, the same between any two of them. What crosses has
            the dtype of the model's parameters.
        group: the ranks of the pipeline, in this order; None is the default group. A rank has another number in a
            group than in the job: `dist.get_rank(group)`, and `group_dst` of `dist.send` and `dist.isend`.

    Returns the mean loss of the whole batch on the last rank, None on the others. Gradients are added to `.grad`.
    Raises ValueError, on every rank, where `num_micro_batches` is below 1 or does not divide the batch.
    """
    # TODO 1: does num_micro_batches divide the batch? Every rank has to know.
    # TODO 2: the forward of a micro-batch: where its input comes from, where its output goes, what is kept.
    # TODO 3: the backward of a micro-batch: where its gradient comes from, and where the gradient of its input goes.
    # TODO 4: all forwards, then all backwards.
    raise NotImplementedError("run_gpipe is yours to write")


def run_1f1b(
    stage: torch.nn.Module,
    inputs: torch.Tensor | None,
    targets: torch.Tensor | None,
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    num_micro_batches: int,
    activation_shape: Sequence[int],
    group: dist.ProcessGroup | None = None,
) -> float | None:
    """The same by the schedule 1F1B: rank r begins with N - r - 1 forwards, then does one forward and one backward in
    turn, then the backwards that are left. So at most N - r outputs of its stage are alive at any time.

    Arguments, result and errors are those of `run_gpipe`.
    """
    # TODO 5: how many forwards come first on this rank? There may be fewer micro-batches than that.
    # TODO 6: one forward, one backward. Who waits for whom, if both neighbours send first?
    raise NotImplementedError("run_1f1b is yours to write")
