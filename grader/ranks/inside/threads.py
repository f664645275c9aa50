"""A dispatch mode in every thread. Runs in a rank whose case asks for a trace; imports nothing of ours.

What torch dispatches is seen by the modes of its own thread alone, so a message that a student's sending thread sends
would not be seen by the mode of the main thread.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class InThread(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in one more thread. What a mode keeps while it is entered must not be shared by threads. It leaves
    everything alone until the other one is `begun`."""

    def __init__(self, mode: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mode = mode

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self._mode.begun:
            return func(*args, **(kwargs or {}))
        return self._mode.__torch_dispatch__(func, types, args, kwargs)


def follow(mode: Any) -> None:
    """Enter the mode in all threads that Python starts from now on, to be asked there once it is `begun`."""
    thread_class: Any = threading.Thread
    start = thread_class.start

    @functools.wraps(start)
    def ranklings_start(thread: Any) -> None:
        run = thread.run

        def ranklings_run() -> None:
            del thread.run  # else the thread and this function would hold each other
            with InThread(mode):
                run()

        thread.run = ranklings_run
        start(thread)

    thread_class.start = ranklings_start
