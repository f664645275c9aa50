"""Where a student's file is, and its bytes, read once."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from grader import calling
from grader.model import MISSING, Exercise, Finding, Submission, file_of
from grader.model.errors import UsageError
from grader.submission.compiles import look
from grader.submission.compiles import problem as problem_of

MAX_BYTES = 1 << 18
"""Python takes a minute and a gigabyte to compile some files of 1 MiB (one call with a hundred thousand keywords)."""


def receive(exercise: Exercise, path: Path | None, root: Path) -> Submission:
    """The student's file: `path` itself, the exercise's file in the folder `path`, or with None the student's own in
    exercises/. Raises UsageError where there is no file to read."""
    location = _own(exercise, root) if path is None else _located(exercise, path)
    folder = root / "exercises" if path is None else path if path.is_dir() else path.parent
    source = read(_inside(location, folder))
    return Submission.of(
        location,
        source,
        problem=problem_of(source),
        companions=_companions(exercise, folder, location) if path is None or path.is_dir() else {},
    )


def receive_or_miss(exercise: Exercise, path: Path | None, root: Path) -> Submission:
    """The same in an assignment, where a file that is missing or cannot be read is the student's doing."""
    try:
        return receive(exercise, path, root)
    except UsageError as error:
        place = own_file(exercise, root) if path is None else path / exercise.file if path.is_dir() else path
        return _missed(exercise, place, str(error))


def given(exercise: Exercise, files: Mapping[str, bytes]) -> Submission:
    """The same of files by relative name, as somebody else has read them: nothing has to be on this disk."""
    path = Path(exercise.file)
    source = next((files[name] for name in _names(exercise.name, exercise.file) if name in files), None)
    if source is None:
        return _missed(exercise, path, f"What was handed in holds no {exercise.file}.")
    if len(source) > MAX_BYTES:
        return _missed(exercise, path, f"{exercise.file} is larger than 256 KiB.")
    companions = {name: _given_companion(name, files) for name in exercise.companions}
    usable = {name: content for name, content in companions.items() if content}
    return Submission.of(path, source, problem=problem_of(source), companions=usable)


def _given_companion(name: str, files: Mapping[str, bytes]) -> bytes:
    """The file of another exercise, if it is written, or b""."""
    alone, *nested = _names(name, file_of(name))
    sources = (files.get(place, b"") for place in (*nested, alone))
    return next((found for found in sources if found and len(found) <= MAX_BYTES and _is_written(found)), b"")


def _is_written(source: bytes) -> bool:
    """Whether it compiles and is no stub any more: nothing in it raises NotImplementedError."""
    problem, untouched = look(source)
    return problem is None and not untouched


def _names(name: str, file: str) -> tuple[str, str, str]:
    """Where in a folder the file of an exercise may lie, the likeliest first."""
    return file, f"{name}/{file}", f"exercises/{name}/{file}"


def _missed(exercise: Exercise, path: Path, why: str) -> Submission:
    return Submission.of(path, b"", problem=Finding(subject=f"{exercise.file} {MISSING}", actual=why))


def places(exercise: Exercise, folder: Path) -> tuple[Path, ...]:
    """Where in a folder the exercise's file may lie, the likeliest first."""
    return tuple(folder / name for name in _names(exercise.name, exercise.file))


def own_file(exercise: Exercise, root: Path) -> Path:
    return root / "exercises" / exercise.name / exercise.file


def _own(exercise: Exercise, root: Path) -> Path:
    path = own_file(exercise, root)
    if not _there(path):
        raise UsageError(f"{path} is missing; `{calling.command('reset', exercise.number)}` brings the stub back.")
    return path


def _located(exercise: Exercise, path: Path) -> Path:
    if not stat.S_ISDIR(_status(path).st_mode):
        return path
    for candidate in places(exercise, path):
        if _there(candidate):
            return candidate
    raise UsageError(f"{path} holds no {exercise.file}; name the file itself or the folder that it lies in.")


def _status(path: Path) -> os.stat_result:
    """What the path leads to. Raises UsageError when it leads nowhere."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise UsageError(f"There is no file or folder {path}; check the path of the submission.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}); check the path of the submission.") from None


def _there(path: Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}); check its permissions.") from None
    return True


def _inside(path: Path, folder: Path) -> Path:
    """`path`, unless a link leads it out of the folder that was handed in: what it would read is not the student's."""
    try:
        own = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        own = True  # a loop, or a name that no file can have: reading it says so
    if not own:
        raise UsageError(f"{path} is a link that leads out of {folder}; hand in the file itself.")
    return path


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def read(path: Path) -> bytes:
    """The file's bytes, at most 256 KiB. Never waits, whatever the path turns out to be."""
    if not stat.S_ISREG(_status(path).st_mode):
        raise UsageError(f"{path} is not a regular file; name a Python file.")
    try:
        # Not blocking: the file may have been exchanged for a FIFO meanwhile.
        with open(path, "rb", opener=_open_at_once) as file:
            source = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}); check its permissions.") from None
    if len(source) > MAX_BYTES:
        raise UsageError(f"{path} is larger than 256 KiB; name the Python file of the exercise.")
    return source


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _companions(exercise: Exercise, folder: Path, location: Path) -> dict[str, bytes]:
    """The student's files of the exercises that this one builds on, where they are written, by the exercise's name."""
    found = {}
    for name in exercise.companions:
        file = file_of(name)
        beside = (folder / name / file, folder / "exercises" / name / file, folder / file, location.parent / file)
        source = next(filter(None, (_usable(place, folder) for place in beside)), None)
        if source:
            found[name] = source
    return found


def _usable(path: Path, folder: Path) -> bytes | None:
    try:
        source = read(_inside(path, folder))
    except UsageError:
        return None
    return source if _is_written(source) else None
