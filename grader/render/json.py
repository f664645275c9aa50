"""The report as JSON, for programs. docs/report.schema.json describes every field."""

from __future__ import annotations

import json
from typing import Any

from grader.model import Diagnosis, Finding, Outcome, RankRecord, Report, Run, Verdict
from grader.wording.text import UNCOUNTED, blocked_by, ended, finite, safe_report

SCHEMA = "ranklings/report/1"


def render(report: Report) -> str:
    """The report as one JSON object, in a fixed order of keys, ending with a newline."""
    return json.dumps(_report(safe_report(report)), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _report(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "exercise": report.exercise.name,
        "title": report.exercise.title,
        "status": report.status,
        "score": finite(report.score),
        "max_score": finite(report.max_score),
        "seed": report.seed,
        "device": report.device,
        "sandbox": report.sandbox,
        "torch": report.torch_version,
        "seconds": _seconds(report.seconds),
        "submission": {
            "file": report.submission.path.name,
            "digest": report.submission.digest,
            "problem": _finding(report.submission.problem) if report.submission.problem else None,
        },
        "notes": list(report.notes),
        "checks": [_check(verdict, report) for verdict in report.verdicts],
        "runs": [_run(run) for run in report.runs],
    }


def _check(verdict: Verdict, report: Report) -> dict[str, Any]:
    check = verdict.check
    return {
        "id": check.id,
        "title": check.title,
        "status": verdict.outcome.value,
        "score": finite(verdict.score),
        "max_score": 0.0 if verdict.outcome in UNCOUNTED else finite(check.points),
        "points": finite(check.points),
        "visibility": check.visibility,
        "needs": list(check.needs),
        "message": _message(verdict, report),
        "findings": [_finding(finding) for finding in verdict.findings],
        "hint": check.hints[0] if check.hints and verdict.outcome is Outcome.FAILED else None,
        "seconds": _seconds(verdict.seconds),
    }


def _message(verdict: Verdict, report: Report) -> str:
    """The findings' sentences, a line each; without any, the verdict's own message."""
    if verdict.findings:
        return "\n".join(finding.sentence() for finding in verdict.findings)
    return blocked_by(verdict, report.verdicts) if verdict.outcome is Outcome.BLOCKED else verdict.message


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "subject": finding.subject,
        "ranks": list(finding.ranks),
        "expected": finding.expected,
        "actual": finding.actual,
        "line": finding.line,
        "case": finding.case,
        "hint": finding.hint,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "case": run.case.id,
        "world_size": run.case.world_size,
        "seconds": _seconds(run.seconds),
        "diagnosis": _diagnosis(run.diagnosis) if run.diagnosis else None,
        "ranks": [_rank(rank) for rank in run.ranks],
    }


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "kind": diagnosis.kind,
        "ranks": list(diagnosis.ranks),
        "findings": [_finding(finding) for finding in diagnosis.findings],
    }


def _rank(rank: RankRecord) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "ending": rank.ending.kind,
        "at": rank.ending.at,
        "detail": ended(rank.ending),
        "output": rank.output,
    }


def _seconds(value: float) -> float:
    return round(finite(value), 3)
