"""What a process keeps alive, as grader.kit.memory measures it. How much may be kept besides what is asked for is in
grader.checks.tolerance."""

from __future__ import annotations

from typing_extensions import TypedDict


class Growth(TypedDict):
    """Bytes that a process has more than before, as Meter.growth() records them. None where its system lacks the
    instrument."""

    heap: int | None
    shared: int | None
    files: int | None
    gpu: int | None
    storages: int


def kept(growth: Growth) -> int:
    """Bytes by the instrument that shows most: what malloc, shared memory, files and the GPU have together, or the
    tensors that Python knows, which are among those and are all there is to see on a system without glibc."""
    beside_python = (growth["heap"], growth["shared"], growth["files"], growth["gpu"])
    return max(sum(size or 0 for size in beside_python), growth["storages"])
