"""`new`: what it writes is an exercise already; what it may not write over, and names that it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader import catalog
from grader.authoring import new
from grader.authoring.verify import Proof, specimens, try_all
from grader.cli import cli
from grader.model.errors import UsageError
from grader.ranks import Session
from tests.demands import demand_complete, demand_short, demand_teaching

NAME = "08_first_steps"
PROJECT = Path(__file__).parents[1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one exercise."""
    (tmp_path / "exercises").mkdir()
    new.create("07_sums", tmp_path)
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_what_it_writes_is_proved_at_once(root: Path, warm: Session) -> None:
    """Stub, solution, variants and mutants on real ranks, each as it must be."""
    new.create(NAME, root)
    exercise = catalog.load(NAME, root)
    assert exercise.file == "first_steps.py" and exercise.prerequisites == ("07_sums",)
    trials = tuple(try_all(warm, exercise, root, specimens(exercise, root), None, lambda phase: None))
    assert Proof(exercise=exercise, trials=trials, seconds=1.0).breaches() == []


def test_what_it_writes_lacks_nothing_but_mutants(root: Path) -> None:
    """All that is demanded of our exercises, but for fifteen mutants; and the linter has nothing to say."""
    new.create(NAME, root)
    demand_complete(NAME, root, mutants=6, variants=2)
    demand_teaching(NAME, root)
    demand_short(NAME, root)
    words = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(PROJECT / "pyproject.toml"), "."]
    linted = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout


def test_the_command_says_what_to_do_next(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the files are, and how they are proved."""
    monkeypatch.chdir(root)
    result = CliRunner().invoke(cli, ["new", NAME])
    assert result.exit_code == 0 and "exercises/08_first_steps" in result.output
    assert "make verify EX=08" in result.output and "docs/author.md" in result.output


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("first_steps", "two digits and words"),
        ("8_first_steps", "two digits and words"),
        ("08_First", "two digits and words"),
        ("08-first", "two digits and words"),
        ("08_", "two digits and words"),
        ("08_2d", "two digits and words"),
        ("../08_x", "two digits and words"),
        ("08_first\n", "two digits and words"),
        ("08_yield", "Python's own"),
        ("08_match", "Python's own"),
        ("08_probe", "another file"),
        ("08_checks", "another file"),
        ("07_first_steps", "taken by 07_sums. The next that is free is 01"),
        ("08_sums", "07_sums has that name already"),
        ("08_torch", "hide the module torch"),
        ("08_random", "hide the module random"),
    ],
)
def test_a_bad_name_is_refused_in_one_sentence(root: Path, name: str, fault: str) -> None:
    """And nothing is written."""
    before = contents(root)
    with pytest.raises(UsageError) as caught:
        new.create(name, root)
    assert fault in str(caught.value) and "\n" not in str(caught.value).replace(repr(name), "")
    assert contents(root) == before


@pytest.mark.parametrize("part", ["exercises", "reference"])
def test_a_folder_that_is_there_is_left_as_it_is(root: Path, part: str) -> None:
    """Even an unfinished one, without a manifest, or a reference alone."""
    mine = root / part / NAME / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = contents(root)
    with pytest.raises(UsageError, match="taken by 08_first_steps"):
        new.create(NAME, root)
    assert contents(root) == before


def test_both_folders_are_written_or_neither(root: Path) -> None:
    """Where the second cannot be, the first is gone again."""
    before = contents(root)
    (root / "reference").rename(root / "kept")
    (root / "reference").write_text("no folder")
    with pytest.raises(UsageError, match="Nothing was changed"):
        new.create(NAME, root)
    (root / "reference").unlink()
    (root / "kept").rename(root / "reference")
    assert contents(root) == before
