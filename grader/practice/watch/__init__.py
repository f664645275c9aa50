"""`watch`: grade one exercise again at each save, and show verdicts as they come.

A worker process grades (grader.practice.worker), a thread listens for saves, and one pure model (`state`) turns what
happens into what is shown and what is done. It has two faces: a whole screen (`screen`) and plain lines (`plain`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
from collections.abc import Callable
from pathlib import Path

from grader import calling, catalog
from grader.model import Report
from grader.model.errors import RunError, UsageError
from grader.practice.watch.effects import Effects, Place
from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import Event
from grader.practice.watch.state import begin
from grader.wording.folding import for_stream

__all__ = ["run"]


def run(
    name: str,
    root: Path,
    *,
    submission: Path | None = None,
    sandbox: str = "auto",
    seed: int | None = None,
    plain: bool = False,
    on_report: Callable[[Report], None] = lambda report: None,
) -> int:
    """Watch an exercise until the person quits; the exit code is 0. `plain` says lines instead of painting a screen,
    as happens by itself where there is no terminal that can be painted on. `on_report` hears every complete report.

    Raises UsageError for a submission that is not there, and AuthorError where the exercise's folder is at fault.
    """
    if submission and not submission.exists():
        raise UsageError(f"There is no file or folder {submission}; check the path of the submission.")
    place = Place(root=root.absolute(), submission=submission.absolute() if submission else None, sandbox=sandbox)
    face = _plainly if plain or not paintable() else _on_a_screen
    face(name, place, seed, on_report)
    return 0


def paintable() -> bool:
    """Whether there is a terminal that can be painted on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")


def _loop(name: str, place: Place, seed: int | None, effects: Effects, on_report: Callable[[Report], None]) -> Loop:
    """The loop, with the first effects carried out."""
    loaded = place.load(name)
    names = catalog.all_names(place.root)
    given = place.submission is not None
    state = begin(loaded.exercise, loaded.path, names, digest=loaded.digest, submission=given, seed=seed)
    return Loop(state, effects, on_report)


def _plainly(name: str, place: Place, seed: int | None, on_report: Callable[[Report], None]) -> None:
    from grader.practice.watch import plain

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    effects = Effects(place, events.put)
    with contextlib.closing(effects), contextlib.suppress(KeyboardInterrupt):
        plain.run(_loop(name, place, seed, effects, on_report), events, _say)


def _say(line: str) -> None:
    print(for_stream(line, sys.stdout), flush=True)


def _on_a_screen(name: str, place: Place, seed: int | None, on_report: Callable[[Report], None]) -> None:
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    effects = Effects(place, events.put)
    with contextlib.closing(effects):
        loop = _loop(name, place, seed, effects, on_report)  # the worker starts here, and prepares while textual does
        from grader.practice.watch.screen import Screen

        screen = Screen(loop, events)
        screen.run()
    if screen.return_code:
        raise RunError(f"The screen went wrong, as the lines above say. {calling.option('--plain')} does without one.")
