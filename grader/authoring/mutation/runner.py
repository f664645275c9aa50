"""Mutants are tried on real ranks, a few at a time, each only until a check has seen it.

The cases of one family at a time, those first that have killed most for their time, above all mutants of the same
function; after each the checks judge what there is. A check that asks for a run that has not been made is put off, so
it says nothing yet.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import pytest

from grader.authoring.mutation.generate import AutoMutant
from grader.checks import Runs, RunView
from grader.grading.running import import_case, pool_on
from grader.grading.seeding import seeded
from grader.judge import Panel, is_odd, judge, judge_with
from grader.model import MAX_SEED, Case, Exercise, Outcome, Run, Submission, TimedOut, Verdict
from grader.model.errors import RunError
from grader.ranks import Session

LEAST_SECONDS, FACTOR = 10.0, 6.0
"""A mutant's run may take so many seconds and so many times what the solution took; then it is stopped. So a mutant
that loops for ever costs little, and what is right does not come near to it."""
OWN = 50
"""A kill of a mutant of the same function counts as so many of others."""
NEAR = 3
"""A time-out counts unless the solution itself, run right after it, needs more than one such part of the time."""


class MutantOutcome(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"
    """The grader or the checks went wrong, which no mutant may bring about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedMutant:
    """A mutant and what became of it: by which check, or in what way the grader went wrong, with which seed."""

    mutant: AutoMutant
    outcome: MutantOutcome
    seed: int
    by: str = ""
    message: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class _Trial:
    """A mutant that is being tried: its runs so far, and the cases that are left."""

    mutant: AutoMutant
    submission: Submission
    seed: int
    tries: int
    left: list[Case]
    runs: list[Run] = field(default_factory=list)
    start: float = field(default_factory=time.monotonic)


class _PartialRuns(Runs):
    """The runs that there are. Who asks for others as well is put off, unless what there is says enough: a run in
    which a rank did not finish."""

    def __init__(self, cases: Sequence[Case], runs: Sequence[Run]) -> None:
        by_case = {run.case.id: run for run in runs}
        super().__init__(cases, lambda case: by_case[case.id])
        self._made = by_case
        self._wanted = cases

    def __call__(
        self, *names: str, finished: bool = True, recorded: Sequence[str] = (), after: Sequence[str] = ()
    ) -> tuple[RunView, ...]:
        wanted = [case.id for case in self._wanted if case.name in names]
        made = [RunView(self._made[case]) for case in wanted if case in self._made]
        if len(made) == len(wanted):
            return super().__call__(*names, finished=finished, recorded=recorded, after=after)
        for view in made if finished and not recorded and not after else ():
            view.require_finished()
        pytest.skip("not run yet")


def judge_partly(exercise: Exercise, submission: Submission, runs: Sequence[Run]) -> tuple[Verdict, ...]:
    """The verdicts as far as these runs go: a check that wants others is SKIPPED. What FAILED would fail with all."""
    imported = next((run for run in runs if not run.case.probe), None)
    if len(runs) == len(exercise.cases) + 1 or (imported is not None and imported.diagnosis is not None):
        return judge(exercise, submission, runs)
    panel = Panel(exercise, lambda case: next(run for run in runs if run.case.id == case.id))
    panel.runs_by_family = _PartialRuns(exercise.cases, runs)
    return judge_with(panel)


class MutantRunner:
    """Where mutants of one exercise are tried: a warm session, and what the solution's own run has taught."""

    def __init__(self, session: Session, exercise: Exercise, path: Path, seed: int | None) -> None:
        self._session, self._exercise, self._path, self._seed = session, exercise, path, seed
        self._seconds: dict[str, float] = {}
        self._solution = b""
        self._kills = Counter[tuple[str, str]]()
        """By function ("" for all of them) and family."""

    def control(self, source: bytes) -> tuple[Verdict, ...]:
        """Try the solution itself: its verdicts, which must all be right. Teaches how long a case takes."""
        self._solution = source
        submission = self._submitted(source)
        cases = [import_case(), *seeded(self._exercise, self._drawn(0))]
        with pool_on(self._session, _workers()) as pool:
            jobs = [pool.submit(self._session.run, self._exercise, submission, case) for case in cases]
            runs = [job.result() for job in jobs]
        self._seconds = {run.case.id: run.seconds for run in runs}
        return judge(self._exercise, submission, runs)

    def try_all(
        self, mutants: Sequence[AutoMutant], tries: Callable[[AutoMutant], int], progress: Callable[[TriedMutant], None]
    ) -> Iterator[TriedMutant]:
        """Each mutant's outcome, as it becomes known. One that survives is tried again with another seed, `tries` times
        in all."""
        waiting = deque(mutants)
        under_way: dict[Future[list[Run]], _Trial] = {}
        with pool_on(self._session, _workers()) as pool:
            while waiting or under_way:
                while waiting and len(under_way) < _workers():
                    trial = self._trial(waiting.popleft(), 0)
                    under_way[pool.submit(self._go_on, trial)] = trial
                for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                    trial = under_way.pop(done)
                    next_trial, result = self._judged(trial, done, tries(trial.mutant))
                    if result is not None:
                        progress(result)
                        yield result
                    if next_trial is not None:
                        under_way[pool.submit(self._go_on, next_trial)] = next_trial

    def _trial(self, mutant: AutoMutant, tries: int) -> _Trial:
        seed = self._drawn(tries)
        return _Trial(
            mutant=mutant,
            submission=self._submitted(mutant.source.encode()),
            seed=seed,
            tries=tries + 1,
            left=[import_case(), *map(self._capped, self._ordered(seeded(self._exercise, seed), mutant.function))],
        )

    def _drawn(self, tries: int) -> int:
        return secrets.randbelow(MAX_SEED) if self._seed is None else self._seed + tries

    def _submitted(self, source: bytes) -> Submission:
        return Submission.of(self._path, source)

    def _ordered(self, cases: Sequence[Case], function: str) -> list[Case]:
        """Families that kill often for their time come first, and in each the small world sizes. Where an exercise is
        several functions, each has a family of its own, so a kill of this function's mutants counts much more."""
        cost = Counter[str]()
        for case in cases:
            cost[case.name] += int(1000 * self._seconds.get(case.id, 1.0))
        kills = {name: self._kills["", name] + OWN * self._kills[function, name] for name in cost}
        gain = {name: (1 + kills[name]) / max(cost[name], 1) for name in cost}
        return sorted(cases, key=lambda case: (-gain[case.name], case.name, case.world_size))

    def _capped(self, case: Case) -> Case:
        if case.id not in self._seconds:
            return case
        return replace(case, deadline=min(case.deadline, LEAST_SECONDS + FACTOR * self._seconds[case.id]))

    def _go_on(self, trial: _Trial) -> list[Run]:
        """Run the import, or the cases of the next family up to one that goes wrong."""
        runs: list[Run] = []
        while trial.left and (not runs or runs[-1].case.name in ("import", trial.left[0].name)):
            runs.append(self._session.run(self._exercise, trial.submission, trial.left.pop(0)))
            if runs[-1].diagnosis is not None:
                break
        return runs

    def _judged(self, trial: _Trial, done: Future[list[Run]], tries: int) -> tuple[_Trial | None, TriedMutant | None]:
        """What to go on with, and the mutant's outcome if it is known."""
        try:
            trial.runs += done.result()
            verdicts = judge_partly(self._exercise, trial.submission, trial.runs)
        except RunError as error:
            return None, _result(trial, MutantOutcome.BROKEN, "", str(error))
        if broken := [v for v in verdicts if is_odd(v)]:
            return None, _result(trial, MutantOutcome.BROKEN, broken[0].check.id, broken[0].message)
        if failed := [v for v in verdicts if v.outcome is Outcome.FAILED]:
            if self._was_too_short(trial):
                return self._trial(trial.mutant, trial.tries - 1), None
            self._kills.update([("", trial.runs[-1].case.name), (trial.mutant.function, trial.runs[-1].case.name)])
            return None, _result(trial, MutantOutcome.KILLED, failed[0].check.id, failed[0].message)
        if trial.left:
            return trial, None
        if trial.tries < tries:
            return self._trial(trial.mutant, trial.tries), None
        return None, _result(trial, MutantOutcome.SURVIVED, "", "")

    def _was_too_short(self, trial: _Trial) -> bool:
        """Whether a time-out may be the machine's fault: the solution has become slow as well. Learns its time anew."""
        run = trial.runs[-1]
        capped = any(case.id == run.case.id and case.deadline > run.case.deadline for case in self._exercise.cases)
        if not capped or not any(isinstance(record.ending, TimedOut) for record in run.ranks):
            return False
        again = self._session.run(self._exercise, self._submitted(self._solution), run.case)
        grown = again.seconds > max(self._seconds[run.case.id], run.case.deadline / NEAR)
        if grown:
            self._seconds[run.case.id] = again.seconds
        return grown


def _result(trial: _Trial, outcome: MutantOutcome, by: str, message: str) -> TriedMutant:
    seconds = time.monotonic() - trial.start
    return TriedMutant(mutant=trial.mutant, outcome=outcome, seed=trial.seed, by=by, message=message, seconds=seconds)


def _workers() -> int:
    return 1 + (os.cpu_count() or 1)
