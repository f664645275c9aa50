"""Expectations about what the kernel counted between a run's processes (see grader.model.witness). No rank can forge
less than was moved, nor more without moving it.

A machine that has no such witness (see docs/security.md) fails nobody: the report says that it had none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from grader.checks.expect import Expectations
from grader.checks.traffic import sent_bytes
from grader.model import Run
from grader.model.trace import Communication
from grader.model.witness import Witness
from grader.model.words import amount

LEAST = 0.9
"""Of what the traces show at ring cost, so much must have moved. No operation of gloo's was seen to move less than all
of it (docs/witnesses.md)."""
MOVED = {"reduce_scatter": 2.0, "reduce": 1.5}
"""What gloo moves of an operation at ring cost, at most, where that is not once: a reduce-scatter is an all-reduce."""
MOST, PER_OPERATION = 1.25, 2048
"""At most so many times that, and so many bytes a pair of ranks for each operation; gloo's own were 1.01 and 600, those
of right solutions, with all that they did, 1.06 and 1440."""
SETTING_UP = 4 * 1024
"""Bytes a pair of ranks that making groups may move beside, over a whole run; gloo's own were 10 a group."""
STORE, PER_CONNECTION, MOST_CONNECTIONS = 8 * 1024, 512, 64
"""Bytes that a store may move over a whole run: so many a rank, and so many for each connection between two ranks, of
which so many a pair count: a group connects all its ranks, and they find one another by the store. Groups of gloo's
took 243 to 470 bytes a connection (a group for each of the units of 12, on 3 and on 2 ranks)."""
BETWEEN, STORED = "the bytes that the ranks' processes exchanged", "the bytes that went through a store"
UNHEARD = "How do the ranks' processes hear of one another? It has to be through the process group."
"""The hint where too little was moved for values that are right, of which the check's own hints do not speak."""


class Witnessed(Expectations):
    """The part of a RunView that looks at its witness."""

    run: Run

    def expect_moved(self, at_least: float, subject: str = BETWEEN, **fields: Any) -> None:
        """All ranks are connected, each with each or by way of others, and at least so many bytes went between them.
        What was closed before anybody saw whose it was counts for the run, unless all are seen to be connected and
        their groups are held to the end (`hold_group`): then it is some other program's."""
        witness = self._witness()
        if witness is None:
            return
        alone = _parts(self.world_size, [link.ranks for link in witness.links]) - 1
        connected = alone <= witness.unclaimed.connections
        fields, links = {"hint": UNHEARD, **fields}, "connections between the ranks' processes"
        self.expect(connected, links, "all ranks connected", "ranks without any", **fields)
        seen = alone == 0 and self.case.hold_group
        moved = witness.peer_bytes + (0 if seen else witness.unclaimed.bytes)
        self.expect(moved >= at_least, subject, f"at least {amount(at_least)}", amount(moved), **fields)

    def expect_confirmed(self) -> None:
        """What the traces of the ranks show is what moved: not less, and not much more; next to nothing of it through a
        store. A run without communication in its traces has to be silent as well."""
        traces = [record.trace for record in self.run.ranks]
        launched = [one for trace in traces if trace for one in trace.communications]
        if not all(trace and trace.complete for trace in traces):
            self.fail("What the ranks communicated", actual="not all of it was told")
        least = sum(map(sent_bytes, launched))
        self.expect_moved(LEAST * least if launched else 0)
        witness = self._witness()
        if witness is None:
            return
        self.expect(witness.complete, "the connections of the ranks", "some hundreds", "more than can be counted")
        most = self._most(launched)
        self.expect(
            witness.peer_bytes <= most,
            BETWEEN,
            f"at most {amount(most)}, since the collectives that were seen explain {amount(least)}",
            amount(witness.peer_bytes),
        )
        most = self.world_size * STORE + PER_CONNECTION * sum(
            min(link.connections, MOST_CONNECTIONS) for link in witness.links if len(link.ranks) == 2
        )
        self.expect(witness.store_bytes <= most, STORED, f"at most {amount(most)}", amount(witness.store_bytes))

    def _witness(self) -> Witness | None:
        """None where there was nothing to see, or nobody who could."""
        witness = self.run.witness
        return witness if witness and not witness.absent and self.world_size > 1 else None

    def _most(self, launched: Sequence[Communication]) -> float:
        pairs = self.world_size * (self.world_size - 1) / 2
        moved = sum(MOVED.get(one.operation, 1.0) * sent_bytes(one) for one in launched)
        return MOST * moved + pairs * (SETTING_UP + PER_OPERATION * len(launched) / self.world_size)


def _parts(world_size: int, links: Iterable[tuple[int, ...]]) -> int:
    """How many groups of ranks there are that no connection joins."""
    part = list(range(world_size))
    for ranks in links:
        joined = {part[rank] for rank in ranks if rank < world_size}
        part = [min(joined) if one in joined else one for one in part]
    return len(set(part))
