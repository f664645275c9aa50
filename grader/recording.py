"""Recorded runs in a file: judged again offline, and what most of our own tests run on.

The file is one wire frame, so reading one from a stranger executes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

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
    Limits,
    Raised,
    RankRecord,
    Run,
    StackFrame,
    TimedOut,
    Wait,
)
from grader.trace import plain, trace_of

FORMAT = "ranklings/runs/1"
T = TypeVar("T")
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
        content = _exactly(dict, wire.decode(_contents(path)))
        if content["format"] != FORMAT or content["exercise"] != exercise.name:
            raise WireError(f"it holds runs of {content['exercise']}")
        return _exactly(int, content["seed"]), tuple(run_of(run) for run in _exactly(list, content["runs"]))
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
    }


def run_of(raw: Mapping[str, Any]) -> Run:
    """The run that `plain_run` wrote. Raises LookupError, TypeError, ValueError or AttributeError for anything else."""
    given = _exactly(dict, _exactly(dict, raw)["case"])
    case = _made(Case, {**given, "limits": _made(Limits, _exactly(dict, given.get("limits", {})))})
    ranks = tuple(_rank_in(record) for record in raw["ranks"])
    if [record.rank for record in ranks] != list(range(case.world_size)):
        raise ValueError(f"a run of {case.id} without its ranks")
    diagnosis = _diagnosis_in(raw["diagnosis"]) if raw["diagnosis"] else None
    given = {"case": case, "ranks": ranks, "diagnosis": diagnosis, "retried": raw.get("retried", "")}
    return _made(Run, {**given, "seconds": raw["seconds"]})


def _rank_in(raw: Mapping[str, Any]) -> RankRecord:
    return _made(RankRecord, {**raw, "ending": _ending_in(raw["ending"]), "trace": trace_of(raw.get("trace"))})


def _ending_in(raw: Mapping[str, Any]) -> Ending:
    given = dict(raw)
    kind = _ENDINGS[given.pop("kind")]
    given["stack"] = tuple(_made(StackFrame, frame) for frame in given["stack"])
    if given.get("wait") is not None:
        given["wait"] = _made(Wait, given["wait"])
    if "causes" in given:
        given["causes"] = tuple(given["causes"])
    return _made(kind, given)


def _diagnosis_in(raw: Mapping[str, Any]) -> Diagnosis:
    findings = tuple(_made(Finding, {**finding, "ranks": tuple(finding["ranks"])}) for finding in raw["findings"])
    return _made(Diagnosis, {**raw, "ranks": tuple(raw["ranks"]), "findings": findings})


# --- nothing but what the nouns say ----------------------------------------------------------------------------------


def _made(noun: type[T], given: Mapping[str, Any]) -> T:
    """A noun from its fields. Raises TypeError unless each has the type that the noun declares."""
    plain_noun: Any = noun  # mypy does not know that a class can be hashed
    hints = _hints(plain_noun)
    for name, value in given.items():
        if name in hints and not _fits(value, hints[name]):
            raise TypeError(f"{noun.__name__}.{name} is a {type(value).__name__}")
    return noun(**given)


@functools.cache
def _hints(noun: Any) -> Mapping[str, Any]:
    return get_type_hints(noun)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has a declared type; an int may stand for a float, as in Python."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, inner[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint if hint in (int, bool, str) else isinstance(value, hint)


def _exactly(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value
