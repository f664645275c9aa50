"""Hears of saves. Folders are watched and names picked out, because many editors replace a file when they save it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import watchfiles

from grader.model import Exercise, file_of
from grader.practice.watch.nouns import Saved

STEP, LONGEST = 20, 200
"""Milliseconds. Changes that are not further apart than the first are told as one, but none later than the second."""
LOOK_SECONDS = 1.0
"""So often the files are looked at all the same: some file systems, those of networks above all, tell of no change."""


def files_of(exercise: Exercise, path: Path, root: Path) -> tuple[Path, ...]:
    """The file that is graded, and the student's files of other exercises that it uses."""
    own = [root / "exercises" / name / file_of(name) for name in exercise.companions]
    return (path, *own)


def digest_of(files: Sequence[Path]) -> str | None:
    """What the files hold now. None if the first, which is the one that is graded, cannot be read."""
    whole = hashlib.sha256()
    for index, path in enumerate(files):
        try:
            source = path.read_bytes() if path.is_file() else None
        except OSError:
            source = None
        if source is None and index == 0:
            return None
        whole.update(hashlib.sha256(source).digest() if source is not None else bytes(32))
    return whole.hexdigest()


class Files:
    """Tells of every save of some files, from a thread of its own, until it is closed. `known` is what they held when
    somebody looked last."""

    def __init__(self, files: Sequence[Path], known: str | None, emit: Callable[[Saved], None]) -> None:
        self._files, self._known, self._emit = tuple(map(_absolute, files)), known, emit
        self._over = threading.Event()
        self._names = {str(path) for path in self._files} | {str(path.resolve()) for path in self._files}
        self._lost = {str(Path(name).parent) for name in self._names}
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        """A round lasts as long as the folders do: one that was deleted and made anew has to be watched anew."""
        polling: bool | None = None
        while not self._over.is_set():
            try:
                self._round(polling)
            except FileNotFoundError:
                self._over.wait(LOOK_SECONDS)
            except OSError:  # too many watches, or a file system that tells nothing
                polling = True
                self._over.wait(LOOK_SECONDS)

    def _round(self, polling: bool | None) -> None:
        changes = watchfiles.watch(
            *_folders(self._names),
            watch_filter=lambda change, path: path in self._names or path in self._lost,
            debounce=LONGEST,
            step=STEP,
            stop_event=self._over,
            recursive=False,
            rust_timeout=int(1_000 * LOOK_SECONDS),
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=polling,
            ignore_permission_denied=True,
        )
        for found in changes:
            self._look(any(path in self._names for _, path in found))
            if any(path in self._lost for _, path in found):
                return

    def _look(self, saved: bool) -> None:
        """Tell of a save, also of one that the system did not tell of and that changed something."""
        now = digest_of(self._files)
        if (saved or now != self._known) and not self._over.is_set():
            self._known = now
            self._emit(Saved(digest=now))


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _folders(names: set[str]) -> list[Path]:
    """The folders in which the files lie and those above them, which see it when one of the first comes back."""
    wanted = {folder for name in names for folder in (Path(name).parent, Path(name).parent.parent)}
    there = {folder for folder in wanted if folder.is_dir()}
    if there:
        return sorted(there)
    nearest = next(folder for folder in Path(next(iter(names))).parents if folder.is_dir())
    return [nearest]
