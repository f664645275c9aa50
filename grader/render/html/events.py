"""What a rank did, as bars that can be drawn: times inside the run, a kind, words. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grader.model import Deadlocked, Finished, RankRecord, Run, TimedOut, Wait
from grader.render.html.axis import lasting, moment
from grader.trace import Communication, Span
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
            return "never ends"
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
    """How long the drawing of a run is, in seconds: until the last rank has ended."""
    known = [value for value in (rank.ending.seconds for rank in run.ranks) if math.isfinite(value)]
    traced = [
        event.start if event.end is None else event.end
        for rank in run.ranks
        if rank.trace
        for event in (*rank.trace.communications, *rank.trace.spans)
    ]
    bound = max([0.0, *known, run.seconds if math.isfinite(run.seconds) else 0.0])
    ends = [value for value in (*known, *traced) if math.isfinite(value) and value <= bound]
    return min(max([1e-4, *ends]), LONGEST)


def ended_at(record: RankRecord, length: float) -> float:
    """When a rank ended. Where nobody noted it: at the end of the run."""
    return within(record.ending.seconds, length) or length


def wait_of(record: RankRecord) -> Wait | None:
    """What a rank waited in when it was given up."""
    return record.ending.wait if isinstance(record.ending, Deadlocked | TimedOut) else None


def ending_told(record: RankRecord) -> str:
    """How a rank ended, in a few words: `waits in all_reduce, line 38`."""
    ending = record.ending
    words = f"raised {ending.type}" if ending.kind == "raised" and hasattr(ending, "type") else ended(ending)
    return f"{words}, line {ending.at}" if ending.at else words


def events_of(record: RankRecord, world_size: int, length: float) -> tuple[Event, ...]:
    """Everything that a rank did, in the order of its beginning."""
    over = ended_at(record, length)
    if record.trace is None:
        return (_untraced(record, over, length),)
    spans = [_span(span, over) for span in record.trace.spans]
    talks = _talks(record, record.trace.communications, world_size, over, length)
    waits = wait_of(record)
    if waits and not any(talk.stuck for talk in talks):
        last = max((event.end for event in (*spans, *talks) if not event.open), default=0.0)
        talks.append(_wait(record, waits, last, length))
    return tuple(sorted([*spans, *talks], key=lambda event: event.start))


def _untraced(record: RankRecord, over: float, length: float) -> Event:
    waits = wait_of(record)
    plain = Event(layer=TALK, kind="untraced", name="runs, without a trace", start=0.0, end=over)
    if waits is None:
        return plain
    name = f"runs, without a trace; {ended(record.ending)}"
    return replace(plain, name=name, end=length, open=True, stuck=True, line=record.ending.at)


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
    return Event(layer=layer, kind=span.kind, name=name, start=start, end=end, open=span.end is None)


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
