"""What the judge is told of a run and its ranks."""

from __future__ import annotations

import errno
from typing import Any

from grader.model import Killed
from grader.ranks.watch.evidence import Snapshot, main_thread
from grader.ranks.watch.watched import Watched
from grader.records.structure import unstructure

STOPPED = Killed(signal="SIGKILL", by_grader=True)
"""The ending of a rank that the grader stops for no fault of its own."""


def head(rank: Watched, traced: bool) -> dict[str, Any]:
    """What the judge is told of a rank, before its observations."""
    ending = rank.ending or STOPPED
    return {
        "rank": rank.rank,
        "ending": unstructure(ending),
        "output": rank.printed.text(),
        "trace": unstructure(rank.trace) if rank.trace and traced else None,
        "device": rank.device,
        "observations": len(rank.observations),
    }


def live_row(rank: Watched, snapshot: Snapshot | None) -> list[Any]:
    """Rank, what it does, at which line of the student's file."""
    if rank.ending or not snapshot:
        return [rank.rank, rank.ending.kind if rank.ending else "starts", None]
    main = main_thread(snapshot)
    line = next((frame.line for frame in reversed(main.stack) if frame.student), None)
    return [rank.rank, f"waits in {main.wait.operation}" if main.wait else "computes or sleeps", line]


def fault(error: OSError, folder: str) -> str:
    """What the system could not do, and the remedy where there is one."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return f"the scratch folder {folder} could not be used: {reason}. Set TMPDIR to one with room"
    return f"the system gave no more: {reason}"
