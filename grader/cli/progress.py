"""`progress`: the course as a map, and forgetting it all."""

from __future__ import annotations

import click

from grader import catalog
from grader.cli import clock, console, options
from grader.cli.common import confirmed, readable_store_of, store_of, tell_faults
from grader.cli.ending import FAILED, PASSED
from grader.practice import course_map, history, overview
from grader.practice.store import Store


@click.command("progress")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--delete", is_flag=True, help="Forget all attempts, hints, cards and interviews.")
@click.option("--yes", is_flag=True, help="With --delete: do not ask.")
@click.option("--plain", is_flag=True, help="Sentences in reading order, for screen readers.")
@options.color
def command(as_json: bool, delete: bool, yes: bool, plain: bool, color: bool | None) -> int:
    """Show the course as a map: what is done, and what comes next."""
    root = catalog.repository_root()
    if delete:
        return _forget(store_of(root), yes)
    store, _ = readable_store_of(root)
    listed = list(overview.entries(root))
    found = history.standings([entry.exercise for entry in listed if entry.exercise], store)
    if as_json:
        console.show(course_map.as_json(found))
    else:
        console.show(course_map.page(found, clock.now(), plain=plain, **console.style(color)))
    return tell_faults(listed)


def _forget(store: Store, yes: bool) -> int:
    if not yes and not confirmed(f"Forget all attempts, hints, quiz cards and interviews in {store.path}?", "--delete"):
        console.say("Nothing was forgotten.")
        return FAILED
    store.delete()
    console.show(f"{store.path} is gone.")
    return PASSED
