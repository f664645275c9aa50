"""Starts the ranks of a run, each with a channel and captured output."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

from grader.kit import gpus
from grader.ranks.inside.limits import Bounds
from grader.ranks.inside.scene import Scene
from grader.ranks.request import Request
from grader.ranks.watch.folder import RunFolder
from grader.ranks.watch.watched import Watched


def started(request: Request, folder: RunFolder, port: int, began: int) -> list[Watched]:
    """The ranks of a run, forked from this process or spawned. `began` is its start by the monotonic clock (ns)."""
    import torch.multiprocessing

    from grader.ranks.inside import rank as inside
    from grader.ranks.inside import setup

    count = request.world_size
    os.environ["TMPDIR"] = str(folder.temporary)
    channels = [multiprocessing.Pipe() for _ in range(count)]
    outputs = [multiprocessing.Pipe(duplex=False) for _ in range(count)]
    far_ends = [(channel[1], output[1]) for channel, output in zip(channels, outputs, strict=True)]
    method = "spawn" if request.start_method == "spawn" else "fork"
    scene = _scene(request, folder, port, began, tuple(setup.open_descriptors()) if method == "fork" else ())
    start: Any = torch.multiprocessing.start_processes  # type: ignore[attr-defined]
    context = start(inside.main, (scene, far_ends), nprocs=count, join=False, start_method=method)
    for pair in far_ends:
        for end in pair:
            end.close()
    ends = zip(channels, outputs, context.processes, strict=True)
    return [Watched(rank, c[0], o[0], process) for rank, (c, o, process) in enumerate(ends)]


def given_port(request: Request, reserved: int) -> int | None:
    """The port that MASTER_PORT names in the ranks; None where it names none."""
    said = str(request.environment.get("MASTER_PORT", reserved))
    return int(said) if said.isdecimal() else None


def _scene(request: Request, folder: RunFolder, port: int, began: int, inherited: tuple[int, ...]) -> Scene:
    """What the ranks are told: the files lie in folders now."""
    limits = request.limits
    return Scene(
        file=request.file,
        script=request.script,
        requires=request.requires,
        probe=request.probe,
        world_size=request.world_size,
        seed=request.seed,
        parameters=request.parameters,
        environment=request.environment,
        process_group=request.process_group,
        hold_group=request.hold_group,
        trace=request.trace,
        bounds=Bounds(
            file=limits.file,
            cpu=limits.cpu or 2 * request.deadline,
            memory=limits.memory,
            processes=limits.processes,
            alone=request.alone,
        ),
        code=str(folder.code),
        shared=str(folder.shared),
        scratch=str(folder.path),
        port=port,
        began=began,
        gpus=0 if gpus.hidden(request.environment) else gpus.count(),
        inherited=inherited,
    )
