"""How the mutants of an exercise fail, as their own grades on this machine have shown, kept for the next report.

A file for each exercise beside the proofs of `verify`: data and nothing else. It holds for the exercise, checks and
engine with which it was made; with others the mutants are known by the checks of mutants.yaml again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader import catalog, files
from grader.authoring.lab import warm_session
from grader.batch.report.facts import Fault, facts_of
from grader.batch.report.mutants import Signature
from grader.catalog import Mutant
from grader.grading.report import device_of, summarise
from grader.grading.running import pool_on, run_all
from grader.judge import judge
from grader.model import Exercise, Submission
from grader.model.errors import GraderError
from grader.practice import store
from grader.ranks import Session
from grader.records import digests
from grader.render import json as as_json

FORMAT = "ranklings/signatures/1"
SEED = 20_260_101
"""Of every mutant's grade: a signature has no numbers, so any will do."""
AT_A_TIME = 2
Faults = frozenset[Fault]


def known(name: str, root: Path) -> tuple[Signature, ...]:
    """The mutants of an exercise, with their faults where these were recorded; none where there are no mutants, as in
    what students get."""
    try:
        exercise = catalog.load(name, root)
        mutants = catalog.load_mutants(exercise, root)
    except GraderError:
        return ()
    kept = _File(exercise, root).read(mutants)
    return tuple(_signature(mutant, faults) for mutant, faults in zip(mutants, kept, strict=True))


def _signature(mutant: Mutant, faults: Faults | None) -> Signature:
    return Signature(
        name=mutant.name, mistake=mutant.mistake, fails=frozenset(mutant.fails), faults=faults or frozenset()
    )


def record(name: str, root: Path, tell: Callable[[str], None], sandbox: str = "auto") -> int:
    """Grade the mutants of an exercise that are not recorded yet, and keep how they fail. Gives how many were graded.
    An interruption loses none that was. Raises UsageError or RunError where ranks cannot be run."""
    exercise = catalog.load(name, root)
    mutants = catalog.load_mutants(exercise, root)
    file = _File(exercise, root)
    found = dict(zip(mutants, file.read(mutants), strict=True))
    missing = [mutant for mutant, faults in found.items() if faults is None]
    if not missing:
        return 0
    with warm_session(sandbox=sandbox) as session:
        for number, (mutant, faults) in enumerate(graded(session, exercise, root, missing), 1):
            found[mutant] = faults
            file.write(found)
            tell(f"{number} of {len(missing)} mutants: {mutant.name}")
    return len(missing)


def graded(
    session: Session, exercise: Exercise, root: Path, mutants: Sequence[Mutant]
) -> Iterator[tuple[Mutant, Faults]]:
    """Each mutant with the faults of a grade, two at a time."""
    path = catalog.reference(exercise.name, root) / exercise.file
    handed_in = [Submission.of(path, mutant.source.encode()) for mutant in mutants]
    with pool_on(session, AT_A_TIME) as pool:
        jobs = [pool.submit(run_all, session, exercise, submission, SEED, jobs=1) for submission in handed_in]
        for mutant, submission, job in zip(mutants, handed_in, jobs, strict=True):
            runs = job.result()
            verdicts = judge(exercise, submission, runs)
            report = summarise(
                exercise,
                submission,
                runs,
                verdicts,
                seed=SEED,
                device=device_of(runs),
                sandbox=session.level,
                seconds=0.0,
            )
            yield mutant, facts_of(json.loads(as_json.render(report))).faults


class _File:
    """What is recorded of one exercise. A file that is not as it should be is as good as none."""

    def __init__(self, exercise: Exercise, root: Path) -> None:
        self._path = None if store.is_off() else store.place(root).parent / "signatures" / f"{exercise.name}.json"
        rests_on = (("exercise", digests.of_exercise(exercise)), ("engine", digests.of_engine()))
        self._basis = digests.of_files((name, digest.encode()) for name, digest in rests_on)

    def read(self, mutants: Sequence[Mutant]) -> list[Faults | None]:
        """The faults of each mutant, None for those that are not recorded."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8")) if self._path else {}
            known = content["mutants"] if self._is_ours(content) else {}
            return [_faults(known.get(_key(mutant))) for mutant in mutants]
        except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
            return [None] * len(mutants)

    def _is_ours(self, content: Any) -> bool:
        return (content["format"], content["basis"]) == (FORMAT, self._basis)

    def write(self, found: Mapping[Mutant, Faults | None]) -> None:
        if self._path is None:
            return
        recorded = {_key(mutant): sorted(faults) for mutant, faults in found.items() if faults is not None}
        text = json.dumps({"format": FORMAT, "basis": self._basis, "mutants": recorded}, indent=0)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.write(self._path, text)


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(mutant.source.encode()).hexdigest()


def _faults(entry: Any) -> Faults | None:
    return None if entry is None else frozenset(Fault(*map(str, fields)) for fields in entry)
