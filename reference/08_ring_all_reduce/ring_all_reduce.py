"""All-reduce on a ring: N ranks, each of which sends to its right neighbour and receives from its left one.

The naive way hands whole tensors round: N - 1 times each rank sends all that it has just received and adds it to a sum
of its own. That costs (N - 1) * numel elements a rank, and every rank adds in an order of its own, so that the results
differ in their last bits. The ring cuts the tensor into N chunks instead and needs two rounds of N - 1 messages:

    reduce-scatter   chunk k sets out at rank k and goes once round the ring. Each rank adds its own part to what comes,
                     so after N - 1 steps rank k - 1 holds the sum of all ranks' chunks k. All chunks travel at once.
    all-gather       the finished chunks go round in the same way and are copied, not added.

Each rank sends 2(N - 1) chunks of at most ceil(numel / N) elements: less than twice the tensor, whatever N is, and no
algorithm sends less. Each chunk is added up once, by one chain of ranks, and then copied: so all ranks end with the
same bits.

Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (JPDC 2009),
section 3; Gibiansky, "Bringing HPC Techniques to Deep Learning" (2017).
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Replace `tensor` by the sum over the ranks of the group, in place. Collective: every rank of the group calls it.

    Sent by each rank: at most 2(N - 1) messages of ceil(numel / N) elements, all to its right neighbour.
    """
    rank, N = dist.get_rank(group), dist.get_world_size(group)  # of the group: its ranks have numbers of their own
    flat = tensor.contiguous().view(-1)  # the tensor itself where its elements lie one after the other, else a copy
    chunks = flat.tensor_split(N)  # always N of them, some empty if need be; they share flat's memory

    for step in range(N - 1):
        incoming = exchange(chunks[(rank - step) % N], chunks[(rank - step - 1) % N], group)
        chunks[(rank - step - 1) % N].add_(incoming)

    for step in range(N - 1):
        incoming = exchange(chunks[(rank + 1 - step) % N], chunks[(rank - step) % N], group)
        chunks[(rank - step) % N].copy_(incoming)

    if not tensor.is_contiguous():  # then `flat` is a copy, and the caller looks at the tensor
        tensor.copy_(flat.view_as(tensor))


def exchange(outgoing: torch.Tensor, expected: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
    """Send a chunk to the right neighbour, and return what comes from the left one, as large as `expected`."""
    rank, N = dist.get_rank(group), dist.get_world_size(group)
    incoming = torch.empty_like(expected)
    # If all ranks sent first and waited for it, nobody would ever receive. So both are begun at once, and nobody may
    # write to what is being sent before both are done. NCCL wants them in one batch: it sends and receives in the order
    # of the calls, which has to fit on both sides.
    sending = dist.P2POp(dist.isend, outgoing, group=group, group_peer=(rank + 1) % N)
    receiving = dist.P2POp(dist.irecv, incoming, group=group, group_peer=(rank - 1) % N)
    for work in dist.batch_isend_irecv([sending, receiving]):
        work.wait()
    return incoming
