"""The student's repository: what is in it, what is not, and that it works where it is unpacked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grader.authoring import quiz_formulas
from grader.cli import bundle
from grader.course import bundles, project
from grader.model.errors import UsageError
from grader.quiz import deck
from grader.quiz.banks import load_banks
from tests.bundles.making import AS_IT_IS, SECRETS, SOLUTION, fresh, names
from tests.solutions import ROOT


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """make in a bundle, with this environment in place of the one that it would create."""
    command = ["make", *AS_IT_IS, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=fresh())


def test_a_student_gets_no_secret(student):
    assert not [name for name in names(student) if any(secret in name for secret in SECRETS)]
    assert {"Makefile", "README.md", "exercises/90_total/total.py", "exercises/90_total/checks.py"} <= set(
        names(student)
    )


def test_a_student_gets_no_formula_of_exercise_19_and_the_quiz_does_without(student):
    """The quiz has numbers to calculate and shows how, and yet what solves an exercise to come is not in it."""
    formulas = quiz_formulas.NAMES
    texts = {path: path.read_text() for path in student.rglob("*.py")}
    assert "all_reduce_bytes" in formulas
    assert not [path for path, text in texts.items() for name in formulas if f"def {name}(" in text]
    command = [sys.executable, "-m", "grader", "quiz", "all_reduce", "--plain", "--limit", "99"]
    asked = [question for item in deck.unseen(load_banks(ROOT, "all_reduce"), {}) for question in item.asked("any")]
    typed = "".join("?\n?\n3\n" if question.open else "?\n?\n" for question in asked)
    quiz = subprocess.run(
        command, cwd=student, input=typed, capture_output=True, text=True, check=False, env=fresh(RANKLINGS_DATA="off")
    )
    shown = " ".join(quiz.stdout.split())
    assert quiz.returncode == 0, quiz.stderr
    assert "Calculation: 2 × (8 - 1) / 8 × 400 MB = 700 MB" in shown and "what is given is 400 MB, 8." in shown
    assert not re.search(r"[Ee]xercise \d\d", shown.replace("xercise 90", "")), "no hint points to what is not there"


def test_a_student_gets_untouched_stubs_whatever_lies_in_the_authors_folder(root, tmp_path):
    mine = root / "exercises/90_total/total.py"
    stub = mine.read_bytes()
    mine.write_text(SOLUTION)
    try:
        made = bundles.student(tmp_path / "student", root, ["90"])
    finally:
        mine.write_bytes(stub)
    assert (made / "exercises/90_total/total.py").read_bytes() == stub


def test_the_first_command_is_for_the_first_exercise_that_was_asked_for(tmp_path, monkeypatch):
    """And its folder is one word of it."""
    monkeypatch.setattr(bundles, "student", lambda folder, *words, **more: folder)
    monkeypatch.setattr(bundle.catalog, "all_names", lambda root: ("01_a", "02_b", "03_c"))
    monkeypatch.setattr(bundle.catalog, "resolve", lambda text, root: {"03": "03_c"}[text])
    told = [CliRunner().invoke(bundle.command, ["student", "a b", *ex]).output for ex in ([], ["03", "02"])]
    assert [text.partition("Try it: ")[2].strip() for text in told] == [
        "cd 'a b' && make grade EX=01",
        "cd 'a b' && make grade EX=03",
    ]


@pytest.mark.one_in(2)
def test_a_student_grades_with_the_same_command(student):
    assert "Score 0/100" in make(student, "grade", "EX=90").stdout
    (student / "exercises/90_total/total.py").write_text(SOLUTION)
    done = make(student, "grade", "EX=90")
    assert done.returncode == 0 and "Score 100/100" in done.stdout, done.stdout + done.stderr


@pytest.mark.one_in(2)
def test_a_student_sees_whether_the_copy_is_whole(student):
    done = make(student, "test")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_every_target_of_the_students_makefile_is_explained_and_there(student):
    text = (student / "Makefile").read_text()
    told = make(student).stdout
    assert "No rule to make target 'verify'" in make(student, "verify").stderr
    assert "verify" not in told and "lock " not in told
    for name in ("grade", "list", "show", "hint", "reset", "doctor", "sandbox", "test", "clean"):
        assert f"\n{name}:" in text and f"  {name}" in told


def test_the_real_exercises_come_with_those_that_they_build_on():
    assert [exercise.name[:2] for exercise in project.chosen(["03"], ROOT)] == ["01", "02", "03"]


def locked(path: Path) -> set[str]:
    """The packages of a lock."""
    lines = path.read_text().splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if not line.startswith("#")}


def test_the_lock_of_a_student_holds_what_grading_needs_and_no_developers_tool(student):
    """Every range of pyproject.toml is in the one lock or in the other, and nothing is in both."""
    project_table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed, tools = (
        {canonicalize_name(Requirement(text).name) for text in texts}
        for texts in (project_table["dependencies"], project_table["optional-dependencies"]["dev"])
    )
    kept, theirs = locked(ROOT / "requirements.lock"), locked(ROOT / "requirements-dev.lock")
    assert needed | {"flit-core"} <= kept and not kept & theirs
    assert tools <= kept | theirs and {"ruff", "mypy", "hypothesis", "libcst", "playwright"} <= theirs
    assert (student / "requirements.lock").read_text() == (ROOT / "requirements.lock").read_text()


def test_a_folder_that_holds_something_is_not_written_to(root, tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="is not empty"):
        bundles.student(tmp_path, root, [])


def test_hidden_checks_in_the_exercise_itself_are_not_given_away(root, tmp_path):
    shutil.copytree(root / "exercises", tmp_path / "exercises")
    manifest = tmp_path / "exercises/90_total/exercise.yaml"
    manifest.write_text(
        manifest.read_text().replace("refuses: {points: 20", "refuses: {visibility: hidden, points: 20")
    )
    exercises = project.chosen([], tmp_path)
    with pytest.raises(UsageError, match="Move them into a folder of their own"):
        project.copy_exercises(exercises, tmp_path, tmp_path / "to")
