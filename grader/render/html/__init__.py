"""The result as one page for a browser: HTML that needs no network and no other file.

It is for a student who wants to understand a grade and for staff: what each check found, the student's source with the
lines that matter marked, and of every run the ranks' timelines. Students' text reaches the page only through Jinja's
autoescaping or Pygments' HTML formatter, and a Content-Security-Policy allows this page's own style and script by their
hashes and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from grader import calling
from grader.model import Result
from grader.render.html import assets
from grader.render.html.exercise import ExerciseView, exercises
from grader.scoring import finite
from grader.wording.editor import Editor
from grader.wording.marks import NO_MARK

PACKAGE = "grader.render.html"


def render(result: Result, editor: Editor | None = None, by: str = calling.MAKE) -> str:
    """The page, ending with a newline. It shows hidden checks too: give it `for_student`'s report where not. With an
    `editor` lines of the source lead there. The command that replays is for who calls `by` make or otherwise."""
    style, script = assets.style(), assets.text_of(PACKAGE, "script.js")
    page = of_pages().get_template("page.html.j2")
    return page.render(
        result=result,
        exercises=exercises(result, by=by),
        no_mark=NO_MARK,
        open_at=partial(_open_at, editor, [entry.report.submission.path for entry in result.entries]),
        policy=assets.policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )


def _open_at(editor: Editor | None, paths: Sequence[Path], view: ExerciseView, line: int) -> str:
    """The address that opens a line of an exercise's file, or nothing. Only a person who asks for it has it on a page:
    it tells where on the disk the file lies."""
    return editor.address(paths[view.number], line) if editor else ""


@cache
def of_pages() -> Environment:
    """The templates of this package."""
    environment = assets.environment(PACKAGE)
    environment.filters |= {"finite": finite}
    return environment
