"""What a batch knows of one hand-in of one exercise: what reports of a class are made from. Standard library only."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple


class Standing(Enum):
    """How far a unit of work has come."""

    EXPECTED = "expected"
    """Not graded yet."""
    FINAL = "final"
    BROKEN = "broken"
    """The grader could not judge it: no mark, and the next round tries it again."""
    QUARANTINED = "quarantined"
    """It lost two different workers: no mark, never a zero, and listed for a person."""


KEY = 32
"""Characters of what a text of a summary is known by."""


class Summary(NamedTuple):
    """What a class report takes from a report, as text (`report.summary`): what is the grade's own, which begins with
    the key of the other text; and what it has in common with other grades. Both are empty where there are none."""

    own: str = ""
    common: str = ""


NO_SUMMARY = Summary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One exercise of one person's hand-in.

    `unit` is the same for identical files. `kept` is the share of the points that lateness leaves, `weight` what the
    exercise is worth in the assignment. `report` reads the report (docs/report.schema.json) when it is asked for, and
    is None where there is none yet; `source` is the submitted file, or None where it is missing. `unstable` says that
    two grades of the unit gave different verdicts, and `flipped` names the checks that came out otherwise. `attempt` is
    which of this person's hand-ins it is, from 1, and `counts` whether it is the one that is marked. `seconds`, `busy`
    and `cpu` are those of the slot's grade, 0 where there was none. `summary` is of the report, where it is known.

    Where the report, the submitted file and the runs lie is text, empty where there is none: of a hundred thousand rows
    a class report opens few files, and a path takes longer to make than the rest of a row."""

    who: str
    exercise: str
    unit: str
    standing: Standing
    weight: float
    seed: int
    kept: float = 1.0
    submitted_at: datetime | None = None
    late: str = ""
    untouched: bool = False
    unstable: bool = False
    flipped: tuple[str, ...] = ()
    attempt: int = 1
    counts: bool = True
    seconds: float = 0.0
    busy: float = 0.0
    cpu: float = 0.0
    report_file: str = ""
    source_file: str = ""
    runs_file: str = ""
    summary: Summary = NO_SUMMARY

    @property
    def report_path(self) -> Path | None:
        return Path(self.report_file) if self.report_file else None

    @property
    def source_path(self) -> Path | None:
        return Path(self.source_file) if self.source_file else None

    @property
    def runs_path(self) -> Path | None:
        return Path(self.runs_file) if self.runs_file else None

    def report(self) -> Mapping[str, Any] | None:
        """The report as data, read anew. The file is compressed where its name ends in .gz."""
        if (path := self.report_path) is None:
            return None
        content = path.read_bytes()
        found: dict[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        return found
