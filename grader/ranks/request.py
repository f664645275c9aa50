"""What the judge asks of a run: a case with all files that it needs, for the host may see none of ours."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from socket import socket
from typing import Any

from grader.model import Case, Exercise, Limits, Submission, file_of

IMPORTS_DYNAMO = re.compile(
    rb"\b(_functional_collectives|fsdp|DTensor|pipelining|distributed\.(tensor|checkpoint|optim)|torch\.compile)\b"
)
"""What a file names that imports torch._dynamo, or what takes as long, when it is imported or first called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run that is asked for. `files` maps names to contents; `live` says that somebody listens while it runs, `echo`
    that they want to hear at once what ranks print; `alone` that the kernel counts the ranks' processes apart from
    all others of the user; `dynamo` that the ranks may use torch._dynamo, and `dynamo_soon` that a later run of the
    grade may, so that the host imports it meanwhile; `preload` are further modules that the host imports first;
    `script` that the student's file is never imported; `crashes` that the probe ends a rank on purpose. The ranks
    are forks of those who read this and have it in their memory: nothing here is secret from any of them."""

    file: str
    files: Mapping[str, bytes]
    requires: tuple[tuple[str, str | None], ...]
    probe: str
    world_size: int
    seed: int
    deadline: float
    parameters: Mapping[str, Any]
    environment: Mapping[str, str | None]
    process_group: bool
    hold_group: bool
    trace: bool
    limits: Limits
    start_method: str
    live: bool
    alone: bool
    dynamo: bool
    dynamo_soon: bool
    preload: tuple[str, ...] = ()
    echo: bool = False
    script: bool = False
    crashes: bool = False


def plain(request: Request) -> dict[str, Any]:
    """A value that may cross the wire, as `request_of` reads it."""
    return asdict(request)


def request_of(raw: Mapping[str, Any]) -> Request:
    """The request that `plain` wrote."""
    requires = tuple((name, signature) for name, signature in raw["requires"])
    rest = {"requires": requires, "limits": Limits(**raw["limits"]), "preload": tuple(raw["preload"])}
    return Request(**{**raw, **rest})


def request_for(
    exercise: Exercise,
    submission: Submission,
    case: Case,
    *,
    start_method: str,
    live: bool,
    alone: bool,
    echo: bool = False,
) -> Request:
    """A case of an exercise, to be run on a submission."""
    companions = {file_of(name): source for name, source in submission.companions.items()}
    probe = {"probe.py": exercise.probe_of(case).read_bytes()} if exercise.probe_of(case).exists() else {}
    return Request(
        file=exercise.file,
        files={exercise.file: submission.source, **companions, **probe},
        requires=tuple((required.name, required.signature) for required in exercise.required_by(case)),
        probe=case.probe,
        world_size=case.world_size,
        seed=case.seed,
        deadline=case.deadline,
        parameters=dict(case.parameters),
        environment=dict(case.environment),
        process_group=case.process_group,
        hold_group=case.hold_group,
        trace=case.trace,
        limits=replace(case.limits, cpu=case.limits.cpu or 2 * case.deadline),
        start_method=start_method,
        live=live,
        alone=alone,
        dynamo=case.needs_dynamo or exercise.imports_dynamo or bool(IMPORTS_DYNAMO.search(submission.source)),
        dynamo_soon=any(other.needs_dynamo for other in exercise.cases),
        preload=exercise.preload,
        echo=echo,
        script=exercise.script,
        crashes=case.crashes,
    )


def hand_secrets(connection: socket, case: Case) -> None:
    """The judge's side of what only the supervisor hears: the secret of each rank. It lies in the connection until the
    supervisor takes it out, which it does when it has forked the ranks."""
    body = json.dumps([case.secret_of(rank) for rank in range(case.world_size)]).encode()
    connection.sendall(struct.pack("!i", len(body)) + body)


def secrets_from(judge: Connection) -> list[int]:
    """The supervisor's side. Raises OSError or EOFError if the judge has hung up."""
    return list(json.loads(judge.recv_bytes()))
