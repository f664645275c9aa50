"""What a worker says of its grades: events as JSON, a line each, with every text made safe to show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from grader.grading.observe import Listener
from grader.grading.servant import LineWriter
from grader.model import Case, Check, Exercise, LiveRank, Run, Verdict
from grader.model.errors import Cancelled
from grader.ranks import Session
from grader.wording.text import safe


@dataclass(slots=True)
class Job:
    """One grade that was asked for, of the checks that `only` names if it names some. `first` is when its first verdict
    came. Times are monotonic seconds."""

    number: int
    seed: int | None
    trace: bool
    only: tuple[str, ...] = ()
    asked: float = field(default_factory=time.monotonic)
    first: float | None = None
    off: bool = False


class EventWriter:
    """Says events, whole lines only, from any thread. Calls `lost` where nobody listens any more."""

    def __init__(self, stream: IO[bytes], lost: Callable[[], None]) -> None:
        self._lines = LineWriter(stream, lost)

    def say(self, event: str, report: str = "", **facts: Any) -> None:
        line = json.dumps({"event": event, **_safe(facts)})
        if report:  # line ends of JSON stand between its values only, never in them
            line = f'{line[:-1]}, "report": {" ".join(report.splitlines())}}}'
        self._lines.write(line)


def _safe(value: Any) -> Any:
    match value:
        case str():
            return safe(value)
        case dict():
            return {key: _safe(item) for key, item in value.items()}
        case list() | tuple():
            return [_safe(item) for item in value]
    return value


class GradeEvents(Listener):
    """Hears what one grade does and says it, with what a student may see."""

    wants_live = True

    def __init__(self, writer: EventWriter, job: Job, session: Session) -> None:
        self._writer, self._job, self._session = writer, job, session
        self._shown: frozenset[str] = frozenset()

    def began(self, exercise: Exercise, seed: int) -> None:
        checks = [check for check in exercise.checks if _is_visible(check)]
        self._shown = frozenset(check.id for check in checks)
        rows = [{"id": check.id, "title": check.title, "points": check.points} for check in checks]
        self._say("began", seed=seed, checks=rows, cases=[case.id for case in exercise.cases if _is_visible(case)])

    def started(self, case: Case) -> None:
        if self._job.off:  # called off before anything ran, so there was nothing yet to end
            self._session.cancel()
            raise Cancelled()
        if _is_visible(case):
            self._say("case", case=case.id)

    def live(self, case: Case, ranks: Sequence[LiveRank]) -> None:
        if _is_visible(case):
            rows = [{"rank": rank.rank, "told": rank.told, "line": rank.line} for rank in ranks]
            self._say("live", case=case.id, ranks=rows)

    def ended(self, run: Run) -> None:
        if _is_visible(run.case):
            kind = run.diagnosis.kind if run.diagnosis else None
            self._say("run", case=run.case.id, seconds=round(run.seconds, 3), diagnosis=kind)

    def judged(self, verdict: Verdict) -> None:
        if verdict.check.id in self._shown:
            self._job.first = self._job.first or time.monotonic()
            message = "\n".join(finding.sentence() for finding in verdict.findings) or verdict.message
            facts = {"check": verdict.check.id, "outcome": verdict.outcome.value, "score": verdict.score}
            self._say("verdict", **facts, message=message)

    def _say(self, event: str, **facts: Any) -> None:
        if not self._job.off:
            self._writer.say(event, grade=self._job.number, **facts)


def _is_visible(thing: Case | Check) -> bool:
    return thing.visibility == "visible"
