"""What the page says about one exercise: checks with their findings, runs, the marked source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grader import calling
from grader.model import Entry, Report, Result
from grader.model.words import rank_list
from grader.render.html.checks import CheckView, FindingView
from grader.render.html.checks import checks as checks_of
from grader.render.html.events import troubled
from grader.render.html.runs import RunView, run_view, went_wrong
from grader.render.html.runs import pictures as pictures_of
from grader.render.html.shapes import Picture
from grader.render.html.source import Line, Mark, marked, shown_lines
from grader.wording.advice import Step, next_step, replay
from grader.wording.layout import crop
from grader.wording.text import ended, safe_report


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
    start: Step | None
    hidden: int
    uncounted: float

    @property
    def report(self) -> Report:
        return self.entry.report

    @property
    def number(self) -> int:
        """Which entry of the result it is, from 0."""
        return int(self.id.rpartition("e")[2])

    @property
    def numbers(self) -> frozenset[int]:
        """The lines that a link can lead to."""
        return frozenset(line.number for line in self.lines)

    @property
    def passed(self) -> int:
        return sum(check.outcome == "passed" for check in self.checks)


def exercises(result: Result, prefix: str = "", by: str = calling.MAKE) -> tuple[ExerciseView, ...]:
    """Every entry, with its report made safe. What went wrong is drawn first where there is too much for one page. Ids
    begin with `prefix`; the command that replays is for who calls `by` make or otherwise."""
    entries = [replace(entry, report=safe_report(entry.report)) for entry in result.entries]
    pictures = pictures_of([entry.report for entry in entries])
    return tuple(_exercise(f"{prefix}e{number}", entry, pictures[number], by) for number, entry in enumerate(entries))


def _exercise(id: str, entry: Entry, pictures: Sequence[Picture | None], by: str) -> ExerciseView:
    report = entry.report
    wrong = [went_wrong(run, report) for run in report.runs]
    order = sorted(range(len(wrong)), key=lambda n: (not troubled(report.runs[n]), not wrong[n]))
    runs = tuple(run_view(f"{id}-r{n}", report.runs[n], wrong[n], pictures[n]) for n in order)
    places = {view.run.case.id: view.id for view in reversed(runs)}
    checks = tuple(checks_of(id, entry, places))
    problem = report.submission.problem
    fault = FindingView(id=f"{id}-p", finding=problem, place="", run="") if problem else None
    return ExerciseView(
        id=id,
        entry=entry,
        checks=checks,
        runs=runs,
        lines=shown_lines(report.submission, marked(_marks(checks, runs, fault))),
        problem=fault,
        command=" ".join(replay(report, by)),
        start=next_step(report),
        hidden=sum(verdict.check.visibility != "visible" for verdict in report.verdicts),
        uncounted=sum(v.check.points for v in report.verdicts if not v.outcome.counted),
    )


def _marks(
    checks: Sequence[CheckView], runs: Sequence[RunView], fault: FindingView | None
) -> Iterator[tuple[int | None, Mark]]:
    if fault:
        yield fault.finding.line, _mark(fault)
    for check in checks:
        yield from ((view.finding.line, _mark(view)) for view in check.findings if not view.told)
    found = [view.finding for check in checks for view in check.findings]
    yield from _endings(runs, {(finding.line, finding.case, rank) for finding in found for rank in finding.ranks})


def _endings(
    runs: Sequence[RunView], told: set[tuple[int | None, str | None, int]]
) -> Iterator[tuple[int | None, Mark]]:
    """Where ranks ended that no finding has told of there. Those that ended alike are named together, run by run."""
    alike: dict[tuple[int, str], dict[str, list[int]]] = {}
    ids = {view.run.case.id: view.id for view in reversed(runs)}
    for view in runs:
        for rank in view.run.ranks:
            at = rank.ending.at
            if at and rank.ending.kind != "finished" and (at, view.run.case.id, rank.rank) not in told:
                places = alike.setdefault((at, ended(rank.ending)), {})
                places.setdefault(view.run.case.id, []).append(rank.rank)
    for (line, words), places in alike.items():
        where = "; ".join(f"{rank_list(ranks)} of {case}" for case, ranks in places.items())
        yield line, Mark(note=f"{crop(words, 120)} · {crop(where, 120)}", target=ids[next(iter(places))], bad=False)


def _mark(view: FindingView) -> Mark:
    finding = replace(view.finding, line=None, expected="", ranks=())
    note = (
        f"{finding.subject}{f' · {view.place}' if view.place else ''}{f': {finding.actual}' if finding.actual else ''}"
    )
    return Mark(note=crop(note, 160), target=view.id)
