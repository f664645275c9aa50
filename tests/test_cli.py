"""The command line: what it prints where, and which code it ends with. No rank is started; `grade` is a fake."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import grader.grading.flow
from grader import catalog
from grader.cli import cli
from grader.cli.commands import SUMMARIES
from grader.grading.observe import SILENT, Listener
from grader.grading.request import Machine, Request
from grader.model import MAX_SEED, Finding, Outcome, Report, Verdict
from grader.model.errors import AuthorError, RunError, UsageError
from grader.records import recording
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


def call(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def refused(result: Result, code: int = 2) -> str:
    """The one sentence of a command that failed; nothing of ours beside it."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("grader: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


# --- grade ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.PASSED, 0), (Outcome.FAILED, 1), (Outcome.BROKEN, 3)])
def test_the_exit_code_is_what_the_report_came_to(fake, outcome, code):
    fake.outcome = outcome
    result = call("grade", "1")
    assert result.exit_code == code
    assert "It adds" in result.stdout


def test_the_page_goes_to_stdout_and_progress_to_stderr(fake):
    """One plain line where stderr is no terminal."""
    result = call("grade", "01")
    assert "01_add: starting" in result.stderr.splitlines()
    assert "starting" not in result.stdout
    assert "\x1b" not in result.output


def test_what_was_asked_reaches_the_flow(fake, root):
    call("grade", "add", "--seed", 5, "--device", "cpu", "--start-method", "spawn", "--submission", root)
    (request,), (machine,) = fake.asked, fake.machines
    assert (request.exercise, request.root, request.seed, request.submission) == ("01_add", root, 5, root)
    assert machine is not None and (machine.device, machine.start_method) == ("cpu", "spawn")


def test_several_exercises_are_graded_once_each_and_the_worst_code_counts(fake):
    """An exercise that is at fault does not keep the others from being graded."""
    fake.errors["01_add"] = AuthorError(Path("exercise.yaml"), "it is torn", "Mend it.", 3)
    result = call("grade", "01", "1", "02")
    assert [asked.exercise for asked in fake.asked] == ["01_add", "02_ring"]
    assert refused(result, 3) == "grader: exercise.yaml:3: it is torn. Mend it."
    assert "It adds" in result.stdout


def test_several_exercises_share_a_session_and_a_fault_costs_only_its_own(fake):
    """torch is imported once. A session is closed when it may be damaged, and in the end."""
    call("grade", "01", "02")
    assert fake.used == fake.sessions[:1] * 2 and fake.sessions[0].closed
    fake.errors["01_add"] = RunError("The host is gone.")
    call("grade", "01", "02")
    assert fake.used[2:] == fake.sessions[1:] and len(fake.sessions) == 3
    assert all(session.closed for session in fake.sessions)


def test_without_ex_all_that_is_begun_is_graded(fake, root):
    (root / "exercises/02_ring/ring.py").write_text(DONE.replace("add(", "ring("))
    assert call("grade").exit_code == 0
    assert [asked.exercise for asked in fake.asked] == ["02_ring"]


def test_one_check_alone_is_asked_for_by_its_name_and_is_not_kept(fake, root):
    begin(root)
    assert call("grade", "1", "--only", "adds").exit_code == 0 and fake.asked[-1].only == ("adds",)
    assert "--only goes with one exercise" in refused(call("grade", "1", "2", "--only", "adds"))
    assert json.loads(call("progress", "--json").stdout)["exercises"][0]["attempts"] == 0


def test_where_nothing_is_begun_a_sentence_says_where_to_start(fake):
    assert "Start with exercises/01_add/add.py" in refused(call("grade"))
    assert not fake.asked


def test_a_faulty_exercise_is_told_beside_those_that_are_begun(fake, root):
    (root / "exercises/01_add/exercise.yaml").write_text(MANIFEST.replace("title", "titel"))
    (root / "exercises/02_ring/ring.py").write_text(DONE.replace("add(", "ring("))
    result = call("grade")
    assert "titel" in refused(result, 3)
    assert [asked.exercise for asked in fake.asked] == ["02_ring"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("9",), "There is no exercise '9'"),
        (("ad",), None),
        (("rnig",), "did you mean"),
        (("1", "--submitted-at", "2026-10-12T10:00:00Z"), "go with --assignment"),
        (("1", "--assignment", "a.yaml"), "Name exercises or an assignment, not both"),
        (("--assignment", "a.yaml"), "There is no file a.yaml"),
        (("--assignment", "a.yaml", "--due", "soon"), "--due soon is not a time with a time zone"),
        (("1", "--json", "x", "--html", "x"), "another format is to be written there too"),
        (("1", "--checks", "absent"), "There is no folder absent"),
        (("1", "--checks", "."), "holds no checks for 01_add"),
        (("1", "2", "--from-runs", "x"), "--from-runs goes with one exercise"),
        (("1", "2", "--submission", "a.py"), "name the one exercise"),
        (("--submission", "a.py"), "Say which exercise"),
        (("1", "--json", "absent/x.json"), "absent/x.json cannot be written: its folder does not exist"),
        (("1", "--json", "."), "cannot be written: it is a folder"),
        (("1", "--save-runs", "absent/x"), "absent/x cannot be written"),
    ],
)
def test_a_wrong_command_is_code_2_and_one_sentence_before_anything_runs(fake, words, told):
    result = call("grade", *words)
    if told is None:
        assert result.exit_code == 0
        return
    assert told in refused(result)
    assert not fake.asked


@pytest.mark.parametrize(
    "words",
    [
        ("grade", "1", "--seed", "-1"),
        ("grade", "1", "--seed", MAX_SEED + 1),
        ("grade", "1", "--seed", "one"),
        ("grade", "1", "--device", "tpu"),
        ("grade", "--nonsense"),
        ("graed", "1"),
        ("hint", "1", "--level", "4"),
        ("show",),
    ],
)
def test_options_are_checked(fake, words):
    result = call(*words)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert not fake.asked


def test_every_seed_that_a_grade_may_print_can_be_replayed(fake):
    for seed in (0, MAX_SEED - 1):
        assert call("grade", "1", "--seed", seed).exit_code == 0
        assert fake.asked[-1].seed == seed


def test_every_command_has_a_file_of_its_name_and_a_make_target():
    makefile = (ROOT / "Makefile").read_text()
    for name in SUMMARIES:
        found = cli.get_command(click.Context(cli), name)
        assert found is not None and found.name == name and re.search(rf"^{name}: \$\((READY|TOOLS)\)", makefile, re.M)
        assert importlib.util.find_spec(f"grader.cli.{name}")


def test_the_page_of_make_fits_a_terminal():
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert max(map(len, shown.splitlines())) <= 80 and "\n  interview  " in shown


def test_the_page_of_all_commands_imports_none_of_them(root):
    code = "import sys; from grader.cli import cli; cli(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    *page, modules = done.stdout.splitlines()
    assert all(f"  {name} " in "\n".join(page) for name in SUMMARIES)
    assert not {f"grader.cli.{name}" for name in SUMMARIES} & set(modules.split())


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (UsageError("There is no file x.py; check the path."), 2, "There is no file x.py"),
        (RunError("The ranks' host ended."), 3, "The ranks' host ended."),
        (ZeroDivisionError("two\nlines"), 3, "ZeroDivisionError: two lines"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 3, "The package torch is not installed"),
        (MemoryError(), 3, "ran out of memory"),
    ],
)
def test_errors_are_one_sentence_with_the_right_code(fake, error, code, told):
    fake.error = error
    assert told in refused(call("grade", "1"), code)


def test_debug_shows_the_traceback_of_our_own_fault(fake):
    fake.error = ZeroDivisionError("ours")
    result = call("grade", "1", "--debug")
    assert isinstance(result.exception, ZeroDivisionError)


def test_without_torch_a_sentence_names_the_remedy(fake, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = refused(call("grade", "1"), 3)
    assert "PyTorch is not installed" in told
    assert "make grade" in told
    assert not fake.asked


def test_ctrl_c_is_one_sentence_and_130(fake):
    fake.error = KeyboardInterrupt()
    result = call("grade", "1")
    assert result.exit_code == 130
    assert "Interrupted: nothing was graded and nothing is left running." in result.stderr.splitlines()


def test_ctrl_c_in_a_later_exercise_does_not_deny_the_first_page(fake):
    fake.errors["02_ring"] = KeyboardInterrupt()
    result = call("grade", "1", "2")
    assert result.exit_code == 130
    assert "Interrupted: 02_ring was not graded and nothing is left running." in result.stderr.splitlines()
    assert "It adds" in result.stdout


# --- files that are written -------------------------------------------------------------------------------------------


def test_json_is_written_whole_with_nothing_beside_it(fake, root):
    (root / "report.json").write_text("older")
    assert call("grade", "1", "--json", "report.json").exit_code == 0
    assert json.loads((root / "report.json").read_text())["exercise"] == "01_add"
    assert not list(root.glob(".*.partial"))


ASSIGNMENT = """\
title: Homework 1
due: 2026-10-12T22:00:00Z
late: {percent_per_day: 10}
exercises: {01_add: {weight: 30}, 02_ring: {weight: 10}}
"""


def test_several_exercises_are_one_result(fake, root):
    assert call("grade", "1", "2", "--json", "r.json").exit_code == 0
    written = json.loads((root / "r.json").read_text())
    assert written["schema"] == "ranklings/result/1"
    assert [entry["report"]["exercise"] for entry in written["entries"]] == ["01_add", "02_ring"]
    assert (written["score"], written["max_score"]) == (200, 200)


def test_an_assignment_weighs_its_exercises_and_what_came_late(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    result = call("grade", "--assignment", "a.yaml", "--submitted-at", "2026-10-13T10:00:00+00:00", "--json", "r.json")
    assert result.exit_code == 0
    assert "Homework 1" in result.stdout and "Total" in result.stdout and "36/40" in result.stdout
    assert "Handed in 12 hours late: 10 % of the points are taken off." in result.stdout
    assert json.loads((root / "r.json").read_text())["score"] == pytest.approx(36)


def test_a_file_that_an_assignment_misses_is_no_error_of_the_command(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    (root / "handed_in").mkdir()
    result = call("grade", "--assignment", "a.yaml", "--submission", "handed_in", "--json", "r.json")
    first = json.loads((root / "r.json").read_text())["entries"][0]["report"]
    assert "add.py was not handed in" in result.stdout
    assert first["submission"]["problem"]["subject"] == "add.py was not handed in"


def test_the_folder_of_an_assignment_has_to_be_there(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    assert "There is no folder none" in refused(call("grade", "--assignment", "a.yaml", "--submission", "none"))


def test_an_assignment_with_an_exercise_that_fails_for_our_fault_has_no_mark(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    fake.errors["01_add"] = RunError("No scratch folder could be made.")
    result = call("grade", "--assignment", "a.yaml", "--json", "r.json")
    written = json.loads((root / "r.json").read_text())
    assert result.exit_code == 3
    assert (written["status"], written["mark"], written["max_score"]) == ("error", None, 40)
    assert [entry["mark"] for entry in written["entries"]] == [None, 10]
    assert "No mark: a check could not be judged" in " ".join(result.stdout.split())


def test_what_a_killed_grade_leaves_names_the_exercises_that_it_did_not_reach(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    fake.errors["02_ring"] = KeyboardInterrupt()
    assert call("grade", "--assignment", "a.yaml", "--json", "r.json").exit_code == 130
    first, second = json.loads((root / "r.json").read_text())["entries"]
    assert (first["mark"], second["mark"], second["report"]["status"]) == (30, None, "error")
    assert "stopped before it came to this exercise" in second["report"]["checks"][0]["message"]


def test_exercises_share_the_time_of_an_assignment(fake, root):
    (root / "a.yaml").write_text(ASSIGNMENT)
    call("grade", "--assignment", "a.yaml", "--deadline", "100")
    first, second = (asked.deadline for asked in fake.asked)
    assert 45 < first <= 50 and 90 < second <= 100


def test_marks_of_several_students_become_one_file(fake, root):
    for name in ("ada", "alan"):
        call("grade", "1", "--json", f"{name}.json")
    (root / "roster.csv").write_text("login,name\nada,Ada\ngrace,Grace\n")
    result = call("gradebook", "ada.json", "alan.json", "--roster", "roster.csv", "--out", "marks.csv")
    assert result.exit_code == 0
    assert "No student of the roster is called alan." in result.stderr and "No report of" in result.stderr
    assert "ada,01_add,60,40,100" in (root / "marks.csv").read_text().replace(".00", "").replace(".0", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("r.json", "--format", "canvas"), "name it with --roster"),
        (("r.json", "--roster", "absent.csv"), "absent.csv cannot be read"),
        (("absent.json",), "absent.json cannot be read"),
        (("r.json", "--out", "absent/m.csv"), "absent/m.csv cannot be written"),
    ],
)
def test_a_gradebook_that_cannot_be_made_is_told(fake, root, words, told):
    call("grade", "1", "--json", "r.json")
    assert told in refused(call("gradebook", *(words if "--out" in words else (*words, "--out", "m.csv"))))


def test_render_makes_the_page_again(fake, root):
    page = call("grade", "1", "--json", "r.json").stdout
    assert call("render", "r.json").stdout == page


def test_render_of_several_ends_with_the_sum(fake, root):
    call("grade", "1", "2", "--json", "r.json")
    page = call("render", "r.json").stdout
    assert page.count("It adds") == 2 and "200/200" in page


def test_render_of_no_report_is_refused(fake, root):
    (root / "r.json").write_text("{}")
    assert "r.json is no report of `grade --json`: it lacks 'schema'" in refused(call("render", "r.json"))


def test_json_through_a_symbolic_link_keeps_the_link(fake, root):
    (root / "there").mkdir()
    (root / "link.json").symlink_to(root / "there/report.json")
    assert call("grade", "1", "--json", "link.json").exit_code == 0
    assert (root / "link.json").is_symlink()
    assert json.loads((root / "there/report.json").read_text())["seed"] == 7


def test_a_device_is_written_to_and_never_replaced(fake):
    assert call("grade", "1", "--json", os.devnull).exit_code == 0
    assert not Path(os.devnull).is_file()


def test_runs_are_saved_with_their_seed(fake, root):
    assert call("grade", "1", "--save-runs", "runs.bin").exit_code == 0
    assert recording.load(root / "runs.bin", catalog.load("01_add", root)) == (7, ())


def test_a_disk_that_fills_up_meanwhile_costs_the_file_and_not_the_page(fake, root, monkeypatch):
    """Code 3, the page all the same, the older file as it was and no torn one beside it."""
    (root / "report.json").write_text("older")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = call("grade", "1", "--json", "report.json")
    assert "report.json could not be written: no space left on device" in refused(result, 3)
    assert "It adds" in result.stdout
    assert (root / "report.json").read_text() == "older"
    assert not list(root.glob(".*.partial"))


# --- list, show, hint -------------------------------------------------------------------------------------------------


def test_list_shows_number_title_points_time_and_what_is_begun(root):
    (root / "exercises/02_ring/ring.py").write_text(DONE.replace("add(", "ring("))
    result = call("list")
    assert result.exit_code == 0
    _, first, second = (line.split() for line in result.stdout.splitlines())
    assert first == ["01", "Add", "[across]", "the", "ranks", "100", "25", "min"]
    assert second[-1] == "begun"


def test_list_says_what_was_passed_whatever_the_file_holds_now(fake, root):
    begin(root)
    call("grade", "1")
    assert call("list").stdout.splitlines()[1].split()[-1] == "passed"


def test_list_shows_the_others_beside_a_faulty_one(root):
    (root / "exercises/01_add/exercise.yaml").write_text("titel: x\n")
    result = call("list")
    assert "exercise.yaml" in refused(result, 3)
    assert "02" in result.stdout
    assert "at fault" in result.stdout


def test_show_gives_the_markdown_in_a_pipe(root):
    assert call("show", "1").stdout == "# Adding\n\nAdd *across* the ranks.\n"


def test_show_without_a_statement_names_the_file(root):
    (root / "exercises/01_add/README.md").unlink()
    assert "README.md" in refused(call("show", "1"), 3)


def test_each_hint_says_more_than_the_one_before(root):
    told = [call("hint", "1").stdout.splitlines()[2].strip() for _ in range(3)]
    assert told == ["think of sums", "think of rings", "call all_reduce"]
    assert call("hint", "1", "--level", 1).stdout.startswith("Hint 1 of 3 for 01_add as a whole\n\n  think of sums\n")


def test_a_hint_is_for_the_check_that_fails_now(fake, root):
    """The file is graded first, as it has changed since the last time; the second hint does not grade again."""
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text(MANIFEST.replace("points: 60", "points: 60\n    hints: [a, b, c]"))
    begin(root)
    fake.outcome = Outcome.FAILED
    assert "for “It adds”\n\n  a\n" in call("hint", "1").stdout
    assert "for “It adds”\n\n  b\n" in call("hint", "1").stdout
    assert len(fake.asked) == 1


def test_a_hint_says_what_the_run_itself_hints_at(fake, root):
    """A deadlock's hint is in the hint as it is on the page."""
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text(MANIFEST.replace("points: 60", "points: 60\n    hints: [a, b, c]"))
    begin(root)
    fake.outcome, fake.findings = Outcome.FAILED, (Finding(subject="Deadlock", hint="All in one order."),)
    assert "Seen in the run: All in one order.\n\nHint 1 of 3 for “It adds”" in call("hint", "1").stdout


def test_hints_come_also_where_no_progress_can_be_written(fake, root, monkeypatch):
    """They are asked for by their level then."""
    (root / "blocked").touch()
    monkeypatch.setenv("RANKLINGS_DATA", str(root / "blocked"))
    result = call("hint", "1")
    assert result.exit_code == 0 and 'make hint EX=01 ARGS="--level 2"' in result.stdout
    assert "cannot be used" in result.stderr and "Nothing of this call is kept" in result.stderr
    assert call("hint", "1", "--level", "2").stdout.startswith("Hint 2 of 3")
    assert call("list").exit_code == 0 and "0 of 2 passed" in call("progress").stdout


def test_an_attempt_at_ones_own_file_is_kept_and_one_at_another_is_not(fake, root):
    begin(root)
    call("grade", "1")
    call("grade", "1", "--submission", "exercises/02_ring/../01_add/add.py")
    (root / "other").mkdir()
    (root / "other/add.py").write_text("def add(): ...\n")
    call("grade", "1", "--submission", "other")
    first, second = json.loads(call("progress", "--json").stdout)["exercises"]
    assert (first["attempts"], first["until_pass"], second["attempts"]) == (2, 1, 0)


def test_progress_that_cannot_be_kept_costs_nobody_the_verdict(fake, root, monkeypatch):
    (root / "blocked").touch()
    monkeypatch.setenv("RANKLINGS_DATA", str(root / "blocked"))
    result = call("grade", "1")
    assert result.exit_code == 0 and "This attempt is not in your progress" in result.stderr
    monkeypatch.setenv("RANKLINGS_DATA", "off")
    assert "progress" not in call("grade", "1").stderr


def test_where_nothing_is_to_be_kept_nothing_is(fake, root, monkeypatch):
    monkeypatch.setenv("RANKLINGS_DATA", "off")
    before = set(root.iterdir())
    assert call("hint", "1").exit_code == 0 and call("hint", "1").stdout.startswith("Hint 1 of 3")
    assert "0 of 2 passed" in call("progress").stdout
    assert set(root.iterdir()) == before


def test_progress_is_forgotten_on_request_only(fake, root):
    call("grade", "1")
    assert "asks before it does that" in refused(call("progress", "--delete"))
    assert call("progress", "--delete", "--yes").exit_code == 0
    assert "0 of 2 passed" in call("progress").stdout


def test_the_solution_is_shown_after_a_pass_or_with_a_clear_word(fake, root):
    folder = root / "reference/01_add"
    folder.mkdir(parents=True)
    (folder / "add.py").write_text("def add(rank): return sum\n")
    (folder / "variants").mkdir()
    (folder / "variants" / "by_hand.py").write_text("def add(rank): return 3\n")
    assert "You have not passed 01_add yet" in refused(call("show", "1", "--solution"))
    assert "return sum" in call("show", "1", "--solution", "--spoil").stdout
    call("grade", "1")
    shown = call("show", "1", "--solution").stdout
    assert "return sum" in shown and "Another way to be right: by hand" in shown and "return 3" in shown
    assert "No solution of 02_ring is in this copy" in refused(call("show", "2", "--solution"))


BANK = """\
title: Overlap
order: 1
questions:
  - id: why
    kind: choice
    difficulty: 1
    exercise: "01"
    question: Why does communication overlap backward?
    options:
      - right: Buckets are ready early
      - {wrong: Gloo guesses them, why: it does not}
      - {wrong: Forward sends them, why: it has none}
    explanation: A bucket is sent once its gradients are complete.
"""


def test_a_quiz_asks_and_keeps_what_was_answered(root):
    (root / "quizzes").mkdir()
    (root / "quizzes/overlap.yaml").write_text(BANK)
    assert "Overlap" in call("quiz", "--list").stdout
    result = CliRunner().invoke(cli, ["quiz", "--plain"], input="a\nq\n")
    assert result.exit_code == 0 and "Why does communication overlap backward?" in result.stdout
    assert "1 asked" in result.stdout and "Met so far: 1 of 1." in result.stdout
    assert "overlap" in refused(call("quiz", "overlop"))


def test_watch_goes_on_with_what_comes_next_and_keeps_its_attempts(fake, root, monkeypatch):
    from grader.practice import watch

    asked = []

    def run(name, where, *, on_report, **how):
        asked.append((name, how["plain"], how["seed"]))
        on_report(fake(Request(exercise=name, root=where), FakeSession()))
        return 0

    monkeypatch.setattr(watch, "run", run)
    assert call("watch", "--plain", "--seed", 3).exit_code == 0
    assert call("watch", "2").exit_code == 0
    assert asked == [("01_add", True, 3), ("02_ring", False, None)]
    assert [each["attempts"] for each in json.loads(call("progress", "--json").stdout)["exercises"]] == [1, 1]


def test_without_banks_a_quiz_says_so(root):
    assert "No question banks are in this copy" in refused(call("quiz"))


def test_explain_tells_why_what_fails_matters(fake, root):
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text(MANIFEST.replace("points: 60", 'points: 60\n    why: "Sums rule."\n    section: Adding'))
    begin(root)
    fake.outcome = Outcome.FAILED
    page = call("explain", "1").stdout
    assert "It adds\n  Sums rule.\n  Read “Adding” in exercises/01_add/README.md." in page and "It is tidy" not in page
    assert "It is tidy" in call("explain", "1", "--all").stdout


def test_an_exercise_without_hints_says_so(root):
    manifest = root / "exercises/01_add/exercise.yaml"
    manifest.write_text("".join(line for line in MANIFEST.splitlines(True) if not line.startswith("hints")))
    assert "has no hints of its own" in refused(call("hint", "1"))


# --- reset ------------------------------------------------------------------------------------------------------------


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
    assert "add --yes" in refused(call("reset", "1"))
    assert student.read_text() == DONE


def test_reset_without_a_stub_in_git_says_so_and_changes_nothing(root):
    student = root / "exercises/01_add/add.py"
    student.write_text(DONE)
    assert "git has no untouched stub of 01_add" in refused(call("reset", "1", "--yes"))
    assert student.read_text() == DONE


# --- doctor and verify ------------------------------------------------------------------------------------------------


def test_doctor_is_3_where_grading_is_impossible(monkeypatch):
    from grader import doctor

    wrong = doctor.Fact(name="loopback", mark=doctor.Mark.NO, found="fails", meaning="ranks cannot meet")
    monkeypatch.setattr(doctor, "examine", lambda: (wrong,))
    assert call("doctor").exit_code == 3
    assert json.loads(call("doctor", "--json").stdout)["can_grade"] is False


@pytest.mark.parametrize(("breaches", "code"), [([], 0), (["stub: passes adds"], 1)])
def test_verify_is_1_where_an_exercise_is_not_proved(root, monkeypatch, breaches, code):
    import grader.authoring.proof_page as proof_page
    import grader.authoring.verify as proving

    class FakeProof:
        def breaches(self) -> list[str]:
            return breaches

    names: list[str] = []
    monkeypatch.setattr(proving, "verify", lambda name, *_, **__: names.append(name) or FakeProof())
    monkeypatch.setattr(proof_page, "matrix", lambda proof: "the matrix\n")
    result = call("verify")
    assert result.exit_code == code
    assert names == ["01_add", "02_ring"]
    assert result.stdout == "the matrix\nthe matrix\n"


def test_a_log_hears_every_tenth_specimen_and_every_wrong_one(monkeypatch, capsys):
    """`verify` in a pipe says that it goes on, and what went wrong as soon as it is known."""
    from grader.cli import console

    said: list[str] = []
    tell = console.logged(said.append, "wrong")
    for number in range(1, 26):
        tell(f"{number} of 25{', wrong' if number == 4 else ''}: mutant wrong_{number}")
    lines = capsys.readouterr().err.splitlines()
    assert len(said) == 25
    assert [line.partition(" of")[0] for line in lines] == ["4", "11", "21"]


# --- as a process -----------------------------------------------------------------------------------------------------

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


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


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
