"""A class report as one page for a browser: it runs nothing, loads nothing, and names people only where they are in the
report. What it shows of students' text is shapes and short sentences, which Jinja escapes."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from grader.batch.report.clusters import FAULTS
from grader.batch.report.model import ClassReport
from grader.render.html import assets

PACKAGE = "grader.batch.report"
OPEN_GROUPS = 12
"""Groups of wrong answers that are open; the smaller ones are folded away, or they are most of the page."""


def render(report: ClassReport) -> str:
    """The page, ending with a newline."""
    style = f"{assets.style()}\n{assets.text_of(PACKAGE, 'style.css')}"
    template = _environment().get_template("page.html.j2")
    numbers = {"open_groups": OPEN_GROUPS, "most_faults": FAULTS}
    return template.render(report=report, style=Markup(style), policy=assets.policy(style), **numbers)


@cache
def _environment() -> Environment:
    environment = assets.environment(PACKAGE)
    environment.filters |= {"rate": _rate, "line": _line}
    return environment


def _rate(value: float | None) -> str:
    return "nobody" if value is None else assets.share(value)


def _line(number: int) -> str:
    return str(number) if number else "of ours"
