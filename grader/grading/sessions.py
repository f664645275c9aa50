"""The session that the runs of one grade share, and fresh ones in its place after a doubt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from grader.model import Case, Exercise, Run, Submission
from grader.ranks import Live


class AnySession(Protocol):
    """What running cases takes of `ranks.Session`. tests/fakes.py has another, which starts no process."""

    apart: bool
    """Whether each run has a network of its own. Known once it is up."""
    device: str
    """"auto", "cpu" or "cuda"."""
    level: str
    """How ranks are kept apart from the rest: "bubblewrap" or "limits"."""

    @property
    def cancels(self) -> int:
        """How often `cancel` was called."""

    @property
    def alive(self) -> bool: ...

    def start(self) -> None: ...

    def fresh(self) -> AnySession: ...

    def run(self, exercise: Exercise, submission: Submission, case: Case, live: Live | None = None) -> Run: ...

    def pace(self, exercise: Exercise, case: Case) -> float:
        """Seconds that the case took when it last ran here; 0.0 where it has not."""

    def cancel(self) -> None: ...

    def call_off(self, case: Case) -> None: ...

    def close(self) -> None: ...


class Sessions:
    """Hands out the session that is in use. Runs overlap in it; whoever settles a doubt has the machine alone, so that
    no other rank of the submission can reach into what is tried. The first session stays its owner's to close."""

    def __init__(self, first: AnySession) -> None:
        self._first = first
        self._current: AnySession | None = first
        self._changed = threading.Condition()
        self._running, self._taken = 0, False

    @property
    def taken(self) -> bool:
        """Whether somebody has the machine alone."""
        return self._taken

    @contextmanager
    def shared(self) -> Iterator[AnySession]:
        """The session, beside other runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken)
            session = self._current or self.renewed()
            self._running += 1
        try:
            yield session
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nothing else runs from here on, once what is under way has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken)
            self._taken = True
            self._changed.wait_for(lambda: not self._running)
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()

    def current(self) -> AnySession:
        """The session in use, for whoever has the machine alone."""
        return self._current or self.renewed()

    def renewed(self) -> AnySession:
        """A fresh session in the place of the one in use. Raises RunError where there cannot be one."""
        self.close()
        session = self._current = self._first.fresh()
        session.start()
        return session

    def call_off(self, case: Case) -> None:
        """End the run of a case, wherever it is under way."""
        if (session := self._current) is not None:
            session.call_off(case)

    def leave(self, session: AnySession) -> None:
        """Use this one no more."""
        if session is self._current:
            self.close()

    def close(self) -> None:
        """End the session in use, unless it is its owner's."""
        if self._current is not None and self._current is not self._first:
            self._current.close()
        self._current = None
