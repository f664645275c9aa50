"""A repository of the small exercise, which nobody changes for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import small


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.build(tmp_path_factory.mktemp("fuzzed"))
