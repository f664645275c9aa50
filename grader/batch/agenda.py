"""What is left to do of a plan: which units, whether they are run or only judged again, and how long it will take."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from grader.batch.ledger import Ledger
from grader.batch.recording import JUDGE, RUN
from grader.batch.row import Standing
from grader.batch.seam import Work

AGAIN = ("broken", "failed", "all")
SECONDS_OF_JUDGING = 0.5
"""What judging recorded runs takes where no such time is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A unit that is to be graded. `runs` is the key of the runs that are judged, where it is not to be run; `seconds`
    is how long that will take; `losses` counts the workers that it lost, and `verdict` says that it has one."""

    unit: str
    exercise: str
    files: str
    seed: int
    seconds: float
    runs: str = ""
    losses: int = 0
    verdict: bool = False

    @property
    def kind(self) -> str:
        return JUDGE if self.runs else RUN

    def to_be_run(self) -> Task:
        """The same unit without its recorded runs."""
        return replace(self, runs="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """The tasks, the longest first, and how many units the plan has in all."""

    tasks: tuple[Task, ...]
    units: int

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """How many tasks there are by exercise and kind."""
        return Counter((task.exercise, task.kind) for task in self.tasks)

    def seconds(self, slots: int) -> float:
        """How long it will take on so many slots."""
        return max([sum(task.seconds for task in self.tasks) / slots, *(task.seconds for task in self.tasks[:1])])


def agenda_of(ledger: Ledger, estimates: dict[str, float], *, again: str = "", only: Collection[str] = ()) -> Agenda:
    """What is left of the plan in force: what has no final verdict and what is broken, or also what `again` names.
    `only` are the people whose hand-ins are graded, all where it is empty; `estimates` has seconds for each exercise
    that was never run."""
    plan = ledger.plan()
    assert plan is not None
    chosen = f" AND who IN ({', '.join('?' * len(only))})" if only else ""
    rows = ledger.all(
        "SELECT unit, exercise, files, run_key, seed, standing, status, losses FROM units WHERE unit IN "
        f"(SELECT unit FROM entries WHERE plan = ?{chosen})",
        [plan["plan"], *only],
    )
    saved = {row["run_key"]: row["runs"] for row in ledger.all("SELECT run_key, runs FROM units WHERE runs != ''")}
    took, judging = _recorded_seconds(ledger)
    tasks = []
    for row in rows:
        if not _is_due(row["standing"], row["status"], again):
            continue
        was_run = row["standing"] != Standing.EXPECTED.value
        runs = "" if was_run else saved.get(row["run_key"], "")
        run_seconds = took.get(row["exercise"], estimates.get(row["exercise"], 0.0))
        tasks.append(
            Task(
                unit=row["unit"],
                exercise=row["exercise"],
                files=row["files"],
                seed=row["seed"],
                runs=runs,
                seconds=judging.get(row["exercise"], SECONDS_OF_JUDGING) if runs else run_seconds,
                losses=0 if row["standing"] == Standing.QUARANTINED.value else row["losses"],
                verdict=row["standing"] == Standing.FINAL.value,
            )
        )
    tasks.sort(key=lambda task: (-task.seconds, task.unit))
    return Agenda(tasks=tuple(tasks), units=len(rows))


def _is_due(standing: str, status: str, again: str) -> bool:
    match Standing(standing):
        case Standing.EXPECTED | Standing.BROKEN:
            return True
        case Standing.QUARANTINED:
            return again in ("broken", "all")
        case Standing.FINAL:
            return again == "all" or (again == "failed" and status == "failed")


def _recorded_seconds(ledger: Ledger) -> tuple[dict[str, float], dict[str, float]]:
    """How long a unit of each exercise took, on average, and judging one again; before any was judged again, what its
    grades took beside their cases."""
    ran = ledger.all(
        "SELECT exercise, AVG(seconds) AS took, AVG(seconds - busy) AS own FROM units WHERE seconds > 0 "
        "GROUP BY exercise"
    )
    judged = ledger.all(
        "SELECT exercise, AVG(a.seconds) AS took FROM attempts a JOIN units u ON u.unit = a.unit "
        "WHERE a.kind = 'judge' AND a.outcome = 'graded' GROUP BY exercise"
    )
    judging = {row["exercise"]: row["own"] for row in ran} | {row["exercise"]: row["took"] for row in judged}
    return {row["exercise"]: row["took"] for row in ran}, judging


def work_of(ledger: Ledger, task: Task, checks: str) -> Work:
    """What a slot is asked. Raises OSError where the store lacks a file."""
    row = ledger.one("SELECT content FROM files WHERE files = ?", [task.files])
    files = contents(ledger, row["content"] if row else "[]")
    runs = ledger.store.read(task.runs)
    return Work(unit=task.unit, exercise=task.exercise, files=files, seed=task.seed, checks=checks, runs=runs)


def contents(ledger: Ledger, content: str) -> tuple[tuple[str, bytes], ...]:
    """The files of a hand-in, by name."""
    return tuple((name, ledger.store.read(key)) for name, key in named(content))


def named(content: str) -> Sequence[tuple[str, str]]:
    """The names and keys of a hand-in's files."""
    return [(name, key) for name, key in json.loads(content)]


def estimate(world_sizes: Sequence[int]) -> float:
    """Seconds that an exercise with cases of these world sizes may take, where nothing is known of it: what starting
    ranks and judging took on two cores. It only decides what comes first."""
    return 0.5 + sum(0.15 + 0.1 * size for size in world_sizes)


def duration(seconds: float) -> str:
    """`2 h 5 min`, `40 s`: as somebody says it who waits."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
