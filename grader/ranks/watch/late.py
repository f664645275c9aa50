"""How a rank ends that is still there at the deadline or past a limit, and where it was."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping

from grader.model import Ending, Killed, StackFrame
from grader.ranks.watch.census import Excess
from grader.ranks.watch.evidence import Snapshot, ThreadState, main_thread
from grader.ranks.watch.folder import RunFolder
from grader.ranks.watch.parsing import stack_of_dump
from grader.ranks.watch.telling import STOPPED, timed_out
from grader.ranks.watch.watched import Watched, stopped

ANSWER, TICK = 1.0, 0.04
"""Seconds that a rank gets to write its stack, and between two looks for it."""
OUTERMOST = (" in _run_module_as_main\n", '"<string>", line 1 in <module>\n', "...\n")
"""How what faulthandler writes ends: with the outermost frame of a rank that was forked or spawned, or cut off."""


def late_endings(late: list[Watched], seen: Mapping[int, Snapshot], folder: RunFolder, file: str) -> dict[int, Ending]:
    """By rank, from what its main thread did. Those that cannot say it write their stacks, all at the same time."""
    main = {number: main_thread(snapshot) for number, snapshot in seen.items()}
    silent = [rank for rank in late if not stopped(rank.pid) and not main[rank.rank].stack]
    stacks = stacks_by_signal(silent, folder, file)
    return {rank.rank: _ending(rank, main[rank.rank], stacks.get(rank.rank, ())) for rank in late}


def excess_endings(live: list[Watched], found: Excess, folder: RunFolder, file: str) -> dict[int, Ending]:
    """By rank. If no rank can be blamed, all live ranks are. Who prints is asked where; what grows is ended at once."""
    blamed = [rank for rank in live if rank.rank in found.ranks] or live
    stacks = stacks_by_signal(blamed, folder, file) if found.text.startswith("output: ") else {}
    over = {
        rank.rank: Killed(signal="SIGKILL", by_grader=True, limit=found.text, stack=stacks.get(rank.rank, ()))
        for rank in blamed
    }
    return {rank.rank: over.get(rank.rank, STOPPED) for rank in live}


def _ending(rank: Watched, main: ThreadState, stack: tuple[StackFrame, ...]) -> Ending:
    if stopped(rank.pid):  # it cannot answer, and those that wait for it may look as busy as it does
        return Killed(signal="SIGSTOP")
    return timed_out(main, main.stack or stack)


def stacks_by_signal(ranks: list[Watched], folder: RunFolder, file: str) -> dict[int, tuple[StackFrame, ...]]:
    """The main threads' stacks as Python's faulthandler writes them, which needs no GIL."""
    waiting = [rank for rank in ranks if _asked(rank)]
    until = time.monotonic() + ANSWER
    while any(not _written(rank, folder) for rank in waiting) and time.monotonic() < until:
        time.sleep(TICK)
    return {rank.rank: stack_of_dump(folder.stack(rank.rank), str(folder.code / file), file) for rank in waiting}


def _asked(rank: Watched) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        os.kill(rank.pid, signal.SIGUSR2)
        return True
    return False


def _written(rank: Watched, folder: RunFolder) -> bool:
    """Whether all of it is there: the main thread comes last."""
    return folder.stack(rank.rank).endswith(OUTERMOST)
