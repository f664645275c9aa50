"""The one model of both faces of watch mode: events and keys in, a frozen State out, and effects to be carried out.

state = begin(exercise, path, names, digest=…)
state = advance(state, Saved(digest="…"))
state.effects      # (Grade(seed=None, trace=False),)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.model import Exercise
from grader.practice.watch import grading, keys
from grader.practice.watch.nouns import (
    Chosen,
    Ended,
    Event,
    Grade,
    Key,
    Listed,
    Loaded,
    Notice,
    Overlay,
    Phase,
    Row,
    Said,
    Saved,
    State,
    Watch,
)

__all__ = ["Phase", "State", "advance", "begin"]


def begin(
    exercise: Exercise,
    path: Path,
    names: Sequence[str],
    *,
    digest: str | None,
    submission: bool = False,
    seed: int | None = None,
    worker: int = 0,
) -> State:
    """At the start, and after a change of exercise: a new worker, and the file as it is is graded at once."""
    state = State(
        exercise=exercise,
        path=path,
        names=tuple(names),
        submission=submission,
        fixed_seed=seed,
        worker=worker,
        digest=digest,
        rows=tuple(_row(check.id, check.title, check.points) for check in exercise.checks),
        effects=(Watch(exercise=exercise, digest=digest),),
    )
    return grading.request(grading.started(state), Grade(seed=seed))


def _row(id: str, title: str, points: float) -> Row:
    return Row(id=id, title=title, points=points)


def advance(state: State, event: Event) -> State:
    """The State after an event. `effects` holds what this event asks to be done and nothing older."""
    state = replace(state, effects=())
    match event:
        case Saved():
            return grading.saved(state, event)
        case Said() if event.worker == state.worker:
            return grading.heard(state, event)
        case Ended() if event.worker == state.worker:
            return grading.ended(state, event)
        case Key():
            return keys.pressed(state, event.name)
        case Chosen():
            return replace(state, chosen=event.check)
        case Loaded():
            return _moved_to(state, event)
        case Listed():
            return _listed(state, event)
        case Notice():
            return replace(state, notice=event.text)
    return state


def _moved_to(state: State, event: Loaded) -> State:
    return begin(
        event.exercise,
        event.path,
        state.names,
        digest=event.digest,
        submission=state.submission,
        seed=state.fixed_seed,
        worker=state.worker,
    )


def _listed(state: State, event: Listed) -> State:
    names = [entry.name for entry in event.entries]
    if event.since and names == [entry.name for entry in state.entries]:
        return replace(state, entries=event.entries)
    here = names.index(state.exercise.name) if state.exercise.name in names else 0
    shown = not event.since or state.overlay is Overlay.LIST
    overlay = (Overlay.LIST if names else Overlay.NONE) if shown else state.overlay
    return replace(state, overlay=overlay, entries=event.entries, cursor=here, names=tuple(names))
