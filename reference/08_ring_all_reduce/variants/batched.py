"""Send and receive of a step are handed over together, by batch_isend_irecv."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor, group=None):
    group = group or dist.group.WORLD
    size, me = group.size(), group.rank()
    left, right = (dist.get_global_rank(group, (me + way) % size) for way in (-1, 1))
    work = tensor.contiguous().flatten()
    chunks = list(torch.tensor_split(work, size))

    def step(outgoing, incoming):
        operations = [
            dist.P2POp(dist.isend, outgoing, right, group),
            dist.P2POp(dist.irecv, incoming, left, group),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()

    for number in range(size - 1):
        mine, theirs = chunks[me - number], chunks[me - number - 1]
        received = torch.zeros_like(theirs)
        step(mine, received)
        theirs += received
    for number in range(size - 1):
        step(chunks[(me + 1 - number) % size], chunks[me - number])
    tensor.copy_(work.reshape(tensor.shape))
