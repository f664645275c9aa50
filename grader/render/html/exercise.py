"""What the page says about one exercise: checks with their findings, runs, the marked source. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grader.model import Entry, Finding, Killed, Outcome, RankRecord, Report, Result, Run, StackFrame, Verdict
from grader.render.html.axis import moment
from grader.render.html.events import troubled
from grader.render.html.picture import Picture, picture
from grader.render.html.source import Line, Mark, marked, shown_lines
from grader.wording.advice import begun, first_to_write, replay, where_to_start
from grader.wording.layout import crop
from grader.wording.text import UNCOUNTED, blocked_by, ended, place, rank_list, safe_report

MARKS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.BLOCKED: "\N{EN DASH}",
    Outcome.SKIPPED: "\N{EN DASH}",
    Outcome.BROKEN: "!",
}
OUR_FAULT = "The grader or the exercise is at fault here, not your code. This costs you no points."

FINDINGS_SHOWN, FRAMES_SHOWN = 12, 8
BARS, BARS_A_RANK, FEWEST = 5_000, 300, 24
"""What is drawn at most, on the whole page and of one rank, and the fewest bars a rank for which a run is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """A finding with its place on the page. `told` names the finding that has said the same before."""

    id: str
    finding: Finding
    place: str
    run: str
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """A verdict. `worth` is what it is worth in the result, `reason` why it was not judged."""

    id: str
    verdict: Verdict
    mark: str
    worth: float
    reason: str
    hint: str
    findings: tuple[FindingView, ...]
    left_out: int

    @property
    def outcome(self) -> str:
        return self.verdict.outcome.value

    @property
    def counted(self) -> bool:
        return self.verdict.outcome not in UNCOUNTED

    @property
    def score(self) -> float:
        return self.worth if self.verdict.outcome is Outcome.PASSED else 0.0

    @property
    def opens(self) -> bool:
        return bool(self.findings or self.hint or self.verdict.message) and self.outcome in ("failed", "broken")


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
        return [_rank(record) for record in self.run.ranks]

    @property
    def title(self) -> str:
        return self.run.case.name if self.run.case.probe else "import of the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseView:
    """One entry of the result."""

    id: str
    entry: Entry
    checks: tuple[CheckView, ...]
    runs: tuple[RunView, ...]
    lines: tuple[Line, ...]
    problem: FindingView | None
    command: str
    start: str
    hidden: int
    uncounted: float

    @property
    def report(self) -> Report:
        return self.entry.report

    @property
    def passed(self) -> int:
        return sum(check.outcome == "passed" for check in self.checks)


def exercises(result: Result) -> tuple[ExerciseView, ...]:
    """Every entry, with its report made safe. What went wrong is drawn first where there is too much for one page."""
    entries = [replace(entry, report=safe_report(entry.report)) for entry in result.entries]
    pictures = _pictures([entry.report for entry in entries])
    return tuple(_exercise(f"e{number}", entry, pictures[number]) for number, entry in enumerate(entries))


def _exercise(id: str, entry: Entry, pictures: Sequence[Picture | None]) -> ExerciseView:
    report = entry.report
    blamed = _blamed(report)
    order = sorted(range(len(report.runs)), key=lambda n: (not troubled(report.runs[n]), not _wrong(report.runs[n], blamed)))
    runs = tuple(_run(f"{id}-r{n}", report.runs[n], _wrong(report.runs[n], blamed), pictures[n]) for n in order)
    places = {view.run.case.id: view.id for view in reversed(runs)}
    checks = tuple(_checks(id, entry, places))
    problem = report.submission.problem
    fault = FindingView(id=f"{id}-p", finding=problem, place="", run="") if problem else None
    return ExerciseView(
        id=id,
        entry=entry,
        checks=checks,
        runs=runs,
        lines=shown_lines(report.submission, marked(_marks(checks, runs, fault, id))),
        problem=fault,
        command=" ".join(replay(report)),
        start="" if begun(report) else _start(report),
        hidden=sum(verdict.check.visibility != "visible" for verdict in report.verdicts),
        uncounted=sum(v.check.points for v in report.verdicts if v.outcome in UNCOUNTED),
    )


def _start(report: Report) -> str:
    file, beside = where_to_start(report)
    first = first_to_write(report)
    return f"open {file} and read README.md {beside}; the first thing to write is {first}."


# ── checks ──


def _checks(id: str, entry: Entry, places: dict[str, str]) -> Iterator[CheckView]:
    """The checks in the author's order. A finding that an earlier one has shown is only named."""
    told: dict[Finding, str] = {}
    for number, verdict in enumerate(entry.report.verdicts):
        findings = _findings(f"{id}-c{number}", verdict, entry.report, places, told)
        own = [view.finding.hint for view in findings if view.finding.hint]
        failed = verdict.outcome is Outcome.FAILED
        new = not findings or any(not view.told for view in findings)
        general = verdict.check.hints[0] if failed and verdict.check.hints and not own and new else ""
        yield CheckView(
            id=f"{id}-c{number}",
            verdict=verdict,
            mark=MARKS[verdict.outcome],
            worth=verdict.check.points * entry.scale,
            reason=_reason(verdict, entry.report),
            hint=general.strip() if begun(entry.report) else "",
            findings=tuple(findings[:FINDINGS_SHOWN]),
            left_out=max(0, len(findings) - FINDINGS_SHOWN),
        )


def _findings(
    id: str, verdict: Verdict, report: Report, places: dict[str, str], told: dict[Finding, str]
) -> list[FindingView]:
    views = []
    for number, finding in enumerate(verdict.findings if verdict.outcome is Outcome.FAILED else ()):
        cause = replace(finding, hint=None)
        views.append(
            FindingView(
                id=f"{id}-f{number}",
                finding=finding,
                place=place(replace(finding, line=None), report.exercise),
                run=places.get(finding.case or "", ""),
                told=told.get(cause, ""),
            )
        )
        told.setdefault(cause, views[-1].id)
    return views


def _reason(verdict: Verdict, report: Report) -> str:
    match verdict.outcome:
        case Outcome.BLOCKED:
            return f"not judged: {blocked_by(verdict, report.verdicts)}"
        case Outcome.SKIPPED:
            return verdict.message or "skipped"
        case Outcome.BROKEN:
            return OUR_FAULT
    return ""


# ── runs ──


def _blamed(report: Report) -> set[str | None]:
    return {f.case for v in report.verdicts if v.outcome is Outcome.FAILED for f in v.findings}


def _wrong(run: Run, blamed: set[str | None]) -> bool:
    return troubled(run) or run.case.id in blamed


def _run(id: str, run: Run, wrong: bool, drawn: Picture | None) -> RunView:
    return RunView(id=id, run=run, wrong=wrong, verdict=_came_to(run, wrong), picture=drawn, outputs=tuple(_outputs(run)))


def _rank(record: RankRecord) -> RankView:
    ending = record.ending
    told = f"{ended(ending)}{f': {ending.limit}' if isinstance(ending, Killed) and ending.limit else ''}"
    frames = tuple(frame for frame in ending.stack if frame.student)[-FRAMES_SHOWN:]
    at = moment(ending.seconds) if math.isfinite(ending.seconds) and ending.seconds > 0 else ""
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


def _pictures(reports: Sequence[Report]) -> list[list[Picture | None]]:
    """The drawings, of runs that went wrong first, as long as the page has room."""
    places = [(e, r) for e, report in enumerate(reports) for r in range(len(report.runs))]
    drawn: list[list[Picture | None]] = [[None] * len(report.runs) for report in reports]
    blamed = [_blamed(report) for report in reports]
    left = BARS
    for e, r in sorted(places, key=lambda at: not _wrong(reports[at[0]].runs[at[1]], blamed[at[0]])):
        run = reports[e].runs[r]
        most = min(BARS_A_RANK, left // max(1, len(run.ranks)))
        if most >= FEWEST or (run.ranks and all(rank.trace is None for rank in run.ranks)):
            view = picture(run, max(most, FEWEST))
            left -= sum(len(lane.bars) for band in view.bands for lane in band.lanes)
            drawn[e][r] = view
    return drawn


# ── marks ──


def _marks(
    checks: Sequence[CheckView], runs: Sequence[RunView], fault: FindingView | None, id: str
) -> Iterator[tuple[int | None, Mark]]:
    if fault:
        yield fault.finding.line, _mark(fault)
    for check in checks:
        yield from ((view.finding.line, _mark(view)) for view in check.findings if not view.told)
    for view in runs:
        for rank in view.run.ranks:
            if rank.ending.kind != "finished":
                note = f"{view.run.case.id}, rank {rank.rank}: {ended(rank.ending)}"
                yield rank.ending.at, Mark(note=crop(note, 160), target=view.id, bad=False)


def _mark(view: FindingView) -> Mark:
    finding = replace(view.finding, line=None, expected="", ranks=())
    note = f"{finding.subject}{f' · {view.place}' if view.place else ''}{f': {finding.actual}' if finding.actual else ''}"
    return Mark(note=crop(note, 160), target=view.id)
