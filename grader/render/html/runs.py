"""What the page says about the runs of an exercise. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.model import Killed, Outcome, RankRecord, Report, Run, StackFrame
from grader.model.words import count, rank_list
from grader.render.html.axis import moment
from grader.render.html.events import troubled
from grader.render.html.picture import picture
from grader.render.html.shapes import Picture
from grader.timeline import ended_at
from grader.wording.text import IMPORT, ended

FRAMES_SHOWN = 8
BARS, BARS_A_RANK, FEWEST = 5_000, 300, 24
"""What is drawn at most, on the whole page and of one rank, and the fewest bars a rank for which a run is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """How a rank ended. `frames` are those of the student's file, outermost first."""

    rank: int
    kind: str
    told: str
    at: str
    frames: tuple[StackFrame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with its drawing, or None where the page had no room for it."""

    id: str
    run: Run
    wrong: bool
    verdict: str
    picture: Picture | None
    outputs: tuple[tuple[str, str], ...]

    @property
    def troubled(self) -> bool:
        return troubled(self.run)

    @property
    def ranks(self) -> list[RankView]:
        return [_rank(record, self.run) for record in self.run.ranks]

    @property
    def title(self) -> str:
        if not self.run.case.probe or self.run.case.id == IMPORT:
            return "import of the file"
        size = len(self.run.ranks) or self.run.case.world_size
        return f"{self.run.case.name} on {count(size, 'rank')}"


def went_wrong(run: Run, report: Report) -> bool:
    """Whether a run is one to look at: it went wrong by itself, or a check failed because of it."""
    failed = (verdict for verdict in report.verdicts if verdict.outcome is Outcome.FAILED)
    return troubled(run) or any(finding.case == run.case.id for verdict in failed for finding in verdict.findings)


def run_view(id: str, run: Run, wrong: bool, drawn: Picture | None) -> RunView:
    """A run with its drawing."""
    return RunView(
        id=id, run=run, wrong=wrong, verdict=_came_to(run, wrong), picture=drawn, outputs=tuple(_outputs(run))
    )


def _rank(record: RankRecord, run: Run) -> RankView:
    ending = record.ending
    told = f"{ended(ending)}{f': {ending.limit}' if isinstance(ending, Killed) and ending.limit else ''}"
    frames = tuple(frame for frame in ending.stack if frame.student)[-FRAMES_SHOWN:]
    at = moment(ended_at(record, run)) if ending.seconds > 0 else ""
    return RankView(rank=record.rank, kind=ending.kind, told=told, at=at, frames=frames)


def _came_to(run: Run, wrong: bool) -> str:
    if run.diagnosis:
        return {"timed_out": "ran out of time", "limit": "reached a limit"}.get(run.diagnosis.kind, run.diagnosis.kind)
    if troubled(run):
        return "not every rank finished"
    return "finished, and a check failed" if wrong else "finished"


def _outputs(run: Run) -> Iterator[tuple[str, str]]:
    """What ranks printed, and which: those that printed the same are named together."""
    shown: dict[str, list[RankRecord]] = {}
    for rank in run.ranks:
        if rank.output.strip():
            shown.setdefault(rank.output.strip("\n"), []).append(rank)
    for text, ranks in shown.items():
        yield rank_list([rank.rank for rank in ranks]), text


def pictures(reports: Sequence[Report]) -> list[list[Picture | None]]:
    """The drawings, of runs that went wrong first, as long as the page has room."""
    places = [(e, r) for e, report in enumerate(reports) for r in range(len(report.runs))]
    drawn: list[list[Picture | None]] = [[None] * len(report.runs) for report in reports]
    left = BARS
    for e, r in sorted(places, key=lambda at: not went_wrong(reports[at[0]].runs[at[1]], reports[at[0]])):
        run = reports[e].runs[r]
        most = min(BARS_A_RANK, left // max(1, len(run.ranks)))
        if most >= FEWEST or (run.ranks and all(rank.trace is None for rank in run.ranks)):
            view = picture(run, max(most, FEWEST))
            left -= view.size
            drawn[e][r] = view
    return drawn
