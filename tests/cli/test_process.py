"""The command line as a process: signals, pipes, locales."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT, environment

BLOCKING = """
import sys, time, grader.grading.flow
def grade(*request):
    print("ready", flush=True)
    time.sleep(60)
grader.grading.flow.grade = grade
from grader.cli import main
sys.argv = ["grader", "grade", "1"]
main()
"""


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**more), check=False)


@pytest.fixture
def blocked(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A command line in the middle of a grade."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", BLOCKING], env=environment(), **pipes) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_the_middle_of_a_grade_is_one_sentence(blocked, number, code):
    blocked.send_signal(number)
    _, errors = blocked.communicate(timeout=30)
    assert blocked.returncode == code
    assert [line for line in errors.splitlines() if line] == [
        "Interrupted: nothing was graded and nothing is left running."
    ]


def test_a_reader_that_leaves_is_no_error(root):
    """`grader list | head -0` is silent."""
    command = f"'{sys.executable}' -m grader list | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_that_the_locale_cannot_show_is_shown_with_substitutes(root):
    done = run("grade", "éé", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "There is no exercise" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.one_in(2)
def test_outside_of_any_repository_the_project_s_own_exercises_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("list", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "01" in done.stdout


def test_a_python_without_our_packages_is_told_what_to_do(tmp_path):
    """`python -m grader` with a Python that has no click: a sentence, code 3."""
    shutil.copytree(ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-S", "-m", "grader"], cwd=tmp_path, capture_output=True, text=True, env={}, check=False
    )
    assert done.returncode == 3
    assert done.stderr.startswith("grader: The package click is not installed here.")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("prepared", [False, True], ids=["not prepared", "prepared"])
def test_it_names_the_environment_that_make_has_made(prepared, tmp_path):
    shutil.copytree(ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    if prepared:
        (tmp_path / ".venv/bin").mkdir(parents=True)
        (tmp_path / ".venv/bin/python").touch()
    command = [sys.executable, "-S", "-m", "grader", "list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={}, check=False)
    assert ("`.venv/bin/python -m grader` has all" in done.stderr) is prepared
    assert ("`make grade` creates" in done.stderr) is not prepared
