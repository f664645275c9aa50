"""A course of three exercises and attempts at them, made by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from grader.model import Check, Exercise
from grader.practice.store import Attempt

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
HINTS = ("look", "think", "write `this`")
CHECKS = (
    Check(
        id="runs",
        title="It runs",
        points=60,
        hints=HINTS,
        why="A job that ends early wastes all ranks.",
        section="The idea",
    ),
    Check(id="sums", title="It sums", points=40, hints=HINTS, needs=("runs",)),
)


def exercise(name: str, *prerequisites: str, time_box: int = 30, hints: tuple[str, ...] = HINTS) -> Exercise:
    return Exercise(
        name=name, title=name[3:].title(), summary="", folder=Path("exercises") / name, file=f"{name[3:]}.py",
        requires=(), cases=(), checks=CHECKS, prerequisites=prerequisites, time_box=time_box, hints=hints,
    )  # fmt: skip


COURSE = (
    exercise("01_join"),
    exercise("02_shard", "01_join"),
    exercise("03_train", "01_join", "02_shard", time_box=60),
)


def attempt(name: str = "01_join", status: str = "failed", days: float = 0, **outcomes: str) -> Attempt:
    checks = outcomes or {"runs": status, "sums": status if status == "passed" else "blocked"}
    score = sum(check.points for check in CHECKS if checks.get(check.id) == "passed")
    return Attempt(
        exercise=name, at=NOW - timedelta(days=days), status=status, score=score, max_score=100, seed=7, seconds=1.5,
        digest="ab", checks=checks,
    )  # fmt: skip
