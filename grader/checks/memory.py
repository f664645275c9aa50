"""What a process keeps alive, as grader.kit.memory measures it from inside and the supervisor from outside. How much
may be kept besides what is asked for is in grader.checks.tolerance."""

from __future__ import annotations

from typing_extensions import TypedDict

from grader.checks.tolerance import MEMORY_IMPORTED, MEMORY_UNSEEN
from grader.checks.views import RankView
from grader.kit.memory import BEFORE


class Growth(TypedDict):
    """Bytes that a process has more than before, as Meter.growth() records them. None where its system lacks the
    instrument."""

    heap: int | None
    shared: int | None
    files: int | None
    gpu: int | None
    storages: int


def kept(rank: RankView, name: str, when: str) -> int:
    """Bytes that a rank had more than when its Meter of this name was made, by the instrument that shows most: what
    malloc, shared memory, files and the GPU have together; the tensors that Python knows, which are among those and are
    all there is to see on a system without glibc; and what the supervisor saw from outside, less what it may be off.

    A rank on a GPU is judged by its tensors alone, on the GPU and on the CPU: CUDA and NCCL keep hundreds of megabytes
    of their own, in this process and on the GPU, from the first use of each kernel and of each group on.
    """
    growth: Growth = rank.read(f"{name}: {when}", Growth)
    if rank.on_gpu:
        return max(growth["gpu"] or 0, growth["storages"])
    return max(by_instruments(growth), _seen(rank, name, when) - MEMORY_UNSEEN)


def by_instruments(growth: Growth) -> int:
    """Bytes by what the process itself measures."""
    beside_python = (growth["heap"], growth["shared"], growth["files"], growth["gpu"])
    return max(sum(size or 0 for size in beside_python), growth["storages"])


def _seen(rank: RankView, name: str, when: str) -> int:
    """The same from outside. What a rank had at the beginning counts up to what importing takes: a submission might
    keep something useless until then."""
    before, now = rank.seen(f"{name}: {BEFORE}"), rank.seen(f"{name}: {when}")
    if before is None or now is None or before.memory is None or now.memory is None:
        return 0
    return now.memory - min(before.memory, MEMORY_IMPORTED)
