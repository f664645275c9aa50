"""What the judge is told of a run and its ranks."""

from __future__ import annotations

import contextlib
import errno
import json
from typing import Any

from grader.model import Deadlocked, Ending, Killed, Raised, StackFrame, TimedOut, Wait
from grader.model.errors import WireError
from grader.model.plain import ours
from grader.model.run import BUSY
from grader.model.trace import Trace
from grader.ranks.watch.channel import LIVE, PRINTED
from grader.ranks.watch.evidence import Snapshot, ThreadState, main_thread
from grader.ranks.watch.watched import Watched
from grader.records import wire
from grader.records.structure import unstructure

STOPPED = Killed(signal="SIGKILL", by_grader=True)
"""The ending of a rank that the grader stops for no fault of its own."""
MALFORMED = Raised(type="MalformedMessage", message="the rank's process sent the grader more than may be told")
LONGEST = 500
"""Characters of what is said of an error."""


def told(rank: Watched, traced: bool) -> bytes:
    """What the judge is told of a rank, before its observations: the frame of a value. Much of it is what the rank has
    said; where that is more than may cross, it is told without the trace, and at last as a message that no rank sends.
    """
    for ending, trace in ((rank.ending, rank.trace if traced else None), (rank.ending, None), (MALFORMED, None)):
        with contextlib.suppress(WireError):
            return wire.encode(_head(rank, ending or STOPPED, trace))
    raise AssertionError("what is ours can be told")


def _head(rank: Watched, ending: Ending, trace: Trace | None) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "ending": unstructure(ending),
        "output": rank.printed.text(),
        "trace": unstructure(trace) if trace else None,
        "device": rank.device,
        "observations": len(rank.observations),
    }


def deadlocked(wait: Wait, main: ThreadState, let_go: bool = False) -> Deadlocked:
    """The ending of a rank that waits so for ever; `main` is its main thread."""
    return Deadlocked(wait=wait, stack=main.stack, caught=main.caught, caught_at=main.caught_at, let_go=let_go)


def timed_out(main: ThreadState, stack: tuple[StackFrame, ...]) -> TimedOut:
    """The ending of a rank that was still there when the time was up."""
    return TimedOut(wait=main.wait, stack=stack, caught=main.caught, caught_at=main.caught_at)


def live_row(rank: Watched, snapshot: Snapshot | None) -> list[Any]:
    """Rank, what it does, at which line of the student's file."""
    if rank.ending or not snapshot:
        return [rank.rank, rank.ending.kind if rank.ending else "starts", None]
    main = main_thread(snapshot)
    line = next((frame.line for frame in reversed(main.stack) if frame.student), None)
    if not main.wait:
        return [rank.rank, BUSY, line]
    return [rank.rank, f"waits in {main.wait.operation}{ours(main.stack)}", line]


def live_message(rows: list[list[Any]]) -> bytes:
    """What the ranks do, to whoever watches."""
    return LIVE + json.dumps(rows).encode()


def printed_message(rank: int, data: bytes) -> bytes:
    """What a rank has printed, to whoever wants to hear it at once."""
    return PRINTED + rank.to_bytes(2) + data


def fault(error: Exception, folder: str) -> str:
    """What went wrong with a run, and the remedy where there is one."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"[:LONGEST]
    reason = error.strerror or str(error)[:LONGEST]
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return f"the scratch folder {folder} could not be used: {reason}. Set TMPDIR to one with room"
    return f"the system gave no more: {reason}"
