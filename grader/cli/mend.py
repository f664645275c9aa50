"""`mend`: a wrong program is drawn, or gone on with, and mended against the clock."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from grader import calling, catalog, files, leaving
from grader.cli import clock, console, options
from grader.cli.common import store_of
from grader.cli.console import Style
from grader.cli.countdown import asker
from grader.cli.ending import FAILED, PASSED
from grader.cli.warm import WarmGrader
from grader.grading.request import need_torch
from grader.model import Report, alone, number_of
from grader.model.errors import GraderError
from grader.practice.mend import choice, pack, telling
from grader.practice.mend.choice import Drawn
from grader.practice.mend.kept import Mend
from grader.practice.mend.session import MendSession
from grader.practice.store import Store
from grader.quiz.interview.state import Interview
from grader.quiz.page import Page
from grader.render import terminal

MINUTES = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MendOptions:
    """The command's options. `exercise` is its name."""

    exercise: str | None
    minutes: float
    new: bool
    spoil: bool
    html: Path | None
    plain: bool


@click.command("mend")
@click.argument("ex", required=False)
@click.option("--minutes", type=click.FloatRange(1, 600), default=MINUTES, show_default=True)
@click.option("--new", is_flag=True, help="Draw another, even if one was left.")
@click.option("--spoil", is_flag=True, help="Also of exercises not passed yet, whose solution's code it shows.")
@click.option("--html", type=options.file_path, metavar="FILE", help="Also write the page that it got, with timelines.")
@click.option("--plain", is_flag=True, help="No countdown that is repainted; for screen readers.")
@options.color
def command(ex: str | None, color: bool | None, **chosen: Any) -> int:
    """Find the mistake in a program and mend it, against the clock: of EX, or of any exercise that you have passed."""
    root = catalog.repository_root()
    asked = MendOptions(exercise=catalog.resolve(ex, root) if ex else None, **chosen)
    need_torch()
    leaving.follow_terminal()
    if asked.html:
        files.check_writable(asked.html)
    return hold(asked, root, store_of(root), console.style(False if asked.plain else color))


def hold(asked: MendOptions, root: Path, store: Store, style: Style) -> int:
    """Go on with a mend that was left, or draw one. The exit code says whether it is mended."""
    drawn, mend = _left(asked, root, store) or _begun(asked, root, store)
    file = files.near(root / mend.file)
    if asked.html:
        _write_html(asked.html, pack.report_of(drawn.packed, drawn.exercise, file))
    over = _held(drawn, mend, root, store, style, asked.plain, calling.command("mend", drawn.exercise.number))
    return PASSED if over.status in ("mended", "open") else FAILED


def part(
    interview: Interview, root: Path, store: Store, style: Style, plain: bool, left: Callable[[], float]
) -> Interview:
    """The next of an interview's mends, or the one that was left, in no more time than there is."""
    begun = [mend for mend in store.mends() if mend.name in interview.mended]
    resumed = next(((drawn, mend) for mend in begun if mend.open and (drawn := choice.resumed(mend, root))), None)
    if resumed is None and len(interview.mended) >= interview.mends:
        console.show_fitted("Those were all the mends.")
        return interview
    minutes = min(MINUTES, left() / 60)
    asked = MendOptions(exercise=None, minutes=minutes, new=True, spoil=False, html=None, plain=plain)
    try:
        drawn, mend = resumed or _begun(asked, root, store)
        _held(drawn, mend, root, store, style, plain, "m", left)
    except GraderError as error:
        console.say(f"grader: {error}")
        return interview
    mended = interview.mended if resumed else (*interview.mended, mend.name)
    return replace(interview, mended=mended, seen=clock.now())


def told(interview: Interview, root: Path, store: Store) -> list[str]:
    """The mends of an interview, a line each, for its debrief."""
    found = []
    for mend in (mend for mend in store.mends() if mend.name in interview.mended):
        drawn = choice.resumed(mend, root)
        title = f"{number_of(mend.exercise)} {drawn.exercise.title}" if drawn else number_of(mend.exercise)
        found.append(telling.summary(mend, drawn.packed if drawn else None, title))
    return found


def _held(
    drawn: Drawn,
    mend: Mend,
    root: Path,
    store: Store,
    style: Style,
    plain: bool,
    again: str,
    limit: Callable[[], float] = lambda: math.inf,
) -> Mend:
    """The dialogue. `again` is how to go on with a mend that was left; `limit` the seconds that there are in all."""
    file = files.near(root / mend.file)

    def left() -> float:
        return min(session.left(), limit())

    # a folder brings the files that lie beside the program
    submission = file.parent if drawn.exercise.companions else file
    grading = contextlib.closing(WarmGrader(drawn.exercise.name, root, submission, plain))
    with files.claimed(file.parent), grading as grader:
        session = MendSession(
            mend=mend,
            packed=drawn.packed,
            exercise=drawn.exercise,
            file=file,
            recorded=pack.report_of(drawn.packed, drawn.exercise, file),
            store=store,
            now=clock.now,
            ask=asker(left, plain),
            say=console.show_fitted,
            grade=grader.grade,
            show=lambda report: terminal.render(report, by=calling.way(), **console.restyled(style)),
            page=Page(plain=plain, color=style["color"], width=console.width),
            begun=grader.start,
            again=again,
        )
        return session.hold()


def _left(asked: MendOptions, root: Path, store: Store) -> tuple[Drawn, Mend] | None:
    """The last mend that was left, of the exercise that was asked for, with its file. One that is open in another
    terminal was not left."""
    if asked.new:
        return None
    for mend in _open(store, asked.exercise):
        if _taken((root / mend.file).parent):
            continue
        drawn = choice.resumed(mend, root)
        if drawn is None:
            console.say(f"grader: {mend.file} was left, but this copy does not have that mend any more.")
            store.keep_mend(replace(mend, status="given up"))
            continue
        there = (root / mend.file).is_file()
        return drawn, mend if there else replace(mend, file=_placed(drawn, root))
    return None


def _taken(folder: Path) -> bool:
    """Whether somebody else is at work there."""
    if not folder.is_dir():
        return False
    with files.claimed(folder) as alone:
        return not alone


def _open(store: Store, exercise: str | None) -> Iterator[Mend]:
    """Those that were left, the newest first."""
    return (mend for mend in reversed(store.mends(exercise)) if mend.open)


def _begun(asked: MendOptions, root: Path, store: Store) -> tuple[Drawn, Mend]:
    packs = choice.open_packs(root, store, asked.exercise, spoil=asked.spoil)
    drawn, now = choice.drawn(packs, root, store, secrets.randbelow(2**31)), clock.now()
    file = _placed(drawn, root)
    place = Path(file).parent.name  # two terminals may draw one in the same second
    mend = Mend(
        name=f"{now:%Y%m%d-%H%M%S}-{number_of(drawn.exercise.name)}-{place}",
        exercise=drawn.exercise.name,
        mutant=drawn.packed.mutant,
        at=now,
        file=file,
        minutes=asked.minutes,
        fails=drawn.packed.fails,
    )
    return drawn, mend


def _placed(drawn: Drawn, root: Path) -> str:
    return choice.write(drawn, root).relative_to(root).as_posix()


def _write_html(path: Path, report: Report) -> None:
    from grader.render import html

    files.write(path, html.render(alone(report), by=calling.way()))
