"""Facts as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from grader.doctor.fact import Fact, Mark, can_grade
from grader.wording.paper import on_paper

COLORS = {Mark.YES: "green", Mark.NO: "red", Mark.LESS: "yellow"}
WORDS = {Mark.YES: "yes", Mark.NO: "no", Mark.LESS: "less"}
WIDEST = 110


def table(facts: Sequence[Fact], *, color: bool, width: int) -> str:
    """A line or more a fact, and one sentence at the end."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    for narrow in (True, True, False, False):
        grid.add_column(no_wrap=narrow, overflow="fold")
    for fact in facts:
        grid.add_row(
            Text(fact.mark.value, COLORS[fact.mark]), Text(fact.name, "bold"), *map(Text, (fact.found, fact.meaning))
        )
    return on_paper(Group(grid, Text(), Text(conclusion(facts))), color=color, width=min(width, WIDEST))


def conclusion(facts: Sequence[Fact]) -> str:
    """What all the facts come to."""
    if can_grade(facts):
        return "This machine can grade. A – is absent or scarce, and grading goes on without it."
    wrong = ", ".join(fact.name for fact in facts if fact.mark is Mark.NO)
    return f"This machine cannot grade before this is mended: {wrong}."


def as_json(facts: Sequence[Fact]) -> str:
    """`{"can_grade": …, "facts": [{"name", "mark": "yes|no|less", "found", "meaning"}]}`"""
    listed = [{"name": f.name, "mark": WORDS[f.mark], "found": f.found, "meaning": f.meaning} for f in facts]
    return json.dumps({"can_grade": can_grade(facts), "facts": listed}, indent=2, ensure_ascii=False) + "\n"
