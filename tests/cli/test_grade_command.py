"""`grade`: what it prints where, and which code it ends with. No rank is started."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from grader.cli import cli
from grader.cli.commands import SUMMARIES
from grader.model import MAX_SEED, Outcome
from grader.model.errors import AuthorError, RunError, UsageError
from tests.commands import DONE, MANIFEST, ROOT, begin, call, environment, refused


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


def test_a_file_that_lies_elsewhere_is_no_name_of_an_exercise(fake, root, tmp_path):
    """Or the file in the course would be graded, and not the one that was meant."""
    theirs = tmp_path / "theirs/add.py"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(DONE)
    told = refused(call("grade", "1", str(theirs)))
    assert "is no part of" in told and "grade it with --submission" in told and not fake.asked
    assert call("grade", str(root / "exercises/01_add/add.py")).exit_code == 0


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


def test_a_command_that_grades_nothing_does_not_say_so(monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("grader.catalog.repository_root", interrupted)
    result = call("list")
    assert (result.exit_code, result.stderr.splitlines()) == (130, ["", "Interrupted: nothing is left running."])


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


def test_staff_see_the_command_that_grades_with_the_same_checks(fake, root):
    """Where there are some for the exercise: with others the command would be refused."""
    (root / "hidden/01_add").mkdir(parents=True)
    first, second = call("grade", "1", "2", "--checks", "hidden", "--show-hidden").stdout.split("02_")[:2]
    assert "--checks hidden --show-hidden" in first and "--checks" not in second
    assert "--show-hidden" not in call("grade", "1", "--checks", "hidden").stdout
    assert "--checks" not in call("grade", "1").stdout
