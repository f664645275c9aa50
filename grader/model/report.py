"""What judging gives: verdicts, the report of a grade, and the result of a hand-in. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from grader.model.exercise import Check, Exercise, Submission
from grader.model.finding import Finding
from grader.model.run import Run


class Outcome(Enum):
    """What a check came to."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A check that it needs did not pass, so it was not judged."""
    SKIPPED = "skipped"
    """Hardware that it needs is absent. Never a pass."""
    BROKEN = "broken"
    """The grader's or the author's fault. It costs the student no points and gives none: there is no mark."""

    @property
    def counted(self) -> bool:
        """Whether the points of a check that came to this are part of the grade."""
        return self is not Outcome.SKIPPED

    @property
    def judged(self) -> bool:
        """Whether this says anything of the submission."""
        return self not in (Outcome.BROKEN, Outcome.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one check came to."""

    check: Check
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    message: str = ""
    seconds: float = 0.0

    @property
    def score(self) -> float:
        return self.check.points if self.outcome is Outcome.PASSED else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one grade. Renderers know nothing else. `seconds` is wall time. `unjudged` says that a check which
    is not shown here is broken."""

    exercise: Exercise
    submission: Submission
    verdicts: tuple[Verdict, ...]
    runs: tuple[Run, ...]
    seed: int
    device: str
    sandbox: str
    seconds: float
    torch_version: str = ""
    notes: tuple[str, ...] = ()
    unjudged: bool = False

    @property
    def max_score(self) -> float:
        return sum(v.check.points for v in self.verdicts if v.outcome.counted)

    @property
    def score(self) -> float:
        """The points of the checks that passed. A mark is what `mark` says, and nothing else."""
        return sum(v.score for v in self.verdicts)

    @property
    def mark(self) -> float | None:
        """What the grade gives. None where a check could not be judged, or nothing was: whoever writes marks writes
        none then, for neither a zero nor the other checks' points would be right."""
        return None if self.status == "error" or not self.max_score else self.score

    @property
    def status(self) -> str:
        outcomes = {v.outcome for v in self.verdicts}
        if Outcome.BROKEN in outcomes or not outcomes or self.unjudged:
            return "error"
        return "passed" if outcomes <= {Outcome.PASSED, Outcome.SKIPPED} else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What handing in late costs: `kept` is the share of the points that is left, `told` says it in a sentence."""

    kept: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One exercise of a Result. `weight` is what it is worth there, whatever the points of its checks come to.

    Checks that are not counted (skipped) leave the exercise's weight to the others.
    """

    report: Report
    weight: float
    late: Late | None = None

    @property
    def scale(self) -> float:
        """What a point of the report is worth in the result."""
        return self.weight / self.report.max_score if self.report.max_score else 0.0

    @property
    def kept(self) -> float:
        return self.late.kept if self.late else 1.0

    @property
    def score(self) -> float:
        return self.report.score * self.scale * self.kept

    @property
    def mark(self) -> float | None:
        return None if self.report.mark is None else self.score

    @property
    def max_score(self) -> float:
        return self.report.max_score * self.scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one hand-in came to: one exercise, or those of an assignment. Course renderers know nothing else."""

    title: str
    entries: tuple[Entry, ...]

    @property
    def score(self) -> float:
        return sum(entry.score for entry in self.entries)

    @property
    def max_score(self) -> float:
        return sum(entry.max_score for entry in self.entries)

    @property
    def mark(self) -> float | None:
        """What the hand-in is given. None where any exercise has a check that could not be judged, or nothing was."""
        return None if self.status == "error" or not self.max_score else self.score

    @property
    def points(self) -> float:
        """What could be earned if nothing were left out."""
        return sum(entry.weight for entry in self.entries)

    @property
    def status(self) -> str:
        """The worst of its reports': error, failed, passed."""
        statuses = {entry.report.status for entry in self.entries}
        return next((status for status in ("error", "failed") if status in statuses), "passed")


def alone(report: Report) -> Result:
    """The result of a hand-in that is this one exercise, worth the points of its checks."""
    return Result(title=report.exercise.title, entries=(Entry(report=report, weight=report.exercise.max_score),))
