"""Pages name commands as the person called them: make's targets, `python -m grader`, or what pip installs."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader import calling, catalog
from grader.cli import cli
from grader.model import Report
from grader.model.errors import UsageError
from grader.practice import statement
from grader.submission import given, receive_or_miss
from grader.wording import advice
from grader.wording.text import safe_report
from tests import small
from tests.bundles.making import AS_IT_IS, fresh
from tests.reports import partial, submission

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
    quoted = " ".join(advice.replay(partial(), by, Path("a b")))
    assert quoted.endswith("--checks 'a b'\"" if by == "make" else "--checks 'a b'")


ODD = ["a b.py", "it's.py", "$(id).py", "`id`.py", "x;id.py", "-x.py", "~/x.py", "#.py", 'a "b" c.py', " a.py",
       "a$b.py", "größe.py", "a!b.py", "a=b:c,%.py", "$$.py", "a'$\"` !.py"]  # fmt: skip
UNWRITTEN = ["a\nb.py", "a\x1b[31m.py", "\u202eyp.a", "a\u200b.py", "a\\b.py", "::error::a.py", "##[group]a",
             "a\udcff.py", "a\xa0b.py", "a" * 700 + ".py"]  # fmt: skip


def typed(told: str, tmp_path: Path) -> list[str]:
    """What the grader is called with when somebody copies this command to a shell. Makefile and all."""
    echo = tmp_path / "echo"
    echo.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[3:]))\n")
    echo.chmod(0o755)
    made = ["make", "-s", "-f", ROOT / "Makefile", *AS_IT_IS, f"PY={echo}"]
    for begin, instead in (("make ", shlex.join(map(str, made))), ("python -m grader ", f"{echo} -m grader")):
        if told.startswith(begin):
            told = f"{instead} {told.removeprefix(begin)}"
    done = subprocess.run(["sh", "-c", told], cwd=tmp_path, env=fresh(), capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def handed(path: str) -> Report:
    return replace(partial(), submission=submission(path))


def test_make_hands_over_what_it_is_given_as_it_was_written(tmp_path: Path) -> None:
    """A path is one word, in which nothing is carried out; exercises are several words; SEED is no longer ignored."""
    assert typed("make grade EX='02 03' SEED=7", tmp_path) == ["grade", "02", "03", "--seed", "7"]
    given = "make run EX='$(shell touch a)`touch b`' RANKS='2;touch c' SUBMISSION='a \"b\" $(touch d)'"
    words = ["run", "$(shell", "touch", "a)`touch", "b`", "--ranks", "2;touch c"]
    assert typed(given, tmp_path) == [*words, "--submission", 'a "b" $(touch d)']
    assert [path.name for path in tmp_path.iterdir()] == ["echo"]
    timed = typed("make interview MINUTES=5 LEVELS=1 EX=08", tmp_path)
    assert timed == ["interview", "--minutes", "5", "--levels", "--exercise", "08"]
    assert typed("make interview LEVELS=0", tmp_path) == ["interview"]
    assert typed("make render REPORT='a b.json'", tmp_path) == ["render", "a b.json"]
    assert typed("make watch EX=3 SEED=7 ARGS=--plain", tmp_path) == ["watch", "3", "--seed", "7", "--plain"]


def test_make_tells_in_its_own_words_how_a_command_is_called(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, told in ((["hint"], "hint EX=03 [ARGS=OPTIONS]"), (["grade", "--no"], "grade [EX=03] [ARGS=OPTIONS]")):
        with pytest.raises(SystemExit, match="2"):
            cli(wrong, prog_name=calling.program())
        shown = capsys.readouterr().err
        assert (f"Usage: make {told}\nTry 'make {wrong[0]} ARGS=-h'" in shown) == (by == "make")
        assert (f"Usage: {by} {wrong[0]} [OPTIONS]" in shown) == (by != "make") and "Error: " in shown
    with pytest.raises(SystemExit):
        cli(["gradebook"], prog_name=calling.program())
    assert f"Usage: {calling.program()} gradebook [OPTIONS] REPORTS" in capsys.readouterr().err


@pytest.mark.parametrize("way", ["make", "python -m grader"])
@pytest.mark.parametrize("path", ODD)
def test_the_command_that_replays_names_the_same_file_as_it_is_called(way: str, path: str, tmp_path: Path) -> None:
    """Neither make nor a shell reads anything in it, nor in that of the checks, and on a page it is no other."""
    words = typed(" ".join(advice.replay(safe_report(handed(path)), way, Path(path))), tmp_path)
    named = f"./{path}" if path[0] in " -" else path
    assert words == ["grade", "03", "--submission", named, "--seed", "123", "--checks", named]


@pytest.mark.parametrize("path", UNWRITTEN)
def test_a_path_that_no_page_can_show_is_in_no_command(by: str, path: str) -> None:
    """A command without it would grade another file."""
    option = 'ARGS="--seed 123"' if by == "make" else "--seed 123"
    for report in (handed(path), safe_report(handed(path))):
        assert " ".join(advice.replay(report, by)) == f"{option} on the same file"
    told = " ".join(advice.replay(partial(), by, Path(path)))
    assert told == f"{option} on the same file with the same checks"


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
