"""What tests of the proofs share: an exercise, the file of its proofs, and trials without a rank."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grader.authoring import verify as proving
from grader.authoring.verify import Specimen, Trial
from grader.model import Exercise
from tests import small
from tests.proofs import trials


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path / "root")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "proofs" / "90_total.json"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the specimens that were tried. No rank is started: each gets the verdicts that it must."""
    names: list[str] = []

    def try_all(
        session: Any, exercise: Exercise, root: Path, chosen: Sequence[Specimen], *rest: Any
    ) -> Iterator[Trial]:
        for specimen in chosen:
            names.append(specimen.name)
            yield trials.as_it_must(exercise, specimen)

    monkeypatch.setattr(proving, "try_all", try_all)
    monkeypatch.setattr(proving, "warm_session", lambda start_method: contextlib.nullcontext())
    return names
