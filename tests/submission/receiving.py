"""Submissions to a small exercise, received or refused."""

from __future__ import annotations

from pathlib import Path

from grader.model import Exercise, RequiredName, Submission
from grader.submission import receive

GOOD = b"import torch\n\ndef train_ddp(rank):\n    return rank\n"


def exercise_at(
    root: Path, *, companions: tuple[str, ...] = (), requires: tuple[str, ...] = ("train_ddp",)
) -> Exercise:
    return Exercise(
        name="03_train_ddp",
        title="t",
        summary="s",
        folder=root / "exercises" / "03_train_ddp",
        file="train_ddp.py",
        requires=tuple(RequiredName(name=name) for name in requires),
        cases=(),
        checks=(),
        companions=companions,
    )


def write(path: Path, source: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source)
    return path


def received(root: Path, path: Path | None = None, **settings: tuple[str, ...]) -> Submission:
    return receive(exercise_at(root, **settings), path, root)
