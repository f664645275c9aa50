"""`interview` and `mend` as commands, left and gone on with, in one terminal and in two. No process is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grader import files
from grader.cli import cli, interview, mend
from grader.practice.store import Store
from grader.quiz.page import Page
from grader.wording.folding import fitted
from tests import mending, small


class Grader:
    """Grades nothing."""

    def __init__(self, *words: Any) -> None:
        self.start = self.grade = self.close = lambda *words: None


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small exercise and its mends, in the current folder."""
    root = small.build(tmp_path / "course")
    mending.packed(root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("RANKLINGS_DATA", str(tmp_path / "data"))
    for command in (interview, mend):
        monkeypatch.setattr(command, "WarmGrader", Grader)
    monkeypatch.setattr(interview, "original", lambda exercise, root: exercise.stub.read_bytes())
    return root


def call(*words: str, typed: str = "") -> Result:
    return CliRunner().invoke(cli, [*words, "--plain"], input=typed)


def test_an_interview_that_is_open_in_another_terminal_is_not_gone_on_with_here(root):
    begun = call("interview", "--exercise", "90")
    assert begun.exit_code == 0 and "Paused" in begun.stdout, begun.output
    (folder,) = (root / "interviews").iterdir()
    with files.claimed(folder) as alone:
        assert alone
        for words in ((), ("--exercise", "90")):
            refused = call("interview", *words)
            assert refused.exit_code == 2 and "90 is open in another terminal; go on there" in refused.stderr
    again = call("interview")
    assert again.exit_code == 0 and "You go on with the interview" in " ".join(again.stdout.split())
    assert "You go on with" in call("interview", "--exercise", "90").stdout, "that is the one"
    for words in (("--mend", "1"), ("--questions", "7"), ("--exercise", "90", "--levels")):
        assert "is paused with" in call("interview", *words).stderr


def test_a_mend_that_is_open_in_another_terminal_is_left_alone(root, tmp_path):
    assert "mends/90_total/1/total.py" in call("mend", "90", "--spoil").stdout
    with files.claimed(root / "mends/90_total/1") as alone:
        assert alone and "mends/90_total/2/total.py" in call("mend", "90", "--spoil").stdout
    other = call("mend", "90", "--spoil", "--new")
    assert "mends/90_total/3/total.py" in other.stdout
    assert len(Store(tmp_path / "data/progress.sqlite3").mends()) == 3


def test_papers_are_named_as_they_are_called_from_here(root, monkeypatch):
    assert "\nWrite in interviews/" in call("interview", "--exercise", "90").stdout
    monkeypatch.chdir(root / "exercises")
    assert f"Find it and mend it in\n{root}" in call("mend", "90", "--spoil").stdout.replace("in /", "in\n/")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("words", [("interview", "--exercise", "90"), ("mend", "90", "--spoil")])
def test_where_nothing_can_be_kept_neither_begins(root, tmp_path, words):
    (tmp_path / "data").write_text("no folder")
    refused = call(*words)
    assert refused.exit_code == 2 and str(tmp_path / "data") in refused.stderr
    assert not list(root.glob("interviews/*")) + list(root.glob("mends/*"))


def test_no_line_of_a_dialogue_is_cut_by_a_narrow_terminal():
    """What does not fit goes on as far in as it began; paths stay whole, and what is painted fits already."""
    long = "  Enter grades, h hint, p the page again, t time, x give up and see, q leave."
    told = fitted(f"{long}\n\x1b[1m{long}\x1b[0m\n/{'a' * 70}", 60).split("\n")
    assert told[0] == "  Enter grades, h hint, p the page again, t time, x give up" and told[1] == "  and see, q leave."
    assert told[2] == f"\x1b[1m{long}\x1b[0m" and told[3] == f"/{'a' * 70}"
    code = Page(plain=True, width=60).prose(f"One way:\n  + if {' or '.join(['number <= 0'] * 5)}:")
    assert max(map(len, code.splitlines())) <= 60 and "\n      <= 0" in code
