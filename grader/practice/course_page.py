"""The course as one page in HTML: its parts, what one can do now, and figures that one's own code has drawn."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files

import jinja2

from grader.practice import course_map, mastery_page, milestones
from grader.practice.history import Standing
from grader.practice.mastery import Topic
from grader.practice.pictures import Picture


def html(found: Sequence[Standing], now: datetime, pictures: Sequence[Picture], topics: Sequence[Topic] = ()) -> str:
    """One self-contained page. It runs nothing and loads nothing."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "base64": lambda data: base64.b64encode(data).decode(),
        "best": lambda best: f"{best:.0f} %",
        "remark": lambda each: course_map.remark(each, now),
        "percent": mastery_page.percent,
        "again": lambda topic: mastery_page.again(topic, now),
    }
    template = (files("grader.practice") / "course_page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        found=found,
        done=sum(each.state == "passed" for each in found),
        advice=course_map.advice(found),
        parts=[(each, _of(each.part, found)) for each in milestones.milestones(found)],
        pictures=pictures,
        topics=[topic for topic in topics if topic.met],
        unmet=mastery_page.unmet(topics),
    )


def _of(part: milestones.Part, found: Sequence[Standing]) -> list[Standing]:
    return [each for each in found if part.first <= int(each.exercise.number) <= part.last]
