"""Who handed in what, from the folder that a platform exported or that was made by hand.

a folder a person           ada/train_ddp.py, ada/03_train_ddp/train_ddp.py, a clone of the students' repository
a file a person             ada.py, for an assignment of one exercise
GitHub Classroom            homework-submissions/homework-ada/…, as `gh classroom clone student-repos` leaves them
what other platforms export (`exports`)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from grader.course import roster
from grader.model.errors import UsageError

NO_PERSON = ("__MACOSX", "__pycache__")
CLASSROOM = "-submissions"
"""What GitHub Classroom's folder of clones is called, behind the assignment, with which each clone's name begins."""
UNPACK = 'for file in *.zip; do unzip -d "${file%.zip}" "$file"; done'


@dataclass(frozen=True, slots=True, kw_only=True)
class HandIn:
    """One hand-in of one person: what lies in `folder`, or `files` by the names that exercises look for. `name` is what
    it is called in the folder of all. `due` is a later date for this person alone. `order` tells a person's hand-ins
    apart where no time does; `note` is what the platform says of lateness."""

    who: str
    name: str
    folder: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    submitted_at: datetime | None = None
    due: datetime | None = None
    order: int = 0
    note: str = ""


def in_order(found: Iterable[HandIn], folder: Path) -> tuple[HandIn, ...]:
    """By person. Raises UsageError where one has a name that nobody can type."""
    every = tuple(sorted(found, key=lambda one: (roster.normal(one.who), one.order, one.name)))
    for one in every:
        if not one.who.strip() or not one.who.isprintable():
            raise UsageError(
                f"{str(folder / one.name)!r} names nobody: a student's name has letters that can be printed. Rename "
                "it, or say by --people whose it is."
            )
    return every


def plain(entries: Iterable[os.DirEntry[str]], folder: Path, file: str) -> Iterator[HandIn]:
    """A folder a person, or a file where only `file` is asked for."""
    every = list(entries)
    folders = {entry.name for entry in every if entry.is_dir()}
    slug = folder.resolve().name
    prefix = slug.removesuffix(CLASSROOM) + "-" if slug.endswith(CLASSROOM) else ""
    if not all(name.startswith(prefix) and name != prefix for name in folders):
        prefix = ""
    for entry in every:
        if entry.is_symlink():
            check_inside(Path(entry.path), folder)
        if entry.name in folders:
            yield HandIn(who=entry.name.removeprefix(prefix), name=entry.name, folder=Path(entry.path))
        elif file and entry.name.endswith(".py"):
            yield HandIn(who=entry.name[:-3], name=entry.name, files={file: Path(entry.path)})


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """What may be a hand-in, or part of one."""
    with os.scandir(folder) as scanned:
        return [entry for entry in scanned if entry.name[:1] != "." and entry.name not in NO_PERSON]


def check_inside(entry: Path, folder: Path) -> None:
    """Raises UsageError for a link that leads out of the folder of all hand-ins."""
    if not entry.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{entry} is a link that leads out of {folder}; put the hand-in itself there, or remove it.")
