"""An assignment: exercises with weights, due dates and rules for what is handed in late. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from grader.model import Late

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRule:
    """Within `grace` nothing is lost; each begun day after the due date then costs `per_day` of the points (0.1 is a
    tenth); more than `days` days after it, nothing is earned."""

    grace: timedelta = timedelta(0)
    per_day: float = 0.0
    days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One exercise of an assignment. `weight` is in points. `due` names its time zone."""

    exercise: str
    weight: float
    due: datetime | None = None
    rule: LateRule = LateRule()

    def late(self, handed_in: datetime | None, extended: datetime | None = None) -> Late | None:
        """What handing in at a moment costs; None where it was in time or either moment is not known. `extended` is a
        later due date for this student alone."""
        due = max(filter(None, (self.due, extended)), default=None)
        if due is None or handed_in is None or handed_in <= due + self.rule.grace:
            return None
        begun = math.ceil((handed_in - due) / DAY)
        over = self.rule.days is not None and handed_in > due + self.rule.days * DAY
        kept = 0.0 if over else max(0.0, 1.0 - self.rule.per_day * begun)
        return Late(kept=kept, told=f"Handed in {_span(handed_in - due)} late: {_cost(kept)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What assignment.yaml says. `checks` is the folder of the course's own checks, if it has any."""

    title: str
    parts: tuple[Part, ...]
    checks: Path | None = None

    @property
    def points(self) -> float:
        return sum(part.weight for part in self.parts)


def _span(late: timedelta) -> str:
    """In the largest two units: `2 days 3 hours`."""
    minutes = math.ceil(late.total_seconds() / 60)
    parts = (minutes // 1440, "day"), (minutes // 60 % 24, "hour"), (minutes % 60, "minute")
    told = [f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in parts if count]
    return " ".join(told[:2])


def _cost(kept: float) -> str:
    if kept <= 0:
        return "it earns no points"
    return f"{100 * (1 - kept):.4g} % of the points are taken off" if kept < 1 else "nothing is taken off"
