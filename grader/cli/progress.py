"""`progress`: the course as a map or as a page, and forgetting it all."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import click

from grader import catalog, files
from grader.cli import clock, console, options
from grader.cli.common import confirmed, readable_store_of, store_of, tell_faults
from grader.cli.ending import FAILED, PASSED
from grader.grading.request import Machine, need_torch
from grader.model import Submission
from grader.model.errors import GraderError
from grader.practice import course_map, course_page, history, interviews, mastery, overview, pictures
from grader.practice.history import Standing
from grader.practice.pictures import Picture
from grader.practice.store import Store
from grader.quiz.banks import course_banks
from grader.quiz.interview import drawing
from grader.submission import receive


@click.command("progress")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--html", type=options.file_path, metavar="FILE", help="A page, with figures that your own code draws.")
@click.option("--delete", is_flag=True, help="Forget all attempts, hints, cards and interviews.")
@click.option("--yes", is_flag=True, help="With --delete: do not ask.")
@click.option("--plain", is_flag=True, help="Sentences in reading order, for screen readers.")
@options.color
def command(as_json: bool, html: Path | None, delete: bool, yes: bool, plain: bool, color: bool | None) -> int:
    """Show the course as a map: what is done, what you can do now, and what comes next."""
    root = catalog.repository_root()
    if delete:
        return _forget(store_of(root), yes)
    store, _ = readable_store_of(root)
    listed = list(overview.loaded(root))
    exercises = [entry.exercise for entry in listed if entry.exercise]
    found = history.standings(exercises, store, drawing.passed_in(interviews.held(store)))
    topics = mastery.topics(exercises, course_banks(root), store, clock.now())
    if html:
        files.check_writable(html)
        page = course_page.html(found, clock.now(), _pictures(found, store, root), topics)
        files.write(html, page)
        console.say(f"Wrote {html}.")
    if as_json:
        console.show(course_map.as_json(found, topics))
    elif not html:
        console.show(course_map.page(found, clock.now(), topics=topics, plain=plain, **console.style(color)))
    return tell_faults(listed)


def _pictures(found: Sequence[Standing], store: Store, root: Path) -> list[Picture]:
    """What the files draw that have passed as they are. Ranks are started for these alone."""
    handed_in: dict[str, Submission] = {}
    for each in found:
        with contextlib.suppress(GraderError):
            if each.state == "passed" and pictures.functions(each.exercise):
                handed_in[each.exercise.name] = receive(each.exercise, None, root)
    digests = {name: submission.digest for name, submission in handed_in.items()}
    drawing = list(pictures.passing(found, store.attempts(), digests))
    if not drawing:
        return []
    need_torch()
    with contextlib.closing(Machine().session()) as session:
        session.start()
        console.say("Drawing the figures of your own code.")
        return [
            picture for exercise in drawing for picture in pictures.drawn(exercise, handed_in[exercise.name], session)
        ]


def _forget(store: Store, yes: bool) -> int:
    if not yes and not confirmed(f"Forget all attempts, hints, quiz cards and interviews in {store.path}?", "--delete"):
        console.say("Nothing was forgotten.")
        return FAILED
    store.delete()
    console.tell(f"{store.path} is gone.")
    return PASSED
