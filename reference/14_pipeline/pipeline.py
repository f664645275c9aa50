"""Pipeline parallelism: each of N ranks holds a stage of the model, and micro-batches flow through them.

The naive way sends the whole batch through, forward from rank 0 to rank N - 1 and back again. Then one rank works at a
time and the others wait: each is busy for 1/N of the time. So the batch is cut into m micro-batches, and a rank begins
the next one as soon as it has handed one on. Filling and draining the pipeline still leaves a bubble, in which ranks
are idle: a share of (N - 1) / (m + N - 1) of the time.

Both schedules do the same work and have the same bubble. They differ in the order, and so in what must be kept:

    GPipe   F0 F1 … F(m-1)  B0 B1 … B(m-1)          all m activations are alive when the first backward begins
    1F1B    N - r - 1 forwards, then F B F B …      rank r keeps N - r at most: a backward frees what it needs

Sources: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism" (2019), section
2.3; Narayanan et al., "PipeDream" (SOSP 2019), section 3.2, and "Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM" (SC 2021), section 2.2, whose 1F1B with a flush this is.
"""

import torch
import torch.distributed as dist


def run_gpipe(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    """All forwards, then all backwards. Collective. Returns the mean loss on the last rank."""
    pipeline = Pipeline(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)
    for i in range(pipeline.m):
        pipeline.forward(i)
    for i in range(pipeline.m):
        pipeline.backward(i)
    return pipeline.finish()


def run_1f1b(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group=None):
    """One forward, one backward in turn, as soon as the pipeline is full. Collective. Returns as run_gpipe does."""
    pipeline = Pipeline(stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group)
    # As many as it takes for micro-batch 0 to reach the last rank; from then on gradients come back.
    warm_up = min(pipeline.N - pipeline.r - 1, pipeline.m)
    for i in range(warm_up):
        pipeline.forward(i)
    for i in range(pipeline.m - warm_up):
        pipeline.forward(warm_up + i)
        pipeline.backward(i)
    for i in range(pipeline.m - warm_up, pipeline.m):
        pipeline.backward(i)
    return pipeline.finish()


class Pipeline:
    """What one rank does for a micro-batch, whatever the schedule; r, N and m as in the papers."""

    def __init__(self, stage, inputs, targets, loss_fn, num_micro_batches, activation_shape, group):
        if num_micro_batches < 1:  # every rank sees that by itself
            raise ValueError(f"num_micro_batches must be at least 1 (got {num_micro_batches})")
        self.stage, self.loss_fn, self.group = stage, loss_fn, group
        self.r, self.N, self.m = dist.get_rank(group), dist.get_world_size(group), num_micro_batches
        self.first, self.last = self.r == 0, self.r == self.N - 1

        # The ranks between know neither the batch nor, where a stage has no parameters, the dtype. So all tell all: a
        # rank that raised alone would leave the others waiting for its messages.
        batch = len(inputs) if self.first else None
        dtype = next((parameter.dtype for parameter in stage.parameters()), None)
        facts = [None] * self.N
        dist.all_gather_object(facts, (batch, dtype), group=group)
        batch = facts[0][0]
        if batch % self.m:
            raise ValueError(f"{self.m} micro-batches do not divide a batch of {batch} samples")
        self.dtype = next((dtype for _, dtype in facts if dtype is not None), torch.get_default_dtype())
        self.shape = (batch // self.m, *activation_shape)
        self.device = torch.device("cuda" if "nccl" in dist.get_backend_config(group) else "cpu")

        self.inputs = inputs.chunk(self.m) if self.first else None
        self.targets = targets.chunk(self.m) if self.last else None
        self.alive = {}  # of each micro-batch whose backward is to come: its input and output, and the send of that
        self.sends = []  # the gradients that are under way
        self.total = 0.0

    def forward(self, i):
        """Run the stage on micro-batch i, and hand its output on."""
        if self.first:
            x = self.inputs[i]
        else:
            # A leaf of this rank's graph: backward ends here, and leaves in x.grad what the rank before waits for.
            x = self.receive(self.r - 1).requires_grad_()
        y, sent = self.stage(x), None
        if self.last:
            # The batch's loss is the mean of the micro-batches' means: divided here, gradients simply add up.
            y = self.loss_fn(y, self.targets[i]) / self.m
            self.total += y.item()
        else:
            # Only begun. In 1F1B the next rank may be sending its gradient at this moment: if both waited for the
            # other to receive, neither ever would.
            sent = self.send(y.detach(), self.r + 1)
        self.alive[i] = x, y, sent

    def backward(self, i):
        """Run backward of micro-batch i, and hand the gradient of its input back. Frees what was kept for it."""
        x, y, sent = self.alive.pop(i)
        gradient = None if self.last else self.receive(self.r + 1)
        if sent is not None:
            sent[0].wait()  # at once: the next rank has sent a gradient for it, so it has received it
        if y.requires_grad:  # not so on a first rank without trainable parameters
            torch.autograd.backward(y, gradient)
        if not self.first:
            self.sends.append(self.send(x.grad, self.r - 1))

    def finish(self):
        """Wait until everything has been sent; the loss on the last rank."""
        for work, _ in self.sends:
            work.wait()
        return self.total if self.last else None

    def send(self, tensor, neighbour):
        """Begin to send. The memory that is read until the work is done comes with it, so that somebody holds it."""
        tensor = tensor.contiguous()
        return dist.isend(tensor, group=self.group, group_dst=neighbour), tensor

    def receive(self, neighbour):
        tensor = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        dist.recv(tensor, group=self.group, group_src=neighbour)
        return tensor
