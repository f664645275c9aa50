"""The findings as editors and `make` read them: `file:line:column: severity: message`, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from grader.model import Finding, Outcome, Report, Result, Verdict
from grader.wording.advice import says_unwritten, unwritten
from grader.wording.marks import OUR_FAULT
from grader.wording.plain import cause
from grader.wording.text import safe, safe_report

PathOf = Callable[[Path], str]


def render(result: Result, path_of: PathOf = str) -> str:
    """A line for each thing that went wrong, which the first of the checks that it fails names; empty where all passed.
    A finding without a line stands at line 1, and a column is always 1: a grade knows none."""
    return "".join(f"{line}\n" for entry in result.entries for line in _lines(safe_report(entry.report), path_of))


def _lines(report: Report, path_of: PathOf) -> Iterator[str]:
    file, told = path_of(report.submission.path), set[Finding]()
    fault = report.submission.problem
    if fault:
        told.add(cause(fault))
        yield _line(file, fault, "")
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.BROKEN:
            yield f"{file}:1:1: warning: {verdict.check.title}: {OUR_FAULT}"
        if verdict.outcome is not Outcome.FAILED:
            continue
        for finding in verdict.findings or (Finding(subject=verdict.message),):
            if (seen := _known(finding, verdict, report)) not in told:
                told.add(seen)
                yield _line(file, finding, verdict.check.title)


def _known(finding: Finding, verdict: Verdict, report: Report) -> Finding:
    """What makes two findings one: of a function that nobody has begun, that it is not written yet."""
    if says_unwritten(finding) and unwritten(verdict, report):
        return Finding(subject="", line=finding.line)
    return cause(finding)


def _line(file: str, finding: Finding, title: str) -> str:
    sentence = replace(finding, line=None).sentence()
    said = safe(" ".join(f"{title}: {sentence}".removeprefix(": ").split()))
    return f"{file}:{finding.line or 1}:1: error: {said}"
