"""The report as JSON, for programs. docs/report.schema.json describes every field."""

from __future__ import annotations

import json
import re
from typing import Any

from grader.model import Entry, Outcome, RankRecord, Report, Result, Run, Verdict
from grader.records.structure import unstructure
from grader.scoring import finite
from grader.wording.text import blocked_by, ended, safe_report, source_lines

SCHEMA, RESULT_SCHEMA = "ranklings/report/1", "ranklings/result/1"


def render(report: Report) -> str:
    """The report as one JSON object, keys in fixed order, ending with a newline. `grader.records.reading` reads it."""
    return _dumped(_report(safe_report(report)))


def render_result(result: Result) -> str:
    """The reports of an assignment and what they come to. A single exercise is written as its report alone."""
    return _dumped(
        {
            "schema": RESULT_SCHEMA,
            "title": result.title,
            "status": result.status,
            "score": finite(result.score),
            "max_score": finite(result.max_score),
            "mark": _mark(result),
            "entries": [_entry(entry) for entry in result.entries],
        }
    )


def _dumped(content: dict[str, Any]) -> str:
    """Indented, but for the events of traces, of which there are thousands: each stands on a line of its own."""
    events: list[str] = []

    def packed(value: Any) -> Any:
        match value:
            case {"start": float(start), "end": end}:
                told = {**value, "start": round(start, 6), "end": end if end is None else round(end, 6)}
                events.append(json.dumps(told, ensure_ascii=False, allow_nan=False))
                return f"\0{len(events) - 1}\0"
            case dict():
                return {key: packed(item) for key, item in value.items()}
            case list() | tuple():
                return [packed(item) for item in value]
        return value

    text = json.dumps(packed(content), ensure_ascii=False, allow_nan=False, indent=2)
    return re.sub(r'"\\u0000(\d+)\\u0000"', lambda found: events[int(found[1])], text) + "\n"


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "weight": finite(entry.weight),
        "score": finite(entry.score),
        "max_score": finite(entry.max_score),
        "mark": _mark(entry),
        "late": unstructure(entry.late),
        "report": _report(safe_report(entry.report)),
    }


def _report(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "exercise": report.exercise.name,
        "title": report.exercise.title,
        "summary": report.exercise.summary,
        "requires": unstructure(report.exercise.requires),
        "status": report.status,
        "score": finite(report.score),
        "max_score": finite(report.max_score),
        "mark": _mark(report),
        "seed": report.seed,
        "device": report.device,
        "sandbox": report.sandbox,
        "torch": report.torch_version,
        "seconds": _seconds(report.seconds),
        "submission": {
            "file": report.submission.path.name,
            "path": str(report.submission.path),
            "digest": report.submission.digest,
            "source": "\n".join(source_lines(report.submission)),
            "problem": unstructure(report.submission.problem),
        },
        "notes": list(report.notes),
        "checks": [_check(verdict, report) for verdict in report.verdicts],
        "cases": [
            {"name": case.name, "world_size": case.world_size, "visibility": case.visibility}
            for case in report.exercise.cases
        ],
        "runs": [_run(run) for run in report.runs],
    }


def _mark(noun: Report | Entry | Result) -> float | None:
    return None if noun.mark is None else finite(noun.mark)


def _check(verdict: Verdict, report: Report) -> dict[str, Any]:
    check = verdict.check
    return {
        "id": check.id,
        "title": check.title,
        "status": verdict.outcome.value,
        "score": finite(verdict.score),
        "max_score": 0.0 if not verdict.outcome.counted else finite(check.points),
        "points": finite(check.points),
        "visibility": check.visibility,
        "needs": list(check.needs),
        "message": _message(verdict, report),
        "findings": unstructure(verdict.findings),
        "hint": check.hints[0] if check.hints and verdict.outcome is Outcome.FAILED else None,
        "hints": list(check.hints),
        "seconds": _seconds(verdict.seconds),
    }


def _message(verdict: Verdict, report: Report) -> str:
    """The findings' sentences, a line each; without any, the verdict's own message."""
    if verdict.findings:
        return "\n".join(finding.sentence() for finding in verdict.findings)
    return blocked_by(verdict, report.verdicts) if verdict.outcome is Outcome.BLOCKED else verdict.message


def _run(run: Run) -> dict[str, Any]:
    return {
        "case": run.case.id,
        "world_size": run.case.world_size,
        "visibility": run.case.visibility,
        "seconds": _seconds(run.seconds),
        "retried": run.retried,
        "diagnosis": unstructure(run.diagnosis),
        "ranks": [_rank(rank) for rank in run.ranks],
        "witness": unstructure(run.witness),
    }


def _rank(rank: RankRecord) -> dict[str, Any]:
    facts = unstructure(rank.ending)
    return {
        "rank": rank.rank,
        "ending": facts.pop("kind"),
        "at": rank.ending.at,
        "detail": ended(rank.ending),
        "seconds": _seconds(facts.pop("seconds")),
        "facts": {name: fact for name, fact in facts.items() if name != "stack"},
        "stack": facts["stack"],
        "output": rank.output,
        "trace": unstructure(rank.trace),
    }


def _seconds(value: float) -> float:
    return round(finite(value), 3)
