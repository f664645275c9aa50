"""A class of three and an engine that answers at once (see tests/batches.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batches import FakeEngine, class_of_three, faked_engine, unsynced


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that kills its driver by an exception need not wait for the disk."""
    unsynced(monkeypatch)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return class_of_three(tmp_path, monkeypatch)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    return faked_engine(monkeypatch)
