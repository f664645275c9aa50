"""The small exercise, whose solution is mutated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import small


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path)
