"""When do ranks wait for something that no rank will ever do? Pure: evidence in, waits out.

A snapshot says of each Python thread of a rank whether it sits in communication, waits for another thread of its own
process (passive) or does anything else (busy: computing, sleeping, reading a file). The evidence says that all ranks
are asleep and no message is on its way. Then nothing can move the ranks if every live one sits in
communication and none has a busy thread. One exemption guards against a mistake in that reasoning: if all members of
the default group sit in the same collective, they must have been quiet for much longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from grader.model import Ending, Finished, Wait
from grader.ranks.watch.evidence import Evidence, Meeting, Snapshot

QUIET = 0.5
"""Seconds of quiet that make a deadlock."""
QUIET_AFTER_AN_ENDING = 0.25
"""Seconds of quiet where some rank has already ended, so that the others wait for one that is gone."""
UNCHANGED = 0.8
"""Seconds between two looks that must see the same where ranks meet in vain, or wait for one that has failed."""
QUIET_IF_MATCHED = 5.0
"""Seconds of quiet where all ranks sit in the same collective, which should complete, or have met and are joining."""

GRACE = 3.0
"""Seconds that busy ranks get after another has failed, before they are stopped."""
GRACE_OF_SURVIVORS = 20.0
"""The same where the probe has ended that one on purpose, and what the others do next is what the case is about."""


def waits(snapshots: Mapping[int, Snapshot]) -> dict[int, Wait] | None:
    """What each live rank waits in, or None if one of them may still move by itself."""
    found: dict[int, Wait] = {}
    for rank, snapshot in snapshots.items():
        sitting = [(thread, thread.wait) for thread in snapshot if thread.wait is not None]
        if not sitting or any(thread.state == "busy" for thread in snapshot):
            return None
        found[rank] = next((wait for thread, wait in sitting if thread.main), sitting[0][1])
    return found or None


def meeting_fails(snapshots: Mapping[int, Snapshot]) -> bool:
    """True if ranks wait in init_process_group for a meeting that cannot come about: at some address there are fewer
    ranks than its world size or there is no rank 0, and all ranks sit in communication, so that none will come."""
    if waits(snapshots) is None:
        return False
    places = [place for snapshot in snapshots.values() if (place := _meeting(snapshot))]
    wanderers = sum(place.port is None for place in places)  # past the store: they have met at some port
    meetings: dict[int, list[Meeting]] = {}
    for place in places:
        if place.port is not None:
            meetings.setdefault(place.port, []).append(place)
    return any(_short_handed(members, wanderers) for members in meetings.values())


def _meeting(snapshot: Snapshot) -> Meeting | None:
    return next((thread.meeting for thread in snapshot if thread.meeting is not None), None)


def _short_handed(members: list[Meeting], wanderers: int) -> bool:
    needed = max(member.world_size for member in members)
    served = wanderers > 0 or any(member.rank == 0 for member in members)
    return len(members) + wanderers < needed or not served


def in_rendezvous(snapshots: Mapping[int, Snapshot]) -> bool:
    """True if some rank is inside init_process_group, where sleeping threads alone are no sign of a deadlock."""
    return any(_meeting(snapshot) for snapshot in snapshots.values())


def have_met(snapshots: Mapping[int, Snapshot]) -> bool:
    """True if the ranks inside init_process_group are all past their store, where they sleep until the others have
    written there: so they wait for one another, as in any collective."""
    return all(place is None or place.port is None for place in map(_meeting, snapshots.values()))


def quiet_needed(found: Mapping[int, Wait], world_size: int) -> float:
    """Seconds of quiet after which these waits are a deadlock."""
    if len(found) < world_size:
        return QUIET_AFTER_AN_ENDING
    return QUIET_IF_MATCHED if matched(found) else QUIET


def matched(found: Mapping[int, Wait]) -> bool:
    """True if all sit in the same collective with the same number in its group and the same size."""
    keys = {(w.operation, w.group, w.sequence, w.bytes) for w in found.values()}
    return len(keys) == 1 and next(iter(keys))[2] is not None


def grace_is_over(endings: Iterable[Ending | None], seconds: float, *, crashes: bool) -> bool:
    """Whether busy ranks have had their time, `seconds` after the run began, because another one has failed: on purpose
    where the case `crashes`."""
    failures = [ending.seconds for ending in endings if ending is not None and not isinstance(ending, Finished)]
    return bool(failures) and seconds - min(failures) > (GRACE_OF_SURVIVORS if crashes else GRACE)


class DeadlockRule:
    """When the ranks of one run are deadlocked. It keeps what the looks before have seen, and nothing else."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._asked = -math.inf
        self._seen: tuple[float, Mapping[int, Wait] | None] = (0.0, None)

    def look(self, evidence: Evidence) -> Mapping[int, Wait]:
        """What each rank waits in, if these are deadlocked; else nothing."""
        everybody = evidence.live == self._world_size
        if evidence.quiet() >= (QUIET if everybody else QUIET_AFTER_AN_ENDING):
            return self._sleepers(evidence)
        if evidence.idle() >= UNCHANGED and evidence.now() - self._asked >= UNCHANGED / 2:  # asking wakes them
            return self._idlers(evidence, self._ask(evidence))
        return {}

    def _ask(self, evidence: Evidence) -> Mapping[int, Snapshot]:
        self._asked = evidence.now()
        return evidence.ask()

    def _sleepers(self, evidence: Evidence) -> Mapping[int, Wait]:
        """All are asleep: nothing can move them if all sit in communication."""
        snapshots = self._ask(evidence)
        found = waits(snapshots)
        meeting = in_rendezvous(snapshots)
        if not found or (meeting and not have_met(snapshots)):
            evidence.forget()  # ask again only after another spell of quiet
            return self._idlers(evidence, snapshots)
        needed = QUIET_IF_MATCHED if meeting else quiet_needed(found, self._world_size)
        return found if evidence.quiet() >= needed else {}

    def _idlers(self, evidence: Evidence, snapshots: Mapping[int, Snapshot]) -> Mapping[int, Wait]:
        """Some wake up now and then to try again: stuck if they meet in vain, or if a rank has failed meanwhile, and
        nothing has changed since an earlier look."""
        found = waits(snapshots)
        stuck = found if found and (evidence.failed or meeting_fails(snapshots)) else None
        since, before = self._seen
        if stuck is None or stuck != before:
            self._seen = evidence.now(), stuck
            return {}
        return stuck if evidence.now() - since >= UNCHANGED else {}
