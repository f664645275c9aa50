"""Exercise 02: deal a data set to the ranks, shuffled anew in every epoch, without a single message.

Run `make grade EX=02` as often as you like. The statement is in README.md beside this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized

from torch.utils.data import Sampler


class ShardedSampler(Sampler[int]):
    """The indices of one rank's share of a data set, to be used as the `sampler` of a DataLoader.

    Nothing in this class is a collective call: it needs no process group and sends nothing. All ranks build it with
    the same arguments except `rank`, and what each of them draws fits together by arithmetic alone.

    With n = len(dataset) and N = num_replicas:

    - Every rank draws ceil(n/N) indices, or floor(n/N) with `drop_last`.
    - Together the ranks draw every index in range(n); where N does not divide n, some are repeated as padding, no more
      than needed. With `drop_last` none is repeated, and the tail of the epoch's order is left out.
    - With `shuffle` the order is one permutation of the whole data set for each (seed, epoch), the same on all ranks.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        """Remember what to deal.

        Args:
            dataset: the map-style data set, of which only the length is used; no sample is read. It may be smaller than
                `num_replicas`, or empty.
            num_replicas: the number of ranks that share the data set, N.
            rank: the rank whose share this is, in [0, N). It is given: do not ask the process group or the environment.
            shuffle: False keeps the data set's order, whatever the seed and the epoch.
            seed: chooses, together with the epoch, the permutation. The same number on all ranks.
            drop_last: leave out the tail of the order rather than pad it.

        Raises:
            ValueError: `rank` is not in [0, num_replicas).
        """
        # TODO: check the rank, then keep what the other methods need.
        raise NotImplementedError("ShardedSampler.__init__ is still to be written")

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the passes that follow. A training loop calls it on every rank before each epoch."""
        # TODO: the order depends on the seed and on this number, not on how often or in which order it was set.
        raise NotImplementedError("ShardedSampler.set_epoch is still to be written")

    def __len__(self) -> int:
        """The number of indices that this rank draws in one pass: the same on every rank."""
        # TODO: ceil(n/N), or floor(n/N) with drop_last.
        raise NotImplementedError("ShardedSampler.__len__ is still to be written")

    def __iter__(self) -> Iterator[int]:
        """One pass over this rank's share: plain Python ints in [0, len(dataset)), and len(self) of them.

        The global random number generators of torch, NumPy and Python are where they were whenever an index is handed
        out, and have no influence on it.
        """
        # TODO: order the whole data set, pad or cut the order to a multiple of N, then take this rank's part.
        raise NotImplementedError("ShardedSampler.__iter__ is still to be written")
