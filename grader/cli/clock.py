"""The time of day, for what a person has done when. No verdict depends on it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def timestamp() -> float:
    """The same in seconds since 1970, as a ledger keeps it."""
    return now().timestamp()
