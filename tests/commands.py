"""The command line without a process: a repository of two exercises, and a grade that is a fake."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner, Result

from grader import catalog
from grader.cli import cli
from grader.grading.observe import SILENT, Listener
from grader.grading.request import Machine, Request
from grader.model import Finding, Outcome, Report, Verdict
from grader.submission import receive, receive_or_miss
from tests.fakes import FakeSession

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = """\
title: Add [across] the ranks
summary: One sentence.
time_box: 25
requires:
  add: (rank, world_size)
hints: [think of sums, think of rings, call all_reduce]
cases:
  adds:
    world_sizes: [1]
checks:
  adds:
    points: 60
  tidy:
    points: 40
"""
CHECKS = 'def test_adds(runs):\n    """It adds"""\n\n\ndef test_tidy(runs):\n    """It is tidy"""\n'
STUB = 'def add(rank, world_size):\n    """Add."""\n    raise NotImplementedError("TODO")\n'
DONE = 'def add(rank, world_size):\n    """Add."""\n    return rank + world_size\n'


@dataclass
class FakeGrade:
    """Stands in for flow.grade: gives reports with one outcome, or raises, and remembers what it was asked."""

    outcome: Outcome = Outcome.PASSED
    findings: tuple[Finding, ...] = ()
    error: BaseException | None = None
    errors: dict[str, BaseException] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    machines: list[Machine | None] = field(default_factory=list)
    sessions: list[FakeSession] = field(default_factory=list)
    used: list[FakeSession] = field(default_factory=list)

    def session(self) -> FakeSession:
        """Stands in for Machine.session."""
        self.sessions.append(FakeSession())
        return self.sessions[-1]

    def __call__(
        self, request: Request, session: FakeSession, listener: Listener = SILENT, machine: Machine | None = None
    ) -> Report:
        self.asked.append(request)
        self.machines.append(machine)
        self.used.append(session)
        listener.phase("starting")
        error = self.errors.get(request.exercise) or self.error
        if error is not None:
            raise error
        exercise = catalog.load(request.exercise, request.root)
        outcomes = [self.outcome] + [Outcome.PASSED] * (len(exercise.checks) - 1)
        return Report(
            exercise=exercise,
            submission=(receive_or_miss if request.absent else receive)(exercise, request.submission, request.root),
            verdicts=tuple(
                Verdict(check=c, outcome=o, findings=self.findings if o is Outcome.FAILED else ())
                for c, o in zip(exercise.checks, outcomes, strict=True)
            ),
            runs=(),
            seed=request.seed or 7,
            device="cpu",
            sandbox="limits",
            seconds=1.0,
        )


def new_exercise(root: Path, name: str, source: str = STUB) -> Path:
    folder = root / "exercises" / name
    folder.mkdir(parents=True)
    (folder / "exercise.yaml").write_text(MANIFEST)
    (folder / "checks.py").write_text(CHECKS)
    (folder / "probe.py").write_text("def adds(rank): ...\n")
    (folder / "README.md").write_text("# Adding\n\nAdd *across* the ranks.\n")
    student = folder / f"{name.partition('_')[2]}.py"
    student.write_text(source)
    return student


def begin(root: Path) -> None:
    """Write something into the first exercise's stub."""
    (root / "exercises/01_add/add.py").write_text("def add(rank, world_size):\n    return rank\n")


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def refused(result: Result, code: int = 2) -> str:
    """The one sentence of a command that failed; nothing of ours beside it."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("grader: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}
