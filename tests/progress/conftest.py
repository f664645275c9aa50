"""A store of a person's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.practice.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "progress.sqlite3")
