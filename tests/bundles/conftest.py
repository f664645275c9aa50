"""A project with hidden checks, and the student's copy of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from grader.course import bundles
from tests import small
from tests.hidden import written
from tests.solutions import ROOT

ASSIGNMENT = """\
title: Homework 2
due: 2026-10-12T22:00:00Z
late: {percent_per_day: 10}
checks: hidden
exercises: {90_total: {weight: 40}}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small exercise as a project of its own, with hidden checks beside it."""
    root = small.build(tmp_path_factory.mktemp("project"))
    manifest = root / "exercises/90_total/exercise.yaml"
    manifest.write_text(
        manifest.read_text().replace("deadline: 20", "deadline: 4").replace("[1]}", "[1], deadline: 4}")
    )
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, root / name)
    (root / "grader").symlink_to(ROOT / "grader")
    (root / "quizzes").symlink_to(ROOT / "quizzes")
    written(root / "hidden" / "90_total", exercise="process_group: true→process_group: true, deadline: 4")
    (root / "assignment.yaml").write_text(ASSIGNMENT)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(root)]
    for words in (["init", "-q"], ["add", "exercises"], ["commit", "-q", "-m", "stubs"]):
        subprocess.run([*git, *words], check=True)
    return root


@pytest.fixture(scope="module")
def student(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundles.student(tmp_path_factory.mktemp("student"), root, [])
