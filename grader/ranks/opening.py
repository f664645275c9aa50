"""The files that ranks wrote, opened outside of the judge: what is asked for, and what comes back.

Where a case says `opens_files: true`, every `bytes` among its observations is the content of a file that torch.save
wrote. All of a run's files are opened by one process more, a fork of the warm host without student code, under the same
supervisor and in the same sandbox as ranks (`inside.opener`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grader.model import MIB, Case, Killed, Limits, OpenedFile, RankRecord, TimedOut, budgets
from grader.model.run import digest_of
from grader.ranks.request import Request

PROBE = b"from grader.ranks.inside.opener import open_files\n"
CASE = Case(name="opening", world_size=1, probe="open_files")
LEAST_SECONDS, MOST_SECONDS = 2.0, 10.0
"""A thousand honest files take a second. Opening happens within the case's deadline, but for the least."""
MEMORY = 256 * MIB
"""What opening may take beyond what is open in the end."""


def files_of(ranks: Sequence[RankRecord]) -> dict[str, bytes]:
    """Every file that the ranks recorded, once, by its digest."""
    found = (data for record in ranks for data in _files(dict(record.observations)))
    return {digest_of(data): data for data in found}


def _files(value: Any) -> Iterator[bytes]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is bytes:
            yield part
        elif type(part) in (dict, list):
            waiting += part.values() if type(part) is dict else part


def request_to_open(files: Mapping[str, bytes], left: float, *, start_method: str, alone: bool) -> Request:
    """A run that opens the files; `left` is what is left of the case's deadline, in seconds."""
    seconds = min(max(left, LEAST_SECONDS), MOST_SECONDS)
    return Request(
        file="",
        files={"probe.py": PROBE},
        requires=(),
        probe=CASE.probe,
        world_size=1,
        seed=0,
        deadline=seconds + 1,
        parameters={"files": dict(files), "seconds": seconds, "room": budgets.OPENED_BY_RUN},
        environment={},
        process_group=False,
        hold_group=False,
        trace=False,
        limits=Limits(memory=MEMORY, processes=50, file=MIB, disk=16 * MIB, output=MIB, cpu=seconds + 1),
        start_method=start_method,
        live=False,
        alone=alone,
        dynamo=False,
        dynamo_soon=False,
    )


def opened(files: Mapping[str, bytes], opener: RankRecord) -> tuple[OpenedFile, ...]:
    """What the opener recorded of each file. One that it did not come to, or that ended it, has that as its problem."""
    return tuple(_opened(digest, opener) for digest in files)


def _opened(digest: str, opener: RankRecord) -> OpenedFile:
    match opener.observations.get(digest):
        case {"content": content, "problem": str(problem)}:
            return OpenedFile(digest=digest, content=content, problem=problem)
    return OpenedFile(digest=digest, problem=_ended(opener))


def _ended(opener: RankRecord) -> str:
    match opener.ending:
        case Killed(limit=limit) if limit:
            return f"opening it reached a limit ({limit})"
        case Killed(signal=signal):
            return f"opening it ended Python by {signal}"
        case TimedOut():
            return "it takes too long to open"
    return "it was not opened, because another file of the run took all that files may take"
