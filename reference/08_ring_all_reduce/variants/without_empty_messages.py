"""Chunks of ceil(numel/N) elements, of which the last may be empty: those are not sent. Small halves in float32."""

import torch
import torch.distributed as dist

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def ring_all_reduce(tensor, group=None):
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    n, me = len(ranks), ranks.index(dist.get_rank())
    if n == 1 or tensor.numel() == 0:
        return
    values = tensor.to(WIDER.get(tensor.dtype, tensor.dtype)).contiguous().view(-1)
    chunks = list(values.split(-(-values.numel() // n)))
    chunks += [values[:0]] * (n - len(chunks))

    def transfer(outgoing, expected):
        """What the left neighbour sends meanwhile, if it is anything."""
        received, requests = torch.empty_like(expected), []
        if outgoing.numel():
            requests.append(dist.isend(outgoing, ranks[(me + 1) % n], group))
        if expected.numel():
            requests.append(dist.irecv(received, ranks[me - 1], group))
        for request in requests:
            request.wait()
        return received

    for step in range(n - 1):
        chunks[me - step - 1] += transfer(chunks[me - step], chunks[me - step - 1])
    # In the narrow dtype from here on: what all have is what the owner of a chunk has rounded.
    chunks = [chunk.to(tensor.dtype) for chunk in chunks]
    for step in range(n - 1):
        chunks[me - step] = transfer(chunks[(me + 1 - step) % n], chunks[me - step])
    tensor.copy_(torch.cat(chunks).reshape(tensor.shape))
