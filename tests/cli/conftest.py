"""What tests of the command line share (see tests/commands.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

import grader.grading.flow
from grader.grading.request import Machine
from tests.commands import MANIFEST, STUB, FakeGrade, new_exercise


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two untouched exercises, which is the current folder."""
    new_exercise(tmp_path, "01_add")
    new_exercise(tmp_path, "02_ring")
    (tmp_path / "exercises/02_ring/exercise.yaml").write_text(MANIFEST.replace("add:", "ring:", 1))
    (tmp_path / "exercises/02_ring/ring.py").write_text(STUB.replace("add(", "ring("))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKLINGS_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def fake(root: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGrade:
    grade = FakeGrade()
    monkeypatch.setattr(grader.grading.flow, "grade", grade)
    monkeypatch.setattr(Machine, "session", lambda machine: grade.session())
    return grade
