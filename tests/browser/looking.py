"""Chromium, and what is seen of a page in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grader.model import alone
from tests.pages import assignment, markup, timelines
from tests.reports import broken, deadlock, hostile, partial

RESULTS = {
    "timelines": lambda: alone(timelines()),
    "deadlock": lambda: alone(deadlock()),
    "partial": lambda: alone(partial()),
    "broken": lambda: alone(replace(broken(), notes=("A note.",))),
    "hostile": lambda: alone(hostile()),
    "markup": lambda: alone(markup()),
    "two": assignment,
}
Page = Any


def scrolls_sideways(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")
