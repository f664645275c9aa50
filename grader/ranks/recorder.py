"""What a rank waits in, as seen from inside it. Runs in every rank; imports nothing of ours.

Three instruments of PyTorch and Python answer from a second thread while the main thread is blocked:
`sys._current_frames()` (the stacks), the Flight Recorder (pending collectives, those that C++ launched included), and
thin wrappers around Work.wait, Store.get/wait and the point-to-point calls, which the Flight Recorder does not list for
gloo.
"""

from __future__ import annotations

import functools
import math
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

TORCH = os.sep + "torch" + os.sep
DISTRIBUTED = TORCH + "distributed" + os.sep
PASSIVE_FILES = ("threading.py", "queue.py")
MAX_FRAMES = 60
ESTABLISHED = "01"
PATIENCE = 1.0
"""Seconds that a store's client waits for its server's port before torch's own way of trying begins."""
RENDEZVOUS = ("_create_c10d_store", "init_process_group")

MAX_HISTORY = 200
OPERATIONS = {
    "_reduce_scatter_base": "reduce_scatter",
    "_all_gather_base": "all_gather",
    "_allgather_base": "all_gather",
}
"""Names of the Flight Recorder that the API does not have."""
SIZES = {
    **dict.fromkeys(("Byte", "Char", "Bool"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "Float"), 4),
    **dict.fromkeys(("Long", "Double"), 8),
}
"""Bytes of an element, by the Flight Recorder's names."""

_waiting: dict[int, dict[str, Any]] = {}
_sent: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def install() -> None:
    """Wrap the blocking calls that Python code can reach. Called once in a rank, before student code."""
    import torch.distributed

    dist: Any = torch.distributed
    _wrap(dist.Work, "wait", lambda wait: _watched(wait, lambda work, *_, **__: _sent.get(work, {"operation": "wait"})))
    for name in ("get", "wait"):
        _wrap(dist.Store, name, lambda call: _watched(call, lambda *_, **__: {"operation": "the rendezvous"}))
    _wrap(dist.TCPStore, "__init__", lambda init: _watched(_patient(init), _meeting))
    for name in ("send", "recv"):
        _wrap(dist.ProcessGroup, name, functools.partial(_posted, name))
    _wrap(dist.ProcessGroup, "recv_anysource", lambda call: _posted("recv", call, any_source=True))


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Replace a method, if this torch has it. Without a wrapper a wait is still told by its stack."""
    if (method := getattr(owner, name, None)) is not None:
        setattr(owner, name, wrapper(method))


def _meeting(
    store: Any,
    host_name: str = "",
    port: int = 0,
    world_size: int | None = None,
    is_master: bool = False,
    *_: Any,
    **__: Any,
) -> dict[str, Any]:
    """Where a TCPStore that is being made meets the others, from the arguments of its constructor."""
    place = {"hostname": host_name, "port": port, "world_size": world_size or 0, "rank": 0 if is_master else -1}
    return {"operation": "the rendezvous", "meeting": place}


def _patient(init: Callable[..., Any]) -> Callable[..., Any]:
    """Let a client wait for its server's port for a moment. torch's own client, refused once, sleeps for half a second
    and more, so that ranks which start together would often lose most of a run to that sleep."""

    @functools.wraps(init)
    def patient_init(store: Any, *args: Any, **kwargs: Any) -> None:
        place = _meeting(store, *args, **kwargs)["meeting"]
        if place["rank"] != 0:
            until = time.monotonic() + PATIENCE
            while not _serving(place["port"]) and time.monotonic() < until:
                time.sleep(0.01)
        init(store, *args, **kwargs)

    return patient_init


def _serving(port: int) -> bool:
    """Whether a server on this machine has accepted a connection on a port: the first is that of rank 0 itself. A
    client that comes between the opening of the port and that moment can lose its first message, and tries again only
    after five seconds. Looks at the kernel's tables without connecting. True where there are none."""
    try:
        tables = [Path(name).read_text().splitlines()[1:] for name in ("/proc/net/tcp", "/proc/net/tcp6")]
    except OSError:
        return True
    rows = (line.split() for table in tables for line in table)
    return any(row[3] == ESTABLISHED and row[9] != "0" and int(row[1].rpartition(":")[2], 16) == port for row in rows)


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


def _posted(name: str, function: Callable[..., Any], any_source: bool = False) -> Callable[..., Any]:
    """Remember peer and tag of a point-to-point message until somebody waits for it."""

    def describe(group: Any, tensors: Any, *args: Any) -> dict[str, Any]:
        peer, tag = (None, args[0] if args else 0) if any_source else (args[0], args[1] if len(args) > 1 else 0)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return {"operation": name, "peer": peer, "tag": tag, "bytes": size, "group": _group_name(group)}

    watched = _watched(function, describe)

    @functools.wraps(function)
    def ranklings_post(group: Any, tensors: Any, *args: Any) -> Any:
        work = watched(group, tensors, *args)
        if work is not None:
            _sent[work] = describe(group, tensors, *args)
        return work

    return ranklings_post


def _group_name(group: Any) -> str:
    import torch.distributed as dist

    try:
        return "default" if dist.group.WORLD is group else str(group.group_desc or group.group_name)
    except Exception:  # a group that is half torn down has no name; the wait is still worth telling
        return "unnamed"


def snapshot(main: int, own: set[int], student_file: str) -> dict[str, Any]:
    """What every Python thread of this rank does now, as JSON-able data. `own` are threads of the grader."""
    pending = pending_collectives()
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident not in own}
    threads = [_thread(ident, frame, ident == main, pending, student_file) for ident, frame in frames.items()]
    return {"threads": threads, "pending": pending}


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
    state = _state(frame, posted, pending)
    wait = _describe(stack, posted, pending) if state == "communication" else None
    return {"main": is_main, "state": state, "wait": wait, "stack": stack, "rendezvous": _rendezvous(frame, posted)}


def _rendezvous(frame: FrameType | None, posted: dict[str, Any] | None) -> dict[str, Any] | None:
    """Where a thread meets the others, if it is inside init_process_group: read from the arguments of torch's own
    functions. A rank that looks for a server which is not up yet sleeps and retries, so being asleep says nothing."""
    found: dict[str, Any] | None = posted.get("meeting") if posted else None
    while frame is not None:
        if DISTRIBUTED in frame.f_code.co_filename and frame.f_code.co_name in RENDEZVOUS:
            local = frame.f_locals
            here = {
                key: local[key]
                for key in ("hostname", "port", "rank", "world_size")
                if type(local.get(key)) in (int, str)
            }
            found = {**here, **(found or {})}
        frame = frame.f_back
    return found


def _state(frame: FrameType, posted: dict[str, Any] | None, pending: list[Any]) -> str:
    file = frame.f_code.co_filename
    if posted is not None or DISTRIBUTED in file or (pending and TORCH in file):
        return "communication"
    if os.path.basename(file) in PASSIVE_FILES and frame.f_locals.get("timeout", None) in (None, -1):
        return "passive"
    return "busy"


def _describe(stack: list[list[Any]], posted: dict[str, Any] | None, pending: list[Any]) -> dict[str, Any]:
    called = _called_by_student(stack)
    if posted is not None and "peer" in posted:
        return {**posted, "called": called}
    if pending:
        return {**pending[0], "called": called}
    return {"operation": called or "communication", "called": called}


def _called_by_student(stack: list[list[Any]]) -> str:
    """The function that the student's innermost line called, by the name that he knows it under."""
    if not any(row[3] for row in stack):
        return ""
    inner = len(stack) - next((i for i, row in enumerate(reversed(stack)) if row[3]), len(stack))
    for _, _, function, _ in stack[inner:]:
        name = str(function)
        if not name.startswith(("_exception_logger", "_time_logger", "Module._", "_watched", "_posted")):
            return name.removesuffix(".__init__").removeprefix("Tensor.").rpartition(".<locals>.")[2]
    if any(str(row[2]).endswith("ranklings_wait") for row in stack[-1:]):
        return "wait"
    return ""


def pending_collectives() -> list[dict[str, Any]]:
    """Collectives that this rank has launched and that have not completed, oldest first."""
    unfinished = (e for e in flight_recorder() if not e.get("retired") and e.get("state") != "completed")
    return [_entry(entry) for entry in unfinished if not entry.get("is_p2p")]


def flight_recorder() -> list[dict[str, Any]]:
    """The Flight Recorder's entries, or [] where this torch has none."""
    return list(_recorded().get("entries", []))


def _recorded() -> dict[str, Any]:
    dump = flight_recorder_dump()
    if dump is None:
        return {}
    try:
        return dict(pickle.loads(dump(True, False, False)))
    except (TypeError, RuntimeError, ValueError, AttributeError):
        return {}


def history(began: int, world_size: int) -> dict[str, Any] | None:
    """The last collectives that this rank has launched, as a plain trace: what a rank can tell in a case without a
    trace. None where this torch's recorder tells other things than expected: it is private, and for show only."""
    try:
        return _history(_recorded(), began, world_size)
    except Exception:
        return None


def _history(recorded: dict[str, Any], began: int, world_size: int) -> dict[str, Any]:
    """The Flight Recorder knows no ends of gloo's: one that is over is said to last until the next."""
    entries = [entry for entry in recorded.get("entries", []) if not entry.get("is_p2p")][-MAX_HISTORY:]
    # Its moments are of the time of day, ours count from the start of the run.
    origin = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns() + began
    starts = [(entry["time_created_ns"] - origin) / 1e9 for entry in entries]
    laters = [*starts[1:], *starts[-1:]]
    over = [bool(entry.get("retired") or entry.get("state") == "completed") for entry in entries]
    ends = [later if any(over[place:]) else None for place, later in enumerate(laters)]
    groups = {name: group.get("ranks", "") for name, group in recorded.get("pg_config", {}).items()}
    told = zip(entries, starts, ends, strict=True)
    return {
        "communications": [_event(entry, groups, world_size, start, end) for entry, start, end in told],
        "spans": [],
        "complete": len(entries) < MAX_HISTORY,
    }


def _event(
    entry: dict[str, Any], groups: dict[str, str], world_size: int, start: float, end: float | None
) -> dict[str, Any]:
    told = _entry(entry)
    name, kind = str((entry.get("process_group") or ("", ""))[0]), (told["dtypes"] or [""])[0]
    found = [int(rank) for rank in groups.get(name, "").strip("[] ").split(",") if rank.strip().isdigit()]
    numbers = sum(math.prod(size) for size in told["sizes"])
    return {
        "operation": OPERATIONS.get(told["operation"], told["operation"]),
        "bytes": numbers * SIZES.get(kind, 0),
        "dtype": kind.lower(),
        "group": found or list(range(world_size)),
        "start": start,
        "end": end,
        **dict.fromkeys(("peer", "line", "backward", "remaining")),
    }


def flight_recorder_dump() -> Callable[..., bytes] | None:
    """torch's function that dumps the Flight Recorder. It is private, so older names are tried, and none will do: then
    a rank that waits in C++ (in backward, say) is told only when its deadline has passed."""
    import torch._C._distributed_c10d as c10d

    return getattr(c10d, "_dump_fr_trace", None) or getattr(c10d, "_dump_nccl_trace", None)


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    group = entry.get("process_group") or ("", "default_pg")
    named = group[1] if group[1] not in ("", "undefined") else f"group {group[0]}"
    name = "default" if group[1] == "default_pg" else str(named)
    return {
        "operation": str(entry.get("profiling_name", "")).rpartition(":")[2],
        "group": name,
        "sequence": entry.get("collective_seq_id"),
        "sizes": entry.get("input_sizes", []),
        "dtypes": entry.get("input_dtypes", []),
    }
