"""A report below a notebook's cell: a piece of HTML without a script, whose style reaches nothing around it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from markupsafe import Markup

from grader.model import Result
from grader.render.html import assets, of_pages
from grader.render.html.exercise import exercises

THEMES = """\
.ranklings :is(th, td):not(.n) { text-align: left; }
.ranklings:not(#x) { padding: 0.25rem 0; background: none; }
:is([data-jp-theme-light="true"], .vscode-light) .ranklings { color-scheme: light; }
:is([data-jp-theme-light="false"], .vscode-dark) .ranklings { color-scheme: dark; }
"""
"""A notebook has a theme of its own, whatever the system's is, and sets tables flush right."""


def render(result: Result, *, command: str, prefix: str, every_run: bool = False) -> str:
    """Checks with their findings, and the runs that went wrong, or every run, with their timelines. The source is the
    cell above. `command` replays the grade; ids begin with `prefix`, for a notebook has many such pieces."""
    (view,) = exercises(result, prefix=prefix)
    runs = tuple(run for run in view.runs if run.wrong or every_run)
    view = replace(view, lines=(), runs=runs, command=command)
    page = of_pages().get_template("fragment.html.j2")
    return page.render(result=result, view=view, style=Markup(scoped()), open_at=lambda view, line: "")


@cache
def scoped() -> str:
    """The style of reports, for elements of the class `ranklings` alone (W3C, "CSS Nesting Module")."""
    inner = re.sub(r":root|(?<![.\w-])body(?= \{)", "&", assets.style())
    return f".ranklings {{\n{inner}\n}}\n{THEMES}"
