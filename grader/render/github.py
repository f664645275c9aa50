"""The result where GitHub Actions shows it: annotations on the student's own lines, and the summary of a job.

Sources: GitHub's "Workflow commands for GitHub Actions" (their syntax, stopping them, job summaries up to 1 MiB),
"Usage limits" (10 errors, 10 warnings and 10 notices a step), and `command.ts` of actions/toolkit (escaping).
Checks that students do not see are in none of it: whoever may read the repository reads this too.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from grader.model import Finding, Outcome, Report, Result, Verdict
from grader.model.errors import UsageError
from grader.visibility import for_student
from grader.wording.advice import unwritten
from grader.wording.markdown import escape, table
from grader.wording.marks import MARKS, NO_MARK, OUR_FAULT
from grader.wording.plain import finding_lines, general_hints
from grader.wording.summary import Block, page, sections
from grader.wording.text import blocked_by, points, safe, safe_report

MOST_ERRORS = 10
MESSAGE = 4_000
SUMMARY_BYTES = 1_000_000
"""A little less than the 1 MiB that GitHub takes, as it may be appended to."""

PathOf = Callable[[Path], str]


# ── annotations ──


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """One finding of failed checks: how many of the exercise's checks it holds back, and whether it is a diagnosis."""

    path: str
    finding: Finding
    checks: tuple[Verdict, ...]
    report: Report
    cause: bool
    holds: int


def annotations(result: Result, path_of: PathOf) -> str:
    """Workflow commands that mark the faults in the student's file, a line each; empty where all passed.

    `path_of` tells where in the repository the file of a submission is. At most ten errors are shown in a step, so
    faults come in the order of their cause: a file that does not compile, then what runs were diagnosed with, then what
    holds back most checks. Faults in the same line are one annotation. What is cut is counted in a notice, which has
    its own limit.
    """
    reports = _reports(result)
    places = _places([fault for report in reports for fault in _faults(report, path_of(report.submission.path))])
    shown = [_error(faults) for faults in places[:MOST_ERRORS]]
    cut = sum(map(len, places[MOST_ERRORS:]))
    if cut:
        where = f"in {len(places) - MOST_ERRORS} more places" if len(places) > MOST_ERRORS + 1 else "in one more place"
        told = (
            f"{cut} more {'findings are' if cut > 1 else 'finding is'} not shown here, {where}. The summary has more."
        )
        shown.append(command("notice", told, title=f"The first {MOST_ERRORS} of {len(places)} places"))
    broken = [f"{report.exercise.name}: {v.check.title}" for report in reports for v in _broken(report)]
    if broken:
        shown.append(command("warning", "\n".join([OUR_FAULT, *broken[:10]]), title="Not judged"))
    if result.status == "error":
        shown.append(command("warning", NO_MARK, title="No mark"))
    return "".join(f"{line}\n" for line in shown)


def command(name: str, message: str, **properties: object) -> str:
    """One workflow command. Properties that are None or empty are left out."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
    return f"::{name}{' ' if given else ''}{given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _faults(report: Report, path: str) -> Iterator[_Fault]:
    """The distinct findings of failed checks, the causes first and then what holds back most checks."""
    seen: dict[Finding, list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.FAILED:
            for finding in verdict.findings or (Finding(subject=verdict.message or verdict.check.title),):
                seen.setdefault(replace(finding, hint=None), []).append(verdict)
    problem = report.submission.problem
    causes = {replace(f, hint=None) for run in report.runs if run.diagnosis for f in run.diagnosis.findings}
    causes |= {replace(problem, hint=None)} if problem else set()
    for finding, verdicts in seen.items():
        holds = len(verdicts) + sum(_holds(verdict, report) for verdict in verdicts)
        cause = finding in causes
        yield _Fault(path=path, finding=finding, checks=tuple(verdicts), report=report, cause=cause, holds=holds)


def _holds(verdict: Verdict, report: Report) -> int:
    """How many checks wait for this one, directly or not."""
    waiting = {verdict.check.id}
    for _ in report.verdicts:
        waiting |= {v.check.id for v in report.verdicts if waiting & set(v.check.needs)}
    return len(waiting) - 1


def _places(faults: Sequence[_Fault]) -> list[list[_Fault]]:
    """The faults by path and line, the most important place first. What a run's diagnosis tells of ranks without a line
    goes to the line of its cause; other faults without one stand at the top of the file, those of one check together.
    """
    ranked = sorted(faults, key=lambda fault: (not fault.cause, -fault.holds, fault.finding.line is None))
    causes = {(f.path, f.finding.case): f.finding.line for f in reversed(ranked) if f.cause and f.finding.line}
    places: dict[tuple[str, int | str], list[_Fault]] = {}
    for fault in ranked:
        line = fault.finding.line or (fault.cause and causes.get((fault.path, fault.finding.case)))
        places.setdefault((fault.path, line or fault.checks[0].check.id), []).append(fault)
    return list(places.values())


def _error(faults: Sequence[_Fault]) -> str:
    """One annotation for all the faults of one place."""
    first = faults[0]
    lines = [line for fault in faults for line in finding_lines(fault.finding, fault.report.exercise)]
    titles = dict.fromkeys(verdict.check.title for fault in faults for verdict in fault.checks)
    checks = [(fault, verdict) for fault in faults for verdict in fault.checks if not unwritten(verdict, fault.report)]
    hints = [hint for pair in checks for hint in _hints(*pair)]
    hints += [hint for fault, verdict in checks for hint in general_hints(verdict, fault.report)[:1]]
    lines += [f"Hint: {' '.join(hints[0].split())}"] if hints else []
    line = first.finding.line or 1
    return command("error", safe("\n".join(lines), MESSAGE), file=first.path, line=line, title=_title(list(titles)))


def _hints(fault: _Fault, verdict: Verdict) -> list[str]:
    same = (f for f in verdict.findings if replace(f, hint=None) == fault.finding)
    return [finding.hint for finding in same if finding.hint]


def _title(titles: Sequence[str]) -> str:
    more = f" (and {len(titles) - 1} more)" if len(titles) > 1 else ""
    return f"{titles[0]}{more}" if titles else ""


def _broken(report: Report) -> list[Verdict]:
    return [verdict for verdict in report.verdicts if verdict.outcome is Outcome.BROKEN]


# ── the summary ──


def summary(result: Result) -> str:
    """The job summary in Markdown, for the file that GITHUB_STEP_SUMMARY names: at most a million bytes."""
    return page(_blocks(result), SUMMARY_BYTES)


def _blocks(result: Result) -> Iterator[Block]:
    reports = _reports(result)
    pairs = list(zip(result.entries, reports, strict=True))
    score = sum(report.score * entry.scale * entry.kept for entry, report in pairs)
    most = sum(report.max_score * entry.scale for entry, report in pairs)
    no_mark = any(report.status == "error" for report in reports)
    told = "no mark" if no_mark else f"{points(round(score, 2))} of {points(round(most, 2))} points"
    yield [f"## {escape(result.title)}: {told}"]
    if no_mark:
        yield [NO_MARK]
    for entry, report in pairs:
        if len(pairs) > 1:
            yield [f"**{escape(report.exercise.name)}**, worth {points(entry.weight)}: {escape(report.exercise.title)}"]
        yield table(("", "Check", "Result", "Points"), map(partial(_row, report), report.verdicts), "lllr")
        left_out = sum(v.check.points for v in report.verdicts if not v.outcome.counted)
        if left_out:
            yield [f"{points(left_out)} points are not counted; what they are worth goes to the other checks."]
        if entry.late:
            yield [escape(entry.late.told)]
    entries = (replace(entry, report=report) for entry, report in pairs)
    yield from sections(replace(result, entries=tuple(entries)))


def _row(report: Report, verdict: Verdict) -> tuple[str, str, str, str]:
    told = verdict.outcome.value
    if verdict.outcome is Outcome.BLOCKED:
        told += f", {escape(blocked_by(verdict, report.verdicts))}"
    worth = f"{points(verdict.score)}/{points(verdict.check.points)}"
    return MARKS[verdict.outcome][0], escape(verdict.check.title), told, worth if verdict.outcome.judged else ""


def _reports(result: Result) -> list[Report]:
    return [for_student(safe_report(entry.report), entry.scale) for entry in result.entries]


# ── what is printed to the log ──


def guarded(text: str, token: str) -> str:
    """`text` for the log, with workflow commands stopped around it. `token` ends the stop, so it must be drawn anew for
    each call, at random, after the student's code has ended; it is taken out of the text all the same."""
    if not re.fullmatch(r"[0-9A-Za-z_-]{16,}", token):
        raise UsageError(
            "The token that stops workflow commands must be 16 or more letters and digits, drawn at random."
        )
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    body = re.sub(re.escape(token), "…", lines, flags=re.IGNORECASE)
    return f"::stop-commands::{token}\n{body.rstrip(chr(10))}\n::{token}::\n"
