"""Any file of recorded runs gives runs or a usage error."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader import catalog
from grader.model.errors import UsageError
from grader.records import recording, wire
from tests import small
from tests.fuzz.values import ALLOWED
from tests.fuzzing import damaged, fuzz, mutated


@pytest.fixture(scope="module")
def recorded(root: Path) -> object:
    """The plain content of a file with two runs, one with a failure."""
    runs = (small.sum_run(2, torch.ones(4), None), small.bad_run("TypeError"))
    recording.save(root / "runs", catalog.load(small.NAME, root), 7, runs)
    return wire.decode((root / "runs").read_bytes())


@fuzz(120)
@given(data=st.data())
def test_a_forged_recording_gives_a_usage_error_or_runs(root: Path, recorded: object, data: st.DataObject) -> None:
    """Runs that are let in have the types that the model declares, so they can be saved again."""
    exercise = catalog.load(small.NAME, root)
    (root / "runs").write_bytes(data.draw(damaged(wire.encode(data.draw(mutated(recorded, ALLOWED))))))
    with contextlib.suppress(UsageError):
        seed, runs = recording.load(root / "runs", exercise)
        recording.save(root / "again", exercise, seed, runs)
        assert recording.load(root / "again", exercise)[0] == seed
