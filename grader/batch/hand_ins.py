"""Who handed in what, from the folder that a platform exported or that was made by hand.

    a folder a person           ada/train_ddp.py, ada/03_train_ddp/train_ddp.py, a clone of the students' repository
    a file a person             ada.py, for an assignment of one exercise
    Gradescope                  submission_123/…, with submission_metadata.yml (names, times)
    Canvas                      doejohn_LATE_4711_815_train_ddp-1.py: the number after the name is the user's
    Moodle                      Ada Lovelace_4711_assignsubmission_file/…

A table (`--people`) says otherwise where that does not do: CSV with the columns hand_in and student, and submitted_at
and due where they are known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from grader.catalog.assignment import moment
from grader.course import roster
from grader.model.errors import UsageError
from grader.model.words import count

GRADESCOPE = "submission_metadata.yml"
CANVAS = re.compile(
    r"(?P<name>[^_]+)(?P<late>_LATE)?_(?P<user>\d+)_(?P<number>\d+)_(?P<file>.+?)(?:-(?P<again>\d+))?\.py"
)
MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_file_?")
NO_PERSON = ("__MACOSX", "__pycache__")
COLUMNS = ("hand_in", "student", "submitted_at", "due")


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


def find(folder: Path, file: str = "", people: Path | None = None) -> tuple[HandIn, ...]:
    """All hand-ins in a folder, by person. `file` is the one file that is asked for, empty where there are several.
    Raises UsageError where there are none, or one has a name that nobody can type."""
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}; name the one that holds the hand-ins, a folder for each person."
        )
    try:
        found = list(_found(folder, file))
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None
    if people is not None:
        found = list(_as_told(found, people))
    if not found:
        raise UsageError(f"{folder} holds no hand-ins: neither a folder for each person nor an export of a platform.")
    for one in found:
        if not one.who.strip() or not one.who.isprintable():
            raise UsageError(
                f"{folder / one.name!r} names nobody: a student's name has letters that can be printed. Rename it, or "
                "say by --people whose it is."
            )
    return tuple(sorted(found, key=lambda one: (roster.normal(one.who), one.order, one.name)))


def _found(folder: Path, file: str) -> Iterator[HandIn]:
    with os.scandir(folder) as scanned:
        entries = [entry for entry in scanned if entry.name[:1] != "." and entry.name not in NO_PERSON]
    if (folder / GRADESCOPE).is_file():
        yield from _gradescope(folder)
    elif any(CANVAS.fullmatch(entry.name) for entry in entries):
        yield from _canvas(sorted(Path(entry.path) for entry in entries))
    else:
        for entry in entries:
            if entry.is_symlink():
                _check_inside(Path(entry.path), folder)
            if entry.is_dir():
                moodle = MOODLE.fullmatch(entry.name)
                yield HandIn(who=moodle["name"] if moodle else entry.name, name=entry.name, folder=Path(entry.path))
            elif file and entry.name.endswith(".py"):
                yield HandIn(who=entry.name[:-3], name=entry.name, files={file: Path(entry.path)})


def _check_inside(entry: Path, folder: Path) -> None:
    """Raises UsageError for a link that leads out of the folder of all hand-ins."""
    if not entry.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{entry} is a link that leads out of {folder}; put the hand-in itself there, or remove it.")


def _canvas(entries: Sequence[Path]) -> Iterator[HandIn]:
    """Canvas' "Download Submissions": all files in one folder, those of one user with one number."""
    users: dict[str, list[tuple[re.Match[str], Path]]] = {}
    for entry in entries:
        if found := CANVAS.fullmatch(entry.name):
            users.setdefault(found["user"], []).append((found, entry))
    for user, matches in users.items():
        newest = sorted(matches, key=lambda pair: (int(pair[0]["again"] or 0), int(pair[0]["number"])))
        files = {f"{match['file']}.py": entry for match, entry in newest}
        late = any(match["late"] for match, _ in matches)
        note = "Canvas says that it was handed in late." if late else ""
        yield HandIn(who=user, name=newest[-1][1].name, files=files, note=note)


def _gradescope(folder: Path) -> Iterator[HandIn]:
    """Gradescope's "Export Submissions". A group's hand-in counts for each of its members."""
    try:
        told = yaml.safe_load((folder / GRADESCOPE).read_text(encoding="utf-8"))
        for name, facts in told.items():
            if not (folder / name).is_dir():
                continue
            _check_inside(folder / name, folder)
            for person in facts[":submitters"]:
                yield HandIn(
                    who=_identity(person),
                    name=name,
                    folder=folder / name,
                    submitted_at=_created(facts),
                    order=_number(name),
                )
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{folder / GRADESCOPE} is not as Gradescope exports it ({' '.join(str(error).split())[:80]}); export the "
            "submissions again."
        ) from None


def _identity(person: Mapping[str, Any]) -> str:
    facts = {str(name).strip(":"): value for name, value in person.items()}
    return str(next(facts[name] for name in ("email", "sid", "name") if facts.get(name)))


def _created(facts: Mapping[str, Any]) -> datetime | None:
    told = next((value for name, value in facts.items() if str(name).strip(":") == "created_at"), None)
    return moment(str(told)) if told else None


def _number(name: str) -> int:
    return int(re.sub(r"\D", "", name) or 0)


def _as_told(found: Sequence[HandIn], people: Path) -> Iterator[HandIn]:
    """The hand-ins with what the table of --people says of them."""
    rows = _table(people)
    unknown = set(rows) - {one.name for one in found}
    if unknown:
        raise UsageError(f"{people} names {sorted(unknown)[0]!r}, and there is no hand-in of that name.")
    for one in found:
        row = rows.get(one.name)
        if row is None:
            yield one
            continue
        yield replace(
            one,
            who=row.get("student") or one.who,
            submitted_at=_time(row, "submitted_at", people) or one.submitted_at,
            due=_time(row, "due", people),
        )


def _table(people: Path) -> dict[str, dict[str, str]]:
    try:
        known = roster.read(people.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{people} cannot be read: {reason}.") from None
    names = [name.lower() for name in known.header]
    if "hand_in" not in names or not set(names) <= set(COLUMNS):
        raise UsageError(f"{people} must have the column hand_in and may have {', '.join(COLUMNS[1:])}, and no others.")
    rows = [{name: cell.strip() for name, cell in zip(names, row, strict=True)} for row in known.rows if any(row)]
    named = {row["hand_in"]: row for row in rows}
    if len(named) < len(rows):
        raise UsageError(f"{people} has {count(len(rows) - len(named), 'hand-in')} twice; keep one row of each.")
    return named


def _time(row: Mapping[str, str], column: str, people: Path) -> datetime | None:
    try:
        return moment(row[column]) if row.get(column) else None
    except ValueError:
        raise UsageError(
            f"{people}: {row[column]!r} is no time with a time zone; write it like 2026-10-12T23:59:00+02:00."
        ) from None
