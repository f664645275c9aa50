"""The alarm for a check that goes on for ever. pytest-timeout says when it is to be set; its own says why it rang on
pytest's terminal, which judging does without."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import NoReturn


class Alarm:
    """Raises TimeoutError in the midst of a check, `seconds` after it was set. Of the main thread alone."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def set(self, seconds: float) -> bool:
        """Whether it is set: elsewhere than in the main thread no signal can raise anything."""
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
            return False
        self._seconds = seconds
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return True

    def cancel(self) -> bool:
        """Whether it was set."""
        was_set, self._seconds = self._seconds > 0, 0.0
        if was_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return was_set

    def _ring(self, number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"the check has worked for more than {self._seconds:g} s")
