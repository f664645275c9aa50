"""The meter of the kit shows what a process keeps, wherever it is, and no longer than it keeps it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.checks.memory import Growth, by_instruments
from grader.checks.observations import typed
from grader.kit.memory import Meter, disregard_existing, layout

SIZE = 8 * 2**20
NOISE = 2**20

HOARDS: dict[str, Callable[[Path], Any]] = {
    "a tensor": lambda folder: torch.ones(SIZE // 4),
    "a tensor that a closure has": lambda folder: partial(torch.add, torch.ones(SIZE // 4)),
    "bytes": lambda folder: bytes(SIZE),
    "a tensor in shared memory": lambda folder: torch.ones(SIZE // 4).share_memory_(),
    "a file": lambda folder: (folder / "hoard").write_bytes(bytes(SIZE)),
}


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Any]:
    disregard_existing()
    yield SimpleNamespace(device=torch.device("cpu"), scratch=tmp_path, be_seen=lambda name: None)
    gc.unfreeze()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="malloc and /proc are asked")
@pytest.mark.parametrize("hoard", HOARDS)
def test_what_is_kept_is_seen(rank: Any, hoard: str) -> None:
    """Each way of keeping 8 MiB is seen once."""
    meter = Meter(rank, "hoard")
    treasure = HOARDS[hoard](rank.scratch)
    grown = by_instruments(typed(meter.growth("now")[1], Growth))
    assert treasure is not None and abs(grown - SIZE) < NOISE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="malloc and /proc are asked")
def test_what_was_there_or_is_gone_does_not_count(rank: Any) -> None:
    """Neither what was there before the meter, nor a view of it, nor what was let go again."""
    earlier = torch.ones(SIZE // 4)
    meter = Meter(rank, "hoard")
    torch.ones(SIZE)
    view = earlier[1:]
    assert abs(by_instruments(typed(meter.growth("now")[1], Growth))) < NOISE and len(view)


def test_tensors_are_counted_where_nothing_else_can_be(rank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without glibc the storages of tensors are what there is, each once. A shape without memory counts for nothing."""
    monkeypatch.setattr("grader.kit.memory.heap", lambda: None)
    meter = Meter(rank, "hoard")
    whole = torch.ones(SIZE // 4)
    views = whole.view(-1, 4), whole[:4], torch.empty(SIZE, device="meta")
    grown = typed(meter.growth("now")[1], Growth)
    assert len(views) == 3 and grown["heap"] is None and abs(by_instruments(grown) - SIZE) < NOISE


@pytest.mark.parametrize("world_size", range(1, 5))
def test_no_size_of_the_layout_exceeds_a_quarter_of_a_share(world_size: int) -> None:
    """Only then is who gives each size to the rank that has least within the balance that is asked for."""
    sizes = [size for group in layout(world_size)[:-1] for size in group]
    assert max(sizes) <= sum(sizes) / world_size / 4


BUSY = """
import hashlib, os, threading
from grader.kit import memory
assert memory._others_rest()
threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 2**31 - 1), daemon=True).start()
while memory._others_rest():
    pass
os._exit(7)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells what a thread does")
def test_a_thread_that_has_work_to_do_may_still_hold_a_buffer() -> None:
    assert subprocess.run([sys.executable, "-c", BUSY], check=False, timeout=100).returncode == 7


MANY_COLLECTIVES = """
import torch, torch.distributed as dist
from grader.kit import memory, recorder
from grader.ranks.inside import flight_recorder
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(10)
recorder.fill()
dist.all_reduce(tensor)
before = memory.heap()
for _ in range(1000):
    dist.all_reduce(tensor)
assert before is None or memory.heap() - before < 300 * 1000, memory.heap() - before
assert len(flight_recorder.flight_recorder()) in (0, 1001), len(flight_recorder.flight_recorder())
"""


def test_what_torch_notes_of_a_collective_is_nobodys_memory() -> None:
    """A kilobyte or two each, until its recorder is full. What has filled it is told to nobody; a torch without one
    has nothing to tell."""
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "2000"}
    subprocess.run([sys.executable, "-c", MANY_COLLECTIVES], check=True, timeout=100, env=environment)
