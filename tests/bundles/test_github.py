"""What GitHub Classroom and Classroom 50 get, and what is refused before anything is written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from grader import catalog
from grader.course import bundles
from grader.model.errors import UsageError
from tests.bundles.making import AS_IT_IS, SOLUTION, fresh
from tests.test_assignment import written


@pytest.fixture(scope="module")
def github(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = bundles.course(root, root / "assignment.yaml", None)
    return bundles.github(tmp_path_factory.mktemp("github"), given, minutes=2)


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(3)
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
