"""The files of hand-ins: found as `grade` finds them, read once, and kept in the batch's store."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from grader.batch.hand_ins import HandIn, entries_of
from grader.batch.ledger import Ledger
from grader.model import Exercise, file_of
from grader.model.errors import UsageError
from grader.records import digests
from grader.submission import MAX_BYTES

Files = tuple[tuple[str, str], ...]
"""Names as the exercise looks for them, each with a key of the store."""


class Sources:
    """Reads hand-ins into a ledger's store. A file whose size and times are as the ledger has seen them is not read
    again, as with git's index. `refused` collects what may not be read, a sentence each."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        seen = ledger.all("SELECT * FROM seen")
        self._seen: dict[str, tuple[str, str]] = {row["path"]: (row["stat"], row["key"]) for row in seen}
        self.new: dict[str, tuple[str, str]] = {}
        self.refused: list[str] = []

    def files(self, hand_in: HandIn, exercise: Exercise) -> Files:
        """The exercise's own file and those of the exercises that it builds on, where they were handed in."""
        found = []
        for name, places in _places(hand_in, exercise):
            key = next((key for place in places if (key := self._key(place, hand_in))), "")
            if not key and name == exercise.file:
                return ()
            if key:
                found.append((name, key))
        return tuple(found)

    def _key(self, path: str, hand_in: HandIn) -> str:
        """The key of a file's content; empty where there is none."""
        try:
            facts = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            self.refused.append(f"{path} cannot be read ({error.strerror})")
            return ""
        if fault := _fault(path, facts, hand_in):
            self.refused.append(f"{path} {fault}")
            return ""
        return self._content(path, facts)

    def _content(self, path: str, facts: os.stat_result) -> str:
        mark = f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}"
        mark_then, key = self._seen.get(path, ("", ""))
        if mark == mark_then and not stat.S_ISLNK(facts.st_mode):
            return key
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)  # what is too large is told by the grade, and needs no more
        except OSError as error:
            self.refused.append(f"{path} cannot be read ({error.strerror})")
            return ""
        key = self._store.put(content or b"\n", ".py")  # an empty file was handed in all the same
        self.new[path] = mark, key
        return key


def _places(hand_in: HandIn, exercise: Exercise) -> Iterator[tuple[str, Iterator[str]]]:
    """The names that a grade looks for, each with where it may lie, the likeliest first. Paths are texts here: a course
    has a hundred thousand, of which most are looked at once."""
    yield exercise.file, _where(hand_in, exercise.name, exercise.file)
    for name in exercise.companions:
        yield f"{name}/{file_of(name)}", _where(hand_in, name, file_of(name))


def _where(hand_in: HandIn, exercise: str, file: str) -> Iterator[str]:
    if (folder := hand_in.folder) is None:
        if file in hand_in.files:
            yield str(hand_in.files[file])
        return
    inside = (file, f"{exercise}/{file}", f"exercises/{exercise}/{file}")
    yield from (f"{folder}/{place}" for place in inside)
    if only := _only_folder(folder):
        yield from (f"{only}/{place}" for place in inside)


def _only_folder(folder: Path) -> str:
    """The folder that alone lies in another one, as an archive of a folder leaves it; empty where there is none."""
    try:
        entries = entries_of(folder)
    except OSError:
        return ""
    return entries[0].path if len(entries) == 1 and entries[0].is_dir(follow_symlinks=False) else ""


def _fault(path: str, facts: os.stat_result, hand_in: HandIn) -> str:
    """Why a file is not read: it is none, or lies elsewhere."""
    home = str(hand_in.folder or os.path.dirname(path))
    links = stat.S_ISLNK(facts.st_mode) or any(map(os.path.islink, _between(path, home)))
    try:
        if links and not Path(path).resolve(strict=True).is_relative_to(Path(home).resolve()):
            return "is a link that leads out of the hand-in"
        mode = os.stat(path).st_mode if links else facts.st_mode
    except (OSError, RuntimeError):
        return "is a link that leads nowhere"
    return "" if stat.S_ISREG(mode) else "is no regular file"


def _between(path: str, home: str) -> Iterator[str]:
    """The folders on the way from a hand-in to one of its files."""
    while (path := os.path.dirname(path)) != home:
        yield path


def digest(files: Files) -> str:
    """What a hand-in's files are known by. Keys are digests of contents."""
    return digests.of_files((name, key.encode()) for name, key in files)


def written(files: Files) -> str:
    return json.dumps(files)


def check(sources: Sources) -> None:
    """Raises UsageError where a hand-in holds what may not be read."""
    if sources.refused:
        first, *others = sources.refused
        more = f", and {len(others)} more like it" if others else ""
        raise UsageError(f"{first}{more}. Put the file itself there, or remove it: then it counts as not handed in.")
