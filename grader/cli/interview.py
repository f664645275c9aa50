"""`interview`: what is drawn or gone on with, the terminal that it is held on, and where its papers are kept."""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from fsrs import Rating

from grader import calling, catalog, files, leaving
from grader.cli import clock, console, mend, options
from grader.cli.common import exercise_called, store_of
from grader.cli.console import Style
from grader.cli.countdown import asker
from grader.cli.ending import FAILED, PASSED
from grader.cli.warm import WarmGrader
from grader.grading import flow
from grader.grading.request import need_torch
from grader.model import Exercise, Report, number_of
from grader.model.errors import UsageError
from grader.practice import interviews, mastery, overview, statement
from grader.practice.mend import choice
from grader.practice.reset import original
from grader.practice.store import Store
from grader.quiz import deck
from grader.quiz.banks import course_banks
from grader.quiz.interview import debrief, debrief_page, drawing, rubric, state
from grader.quiz.interview.session import InterviewSession
from grader.quiz.interview.state import Interview
from grader.quiz.page import Page
from grader.quiz.questions import Bank, Question
from grader.render import terminal

FOLDER = "interviews"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewOptions:
    """The command's options."""

    minutes: float
    exercise: str | None
    questions: int | None
    levels: bool
    mend: int
    new: bool
    plain: bool


@click.command("interview")
@click.argument("ex", required=False)
@click.option("--minutes", type=click.FloatRange(1, 600), default=55.0, show_default=True)
@click.option("--exercise", metavar="EX", help="The same as EX.")
@click.option("--questions", type=click.IntRange(0, 50), help="How many; without it as many as fit the time.")
@click.option("--levels", is_flag=True, help="The exercise is asked for level by level, and hints can be had.")
@click.option("--mend", type=click.IntRange(0, 5), default=0, help="So many programs to mend, of what you have passed.")
@click.option("--debrief", "again", is_flag=True, help="The debrief of the last interview again.")
@click.option("--new", is_flag=True, help="Begin another, even if one is paused.")
@click.option("--plain", is_flag=True, help="No countdown that is repainted; for screen readers.")
@options.color
def command(ex: str | None, color: bool | None, again: bool, **chosen: Any) -> int:
    """Hold an interview against the clock: an exercise that is drawn, or EX; questions, no hints, and a debrief to
    keep."""
    if ex and chosen["exercise"]:
        raise UsageError("Two exercises were named; an interview is on one.")
    asked = InterviewOptions(**{**chosen, "exercise": ex or chosen["exercise"]})
    root, style = catalog.repository_root(), console.style(False if asked.plain else color)
    leaving.follow_terminal()
    if again:
        return tell_again(root, store_of(root), style, asked.plain)
    need_torch()
    return hold(asked, root, store_of(root), style)


def hold(asked: InterviewOptions, root: Path, store: Store, style: Style) -> int:
    """Go on with an interview that is paused, or begin one; the debrief where it ends."""
    banks = course_banks(root)
    found = None if asked.new else _unfinished(store)
    if found is None:
        found = _drawn(asked, root, store, banks)
    elif _is_other(asked, found, root):
        raise UsageError(f"{_unfinished_one(found, root)}, {calling.option('--new')} begins another.")
    else:
        found = found.resumed(clock.now())
    exercise = catalog.load(found.exercise, root)
    file = _paper(found, exercise, root)
    questions = {item.id: item for bank in banks for item in bank.questions}
    text = statement.statement(exercise)
    sessions: list[InterviewSession] = []

    def left() -> float:
        sessions[0].tick()
        return sessions[0].interview.left(clock.now())

    grading = contextlib.closing(WarmGrader(exercise.name, root, files.near(file), asked.plain))
    with files.claimed(file.parent) as alone, grading as grader:
        if not alone:
            raise UsageError(f"{_unfinished_one(found, root)}, {calling.option('--new')} begins another.")
        session = InterviewSession(
            interview=found,
            exercise=exercise,
            file=files.near(file),
            questions=questions,
            store=store,
            now=clock.now,
            ask=asker(left, asked.plain),
            say=console.show_fitted,
            grade=lambda only: _unremarked(grader.grade(only)),
            show=lambda report: terminal.render(report, by=calling.way(), **console.restyled(style)),
            statement=statement.rendered(text, **style),
            page=_page(style, asked.plain),
            mend=lambda held: mend.part(held, root, store, console.restyled(style), asked.plain, left),
            begun=grader.start,
        )
        sessions.append(session)
        over = session.hold()
    if over.status == "over":
        _conclude(over, root, store, session.page)
    return FAILED if over.status == "aborted" else PASSED


def tell_again(root: Path, store: Store, style: Style, plain: bool) -> int:
    """The debrief of the last interview that is over; what was not ticked is asked for. Raises UsageError where there
    is none."""
    over = next((found for found in reversed(interviews.held(store)) if found.status == "over"), None)
    if over is None:
        begins = calling.command("interview")
        raise UsageError(f"No interview is over yet, so there is nothing to tell of one; {begins} begins one.")
    _conclude(over, root, store, _page(style, plain))
    return PASSED


def _unfinished_one(found: Interview, root: Path) -> str:
    """That there is an interview that is not over, and how to go on with it."""
    of = f"An interview on {number_of(found.exercise)}"
    with contextlib.suppress(OSError), files.claimed(root / FOLDER / found.name) as alone:
        if not alone:
            return f"{of} is open in another terminal; go on there, or pause it there (p)"
    left = found.resumed(clock.now()).left_in_words(clock.now())
    return f"{of} is paused with {left}; {calling.command('interview')} goes on with it"


def _is_other(asked: InterviewOptions, found: Interview, root: Path) -> bool:
    """Whether what is asked for is not the interview that is there."""
    exercise = catalog.resolve(asked.exercise, root) if asked.exercise else found.exercise
    levels, mends = bool(found.levels), found.mends
    questions = asked.questions in (None, len(found.questions))
    return (exercise, asked.levels or levels, asked.mend or mends) != (found.exercise, levels, mends) or not questions


def _unfinished(store: Store) -> Interview | None:
    """The last interview that can be gone on with."""
    return next((found for found in reversed(interviews.held(store)) if found.open), None)


def _drawn(asked: InterviewOptions, root: Path, store: Store, banks: Sequence[Bank]) -> Interview:
    now, seed = clock.now(), secrets.randbelow(2**31)
    exercises = [entry.exercise for entry in overview.loaded(root) if entry.exercise]
    if not exercises:
        raise UsageError(f"{root / 'exercises'} holds no exercise that can be loaded.")
    exercise = _exercise(asked, exercises, store, now, seed)
    known = drawing.known_lately(store, now)
    questions = drawing.draw_questions(banks, known, exercise, asked.minutes, seed, asked.questions)
    if asked.mend:
        choice.open_packs(root, store, None, spoil=False)  # that nothing is open is said now
    return state.begin(exercise, questions, asked.minutes, seed, now, levels=asked.levels, mends=asked.mend)


def _exercise(
    asked: InterviewOptions, exercises: Sequence[Exercise], store: Store, now: datetime, seed: int
) -> Exercise:
    """The one that was named, or one that is drawn; with levels, one that has some."""
    able = [each for each in exercises if each.levels or not asked.levels]
    if not able:
        raise UsageError("No exercise of this course has levels; docs/author.md says how one is given some.")
    if asked.exercise:
        exercise = exercise_called(asked.exercise)[0]
        if exercise.name not in [each.name for each in able]:
            raise UsageError(f"{exercise.name} has no levels; {', '.join(each.number for each in able)} have some.")
        return exercise
    passed = {attempt.exercise: attempt.at for attempt in store.attempts() if attempt.status == "passed"}
    for name, at in drawing.passed_in(interviews.held(store)).items():
        passed[name] = max(at, passed.get(name, at))
    return drawing.draw_exercise(able, passed, asked.minutes, now, seed)


def _paper(found: Interview, exercise: Exercise, root: Path) -> Path:
    """The file to write in: a fresh stub of its own, which is there already where an interview is gone on with."""
    file = root / FOLDER / found.name / exercise.file
    if not file.exists():
        source = original(exercise, root)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(source)
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}.") from None
    return file


def _unremarked(report: Report) -> Report:
    """A grade of an interview, which nobody expects in his progress."""
    return replace(report, notes=tuple(note for note in report.notes if note != flow.ONLY))


def _page(style: Style, plain: bool) -> Page:
    return Page(plain=plain, color=style["color"], width=console.width)


def _learner(store: Store) -> Callable[[Question, Rating, float], None]:
    def learn(question: Question, rating: Rating, seconds: float) -> None:
        deck.keep(store, question, rating, clock.now(), seconds)

    return learn


def _conclude(over: Interview, root: Path, store: Store, shown: Page) -> None:
    """What was said first is ticked, and the debrief shown and written down."""
    exercise = catalog.load(over.exercise, root)
    items = {item.id: item for bank in course_banks(root) for item in bank.questions}
    keep = functools.partial(interviews.keep, store=store)
    over = rubric.tick(over, items, ask=input, say=console.show_fitted, keep=keep, learn=_learner(store), page=shown)
    due = {name: card.due for name, card in deck.known(store).items()}
    if again := mastery.due(store, over.exercise):
        due[over.exercise] = again
    text = statement.statement(exercise)
    found = debrief.debrief(over, exercise, items, text, due=due, now=clock.now(), mends=mend.told(over, root, store))
    page = root / FOLDER / over.name / "debrief.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    files.write(page, debrief_page.html(found))
    console.show("\n" + debrief_page.text(found, console.width()))
    console.show_fitted(f"\nTo keep: {files.near(page)}")
