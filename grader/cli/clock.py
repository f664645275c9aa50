"""The time of day, for what a person has done when. No verdict depends on it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)
