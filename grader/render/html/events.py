"""What a rank did, as bars that can be drawn: times inside the run, a kind, words. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from grader.model import Deadlocked, Finished, RankRecord, Run, TimedOut, Wait
from grader.model.trace import Communication, Span, Trace
from grader.render.html.axis import lasting, moment
from grader.wording.text import ended, rank_list, waiting

LETTERS = {
    "all_reduce": "AR",
    "all_gather": "AG",
    "reduce_scatter": "RS",
    "broadcast": "BC",
    "reduce": "R",
    "gather": "G",
    "scatter": "S",
    "all_to_all": "AA",
    "barrier": "‖",
    "send": "→",
    "recv": "←",
    "forward": "F",
    "backward": "B",
    "optimizer": "O",
}
"""What stands in a bar that has no room for its name."""

REGION, PHASE, TALK = "region", "phase", "communication"
LONGEST = 1e7
"""Seconds. No run lasts longer; a forged report may say so."""

GROUP_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a rank did from `start` to `end`, in seconds. `open` says that it was not over: `stuck` then for
    good. `call` is the same for the calls of a collective that belong together on the ranks of a group."""

    layer: str
    kind: str
    name: str
    start: float
    end: float
    open: bool = False
    stuck: bool = False
    line: int | None = None
    details: tuple[str, ...] = ()
    call: str = ""
    message: tuple[int, int, int] | None = None

    @property
    def from_told(self) -> str:
        return moment(self.start)

    @property
    def for_told(self) -> str:
        if self.stuck:
            return "never ended"
        return "not over" if self.open else lasting(self.end - self.start)

    def told(self) -> str:
        """All of it in one line, parted by middle dots."""
        line = [f"line {self.line}"] if self.line else []
        lasts = self.for_told if self.open else f"for {self.for_told}"
        return " · ".join([self.name, *self.details, *line, f"from {self.from_told}", lasts])


def within(value: float, length: float) -> float:
    """A time inside the run. What a rank says may be anything."""
    return min(max(value, 0.0), length) if math.isfinite(value) else 0.0


def length_of(run: Run) -> float:
    """How long the drawing of a run is, in seconds: until the last rank has ended and the last event is over."""
    ends = [over for record in run.ranks if (over := _last(record)) is not None]
    return min(max([1e-4, *(ended_at(record, run) for record in run.ranks), *ends]), LONGEST)


def ended_at(record: RankRecord, run: Run) -> float:
    """When a rank ended, on the clock of the traces. Where nobody noted it: when the run was over."""
    noted = within(record.ending.seconds, LONGEST)
    return noted + delay(run) if noted > 0 else within(run.seconds, LONGEST)


def delay(run: Run) -> float:
    """By how much the clock of the endings is behind that of the traces: endings may be counted from the moment when
    all ranks had started. No rank ends before the last that it did."""
    behind = [
        over - record.ending.seconds
        for record in run.ranks
        if (over := _last(record)) is not None and math.isfinite(record.ending.seconds)
    ]
    return max([0.0, *behind])


def _last(record: RankRecord) -> float | None:
    """The last moment that a rank's trace tells of."""
    trace = record.trace or Trace()
    events: list[Communication | Span] = [*trace.communications, *trace.spans]
    moments = (event.start if event.end is None else event.end for event in events)
    return max((moment for moment in moments if 0 <= moment <= LONGEST), default=None)


def wait_of(record: RankRecord) -> Wait | None:
    """What a rank waited in when it was given up."""
    return record.ending.wait if isinstance(record.ending, Deadlocked | TimedOut) else None


def ending_told(record: RankRecord) -> str:
    """How a rank ended, in a few words: `waits in all_reduce, line 38`."""
    ending = record.ending
    words = f"raised {ending.type}" if ending.kind == "raised" and hasattr(ending, "type") else ended(ending)
    return f"{words}, line {ending.at}" if ending.at else words


def events_of(record: RankRecord, run: Run, length: float) -> tuple[Event, ...]:
    """Everything that a rank did, in the order of its beginning."""
    over, world_size = min(ended_at(record, run), length), len(run.ranks)
    if record.trace is None:
        return tuple(_untraced(record, over, length))
    spans = [_span(span, over) for span in record.trace.spans]
    talks = _talks(record, record.trace.communications, world_size, over, length)
    waits = wait_of(record)
    if waits and not any(talk.stuck for talk in talks):
        last = max((event.end for event in (*spans, *talks) if not event.open), default=over)
        talks.append(_wait(record, waits, last, length))
    return tuple(sorted([*spans, *talks], key=lambda event: event.start))


def _untraced(record: RankRecord, over: float, length: float) -> Iterator[Event]:
    """A plain bar up to the ending. Since when the rank had waited by then nobody knows."""
    yield Event(layer=TALK, kind="untraced", name="runs, without a trace", start=0.0, end=over)
    waits = wait_of(record)
    if waits:
        yield _wait(record, waits, over, length)


def _wait(record: RankRecord, waits: Wait, since: float, length: float) -> Event:
    return Event(
        layer=TALK,
        kind=_kind(waits.operation.partition(" ")[0]),
        name=f"waits in {waiting(waits)}",
        start=since,
        end=length,
        open=True,
        stuck=True,
        line=record.ending.at,
        details=("seen when the rank was given up",),
    )


def _span(span: Span, over: float) -> Event:
    start = within(span.start, over)
    end = over if span.end is None else max(start, within(span.end, over))
    named = span.name and span.name != span.kind
    name = span.name if span.kind == "region" else f"{span.kind} {span.name}" if named else span.kind
    layer = REGION if span.kind == "region" else PHASE
    kind = REGION if layer == REGION else _kind(span.kind)
    return Event(layer=layer, kind=kind, name=name, start=start, end=end, open=span.end is None)


def _talks(
    record: RankRecord, communications: Sequence[Communication], world_size: int, over: float, length: float
) -> list[Event]:
    """The communications. The calls of one group are counted, so that the n-th of each rank belong together; between
    two ranks messages keep their order."""
    calls: dict[tuple[int, ...], int] = defaultdict(int)
    messages: dict[tuple[str, int], int] = defaultdict(int)
    events = []
    for talk in communications:
        event = _talk(record, talk, world_size, over, length)
        if talk.operation in ("send", "recv"):
            if talk.peer is not None:
                way = (record.rank, talk.peer) if talk.operation == "send" else (talk.peer, record.rank)
                event = replace(event, message=(*way, messages[talk.operation, talk.peer]))
                messages[talk.operation, talk.peer] += 1
        else:
            event = replace(event, call=f"{_group_key(talk.group)}.{calls[talk.group]}")
            calls[talk.group] += 1
        events.append(event)
    return events


def _talk(record: RankRecord, talk: Communication, world_size: int, over: float, length: float) -> Event:
    start = within(talk.start, length)
    stuck = talk.end is None and wait_of(record) is not None
    end = length if stuck else over if talk.end is None else within(talk.end, length)
    return Event(
        layer=TALK,
        kind=_kind(talk.operation),
        name=talk.operation,
        start=start,
        end=max(start, end),
        open=talk.end is None,
        stuck=stuck,
        line=talk.line,
        details=tuple(_details(talk, world_size)),
    )


def _details(talk: Communication, world_size: int) -> Iterable[str]:
    if talk.bytes or talk.operation != "barrier":
        yield f"{talk.bytes:,} bytes {talk.dtype}".rstrip()
    if talk.peer is not None:
        yield f"{'to' if talk.operation == 'send' else 'peer'} rank {talk.peer}"
    if talk.operation not in ("send", "recv"):
        yield _group(talk.group, world_size)
    if talk.backward is not None:
        yield f"in backward {talk.backward + 1}"


def _group(group: tuple[int, ...], world_size: int) -> str:
    if len(set(group)) == world_size:
        return "all ranks" if world_size > 1 else "the only rank"
    more = f" and {len(group) - GROUP_SHOWN} more" if len(group) > GROUP_SHOWN else ""
    return f"group of {rank_list(group[:GROUP_SHOWN])}{more}"


def _group_key(group: tuple[int, ...]) -> str:
    return "-".join(map(str, group[:GROUP_SHOWN]))


def _kind(operation: str) -> str:
    """The word that chooses colour and pattern: one that we know, never a rank's own."""
    return operation if operation in LETTERS else "other"


def troubled(run: Run) -> bool:
    """Whether a run went wrong by itself, whatever the checks say."""
    return run.diagnosis is not None or any(not isinstance(rank.ending, Finished) for rank in run.ranks)
