"""What saves and a worker's events do to the State. Pure.

A burst of saves is graded once, and not by waiting: the first of them calls off what runs, the others only say again
that there is something to grade, and the worker's word that it is free begins it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grader.model import Report
from grader.practice.watch.nouns import (
    Cancel,
    Ended,
    Grade,
    LiveCase,
    Open,
    Phase,
    Row,
    Said,
    Saved,
    Start,
    State,
)


def request(state: State, wanted: Grade) -> State:
    """Grade as soon as that is possible; what runs now is called off."""
    if state.missing:
        return replace(state, wanted=None, notice=f"{state.path.name} is missing; save it, or press x for the stub.")
    if state.phase is Phase.IDLE:
        return _begun(state, wanted)
    if state.phase is Phase.DOWN:
        return _begun(started(state), wanted)
    return replace(called_off(state), wanted=wanted)


def started(state: State) -> State:
    """With a new worker, whose grades are counted from one."""
    number = state.worker + 1
    start = Start(worker=number, name=state.exercise.name)
    return replace(
        state, worker=number, grade=0, ready=False, phase=Phase.IDLE, fault="", effects=(*state.effects, start)
    )


def called_off(state: State) -> State:
    """What runs is to end; saying so once is enough."""
    if state.phase is not Phase.RUNNING:
        return state
    return replace(state, phase=Phase.CANCELLING, live=(), effects=(*state.effects, Cancel()))


def _begun(state: State, wanted: Grade) -> State:
    rows = tuple(replace(row, outcome=None, message="", before=row.outcome or row.before) for row in state.rows)
    return replace(
        state,
        phase=Phase.RUNNING,
        grade=state.grade + 1,
        running=wanted,
        wanted=None,
        rows=rows,
        cases=(),
        done=frozenset(),
        live=(),
        began=False,
        times=None,
        fault="",
        effects=(*state.effects, wanted),
    )


def saved(state: State, event: Saved) -> State:
    """The file was saved. Editors write more than once; what holds the same as what is being graded changes nothing."""
    if event.digest is None:
        gone = replace(state, digest=None, wanted=None, notice=f"{state.path.name} is gone; waiting for it.")
        return called_off(gone)
    if event.digest == state.digest and state.busy:
        return state
    return request(replace(state, digest=event.digest, notice=""), Grade(seed=state.fixed_seed))


def ended(state: State, event: Ended) -> State:
    """The worker is no more. Not started again by itself: what ended it may do so again."""
    fault = event.reason or "The process that grades has ended."
    return replace(state, phase=Phase.DOWN, live=(), wanted=None, open_trace=False, fault=fault)


def heard(state: State, said: Said) -> State:
    """What a worker said of the grade that is under way; of an earlier one nothing counts any more."""
    if said.event.get("event") == "ready":
        return replace(state, ready=True)
    if not state.busy or said.event.get("grade") != state.grade:
        return state
    match said.event:
        case {"event": "report", "first": first, "seconds": seconds} if said.report:
            return _free(_reported(state, said.report, (first, seconds)))
        case {"event": "cancelled"}:
            return _free(state)
        case {"event": "fault", "sentence": sentence}:
            return _free(replace(state, fault=sentence, open_trace=False))
    return _progress(state, said.event) if state.phase is Phase.RUNNING else state


def _free(state: State) -> State:
    """The worker has nothing to do."""
    state = replace(state, phase=Phase.IDLE, live=(), running=None)
    return request(state, state.wanted) if state.wanted else state


def _progress(state: State, event: Mapping[str, Any]) -> State:
    match event:
        case {"event": "began", "seed": seed, "checks": checks, "cases": cases}:
            rows = _rows(state.rows, checks)
            return replace(state, began=True, ready=True, seed=seed, rows=rows, cases=tuple(cases), done=frozenset())
        case {"event": "live", "case": case, "ranks": ranks}:
            return replace(state, live=_live(state.live, case, ranks))
        case {"event": "run", "case": case}:
            return replace(state, done=state.done | {case} & set(state.cases), live=_live(state.live, case, ()))
        case {"event": "verdict", "check": check, "outcome": outcome, "message": message}:
            return replace(state, rows=tuple(_judged(row, check, outcome, message) for row in state.rows))
    return state


def _rows(before: Sequence[Row], checks: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    """A row for each check, with what is known of it from before: the manifest may have been edited."""
    known = {row.id: row for row in before}
    return tuple(
        replace(known.get(check["id"], Row(id=check["id"], title="", points=0)), **check, outcome=None)
        for check in checks
    )


def _live(before: tuple[LiveCase, ...], case: str, ranks: Sequence[Mapping[str, Any]]) -> tuple[LiveCase, ...]:
    """Cases in the order in which they came to a stand; one without ranks moves again."""
    now = LiveCase(case=case, ranks=tuple((rank["rank"], rank["told"], rank["line"]) for rank in ranks))
    if any(live.case == case for live in before):
        found = tuple(now if live.case == case else live for live in before)
    else:
        found = (*before, now)
    return tuple(live for live in found if live.ranks)


def _judged(row: Row, check: str, outcome: str, message: str) -> Row:
    return replace(row, outcome=outcome, message=message) if row.id == check else row


def _reported(state: State, report: Report, times: tuple[float, float]) -> State:
    known = {row.id: row for row in state.rows}
    rows = tuple(
        Row(
            id=verdict.check.id,
            title=verdict.check.title,
            points=verdict.check.points,
            outcome=verdict.outcome.value,
            before=known[verdict.check.id].before if verdict.check.id in known else None,
            message=verdict.message,
        )
        for verdict in report.verdicts
    )
    effects = (*state.effects, Open(kind="trace", report=report)) if state.open_trace else state.effects
    return replace(
        state,
        rows=rows,
        report=report,
        seed=report.seed,
        times=times,
        attempts=state.attempts + 1,
        open_trace=False,
        effects=effects,
    )
