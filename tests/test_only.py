"""`grade --only`: one check with what it needs, on a fake session. No process is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.grading.flow import grade, narrowed
from grader.grading.request import Machine, Request
from grader.model.errors import UsageError
from tests import small
from tests.fakes import FakeSession


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path)


def request(root: Path, *only: str) -> Request:
    submission = root / "reference" / small.NAME / "total.py"
    return Request(exercise=small.NAME, root=root, submission=submission, seed=3, only=only)


@pytest.mark.parametrize(
    ("only", "judged", "cases"),
    [
        (["refuses"], ["refuses"], {"import", "bad"}),
        (["same"], ["sums", "same"], {"import", "sum"}),
        (["sums", "refuses"], ["sums", "refuses"], {"import", "sum", "bad"}),
    ],
)
def test_a_check_is_judged_with_what_it_needs_and_nothing_else_is_run(
    root: Path, only: list[str], judged: list[str], cases: set[str]
) -> None:
    session = FakeSession()
    report = grade(request(root, *only), session, machine=Machine(gpus=0))
    assert [verdict.check.id for verdict in report.verdicts] == judged and report.status == "passed"
    assert {case.name for case in session.cases} == cases
    assert "Other checks than these were not asked for" in report.notes[-1]


def test_a_check_that_is_not_there_is_told_with_those_that_are(root: Path) -> None:
    with pytest.raises(UsageError, match="no check 'sum'; there are sums, same, refuses"):
        narrowed(catalog.load(small.NAME, root), ["sum"])
