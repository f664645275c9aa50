"""What a rank did, as bars that can be drawn: the events of its timeline with a kind and words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from grader import timeline
from grader.model import Finished, RankRecord, Run
from grader.model.trace import Communication, Span
from grader.model.words import rank_list
from grader.render.html.axis import lasting, moment
from grader.wording.text import ended, waiting

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
STEP = "step"
GROUP_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a timeline, as the page shows it: `call` names those that belong together, for the page's script."""

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


def ending_told(record: RankRecord) -> str:
    """How a rank ended, in a few words: `waits in all_reduce, line 38`."""
    ending = record.ending
    words = f"raised {ending.type}" if ending.kind == "raised" and hasattr(ending, "type") else ended(ending)
    return f"{words}, line {ending.at}" if ending.at else words


def events_of(band: timeline.Band, world_size: int) -> tuple[Event, ...]:
    """Everything that a rank did, in the order of its beginning. Of a rank without a trace, a plain bar up to its
    ending: when it began to wait is unknown."""
    steps = set(map(id, band.spans(STEP)))  # they have a drawing of their own
    shown = [_event(event, band.record, world_size) for event in band.events if id(event) not in steps]
    if band.record.trace is None:
        shown.insert(0, Event(layer=TALK, kind="untraced", name="runs, without a trace", start=0.0, end=band.ended))
    return tuple(shown)


def step_of(event: timeline.Event) -> Event:
    """A step that the probe has named, such as "forward 3"; its first word chooses the colour."""
    name = event.source.name if isinstance(event.source, Span) else ""
    return Event(
        layer=STEP, kind=_kind(name.partition(" ")[0]), name=name, start=event.start, end=event.end, open=event.open
    )


def _event(event: timeline.Event, record: RankRecord, world_size: int) -> Event:
    times = Event(layer=TALK, kind="", name="", start=event.start, end=event.end, open=event.open, stuck=event.stuck)
    match event.source:
        case Span() as span:
            named = span.name and span.name != span.kind
            name = span.name if span.kind == REGION else f"{span.kind} {span.name}" if named else span.kind
            is_region = span.kind == REGION
            kind = REGION if is_region else _kind(span.kind)
            return replace(times, layer=REGION if is_region else PHASE, kind=kind, name=name)
        case Communication() as talk:
            return replace(
                times,
                kind=_kind(talk.operation),
                name=talk.operation,
                line=talk.line,
                details=tuple(_details(talk, world_size)),
                call=f"{_group_key(event.call[0])}.{event.call[1]}" if event.call else "",
                message=event.message,
            )
        case waits:
            return replace(
                times,
                kind=_kind(event.operation),
                name=f"waits in {waiting(waits)}",
                line=record.ending.at,
                details=("seen when the rank was given up",),
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
