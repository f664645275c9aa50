"""The memory table in the statement of exercise 07: what optimizer state costs each rank, measured.

python reference/07_sharded_optimizer/memory_table.py          (in the repository, a few seconds)

Trains a small model for two steps with torch.optim.Adam, with the exercise's reference solution and with torch's
ZeroRedundancyOptimizer, on real ranks, and prints a Markdown table. The numbers are the bytes that malloc has handed
out more after the steps than before the optimizer was built (glibc's mallinfo2), whoever holds them.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import tempfile
from multiprocessing import set_forkserver_preload
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.multiprocessing.spawn import start_processes

from grader.kit import memory

SOLUTION = Path(__file__).with_name("sharded_optimizer.py")
WORLD_SIZES = (1, 2, 4)
WIDTH, LAYERS = 1024, 8
KINDS = ("Adam", "ShardedOptimizer", "ZeroRedundancyOptimizer")


@click.command()
def main() -> None:
    """Print the table."""
    click.echo(table({(kind, n): measured(kind, n) for kind in KINDS for n in WORLD_SIZES}))


def table(sizes: dict[tuple[str, int], list[int]]) -> str:
    """Markdown: a line an optimizer, a column a world size, in it the fullest rank in MB (10^6 bytes)."""
    rows = [["optimizer", *(f"N = {n}" for n in WORLD_SIZES)], ["---"] * (1 + len(WORLD_SIZES))]
    rows += [[kind, *(span(sizes[kind, n]) for n in WORLD_SIZES)] for kind in KINDS]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def span(sizes: list[int]) -> str:
    low, high = (f"{size / 1e6:.1f}" for size in (min(sizes), max(sizes)))
    return high if low == high else f"{high} ({low} on the leanest)"


def measured(kind: str, world_size: int) -> list[int]:
    """Bytes on each rank."""
    set_forkserver_preload(["torch.distributed.optim", "torch._dynamo"])
    with tempfile.TemporaryDirectory() as folder:
        arguments = (world_size, kind, folder)
        start_processes(run_rank, arguments, world_size, start_method="forkserver")
        return [int((Path(folder) / str(rank)).read_text()) for rank in range(world_size)]


def run_rank(rank: int, world_size: int, kind: str, folder: str) -> None:
    """One rank: measure, and leave the number in a file of the folder."""
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), world_size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    train(torch.nn.Linear(8, 8), kind)  # warm up: imports, buffers of the collectives
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    before = settled_heap()
    optimizer = train(model, kind)
    (Path(folder) / str(rank)).write_text(str(settled_heap() - before))
    dist.destroy_process_group()
    del optimizer


def train(model: Any, kind: str) -> Any:
    """Two steps with gradients of ones. Returns the optimizer, without any gradient."""
    optimizer = build(kind)(model.parameters())
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    optimizer.zero_grad()
    return optimizer


def build(kind: str) -> Any:
    """The optimizer of that kind, as a function of the parameters."""
    if kind == "Adam":
        return lambda parameters: torch.optim.Adam(parameters, lr=0.01)
    if kind == "ZeroRedundancyOptimizer":
        return lambda parameters: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.01)
    spec = importlib.util.spec_from_file_location("reference_07", SOLUTION)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda parameters: module.ShardedOptimizer(parameters, torch.optim.Adam, lr=0.01)


def settled_heap() -> int:
    """Bytes that malloc has handed out and not got back, after a barrier. Collective."""
    gc.collect()
    dist.barrier()
    size = memory.heap()
    if size is None:
        raise SystemExit("this C library has no mallinfo2; run it on Linux with glibc")
    return size


if __name__ == "__main__":
    main()
