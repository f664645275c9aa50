"""How far a batch has come, as its ledger says: also while a driver is at work on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from grader.batch import folder, pace
from grader.batch.ledger import FILE, Ledger
from grader.batch.row import Standing
from grader.model.words import amount, count

LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """How many units stand where. `entries` are hand-ins of an exercise, of which identical ones share a unit."""

    entries: int
    units: int
    waiting: int
    final: int
    broken: int
    quarantined: int
    unstable: int

    def __add__(self, other: Standings) -> Standings:
        names = self.__slots__
        return Standings(**{name: getattr(self, name) + getattr(other, name) for name in names})


def standings(ledger: Ledger, only: Collection[str] = ()) -> Standings:
    """Those of the plan in force, or of some people's hand-ins in it."""
    plan = ledger.plan()
    number = plan["plan"] if plan else 0
    chosen = f" AND who IN ({', '.join('?' * len(only))})" if only else ""
    values = [number, *only]
    rows = ledger.all(
        "SELECT standing, COUNT(*) AS number, SUM(unstable) AS unstable FROM units WHERE unit IN "
        f"(SELECT unit FROM entries WHERE plan = ?{chosen}) GROUP BY standing",
        values,
    )
    found = {row["standing"]: row["number"] for row in rows}
    return Standings(
        entries=int(ledger.number(f"SELECT COUNT(*) FROM entries WHERE plan = ?{chosen}", values)),
        units=sum(found.values()),
        waiting=found.get(Standing.EXPECTED.value, 0),
        final=found.get(Standing.FINAL.value, 0),
        broken=found.get(Standing.BROKEN.value, 0),
        quarantined=found.get(Standing.QUARANTINED.value, 0),
        unstable=sum(row["unstable"] for row in rows),
    )


def page(ledger: Ledger, only: Collection[str] = (), done: int | None = None) -> str:
    """What a round came to, which graded `done` units; or with None how the batch stands."""
    found = standings(ledger, only)
    lines = [sentence(found)]
    if done is not None:
        lines.append(f"{count(done, 'unit')} graded by this call; {_next_step(ledger)}.")
    return "\n".join([*lines, *faults(ledger)]) + "\n"


def _next_step(ledger: Ledger) -> str:
    if ledger.path.name != FILE:
        return f"`batch merge {ledger.folder}` joins the parts"
    return f"`batch gradebook {ledger.folder} --out FILE` writes the marks"


def sentence(found: Standings) -> str:
    """All numbers, which come to the first one."""
    identical = found.entries - found.units
    hand_ins = count(found.entries, "hand-in") + (f" ({count(found.units, 'different one')})" if identical else "")
    return (
        f"{hand_ins}: {found.final} graded, {found.broken} broken, {found.quarantined} quarantined, "
        f"{found.waiting} waiting; {found.unstable} unstable."
    )


def faults(ledger: Ledger) -> Iterator[str]:
    """Whose hand-ins have no mark though they were tried, and why."""
    plan = ledger.plan()
    rows = ledger.all(
        "SELECT e.who, u.exercise, u.standing, u.sentence FROM entries e JOIN units u ON u.unit = e.unit "
        "WHERE e.plan = ? AND u.standing IN ('broken', 'quarantined') ORDER BY e.exercise, e.who LIMIT ?",
        [plan["plan"] if plan else 0, LISTED],
    )
    for row in rows:
        reason = row["sentence"] or "a check could not be judged, as its report says."
        yield f"  {row['standing']}  {row['who']}  {row['exercise']}: {reason}"


def status(ledgers: Sequence[Ledger], now: float) -> str:
    """How the batch of these ledgers stands: the one of a folder, and those of its shards."""
    lines = []
    total: Standings | None = None
    for ledger in ledgers:
        found = standings(ledger)
        total = found if total is None else total + found
        at_work = folder.is_driven(ledger)
        what = f"{ledger.path.stem}: " if len(ledgers) > 1 else ""
        lines += [f"{what}{sentence(found)}", f"  {_pace(ledger, found, now, at_work)}", *faults(ledger)]
    if total is not None and len(ledgers) > 1:
        lines.append(f"together: {sentence(total)}")
    return "\n".join([*lines, _sizes(ledgers)]) + "\n"


def _pace(ledger: Ledger, found: Standings, now: float, at_work: bool) -> str:
    if not at_work:
        return "No driver is at work." + (" The command that began it goes on." if found.waiting else "")
    if (known := pace.known(ledger)) is None:
        return "A driver is at work."
    progress, begun = known
    return f"A driver is at work: {', '.join(pace.told(progress, now - begun))}."


def _sizes(ledgers: Sequence[Ledger]) -> str:
    runs = sum(
        ledger.number("SELECT SUM(runs_bytes) FROM (SELECT DISTINCT runs, runs_bytes FROM units)") for ledger in ledgers
    )
    return f"The recorded runs, from which all can be judged again, take {amount(runs)}."
