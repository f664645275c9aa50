"""What a grade has so far, written as it comes, so that a grade that is killed can be taken up again.

A journal is a file of records, each a wire frame with its length and a checksum, appended and synced one by one. The
first names the grade; then come runs and verdicts. A record that was cut off in the middle is as good as none. Reading
one executes nothing. Verdicts are there for whoever looks in; on resuming they are judged anew from the runs.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.model import Exercise, Run, Submission, Verdict
from grader.model.errors import UsageError, WireError
from grader.records import digests, recording, wire
from grader.records.structure import unstructure

FORMAT = "ranklings/journal/1"
MAGIC = b"RANKLINGS JOURNAL\n"
"""What the file begins with, so that nobody's text is taken for a journal and overwritten."""
_DIGEST = 16


class Journal:
    """A grade's journal. `runs` holds the runs that it had when it was opened, by case id; `seed` is the grade's."""

    def __init__(self, path: Path, exercise: Exercise, submission: Submission, seed: int | None, drawn: int) -> None:
        """Opens or begins the file. `seed` is the one asked for, if any, `drawn` the one for a new grade. Raises
        UsageError for a journal of another grade, or where the file cannot be used."""
        self._path, self._lock = path, threading.Lock()
        self.runs: dict[str, Run] = {}
        head = {
            "format": FORMAT,
            "exercise": exercise.name,
            "files": digests.of_exercise(exercise),
            "submission": submission.digest,
        }
        try:
            records, end = _read(path)
            self.seed = self._resumed(records, head, seed) if records else drawn if seed is None else seed
            self._file = path.open("r+b" if records else "wb")
            self._file.truncate(end)
            self._file.seek(end)
            if not records:
                self._file.write(MAGIC)
        except OSError as error:
            raise UsageError(f"The journal {path} cannot be used: {error.strerror}.") from error
        if not records:
            self._append({**head, "seed": self.seed})

    def _resumed(self, records: list[Any], head: dict[str, Any], seed: int | None) -> int:
        first, *rest = records
        try:
            same = all(first[key] == value for key, value in head.items()) and seed in (None, first["seed"])
            self.runs = {run.case.id: run for run in map(recording.run_of, (r["run"] for r in rest if "run" in r))}
            resumed = first["seed"]
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            same, resumed = False, 0
        if not same or type(resumed) is not int:
            raise UsageError(f"{self._path} is the journal of another grade. Name another file, or delete this one.")
        return resumed

    def add_run(self, run: Run) -> None:
        self._append({"run": unstructure(run)})

    def add_verdict(self, verdict: Verdict) -> None:
        row = {"check": verdict.check.id, "outcome": verdict.outcome.value, "score": verdict.score}
        self._append({"verdict": {**row, "message": verdict.message}})

    def _append(self, record: dict[str, Any]) -> None:
        frame = wire.encode(record)
        try:
            with self._lock:
                self._file.write(struct.pack(">Q", len(frame)) + _sum(frame) + frame)
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"The journal {self._path} could not be written: {error.strerror}.") from error

    def close(self) -> None:
        self._file.close()


def _sum(frame: bytes) -> bytes:
    return hashlib.blake2b(frame, digest_size=_DIGEST).digest()


def _read(path: Path) -> tuple[list[Any], int]:
    """The whole records of a file and where they end."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    records, end = [], 0
    if content.startswith(MAGIC):
        for record, after in _records(memoryview(content)):
            records.append(record)
            end = after
    elif not MAGIC.startswith(content):
        raise UsageError(f"{path} is no journal. Name another file, or delete this one.")
    return records, end


def _records(view: memoryview) -> Iterator[tuple[Any, int]]:
    place = len(MAGIC)
    while place + 8 + _DIGEST <= len(view):
        (length,) = struct.unpack_from(">Q", view, place)
        start = place + 8 + _DIGEST
        frame = bytes(view[start : start + length])
        if len(frame) < length or _sum(frame) != view[place + 8 : start]:
            return
        place = start + length
        try:
            yield wire.decode(frame), place
        except WireError:
            return
