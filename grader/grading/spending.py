"""What a grade keeps in memory of all its runs, held against `model.budgets`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from grader.model import MIB, Killed, RankRecord, Run, budgets
from grader.ranks.diagnosis import diagnose

VALUE = 200
"""About how many bytes any value takes with its place in a list or a table."""


class Spending:
    """The runs of one grade, from any thread. `known` are those that it has already."""

    def __init__(self, known: Iterable[Run] = ()) -> None:
        self._lock, self._bytes, self._events = threading.Lock(), 0, 0
        for run in known:
            self._excess(run)

    def charged(self, run: Run, file: str) -> Run:
        """The run; or, where it is more than the grade may keep, one that was ended for that and has nothing.
        `file` is the student's file, for the sentences."""
        run = _with_files_once(run) if run.opened else run
        limit = self._excess(run)
        if not limit:
            return run
        ending = Killed(signal="SIGKILL", by_grader=True, limit=limit)
        ranks = tuple(RankRecord(rank=r.rank, ending=ending, output=r.output, device=r.device) for r in run.ranks)
        return replace(run, ranks=ranks, opened=(), diagnosis=diagnose(run.case, ranks, file))

    def _excess(self, run: Run) -> str:
        """Add the run to what is kept. Which limit it passes, and then it is not kept; "" if none."""
        size = memory_of([[dict(record.observations) for record in run.ranks], [file.content for file in run.opened]])
        events = sum(len(record.trace.communications) + len(record.trace.spans) for record in run.ranks if record.trace)
        with self._lock:
            if self._bytes + size > budgets.OBSERVED_BY_GRADE:
                return f"observations: more than {budgets.OBSERVED_BY_GRADE // MIB} MiB of all runs"
            if self._events + events > budgets.EVENTS_OF_GRADE:
                return f"events: more than {budgets.EVENTS_OF_GRADE} in the traces of all runs"
            self._bytes, self._events = self._bytes + size, self._events + events
        return ""


def _with_files_once(run: Run) -> Run:
    """The run with equal bytes kept once: several ranks have often recorded one file, some of them again and again."""
    known, met = dict[bytes, bytes](), list[int]()

    def once(value: Any) -> Any:
        if type(value) is bytes:
            met.append(id(value))
            return known.setdefault(value, value)
        if type(value) is dict:
            return {key: once(part) for key, part in value.items()}
        return [once(part) for part in value] if type(value) is list else value

    ranks = tuple(replace(record, observations=once(dict(record.observations))) for record in run.ranks)
    return replace(run, ranks=ranks) if len(set(met)) > len(known) else run


def memory_of(value: Any) -> int:
    """About how many bytes a value of the wire takes, at most. The same bytes in several places count once."""
    waiting, size, seen = [value], 0, set[int]()
    while waiting:
        part = waiting.pop()
        size += VALUE
        if type(part) is dict:
            waiting += part.values()
            size += sum(4 * len(key) if type(key) is str else VALUE for key in part)
        elif type(part) is list:
            waiting += part
        elif type(part) is str:
            size += 4 * len(part)
        elif type(part) is bytes and id(part) not in seen:
            seen.add(id(part))
            size += len(part)
        elif hasattr(part, "element_size"):
            size += part.numel() * part.element_size()
    return size
