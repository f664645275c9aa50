"""`reset` brings the stub back and loses nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from grader import catalog
from grader.cli import cli
from tests.commands import DONE, STUB, call, refused


@pytest.fixture
def committed(root: Path) -> Callable[[], None]:
    """Commits all that there is, as a student would."""
    settings = ["-c", "user.name=S", "-c", "user.email=s@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q", str(root)], check=True)

    def commit() -> None:
        subprocess.run(["git", "-C", str(root), "add", "-A"], check=True)
        subprocess.run(["git", "-C", str(root), *settings, "commit", "-qm", "work"], check=True)

    commit()
    return commit


def test_reset_brings_the_stub_back_and_keeps_every_version_of_the_work(root, committed):
    """Also where the student has committed the work; a second reset does not overwrite what the first one kept."""
    student = root / "exercises/01_add/add.py"
    student.write_text(DONE)
    committed()
    result = call("reset", "1", "--yes")
    assert result.exit_code == 0, result.output
    assert student.read_text() == STUB
    assert ".add.py.before-reset" in result.stdout
    student.write_text(DONE + "# again\n")
    assert call("reset", "1", "--yes").exit_code == 0
    assert (student.parent / ".add.py.before-reset").read_text() == DONE
    assert (student.parent / ".add.py.before-reset-2").read_text() == DONE + "# again\n"
    assert catalog.load("01_add", root).name == "01_add"


def test_reset_of_an_untouched_stub_does_nothing(root, committed):
    result = call("reset", "1")
    assert result.exit_code == 0
    assert "is the stub already" in result.stdout


def test_reset_of_a_deleted_file_brings_it_back(root, committed):
    (root / "exercises/01_add/add.py").unlink()
    assert call("reset", "1", "--yes").exit_code == 0
    assert (root / "exercises/01_add/add.py").read_text() == STUB


def test_reset_asks_and_refuses_where_nobody_can_answer(root, committed):
    student = root / "exercises/01_add/add.py"
    student.write_text(DONE)
    assert "add ARGS=--yes" in refused(call("reset", "1"))
    assert student.read_text() == DONE


def test_reset_says_that_the_file_is_kept_before_it_asks(root, committed, monkeypatch, capfd):
    """And what is said after Ctrl-C stands on a line of its own."""
    (root / "exercises/01_add/add.py").write_text(DONE)
    asked: list[str] = []

    def confirm(question: str, err: bool) -> bool:
        asked.append(question)
        raise click.Abort

    monkeypatch.setattr("grader.cli.common.sys.stdin", FakeTerminal())
    monkeypatch.setattr("click.confirm", confirm)
    with pytest.raises(SystemExit):
        cli(["reset", "1"])
    assert len(asked) == 1 and "keep your file beside it?" in asked[0]
    assert capfd.readouterr().err == "\nNothing was reset.\n"
    assert (root / "exercises/01_add/add.py").read_text() == DONE


class FakeTerminal:
    """Somebody sits there."""

    def isatty(self) -> bool:
        return True


def test_reset_without_a_stub_in_git_says_so_and_changes_nothing(root):
    student = root / "exercises/01_add/add.py"
    student.write_text(DONE)
    assert "git has no untouched stub of 01_add" in refused(call("reset", "1", "--yes"))
    assert student.read_text() == DONE
