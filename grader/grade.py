"""The whole flow of a grade, in one function of verbs: load, receive, run, judge, summarise."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from grader import catalog, recording
from grader.errors import RunError, UsageError
from grader.model import Case, Exercise, Report, Run, Submission
from grader.ranks import Session
from grader.report import summarise
from grader.submission import receive

MAX_SEED = 2**31 - 1
IMPORT_SECONDS = 10.0
"""How long a student's file may take to be imported."""
JOBS = 2 if (os.cpu_count() or 1) > 1 else 1
"""How many cases run at the same time."""
Progress = Callable[[str], None]


def grade(
    name: str,
    *,
    root: Path,
    submission: Path | None = None,
    seed: int | None = None,
    device: str = "auto",
    start_method: str = "forkserver",
    progress: Progress = lambda phase: None,
    trace: bool = False,
    save_runs: Path | None = None,
    from_runs: Path | None = None,
    session: Session | None = None,
) -> Report:
    """Grade one submission. `seed` replays a grade; None draws a new one.

    `trace` records what the ranks communicate in every case, not only in those that ask for it.
    `save_runs` keeps the recorded runs in a file, `from_runs` judges such a file again instead of running anything.
    `session` is a warm one, as `warmed` gives it for several grades; without it the grade starts its own.
    Raises UsageError, AuthorError or RunError; a student's mistake is never an exception but a finding in the report.
    """
    start = time.monotonic()
    exercise = catalog.load(name, root)
    received = receive(exercise, submission, root)
    if from_runs is not None:
        seed, runs = recording.load(from_runs, exercise)
    else:
        seed = secrets.randbelow(MAX_SEED) if seed is None else seed
        chosen = traced(exercise) if trace else exercise
        warm = contextlib.nullcontext(session) if session else warmed(device, start_method)
        runs = run_cases(warm, chosen, received, seed, progress)
    if save_runs is not None:
        recording.save(save_runs, exercise, seed, runs)
    progress("judging")
    from grader.judge import judge

    verdicts = judge(exercise, received, runs)
    used = "cuda" if _has_gpu(device) else "cpu"
    seconds = time.monotonic() - start
    return summarise(exercise, received, runs, verdicts, seed=seed, device=used, sandbox="limits", seconds=seconds)


@contextmanager
def warmed(device: str, start_method: str) -> Iterator[Session]:
    """A session on the chosen device, for one grade or for several."""
    with chosen_device(device), Session(start_method) as session:
        yield session


def run_cases(
    warm: AbstractContextManager[Session], exercise: Exercise, received: Submission, seed: int, progress: Progress
) -> tuple[Run, ...]:
    """Run every case of an exercise. Nothing is started if the file does not even compile."""
    if received.problem is not None:
        return ()
    with warm as session:
        progress("starting")
        preload()
        return run_in(session, exercise, received, seed, progress)


def run_in(
    session: Session,
    exercise: Exercise,
    received: Submission,
    seed: int,
    progress: Progress = lambda phase: None,
    jobs: int = JOBS,
) -> tuple[Run, ...]:
    """Run every case in a warm session: the import of the student's file first, and the rest only if it went well."""
    imported = session.run(exercise, received, import_case())
    if imported.diagnosis is not None:
        return (imported,)
    cases = seeded(exercise, seed)

    def run(case: Case) -> Run:
        progress(f"{case.name} on {case.world_size} rank{'s' if case.world_size > 1 else ''}")
        return session.run(exercise, received, case)

    with pool_on(session, jobs) as pool:
        largest_first = sorted(cases, key=lambda case: case.world_size, reverse=True)  # packs best
        jobs_by_case = {case.id: pool.submit(run, case) for case in largest_first}
        return (imported, *(jobs_by_case[case.id].result() for case in cases))


@contextmanager
def pool_on(session: Session, workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for runs. After Ctrl-C or a fault the session ends at once, so that none of them waits on."""
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        yield pool
    except BaseException:
        session.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def import_case() -> Case:
    """The case that only imports the student's file and looks for what the contract names."""
    return Case(name="import", world_size=1, probe="", deadline=IMPORT_SECONDS)


def seeded(exercise: Exercise, seed: int) -> tuple[Case, ...]:
    """The exercise's cases, each with a seed of its own that follows from `seed`."""

    def own(case: Case) -> int:
        digest = hashlib.blake2b(f"{seed}/{exercise.name}/{case.id}".encode(), digest_size=4)
        return int.from_bytes(digest.digest()) % MAX_SEED

    return tuple(replace(case, seed=own(case)) for case in exercise.cases)


def traced(exercise: Exercise) -> Exercise:
    """The exercise with a trace of every case."""
    return replace(exercise, cases=tuple(replace(case, trace=True) for case in exercise.cases))


def preload() -> None:
    """Import torch and pytest here while the ranks' host does it over there."""
    from grader import judge

    judge.preload()


@contextmanager
def chosen_device(device: str) -> Iterator[None]:
    """`cpu` hides the GPUs from the ranks; `cuda` insists on one."""
    if device == "cuda" and not _has_gpu(device):
        raise UsageError("--device cuda was asked for, but torch finds no GPU here. Use --device auto or cpu.")
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def _has_gpu(device: str) -> bool:
    if importlib.util.find_spec("torch") is None:
        raise RunError("torch is not installed in this environment. Run `make grade`, which installs it.")
    if device == "cpu":
        return False
    import torch

    return torch.cuda.is_available()
