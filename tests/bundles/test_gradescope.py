"""What Gradescope gets, unpacked and run as Gradescope runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grader.course import autograder, bundles
from tests.bundles.making import SECRETS, SOLUTION, fresh, names

METADATA = {
    "created_at": "2026-10-13T23:30:00.365935-07:00",
    "assignment": {"due_date": "2026-10-12T22:00:00.000000Z", "total_points": "40.0"},
    "users": [{"email": "a@example.org", "assignment": {"due_date": "2026-10-13T22:00:00.000000+00:00"}}],
}


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


@pytest.mark.one_in(3)
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
