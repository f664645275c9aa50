"""An exercise to hand something in for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.submission.receiving import GOOD, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which the student has written exercise 03."""
    write(tmp_path / "exercises" / "03_train_ddp" / "train_ddp.py", GOOD)
    return tmp_path
