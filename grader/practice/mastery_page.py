"""Mastery by topic as a table, in sentences, and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.practice.mastery import Topic
from grader.quiz.page import span

FEW = 4
"""So many topics that were not met are named."""


def percent(topic: Topic) -> str:
    return f"{100 * topic.share:.0f} %"


def again(topic: Topic, now: datetime) -> str:
    """When something of it should come again."""
    if topic.due is None:
        return ""
    return "due" if topic.due <= now else span(topic.due - now)


def unmet(topics: Sequence[Topic]) -> str:
    """The topics of which nothing was met yet: which, where they are few, else how many."""
    names = [topic.title for topic in topics if not topic.met]
    if len(names) > FEW:
        return f"Of {len(names)} other topics nothing was met yet."
    return f"Not met yet: {'; '.join(names)}." if names else ""


def grid(topics: Sequence[Topic], now: datetime) -> RenderableType:
    """A topic a row, of those that were met: how much of it would be known today, how much of it was met."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("Topic")
    for heading in ("Known", "Met"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Again", no_wrap=True)
    for topic in topics:
        if topic.met:
            row = (topic.title, percent(topic), f"{topic.met}/{topic.count}", again(topic, now))
            table.add_row(*map(Text, row))
    return Group(table, Text(unmet(topics), "dim")) if unmet(topics) else table


def sentences(topics: Sequence[Topic], now: datetime) -> list[str]:
    """The same for screen readers."""
    told = [_sentence(topic, now) for topic in topics if topic.met]
    return [*told, *filter(None, [unmet(topics)])]


def _sentence(topic: Topic, now: datetime) -> str:
    coming = again(topic, now)
    end = f" Again {coming}." if coming.startswith("in ") else " Due now." if coming else ""
    return f"{topic.title}: {percent(topic)} known, {topic.met} of {topic.count} met.{end}"


def plain(topic: Topic) -> dict[str, Any]:
    """The same for programs."""
    return {
        "topic": topic.name,
        "title": topic.title,
        "known": round(topic.share, 3),
        "met": topic.met,
        "of": topic.count,
        "due": topic.due.isoformat() if topic.due else None,
    }
