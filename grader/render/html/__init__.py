"""The result as one page for a browser: HTML that needs no network and no other file.

It is for a student who wants to understand a grade and for staff: what each check found, the student's source with the
lines that matter marked, and of every run the ranks' timelines. Students' text reaches the page only through Jinja's
autoescaping or Pygments' HTML formatter, and a Content-Security-Policy (W3C, "Content Security Policy Level 3") allows
this page's own style and script by their hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from grader.model import Result
from grader.render.html.exercise import exercises
from grader.scoring import finite
from grader.wording.marks import NO_MARK
from grader.wording.text import points, visible


def render(result: Result) -> str:
    """The page, ending with a newline. It shows hidden checks too: give it `for_student`'s report where not."""
    page = _environment().get_template("page.html.j2")
    return page.render(
        result=result,
        exercises=exercises(result),
        no_mark=NO_MARK,
        policy=f"default-src 'none'; style-src '{_hash('style.css')}'; script-src '{_hash('script.js')}'; "
        "base-uri 'none'; form-action 'none'",
        style=Markup(_own("style.css")),
        script=Markup(_own("script.js")),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("grader.render.html", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"px": px, "worth": worth, "share": share, "finite": finite}
    return environment


def _shown(value: Any) -> Any:
    """A value as it may stand on the page. Text is made visible once more: an author's, too, may hold anything."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return "".join(map(visible, value))
    return value


def px(value: float) -> str:
    """A length of a drawing, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def worth(value: float) -> str:
    """Points to two decimals, without idle ones."""
    return points(round(value, 2))


def share(value: float) -> str:
    """A share in percent: `80 %`."""
    return f"{points(round(100 * value, 1))} %"


@cache
def _own(name: str) -> str:
    return (files("grader.render.html") / name).read_text(encoding="utf-8").strip()


@cache
def _hash(name: str) -> str:
    """How a Content-Security-Policy names an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(_own(name).encode()).digest()).decode()}"
