"""What PyTorch's Flight Recorder knows of this rank: collectives that have not completed, and the last that have.

Its functions and its format are private to torch. Where they are other than expected, it knows nothing, and no rank is
harmed.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from typing import Any

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
    from grader.kit.recorder import is_filler

    try:
        recorded = dict(pickle.loads(dump(True, False, False)))
        return {**recorded, "entries": [entry for entry in recorded.get("entries", []) if not is_filler(entry)]}
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


def group_called(name: str, description: str) -> str:
    """A group as a page names it: by its description, or by torch's own name where nobody has given it one."""
    if description == "default_pg":
        return "default"
    return description if description not in ("", "undefined") else f"group {name}"


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "operation": str(entry.get("profiling_name", "")).rpartition(":")[2],
        "group": group_called(*(entry.get("process_group") or ("", "default_pg"))[:2]),
        "sequence": entry.get("collective_seq_id"),
        "sizes": entry.get("input_sizes", []),
        "dtypes": entry.get("input_dtypes", []),
    }
