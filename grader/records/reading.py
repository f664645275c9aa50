"""A report, or a result, from the JSON that `render.json` wrote. Nothing in the file is trusted or executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.model import (
    Case,
    Check,
    Entry,
    Exercise,
    Late,
    Outcome,
    RankRecord,
    Report,
    RequiredName,
    Result,
    Run,
    Submission,
    Verdict,
    alone,
    file_of,
    slug_of,
)
from grader.model.errors import UsageError
from grader.model.trace import trace_of
from grader.records.recording import diagnosis_of, ending_of, finding_of
from grader.records.structure import exactly, made
from grader.wording.text import encoding_of

REPORT, RESULT = "ranklings/report/1", "ranklings/result/1"
MAX_BYTES = 1 << 28


def read(path: Path) -> Result:
    """The result in a file of `--json`. Raises UsageError if it holds none."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path} is no report: it is larger than 256 MiB.")
    try:
        return result_of(json.loads(content))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise UsageError(f"{path} is no report of `grade --json`: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return f"it lacks {text}" if isinstance(error, KeyError) else text


def result_of(data: Any) -> Result:
    """A result from what JSON gave: of one report, or of several. Raises LookupError, TypeError or ValueError."""
    if exactly(dict, data)["schema"] == REPORT:
        return alone(report_of(data))
    if data["schema"] != RESULT:
        raise ValueError(f"its schema is not {REPORT} or {RESULT}")
    return made(Result, {"title": data["title"], "entries": tuple(map(_entry, data["entries"]))})


def _entry(data: Mapping[str, Any]) -> Entry:
    late = made(Late, data["late"]) if data["late"] is not None else None
    return made(Entry, {"report": report_of(data["report"]), "weight": data["weight"], "late": late})


def report_of(data: Mapping[str, Any]) -> Report:
    """A report from what JSON gave. Raises LookupError, TypeError or ValueError."""
    if data["schema"] != REPORT:
        raise ValueError(f"its schema is not {REPORT}")
    exercise = _exercise(data)
    return made(
        Report,
        {
            "exercise": exercise,
            "submission": _submission(data["submission"]),
            "verdicts": tuple(map(_verdict, data["checks"])),
            "runs": tuple(map(_run, data["runs"])),
            "torch_version": data["torch"],
            "notes": tuple(exactly(str, note) for note in data["notes"]),
            **{key: data[key] for key in ("seed", "device", "sandbox", "seconds")},
        },
    )


def _exercise(data: Mapping[str, Any]) -> Exercise:
    name = exactly(str, data["exercise"])
    given = {
        "name": name,
        "folder": Path("exercises") / name,
        "file": file_of(name) if slug_of(name) else data["submission"]["file"],
        "requires": tuple(made(RequiredName, required) for required in data["requires"]),
        "cases": tuple(made(Case, {**case, "probe": case["name"]}) for case in data["cases"]),
        "checks": tuple(map(_check, data["checks"])),
    }
    return made(Exercise, {**given, "title": data["title"], "summary": data["summary"]})


def _check(data: Mapping[str, Any]) -> Check:
    given = {key: data[key] for key in ("id", "title", "points", "visibility")}
    return made(Check, {**given, "hints": tuple(data["hints"]), "needs": tuple(data["needs"])})


def _submission(data: Mapping[str, Any]) -> Submission:
    text = exactly(str, data["source"])
    source = text.encode(encoding_of(text.encode()), errors="backslashreplace")
    problem = finding_of(data["problem"]) if data["problem"] is not None else None
    path = Path(exactly(str, data["path"]))
    return made(Submission, {"path": path, "source": source, "digest": data["digest"], "problem": problem})


def _verdict(data: Mapping[str, Any]) -> Verdict:
    given = {"check": _check(data), "outcome": Outcome(data["status"])}
    findings = tuple(map(finding_of, data["findings"]))
    return made(Verdict, {**given, "findings": findings, "message": data["message"], "seconds": data["seconds"]})


def _run(data: Mapping[str, Any]) -> Run:
    name = exactly(str, data["case"]).rpartition("[")[0]
    case = {"name": name, "world_size": data["world_size"], "visibility": data["visibility"]}
    probe = "" if name == "import" else name
    return made(
        Run,
        {
            "case": made(Case, {**case, "probe": probe}),
            "ranks": tuple(map(_rank, data["ranks"])),
            "diagnosis": diagnosis_of(data["diagnosis"]) if data["diagnosis"] is not None else None,
            "seconds": data["seconds"],
            "retried": data["retried"],
        },
    )


def _rank(data: Mapping[str, Any]) -> RankRecord:
    facts = {"kind": data["ending"], "stack": data["stack"], "seconds": data["seconds"], **data["facts"]}
    trace = None
    if data["trace"] is not None and (trace := trace_of(data["trace"])) is None:
        raise ValueError("a trace of a rank is damaged")
    return made(
        RankRecord, {"rank": data["rank"], "ending": ending_of(facts), "output": data["output"], "trace": trace}
    )
