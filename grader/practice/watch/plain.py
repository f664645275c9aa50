"""Watch mode without a screen: lines in reading order, nothing painted over, for screen readers and logs."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import Event, LiveCase, Phase, Quit, Row, State
from grader.wording.marks import NO_MARK
from grader.wording.text import points

OUTCOMES = {"failed": "Failed", "blocked": "Blocked", "skipped": "Skipped", "broken": "At fault is the grader"}
SAVED = "Saved; grading."


def run(loop: Loop, events: queue.SimpleQueue[Event], say: Callable[[str], None]) -> None:
    """Say what happens until somebody quits; a burst of saves is told once. Raises KeyboardInterrupt at Ctrl-C."""
    last = ""
    for line in opening(loop.state):
        say(line)
    while not any(isinstance(effect, Quit) for effect in loop.state.effects):
        before = loop.handle(events.get())
        for line in changes(before, loop.state):
            if line != SAVED or line != last:
                say(line)
            last = line


def opening(state: State) -> Iterator[str]:
    """The first lines."""
    yield f"Watching {state.path}. Ctrl-C ends."
    yield "Grading." if state.busy else f"{state.path.name} is not there; waiting for a save."


def changes(before: State, after: State) -> Iterator[str]:
    """What an event changed, in lines."""
    if after.notice and after.notice != before.notice:
        yield after.notice
    if _asked(before, after):
        yield SAVED if after.digest != before.digest or after.wanted or before.wanted else "Grading."
    for case in after.live:
        if case not in before.live:
            yield from _live(case)
    yield from _verdicts(before, after)
    if after.fault and after.fault != before.fault:
        yield after.fault
        yield "Waiting for a save."
    if after.attempts > before.attempts:
        yield from _score(after)


def _asked(before: State, after: State) -> bool:
    """Whether a grade begins that was not announced: a cancelled one is announced with the next."""
    began = after.grade != before.grade or after.worker != before.worker
    return after.phase is Phase.RUNNING and began


def _live(case: LiveCase) -> Iterator[str]:
    yield case.head
    for rank, doing, line in case.ranks:
        yield f"  rank {rank} {doing}{f', line {line}' if line else ''}"


def _verdicts(before: State, after: State) -> Iterator[str]:
    """Each verdict that is new and not a pass."""
    known = {row.id: row.outcome for row in before.rows}
    for row in after.rows:
        if row.outcome not in (None, "passed", known.get(row.id)):
            yield from _verdict(row)


def _verdict(row: Row) -> Iterator[str]:
    first, *rest = row.message.splitlines() or [""]
    head = f"{OUTCOMES[row.outcome or 'failed']}: {row.title}"
    if row.outcome == "failed":
        yield head
        yield from (f"  {line}" for line in [first, *rest] if line.strip())
    else:
        yield f"{head} ({first})" if first else head


def _score(state: State) -> Iterator[str]:
    report = state.report
    assert report is not None
    passed = " Every check passed." if report.status == "passed" else ""
    score = f"Score {points(report.score)} of {points(report.max_score)}, seed {report.seed}.{passed}"
    yield NO_MARK if report.status == "error" else score
    if not state.busy:
        yield "Waiting for a save."
