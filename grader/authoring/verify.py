"""Proof of an exercise: its stub passes no check, its solution and variants pass all, each mutant fails exactly the
checks that it names, and every check is failed by some mutant."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
MARKS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.BLOCKED: "·",
    Outcome.SKIPPED: "s",
    Outcome.BROKEN: "!",
}


class Kind(Enum):
    """What a specimen has to prove."""

    STUB = "stub"
    SOLUTION = "solution"
    VARIANT = "variant"
    MUTANT = "mutant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """A submission whose verdicts are known beforehand. `fails` is what a mutant must fail, no more and no less."""

    kind: Kind
    name: str
    path: Path
    source: bytes
    fails: frozenset[str] = frozenset()


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

    def breaches(self) -> Iterator[str]:
        """One sentence for each expectation that was not met."""
        who = f"{self.specimen.kind.value} {self.specimen.name} (seed {self.seed})"
        for verdict in self.verdicts:
            if is_odd(verdict):
                yield f"{who}: check {verdict.check.id} is broken: {verdict.message}"
        passed, failed = self.of(Outcome.PASSED), self.of(Outcome.FAILED)
        if self.specimen.kind is Kind.STUB:
            yield from (f"{who}: passes {check}" for check in sorted(passed))
        elif self.specimen.kind is Kind.MUTANT:
            yield from (f"{who}: does not fail {check}" for check in sorted(self.specimen.fails - failed))
            yield from (self._unexpected(who, check) for check in sorted(failed - self.specimen.fails))
        else:
            yield from (self._unexpected(who, v.check.id) for v in self.verdicts if v.outcome is not Outcome.PASSED)

    def _unexpected(self, who: str, check: str) -> str:
        verdict = next(v for v in self.verdicts if v.check.id == check)
        return f"{who}: {verdict.outcome.value} {check}: {verdict.message[:300]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All trials of one exercise."""

    exercise: Exercise
    trials: tuple[Trial, ...]
    seconds: float

    def breaches(self) -> list[str]:
        """Everything that is wrong with the exercise; empty if it is proved."""
        found = [breach for trial in self.trials for breach in trial.breaches()]
        mutants = [trial for trial in self.trials if trial.specimen.kind is Kind.MUTANT]
        killers = {check for trial in mutants for check in trial.of(Outcome.FAILED)}
        return found + [f"no mutant fails {c.id}" for c in self.exercise.checks if c.id not in killers]


def specimens(exercise: Exercise, root: Path) -> tuple[Specimen, ...]:
    """The stub, the solution, its variants and its mutants, as exercises/ and reference/ have them."""
    solution = solution_of(exercise, root)
    return (
        _read(Kind.STUB, "stub", exercise.stub),
        _read(Kind.SOLUTION, "solution", solution),
        *(_read(Kind.VARIANT, path.stem, path) for path in catalog.variants(exercise, root)),
        *(
            Specimen(kind=Kind.MUTANT, name=m.name, path=solution, source=m.source.encode(), fails=frozenset(m.fails))
            for m in catalog.load_mutants(exercise, root)
        ),
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
    chosen = [specimen for specimen in specimens(exercise, root) if select(specimen)]
    start = time.monotonic()
    keys = _keys(exercise, root, chosen, start_method) if memory and seed is None else {}
    known = {specimen: trial for specimen in keys if (trial := _recalled(memory, exercise, specimen, keys[specimen]))}
    tried = {}
    if missing := [specimen for specimen in chosen if specimen not in known]:
        with warm_session(start_method) as session:
            for trial in try_all(session, exercise, root, missing, seed, progress):
                tried[trial.specimen] = trial
                _remember(memory, keys, trial)
    trials = tuple((known | tried)[specimen] for specimen in chosen)
    return Proof(exercise=exercise, trials=trials, seconds=time.monotonic() - start)


def _keys(exercise: Exercise, root: Path, chosen: Sequence[Specimen], start_method: str) -> dict[Specimen, str]:
    """What the verdicts of each specimen rest on."""
    common = basis(exercise, start_method)
    keys = {}
    for specimen in chosen:
        companions = sorted(_submitted(specimen, exercise, root).companions.items())
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
) -> Iterator[Trial]:
    """Run specimens in a pool and judge each in this thread, since pytest is not made for several."""
    with pool_on(session, 1 + (os.cpu_count() or 1)) as pool:
        jobs = [(specimen, pool.submit(_run, session, exercise, root, specimen, seed)) for specimen in chosen]
        for specimen, job in jobs:
            used, received, runs, seconds = job.result()
            progress(f"{exercise.name}: {specimen.kind.value} {specimen.name}")
            verdicts = judge(exercise, received, runs)
            yield Trial(specimen=specimen, verdicts=verdicts, seed=used, seconds=seconds)


def _run(session: Session, exercise: Exercise, root: Path, specimen: Specimen, seed: int | None) -> _Ran:
    start = time.monotonic()
    used = secrets.randbelow(MAX_SEED) if seed is None else seed
    received = _submitted(specimen, exercise, root)
    runs = run_all(session, exercise, received, used, jobs=1)
    return used, received, runs, time.monotonic() - start


def _submitted(specimen: Specimen, exercise: Exercise, root: Path) -> Submission:
    """The specimen as if it were handed in; what is right has the solutions of other exercises beside it."""
    right = specimen.kind in (Kind.SOLUTION, Kind.VARIANT)
    companions = _companions(exercise, root) if right else {}
    return Submission.of(specimen.path, specimen.source, companions=companions)


def _companions(exercise: Exercise, root: Path) -> dict[str, bytes]:
    """The reference solutions of the exercises that this one builds on."""
    paths = {name: catalog.reference(name, root) / file_of(name) for name in exercise.companions}
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


def matrix(proof: Proof, width: int = 100) -> str:
    """The kill matrix: a row for each specimen, a column for each check."""
    checks = proof.exercise.checks
    longest = max((len(trial.specimen.name) for trial in proof.trials), default=0)
    lines = [f"{proof.exercise.name}  {len(proof.trials)} specimens in {proof.seconds:.1f} s", ""]
    lines += [f"  {number:2d}  {check.id}: {check.title}"[:width] for number, check in enumerate(checks, 1)]
    lines += ["", " " * (longest + 11) + " ".join(f"{number:2d}" for number in range(1, len(checks) + 1))]
    for trial in proof.trials:
        marks = " ".join(f" {MARKS[verdict.outcome]}" for verdict in trial.verdicts)
        wrong = "  ← wrong" if any(trial.breaches()) else ""
        lines.append(f"{trial.specimen.kind.value:8s}  {trial.specimen.name:{longest}s} {marks}{wrong}")
    return "\n".join([*lines, "", *summary(proof)]) + "\n"


def summary(proof: Proof) -> list[str]:
    """The breaches, or one line that says that there are none."""
    if breaches := proof.breaches():
        return [f"✗ {breach}" for breach in breaches]
    mutants = sum(trial.specimen.kind is Kind.MUTANT for trial in proof.trials)
    known = sum(trial.remembered for trial in proof.trials)
    found = f"  {known} of {len(proof.trials)} from earlier proofs of the same content; --fresh tries all"
    return [
        *([found] if known else []),
        f"✓ all as expected: {mutants} mutants, each killed by exactly the checks that it names",
    ]
