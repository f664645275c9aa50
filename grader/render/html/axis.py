"""The time axis of a drawing: seconds to pixels, with long silent stretches cut out. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

CUT_WIDTH = 40.0
"""Pixels that a silent stretch is given, however long it was."""

DWARFS, SHARE = 4.0, 0.5
"""Stretches are cut that are so many times as long as any that is kept, and take such a share of what is drawn."""

BUSY = 0.3
"""How much a stretch counts in which a rank is in the midst of something that ends."""

MOST_CUTS = 8
TICK = 64.0
"""Pixels between ticks, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of time and where it is drawn."""

    start: float
    end: float
    left: float
    right: float
    cut: bool

    def x(self, moment: float) -> float:
        share = (moment - self.start) / (self.end - self.start) if self.end > self.start else 0.0
        return self.left + share * (self.right - self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label of the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Pieces that follow one another without a gap."""

    pieces: tuple[Piece, ...]

    def x(self, moment: float) -> float:
        """Where a moment is drawn. What lies outside is drawn at the edge."""
        piece = next((piece for piece in self.pieces if moment <= piece.end), self.pieces[-1])
        return piece.x(min(max(moment, piece.start), piece.end))

    @property
    def cuts(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.cut)

    def ticks(self) -> tuple[Tick, ...]:
        """Round numbers, at least TICK apart and never inside a cut."""
        whole = sum(piece.end - piece.start for piece in self.pieces if not piece.cut)
        room = sum(piece.right - piece.left for piece in self.pieces if not piece.cut)
        step = _round_up(whole * TICK / room) if whole > 0 and room > 0 else 1.0
        ticks: list[Tick] = []
        for piece in self.pieces:
            if not piece.cut:
                ticks += [tick for tick in _of_piece(piece, step) if not ticks or tick.x - ticks[-1].x >= TICK * 0.8]
        beside = [edge for piece in self.cuts for edge in (piece.left, piece.right)]
        return tuple(tick for tick in ticks if all(abs(tick.x - edge) >= TICK / 3 for edge in beside))


def axis(moments: Iterable[float], busy: Sequence[tuple[float, float]], left: float, right: float) -> Axis:
    """An axis from 0 to the last of `moments`, the times at which something begins or ends.

    A stretch without any is cut if it dwarfs the rest; one that lies within one of `busy` has to be longer for that.
    """
    known = sorted({0.0, *(round(moment, 6) for moment in moments)})
    if known[-1] < 1e-6:
        known.append(1e-3)
    gaps = list(pairwise(known))
    cuts = _cuts(gaps, busy)
    joined = list(_joined(gaps, cuts))
    whole = sum(end - start for start, end, cut in joined if not cut)
    scale = (right - left - CUT_WIDTH * len(cuts)) / whole
    pieces, x = [], left
    for start, end, cut in joined:
        width = CUT_WIDTH if cut else (end - start) * scale
        pieces.append(Piece(start=start, end=end, left=x, right=x + width, cut=cut))
        x += width
    return Axis(pieces=tuple(pieces))


def _cuts(gaps: Sequence[tuple[float, float]], busy: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The silent stretches to leave out: the longest, where they dwarf all the others, and so on with the others."""

    def weight(gap: tuple[float, float]) -> float:
        within = any(start <= gap[0] and gap[1] <= end for start, end in busy)
        return (gap[1] - gap[0]) * (BUSY if within else 1.0)

    kept = math.fsum(end - start for start, end in gaps)
    candidates = sorted(gaps, key=lambda gap: gap[0] - gap[1])[: 4 * MOST_CUTS]
    longest = sorted(((weight(gap), gap) for gap in candidates), reverse=True)
    cuts: set[tuple[float, float]] = set()
    while count := _giants([length for length, _ in longest], kept, MOST_CUTS - len(cuts)):
        cuts |= {gap for _, gap in longest[:count]}
        kept -= math.fsum(end - start for _, (start, end) in longest[:count])
        longest = longest[count:]
    return cuts


def _giants(lengths: Sequence[float], whole: float, most: int) -> int:
    """How many of the longest dwarf all the others: up to where the lengths, longest first, fall most steeply."""
    falls = [
        (lengths[count - 1] / lengths[count], count)
        for count in range(1, min(most, len(lengths) - 1) + 1)
        if lengths[count - 1] > SHARE * (whole - sum(lengths[:count]))
    ]
    fall, count = max(falls, default=(0.0, 0))
    return count if fall > DWARFS else 0


def _joined(gaps: Sequence[tuple[float, float]], cuts: set[tuple[float, float]]) -> Iterator[tuple[float, float, bool]]:
    """Cuts as they are, and everything between two cuts as one stretch."""
    begun = None
    for gap in gaps:
        if gap in cuts:
            if begun is not None:
                yield begun, gap[0], False
            yield *gap, True
            begun = None
        elif begun is None:
            begun = gap[0]
    if begun is not None:
        yield begun, gaps[-1][1], False


def _of_piece(piece: Piece, step: float) -> Iterator[Tick]:
    first, last = math.ceil(piece.start / step - 1e-9), math.floor(piece.end / step + 1e-9)
    for number in range(first, min(last, first + 40) + 1):
        yield Tick(x=piece.x(number * step), text=_told(number * step, step))


def _round_up(step: float) -> float:
    """The next larger of 1, 2, 5, 10, 20, …, as a step between ticks."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= step * (1 - 1e-9))


def _told(moment: float, step: float) -> str:
    """In milliseconds where the ticks are closer than a tenth of a second."""
    if step >= 0.1:
        return f"{moment:.{0 if step >= 1 else 1}f} s"
    places = max(0, -math.floor(math.log10(step * 1e3) + 1e-9))
    return f"{moment * 1e3:.{places}f} ms"


def lasting(seconds: float) -> str:
    """A duration as a person would say it: 2.13 s, 41.5 ms, 380 µs."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def moment(seconds: float) -> str:
    """A point in time, in milliseconds: 412.7 ms; from ten seconds on in seconds."""
    return f"{seconds * 1e3:.1f} ms" if seconds < 10 else f"{seconds:.2f} s"
