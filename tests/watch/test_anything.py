"""The model of watch mode: whatever happens, in any order."""

from __future__ import annotations

import queue

from hypothesis import given, settings
from hypothesis import strategies as st

from grader.practice.overview import Entry
from grader.practice.watch import plain
from grader.practice.watch.keys import KEYS
from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import Ended, Event, Grade, Key, Listed, Notice, Said, Saved
from grader.practice.watch.state import advance
from tests import reports
from tests.watch.states import CASES, CHECKS, NAMES, STUCK, fresh, shown

names = st.sampled_from([*KEYS, "yes", "enter", "escape", "other"])
facts = st.sampled_from(
    [
        {"event": "ready"},
        {"event": "began", "seed": 3, "checks": CHECKS, "cases": CASES},
        {"event": "case", "case": "train[1]"},
        {"event": "live", "case": "train[2]", "ranks": STUCK},
        {"event": "run", "case": "train[2]", "seconds": 0.1, "diagnosis": None},
        {"event": "verdict", "check": "runs", "outcome": "failed", "score": 0.0, "message": "no"},
        {"event": "verdict", "check": "leaves", "outcome": "passed", "score": 7.5, "message": ""},
        {"event": "report", "first": 0.1, "seconds": 0.2},
        {"event": "cancelled"},
        {"event": "fault", "sentence": "no room"},
    ]
)
steps = st.one_of(
    st.builds(Key, name=names),
    st.builds(Saved, digest=st.sampled_from(["a", "b", None])),
    st.builds(lambda fact, grade: ("said", fact, grade), facts, st.integers(-1, 0)),
    st.just(Ended(worker=1)),
    st.just(Notice(text="done")),
    st.just(Listed(entries=tuple(Entry(name=name, exercise=None) for name in NAMES))),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_whatever_happens_it_goes_on_and_can_be_shown(happened):
    """At most one grade is ever under way, and every state has a page."""
    state, under_way = fresh(), 1
    for step in happened:
        if isinstance(step, tuple):
            _, fact, grade = step
            report = reports.partial() if fact["event"] == "report" else None
            counts = grade == 0 and state.busy and fact["event"] in ("report", "cancelled", "fault")
            event: Event = Said(worker=state.worker, event={**fact, "grade": state.grade + grade}, report=report)
            under_way -= counts
        else:
            event = step
            under_way = 0 if isinstance(step, Ended) and step.worker == state.worker else under_way
        before, state = state, advance(state, event)
        under_way += sum(isinstance(order, Grade) for order in state.effects)
        assert under_way in (0, 1) and (under_way == 1) == state.busy
        shown(state, 40)
        list(plain.changes(before, state))


def test_a_burst_of_saves_is_told_once():
    """Where each save calls off the grade of the one before, the lines would say nothing new."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    for grade, digest in enumerate("bcdef", start=1):
        events.put(Saved(digest=digest))
        events.put(Said(worker=1, event={"event": "cancelled", "grade": grade}))
    events.put(Key(name="quit"))
    said: list[str] = []
    plain.run(Loop(fresh(), Idle(), lambda report: None), events, said.append)  # type: ignore[arg-type]
    assert said.count("Saved; grading.") == 1


class Idle:
    """Effects that do nothing."""

    def carry_out(self, order: object) -> None: ...
