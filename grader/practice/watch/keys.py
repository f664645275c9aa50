"""What keys do to the State. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from grader.model import Report
from grader.practice.watch.grading import request
from grader.practice.watch.nouns import Copy, Grade, List, Load, Open, Overlay, Quit, Reset, State

SAME_SEED = "the same seed"
KEYS: Mapping[str, tuple[str, str]] = {
    "up": ("↑ k", "the check above"),
    "down": ("↓ j", "the check below"),
    "escape": ("Esc", "the first check that fails"),
    "hint": ("h", "a hint for the selected check, up to three"),
    "rerun": ("r", "grade again"),
    "replay": ("R", f"grade again with {SAME_SEED}"),
    "place": ("e", "where the selected check fails, copied as path:line"),
    "report": ("o", "open the report as a page"),
    "trace": ("t", "write the ranks' timelines for Perfetto"),
    "next": ("n", "next exercise"),
    "previous": ("p", "previous exercise"),
    "list": ("l", "list of exercises"),
    "reset": ("x", "put the stub back (asks first)"),
    "help": ("?", "this help"),
    "quit": ("q", "quit"),
}
"""What a key stands for: how it is shown, and what it does."""


def pressed(state: State, key: str) -> State:
    """The State after a key."""
    state = replace(state, notice="")
    if key == "quit":
        return replace(state, effects=(*state.effects, Quit()))
    match state.overlay:
        case Overlay.LIST:
            return _in_list(state, key)
        case Overlay.RESET:
            return _confirmed(state, key)
        case Overlay.HELP:
            return replace(state, overlay=Overlay.NONE)
    action = _ACTIONS.get(key)
    return action(state) if action else state


# ── the checks ──


def _moved(step: int) -> Callable[[State], State]:
    def move(state: State) -> State:
        rows = state.ordered
        if not rows or state.selected is None:
            return state
        index = rows.index(state.selected) + step
        return replace(state, chosen=rows[min(max(index, 0), len(rows) - 1)].id)

    return move


def _first(state: State) -> State:
    return replace(state, chosen=None)


def _hint(state: State) -> State:
    """One hint more for the selected check, which stays selected."""
    row = state.selected
    if row is None:
        return state
    state = replace(state, chosen=row.id)
    shown, there = state.hints.get(row.id, 0), len(hints_of(state, row.id))
    if not row.failing:
        passed = (row.outcome or row.before) == "passed"
        return replace(state, notice="This check passes." if passed else "Hints are for checks that fail.")
    if shown >= there:
        return replace(state, notice="That was the last hint." if there else "This check has no hints.")
    return replace(state, hints={**state.hints, row.id: shown + 1})


def hints_of(state: State, check: str) -> tuple[str, ...]:
    """All hints of a check, the vaguest first."""
    return next((found.hints for found in state.exercise.checks if found.id == check), ())


def _place(state: State) -> State:
    line = failing_line(state)
    place = f"{state.path}:{line}" if line else str(state.path)
    return replace(state, notice=place, effects=(*state.effects, Copy(text=place)))


def failing_line(state: State) -> int | None:
    """The student's line at which the selected check fails, or at which the file could not be graded at all. None
    where neither is known: another check's line would lead astray."""
    if state.report is None:
        return None
    problem, chosen = state.report.submission.problem, state.selected.id if state.selected else None
    own = [finding for verdict in state.report.verdicts if verdict.check.id == chosen for finding in verdict.findings]
    return next((finding.line for finding in [*own, *([problem] if problem else [])] if finding.line), None)


# ── grading ──


def _rerun(state: State) -> State:
    return request(state, Grade(seed=state.fixed_seed))


def _replay(state: State) -> State:
    return request(state, Grade(seed=state.fixed_seed if state.seed is None else state.seed))


def _report(state: State) -> State:
    if state.report is None:
        return replace(state, notice="There is no report yet.")
    return replace(state, effects=(*state.effects, Open(kind="report", report=state.report)))


def _trace(state: State) -> State:
    """The timelines of the last grade if it has them, or else of the same grade run again with them."""
    if state.current and _is_traced(state.current):
        return replace(state, effects=(*state.effects, Open(kind="trace", report=state.current)))
    asked = request(state, Grade(seed=state.fixed_seed if state.seed is None else state.seed, trace=True))
    if asked.missing:
        return asked
    return replace(asked, open_trace=True, notice="Grading again to record the ranks' timelines.")


def _is_traced(report: Report) -> bool:
    """Whether every run of some length has its timelines."""
    runs = [run for run in report.runs if run.case.probe and run.case.name != "import"]
    return bool(runs) and all(any(rank.trace for rank in run.ranks) for run in runs)


# ── exercises ──


def _beside(step: int) -> Callable[[State], State]:
    def go(state: State) -> State:
        if state.submission:
            return replace(state, notice="Watching one submission; end and start again for another exercise.")
        index = state.names.index(state.exercise.name) + step if state.exercise.name in state.names else 0
        if not 0 <= index < len(state.names):
            return replace(state, notice=f"This is the {'last' if step > 0 else 'first'} exercise.")
        return replace(state, effects=(*state.effects, Load(name=state.names[index])))

    return go


def _list(state: State) -> State:
    return replace(state, effects=(*state.effects, List()))


def _in_list(state: State, key: str) -> State:
    last = len(state.entries) - 1
    match key:
        case "up" | "down":
            step = 1 if key == "down" else -1
            return replace(state, cursor=min(max(state.cursor + step, 0), last))
        case "enter":
            return _go_to(replace(state, overlay=Overlay.NONE), state.entries[state.cursor].name)
        case "list" | "escape":
            return replace(state, overlay=Overlay.NONE)
    return state


def _go_to(state: State, name: str) -> State:
    if name == state.exercise.name:
        return state
    if state.submission:
        return replace(state, notice="Watching one submission; end and start again for another exercise.")
    return replace(state, effects=(*state.effects, Load(name=name)))


def _reset(state: State) -> State:
    if state.submission:
        return replace(state, notice="This is a submission and not the exercise's own file; nothing to reset.")
    return replace(state, overlay=Overlay.RESET)


def _confirmed(state: State, key: str) -> State:
    state = replace(state, overlay=Overlay.NONE)
    if key != "yes":
        return replace(state, notice="Nothing was reset.")
    return replace(state, effects=(*state.effects, Reset(exercise=state.exercise)))


def _help(state: State) -> State:
    return replace(state, overlay=Overlay.HELP)


_ACTIONS: Mapping[str, Callable[[State], State]] = {
    "up": _moved(-1),
    "down": _moved(+1),
    "escape": _first,
    "hint": _hint,
    "place": _place,
    "rerun": _rerun,
    "replay": _replay,
    "report": _report,
    "trace": _trace,
    "next": _beside(+1),
    "previous": _beside(-1),
    "list": _list,
    "reset": _reset,
    "help": _help,
}
