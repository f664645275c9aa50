"""A report, or a result, from the JSON that `render.json` wrote. Nothing in the file is trusted or executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grader.model import Report, Result, alone, file_of, slug_of
from grader.model.errors import UsageError
from grader.records.structure import exactly, structure
from grader.wording.text import encoding_of

Fields = dict[str, Any]
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
    entries = [
        {"report": report_of(entry["report"]), "weight": entry["weight"], "late": entry["late"]}
        for entry in exactly(list, data["entries"])
    ]
    return structure(Result, {"title": data["title"], "entries": entries})


def report_of(data: Fields) -> Report:
    """A report from what JSON gave. Raises LookupError, TypeError or ValueError."""
    if data["schema"] != REPORT:
        raise ValueError(f"its schema is not {REPORT}")
    fields = {
        "exercise": _exercise(data),
        "submission": _submission(data["submission"]),
        "verdicts": [_verdict(check) for check in data["checks"]],
        "runs": [_run(run) for run in data["runs"]],
        "torch_version": data["torch"],
        **_picked(data, "seed", "device", "sandbox", "seconds", "notes"),
    }
    broken = any(check["status"] == "broken" for check in data["checks"])
    return structure(Report, {**fields, "unjudged": data["status"] == "error" and bool(data["checks"]) and not broken})


# ── from the fields of the JSON to those of the nouns; `structure` checks what is in them ──


def _picked(data: Fields, *names: str) -> Fields:
    return {name: data[name] for name in names}


def _exercise(data: Fields) -> Fields:
    name = exactly(str, data["exercise"])
    return {
        "name": name,
        "folder": Path("exercises") / name,
        "file": file_of(name) if slug_of(name) else data["submission"]["file"],
        "cases": [{**case, "probe": case["name"]} for case in data["cases"]],
        "checks": [_check(check) for check in data["checks"]],
        **_picked(data, "title", "summary", "requires"),
    }


def _check(data: Fields) -> Fields:
    return _picked(data, "id", "title", "points", "visibility", "hints", "needs")


def _submission(data: Fields) -> Fields:
    text = exactly(str, data["source"])
    source = text.encode(encoding_of(text.encode()), errors="backslashreplace")
    return {"path": Path(exactly(str, data["path"])), "source": source, **_picked(data, "digest", "problem")}


def _verdict(data: Fields) -> Fields:
    return {
        "check": _check(data),
        "outcome": exactly(str, data["status"]),
        **_picked(data, "findings", "message", "seconds"),
    }


def _run(data: Fields) -> Fields:
    name = exactly(str, data["case"]).rpartition("[")[0]
    case = {"name": name, "probe": "" if name == "import" else name, **_picked(data, "world_size", "visibility")}
    return {
        "case": case,
        "ranks": [_rank(rank) for rank in data["ranks"]],
        "witness": data.get("witness"),
        **_picked(data, "diagnosis", "seconds", "retried"),
    }


def _rank(data: Fields) -> Fields:
    ending = {"kind": data["ending"], **_picked(data, "stack", "seconds"), **data["facts"]}
    return {"ending": ending, **_picked(data, "rank", "output", "trace")}
