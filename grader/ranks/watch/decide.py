"""When do ranks wait for something that no rank will ever do? Pure: snapshots in, waits out.

A snapshot says of each Python thread of a rank whether it sits in communication, waits for another thread of its own
process (passive) or does anything else (busy: computing, sleeping, reading a file). The caller has seen that all
ranks are asleep and no message is on its way (`quiet`). Then nothing can move the ranks if every live one sits in
communication and none has a busy thread. One exemption guards against a mistake in that reasoning: if all members of
the default group sit in the same collective, the caller must have seen quiet for much longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.model import Wait

Snapshot = Mapping[str, Any]

QUIET = 0.5
"""Seconds of quiet that make a deadlock."""
QUIET_AFTER_AN_ENDING = 0.25
"""Seconds of quiet where some rank has already ended, so that the others wait for one that is gone."""
UNCHANGED = 0.8
"""Seconds between two looks that must see the same where ranks meet in vain, or wait for one that has failed."""
QUIET_IF_MATCHED = 5.0
"""Seconds of quiet where all ranks sit in the same collective, which should complete."""

_SIZES = {"Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}


def waits(snapshots: Mapping[int, Snapshot]) -> dict[int, Wait] | None:
    """What each live rank waits in, or None if one of them may still move by itself."""
    found: dict[int, Wait] = {}
    for rank, snapshot in snapshots.items():
        threads = snapshot["threads"]
        sitting = [thread for thread in threads if thread["state"] == "communication"]
        if not sitting or any(thread["state"] == "busy" for thread in threads):
            return None
        chosen = next((thread for thread in sitting if thread["main"]), sitting[0])
        found[rank] = wait_of(chosen["wait"])
    return found or None


def meeting_fails(snapshots: Mapping[int, Snapshot]) -> bool:
    """True if ranks wait in init_process_group for a meeting that cannot come about: at some address there are fewer
    ranks than its world size or there is no rank 0, and all ranks sit in communication, so that none will come."""
    if waits(snapshots) is None:
        return False
    places = [place for snapshot in snapshots.values() if (place := _meeting(snapshot))]
    wanderers = sum("port" not in place for place in places)  # past the store: they have met at some port
    meetings: dict[Any, list[Mapping[str, Any]]] = {}
    for place in places:
        if "port" in place:
            meetings.setdefault(place["port"], []).append(place)
    return any(_short_handed(members, wanderers) for members in meetings.values())


def _meeting(snapshot: Snapshot) -> Mapping[str, Any] | None:
    return next((thread["rendezvous"] for thread in snapshot["threads"] if thread.get("rendezvous")), None)


def _short_handed(members: list[Mapping[str, Any]], wanderers: int) -> bool:
    needed = max(member.get("world_size", 0) for member in members)
    served = wanderers > 0 or any(member.get("rank") == 0 for member in members)
    return len(members) + wanderers < needed or not served


def in_rendezvous(snapshots: Mapping[int, Snapshot]) -> bool:
    """True if some rank is inside init_process_group, where sleeping threads are no sign of a deadlock."""
    return any(_meeting(snapshot) for snapshot in snapshots.values())


def quiet_needed(found: Mapping[int, Wait], world_size: int) -> float:
    """Seconds of quiet after which these waits are a deadlock."""
    if len(found) < world_size:
        return QUIET_AFTER_AN_ENDING
    return QUIET_IF_MATCHED if matched(found) else QUIET


def matched(found: Mapping[int, Wait]) -> bool:
    """True if all sit in the same collective with the same number in its group and the same size."""
    keys = {(w.operation, w.group, w.sequence, w.bytes) for w in found.values()}
    return len(keys) == 1 and next(iter(keys))[2] is not None


def wait_of(raw: Mapping[str, Any]) -> Wait:
    """A Wait from what the recorder said in the rank."""
    operation, called = str(raw.get("operation", "")), str(raw.get("called") or "")
    if called and not _same(operation, called):
        operation = f"{operation} (called by {called})" if operation else called
    return Wait(
        operation=_with_peer(operation, raw.get("peer")),
        group=str(raw.get("group", "default")),
        sequence=raw.get("sequence"),
        bytes=raw.get("bytes", _bytes(raw)),
        peer=raw.get("peer"),
        tag=raw.get("tag"),
    )


def _same(operation: str, called: str) -> bool:
    plain = operation.strip("_").replace("_", "")
    return called in (operation, "wait") or plain == called.strip("_").replace("_", "")


def _with_peer(operation: str, peer: int | None) -> str:
    if peer is None:
        return operation
    return operation.replace("send", f"send to rank {peer}", 1).replace("recv", f"recv from rank {peer}", 1)


def _bytes(raw: Mapping[str, Any]) -> int | None:
    sizes, dtypes = raw.get("sizes"), raw.get("dtypes")
    if not sizes or not dtypes:
        return None
    total = 0
    for shape, dtype in zip(sizes, dtypes, strict=False):
        numel = 1
        for size in shape:
            numel *= size
        total += numel * _SIZES.get(dtype, 1)
    return total
