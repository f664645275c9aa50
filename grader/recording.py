"""Recorded runs in a file: judged again offline, and what most of our own tests run on.

The file is one wire frame, so reading one from a stranger executes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from grader import wire
from grader.errors import UsageError, WireError
from grader.model import (
    Case,
    Deadlocked,
    Diagnosis,
    Ending,
    Exercise,
    Exited,
    Finding,
    Finished,
    Killed,
    Raised,
    RankRecord,
    Run,
    StackFrame,
    TimedOut,
    Wait,
)
from grader.trace import plain, trace_of

FORMAT = "ranklings/runs/1"
_ENDINGS: Mapping[str, type[Ending]] = {
    kind.kind: kind for kind in (Finished, Raised, Exited, Killed, Deadlocked, TimedOut)
}


def save(path: Path, exercise: Exercise, seed: int, runs: Sequence[Run]) -> None:
    """Write runs to a file. Raises UsageError if that is not possible."""
    content = {"format": FORMAT, "exercise": exercise.name, "seed": seed, "runs": [_run_out(run) for run in runs]}
    try:
        path.write_bytes(wire.encode(content))
    except OSError as error:
        raise UsageError(f"The runs could not be written to {path}: {error.strerror}.") from error


def load(path: Path, exercise: Exercise) -> tuple[int, tuple[Run, ...]]:
    """Seed and runs of a file. Raises UsageError if it is no file of recorded runs of this exercise."""
    try:
        content = wire.decode(path.read_bytes())
        if content["format"] != FORMAT or content["exercise"] != exercise.name:
            raise WireError(f"it holds runs of {content['exercise']}")
        return content["seed"], tuple(_run_in(run) for run in content["runs"])
    except OSError as error:
        raise UsageError(f"The runs could not be read from {path}: {error.strerror}.") from error
    except (WireError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} does not hold recorded runs of {exercise.name}: {error}.") from error


def _run_out(run: Run) -> dict[str, Any]:
    return {
        "case": {field.name: _plain(getattr(run.case, field.name)) for field in fields(Case)},
        "seconds": run.seconds,
        "ranks": [_rank_out(record) for record in run.ranks],
        "diagnosis": asdict(run.diagnosis) if run.diagnosis else None,
    }


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _rank_out(record: RankRecord) -> dict[str, Any]:
    ending = {"kind": record.ending.kind, **asdict(record.ending)}
    observations = dict(record.observations)
    trace = plain(record.trace) if record.trace else None
    return {
        "rank": record.rank,
        "ending": ending,
        "observations": observations,
        "output": record.output,
        "trace": trace,
    }


def _run_in(raw: Mapping[str, Any]) -> Run:
    return Run(
        case=Case(**raw["case"]),
        seconds=raw["seconds"],
        ranks=tuple(_rank_in(record) for record in raw["ranks"]),
        diagnosis=_diagnosis_in(raw["diagnosis"]) if raw["diagnosis"] else None,
    )


def _rank_in(raw: Mapping[str, Any]) -> RankRecord:
    ending = dict(raw["ending"])
    kind = _ENDINGS[ending.pop("kind")]
    ending["stack"] = tuple(StackFrame(**frame) for frame in ending["stack"])
    if ending.get("wait"):
        ending["wait"] = Wait(**ending["wait"])
    if "causes" in ending:
        ending["causes"] = tuple(ending["causes"])
    return RankRecord(
        rank=raw["rank"],
        ending=kind(**ending),
        observations=raw["observations"],
        output=raw["output"],
        trace=trace_of(raw.get("trace")),
    )


def _diagnosis_in(raw: Mapping[str, Any]) -> Diagnosis:
    findings = (Finding(**{**finding, "ranks": tuple(finding["ranks"])}) for finding in raw["findings"])
    return Diagnosis(kind=raw["kind"], ranks=tuple(raw["ranks"]), findings=tuple(findings))
