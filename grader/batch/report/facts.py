"""What a class report takes from the report of one grade: plain, small, and read once for each unit. Pure.

A report holds text of students, and is trusted in nothing but its form, which `render.json` gives it: what a field
should not be counts as absent.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from grader.batch.report.shape import compared, is_telling, shape
from grader.wording.text import safe

Fields = Mapping[str, Any]

LETTERS = {"passed": "P", "failed": "F", "blocked": "B", "skipped": "S", "broken": "X"}
"""A letter for each status of a check; anything else is X."""


class Check(NamedTuple):
    """A check as the exercise has it."""

    id: str
    title: str
    points: float


class Fault(NamedTuple):
    """A kind of finding in a check: the same mistake with other data gives the same fault."""

    check: str
    subject: str
    expected: str
    actual: str
    diagnosis: str

    def told(self) -> str:
        """In one line."""
        seen = [f"expected {self.expected}"] if self.expected else []
        seen += [f"got {self.actual}"] if self.actual else []
        text = f"{self.subject}: {', '.join(seen)}" if seen else self.subject
        return f"{text} ({self.diagnosis})" if self.diagnosis else text


class Standstill(NamedTuple):
    """A deadlock: what the ranks wait in, with the lines of the student's file, at that world size."""

    calls: tuple[str, ...]
    lines: tuple[int, ...]
    world_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One grade. `outcomes` has a letter for each check. `faults` are the kinds of findings of the checks that failed,
    `sentences` an example of each that is new. `endings` are the kinds of what went wrong in runs, such as `raised
    ValueError`; `share` is what was earned of what could be, None where there is no mark."""

    exercise: str
    title: str
    checks: tuple[Check, ...]
    outcomes: str
    share: float | None
    torch: str
    faults: frozenset[Fault] = frozenset()
    sentences: Mapping[Fault, str]
    endings: frozenset[str] = frozenset()
    standstills: frozenset[Standstill] = frozenset()
    uncompilable: str = ""
    blocked: frozenset[str] = frozenset()

    def those(self, letter: str) -> frozenset[str]:
        """The checks that came out so."""
        return frozenset(check.id for check, own in zip(self.checks, self.outcomes, strict=True) if own == letter)


def facts_of(report: Fields, known: Container[Fault] = ()) -> Facts:
    """The facts of a report as JSON gives it, without an example of what is `known`. Raises KeyError, TypeError or
    ValueError where it is none."""
    diagnoses = {run["case"]: run["diagnosis"] for run in report["runs"] if run["diagnosis"]}
    problem = report["submission"]["problem"]
    faults = {} if problem else dict(_faults(report["checks"], diagnoses))
    mark = report["mark"]
    return Facts(
        exercise=report["exercise"],
        title=report["title"],
        checks=_same(tuple(Check(check["id"], check["title"], float(check["points"])) for check in report["checks"])),
        outcomes="".join(LETTERS.get(check["status"], "X") for check in report["checks"]),
        share=None if mark is None or not report["max_score"] else mark / report["max_score"],
        torch=report["torch"],
        faults=frozenset(faults),
        sentences={fault: safe(told, 300) for fault, told in faults.items() if fault not in known},
        endings=frozenset(_endings(report["runs"])),
        standstills=frozenset(_standstills(report["runs"])),
        blocked=frozenset(check["id"] for check in report["checks"] if check["status"] == "blocked"),
        uncompilable=safe(_sentence(problem), 200) if problem else "",
    )


@lru_cache(maxsize=1024)
def _same(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Equal checks as one object, however many reports have them."""
    return checks


def _faults(checks: Iterable[Fields], diagnoses: Mapping[str, Fields]) -> Iterable[tuple[Fault, str]]:
    for check in checks:
        if check["status"] != "failed":
            continue
        for finding in reversed(check["findings"]):  # so that the first of a kind is its example
            if is_telling(finding["subject"]):
                yield _fault(check["id"], finding, diagnoses), _sentence(finding)
        if not check["findings"]:
            yield Fault(check["id"], shape(check["message"]), "", "", ""), check["message"]


def _fault(check: str, finding: Fields, diagnoses: Mapping[str, Fields]) -> Fault:
    diagnosis = diagnoses.get(finding["case"] or "", {}).get("kind", "")
    expected, actual = finding["expected"], finding["actual"]
    return Fault(check, shape(finding["subject"]), shape(expected), compared(expected, actual), shape(diagnosis))


def _sentence(finding: Fields) -> str:
    seen = [f"expected {finding['expected']}"] if finding["expected"] else []
    seen += [f"got {finding['actual']}"] if finding["actual"] else []
    return f"{finding['subject']}: {', '.join(seen)}" if seen else finding["subject"]


def _endings(runs: Sequence[Fields]) -> Iterable[str]:
    """What went wrong first in each run, by the ranks that are its cause."""
    for run in runs:
        if diagnosis := run["diagnosis"]:
            causes = set(diagnosis["ranks"])
            named = {_ending(rank) for rank in run["ranks"] if rank["rank"] in causes}
            yield from named or {shape(diagnosis["kind"])}


def _ending(rank: Fields) -> str:
    kind, facts = rank["ending"], rank["facts"]
    detail = {"raised": "type", "exited": "how", "killed": "limit" if facts.get("limit") else "signal"}.get(kind, "")
    told = shape(str(facts.get(detail) or ""))
    return f"{kind.replace('_', ' ')} {told}".strip()


def _standstills(runs: Sequence[Fields]) -> Iterable[Standstill]:
    for run in runs:
        waits = [rank for rank in run["ranks"] if rank["ending"] == "deadlocked"]
        if waits:
            pairs = sorted({(shape(rank["facts"]["wait"]["operation"]), rank["at"] or 0) for rank in waits})
            calls, lines = tuple(call for call, _ in pairs[:4]), tuple(line for _, line in pairs[:4])
            yield Standstill(calls, lines, run["world_size"])
