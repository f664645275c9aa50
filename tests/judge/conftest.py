"""The small exercise, whose runs these tests make by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.model import Exercise
from tests import small


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    return catalog.load(small.NAME, small.build(tmp_path))
