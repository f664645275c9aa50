"""Padded with zeros to a multiple of N, so that all messages are equally long; one row of a matrix is a chunk."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def ring_all_reduce(tensor, group=None):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    rows = pad(tensor.flatten(), (0, -tensor.numel() % n)).view(n, -1)
    buffer = torch.empty_like(rows[0])
    # Rank r is to end the first phase with row r, so it begins with the row before it.
    for phase in (1, 0):
        for step in range(n - 1):
            row = (r - step - phase) % n
            receiving = dist.irecv(buffer, group=group, group_src=(r - 1) % n)
            sending = dist.isend(rows[row], group=group, group_dst=(r + 1) % n)
            receiving.wait()
            sending.wait()
            if phase:
                rows[row - 1] += buffer
            else:
                rows[row - 1] = buffer
    tensor[...] = rows.view(-1)[: tensor.numel()].view(tensor.shape)
