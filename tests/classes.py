"""Made-up classes: rows with small reports, for tests of what is made of a class. Nothing is graded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.batch.row import Row, Standing

EXERCISE = "05_no_sync"
CHECKS = (("runs", 20.0, ()), ("accumulates", 30.0, ("runs",)), ("overlaps", 25.0, ("runs",)), ("leftovers", 25.0, ()))
STATUS = {"P": "passed", "F": "failed", "B": "blocked", "S": "skipped", "X": "broken"}
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUp(Row):
    """A row whose report is at hand."""

    data: Fields | None = None

    def report(self) -> Mapping[str, Any] | None:
        return self.data


def finding(subject: str, expected: str = "", actual: str = "", case: str | None = None) -> Fields:
    return {
        "subject": subject,
        "ranks": [0],
        "expected": expected,
        "actual": actual,
        "line": 7,
        "case": case,
        "hint": None,
    }


def deadlocked(world_size: int, *waits: tuple[str, int]) -> Fields:
    """A run in which each rank waits in a call at a line."""
    ranks = [
        {"rank": rank, "ending": "deadlocked", "at": line, "facts": {"wait": {"operation": call}}}
        for rank, (call, line) in enumerate(waits)
    ]
    diagnosis = {"kind": "deadlocked", "ranks": list(range(len(waits))), "findings": []}
    return {"case": f"train[{world_size}]", "world_size": world_size, "diagnosis": diagnosis, "ranks": ranks}


def raised(kind: str) -> Fields:
    """A run in which rank 0 raised."""
    ranks = [{"rank": 0, "ending": "raised", "at": 3, "facts": {"type": kind}}]
    diagnosis = {"kind": "raised", "ranks": [0], "findings": []}
    return {"case": "train[1]", "world_size": 1, "diagnosis": diagnosis, "ranks": ranks}


def report(
    outcomes: str,
    found: Mapping[str, Sequence[Fields]] | None = None,
    runs: Iterable[Fields] = (),
    problem: Fields | None = None,
) -> Fields:
    """A report whose checks came out so, a letter each."""
    counted = [points for (_, points, _), letter in zip(CHECKS, outcomes, strict=True) if letter != "S"]
    score = sum(points for (_, points, _), letter in zip(CHECKS, outcomes, strict=True) if letter == "P")
    return {
        "schema": "ranklings/report/1",
        "exercise": EXERCISE,
        "title": "Gradient accumulation",
        "torch": "2.13.0",
        "status": "error" if "X" in outcomes else "passed" if outcomes == "PPPP" else "failed",
        "score": score,
        "seed": 7,
        "mark": None if "X" in outcomes else score,
        "max_score": sum(counted),
        "submission": {"problem": problem},
        "runs": list(runs),
        "checks": [
            {
                "id": name,
                "title": f"It {name}",
                "points": points,
                "needs": list(needs),
                "status": STATUS[letter],
                "message": "",
                "findings": list((found or {}).get(name, ())) if letter == "F" else [],
            }
            for (name, points, needs), letter in zip(CHECKS, outcomes, strict=True)
        ],
    }


def row(who: str, data: Fields | None, **more: Any) -> MadeUp:
    """One hand-in; its unit is what its report says, so that equal reports are equal files."""
    text = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    fields: dict[str, Any] = {
        "who": f"{who}@uni",
        "exercise": EXERCISE,
        "unit": text,
        "standing": Standing.FINAL,
        "weight": 40.0,
        "seed": 7,
        "seconds": 6.0,
        "busy": 5.0,
        "cpu": 9.0,
        "report_file": "" if data is None else f"{text}.json",
        "source_file": "no_sync.py",
        "data": data,
    }
    return MadeUp(**(fields | more))


TWICE = finding("the gradient", "0.25 at [1, 2]", "0.5; all 12 elements differ, by 0.25 at most; exactly 2 times")
TWICE_AGAIN = finding("the gradient", "-7.5 at [0, 0]", "-15; all 12 elements differ, by 7.5 at most; exactly 3 times")
OLD = finding("the gradient", "1.5", "2.5; the gradients from before the call are in it")
LATE = finding("gradients begun during backward", "3", "0")
STUCK = finding("Deadlock", actual="waits in all_reduce of 24 bytes", case="train[2]")


def small_class() -> list[MadeUp]:
    """Twenty-five people with all that can happen to a hand-in; each is called as what happened, at uni."""
    rows = [row(f"right{number}", report("PPPP"), unit=f"right{number}") for number in range(8)]
    rows += [row(f"twice{number}", report("PFPP", {"accumulates": [TWICE]}), unit=f"t{number}") for number in range(3)]
    rows += [row("twice3", report("PFPP", {"accumulates": [TWICE_AGAIN]}))]
    rows += [row(f"old{number}", report("PPPF", {"leftovers": [OLD]})) for number in range(2)]
    rows += [row("both", report("PFPF", {"accumulates": [TWICE], "leftovers": [OLD]}))]
    rows += [row("late", report("PPFP", {"overlaps": [LATE]}), kept=0.9, late="1 day late: 90 % are left.")]
    stuck = [deadlocked(3, ("all_reduce", 40), ("barrier", 44)), deadlocked(2, ("all_reduce", 41), ("barrier", 44))]
    rows += [row("stuck", report("FBBP", {"runs": [STUCK]}, stuck))]
    rows += [row("raises", report("FBBF", {"runs": [finding("ValueError was raised")]}, [raised("ValueError")]))]
    rows += [row("stub", report("FBBF"), untouched=True)]
    rows += [row("comma", report("FBBF", problem=finding("SyntaxError", actual="invalid syntax")))]
    rows += [row("gone", report("FBBF", problem=finding("The file is missing")), source_file="")]
    rows += [row("ours", report("PPXP")), row("flip", report("PPPP"), unstable=True, flipped=("overlaps",))]
    rows += [
        row("lost", None, unit="lost", standing=Standing.QUARANTINED),
        row("waits", None, standing=Standing.EXPECTED),
    ]
    return rows
