"""The automatic mutants of one exercise, tried: who survives, what equivalents.yaml says of them, and the score."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grader import catalog
from grader.authoring.lab import solution_of, warm_session
from grader.authoring.mutation.generate import AutoMutant, diff, mutants
from grader.authoring.mutation.runner import MutantOutcome, MutantRunner, TriedMutant
from grader.catalog import Equivalent
from grader.model import Exercise, Outcome, Verdict
from grader.records import digests

TRIES = 2
"""How often a mutant is tried, each time with another seed, before it has survived; one that is listed as equivalent
once."""
DRAWN = 12
"""So many mutants of each variant are tried, unless all are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An exercise's solution with its automatic mutants, then those of its variants, and what is said of them. Names
    of mutants that begin as `left_out` says belong to variants whose mutants were not made."""

    exercise: Exercise
    path: Path
    source: str
    mutants: tuple[AutoMutant, ...]
    equivalents: tuple[Equivalent, ...]
    left_out: tuple[str, ...] = ()

    def drawn(self) -> frozenset[str]:
        """The names of all mutants of the solution, and of a few of each variant, which the exercise's content draws:
        the same for one tree, and over time, as the tree changes, all of them."""
        tree = digests.of_exercise(self.exercise)
        names = {mutant.identity for mutant in self.mutants if not mutant.variant}
        for variant in {mutant.variant for mutant in self.mutants} - {""}:
            own = [mutant.identity for mutant in self.mutants if mutant.variant == variant]
            names |= set(sorted(own, key=lambda name: digests.of_files([(name, tree.encode())]))[:DRAWN])
        return frozenset(names)

    def counts(self) -> dict[str, int]:
        """How many mutants the solution ("") and each variant have."""
        return dict(Counter(mutant.variant for mutant in self.mutants))

    def listed(self, mutant: AutoMutant, gpu: bool) -> Equivalent | None:
        """The entry that calls the mutant equivalent on this machine."""
        valid = (entry for entry in self.equivalents if not (gpu and entry.needs_gpu))
        return next((entry for entry in valid if entry.matches(mutant.identity)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What came of the mutants that were tried. `gpu`: the machine has one."""

    subject: Subject
    control: tuple[Verdict, ...]
    results: tuple[TriedMutant, ...]
    gpu: bool
    seconds: float

    def of(self, outcome: MutantOutcome) -> list[TriedMutant]:
        return [result for result in self.results if result.outcome is outcome]

    @property
    def equivalent(self) -> list[TriedMutant]:
        """Those that survived and may."""
        return [result for result in self.of(MutantOutcome.SURVIVED) if self.subject.listed(result.mutant, self.gpu)]

    @property
    def survivors(self) -> list[TriedMutant]:
        """Those that survived and may not."""
        return [
            result for result in self.of(MutantOutcome.SURVIVED) if not self.subject.listed(result.mutant, self.gpu)
        ]

    @property
    def percent(self) -> float:
        """Killed / non-equivalent."""
        killed, other = len(self.of(MutantOutcome.KILLED)), len(self.survivors) + len(self.of(MutantOutcome.BROKEN))
        return 100 * killed / (killed + other) if killed + other else 100.0

    def breaches(self) -> list[str]:
        """Everything that is wrong with the exercise or with its equivalents.yaml; empty where all is well."""
        return [*self._faults_of_the_solution(), *self._survivors(), *self._broken(), *self._false(), *self._stale()]

    def _faults_of_the_solution(self) -> Iterator[str]:
        for verdict in self.control:
            if verdict.outcome not in (Outcome.PASSED, Outcome.SKIPPED):
                yield f"the solution itself: {verdict.outcome.value} {verdict.check.id}: {verdict.message[:300]}"

    def _survivors(self) -> Iterator[str]:
        for result in self.survivors:
            yield f"survives: {result.mutant.identity}"

    def _broken(self) -> Iterator[str]:
        for result in self.of(MutantOutcome.BROKEN):
            what = f"check {result.by} is broken" if result.by else "the ranks could not be run"
            yield f"{what} (seed {result.seed}) with {result.mutant.identity}: {result.message[:300]}"

    def _false(self) -> Iterator[str]:
        for result in self.of(MutantOutcome.KILLED):
            if entry := self.subject.listed(result.mutant, self.gpu):
                where = f"{entry.path}:{entry.line}"
                seed = f"seed {result.seed}"
                yield f"{where}: listed as equivalent, but {result.by} kills it ({seed}): {result.mutant.identity}"

    def _stale(self) -> Iterator[str]:
        for entry in self.subject.equivalents:
            if not any(entry.matches(mutant.identity) for mutant in self.subject.mutants):
                yield f"{entry.path}:{entry.line}: there is no such mutant any more; remove it: {entry.mutant}"


def load(name: str, root: Path, *, own: bool = False) -> Subject:
    """The exercise's solution and its mutants, and those of its variants, which take most of the time, unless its `own`
    are enough. Raises AuthorError."""
    exercise = catalog.load(name, root)
    path = solution_of(exercise, root)
    source = path.read_text(encoding="utf-8")
    variants = catalog.variants(exercise, root)
    left_out = tuple(f"{variant.stem}.py | " for variant in variants) if own else ()
    others = [] if own else [mutant for variant in variants for mutant in _of_variant(variant)]
    listed = catalog.load_equivalents(exercise, root)
    return Subject(
        exercise=exercise,
        path=path,
        source=source,
        mutants=(*mutants(source), *others),
        equivalents=tuple(entry for entry in listed if not entry.mutant.startswith(left_out)),
        left_out=left_out,
    )


def _of_variant(path: Path) -> Iterator[AutoMutant]:
    """Its mutants, each with the variant's name before its own."""
    for mutant in mutants(path.read_text(encoding="utf-8")):
        yield replace(mutant, variant=path.stem, identity=f"{path.stem}.py | {mutant.identity}")


def attack(
    subject: Subject,
    *,
    seed: int | None = None,
    start_method: str = "forkserver",
    select: Callable[[AutoMutant], bool] = lambda mutant: True,
    progress: Callable[[str], None] = lambda phase: None,
    known: Callable[[Score], None] = lambda score: None,
) -> Score:
    """Try the solution and then its mutants on real ranks. Where the solution fails, no mutant is tried, and where no
    mutant is chosen, nothing is. `known` is told the score of each mutant alone as soon as there is one."""
    import torch

    start, gpu = time.monotonic(), torch.cuda.is_available()
    chosen = [mutant for mutant in subject.mutants if select(mutant)]
    results: list[TriedMutant] = []

    def tell(result: TriedMutant) -> None:
        progress(f"{len(results) + 1} of {len(chosen)}, {result.outcome.value}: {result.mutant.identity}")

    def score(*tried: TriedMutant) -> Score:
        order = sorted(tried, key=lambda result: subject.mutants.index(result.mutant))
        seconds = time.monotonic() - start
        return Score(subject=subject, control=control, results=tuple(order), gpu=gpu, seconds=seconds)

    if not chosen:
        return Score(subject=subject, control=(), results=(), gpu=gpu, seconds=0.0)
    with warm_session(start_method) as session:
        progress(f"the solution, then {len(chosen)} mutants")
        runner = MutantRunner(session, subject.exercise, subject.path, seed)
        control = runner.control(subject.source.encode())
        if all(verdict.outcome in (Outcome.PASSED, Outcome.SKIPPED) for verdict in control):
            for result in runner.try_all(chosen, lambda mutant: 1 if subject.listed(mutant, gpu) else TRIES, tell):
                results.append(result)
                known(score(result))
    return score(*results)


def page(score: Score) -> str:
    """The survivors as an author needs them, what else is wrong, and the score."""
    lines = []
    for result in score.survivors:
        of = f"{result.mutant.variant}.py: " if result.mutant.variant else ""
        lines += [f"survives: {of}{result.mutant.description}", diff(result.mutant)]
        lines += [f"- mutant: {quoted(result.mutant.identity)}", "  reason:", ""]
    others = [breach for breach in score.breaches() if not breach.startswith("survives: ")]
    return "\n".join([*lines, *(f"✗ {breach}" for breach in others), summary(score)]) + "\n"


def quoted(text: str) -> str:
    """As YAML wants it."""
    return "'" + text.replace("'", "''") + "'"


def summary(score: Score) -> str:
    """The score in one line."""
    killed, survived = len(score.of(MutantOutcome.KILLED)), len(score.survivors)
    wrong = len(score.of(MutantOutcome.BROKEN))
    return (
        f"{'✗' if score.breaches() else '✓'} {score.subject.exercise.name}: "
        f"{len(score.results)} of {len(score.subject.mutants)} automatic mutants tried in {score.seconds:.0f} s, "
        f"{killed} killed, {len(score.equivalent)} equivalent, {survived} survived"
        f"{f', {wrong} broke a check' if wrong else ''}: {killed}/{killed + survived + wrong} = {score.percent:.1f} %"
    )
