"""`mends`: pack an exercise's mends, for authors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from grader import calling, catalog
from grader.authoring import mends
from grader.authoring.lab import named, warm_session
from grader.cli import console
from grader.cli.ending import FAILED, PASSED
from grader.grading.request import need_torch
from grader.model import Exercise
from grader.model.errors import UsageError
from grader.practice.mend import pack
from grader.practice.mend.pack import Pack


@click.command("mends")
@click.argument("ex", nargs=-1)
@click.option("--most", type=click.IntRange(1, 99), default=mends.MOST, show_default=True, help="So many of each.")
@click.option("--check", is_flag=True, help="Record nothing; say which packs are missing, stale or short.")
@click.option("--plain", is_flag=True, help="No spinner.")
def command(ex: tuple[str, ...], most: int, check: bool, plain: bool) -> int:
    """Pack the mends of exercises: some of their mutants, each graded once, with the page that it got. A pack that is
    as it would be recorded today is left alone."""
    root = catalog.repository_root()
    names = named(ex, root)
    if not names:
        raise UsageError(f"{root / 'exercises'} holds no exercise.")
    if check:
        return _check(names, root)
    need_torch()
    return max(_pack(name, root, most, plain) for name in names)


def _lacking(found: Pack | None, exercise: Exercise, root: Path) -> str:
    """What a pack lacks of the one that would be made today, in words."""
    if found is None:
        return "no pack"
    state = mends.state(found, exercise, root)
    if state.stale:
        return f"stale are {', '.join(state.stale)}"
    chosen = mends.choose(exercise, catalog.load_mutants(exercise, root))
    have = sum(mutant.name in state.current for mutant in chosen)
    return f"{have} of {len(chosen)} mends" if have < len(chosen) else ""


def _check(names: Sequence[str], root: Path) -> int:
    code = PASSED
    for name in names:
        found = pack.load(name, root)
        what = _lacking(found, catalog.load(name, root), root)
        if what:
            console.tell(f"{name}: {what}; {calling.command('mends', name.partition('_')[0])} packs it")
            code = FAILED
    return code


def _pack(name: str, root: Path, most: int, plain: bool) -> int:
    """Record what is chosen, but for what the pack has as it is today. The pack is written after each, so that an
    interruption loses one at most."""
    exercise, path = catalog.load(name, root), pack.place(name, root)
    chosen = mends.choose(exercise, catalog.load_mutants(exercise, root), most)
    found = pack.load(name, root)
    current = mends.state(found, exercise, root).current if found else ()
    packed = {mend.mutant: mend for mend in found.mends if mend.mutant in current} if found else {}
    missing = [mutant for mutant in chosen if mutant.name not in packed]
    with console.progress(name, plain) as progress, warm_session() as session:
        for mend in mends.record(exercise, root, session, missing, progress, console.say):
            packed[mend.mutant] = mend
            pack.save(path, name, [packed[mutant.name] for mutant in chosen if mutant.name in packed])
    there = sum(mutant.name in packed for mutant in chosen)
    size = f", {path.stat().st_size / 1000:.0f} kB in {path}" if there else ""
    console.tell(f"{name}: {there} of {len(chosen)} mends{size}")
    return PASSED if there == len(chosen) else FAILED
