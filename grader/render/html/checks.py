"""What the page says about the checks of an exercise and their findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from grader.model import Entry, Finding, Outcome, Report, Verdict
from grader.wording.marks import FINDINGS_IN_A_BROWSER, MARKS, OUR_FAULT, UNJUDGED
from grader.wording.plain import general_hints
from grader.wording.text import blocked_by, place


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
    def told(self) -> str:
        """The finding that has said all of this before."""
        return self.findings[0].told if self.findings and all(view.told for view in self.findings) else ""

    @property
    def outcome(self) -> str:
        return self.verdict.outcome.value

    @property
    def unjudged(self) -> str:
        """What stands in the place of its points, if anything does."""
        return UNJUDGED.get(self.verdict.outcome, "")

    @property
    def score(self) -> float:
        return self.worth if self.verdict.outcome is Outcome.PASSED else 0.0

    @property
    def opens(self) -> bool:
        return bool(self.findings or self.hint or self.verdict.message) and self.outcome in ("failed", "broken")


def checks(id: str, entry: Entry, places: dict[str, str]) -> Iterator[CheckView]:
    """The checks in the author's order. A finding that has been shown before is only named."""
    problem = entry.report.submission.problem
    told: dict[Finding, str] = {replace(problem, hint=None): f"{id}-p"} if problem else {}
    for number, verdict in enumerate(entry.report.verdicts):
        findings = _findings(f"{id}-c{number}", verdict, entry.report, places, told)
        own = [view.finding.hint for view in findings if view.finding.hint]
        failed = verdict.outcome is Outcome.FAILED
        new = not findings or any(not view.told for view in findings)
        general = next(iter(general_hints(verdict, entry.report)), "") if failed and not own and new else ""
        yield CheckView(
            id=f"{id}-c{number}",
            verdict=verdict,
            mark=MARKS[verdict.outcome][0],
            worth=verdict.check.points * entry.scale,
            reason=_reason(verdict, entry.report),
            hint=general.strip(),
            findings=tuple(findings[:FINDINGS_IN_A_BROWSER]),
            left_out=max(0, len(findings) - FINDINGS_IN_A_BROWSER),
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
        if number < FINDINGS_IN_A_BROWSER:
            told.setdefault(cause, views[-1].id)
    return views


def _reason(verdict: Verdict, report: Report) -> str:
    match verdict.outcome:
        case Outcome.BLOCKED:
            return blocked_by(verdict, report.verdicts)
        case Outcome.SKIPPED:
            return verdict.message or "skipped"
        case Outcome.BROKEN:
            return OUR_FAULT
    return ""
