"""HTML pages, rendered and taken apart."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from grader.model import Report, alone
from grader.render import html
from tests.pages import assignment, hidden, markup, timelines
from tests.reports import KINDS

VOID = {"meta", "rect", "path", "polygon", "input", "br"}


class Page(HTMLParser):
    """All elements of a page with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def page_of(report: Report) -> Page:
    return Page(html.render(alone(report)))


BUILDERS = {**KINDS, "timelines": timelines, "markup": markup, "hidden": hidden}
PAGES = {name: html.render(alone(build())) for name, build in BUILDERS.items()} | {"two": html.render(assignment())}


def without_assets(text: str) -> str:
    """The page without its style, its script and their hashes, which would drown what a golden file shows."""
    text = re.sub(r"<(style|script)>.*?</\1>", r"<\1>…</\1>", text, flags=re.S)
    return re.sub(r"sha256-[\w+/=]+", "sha256-…", text)
