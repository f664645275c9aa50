"""A repository of one exercise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path.resolve())
