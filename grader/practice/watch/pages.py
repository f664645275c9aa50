"""The State as lines for a screen of some width. Pure; nothing in a text is taken for markup."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from grader.model import Outcome
from grader.practice.overview import cells
from grader.practice.watch.keys import KEYS
from grader.practice.watch.nouns import Overlay, Phase, Row, State
from grader.wording.layout import crop, paragraph, wrap
from grader.wording.marks import MARKS, UNJUDGED
from grader.wording.text import points

Lines = list[Text]
STATUS = {"passed": ("passed", "green"), "failed": ("failed", "red"), "error": ("not judged in full", "yellow")}
MORE = "? all keys"
QUIT = "q quit"
FOOT = ("h hint", "n next", "r rerun", "e where", "o report", QUIT, MORE)
"""The keys that are always in sight, as many as there is room for; the way to the others and out comes first."""
OVER = {Overlay.HELP: (QUIT,), Overlay.LIST: ("Enter go there", "Esc back", QUIT), Overlay.RESET: (QUIT,)}
"""The keys that are in sight instead while something lies over the rest: the others would do nothing."""
PAIRS = {"up": "down", "rerun": "replay", "next": "previous"}
"""Keys that share a line of the help, so that a small window has room for all of it."""


def header(state: State, width: int, rows: int = 2) -> Lines:
    """The exercise; in at most so many `rows` what is going on, the score so far, the attempts and the seed."""
    title = Text.assemble((state.exercise.name, "bold"), "  ", state.exercise.title)
    title.truncate(width, overflow="ellipsis")
    broken = any(row.outcome == "broken" for row in state.rows)
    facts = [
        "no mark" if broken else f"{points(state.score)}/{points(state.max_score)} points",
        f"attempt {state.attempts + 1 if state.busy else max(1, state.attempts)}",
        f"seed {state.seed}" if state.seed is not None else "",
    ]
    words, style = phase(state)
    told = Text(words, f"bold {style}".strip())
    for fact in filter(None, facts):
        if told.cell_len + 3 + len(fact) <= width * rows:
            told.append(f" · {fact}", "not bold default")
    return [title, *wrap(told, width)[:rows]]


def phase(state: State) -> tuple[str, str]:
    """What is going on, in a few words, and their style."""
    if state.phase is Phase.DOWN:
        return "stopped: save or press r to start again", "yellow"
    if state.phase is Phase.CANCELLING:
        return ("saved again" if state.wanted else "calling off"), "cyan"
    if state.phase is Phase.RUNNING:
        return _running(state), "cyan"
    if state.missing:
        return "waiting for the file", "yellow"
    if state.fault:
        return "not graded", "yellow"
    return STATUS[state.report.status] if state.report else ("waiting for a save", "")


def _running(state: State) -> str:
    if not state.ready:
        return "starting"
    if not state.began or not state.done:
        return f"running {len(state.cases)} cases" if state.cases else "running"
    return f"running {len(state.done)} of {len(state.cases)} cases"


# ── the checks ──


def checks(state: State, width: int) -> Lines:
    """A line for each check, what fails first; `›` stands before the selected one, also where there is no colour."""
    selected = state.selected
    return [_check(row, selected is not None and row.id == selected.id, width) for row in state.ordered]


def _check(row: Row, selected: bool, width: int) -> Text:
    mark, style = MARKS[Outcome(row.outcome)] if row.outcome else ("·", "dim")
    worth = _worth(row)
    title = crop(row.title, max(8, width - 4 - len(worth) - 1))
    line = Text.assemble(
        ("›" if selected else " ", "bold"), " ", (mark, style), " ", (title, "dim" if style == "dim" else "")
    )
    line.append(" " * max(1, width - line.cell_len - len(worth)) + worth if worth else "", "dim")
    if selected:
        line.stylize("bold")
    return line


def _worth(row: Row) -> str:
    """What a check that is judged brings, out of what it could."""
    if row.outcome and (unjudged := UNJUDGED.get(Outcome(row.outcome))):
        return unjudged
    return f"{points(row.points if row.outcome == 'passed' else 0)}/{points(row.points)}" if row.outcome else ""


# ── the last line, and what lies over the rest ──


def footer(state: State, width: int) -> Lines:
    """What there is to say, in at most three lines, or else the keys."""
    if state.notice:
        return wrap(Text(state.notice, "bold"), width)[:3]
    keys = OVER.get(state.overlay, FOOT)
    kept = {keys[-1]}
    for told in (QUIT, *keys):
        if len("  ".join({*kept, told})) <= width:
            kept.add(told)
    return [Text("  ".join(told for told in keys if told in kept), "dim")]


def overlay(state: State, width: int) -> Lines:
    """What is shown over the rest; empty if nothing is."""
    match state.overlay:
        case Overlay.HELP:
            return _help(width)
        case Overlay.LIST:
            return _list(state, width)
        case Overlay.RESET:
            return _reset(state, width)
    return []


def _help(width: int) -> Lines:
    told = [("save", "grade again; a grade that runs is called off"), *_keys(), ("PgUp PgDn", "scroll")]
    lines = [line for key, what in told for line in paragraph(Text(f"{key:<9} ", "bold"), Text(what), width)]
    return [*lines, Text("Any other key goes back.", "dim")]


def _keys() -> Iterator[tuple[str, str]]:
    for name, (key, what) in KEYS.items():
        if name in PAIRS:
            second, other = KEYS[PAIRS[name]]
            yield f"{key} {second}", f"{what}; {other}"
        elif name not in PAIRS.values():
            yield key, what


def _list(state: State, width: int) -> Lines:
    lines: Lines = []
    for index, entry in enumerate(state.entries):
        number, title, _, _, begun = cells(entry)
        here = index == state.cursor
        tail = f"  {begun}" if begun else ""
        room = max(8, width - 5 - len(tail))
        line = Text(f"{'›' if here else ' '} {number:>2} {crop(title, room)}{tail}", "bold" if here else "")
        lines.append(line)
    return lines


def _reset(state: State, width: int) -> Lines:
    text = f"Put the stub of {state.exercise.name} back? Your file is kept beside it."
    return [*wrap(Text(text, "bold"), width), Text(), Text("y puts it back, any other key does not.")]
