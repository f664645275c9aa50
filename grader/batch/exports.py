"""Hand-ins as platforms export them.

Gradescope    submission_123/…, with submission_metadata.yml (names, times)
Canvas        doejohn_LATE_4711_815_train_ddp-1.py: the first number is the user's, the second the file's
              (`content_zipper.rb`); anon_x7Yz2_815_train_ddp.py where grading is anonymous
Moodle        Ada Lovelace_4711_assignsubmission_file/…, or without folders Ada Lovelace_4711_…_file_train_ddp.py;
              Participant_4711_… where marking is blind
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from grader.batch.hand_ins import UNPACK, HandIn, check_inside, entries_of, in_order, plain
from grader.catalog.assignment import moment
from grader.catalog.document import FAST
from grader.model.errors import UsageError

GRADESCOPE = "submission_metadata.yml"
CANVAS = re.compile(
    r"(?:(?P<name>.+?)(?P<late>_LATE)?_(?P<user>\d+)|(?P<late_anonymous>LATE_)?(?P<anonymous>anon_[^_]+))"
    r"_(?P<number>\d+)_(?P<file>.+?)(?:-(?P<again>\d+))?(?P<suffix>\.\w+)?"
)
MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assign(?P<kind>(?:submission|feedback)_[a-z]+)_?(?P<file>(?<=_).+)?")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar")
PARTICIPANT = "Participant"
"""What Moodle calls everybody where marking is blind, and with the number in the column Identifier."""

Entries = Sequence[os.DirEntry[str]]


def find(folder: Path, file: str = "") -> tuple[HandIn, ...]:
    """All hand-ins in a folder, by person. `file` is the one file that is asked for, empty where there are several.
    Raises UsageError where there are none."""
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}; name the one that holds the hand-ins, a folder for each person."
        )
    try:
        entries = entries_of(folder)
        found = list(_found(folder, entries, file))
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {error.strerror}.") from None
    if not found:
        _refuse_archives(entry.name for entry in entries)
        raise UsageError(f"{folder} holds no hand-ins: neither a folder for each person nor an export of a platform.")
    return in_order(found, folder)


def _found(folder: Path, entries: Entries, file: str) -> Iterator[HandIn]:
    if (folder / GRADESCOPE).is_file():
        yield from _gradescope(folder)
    elif _is_canvas(entries):
        yield from _canvas(entries, folder)
    else:
        moodle = {entry.name: match for entry in entries if (match := MOODLE.fullmatch(entry.name))}
        yield from _moodle([entry for entry in entries if entry.name in moodle], moodle, folder)
        yield from plain([entry for entry in entries if entry.name not in moodle], folder, file)


def _refuse_archives(names: Iterable[str]) -> None:
    if archives := sorted(name for name in names if name.endswith(ARCHIVES)):
        raise UsageError(
            f"{archives[0]} is still packed; unpack every hand-in into a folder of its name, as by {UNPACK}"
        )


# ── Canvas ──


def _is_canvas(entries: Entries) -> bool:
    """Whether there is such a file, or nothing but such folders, as somebody unpacked them."""
    matches = [entry for entry in entries if CANVAS.fullmatch(entry.name) and not MOODLE.fullmatch(entry.name)]
    return any(entry.name.endswith((".py", ".zip")) for entry in matches) or len(matches) == len(entries) > 0


def _canvas(entries: Entries, folder: Path) -> Iterator[HandIn]:
    """Canvas' "Download Submissions": all files in one folder, those of one user with one number. Whoever handed in
    something else than Python has handed in nothing that is asked for."""
    users: dict[str, list[tuple[re.Match[str], os.DirEntry[str]]]] = {}
    folders = {entry.name for entry in entries if entry.is_dir()}
    for entry in entries:
        if found := CANVAS.fullmatch(entry.name):
            if entry.is_symlink():
                check_inside(Path(entry.path), folder)
            users.setdefault(found["user"] or found["anonymous"], []).append((found, entry))
            if os.path.splitext(entry.name)[0] not in folders:
                _refuse_archives([entry.name])
    for user, matches in users.items():
        newest = sorted(matches, key=lambda pair: (int(pair[0]["again"] or 0), int(pair[0]["number"])))
        files = {f"{match['file']}.py": Path(entry.path) for match, entry in newest if match["suffix"] == ".py"}
        unpacked = [Path(entry.path) for _, entry in newest if entry.is_dir()]
        late = any(match["late"] or match["late_anonymous"] for match, _ in matches)
        note = "Canvas says that it was handed in late." if late else ""
        place = unpacked[-1] if unpacked else None
        yield HandIn(who=user, name=newest[-1][1].name, folder=place, files=files, note=note)


# ── Moodle ──


def _moodle(entries: Entries, matches: Mapping[str, re.Match[str]], folder: Path) -> Iterator[HandIn]:
    """Moodle's "Download all submissions", in folders or without. A number stands for one person; what was typed into
    the page (`onlinetext`) and feedback are no files of theirs."""
    numbers: dict[str, list[os.DirEntry[str]]] = {}
    for entry in entries:
        if entry.is_symlink():
            check_inside(Path(entry.path), folder)
        numbers.setdefault(matches[entry.name]["number"], []).append(entry)
    namesakes = Counter(matches[own[0].name]["name"] for own in numbers.values())
    for number, own in numbers.items():
        name = matches[own[0].name]["name"]
        of_files = [entry for entry in own if matches[entry.name]["kind"] == "submission_file"]
        files = {found: Path(entry.path) for entry in of_files if (found := matches[entry.name]["file"])}
        folders = [Path(entry.path) for entry in of_files if entry.is_dir()]
        alone = namesakes[name] == 1 and name != PARTICIPANT
        yield HandIn(
            who=name if alone else f"{PARTICIPANT} {number}",
            name=(of_files or own)[0].name,
            folder=folders[0] if folders else None,
            files=files,
        )


# ── Gradescope ──


class _Loader(FAST):  # type: ignore[misc]
    """YAML as Ruby writes it: its objects are mappings and lists of what they hold. Nothing is ever called."""


def _ruby(loader: Any, suffix: str, node: yaml.Node) -> Any:
    match node:
        case yaml.MappingNode():
            return loader.construct_mapping(node, deep=True)
        case yaml.SequenceNode():
            return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


_Loader.add_multi_constructor("!ruby/", _ruby)


def _gradescope(folder: Path) -> Iterator[HandIn]:
    """Gradescope's "Export Submissions". A group's hand-in counts for each of its members."""
    try:
        told = yaml.load((folder / GRADESCOPE).read_bytes(), _Loader)
        for name, facts in told.items():
            if not (folder / name).is_dir():
                continue
            check_inside(folder / name, folder)
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
    if isinstance(told, dict):  # a time with its zone, as Rails has it
        told = told["utc"]
    return moment(str(told)) if told else None


def _number(name: str) -> int:
    return int(re.sub(r"\D", "", name) or 0)
