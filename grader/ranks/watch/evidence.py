"""What the rule of deadlocks is told of the live ranks of a run, whatever their backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from grader.model import StackFrame, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where a thread meets the other ranks in init_process_group. Past the store it has no `port`."""

    port: int | None = None
    rank: int | None = None
    world_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadState:
    """What one Python thread of a rank does: it sits in "communication", waits for another thread of its process
    ("passive") or does anything else ("busy": computing, sleeping, reading a file). `caught` is what the student's last
    call raised, "Type: message", and its line, where the probe has caught that."""

    main: bool
    state: str
    wait: Wait | None = None
    stack: tuple[StackFrame, ...] = ()
    meeting: Meeting | None = None
    caught: str = ""
    caught_at: int | None = None


Snapshot = tuple[ThreadState, ...]
"""All threads of a rank but the grader's own."""
NO_ANSWER: Snapshot = (ThreadState(main=True, state="busy"),)
"""Of a rank that cannot answer: it holds the GIL in C."""


def main_thread(snapshot: Snapshot) -> ThreadState:
    """The main thread; one of which nothing is known where it is not told."""
    return next((thread for thread in snapshot if thread.main), NO_ANSWER[0])


class Evidence(Protocol):
    """One look at the live ranks. Gloo's are seen by the kernel's counters (`gloo`). Ranks whose communication runs
    elsewhere, as NCCL's does on the GPU, need other instruments, which answer the same questions."""

    @property
    def live(self) -> int:
        """How many ranks are looked at."""

    @property
    def failed(self) -> bool:
        """Whether some rank has ended other than by finishing."""

    def now(self) -> float:
        """Seconds on a clock that only goes forward."""

    def quiet(self) -> float:
        """Seconds for which nothing in any of the ranks has moved and no message was on its way; else 0."""

    def idle(self) -> float:
        """Seconds for which they did next to nothing: threads may have woken up, but only to look and sleep again."""

    def ask(self) -> Mapping[int, Snapshot]:
        """What each rank does. It wakes them."""

    def forget(self) -> None:
        """Count quiet from now on."""
