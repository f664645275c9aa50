"""The result as one page for a browser: HTML that needs no network and no other file.

It is for a student who wants to understand a grade and for staff: what each check found, the student's source with the
lines that matter marked, and of every run the ranks' timelines. Students' text reaches the page only through Jinja's
autoescaping or Pygments' HTML formatter, and a Content-Security-Policy allows this page's own style and script by their
hashes and nothing else.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from grader.model import Result
from grader.render.html import assets
from grader.render.html.exercise import exercises
from grader.scoring import finite
from grader.wording.marks import NO_MARK

PACKAGE = "grader.render.html"


def render(result: Result) -> str:
    """The page, ending with a newline. It shows hidden checks too: give it `for_student`'s report where not."""
    style, script = assets.style(), assets.text_of(PACKAGE, "script.js")
    page = _environment().get_template("page.html.j2")
    return page.render(
        result=result,
        exercises=exercises(result),
        no_mark=NO_MARK,
        policy=assets.policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )


@cache
def _environment() -> Environment:
    environment = assets.environment(PACKAGE)
    environment.filters |= {"finite": finite}
    return environment
