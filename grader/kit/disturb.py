"""What a process writes, as it happens; and writing that fails, is slow, or is cut short by death.

None of it depends on an API. An audit hook sees files being opened for writing and given a name, in whatever way;
`torch.save` to a path, which opens its file in C++, is announced to it. A limit on the size of files makes any write
fail, or kills the process, in its middle.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

FIRST_BYTES = 16
"""What a process may write before the write that kills it."""
RENAMES = ("os.rename", "os.link", "os.symlink")


@dataclass(frozen=True, slots=True)
class Write:
    """A step in writing a file: one is opened to write to ("open"), one is about to get its name, which `source` is as
    yet ("name"), or torch.save begins to write to a stream ("stream"). Paths are real ones; "" where there is none."""

    step: Literal["open", "name", "stream"]
    path: str = ""
    source: str = ""


Handler = Callable[[Write], object]


class WriteSpy:
    """Tells a handler of each step in which this process writes a file. What the handler raises, the writer gets. Make
    it before the student's module is imported, for that may import torch.save itself."""

    def __init__(self) -> None:
        self._handler: Handler | None = None
        sys.addaudithook(self._hear)
        save = torch.save

        @functools.wraps(save)
        def announced_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            self._tell(Write("open", real(f)) if isinstance(f, str | os.PathLike) else Write("stream"))
            save(obj, f, *args, **kwargs)

        torch.save = torch.serialization.save = announced_save

    @contextmanager
    def telling(self, handler: Handler) -> Iterator[None]:
        """Tell this handler, until the end."""
        self._handler = handler
        try:
            yield
        finally:
            self._handler = None

    def _tell(self, write: Write) -> None:
        if self._handler is not None:
            self._handler(write)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._handler is None:
            return
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and _writes(args[1], args[2]):
            self._tell(Write("open", real(args[0])))
        elif event in RENAMES:
            self._tell(Write("name", real(args[1]), real(args[0])))


def real(path: str | bytes | os.PathLike[Any]) -> str:
    """The path without links."""
    return os.path.realpath(os.fsdecode(path))


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


# -- handlers ---------------------------------------------------------------------------------------------------------


def note_writes(names: list[str], *folders: os.PathLike[str]) -> Handler:
    """Notes in `names` the files that are written in these folders, or below."""
    places = tuple(real(folder) + os.sep for folder in folders)

    def note(write: Write) -> None:
        if write.path.startswith(places):
            names.append(os.path.basename(write.path))

    return note


def die_at(target: str | os.PathLike[str]) -> Handler:
    """Lets the process die as soon as the target's content is touched, or just before a finished file gets its name.
    Another folder is another file system, from which nothing can be renamed to here."""
    path = real(target)
    folder = os.path.dirname(path) + os.sep

    def die(write: Write) -> None:
        if write.path != path:
            return
        if write.step == "open":
            limit_files(FIRST_BYTES, deadly=True)
        elif not write.source.startswith(folder):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), write.source, None, path)
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


# -- limits -----------------------------------------------------------------------------------------------------------


def limit_files(size: int | None, *, deadly: bool = False) -> None:
    """From now on writing past `size` bytes in a file fails with an OSError or, `deadly`, kills this process. None
    lifts the limit."""
    import resource  # where there is none, on Windows, what needs no limit still runs

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if deadly else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def shorten_sleeps() -> None:
    """From now on time.sleep ends at once, so that whoever sleeps instead of waiting does not get away with it."""
    original = time.sleep

    def sleep(seconds: Any) -> None:
        original(min(seconds, 0.001))

    time.sleep = sleep
