"""Recorded runs in a file: judged again offline, and what most of our own tests run on.

The file is one wire frame, gzipped or not, so reading one from a stranger executes nothing.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.model import Case, Exercise, Run
from grader.model.errors import MissingHardware, RunError, UsageError, WireError
from grader.model.words import count
from grader.records import wire
from grader.records.structure import exactly, structure, unstructure

FORMAT = "ranklings/runs/1"
GZIP, LEVEL = b"\x1f\x8b", 3
"""How a gzipped file begins, which no frame does; and how hard it is compressed: more takes longer and gains little."""


def save(path: Path, exercise: Exercise, seed: int, runs: Sequence[Run]) -> None:
    """Write runs to a file. Raises UsageError if that is not possible."""
    try:
        path.write_bytes(encoded(exercise, seed, runs))
    except OSError as error:
        raise UsageError(f"The runs could not be written to {path}: {error.strerror}.") from error


def encoded(exercise: Exercise, seed: int, runs: Sequence[Run]) -> bytes:
    """What the file holds. Raises WireError where that is more than a frame may be."""
    return wire.encode({"format": FORMAT, "exercise": exercise.name, "seed": seed, "runs": unstructure(tuple(runs))})


def compressed(exercise: Exercise, seed: int, runs: Sequence[Run]) -> bytes:
    """The same, gzipped: equal runs give equal bytes."""
    return gzip.compress(encoded(exercise, seed, runs), compresslevel=LEVEL, mtime=0)


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


def run_for(runs: Mapping[str, Run], case: Case) -> Run:
    """The run of a case among recorded ones by case id. Raises RunError where there is none, or MissingHardware where
    the machine may have lacked GPUs for it."""
    if case.id in runs:
        return runs[case.id]
    if case.gpus:
        raise MissingHardware(f"needs {count(case.gpus, 'GPU')}; the machine of these runs had fewer")
    raise RunError(f"the runs do not hold {case.id}")


def _contents(path: Path) -> bytes:
    with path.open("rb") as file:
        zipped = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not zipped:
            return file.read(wire.MAX_FRAME + 1)
        try:
            with gzip.open(file) as unzipped:
                return unzipped.read(wire.MAX_FRAME + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise WireError(f"it is cut short or damaged ({error})") from None


def run_of(raw: Any) -> Run:
    """The run that `unstructure` made plain. Raises LookupError, TypeError or ValueError for anything else."""
    run = structure(Run, raw)
    if [record.rank for record in run.ranks] != list(range(min(run.case.world_size, len(run.ranks) + 1))):
        raise ValueError(f"a run of {run.case.id} without its ranks")
    return run
