"""Who hears what happens in a grade while it happens: the journal, a progress line, watch mode."""

from __future__ import annotations

from collections.abc import Sequence

from grader.model import Case, Exercise, LiveRank, Run, Verdict
from grader.records.journal import Journal


class Listener:
    """Hears of one grade after another, and does nothing: for others to build on. Every method may be called from any
    thread. What one raises ends the grade."""

    wants_live = False
    """Whether `live` is to be called; ranks that stand still are asked for it only then."""

    def phase(self, text: str) -> None:
        """What the grader itself does now: `starting`, `judging`."""

    def began(self, exercise: Exercise, seed: int) -> None:
        """All cases and checks are known."""

    def started(self, case: Case) -> None: ...

    def live(self, case: Case, ranks: Sequence[LiveRank]) -> None:
        """What the ranks of a run do that stand still."""

    def ended(self, run: Run) -> None: ...

    def judged(self, verdict: Verdict) -> None: ...


class Listeners(Listener):
    """Several listeners as one. Each hears everything, in order."""

    def __init__(self, *listeners: Listener) -> None:
        self._all = listeners
        self.wants_live = any(one.wants_live for one in listeners)

    def phase(self, text: str) -> None:
        for one in self._all:
            one.phase(text)

    def began(self, exercise: Exercise, seed: int) -> None:
        for one in self._all:
            one.began(exercise, seed)

    def started(self, case: Case) -> None:
        for one in self._all:
            one.started(case)

    def live(self, case: Case, ranks: Sequence[LiveRank]) -> None:
        for one in self._all:
            one.live(case, ranks)

    def ended(self, run: Run) -> None:
        for one in self._all:
            one.ended(run)

    def judged(self, verdict: Verdict) -> None:
        for one in self._all:
            one.judged(verdict)


class Journalist(Listener):
    """Writes each run and each verdict into a journal. Runs that the journal had already are not told again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def ended(self, run: Run) -> None:
        self._journal.add_run(run)

    def judged(self, verdict: Verdict) -> None:
        self._journal.add_verdict(verdict)


SILENT = Listener()
"""Nobody listens."""
