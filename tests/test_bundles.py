"""Bundles for students and platforms: what is in them, what is not, and that each works where it is unpacked."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grader import catalog
from grader.authoring import quiz_formulas
from grader.course import autograder, bundles, project
from grader.model.errors import UsageError
from grader.quiz import deck
from grader.quiz.banks import load_banks
from tests import small
from tests.test_assignment import written

ROOT = Path(__file__).resolve().parent.parent
SOLUTION = small.FILES["reference/90_total/total.py"]
AS_IT_IS = [f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.ready"]
"""What makes `make` use this environment and leave it alone."""
MAKES = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "EX", "SUBMISSION")
SECRETS = ("reference", "mutants.yaml", "variants", "tests/hostile", "authoring")
ASSIGNMENT = """\
title: Homework 2
due: 2026-10-12T22:00:00Z
late: {percent_per_day: 10}
checks: hidden
exercises: {90_total: {weight: 40}}
"""
METADATA = {
    "created_at": "2026-10-13T23:30:00.365935-07:00",
    "assignment": {"due_date": "2026-10-12T22:00:00.000000Z", "total_points": "40.0"},
    "users": [{"email": "a@example.org", "assignment": {"due_date": "2026-10-13T22:00:00.000000+00:00"}}],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small exercise as a project of its own, with hidden checks beside it."""
    root = small.build(tmp_path_factory.mktemp("project"))
    manifest = root / "exercises/90_total/exercise.yaml"
    manifest.write_text(
        manifest.read_text().replace("deadline: 20", "deadline: 4").replace("[1]}", "[1], deadline: 4}")
    )
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, root / name)
    (root / "grader").symlink_to(ROOT / "grader")
    (root / "quizzes").symlink_to(ROOT / "quizzes")
    written(root / "hidden" / "90_total", exercise="process_group: true→process_group: true, deadline: 4")
    (root / "assignment.yaml").write_text(ASSIGNMENT)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(root)]
    for words in (["init", "-q"], ["add", "exercises"], ["commit", "-q", "-m", "stubs"]):
        subprocess.run([*git, *words], check=True)
    return root


@pytest.fixture(scope="module")
def student(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundles.student(tmp_path_factory.mktemp("student"), root, [])


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """make in a bundle, with this environment in place of the one that it would create."""
    command = ["make", *AS_IT_IS, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=fresh())


def fresh(**more: str) -> dict[str, str]:
    """The environment without what a `make` above, which may run these tests, has left in it."""
    return {**{name: value for name, value in os.environ.items() if name not in MAKES}, **more}


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


# -- the student's repository -----------------------------------------------------------------------------------------


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


def test_a_student_grades_with_the_same_command(student):
    assert "Score 0/100" in make(student, "grade", "EX=90").stdout
    (student / "exercises/90_total/total.py").write_text(SOLUTION)
    done = make(student, "grade", "EX=90")
    assert done.returncode == 0 and "Score 100/100" in done.stdout, done.stdout + done.stderr


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


# -- Gradescope -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/autograder as Gradescope lays it out, with the zip unpacked into it."""
    given = bundles.course(root, root / "assignment.yaml", None)
    made = bundles.gradescope(tmp_path_factory.mktemp("zip"), given, minutes=2, pip_settings=None)
    tree = tmp_path_factory.mktemp("autograder")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tree / "source")
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes["setup.sh"] & 0o111 and modes["run_autograder"] & 0o111
    shutil.copyfile(tree / "source/run_autograder", tree / "run_autograder")
    return tree


def gradescope(tree: Path, source: str | None, file: str = "total.py") -> tuple[int, dict[str, Any] | None]:
    """Grade one upload as the platform does: exit code and results.json."""
    shutil.rmtree(tree / "submission", ignore_errors=True)
    shutil.rmtree(tree / "results", ignore_errors=True)
    (tree / "submission").mkdir()
    (tree / "submission_metadata.json").write_text(json.dumps(METADATA))
    if source is not None:
        (tree / "submission" / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / "submission" / file).write_text(source)
    environment = fresh(AUTOGRADER_ROOT=str(tree), RANKLINGS_VENV=sys.prefix)
    done = subprocess.run(["bash", str(tree / "run_autograder")], env=environment, capture_output=True, check=False)
    results = tree / "results" / "results.json"
    return done.returncode, json.loads(results.read_text()) if results.exists() else None


def test_gradescopes_scripts_are_valid_shell(unpacked):
    for name in ("setup.sh", "run_autograder"):
        subprocess.run(["bash", "-n", str(unpacked / "source" / name)], check=True)


def test_gradescope_gets_hidden_checks_and_no_solution(unpacked):
    there = names(unpacked / "source")
    assert "checks/90_total/checks.py" in there and "grader/course/autograder.py" in there
    assert not [name for name in there if any(secret in name for secret in SECRETS)]


def test_a_right_upload_gets_full_marks_less_what_came_late(unpacked):
    """Handed in at 06:30 UTC on the 14th; the student's own due date was the 13th, 22:00: one day is begun."""
    code, results = gradescope(unpacked, SOLUTION, "exercises/90_total/total.py")
    assert code == 0 and results is not None
    assert results["score"] == pytest.approx(36)
    assert "8 hours 31 minutes late" in json.dumps(results)


def test_a_wrong_upload_gets_part_of_the_points_and_learns_nothing_of_hidden_checks(unpacked):
    code, results = gradescope(unpacked, SOLUTION.replace("    dist.all_reduce(result)\n", ""))
    assert code == 0 and results is not None and 0 < results["score"] < 36
    hidden = [test for test in results["tests"] if test["visibility"] == "hidden"]
    assert len(hidden) == 1
    shown = json.dumps([results.get("output", ""), *(t for t in results["tests"] if t["visibility"] == "visible")])
    assert "Four ranks get the sum" not in shown and "larger" not in shown


@pytest.mark.parametrize(
    "source",
    [
        "def total(value):\n    while True:\n        pass\n",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n" + SOLUTION,
        "import pathlib\n\n\ndef total(value):\n"
        '    pathlib.Path("@RESULTS@").write_text(\'{"score": 1000}\')\n    return value\n',
        None,
    ],
    ids=["hangs", "kills", "forges", "missing"],
)
def test_a_hanging_hostile_or_missing_upload_gets_nothing_for_it(unpacked, source):
    forged = (source or "").replace("@RESULTS@", str(unpacked / "results/results.json"))
    code, results = gradescope(unpacked, source and forged)
    assert code == 0 and results is not None
    assert results["score"] <= 0.2 * 40, results
    assert results["tests"]


def test_a_grader_that_fails_leaves_no_mark(unpacked):
    """No results.json: the platform then reports a failed autograder."""
    settings = unpacked / "source/assignment.yaml"
    kept = settings.read_text()
    settings.write_text("title: broken\n")
    try:
        assert gradescope(unpacked, SOLUTION) == (3, None)
    finally:
        settings.write_text(kept)


def test_a_group_has_the_latest_due_date_of_its_members():
    days = ("2026-10-13T23:00:00-05:00", "2026-10-14T00:00:00+00:00")  # the first is the later moment
    users = [{"assignment": {"due_date": day}} for day in days]
    assert autograder.times({"created_at": "2026-10-13T00:00:00Z", "users": [*users, {}]}) == [
        "--submitted-at",
        "2026-10-13T00:00:00Z",
        "--due",
        "2026-10-13T23:00:00-05:00",
    ]
    assert autograder.times({}) == []


# -- GitHub -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def github(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = bundles.course(root, root / "assignment.yaml", None)
    return bundles.github(tmp_path_factory.mktemp("github"), given, minutes=2)


def test_the_workflow_grades_a_students_repository(github, student, tmp_path):
    """The steps that are commands, run in the students' repository as the runner would."""
    folder = tmp_path / "repository"
    shutil.copytree(student, folder)
    (folder / "exercises/90_total/total.py").write_text(SOLUTION.replace("dist.all_reduce(result)", "pass"))
    workflow = yaml.safe_load((github / "actions/.github/workflows/grade.yml").read_text())
    (step,) = [step for step in workflow["jobs"]["grade"]["steps"] if step.get("name") == "Grade"]
    environment = fresh(GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"), GITHUB_WORKSPACE=str(folder))
    command = step["run"].replace("make ", f"make {' '.join(AS_IT_IS)} ", 1)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "::error file=exercises/90_total/total.py" in done.stdout
    assert "The total" in (tmp_path / "summary.md").read_text()
    assert {"report.json", "report.xml", "report.html"} <= set(os.listdir(folder))


def test_classroom_50_grades_a_checkout(github, tmp_path):
    """autograder.py runs in the student's checkout and writes result.json there."""
    checkout = tmp_path / "checkout"
    (checkout / "exercises/90_total").mkdir(parents=True)
    (checkout / "exercises/90_total/total.py").write_text(SOLUTION)
    context = {
        "CLASSROOM": "parallel",
        "ASSIGNMENT": "hw2",
        "USERNAME": "ada",
        "SUBMISSION_TAG": "submit/2026-10-12T10-00-00Z-abc1234",
        "COMMIT_URL": "https://example.org/commit",
        "RELEASE_URL": "https://example.org/release",
        "REVIEW_URL": "https://example.org/review",
    }
    environment = fresh(**context, RANKLINGS_VENV=sys.prefix)
    command = [sys.executable, str(github / "classroom50/autograder.py")]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((checkout / "result.json").read_text())
    assert (result["schema"], result["score"], result["max-score"]) == ("classroom50/result/v1", 40, 40)


def test_checks_that_do_not_load_are_told_before_anything_is_written(root, tmp_path):
    written(tmp_path / "hidden/90_total", exercise="points: 15→pionts: 15")
    with pytest.raises(Exception, match="unknown key 'pionts'"):
        bundles.course(root, root / "assignment.yaml", tmp_path / "hidden")


def test_checks_of_one_exercise_are_none_of_another(root, tmp_path):
    """A folder that holds a manifest itself is for an assignment of one exercise; the bundle names it."""
    single = written(tmp_path / "single")
    given = bundles.course(root, root / "assignment.yaml", single)
    assert given.checks() == {"90_total": single}
    assert catalog.checks_for("90_total", single, alone=False) is None
    with pytest.raises(UsageError, match="holds no folder for 90_total"):
        bundles.course(root, root / "assignment.yaml", tmp_path)


def test_an_assignment_says_the_same_in_a_bundle(root):
    given = catalog.load_assignment(root / "assignment.yaml", root)
    copied = root / "copied.yaml"
    copied.write_text(catalog.dump_assignment(given).replace(str(root) + "/", ""))
    assert catalog.load_assignment(copied, root) == given
