"""Addresses of Ray clusters: whether somebody answers is known before Ray is asked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from grader.batch.slots.ray import RayEngine
from grader.grading.request import Machine
from grader.model.errors import UsageError
from tests.pretended_ray import FakeRay

WIDEST = 4


def closed_address() -> str:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_where_nobody_answers_is_told_at_once() -> None:
    """Ray is not asked, which would try for minutes."""
    ray = FakeRay(8)
    with pytest.raises(UsageError, match=r"cannot be used \(nobody answers at 127\.0\.0\.1"):
        RayEngine(Path(), Machine(), WIDEST, closed_address(), ray=ray).room()
    assert not ray.begun


def test_the_address_of_a_cluster_that_has_ended_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray remembers it; one is started here then. An address that somebody listens at is left to Ray."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text(closed_address())
    assert RayEngine(Path(), Machine(cores=2), WIDEST, ray=FakeRay(8)).room() == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "ray/ray_current_cluster").write_text(f"127.0.0.1:{server.getsockname()[1]}")
        assert RayEngine(Path(), Machine(cores=2), WIDEST, ray=FakeRay(8)).room() == 2
