"""A request for a run of two ranks, for tests that start no process."""

from __future__ import annotations

from grader.model import Limits
from grader.ranks.request import Request


def small_request() -> Request:
    return Request(
        file="x.py",
        files={},
        requires=(("wanted", None),),
        probe="x",
        world_size=2,
        seed=0,
        deadline=30.0,
        parameters={},
        environment={},
        process_group=True,
        hold_group=True,
        trace=False,
        limits=Limits(cpu=60.0),
        start_method="forkserver",
        live=False,
        alone=False,
        dynamo=False,
        dynamo_soon=False,
    )
