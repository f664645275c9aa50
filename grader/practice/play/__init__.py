"""`run`: the student's own file on ranks, to play with. Nothing is judged; what ranks print comes as they print it."""

from __future__ import annotations

import ast
import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from grader.model import Case, Exercise, Limits, Run, Submission
from grader.model.errors import UsageError
from grader.wording.plain import deadlock_lines, finding_lines, is_deadlocked, untold
from grader.wording.text import visible

MOST_RANKS = 16
OUTPUT = 2**40
"""Bytes that a rank may print: as many as somebody likes to look at."""

NO_GROUP = "Default process group has not been initialized"
JOIN = (
    "Nobody has joined a group for main; it does so itself: "
    'dist.init_process_group("gloo", rank=rank, world_size=world_size).'
)

Say = Callable[[str], None]
Printed = Callable[[int, bytes], None]


class Session(Protocol):
    """What playing takes of `ranks.Session`."""

    def run(self, exercise: Exercise, submission: Submission, case: Case, *, printed: Printed | None = None) -> Run: ...


def case_of(exercise: Exercise, submission: Submission, ranks: int, seconds: float) -> Case:
    """The run that is wanted. Raises UsageError where the file has nothing that could be run."""
    as_script = exercise.script or _is_script(exercise, submission.source)
    return Case(
        name="run",
        world_size=ranks,
        probe="play",
        deadline=seconds,
        parameters={"as_script": as_script},
        process_group=not as_script and has_group(exercise, submission.source),
        limits=Limits(output=OUTPUT),
        folder=Path(__file__).parent,
    )


def has_group(exercise: Exercise, source: bytes) -> bool:
    """Whether main finds the default process group, as the functions do where they are graded: in exercises that say
    so, unless the file joins one itself."""
    return any(case.process_group for case in exercise.cases) and b"init_process_group" not in source


def _is_script(exercise: Exercise, source: bytes) -> bool:
    """Whether it is run as a script; else it has a main."""
    body = ast.parse(source).body
    if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in body):
        return False
    if any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body):
        return True
    raise UsageError(
        f"{exercise.file} has nothing to run. Write `def main(rank, world_size):` at its end, or a block "
        '`if __name__ == "__main__":` that reads RANK and WORLD_SIZE as under torchrun.'
    )


def play(exercise: Exercise, submission: Submission, case: Case, session: Session, say: Say) -> Run:
    """Run the file, and say each line that a rank prints, with its rank."""
    labelled = Labelled(case.world_size, say)
    run = session.run(exercise, submission, case, printed=labelled)
    labelled.flush()
    return run


class Labelled:
    """Makes whole lines of what ranks print, each with its rank before it."""

    def __init__(self, ranks: int, say: Say) -> None:
        self._say, self._rest = say, [""] * ranks
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(ranks)]

    def __call__(self, rank: int, data: bytes) -> None:
        """A piece of what a rank printed, from wherever to wherever."""
        *lines, self._rest[rank] = (self._rest[rank] + self._decoders[rank].decode(data)).split("\n")
        for line in lines:
            self._tell(rank, line)

    def flush(self) -> None:
        """What no line has ended."""
        for rank, rest in enumerate(self._rest):
            if rest:
                self._tell(rank, rest)
        self._rest = [""] * len(self._rest)

    def _tell(self, rank: int, line: str) -> None:
        shown = "".join(map(visible, line.rstrip("\r")))
        for part in shown.split("\n"):
            self._say(f"rank {rank} │ {part}")


def ending(run: Run, exercise: Exercise) -> Iterator[str]:
    """How it ended, in lines: who raised what where, or who waits in what."""
    if run.diagnosis is None:
        yield f"All {len(run.ranks)} ranks have returned." if len(run.ranks) > 1 else "The rank has returned."
        return
    stuck = is_deadlocked(run)
    if stuck:
        yield from deadlock_lines(run, exercise)
    for finding in untold(run.diagnosis.findings, run if stuck else None):
        yield from finding_lines(finding, exercise)
    if any(NO_GROUP in finding.actual for finding in run.diagnosis.findings):
        yield f"Hint: {JOIN}"
    for hint in filter(None, (finding.hint for finding in run.diagnosis.findings)):
        yield f"Hint: {hint}"
