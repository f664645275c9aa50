"""What is told of a run."""

from __future__ import annotations

import psutil

from grader.model import Run
from tests.conftest import STUDENTS

SOURCE = (STUDENTS / "behaviours.py").read_text().splitlines()


def sentences(run: Run) -> str:
    assert run.diagnosis is not None
    return "\n".join(finding.sentence() for finding in run.diagnosis.findings)


def line_of(text: str, function: str) -> int:
    """The number of the first line after `def function` that contains `text`."""
    start = next(i for i, line in enumerate(SOURCE) if line.startswith(f"def {function}("))
    return next(i for i, line in enumerate(SOURCE[start:], start + 1) if text in line)


def descendants() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))
