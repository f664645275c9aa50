"""Judged anew: the same runs give the same verdicts, and an edited check is read as it is now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.judge import judge
from grader.model import Diagnosis, Exercise, Finding, Raised
from grader.model.errors import UsageError
from grader.records import recording
from tests import small
from tests.judge.runs import SUBMISSION, outcomes, right_runs, total


def test_an_edited_check_is_read_anew(exercise: Exercise) -> None:
    """Nothing of an earlier judgement is kept."""
    assert outcomes(judge(exercise, SUBMISSION, right_runs()))["refuses"] == "passed"
    checks = exercise.folder / "checks.py"
    checks.write_text(checks.read_text().replace('"TypeError"', '"OSError"'))
    assert outcomes(judge(exercise, SUBMISSION, right_runs()))["refuses"] == "failed"


def test_recorded_runs_are_judged_as_they_were(exercise: Exercise, tmp_path: Path) -> None:
    """Saved, loaded, judged: the same verdicts."""
    runs = right_runs()
    finding = Finding(subject="x", ranks=(0,))
    runs[0] = replace(
        small.sum_run(1, total(1, 1, 1, 2), ending=Raised(type="E", message="m", causes=("a",))),
        diagnosis=Diagnosis(kind="raised", ranks=(0,), findings=(finding,)),
    )
    recording.save(tmp_path / "runs", exercise, 7, runs)
    seed, loaded = recording.load(tmp_path / "runs", exercise)
    assert seed == 7 and [run.diagnosis for run in loaded] == [run.diagnosis for run in runs]
    assert [record.ending for run in loaded for record in run.ranks] == [r.ending for run in runs for r in run.ranks]
    assert outcomes(judge(exercise, SUBMISSION, loaded)) == outcomes(judge(exercise, SUBMISSION, runs))


@pytest.mark.parametrize("content", [b"", b"not runs", b"\0\0\0\2{}"])
def test_a_file_that_holds_no_runs_is_refused_in_a_sentence(exercise: Exercise, tmp_path: Path, content: bytes) -> None:
    """As a wrong command."""
    (tmp_path / "runs").write_bytes(content)
    with pytest.raises(UsageError, match="does not hold recorded runs"):
        recording.load(tmp_path / "runs", exercise)
    with pytest.raises(UsageError, match="could not be read"):
        recording.load(tmp_path / "missing", exercise)
