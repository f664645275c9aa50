"""GPUs are counted without touching them, for whoever has touched one has children that cannot use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from grader import catalog
from grader.checks import RunView
from grader.checks.memory import Growth, kept
from grader.judge import load_probe
from grader.kit import gpus
from grader.model import Case, Finished, RankRecord, Run
from grader.ranks.inside import tracer
from grader.ranks.inside.rank import Rank


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has counted before, and nobody will rely on what a test counted."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpus.count.cache_clear()
    yield
    gpus.count.cache_clear()


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the file of a GPU."""
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(gpus, "DEVICES", (f"{tmp_path}/nvidia[0-9]*",))


def test_a_child_is_asked_once(card: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """torch's own count, which asks the driver, runs in another process."""

    def counted() -> int:
        with (tmp_path / "asked").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return 3

    monkeypatch.setattr(torch.cuda, "device_count", counted)
    assert (gpus.count(), gpus.count()) == (3, 3)
    (asked,) = (tmp_path / "asked").read_text().split()
    assert int(asked) != os.getpid()


def test_a_child_that_fails_has_found_none(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the driver does not fit, and torch gives up."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: os._exit(1))
    assert gpus.count() == 0


def test_without_a_file_or_hidden_there_is_none(card: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And then nobody is asked."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert gpus.possible() and not gpus.hidden({"CUDA_VISIBLE_DEVICES": "0"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not gpus.possible() and gpus.count() == 0
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (tmp_path / "nvidia0").unlink()
    assert not gpus.possible()


@pytest.mark.parametrize(
    ("there", "world_size", "device"), [(0, 1, "cpu"), (1, 1, "cuda"), (1, 2, "cpu"), (4, 3, "cuda")]
)
def test_ranks_are_placed_by_the_device_rule(there: int, world_size: int, device: str) -> None:
    """On GPUs where each can have its own, by the number that they were told."""
    scene: Any = SimpleNamespace(
        world_size=world_size, seed=1, parameters={}, shared="", student_file="a.py", began=0, gpus=there
    )
    placed = Rank(scene, world_size - 1, lambda message: None).device
    assert placed == (torch.device("cuda", world_size - 1) if device == "cuda" else torch.device("cpu"))


GROWN = {"heap": 500 * 2**20, "shared": 0, "files": 0, "gpu": 3 * 2**20, "storages": 5 * 2**20}


@pytest.mark.parametrize(("device", "bytes_kept"), [("cpu", 503 * 2**20), ("cuda", 5 * 2**20)])
def test_on_a_gpu_tensors_alone_are_what_a_rank_keeps(device: str, bytes_kept: int) -> None:
    """CUDA and NCCL have a heap of their own in the process."""
    record = RankRecord(rank=0, ending=Finished(), observations={"Adam: now": GROWN}, device=device)
    (rank,) = RunView(Run(case=Case(name="c", world_size=1, probe="p"), ranks=(record,), seconds=0.1))
    assert Growth.__annotations__.keys() == GROWN.keys() and kept(rank, "Adam", "now") == bytes_kept


def test_a_collective_without_a_work_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NCCL's are that nobody called asynchronously. Another operation looks at what is still under way."""
    monkeypatch.setattr(dist.Work, "unbox", lambda boxed: None)
    monkeypatch.setattr(tracer, "SCRIPT_OBJECT", object)
    traced, event = tracer.Tracer("a.py", 0), dict[str, Any](end=None)
    traced._follow(event, (object(),), functional=False)
    traced.look()
    assert event["end"] is not None


def test_launches_of_16_see_gpus_where_each_worker_can_have_one(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun starts one for each, and scripts rely on it."""
    probe = load_probe(catalog.load("16_torchrun_template", catalog.repository_root()))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    seen = [probe.enough_gpus(agents) for agents in ((None,), probe.agent(2), probe.agent(3), probe.agent(1) * 2)]
    assert seen == [True, True, False, False]
