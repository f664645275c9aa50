"""What a rank of a staged machine decided (see grader.kit.machine): its group, its GPU, its backends.

One process plays all the ranks of such a machine, so they are named in the subject: they are no ranks of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from grader.checks.expect import error_text
from grader.checks.observations import Attempt
from grader.checks.views import RunView
from grader.model.words import count, rank_list


class StagedGroup(TypedDict):
    """A group that a rank made: the backend asked for (None lets torch choose), and the GPU that it is bound to."""

    backend: str | None
    rank: int
    world_size: int
    gpu: int | None


class Decision(Attempt):
    """A call, and all that it did as rank `rank` of `world_size` on a machine with `gpus` GPUs."""

    gpus: int
    rank: int
    world_size: int
    groups: list[StagedGroup]
    selected: int | None
    refused: list[int]


def in_words(gpus: int, world_size: int) -> str:
    """`2 GPUs, 3 ranks`."""
    return f"{count(gpus, 'GPU') if gpus else 'No GPU'}, {count(world_size, 'rank')}"


def group_of(run: RunView, decision: Decision) -> StagedGroup:
    """The group that a rank made last. None, or a call that failed for a GPU that there is not, fails the check; other
    errors after joining are not charged, since the GPUs are not real."""
    if not decision["groups"] or (decision["raised"] and decision["refused"]):
        machine = in_words(decision["gpus"], decision["world_size"])
        subject, actual = f"{machine}: the group of rank {decision['rank']}", error_text(decision)
        run.fail(subject, expected="a process group", actual=actual, line=decision["line"])
    return decision["groups"][-1]


def gpu_of(run: RunView, decision: Decision) -> str:
    """The GPU that a rank ends up with: what it selected, what it bound the group to, or GPU 0 if neither."""
    bound, chosen = group_of(run, decision)["gpu"], decision["selected"]
    if bound is not None and chosen not in (None, bound):
        return f"GPU {chosen}, but a group bound to GPU {bound}"
    if bound is None and chosen is None:
        return "GPU 0" if decision["rank"] == 0 else "none, which leaves GPU 0"
    return f"GPU {bound if chosen is None else chosen}"


def backends_of(run: RunView, decision: Decision) -> dict[str, str]:
    """The backend for each device's tensors. None lets torch choose by the machine."""
    backend = group_of(run, decision)["backend"]
    if backend is None:
        return {"cuda": "nccl"} if decision["gpus"] else {"cpu": "gloo"}
    name = backend.lower()
    if ":" in name:
        pairs = (part.partition(":") for part in name.split(","))
        return {device: one for device, _, one in pairs}
    return {"cuda": "nccl"} if name == "nccl" else {"cpu": name, "cuda": name}


def backend_in_words(run: RunView, decision: Decision) -> str:
    """The backend that a rank asked for; where it named none, what torch then takes."""
    chosen = "NCCL" if decision["gpus"] else "gloo"
    return group_of(run, decision)["backend"] or f"no backend named, for which torch takes {chosen} alone here"


def expect_of_staged(run: RunView, subject: str, expected: Mapping[int, Any], actual: Mapping[int, Any]) -> None:
    """Plain values by staged rank, exactly equal. The first fault is told once, for all ranks that share it."""
    wrong = {rank: (wanted, actual[rank]) for rank, wanted in expected.items() if actual[rank] != wanted}
    for wanted, seen in wrong.values():
        ranks = [rank for rank, pair in wrong.items() if pair == (wanted, seen)]
        run.fail(f"{subject} {rank_list(ranks)}", expected=wanted, actual=seen)
