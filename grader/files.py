"""Files that the grader writes on request: tried before any rank starts, and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from grader.model.errors import RunError, UsageError

ROOM = 64 * 1024
"""Bytes that must fit where a file is going to be written."""


def check_writable(path: Path) -> None:
    """Find out now whether `path` can be written later. Raises UsageError, which names it."""
    try:
        if _is_special(path):
            return
        with _partial(path) as partial:
            partial.write_bytes(bytes(ROOM))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {_reason(error)}. Choose another place.") from None


def empty_folder(path: Path) -> Path:
    """A folder to fill, which is made if it is not there. Raises UsageError for one that holds anything."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{path} is not empty; name a folder that is new or empty.")
    except OSError as error:
        raise UsageError(f"{path} cannot be used: {error.strerror}.") from None
    return path


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Whether no other process works in the folder. It is this one's until the block, or the process, ends. A file
    system without locks lets everybody in."""
    import fcntl

    number = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except OSError as error:
            alone = not isinstance(error, BlockingIOError)
        yield alone
    finally:
        os.close(number)


def near(path: Path) -> Path:
    """The path as it is called from here, where that is shorter."""
    with contextlib.suppress(ValueError, OSError):
        return path.relative_to(Path.cwd())
    return path


def write(path: Path, content: str | bytes) -> None:
    """Write a file in one step: as before or whole. Raises RunError, which names the path."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if _is_special(path):
            path.write_bytes(data)
            return
        with _partial(path) as partial:
            partial.write_bytes(data)
            os.replace(partial, os.path.realpath(path))
    except (OSError, UsageError) as error:
        raise RunError(f"{path} could not be written: {_reason(error)}.") from None


def _is_special(path: Path) -> bool:
    """Whether `path` is a device or a pipe, which must be written to, never replaced."""
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    return path.exists() and not path.is_file()


def another_name(path: Path) -> Path:
    """A name in the same folder, under which a file is written until it has its own."""
    return path.with_name(f".{secrets.token_hex(6)}.partial")


@contextlib.contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A name for a new file beside the one that `path` leads to; what is left of it is removed."""
    partial = another_name(Path(os.path.realpath(path)))
    try:
        yield partial
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "its folder does not exist"
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:].rstrip(".")
