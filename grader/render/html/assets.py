"""What pages in HTML share: an environment whose text stays text, and style and script named by their hashes."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from grader.wording.text import points, visible


def environment(package: str) -> Environment:
    """Templates of a package, with autoescaping, and with the filters `worth`, `share` and `px`."""
    made = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"px": px, "worth": worth, "share": share}
    return made


def _shown(value: Any) -> Any:
    """A value as it may stand on the page. Text is made visible once more: an author's, too, may hold anything."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return "".join(map(visible, value))
    return value


def policy(style: str, script: str = "") -> str:
    """A Content-Security-Policy (W3C, "Content Security Policy Level 3") that allows this style and this script by
    their hashes, and nothing else."""
    scripts = f" script-src '{_hash(script)}';" if script else ""
    return f"default-src 'none'; style-src '{_hash(style)}';{scripts} base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    """How a policy names what stands in the page."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def text_of(package: str, name: str) -> str:
    """A file of a package."""
    return (files(package) / name).read_text(encoding="utf-8").strip()


def style() -> str:
    """The style of reports."""
    return text_of("grader.render.html", "style.css")


def px(value: float) -> str:
    """A length of a drawing, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def worth(value: float) -> str:
    """Points to two decimals, without idle ones."""
    return points(round(value, 2))


def share(value: float) -> str:
    """A share in percent: `80 %`."""
    return f"{points(round(100 * value, 1))} %"
