"""Recorded runs in a file: judged again offline, and what most of our own tests run on.

The file is one wire frame, so reading one from a stranger executes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

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
    Limits,
    Raised,
    RankRecord,
    Run,
    StackFrame,
    TimedOut,
    Wait,
)
from grader.model.errors import UsageError, WireError
from grader.model.trace import plain, trace_of
from grader.records import wire
from grader.records.structure import exactly, made

FORMAT = "ranklings/runs/1"
_ENDINGS: Mapping[str, type[Ending]] = {
    kind.kind: kind for kind in (Finished, Raised, Exited, Killed, Deadlocked, TimedOut)
}


def save(path: Path, exercise: Exercise, seed: int, runs: Sequence[Run]) -> None:
    """Write runs to a file. Raises UsageError if that is not possible."""
    content = {"format": FORMAT, "exercise": exercise.name, "seed": seed, "runs": [plain_run(run) for run in runs]}
    try:
        path.write_bytes(wire.encode(content))
    except OSError as error:
        raise UsageError(f"The runs could not be written to {path}: {error.strerror}.") from error


def load(path: Path, exercise: Exercise) -> tuple[int, tuple[Run, ...]]:
    """Seed and runs of a file. Raises UsageError if it is no file of recorded runs of this exercise."""
    try:
        content = exactly(dict, wire.decode(_contents(path)))
        if content["format"] != FORMAT or content["exercise"] != exercise.name:
            raise WireError(f"it holds runs of {content['exercise']}")
        return exactly(int, content["seed"]), tuple(run_of(run) for run in exactly(list, content["runs"]))
    except OSError as error:
        raise UsageError(f"The runs could not be read from {path}: {error.strerror}.") from error
    except (WireError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} does not hold recorded runs of {exercise.name}: {error}.") from error


def _contents(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(wire.MAX_FRAME + 1)


def plain_run(run: Run) -> dict[str, Any]:
    """One run as plain data that may cross the wire."""
    return {
        "case": {field.name: _plain(getattr(run.case, field.name)) for field in fields(Case)},
        "seconds": run.seconds,
        "ranks": [_rank_out(record) for record in run.ranks],
        "diagnosis": asdict(run.diagnosis) if run.diagnosis else None,
        "retried": run.retried,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Limits):
        return asdict(value)
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
        "device": record.device,
    }


def run_of(raw: Mapping[str, Any]) -> Run:
    """The run that `plain_run` wrote. Raises LookupError, TypeError, ValueError or AttributeError for anything else."""
    given = exactly(dict, exactly(dict, raw)["case"])
    case = made(Case, {**given, "limits": made(Limits, exactly(dict, given.get("limits", {})))})
    ranks = tuple(_rank_in(record) for record in raw["ranks"])
    if [record.rank for record in ranks] != list(range(case.world_size)):
        raise ValueError(f"a run of {case.id} without its ranks")
    diagnosis = diagnosis_of(raw["diagnosis"]) if raw["diagnosis"] else None
    given = {"case": case, "ranks": ranks, "diagnosis": diagnosis, "retried": raw.get("retried", "")}
    return made(Run, {**given, "seconds": raw["seconds"]})


def _rank_in(raw: Mapping[str, Any]) -> RankRecord:
    return made(RankRecord, {**raw, "ending": ending_of(raw["ending"]), "trace": trace_of(raw.get("trace"))})


def ending_of(raw: Mapping[str, Any]) -> Ending:
    """An ending from its kind and its fields. Raises LookupError, TypeError or ValueError."""
    given = dict(raw)
    kind = _ENDINGS[given.pop("kind")]
    given["stack"] = tuple(made(StackFrame, frame) for frame in given["stack"])
    if given.get("wait") is not None:
        given["wait"] = made(Wait, given["wait"])
    if "causes" in given:
        given["causes"] = tuple(given["causes"])
    return made(kind, given)


def diagnosis_of(raw: Mapping[str, Any]) -> Diagnosis:
    """Raises LookupError, TypeError or ValueError."""
    findings = tuple(map(finding_of, raw["findings"]))
    return made(Diagnosis, {**raw, "ranks": tuple(raw["ranks"]), "findings": findings})


def finding_of(raw: Mapping[str, Any]) -> Finding:
    """Raises LookupError, TypeError or ValueError."""
    return made(Finding, {**raw, "ranks": tuple(exactly(int, rank) for rank in raw["ranks"])})
