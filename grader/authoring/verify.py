"""Proof of an exercise: its stub passes no check, its solution and variants pass all, each mutant fails exactly the
checks that it names and keeps 60 points of 100 or says why not, and every check is failed by some mutant."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from grader import catalog
from grader.authoring.lab import solution_of, warm_session
from grader.authoring.memory import Memory, Remembered, basis
from grader.grading.running import pool_on, run_all
from grader.judge import is_odd, judge
from grader.model import MAX_SEED, Exercise, Outcome, Run, Submission, Verdict, file_of
from grader.ranks import Session
from grader.records import digests

_Ran = tuple[int, Submission, tuple[Run, ...], float]
FAIR = 60
"""Points of 100 that somebody keeps who has made one mistake."""
ROUNDING = 1e-9


class Kind(Enum):
    """What a specimen has to prove."""

    STUB = "stub"
    SOLUTION = "solution"
    VARIANT = "variant"
    MUTANT = "mutant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """A submission whose verdicts are known beforehand. `fails` is what a mutant must fail, no more and no less;
    `below_60` is why it is worth less than 60 points of 100, if it is."""

    kind: Kind
    name: str
    path: Path
    source: bytes
    fails: frozenset[str] = frozenset()
    below_60: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A specimen with the verdicts that it got, and in what way they were wrong (nothing: they were right). One that is
    `remembered` got them in an earlier verification of the same content."""

    specimen: Specimen
    verdicts: tuple[Verdict, ...]
    seed: int
    seconds: float
    remembered: bool = False

    def of(self, *outcomes: Outcome) -> frozenset[str]:
        return frozenset(v.check.id for v in self.verdicts if v.outcome in outcomes)

    @property
    def points(self) -> float:
        """What a grade gives it, of 100."""
        most = sum(verdict.check.points for verdict in self.verdicts if verdict.outcome.counted)
        return 100 * sum(verdict.score for verdict in self.verdicts) / most if most else 0.0

    def unfair(self) -> Iterator[str]:
        """A mutant has one mistake, which costs more than 40 points only where its author says why."""
        if self.specimen.kind is not Kind.MUTANT or any(self.breaches()):
            return
        who, below = f"mutant {self.specimen.name}: {self.points:.3g} points", self.points < FAIR - ROUNDING
        if below and not self.specimen.below_60:
            yield f"{who} for one mistake; let it cost less, or say in `below_60` why it is worth so little"
        elif self.specimen.below_60 and not below:
            yield f"{who}, so its `below_60` says nothing; take it away"

    def breaches(self) -> Iterator[str]:
        """One sentence for each verdict that should have been another."""
        yield from (f"{self.who}: check {check} is broken: {message}" for check, message in self.broken().items())
        yield from self.misjudged()

    @property
    def who(self) -> str:
        return f"{self.specimen.kind.value} {self.specimen.name} (seed {self.seed})"

    def broken(self) -> dict[str, str]:
        """The checks that met what they were not written for, and what they say."""
        return {verdict.check.id: verdict.message for verdict in self.verdicts if is_odd(verdict)}

    def misjudged(self) -> Iterator[str]:
        """The same of checks that are not broken."""
        who, broken = self.who, self.broken().keys()
        passed, failed = self.of(Outcome.PASSED), self.of(Outcome.FAILED) - broken
        if self.specimen.kind is Kind.STUB:
            yield from (f"{who}: passes {check}" for check in sorted(passed))
        elif self.specimen.kind is Kind.MUTANT:
            yield from (f"{who}: does not fail {check}" for check in sorted(self.specimen.fails - failed - broken))
            yield from (self._unexpected(who, check) for check in sorted(failed - self.specimen.fails))
        else:
            wrong = [v.check.id for v in self.verdicts if v.outcome is not Outcome.PASSED and v.check.id not in broken]
            yield from (self._unexpected(who, check) for check in wrong)

    def _unexpected(self, who: str, check: str) -> str:
        verdict = next(v for v in self.verdicts if v.check.id == check)
        return f"{who}: {verdict.outcome.value} {check}: {verdict.message[:300]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All trials of one exercise. `untried` specimens were left, since the solution itself was wrong."""

    exercise: Exercise
    trials: tuple[Trial, ...]
    seconds: float
    untried: int = 0

    def breaches(self) -> list[str]:
        """Everything that is wrong with the exercise; empty if it is proved."""
        found = [*self._broken(), *(breach for trial in self.trials for breach in trial.misjudged())]
        found += self.unfair()
        if self.untried:
            return [*found, f"{self.untried} specimens were not tried: first the solution has to pass"]
        mutants = [trial for trial in self.trials if trial.specimen.kind is Kind.MUTANT]
        killers = {check for trial in mutants for check in trial.of(Outcome.FAILED)}
        return found + [f"no mutant fails {c.id}" for c in self.exercise.checks if c.id not in killers]

    def _broken(self) -> Iterator[str]:
        """Each broken check once for each thing that it says, however many specimens meet it."""
        met: dict[tuple[str, str], list[str]] = {}
        for trial in self.trials:
            for broken in trial.broken().items():
                met.setdefault(broken, []).append(trial.who)
        for (check, message), who in met.items():
            others = f" and {len(who) - 1} more" if len(who) > 1 else ""
            yield f"{who[0]}{others}: check {check} is broken: {message}"

    def unfair(self) -> list[str]:
        """Mutants that are worth less than they should be, or that excuse what is not so."""
        return [breach for trial in self.trials for breach in trial.unfair()]


def specimens(exercise: Exercise, root: Path) -> tuple[Specimen, ...]:
    """The stub, the solution, its variants and its mutants, as exercises/ and reference/ have them."""
    right = solution(exercise, root)
    return (
        _read(Kind.STUB, "stub", exercise.stub),
        right,
        *(_read(Kind.VARIANT, path.stem, path) for path in catalog.variants(exercise, root)),
        *(_mutant(mutant, right.path) for mutant in catalog.load_mutants(exercise, root)),
    )


def solution(exercise: Exercise, root: Path) -> Specimen:
    """The solution alone."""
    return _read(Kind.SOLUTION, "solution", solution_of(exercise, root))


def _mutant(mutant: catalog.Mutant, solution: Path) -> Specimen:
    return Specimen(
        kind=Kind.MUTANT,
        name=mutant.name,
        path=solution,
        source=mutant.source.encode(),
        fails=frozenset(mutant.fails),
        below_60=mutant.below_60,
    )


def _read(kind: Kind, name: str, path: Path) -> Specimen:
    return Specimen(kind=kind, name=name, path=path, source=path.read_bytes())


def verify(
    name: str,
    root: Path,
    *,
    seed: int | None = None,
    start_method: str = "forkserver",
    select: Callable[[Specimen], bool] = lambda specimen: True,
    progress: Callable[[str], None] = lambda phase: None,
    memory: Memory | None = None,
) -> Proof:
    """Try every specimen of one exercise on real ranks, two at a time, from one warm host. What `memory` knows of the
    same content is taken from there, and what is right is added to it; never so with a seed, which asks for a trial."""
    exercise = catalog.load(name, root)
    catalog.check_nothing_else(exercise.folder)
    catalog.check_calls(exercise)
    chosen = [specimen for specimen in specimens(exercise, root) if select(specimen)]
    start = time.monotonic()
    keys = _keys(exercise, root, chosen, start_method) if memory and seed is None else {}
    known = {specimen: trial for specimen in keys if (trial := _recalled(memory, exercise, specimen, keys[specimen]))}
    tried = {}
    if missing := [specimen for specimen in chosen if specimen not in known]:
        with (
            warm_session(start_method) as session,
            closing(try_all(session, exercise, root, missing, seed, progress)) as coming,
        ):
            for trial in coming:
                tried[trial.specimen] = trial
                _remember(memory, keys, trial)
                if trial.specimen.kind is Kind.SOLUTION and any(trial.breaches()):
                    break  # mutants are edits of it: what they fail would say nothing
    found = known | tried
    trials = tuple(found[specimen] for specimen in chosen if specimen in found)
    seconds = time.monotonic() - start
    return Proof(exercise=exercise, trials=trials, seconds=seconds, untried=len(chosen) - len(trials))


def _keys(exercise: Exercise, root: Path, chosen: Sequence[Specimen], start_method: str) -> dict[Specimen, str]:
    """What the verdicts of each specimen rest on."""
    common = basis(exercise, start_method)
    keys = {}
    for specimen in chosen:
        companions = sorted(submitted(specimen, exercise, root).companions.items())
        files = [(specimen.kind.value, specimen.source), *companions]
        keys[specimen] = digests.of_files([*common, *files])
    return keys


def _recalled(memory: Memory | None, exercise: Exercise, specimen: Specimen, key: str) -> Trial | None:
    entry = memory.get(key) if memory else None
    if entry is None or entry.outcomes.keys() != {check.id for check in exercise.checks}:
        return None
    verdicts = tuple(Verdict(check=check, outcome=entry.outcomes[check.id]) for check in exercise.checks)
    trial = Trial(specimen=specimen, verdicts=verdicts, seed=entry.seed, seconds=0.0, remembered=True)
    return None if any(trial.breaches()) else trial


def _remember(memory: Memory | None, keys: Mapping[Specimen, str], trial: Trial) -> None:
    """Keep what is right; what is wrong is forgotten even if it was right before, with another seed."""
    if memory and trial.specimen in keys:
        outcomes = {verdict.check.id: verdict.outcome for verdict in trial.verdicts}
        right = not any(trial.breaches())
        memory.set(keys[trial.specimen], Remembered(outcomes=outcomes, seed=trial.seed) if right else None)


def try_all(
    session: Session,
    exercise: Exercise,
    root: Path,
    chosen: Sequence[Specimen],
    seed: int | None,
    progress: Callable[[str], None],
) -> Generator[Trial]:
    """Run specimens in a pool and judge each in this thread, since pytest is not made for several."""
    with pool_on(session, 1 + (os.cpu_count() or 1)) as pool:
        jobs = [(specimen, pool.submit(_run, session, exercise, root, specimen, seed)) for specimen in chosen]
        for number, (specimen, job) in enumerate(jobs, 1):
            used, received, runs, seconds = job.result()
            verdicts = judge(exercise, received, runs)
            trial = Trial(specimen=specimen, verdicts=verdicts, seed=used, seconds=seconds)
            wrong = ", wrong" if any(trial.breaches()) else ""
            progress(f"{number} of {len(jobs)}{wrong}: {specimen.kind.value} {specimen.name}")
            yield trial


def _run(session: Session, exercise: Exercise, root: Path, specimen: Specimen, seed: int | None) -> _Ran:
    start = time.monotonic()
    used = secrets.randbelow(MAX_SEED) if seed is None else seed
    received = submitted(specimen, exercise, root)
    runs = run_all(session, exercise, received, used, jobs=1)
    return used, received, runs, time.monotonic() - start


def submitted(specimen: Specimen, exercise: Exercise, root: Path) -> Submission:
    """The specimen as if it were handed in; what is right has the solutions of other exercises beside it."""
    right = specimen.kind in (Kind.SOLUTION, Kind.VARIANT)
    companions = _companions(exercise, root) if right else {}
    return Submission.of(specimen.path, specimen.source, companions=companions)


def _companions(exercise: Exercise, root: Path) -> dict[str, bytes]:
    """The reference solutions of the exercises that this one builds on."""
    paths = {name: catalog.reference(name, root) / file_of(name) for name in exercise.companions}
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
