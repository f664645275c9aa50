"""Begin an exercise again: the stub comes back from git, the wheel or the copy, and the student's file stays."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grader import files, submission
from grader.model import Exercise
from grader.model.errors import UsageError
from grader.practice import begin

VERSIONS = 50
"""How many versions of a file are looked at."""


def original(exercise: Exercise, root: Path) -> bytes:
    """The newest version of the stub in git's history that nobody has worked on: the student may have committed his
    own since; without one, that of the wheel or the copy which this grader came with. Raises UsageError where there is
    none."""
    for source in _versions(exercise, root):
        if not _begun(exercise, source):
            return source
    if (stub := begin.stub(exercise.name, exercise.file)) is not None:
        return stub
    raise UsageError(
        f"git has no untouched stub of {exercise.name}, nor has this grader. Take {exercise.file} from a fresh clone."
    )


def untouched(exercise: Exercise, stub: bytes) -> bool:
    """Whether the student's file is the stub already."""
    try:
        return exercise.stub.read_bytes() == stub
    except OSError:
        return False


def reset(exercise: Exercise, stub: bytes) -> Path | None:
    """Put the stub back. The path of the copy of what was there before, or None where nothing was.

    Raises UsageError where the copy cannot be made, and RunError where the stub cannot be written."""
    kept = _keep(exercise.stub) if exercise.stub.exists() else None
    files.write(exercise.stub, stub)
    return kept


def _keep(path: Path) -> Path:
    """Copy a file to a new name beside it. A dot file, for an exercise folder may hold no others."""
    kept = next(name for name in _names(path) if not name.exists())
    try:
        shutil.copy2(path, kept)
    except OSError as error:
        kept.unlink(missing_ok=True)
        raise UsageError(f"{kept} cannot be written ({error.strerror}), so nothing was reset.") from None
    return kept


def _names(path: Path) -> Iterator[Path]:
    yield path.with_name(f".{path.name}.before-reset")
    yield from (path.with_name(f".{path.name}.before-reset-{number}") for number in range(2, 10_000))


def _versions(exercise: Exercise, root: Path) -> Iterator[bytes]:
    """The versions of the stub in git's history, the newest first."""
    path = f"exercises/{exercise.name}/{exercise.file}"
    log = _git(root, "log", "--format=%H", f"--max-count={VERSIONS}", "--", path) or b""
    shown = (_git(root, "show", f"{commit}:./{path}") for commit in log.decode().split())
    return (source for source in shown if source is not None)


def _git(root: Path, *words: str) -> bytes | None:
    """What git prints, or None where it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _begun(exercise: Exercise, source: bytes) -> bool:
    """Whether a version of the file is more than the stub."""
    with tempfile.TemporaryDirectory(prefix="ranklings-") as folder:
        file = Path(folder, "exercises", exercise.name, exercise.file)
        file.parent.mkdir(parents=True)
        file.write_bytes(source)
        return submission.begun(exercise, Path(folder))
