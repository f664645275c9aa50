"""Ray as a batch needs it: its module, a connection, and the class of actors. Ray is the extra `ray` of
this project, and is imported when it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grader import calling
from grader.batch.seam import Work
from grader.model.errors import UsageError

OLDEST = (2, 60)
ANSWER_SECONDS = 5.0
"""How long the head of a cluster may take to accept a connection."""
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # an actor that asked for no GPU sees none
    "RAY_ENABLE_AUTO_CONNECT": "0",  # no cluster but the one that was asked for
}


def imported() -> Any:
    """Ray's module. Raises UsageError where there is none, or one that is too old."""
    try:
        ray = importlib.import_module("ray")
        version = ray.__version__  # a mere folder of that name has none
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"--engine ray needs Ray, which is not installed here ({error}): {calling.extra('ray')}"
        ) from None
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise UsageError(f"--engine ray needs Ray 2.60 or newer; here is {version}: {calling.extra('ray')}")
    return ray


def started(ray: Any, **options: Any) -> None:
    """Join a cluster, or start one here, as `ray.init` is told. Raises UsageError."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        check_answers(options["address"])
        with _signals_kept():
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        where = options["address"]
        raise UsageError(
            f"The Ray cluster at {where} cannot be used ({first_line(error)}). `ray status --address={where}` "
            "says whether it is up; RAY_AUTH_TOKEN must be its token, where it has one."
        ) from error


def check_answers(address: str) -> None:
    """Raises ConnectionError where nobody listens at the address. Ray would try for minutes, and hear no signal
    meanwhile; it also remembers, for "auto", clusters that have ended."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or _remembered()
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return  # only Ray knows what that is
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"nobody answers at {address}: {error}") from None


def _remembered() -> str:
    """The address of the cluster that `ray start` has begun or joined here last; empty where there was none."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        return (Path(folder) / "ray" / "ray_current_cluster").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def actor_class(ray: Any) -> Any:
    """The actor's class. Being made in a function it is sent as it is, so a node needs to know nothing beforehand."""

    class SlotOfBatch:
        def __init__(self, project: str, words: Sequence[str]) -> None:
            import sys

            sys.path.insert(0, project)
            from grader.batch.slots.actor import SlotActor

            self._actor = SlotActor(words)

        def up(self) -> dict[str, Any]:
            return self._actor.up()

        def grade(self, work: Work) -> dict[str, Any]:
            return self._actor.grade(work)

    return ray.remote(SlotOfBatch)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray puts a handler of its own in the place of SIGTERM's."""
    alone = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if alone and before is not None:
            signal.signal(signal.SIGTERM, before)


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
