"""A pack: some wrong programs of an exercise, each with the page that it got, in one compressed file.

Its author makes it of `reference/` (`authoring/mends.py`), and it goes to students without that folder. It holds the
solution's code in every program, so it is never unpacked on disk: one program at a time is written into the student's
folder, after they have passed the exercise. That keeps it from eyes, searches and editors, and from nobody who sets out
to unpack it. Of a page it keeps what a run alone can tell; titles, hints and reasons are today's, from the exercise.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grader import files
from grader.catalog import reference
from grader.model import Exercise, Report, Submission
from grader.model.errors import UsageError
from grader.practice.mend.draw import Offer
from grader.records import reading
from grader.records.structure import exactly, unstructure

FORMAT = "ranklings/mends/1"
FILE, FOLDER, SUFFIX = "pack.mends", "packs", ".mends"
MAX_BYTES = 1 << 26
"""Of a pack that is opened: nobody's memory is filled by a file of a few bytes."""

Fields = dict[str, Any]
LISTS = ("fails", "mended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """One wrong program. `mistake` is its author's sentence, `fails` the checks that it fails; `mended` are lines of a
    diff that say what would be right, `function` and `line` where that is (1 is the first line). `report` is what the
    page is made of. `digest` is of all that the page rests on."""

    mutant: str
    mistake: str
    fails: tuple[str, ...]
    source: str
    mended: tuple[str, ...]
    function: str
    line: int
    digest: str
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The wrong programs of one exercise, and where they were read."""

    exercise: str
    path: Path
    mends: tuple[Packed, ...]

    def offers(self) -> list[Offer]:
        return [Offer(exercise=self.exercise, mutant=mend.mutant, fails=mend.fails) for mend in self.mends]

    def named(self, mutant: str) -> Packed | None:
        return next((mend for mend in self.mends if mend.mutant == mutant), None)


def place(name: str, root: Path) -> Path:
    """Where an exercise's pack lies: beside its solution, or where a bundle for students has it."""
    beside = reference(name, root) / FILE
    return beside if beside.parent.is_dir() else root / FOLDER / f"{name}{SUFFIX}"


def load(name: str, root: Path) -> Pack | None:
    """The pack of an exercise; None where there is none. Raises UsageError for a file that is no pack of it."""
    path = place(name, root)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        data = json.loads(_opened(content))
        if exactly(dict, data)["format"] != FORMAT or data["exercise"] != name:
            raise ValueError(f"it holds {data['format']} of {data['exercise']}")
        return Pack(exercise=name, path=path, mends=tuple(_packed(entry) for entry in exactly(list, data["mends"])))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, lzma.LZMAError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UsageError(f"{path} is no pack of mends for {name} ({reason}); take it from the course anew.") from None


def save(path: Path, name: str, mends: Sequence[Packed]) -> None:
    """Write a pack, whole or not at all."""
    data = {"format": FORMAT, "exercise": name, "mends": [asdict(mend) for mend in mends]}
    content = lzma.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())
    files.write(path, content)


def _opened(content: bytes) -> bytes:
    machine = lzma.LZMADecompressor(memlimit=MAX_BYTES)
    opened = machine.decompress(content, MAX_BYTES)
    if not machine.eof:
        raise ValueError("it is cut off, or too large")
    return opened


def _packed(entry: Fields) -> Packed:
    lists: Fields = {name: tuple(exactly(str, line) for line in exactly(list, entry[name])) for name in LISTS}
    words: Fields = {name: exactly(str, entry[name]) for name in ("mutant", "mistake", "source", "function", "digest")}
    return Packed(**lists, **words, line=exactly(int, entry["line"]), report=exactly(dict, entry["report"]))


def fits(packed: Packed, exercise: Exercise) -> bool:
    """Whether the exercise still has the checks that the program is to fail."""
    return set(packed.fails) <= {check.id for check in exercise.checks}


# -- the recorded page ------------------------------------------------------------------------------------------------

TOLD = ("seed", "device", "sandbox", "torch", "seconds")
"""What a page says of the grade as a whole."""
DIGITS = 4
"""Of the times in a trace, in seconds: no page shows more."""
MOST_OF_A_TRACE = 50_000
"""Letters of a rank's trace; a longer one is left out of a run that came to its end."""
OF_A_CHECK = ("id", "status", "findings", "message")


def pruned(report: Fields) -> Fields:
    """Of a report's JSON what the run alone tells, and of its runs those that went wrong or that a finding is about."""
    about = {finding["case"] for check in report["checks"] for finding in check["findings"] if finding["case"]}
    return {
        **{name: report[name] for name in TOLD},
        "checks": [{name: check[name] for name in OF_A_CHECK} for check in report["checks"]],
        "runs": [_slim(run) for run in report["runs"] if run["diagnosis"] or run["case"] in about],
    }


def _slim(run: Fields) -> Fields:
    """A run with times as a page shows them, and without a trace that is long and tells of nothing that went wrong."""
    ranks = _rounded(run["ranks"])
    if not run["diagnosis"]:
        ranks = [{**rank, "trace": rank["trace"] if _is_short(rank["trace"]) else None} for rank in ranks]
    return {**run, "ranks": ranks}


def _is_short(trace: Any) -> bool:
    return len(json.dumps(trace)) <= MOST_OF_A_TRACE


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {name: _rounded(item) for name, item in value.items()}
        case list():
            return [_rounded(item) for item in value]
        case float():
            return round(value, DIGITS)
    return value


def report_of(packed: Packed, exercise: Exercise, file: Path) -> Report:
    """The report that the program got when it was packed, as if `file` had been graded. Raises UsageError for a pack
    that holds none."""
    submission = Submission.of(file, packed.source.encode())
    known = {check.id: check for check in exercise.checks}
    try:
        checks = [
            {**_of_check(known[check["id"]]), **check, "seconds": 0.0}
            for check in packed.report["checks"]
            if check["id"] in known
        ]
        data = {
            **packed.report,
            "schema": reading.REPORT,
            "exercise": exercise.name,
            "title": exercise.title,
            "summary": exercise.summary,
            "status": "failed",
            "requires": unstructure(exercise.requires),
            "submission": {"file": file.name, "path": str(file), "digest": submission.digest, "source": packed.source,
                           "problem": None},
            "notes": [],
            "checks": checks,
            "cases": [],
        }  # fmt: skip
        return reading.report_of(data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"The page of a mend of {exercise.name} cannot be read ({error}); pack it anew.") from None


def _of_check(check: Any) -> Fields:
    return {name: unstructure(getattr(check, name)) for name in ("title", "points", "visibility", "hints", "needs")}
