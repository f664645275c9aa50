"""Evidence of deadlocks for ranks that communicate by gloo: the kernel's counters and the ranks' own snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from grader.model import Finished
from grader.ranks.watch.evidence import Snapshot
from grader.ranks.watch.quiet import Look, Watch, look
from grader.ranks.watch.watched import Watched


class GlooEvidence:
    """One look at the ranks that were live at its beginning. `ranks` are all of the run; `moved` tells what their
    connections have moved, or None."""

    def __init__(
        self,
        ranks: Sequence[Watched],
        watch: Watch,
        ask: Callable[[list[Watched]], Mapping[int, Snapshot]],
        moved: Callable[[], Hashable | None],
    ) -> None:
        self._ranks, self._watch, self._ask, self._moved = ranks, watch, ask, moved
        self._live = [rank for rank in ranks if rank.live]
        self._threads = {rank.pid: rank.own for rank in self._live}
        self._look: Look = {}
        self._idle: float | None = None

    @property
    def live(self) -> int:
        return len(self._live)

    @property
    def failed(self) -> bool:
        return any(rank.ending and not isinstance(rank.ending, Finished) for rank in self._ranks)

    def now(self) -> float:
        return time.monotonic()

    def quiet(self) -> float:
        self._look = look(self._threads)
        return self._watch.quiet_seconds(self._look, self._moved)

    def idle(self) -> float:
        """By the look that `quiet` took last, where it did: it costs as much as all else that a supervisor does. The
        same however often it is asked: a second answer would be of the moment since the first one."""
        if self._idle is None:
            self._idle = self._watch.idle_seconds(self._look or look(self._threads))
        return self._idle

    def ask(self) -> Mapping[int, Snapshot]:
        return self._ask(self._live)

    def forget(self) -> None:
        self._watch.restart()
