"""What several commands share: the exercise that was named, the store of a person's progress."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from grader import calling, catalog
from grader.cli import console
from grader.cli.ending import FAULT, PASSED
from grader.model import Exercise
from grader.model.errors import UsageError
from grader.practice.overview import Entry
from grader.practice.store import FILE, Store, is_off, place
from grader.wording.folding import for_stream


def exercise_called(text: str) -> tuple[Exercise, Path]:
    """The exercise that `text` names, and the root of the repository."""
    root = catalog.repository_root()
    return catalog.load(catalog.resolve(text, root), root), root


def tell_faults(listed: Sequence[Entry]) -> int:
    """Say which exercises cannot be loaded, and why. The exit code that this costs."""
    for entry in listed:
        if entry.fault:
            console.say(f"grader: {entry.fault}")
    return FAULT if any(entry.fault for entry in listed) else PASSED


def store_of(root: Path) -> Store:
    """The progress store. A damaged one is set aside, which is said. Where nothing is to be kept, it is one that goes
    when the command ends. Raises UsageError where it cannot be written."""
    if is_off():
        return Store(_passing_folder() / FILE)
    store = Store(place(root))
    if store.set_aside:
        console.say(f"grader: {store.path} was damaged. It is kept as {store.set_aside}, and a new one was begun.")
    return store


def readable_store_of(root: Path) -> tuple[Store, bool]:
    """The progress store for commands that can do without writing to it, and whether what is kept in it stays. Where it
    cannot be written, that is said, and it is a copy that goes when the command ends."""
    try:
        return store_of(root), not is_off()
    except UsageError as error:
        console.say(f"grader: {error} Nothing of this call is kept.")
    folder = _passing_folder()
    for suffix in ("", "-wal"):
        with contextlib.suppress(OSError):
            shutil.copyfile(f"{place(root)}{suffix}", folder / f"{FILE}{suffix}")
    return Store(folder / FILE), False


def _passing_folder() -> Path:
    """A folder that goes when the command ends."""
    folder = tempfile.TemporaryDirectory(prefix="ranklings-", ignore_cleanup_errors=True)
    return Path(click.get_current_context().with_resource(folder))


def confirmed(question: str, command: str) -> bool:
    """Ask on a terminal. Raises UsageError where there is nobody to ask."""
    if not sys.stdin.isatty():
        yes = calling.option("--yes")
        raise UsageError(f"{command} asks before it does that, and there is no terminal to ask on; add {yes}.")
    try:
        return click.confirm(for_stream(question, sys.stderr), err=True)
    except click.Abort:
        click.echo(err=True)  # the terminal has shown ^C behind the question
        return False
