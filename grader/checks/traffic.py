"""What checks ask of a trace: selections of communications, what a rank sends, and whether ranks agree.

Bytes are counted at ring cost, the least that each rank of a group of n must send for a payload of b bytes:
all_reduce 2(n-1)/n b (a reduce-scatter and an all-gather), all_gather, reduce_scatter and all_to_all (n-1)/n b,
broadcast, reduce, gather and scatter likewise as the mean over the group (a chain in which one rank sends nothing),
send b, recv and barrier 0. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from grader.model.trace import Communication, Span, Trace
from grader.model.words import amount

FACTORS = {"all_reduce": 2.0, "recv": 0.0, "barrier": 0.0}


def sent_bytes(communication: Communication) -> float:
    """Bytes that a rank sends for one communication, at ring cost."""
    factor = FACTORS.get(communication.operation, 1.0)
    if communication.operation == "send":
        return float(communication.bytes)
    n = max(1, len(communication.group))
    return factor * (n - 1) / n * communication.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Communications of one rank, in the order of launch. Every selection is a Traffic again."""

    communications: tuple[Communication, ...]
    spans: tuple[Span, ...] = ()
    start: float = float("-inf")
    end: float = float("inf")

    def __iter__(self) -> Iterator[Communication]:
        return iter(self.communications)

    def __len__(self) -> int:
        return len(self.communications)

    @property
    def bytes(self) -> int:
        """The payload of all of them."""
        return sum(communication.bytes for communication in self)

    @property
    def sent_bytes(self) -> float:
        """What this rank sends for all of them, at ring cost."""
        return sum(sent_bytes(communication) for communication in self)

    @property
    def peers(self) -> tuple[int, ...]:
        """The global ranks at the other end of its messages, each once. A `recv` from any rank names none."""
        return tuple(sorted({c.peer for c in self if c.peer is not None}))

    @property
    def regions(self) -> tuple[str, ...]:
        """The names that the probe gave to stretches of time."""
        return tuple(span.name for span in self.spans if span.kind == "region")

    @property
    def backwards(self) -> tuple[int, ...]:
        """The ordinals of the backward passes that began in this stretch of time, those without communication too."""
        passes = [span for span in self.spans if span.kind == "backward"]
        return tuple(number for number, span in enumerate(passes) if self.start <= span.start < self.end)

    def during(self, region: str) -> Traffic:
        """What was launched in a region. Raises KeyError for a region that this rank never entered."""
        span = next((span for span in self.spans if (span.kind, span.name) == ("region", region)), None)
        if span is None:
            raise KeyError(region)
        start, end = span.start, float("inf") if span.end is None else span.end
        return replace(self._where(lambda c: start <= c.start < end), start=start, end=end)

    def of(self, *operations: str) -> Traffic:
        return self._where(lambda c: c.operation in operations)

    def at_least(self, size: float) -> Traffic:
        """Those whose payload has at least `size` bytes."""
        return self._where(lambda c: c.bytes >= size)

    def below(self, size: float) -> Traffic:
        return self._where(lambda c: c.bytes < size)

    def not_over(self) -> Traffic:
        """Those that had not ended when this stretch of time did: nobody had waited for them."""
        return self._where(lambda c: c.end is None or c.end > self.end)

    def in_group(self, ranks: Sequence[int]) -> Traffic:
        """Those of the group of these global ranks."""
        return self._where(lambda c: set(c.group) == set(ranks))

    def with_peers(self, *ranks: int) -> Traffic:
        """Messages that go to one of these global ranks, or come from one."""
        return self._where(lambda c: c.peer in ranks)

    def in_backward(self, ordinal: int) -> Traffic:
        """Those launched during one backward pass."""
        return self._where(lambda c: c.backward == ordinal)

    def overlapping(self) -> Traffic:
        """Those launched while their backward pass still had gradients to compute."""
        return self._where(lambda c: bool(c.remaining))

    def _where(self, wanted: Callable[[Communication], bool]) -> Traffic:
        return replace(self, communications=tuple(c for c in self if wanted(c)))


def traffic(trace: Trace) -> Traffic:
    """All of a rank's trace."""
    return Traffic(communications=trace.communications, spans=trace.spans)


def disagreement(by_rank: Mapping[int, Traffic]) -> tuple[tuple[int, ...], int, dict[int, str]] | None:
    """The first place where ranks of one group do not launch the same: the group, the place in its order counted from
    0, and what each rank launched there. Point-to-point messages are not compared. None if all agree."""
    groups = sorted({c.group for part in by_rank.values() for c in part if not _paired(c)})
    for group in groups:
        orders = {
            rank: [c for c in by_rank[rank] if c.group == group and not _paired(c)] for rank in group if rank in by_rank
        }
        for place, launched in enumerate(zip_longest(*orders.values())):
            if len({_shape(c) for c in launched}) > 1:
                return group, place, {rank: _told(c) for rank, c in zip(orders, launched, strict=True)}
    return None


def _paired(communication: Communication) -> bool:
    return communication.operation in ("send", "recv")


def _shape(communication: Communication | None) -> tuple[object, ...] | None:
    """What ranks must agree in. The parts of an all-to-all may differ in size."""
    if communication is None:
        return None
    size = 0 if communication.operation == "all_to_all" else communication.bytes
    return communication.operation, size, communication.dtype


def _told(communication: Communication | None) -> str:
    if communication is None:
        return "nothing"
    return f"{communication.operation} of {amount(communication.bytes)} {communication.dtype}".strip()
