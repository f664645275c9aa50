"""The small exercise with its pack of mends, and a store of a person's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.practice.store import Store
from tests import mending, small


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "progress.sqlite3")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small exercise with its pack. Nobody changes it."""
    root = small.build(tmp_path_factory.mktemp("course"))
    mending.packed(root)
    return root
