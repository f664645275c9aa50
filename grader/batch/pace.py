"""How far a round is, how fast it goes and how long it will take: told by the driver, and kept in the ledger for who
asks from another shell, so that both say the same."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass

from grader.batch.agenda import duration
from grader.batch.ledger import Ledger

FACT = "round"


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a round is. `left` and `done` are in seconds of a slot, as they were expected."""

    units: int
    tasks: int
    slots: int
    left: float
    done: float = 0.0
    graded: int = 0
    broken: int = 0
    quarantined: int = 0
    unstable: int = 0
    lost: int = 0

    @property
    def settled(self) -> int:
        return self.graded + self.broken + self.quarantined


def told(progress: Progress, seconds: float) -> tuple[str, str]:
    """`12 a minute` and `4 min left`, after so many seconds."""
    rate = 60 * progress.settled / seconds if seconds > 0 else 0.0
    return f"{rate:.3g} a minute", f"{duration(time_left(progress, seconds))} left"


def time_left(progress: Progress, seconds: float) -> float:
    """What is left, as long as what was done took; before anything is done, as long as it is expected to take."""
    if not progress.done:
        return progress.left / max(1, progress.slots)
    return max(0.0, progress.left) * seconds / progress.done


def fact(progress: Progress, begun: float) -> tuple[str, str]:
    """What the ledger keeps of a round that began at this time of day."""
    return FACT, json.dumps([begun, asdict(progress)])


def ended() -> tuple[str, str]:
    """The same once it is over, for another command may hold the ledger then."""
    return FACT, ""


def known(ledger: Ledger) -> tuple[Progress, float] | None:
    """The round that is at work and when it began, as the ledger has it."""
    with contextlib.suppress(ValueError, TypeError):
        begun, fields = json.loads(ledger.facts().get(FACT, ""))
        return Progress(**fields), begun
    return None
