"""What is to be graded, and on what: two plain frozen values, which may be handed to another process."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from pathlib import Path

from grader import calling
from grader.model.errors import RunError, UsageError
from grader.ranks import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One grade: of `submission` (None: the student's own file) for the exercise of that name under `root`.

    `files` are what was handed in, by relative name, where that is not on this disk: `submission` then says nothing,
    and a file that is not among them is a failed grade. `seed` replays a grade; None draws a new one. `deadline` is in
    seconds, for all of it: then the report says what is known by then. `trace` records what the ranks communicate in
    every case, not only in those that ask for it. `journal` is a file that keeps what is known so far; a grade that
    finds its own there goes on from it. `save_runs` keeps the recorded runs in a file; `from_runs` judges such a file
    again instead of running anything. `checks` is a folder of a course's own cases and checks. `absent` lets a file
    that was not handed in be a failed grade and not an error. `only` names the checks that are wanted, with what they
    need; without it all are.
    """

    exercise: str
    root: Path
    submission: Path | None = None
    files: tuple[tuple[str, bytes], ...] | None = None
    seed: int | None = None
    deadline: float | None = None
    trace: bool = False
    journal: Path | None = None
    save_runs: Path | None = None
    from_runs: Path | None = None
    checks: Path | None = None
    absent: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What ranks run on, and how. `device` is "auto", "cpu" (the ranks see no GPU) or "cuda" (there must be one);
    `sandbox` is "auto", "require" or "off"; `rank_user` is who runs the ranks where the grader is root and there is no
    bubblewrap. `gpus` is None until somebody has to know: counting them imports torch."""

    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    gpus: int | None = None
    device: str = "auto"
    sandbox: str = "auto"
    start_method: str = "forkserver"
    rank_user: str | None = None

    @property
    def jobs(self) -> int:
        """How many cases may run at the same time. Each has several ranks, and judging takes its share."""
        return max(1, min(4, self.cores // 2 + 1)) if self.cores > 1 else 1

    def session(self) -> Session:
        """A session on this machine, which is not started yet. Raises UsageError where a GPU is insisted on and there
        is none, and RunError where nothing can be run at all."""
        need_torch()
        if self.device == "cuda" and not self.gpu_count():
            raise UsageError("--device cuda was asked for, but torch finds no GPU here. Use --device auto or cpu.")
        return Session(self.start_method, self.sandbox, self.rank_user, self.device)

    def gpu_count(self) -> int:
        """How many GPUs ranks may use here."""
        if self.device == "cpu":
            return 0
        if self.gpus is not None:
            return self.gpus
        import torch  # not earlier: the host should begin first, and imports it at the same time

        return torch.cuda.device_count()


TORCH = "'torch>=2.11,<2.15'"
"""What pip is asked for."""


def need_torch() -> None:
    """Raises RunError where torch is missing; it is not imported."""
    if importlib.util.find_spec("torch") is None:
        raise RunError(f"PyTorch is not installed here. {calling.installing(TORCH)}")
