"""Both levels of isolation."""

from __future__ import annotations

import pytest

from tests.conftest import LEVELS


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    """Every test here holds at both levels of isolation."""
    return str(request.param)
