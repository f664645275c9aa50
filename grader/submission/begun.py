"""Whether a student has begun an exercise: the file is no longer the stub."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from grader.model import Exercise
from grader.model.errors import UsageError
from grader.submission.compiles import look
from grader.submission.found import own_file, read


def begun(exercise: Exercise, root: Path) -> bool:
    """Whether the student has changed the stub: one required function at least no longer raises NotImplementedError,
    or, where the stub runs, it is another file. One that does not compile is begun, a missing one is not."""
    try:
        source = read(own_file(exercise, root))
    except UsageError:
        return False
    if exercise.stub_digest and source.strip():
        return hashlib.sha256(source).hexdigest() != exercise.stub_digest
    return _begun(source, tuple(entry.name for entry in exercise.requires))


@functools.lru_cache(maxsize=256)
def _begun(source: bytes, names: tuple[str, ...]) -> bool:
    """Remembered, for each look takes a process."""
    problem, untouched = look(source, names)
    return bool(source.strip()) if problem else not untouched
