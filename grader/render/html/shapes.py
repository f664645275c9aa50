"""What a drawing consists of, in units of an SVG: values alone, for the template. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grader.render.html.axis import Axis
from grader.render.html.events import LETTERS, Event

PHASES = ("forward", "backward", "optimizer")
TALKS = tuple(kind for kind in LETTERS if kind not in PHASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One event where it stands. `label` is what there is room for, at `label_x`."""

    event: Event
    x: float
    y: float
    width: float
    height: float
    label: str
    label_x: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def edge(self) -> str:
        """The outline of a bar that is not over: its right end is ragged."""
        right, top, bottom = self.x + self.width, self.y, self.y + self.height
        teeth = [(right - (4 if number % 2 else 0), top + (bottom - top) * number / 6) for number in range(7)]
        points = [(self.x, top), *teeth, (self.x, bottom)]
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Bars that do not overlap. Only the first lane of a layer has a title."""

    title: str
    y: float
    height: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """How a rank ended, at its moment."""

    x: float
    text_x: float
    anchor: str
    text: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One rank. `left_out` counts the events that are not drawn; `last` says that they are the earlier ones."""

    rank: int
    y: float
    height: float
    lanes: tuple[Lane, ...]
    flag: Flag
    left_out: int
    last: bool
    incomplete: bool

    @property
    def events(self) -> list[Event]:
        """What is drawn, in the order of its beginning."""
        return sorted((bar.event for lane in self.lanes for bar in lane.bars), key=lambda event: event.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """From a send to the receive that took it."""

    x: float
    y: float
    to_x: float
    to_y: float

    @property
    def path(self) -> str:
        """A curve that leaves its bar downwards or upwards."""
        bend = (self.to_y - self.y) / 2
        return (
            f"M{self.x:.1f},{self.y:.1f} C{self.x:.1f},{self.y + bend:.1f} "
            f"{self.to_x:.1f},{self.to_y - bend:.1f} {self.to_x:.1f},{self.to_y:.1f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A place where the axis is cut."""

    x: float
    middle: float
    right: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The steps of one rank, and how much of the row is none: `idle 27 %`; `told` says more."""

    rank: int
    y: float
    height: float
    bars: tuple[Bar, ...]
    idle: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The steps that the probe has marked in one region."""

    name: str
    height: float
    grid: tuple[float, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that is drawn of a run. `stuck` is the moment after which nothing moves."""

    height: float
    axis: Axis
    bands: tuple[Band, ...]
    arrows: tuple[Arrow, ...]
    breaks: tuple[Break, ...]
    stuck: tuple[float, str] | None
    more_ranks: int
    charts: tuple[Chart, ...] = ()

    @property
    def size(self) -> int:
        """How many bars there are."""
        lanes = [lane.bars for band in self.bands for lane in band.lanes]
        return sum(map(len, [*lanes, *(row.bars for chart in self.charts for row in chart.rows)]))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of bars that are there, in the order of the legend."""
        present = {bar.event.kind for band in self.bands for lane in band.lanes for bar in lane.bars}
        return tuple(kind for kind in ("region", *PHASES, *TALKS, "other", "untraced") if kind in present)

    @property
    def is_stuck(self) -> bool:
        return any(bar.event.stuck for band in self.bands for lane in band.lanes for bar in lane.bars)
