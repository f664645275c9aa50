"""Time and memory against the bars of the project, measured in one run on this machine.

python -m grader.authoring.bench          (make bench)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from grader import catalog
from grader.authoring.lab import solution_of, warm_session
from grader.authoring.verify import verify
from grader.grading.flow import grade
from grader.grading.observe import Listener
from grader.grading.request import Request
from grader.grading.running import import_case, run_all
from grader.grading.seeding import seeded
from grader.judge import Panel, judge, judge_with
from grader.model import Case, Exercise, Run, Submission
from grader.ranks import Session
from grader.submission import receive

NAME = "03_train_ddp"
AN_EXERCISE = 25 / 7
"""Seconds that the solution of one may take, on average over all: the first seven in 25."""
PROBE = """
import psutil, time
def idle(rank):
    pass
def stuck(rank):
    rank.record("before", time.monotonic())
    rank.student.stuck(rank.rank)
def step(rank):
    rank.student.step()
    rank.record("bytes", psutil.Process().memory_full_info().uss)
"""
STUDENT = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def stuck(rank):
    if rank == 0:
        dist.all_reduce(torch.ones(3))
def step():
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(8, 64)).sum().backward()
    optimizer.step()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `value` and `bar` have the same unit; lower is better unless `at_least`."""

    what: str
    value: float
    bar: float
    unit: str = "×"
    at_least: bool = False
    note: str = ""

    def text(self) -> str:
        met = self.value >= self.bar if self.at_least else self.value <= self.bar
        sign = "≥" if self.at_least else "≤"
        seen, bar = f"{self.value:.2f} {self.unit}", f"{sign} {self.bar:g} {self.unit}"
        return f"{'✓' if met else '✗'}  {self.what:66s} {seen:>9s}  {bar:>8s}  {self.note}".rstrip()


def timed(action: Callable[[], object]) -> float:
    """Wall seconds of one call."""
    start = time.monotonic()
    action()
    return time.monotonic() - start


def command(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cold_start(root: Path, solution: Path, times: int) -> Iterator[Row]:
    """A whole `grade 03` against the bare import of torch, taken in turns."""
    grade = ("-m", "grader", "grade", NAME, "--submission", str(solution), "--plain")
    command("-c", "import torch")
    pairs = [(timed(lambda: command(*grade)), timed(lambda: command("-c", "import torch"))) for _ in range(times)]
    ratio = statistics.median(ours for ours, _ in pairs) / statistics.median(bare for _, bare in pairs)
    yield Row(what='cold grade 03 of the solution / python -c "import torch"', value=ratio, bar=2.3)


def families_asked(exercise: Exercise, runs: tuple[Run, ...]) -> dict[str, set[str]]:
    """Which case families each check looks at."""
    asked: dict[str, set[str]] = {check.id: set() for check in exercise.checks}
    by_case = {run.case.id: run for run in runs}
    # Alone, a check has no earlier ones that could have passed.
    exercise = replace(exercise, checks=tuple(replace(check, needs=()) for check in exercise.checks))
    for check in exercise.checks:

        def give(case: Case, into: set[str] = asked[check.id]) -> Run:
            into.add(case.id)
            return by_case[case.id]

        judge_with(Panel(exercise, give), only=[check.id])
    return asked


def against_spawn(session: Session, exercise: Exercise, received: Submission) -> Iterator[Row]:
    """Each check runs its cases anew under mp.spawn, as test suites usually do, against a whole grade of ours."""
    ours_start = time.monotonic()
    runs = run_all(session, exercise, received, 1)
    judge(exercise, received, runs)
    ours = time.monotonic() - ours_start
    asked = families_asked(exercise, runs)
    cost: dict[str, float] = {}
    with Session("spawn") as naive:
        naive.run(exercise, received, import_case())
        for case in seeded(exercise, 1):
            start = time.monotonic()
            naive.run(exercise, received, case)
            cost[case.id] = time.monotonic() - start
    spawned = sum(cost[case] for cases in asked.values() for case in cases)
    yield Row(
        what="the same cases under mp.spawn, once for each check / ours", value=spawned / ours, bar=12, at_least=True
    )


class Runs(Listener):
    """Hears of the runs of one grade."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def ended(self, run: Run) -> None:
        self.runs.append(run)


def warm(session: Session, exercise: Exercise, solution: Path, idle: Callable[[int], float]) -> Iterator[Row]:
    """A regrade with everything warm, from the files to the report, and the share of it that is not the student's own
    work: of each run, what an idle one takes as well."""
    walls, own = [], []
    nothing = {case.world_size: idle(case.world_size) for case in exercise.cases} | {1: idle(1)}
    for seed in range(9):
        heard = Runs()
        request = Request(exercise=NAME, root=exercise.folder.parents[1], submission=solution, seed=seed)
        walls.append(timed(partial(grade, request, session, heard)))
        working = sum(max(0.0, run.seconds - nothing[run.case.world_size]) for run in heard.runs)
        own.append(working / sum(run.seconds for run in heard.runs))
    wall = statistics.median(walls)
    yield Row(what="regrade of all of 03 on a warm server", value=wall, bar=0.8, unit="s")
    share = 1 - statistics.median(own)
    yield Row(what="   its share that is not the student's own work", value=share, bar=1, note="(told, no bar)")


def course(session: Session, root: Path) -> Iterator[Row]:
    """The solutions of all exercises, one after the other on a warm server."""
    names = catalog.all_names(root)

    def one(name: str) -> None:
        exercise = catalog.load(name, root)
        received = receive(exercise, solution_of(exercise, root), root)
        judge(exercise, received, run_all(session, exercise, received, 1))

    def every() -> None:
        for name in names:
            one(name)

    bar = round(len(names) * AN_EXERCISE)
    yield Row(what=f"the solutions of all {len(names)} exercises, on it too", value=timed(every), bar=bar, unit="s")


def deadlock(session: Session, exercise: Exercise, received: Submission) -> Iterator[Row]:
    """From the last thing that a rank did to the verdict in the judge's hands; the slowest of ten."""
    case = Case(name="stuck", probe="stuck", world_size=2, process_group=True, deadline=60)
    late = []
    for _ in range(10):
        run = session.run(exercise, received, case)
        late.append(time.monotonic() - max(rank.observations["before"] for rank in run.ranks))
        assert run.diagnosis is not None and run.diagnosis.kind == "deadlocked"
    yield Row(what="deadlock verdict after the last progress, slowest of ten", value=max(late), bar=2, unit="s")


def memory(session: Session, exercise: Exercise, received: Submission) -> Iterator[Row]:
    """Private memory of a rank after a DDP step, forked against spawned."""
    case = Case(name="step", probe="step", world_size=2, process_group=True)

    def private(session: Session) -> float:
        run = session.run(exercise, received, case)
        return float(statistics.mean(rank.observations["bytes"] for rank in run.ranks))

    with Session("spawn") as spawned:
        ratio = private(session) / private(spawned)
    yield Row(what="private memory of a rank in a DDP step, forked / spawned", value=ratio, bar=0.5)


def small_exercise(folder: Path) -> tuple[Exercise, Submission]:
    """An exercise of this module's own, for what needs a probe that measures."""
    (folder / "probe.py").write_text(PROBE)
    exercise = Exercise(
        name="90_bench", title="", summary="", folder=folder, file="bench.py", requires=(), cases=(), checks=()
    )
    return exercise, Submission.of(folder / "bench.py", STUDENT.encode())


def rows(times: int) -> Iterator[Row]:
    """Every row, as soon as it is measured."""
    root = catalog.repository_root()
    exercise = catalog.load(NAME, root)
    solution = solution_of(exercise, root)
    received = receive(exercise, solution, root)
    yield from cold_start(root, solution, times)
    with tempfile.TemporaryDirectory() as folder, warm_session() as session:
        small = small_exercise(Path(folder))
        session.run(*small, import_case())

        def nothing(world_size: int) -> float:
            return timed(lambda: session.run(*small, Case(name="idle", probe="idle", world_size=world_size)))

        yield from against_spawn(session, exercise, received)
        yield from warm(session, exercise, solution, nothing)
        yield from course(session, root)
        yield from deadlock(session, *small)
        yield from memory(session, *small)
    proof = verify(NAME, root)
    yield Row(what="verify 03 with all mutants", value=proof.seconds, bar=60, unit="s")


@click.command(help=__doc__)
@click.option("--times", default=5, show_default=True, help="How often the cold start is taken.")
def main(times: int) -> None:
    for row in rows(times):
        click.echo(row.text())


if __name__ == "__main__":
    main()
