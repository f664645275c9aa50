"""What each rank did, when, and what it was stuck in: the one value that every drawing of a run is made from. Pure.

Times are seconds since the run began. What a rank says of its times may be anything, so events are brought inside the
run; a wait that only the grader saw, when it gave the rank up, is added; sends and receives are paired.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.model import Deadlocked, RankRecord, Run, TimedOut, Wait
from grader.model.trace import Communication, Span, Trace

LONGEST = 1e7
"""Seconds. No run lasts longer; a forged report may say so."""

Group = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a rank did from `start` to `end`: `source` is what its trace says of it, or the wait in which the
    rank was given up. `open` says that it was not over; `stuck` then for good.

    `call` is the same for the calls of a collective that belong together on the ranks of a group: the group and how
    many there were before. `message` is the same for a send and its receive: from, to, and how many there were before.
    """

    source: Communication | Span | Wait
    start: float
    end: float
    open: bool = False
    stuck: bool = False
    call: tuple[Group, int] | None = None
    message: tuple[int, int, int] | None = None

    @property
    def operation(self) -> str:
        """The operation's name as in a trace: recv, also where the rank waits in "recv from rank 1", and lock where it
        waits in "a lock of its own process". None of a span."""
        return "" if isinstance(self.source, Span) else self.source.operation.removeprefix("a ").partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One rank: when it ended, what it waited in for good, and its events in the order of their beginning."""

    record: RankRecord
    ended: float
    wait: Wait | None
    events: tuple[Event, ...]

    def spans(self, kind: str) -> tuple[Event, ...]:
        return tuple(event for event in self.events if isinstance(event.source, Span) and event.source.kind == kind)

    @property
    def communications(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if not isinstance(event.source, Span))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A region in which the probe marked steps: its name, and the steps of each rank that was there, in order."""

    name: str
    rows: dict[int, tuple[Event, ...]]

    @property
    def start(self) -> float:
        """When the first step began."""
        return min(step.start for steps in self.rows.values() for step in steps)

    @property
    def end(self) -> float:
        """When the last step was over."""
        return max(step.end for steps in self.rows.values() for step in steps)

    def idle(self, rank: int) -> float:
        """The share of the time between them in which a rank was in no step."""
        busy, until = 0.0, self.start
        for step in self.rows[rank]:
            busy, until = busy + max(0.0, step.end - max(step.start, until)), max(until, step.end)
        return 1 - busy / (self.end - self.start) if self.end > self.start else 0.0


def schedules(bands: Sequence[Band]) -> tuple[Schedule, ...]:
    """The regions with steps, in the order of their beginning. A step is of the region that began last before it."""
    found: dict[str, dict[int, list[Event]]] = {}
    for band in bands:
        regions, rank = band.spans("region"), band.record.rank
        begins = [region.start for region in regions]
        for region in regions:
            found.setdefault(_name(region), {}).setdefault(rank, [])
        for step in band.spans("step"):
            place = bisect_right(begins, step.start) - 1
            if place >= 0 and step.start <= regions[place].end:
                found[_name(regions[place])][rank].append(step)
    rows = {name: {rank: tuple(steps) for rank, steps in by_rank.items()} for name, by_rank in found.items()}
    return tuple(Schedule(name=name, rows=by_rank) for name, by_rank in rows.items() if any(by_rank.values()))


def timeline(run: Run) -> tuple[Band, ...]:
    """A band for each rank of the run, in the order of the ranks."""
    behind, length = _behind(run), length_of(run)
    return tuple(_band(record, _ended(record, run, behind), length) for record in run.ranks)


def length_of(run: Run) -> float:
    """How long a run was, in seconds: until the last rank has ended and the last event is over."""
    behind = _behind(run)
    lasts = [last for record in run.ranks if (last := _last(record)) is not None]
    return min(max([1e-4, *(_ended(record, run, behind) for record in run.ranks), *lasts]), LONGEST)


def ended_at(record: RankRecord, run: Run) -> float:
    """When a rank ended, on the clock of the traces. Where nobody noted it: when the run was over."""
    return _ended(record, run, _behind(run))


def wait_of(record: RankRecord) -> Wait | None:
    """What a rank waited in when it was given up."""
    return record.ending.wait if isinstance(record.ending, Deadlocked | TimedOut) else None


def _ended(record: RankRecord, run: Run, behind: float) -> float:
    noted = _within(record.ending.seconds, LONGEST)
    return noted + behind if noted > 0 else _within(run.seconds, LONGEST)


def _behind(run: Run) -> float:
    """By how much the clock of the endings is behind that of the traces: endings may be counted from the moment when
    all ranks had started. No rank ends before the last that it did."""
    delays = [
        last - record.ending.seconds
        for record in run.ranks
        if (last := _last(record)) is not None and math.isfinite(record.ending.seconds)
    ]
    return max([0.0, *delays])


def _last(record: RankRecord) -> float | None:
    """The last moment that a rank's trace tells of."""
    trace = record.trace or Trace()
    events: list[Communication | Span] = [*trace.communications, *trace.spans]
    moments = (event.start if event.end is None else event.end for event in events)
    return max((moment for moment in moments if 0 <= moment <= LONGEST), default=None)


def _name(event: Event) -> str:
    return event.source.name if isinstance(event.source, Span) else ""


def _within(value: float, length: float) -> float:
    """A time inside the run."""
    return min(max(value, 0.0), length) if math.isfinite(value) else 0.0


def _band(record: RankRecord, ended: float, length: float) -> Band:
    over, wait, trace = min(ended, length), wait_of(record), record.trace or Trace()
    events = [_span(span, over) for span in trace.spans]
    events += _communications(record, trace, wait is not None, over, length)
    if wait and not any(event.stuck for event in events):
        since = max((event.end for event in events if not event.open), default=over)
        events.append(Event(source=wait, start=since, end=length, open=True, stuck=True))
    return Band(record=record, ended=over, wait=wait, events=tuple(sorted(events, key=lambda event: event.start)))


def _span(span: Span, over: float) -> Event:
    start = _within(span.start, over)
    end = over if span.end is None else max(start, _within(span.end, over))
    return Event(source=span, start=start, end=end, open=span.end is None)


def _communications(record: RankRecord, trace: Trace, waits: bool, over: float, length: float) -> Iterator[Event]:
    """The calls of one group are counted, so that the n-th of each rank belong together; between two ranks messages
    keep their order."""
    calls: dict[Group, int] = defaultdict(int)
    messages: dict[tuple[int, int], int] = defaultdict(int)
    for source in trace.communications:
        call, message = None, None
        if source.operation not in ("send", "recv"):
            call = (source.group, calls[source.group])
            calls[source.group] += 1
        elif source.peer is not None:
            way = (record.rank, source.peer) if source.operation == "send" else (source.peer, record.rank)
            message = (*way, messages[way])
            messages[way] += 1
        start, stuck = _within(source.start, length), source.end is None and waits
        end = length if stuck else over if source.end is None else max(start, _within(source.end, length))
        is_open = source.end is None
        yield Event(
            source=source, start=start, end=max(start, end), open=is_open, stuck=stuck, call=call, message=message
        )
