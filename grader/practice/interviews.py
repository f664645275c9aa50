"""The interviews that were held, as the store keeps them."""

from __future__ import annotations

import contextlib

from grader.practice.store import Store
from grader.quiz.interview import state
from grader.quiz.interview.state import Interview


def held(store: Store) -> list[Interview]:
    """All interviews, the oldest first. One that cannot be read is passed over."""
    found = []
    for _, content in store.interviews():
        with contextlib.suppress(LookupError, TypeError, ValueError):
            found.append(state.read(content))
    return found


def keep(interview: Interview, store: Store) -> None:
    store.keep_interview(interview.name, interview.spans[0][0], state.as_json(interview))
