"""Hit a random rank of a right solution at a random moment, and judge what the grader makes of it.

python -m grader.authoring.faults --trials 30 --seed 1 03

SIGKILL and SIGSEGV must be told as the death of that rank and of no other, SIGSTOP as a rank that is still busy when
the deadline passes. `slow` stops a rank for ten seconds and lets it go on: that must cost nothing. After every trial
nothing may be left, and the next run in the same session must be right.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click
import psutil

from grader import catalog
from grader.authoring.lab import handed_in, named, solution_of, warm_session
from grader.grading.seeding import seeded
from grader.judge import judge
from grader.model import Case, Exercise, Finished, Killed, Outcome, RankRecord, Run, Submission
from grader.model.errors import GraderError
from grader.ranks import Session

KINDS = ("SIGKILL", "SIGSEGV", "SIGSTOP", "slow")
SLOW_SECONDS = 10.0
STOP_DEADLINE = 4.0
"""Deadline of a run one of whose ranks is stopped for good, in seconds."""
LEAVING_SECONDS = 20.0
"""How long what belongs to a run may take to leave after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run, one hit: what was done to which rank, when (seconds since the ranks started), and what was wrong."""

    exercise: str
    case: str
    kind: str
    rank: int
    moment: float
    seen: str
    faults: tuple[str, ...] = ()


class Bench:
    """One exercise on one warm session: its cases, how long each takes, and what a right run of each records."""

    def __init__(self, session: Session, exercise: Exercise, submission: Submission, seed: int) -> None:
        self.session, self.exercise, self.submission = session, exercise, submission
        self.cases = seeded(exercise, seed)
        self.right: dict[str, Run] = {}
        self.seconds: dict[str, float] = {}
        for case in self.cases:
            with watching(session, case) as watcher:
                self.right[case.id] = self.run(case)
            self.seconds[case.id] = watcher.lived
        # Where the probe itself ends a rank, as that of 06 does, a hit would prove nothing.
        self.to_hit = tuple(case for case in self.cases if self.right[case.id].diagnosis is None)

    def run(self, case: Case) -> Run:
        return self.session.run(self.exercise, self.submission, case)

    def is_right(self, run: Run) -> bool:
        """Every rank finished and recorded all that it records in a right run."""
        return run.diagnosis is None and names(run.ranks) == names(self.right[run.case.id].ranks)

    def passes(self, run: Run) -> bool:
        """Full marks, with this run in the place of the right run of its case."""
        runs = {**self.right, run.case.id: run}
        verdicts = judge(self.exercise, self.submission, tuple(runs.values()))
        return all(verdict.outcome is Outcome.PASSED for verdict in verdicts)


def names(ranks: tuple[RankRecord, ...]) -> list[list[str]]:
    return [sorted(record.observations) for record in ranks]


class Watcher(threading.Thread):
    """Waits for a run's ranks to exist, and then for a moment of their life, and hits one of them."""

    def __init__(self, host: psutil.Process, case: Case, kind: str | None, rank: int, moment: float) -> None:
        super().__init__(daemon=True)
        self.host, self.case, self.kind, self.rank, self.moment = host, case, kind, rank, moment
        self.over = threading.Event()
        self.began: float | None = None
        self.lived = 0.0
        self.hit = False

    def run(self) -> None:
        while not self.over.wait(0.002):
            ranks = ranks_below(self.host, self.case.world_size)
            if ranks:
                self.began = time.monotonic()
                if self.kind is not None and not self.over.wait(self.moment):
                    self._strike(ranks[self.rank], self.kind)
                return

    def _strike(self, victim: psutil.Process, kind: str) -> None:
        with contextlib.suppress(psutil.Error):
            victim.send_signal(signal.SIGSTOP if kind == "slow" else signal.Signals[kind])
            self.hit = True
            if kind == "slow":
                self.over.wait(SLOW_SECONDS)
                victim.resume()

    def end(self) -> None:
        self.over.set()
        self.join()
        self.lived = time.monotonic() - self.began if self.began else 0.0


@contextlib.contextmanager
def watching(
    session: Session, case: Case, kind: str | None = None, rank: int = 0, moment: float = 0.0
) -> Iterator[Watcher]:
    """Hit a rank of the run that the block starts; without `kind` only measure how long its ranks live."""
    watcher = Watcher(host_of(session), case, kind, rank, moment)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.end()


def host_of(session: Session) -> psutil.Process:
    """The process that runs are forked from; bubblewrap's own processes stand above it."""
    process = psutil.Process(session._host.pid)
    while process.name() == "bwrap" and process.children():
        process = process.children()[0]
    return process


def ranks_below(host: psutil.Process, world_size: int) -> list[psutil.Process]:
    """The ranks of the one run that is under way, in order; [] until all of them exist."""
    with contextlib.suppress(psutil.Error):
        for supervisor in host.children():
            ranks = sorted(supervisor.children(), key=lambda process: process.pid)
            if len(ranks) >= world_size:
                return ranks[:world_size]
    return []


def try_once(bench: Bench, case: Case, kind: str, rank: int, moment: float) -> Trial:
    """One hit, judged."""
    chosen = replace(case, deadline=STOP_DEADLINE + 2 * bench.seconds[case.id]) if kind == "SIGSTOP" else case
    chosen = replace(case, deadline=case.deadline + 2 * SLOW_SECONDS) if kind == "slow" else chosen
    try:
        with watching(bench.session, chosen, kind, rank, moment) as watcher:
            run = bench.run(chosen)
        seen, faults = judged(bench, run, kind, rank, watcher.hit)
    except GraderError as error:
        seen, faults = "error", [f"the grader's own fault: {error}"]
    faults += left_behind(bench.session)
    if not bench.is_right(bench.run(case)):
        faults.append("the next run is wrong")
    where = {"exercise": bench.exercise.name, "case": case.id, "kind": kind, "rank": rank}
    return Trial(**where, moment=moment, seen=seen, faults=tuple(faults))  # type: ignore[arg-type]


def judged(bench: Bench, run: Run, kind: str, rank: int, hit: bool) -> tuple[str, list[str]]:
    """What was seen, and what of it is wrong. A rank whose work was done when it was hit is charged with nothing."""
    if run.diagnosis is None:
        wrong = [] if bench.is_right(run) else ["finished, but without all that a right run records"]
        if not wrong and not bench.passes(run):
            wrong = ["a right run lost points"]
        return ("finished after the stop" if kind == "slow" and hit else "hit after its work was done"), wrong
    told = f"told {run.ranks[rank].ending.kind}"
    wrong = list(_wrong_ending(run, kind, rank))
    if run.diagnosis.ranks != (rank,):
        wrong.append(f"the cause is said to be {run.diagnosis.ranks}, not {(rank,)}: {_sentences(run)}")
    if bench.passes(run):
        wrong.append("full marks for a run that failed")
    return told, wrong


def _wrong_ending(run: Run, kind: str, rank: int) -> Iterator[str]:
    ending = run.ranks[rank].ending
    if kind in ("SIGKILL", "SIGSEGV"):
        if not (isinstance(ending, Killed) and ending.signal == kind and not ending.by_grader):
            yield f"the rank that was hit is told {ending.kind}"
    elif kind == "SIGSTOP" and not (isinstance(ending, Killed) and ending.signal == kind):
        yield f"the rank that was stopped is told {ending.kind}"
    elif kind == "slow":
        yield f"a rank that was ten seconds slow is charged with it: {_sentences(run)}"
    if all(isinstance(record.ending, Finished) for record in run.ranks):
        yield "there is a diagnosis, but all finished"


def _sentences(run: Run) -> str:
    return "; ".join(finding.sentence() for finding in run.diagnosis.findings)[:300] if run.diagnosis else ""


def left_behind(session: Session) -> list[str]:
    """Processes and files of a run that is over, once it has had time to leave."""
    until = time.monotonic() + LEAVING_SECONDS
    while (left := [*_processes(session), *_files(session)]) and time.monotonic() < until:
        time.sleep(0.01)
    return [f"left behind: {', '.join(left)}"] if left else []


def _processes(session: Session) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return [f"process {process.pid}" for process in host_of(session).children(recursive=True)]
    return ["no host"]


def _files(session: Session) -> list[str]:
    """Folders of runs. Under bubblewrap the scratch is seen through the host's own root."""
    scratch = Path(f"/proc/{host_of(session).pid}/root") / str(session.scratch).lstrip("/")
    with contextlib.suppress(OSError):
        return [entry.name for entry in scratch.iterdir() if entry.name.startswith("run-")]
    return []


def campaign(name: str, kinds: tuple[str, ...], trials: int, seed: int, sandbox: str) -> Iterator[Trial]:
    """Trials of one exercise's reference solution, the same ones for the same seed as far as the machine allows."""
    root = catalog.repository_root()
    exercise = catalog.load(name, root)
    submission = handed_in(solution_of(exercise, root))
    draw = random.Random(f"{seed}/{name}")
    with warm_session(sandbox=sandbox) as session:
        click.echo(f"{name}, {session.level}, seed {seed}")
        bench = Bench(session, exercise, submission, seed)
        for number in range(trials):
            case = draw.choice(bench.to_hit)
            rank, moment = draw.randrange(case.world_size), draw.random() * bench.seconds[case.id]
            yield try_once(bench, case, kinds[number % len(kinds)], rank, moment)


def table(trials: list[Trial]) -> Iterator[str]:
    """One line for each exercise and kind of hit: trials, what was seen, and how many were wrong."""
    for exercise, kind in sorted({(trial.exercise, trial.kind) for trial in trials}):
        chosen = [trial for trial in trials if (trial.exercise, trial.kind) == (exercise, kind)]
        seen: Mapping[str, int] = Counter(trial.seen for trial in chosen)
        told = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()))
        wrong = sum(bool(trial.faults) for trial in chosen)
        yield f"| {exercise} | {kind} | {len(chosen)} | {told} | {wrong} |"


@click.command(help=__doc__)
@click.argument("ex", nargs=-1)
@click.option("--trials", default=30, show_default=True, help="How many hits each exercise takes.")
@click.option("--seed", default=1, show_default=True, help="What draws cases, ranks and moments.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this kind of hit.")
@click.option("--sandbox", default="auto", type=click.Choice(["auto", "require", "off"]), show_default=True)
def main(ex: tuple[str, ...], trials: int, seed: int, kinds: tuple[str, ...], sandbox: str) -> None:
    root = catalog.repository_root()
    every: list[Trial] = []
    for name in named(ex, root):
        done = []
        for trial in campaign(name, kinds or KINDS[:3], trials, seed, sandbox):
            done.append(trial)
            if trial.faults:
                click.echo(f"{trial.case} rank {trial.rank} {trial.kind} at {trial.moment:.2f} s: {trial.faults}")
        click.echo("\n".join(table(done)))
        every += done
    wrong = sum(bool(trial.faults) for trial in every)
    click.echo(f"{len(every)} trials, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
