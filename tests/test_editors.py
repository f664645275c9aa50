"""What editors get: links to lines, a line for each problem, and the tests of an exercise one by one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import cli
from grader.model import alone
from grader.render import html, problems
from grader.render import json as as_json
from grader.render.terminal import render
from grader.wording.editor import CHOICES, PLAIN, Editor
from tests.reports import KINDS, deadlock, hostile, partial
from tests.results import two_exercises
from tests.test_render_terminal import ANSI

ROOT = Path(__file__).resolve().parent.parent
HERE = Path("/home/ada/my course")
LINK = re.compile(r"\x1b\]8;(?:id=[^;]*)?;([^\x1b]*)\x1b\\(.*?)\x1b\]8;;\x1b\\", re.DOTALL)
FILE = "exercises/03_train_ddp/train_ddp.py"
MATCHER = json.loads((ROOT / ".vscode/tasks.json").read_text())["tasks"][0]["problemMatcher"]


@pytest.mark.parametrize("width", [44, 80])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_links_change_no_letter_of_a_page(kind, color, width):
    """A terminal that knows no links shows what it would have shown; without colour nothing but the links is added."""
    report = KINDS[kind]()
    page = render(report, color=color, width=width, editor=Editor(name="vscode", here=HERE))
    without = LINK.sub(lambda found: found[2], page)
    assert ANSI.sub("", without) == render(report, width=width)
    assert color or "\x1b" not in without


def test_every_line_of_a_deadlock_leads_to_the_editor():
    page = render(deadlock(), editor=Editor(name="vscode", here=HERE))
    found = {(address, text) for address, text in LINK.findall(page)}
    lines = {str(rank.ending.at) for run in deadlock().runs for rank in run.ranks if rank.ending.at}
    assert {(f"vscode://file/home/ada/my%20course/{FILE}:{line}", line) for line in lines} <= found and lines


def test_a_line_can_be_told_with_its_file():
    page = render(partial(), editor=Editor(name=PLAIN, here=HERE))
    assert f"{partial().submission.path}:41" in page and "\x1b" not in page and "line 41" not in page


@pytest.mark.parametrize("name", CHOICES)
def test_no_path_can_break_out_of_a_link(name):
    """A submission's path is the student's: no escape, quote or line end of it is left in an address or a name."""
    path = Path('/tmp/a"><script>\x1b]8;;http://evil\x07\n\u202e b.py')
    submission = replace(hostile().submission, path=path)
    given = Editor(name=name, here=HERE)
    assert re.fullmatch(r"[\w:/.%~-]*", given.address(path, 7), re.ASCII)
    page = render(replace(partial(), submission=submission), editor=given)
    assert "\x07" not in page and "\u202e" not in page and "\x1b" not in LINK.sub("", page)
    assert "<script>\\x" not in html.render(alone(replace(partial(), submission=submission)), given)


def test_a_page_for_a_browser_leads_to_the_editor_only_on_request():
    with_links = html.render(alone(partial()), Editor(name="vscodium", here=HERE))
    assert f'href="vscodium://file/home/ada/my%20course/{partial().submission.path}:41"' in with_links
    assert html.render(alone(partial()), Editor(name=PLAIN, here=HERE)) == html.render(alone(partial()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_problem_is_a_line_that_the_task_of_the_editor_understands(kind):
    report = KINDS[kind]()
    lines = problems.render(alone(report)).splitlines()
    assert bool(lines) == (report.status != "passed")
    for line in lines:
        found = re.match(MATCHER["pattern"]["regexp"], line)
        assert found and line.isprintable()
        assert found[MATCHER["pattern"]["severity"]] in ("error", "warning")
        assert found[MATCHER["pattern"]["file"]] == problems.safe(str(report.submission.path))
        assert int(found[MATCHER["pattern"]["line"]]) > 0 and found[MATCHER["pattern"]["message"]]


def test_a_problem_is_told_once_and_names_the_check():
    lines = problems.render(alone(partial())).splitlines()
    assert len(set(lines)) == len(lines)
    titles = {verdict.check.title for verdict in partial().verdicts}
    assert any(f":41:1: error: {title}: " in line for line in lines for title in titles)


def test_the_command_shows_problems_in_place_of_the_page(tmp_path):
    file = tmp_path / "report.json"
    file.write_text(as_json.render_result(two_exercises()))
    shown = CliRunner().invoke(cli, ["render", str(file), "--problems"], standalone_mode=False).stdout
    assert shown and all(re.match(MATCHER["pattern"]["regexp"], line) for line in shown.splitlines())
    piped = CliRunner().invoke(cli, ["render", str(file), "--editor", "vscode"], standalone_mode=False).stdout
    assert "Score" in piped and "\x1b" not in piped


def test_the_test_explorer_sees_each_check(tmp_path):
    """What VS Code's test explorer asks first: the checks one by one, with nothing run. Ranks would take seconds."""
    copied = tmp_path / "course"
    shutil.copytree(ROOT / "exercises/03_train_ddp", copied / "exercises/03_train_ddp")
    (copied / "pyproject.toml").write_text('[tool.pytest.ini_options]\npython_files = ["checks.py"]\n')
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "exercises"]
    done = subprocess.run(words, cwd=copied, capture_output=True, text=True, check=False)
    ids = [line for line in done.stdout.splitlines() if "::" in line]
    assert done.returncode == 0 and len(ids) > 10, done.stdout + done.stderr
    assert all("exercises/03_train_ddp/checks.py::test_" in line for line in ids)
