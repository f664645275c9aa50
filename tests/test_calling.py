"""Pages name commands as the person called them: make's targets, `python -m grader`, or what pip installs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader import calling, catalog
from grader.model.errors import UsageError
from grader.practice import statement
from grader.submission import given, receive_or_miss
from grader.wording import advice
from tests import small
from tests.reports import partial

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {
    "make": "/somewhere/grader/__main__.py",
    "python -m grader": "/somewhere/grader/__main__.py",
    "ranklings": "/somewhere/bin/ranklings",
    "grader": "C:\\bin\\grader.exe" if os.name == "nt" else "/somewhere/bin/grader.exe",
}
VERBS = "grade|hint|explain|show|watch|progress|quiz|interview|mend|sandbox|reset|list|run|doctor"
COMMANDS = rf"\bmake ({VERBS})\b|\bARGS="


@pytest.fixture(params=list(PROGRAMS))
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every way to be called, as the process sees it."""
    monkeypatch.setattr(sys, "argv", [PROGRAMS[request.param], "grade"])
    monkeypatch.delenv("MAKELEVEL", raising=False)
    if request.param == "make":
        monkeypatch.setenv("MAKELEVEL", "1")
    return str(request.param)


def test_a_command_is_named_as_it_was_called(by: str) -> None:
    made = by == "make"
    assert calling.way() == by
    assert calling.command("hint", "03") == ("make hint EX=03" if made else f"{by} hint 03")
    assert calling.command("interview") == f"{by} interview"
    asked = calling.command("interview", "", "--debrief")
    assert asked == ("make interview ARGS=--debrief" if made else f"{by} interview --debrief")
    leveled = calling.command("hint", "03", "--level 2")
    assert leveled == ('make hint EX=03 ARGS="--level 2"' if made else f"{by} hint 03 --level 2")
    assert calling.option("--spoil") == ("ARGS=--spoil" if made else "--spoil")
    assert calling.program() == ("python -m grader" if made else by)


def test_a_report_is_replayed_by_the_same_command(by: str) -> None:
    """Also a file that was handed in from elsewhere."""
    told = " ".join(advice.replay(partial(), by))
    if by == "make":
        assert told == 'make grade EX=03 SUBMISSION=handed_in/no_mean.py ARGS="--seed 123"'
    else:
        assert told == f"{by} grade 03 --submission handed_in/no_mean.py --seed 123"


def test_staff_replay_with_the_checks_that_they_graded_with(by: str) -> None:
    told = " ".join(advice.replay(partial(), by, Path("hidden"), hidden=True))
    assert told.rstrip('"').endswith("--seed 123 --checks hidden --show-hidden")
    assert "--checks" not in " ".join(advice.replay(partial(), by, Path("a b")))


def test_of_a_file_that_was_not_handed_in_the_folder_is_named(by: str, tmp_path: Path) -> None:
    """There is no such file, and in the folder it would be looked for."""
    exercise = partial().exercise
    missing = replace(partial(), submission=receive_or_miss(exercise, tmp_path, ROOT))
    words = advice.replay(missing, by)
    assert any(word.endswith(str(tmp_path)) for word in words) and exercise.file not in " ".join(words)
    bare = replace(partial(), submission=given(exercise, {}))
    assert "submission" not in " ".join(advice.replay(bare, by)).lower()


def test_statements_and_refusals_name_it_too(by: str, tmp_path: Path) -> None:
    exercise = catalog.load("14_pipeline", ROOT)
    told = statement.statement(exercise)
    if by == "make":
        assert 'make grade EX=14 ARGS="--html page.html"' in told
    else:
        assert f"{by} grade 14 --html page.html" in told and not re.search(COMMANDS, told)
    with pytest.raises(UsageError, match=re.escape(calling.command("hint", "14"))):
        statement.solution(exercise, ROOT, allowed=False)


def test_a_program_of_another_name_is_told_makes_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of Jupyter, a test runner, a worker of a batch."""
    monkeypatch.setattr(sys, "argv", ["/usr/lib/python3/ipykernel_launcher.py"])
    assert calling.way() == "make"


def test_the_command_line_says_it_from_end_to_end(tmp_path: Path) -> None:
    """What comes next, and the usage of a command that was called wrongly."""
    root = small.build(tmp_path / "small")
    variables = {name: value for name, value in os.environ.items() if name != "MAKELEVEL"}
    start = "import sys; sys.argv[0] = '/bin/ranklings'; from grader.__main__ import run; run()"
    for words, by in ((["-m", "grader"], "python -m grader"), (["-c", start], "ranklings")):
        for more, told in ((["progress"], "{} show 90"), (["grade", "--nonsense"], "Usage: {} grade")):
            command = [sys.executable, *words, *more]
            done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, check=False)
            assert told.format(by) in done.stdout + done.stderr
            assert not re.search(COMMANDS, done.stdout + done.stderr)


def literals(path: Path) -> Iterator[str]:
    """The strings of a module, but for those that document it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documenting = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documenting:
            yield node.value


def test_no_module_writes_a_command_by_hand() -> None:
    """But this one place, the default of a dialogue that is told, and the sentence for a Python that is too old to
    import anything."""
    allowed = {"calling.py", "__main__.py", "cli/bundle.py", "practice/mend/session.py"}
    for path in sorted((ROOT / "grader").rglob("*.py")):
        name = path.relative_to(ROOT / "grader").as_posix()
        if name not in allowed and not name.startswith("authoring/"):
            assert not [text for text in literals(path) if re.search(COMMANDS, text)], name
