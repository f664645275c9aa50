"""What a rank waits in, as seen from inside it. Runs in every rank.

Three instruments of PyTorch and Python answer from a second thread while the main thread is blocked:
`sys._current_frames()` (the stacks), the Flight Recorder (pending collectives, those that C++ launched included), and
thin wrappers around Work.wait, Store.get/wait and the point-to-point calls, which the Flight Recorder does not list for
gloo.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from grader.ranks.inside import asleep, flight_recorder, rendezvous
from grader.ranks.inside.rendezvous import DISTRIBUTED

TORCH = os.sep + "torch" + os.sep
PASSIVE_FILES = ("threading.py", "queue.py")
IDLE_WORKER = os.path.join("concurrent", "futures", "thread.py")
"""Where a worker of a pool of threads waits for work, in C."""
A_LOCK = "a lock of its own process"
"""What a rank waits in that has no thread in communication, and none that could move by itself."""
MAX_FRAMES = 60
PASSED_THROUGH = ("_exception_logger", "_time_logger", "Module._", "_watched", "_posted")
"""Wrappers around what was called, torch's and ours. Ours are also known by "ranklings_" in their names."""
Told = TypeVar("Told")

_waiting: dict[int, dict[str, Any]] = {}
_sent: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def install() -> None:
    """Wrap the blocking calls that Python code can reach. Called once in a rank, before student code."""
    import torch.distributed

    dist: Any = torch.distributed
    _wrap(dist.Work, "wait", lambda wait: _watched(wait, lambda work, *_, **__: _sent.get(work, {"operation": "wait"})))
    for name in ("get", "wait"):
        _wrap(dist.Store, name, lambda call: _watched(call, lambda *_, **__: {"operation": "the rendezvous"}))
    _wrap(dist.TCPStore, "__init__", lambda init: _watched(rendezvous.patient(init), rendezvous.meeting))
    for name in ("send", "recv"):
        _wrap(dist.ProcessGroup, name, functools.partial(_posted, name))
    _wrap(dist.ProcessGroup, "recv_anysource", lambda call: _posted("recv", call, any_source=True))


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Replace a method, if this torch has it. Without a wrapper a wait is still told by its stack."""
    if (method := getattr(owner, name, None)) is not None:
        setattr(owner, name, wrapper(method))


def _watched(function: Callable[..., Any], describe: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def ranklings_wait(*args: Any, **kwargs: Any) -> Any:
        thread = threading.get_ident()
        outer = _waiting.get(thread)
        _waiting[thread] = describe(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            if outer is None:
                _waiting.pop(thread, None)
            else:
                _waiting[thread] = outer

    return ranklings_wait


def waiting(operation: str, function: Callable[[], Told]) -> Told:
    """What `function` returns. Meanwhile this thread waits in `operation`, as if that were communication."""
    told: Told = _watched(function, lambda: {"operation": operation, "peer": None})()
    return told


def _posted(name: str, function: Callable[..., Any], any_source: bool = False) -> Callable[..., Any]:
    """Remember peer and tag of a point-to-point message until somebody waits for it."""

    def describe(group: Any, tensors: Any, *args: Any) -> dict[str, Any]:
        peer, tag = (None, args[0] if args else 0) if any_source else (args[0], args[1] if len(args) > 1 else 0)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        told = {"operation": name, "tag": tag, "bytes": size, "group": _group_name(group)}
        return {**told, "peer": _in_the_world(group, peer)}

    watched = _watched(function, describe)

    @functools.wraps(function)
    def ranklings_post(group: Any, tensors: Any, *args: Any) -> Any:
        work = watched(group, tensors, *args)
        if work is not None:
            _sent[work] = describe(group, tensors, *args)
        return work

    return ranklings_post


def _in_the_world(group: Any, peer: Any) -> Any:
    """The number that a rank of a group has in the world."""
    import torch.distributed as dist

    try:
        return dist.get_global_rank(group, peer)
    except Exception:  # a group that torch.distributed does not know, made by hand
        return peer


def _group_name(group: Any) -> str:
    import torch.distributed as dist

    try:
        if dist.group.WORLD is group:
            return "default"
        return flight_recorder.group_called(str(group.group_name), str(group.group_desc))
    except Exception:  # a group that is half torn down has no name; the wait is still worth telling
        return "unnamed"


def snapshot(main: int, own: set[int], student_file: str) -> dict[str, Any]:
    """What every Python thread of this rank does now, as JSON-able data. `own` are threads of the grader."""
    pending = flight_recorder.pending_collectives()
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident not in own}
    threads = [_thread(ident, frame, ident == main, pending, student_file) for ident, frame in frames.items()]
    if all(thread["state"] == "passive" for thread in threads) and all(map(asleep.until_woken, frames)):
        _locked(next((thread for thread in threads if thread["main"]), threads[0]) if threads else {})
    return {"threads": threads}


def _locked(thread: dict[str, Any]) -> None:
    """Say of a thread that it waits for a lock that nobody will release: no rank comes and does it."""
    thread.update(state="communication", wait={"operation": A_LOCK, "called": ""})


def stack_of(frame: FrameType | None, student_file: str) -> list[list[Any]]:
    """[[file, line, function, student], …], outermost first."""
    rows: list[list[Any]] = []
    while frame is not None and len(rows) < MAX_FRAMES:
        code = frame.f_code
        rows.append([code.co_filename, frame.f_lineno, code.co_qualname, code.co_filename == student_file])
        frame = frame.f_back
    return rows[::-1]


def _thread(ident: int, frame: FrameType, is_main: bool, pending: list[Any], student_file: str) -> dict[str, Any]:
    posted = _waiting.get(ident)
    stack = stack_of(frame, student_file)
    state = _state(ident, frame, posted, pending)
    wait = _describe(stack, posted, pending) if state == "communication" else None
    meeting = rendezvous.meeting_of(frame, posted)
    return {"main": is_main, "state": state, "wait": wait, "stack": stack, "rendezvous": meeting}


def _state(ident: int, frame: FrameType, posted: dict[str, Any] | None, pending: list[Any]) -> str:
    file = frame.f_code.co_filename
    if posted is not None or DISTRIBUTED in file or (pending and TORCH in file):
        return "communication"
    if os.path.basename(file) in PASSIVE_FILES and frame.f_locals.get("timeout", None) in (None, -1):
        return "passive"
    return "passive" if file.endswith(IDLE_WORKER) or asleep.until_woken(ident) else "busy"


def _describe(stack: list[list[Any]], posted: dict[str, Any] | None, pending: list[Any]) -> dict[str, Any]:
    called = _called_by_student(stack)
    if posted is not None and "peer" in posted:
        return {**posted, "called": called}
    if pending:
        return {**pending[0], "called": called}
    return {"operation": called or "communication", "called": called}


def _called_by_student(stack: list[list[Any]]) -> str:
    """The function that the student's innermost line called, by the name that they know it under."""
    if not any(row[3] for row in stack):
        return ""
    inner = len(stack) - next((i for i, row in enumerate(reversed(stack)) if row[3]), len(stack))
    for _, _, function, _ in stack[inner:]:
        name = str(function)
        if not name.startswith(PASSED_THROUGH) and "ranklings_" not in name:
            return name.removesuffix(".__init__").removeprefix("Tensor.").rpartition(".<locals>.")[2]
    if any(str(row[2]).endswith("ranklings_wait") for row in stack[-1:]):
        return "wait"
    return ""
