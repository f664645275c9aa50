"""What somebody calls who practises: statements, hints, progress."""

from __future__ import annotations

import functools
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli import console, grading
from grader.cli.commands import cli
from grader.cli.ending import FAILED, PASSED, terminable
from grader.model.errors import UsageError

if TYPE_CHECKING:
    from grader.catalog.questions import Bank, Question
    from grader.model import Check
    from grader.practice.store import Attempt, Store


@cli.command("list")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def list_exercises(color: bool | None) -> int:
    """List all exercises with points and time, and which you have begun."""
    from grader import catalog
    from grader.practice import overview

    listed = list(overview.entries(catalog.repository_root()))
    console.show(overview.table(listed, **console.style(color)))
    return grading.tell_faults(listed)


@cli.command()
@click.argument("ex")
@click.option("--solution", is_flag=True, help="The solution, once you have passed.")
@click.option("--spoil", is_flag=True, help="With --solution: also before.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def show(ex: str, solution: bool, spoil: bool, color: bool | None) -> None:
    """Show the statement of exercise EX; in a pipe, its Markdown."""
    from grader.practice import statement

    exercise, root = _exercise(ex)
    if solution:
        passed = any(attempt.status == "passed" for attempt in store_of(root).attempts(exercise.name))
        text = statement.solution(exercise, root, passed or spoil)
        console.show(statement.coloured(text, **console.style(color)) if sys.stdout.isatty() else text)
        return
    text = statement.statement(exercise)
    console.show(statement.rendered(text, **console.style(color)) if sys.stdout.isatty() else text)


@cli.command()
@click.argument("ex")
@click.option("--level", type=click.IntRange(1, 3), help="Which of the three; without it the one after the last.")
@click.option("--check", metavar="ID", help="For this check; without it for the first that fails.")
def hint(ex: str, level: int | None, check: str | None) -> None:
    """Show a hint for the check of exercise EX that fails now. Each call says more."""
    from grader.practice import clock, coach

    exercise, root = _exercise(ex)
    store = store_of(root)
    attempt = None if check else _current(exercise, root, store)
    found = coach.next_hint(exercise, attempt, store, level=level, wanted=check)
    coach.take(found, store, clock.now())
    console.show(coach.hint_page(found, console.width()))


@cli.command()
@click.argument("ex")
@click.option("--check", metavar="ID", help="Only this check.")
@click.option("--all", "every", is_flag=True, help="All checks, not only those that fail now.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def explain(ex: str, check: str | None, every: bool, color: bool | None) -> None:
    """Say why the checks of exercise EX that fail now matter in production, and where to read on."""
    from grader.practice import coach

    exercise, root = _exercise(ex)
    checks: tuple[Check, ...] = exercise.checks
    if check:
        checks = (coach.check_called(exercise, check),)
    elif not every and (attempt := _current(exercise, root, store_of(root))):
        checks = coach.failing(exercise, attempt)
    if not checks:
        console.show(f"Every check of {exercise.name} passes. --all explains them all.")
        return
    console.show(coach.explanation_page(exercise, checks, **console.style(color)))


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--delete", is_flag=True, help="Forget all attempts, hints, cards and interviews.")
@click.option("--yes", is_flag=True, help="With --delete: do not ask.")
@click.option("--plain", is_flag=True, help="Sentences in reading order, for screen readers.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def progress(as_json: bool, delete: bool, yes: bool, plain: bool, color: bool | None) -> int:
    """Show the course as a map: what is done, and what comes next."""
    from grader import catalog
    from grader.practice import clock, course_map, history, overview

    root = catalog.repository_root()
    store = store_of(root)
    if delete:
        return _forget(store, yes)
    listed = list(overview.entries(root))
    found = history.standings([entry.exercise for entry in listed if entry.exercise], store)
    text = (
        course_map.as_json(found)
        if as_json
        else course_map.page(found, clock.now(), plain=plain, **console.style(color))
    )
    console.show(text)
    return grading.tell_faults(listed)


@cli.command()
@click.argument("ex", required=False)
@click.option("--submission", type=click.Path(path_type=Path), help="Watch this file or folder instead of your own.")
@click.option("--seed", type=int, help="Always the same seed; without it every grade draws its own.")
@click.option("--sandbox", type=click.Choice(["auto", "require", "off"]), default="auto", show_default=True)
@click.option("--plain", is_flag=True, help="Lines in reading order, nothing repainted; for screen readers and logs.")
def watch(ex: str | None, submission: Path | None, seed: int | None, sandbox: str, plain: bool) -> int:
    """Grade exercise EX at every save and show the verdicts as they come. Without EX, the one that comes next."""
    from grader import catalog
    from grader.practice import watch as watching

    root = catalog.repository_root()
    name = catalog.resolve(ex, root) if ex else _coming(root)
    grading.need_torch()
    keep = functools.partial(grading.remember, root=root)
    with terminable():
        return watching.run(name, root, submission=submission, sandbox=sandbox, seed=seed, plain=plain, on_report=keep)


def _coming(root: Path) -> str:
    """The exercise to go on with."""
    from grader.practice import history, overview

    listed = [entry.exercise for entry in overview.entries(root) if entry.exercise]
    coming = history.next_one(history.standings(listed, store_of(root)))
    if coming is None and not listed:
        raise UsageError(f"{root / 'exercises'} holds no exercise that can be loaded.")
    return coming.exercise.name if coming else listed[-1].name


@cli.command()
@click.argument("bank", required=False)
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="At most so many questions.")
@click.option("--list", "listing", is_flag=True, help="Name the banks, ask nothing.")
@click.option("--plain", is_flag=True, help="No rules and no colour, for screen readers.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def quiz(bank: str | None, limit: int, listing: bool, plain: bool, color: bool | None) -> None:
    """Ask questions of all topics, or of one BANK, spaced so that they stay."""
    import secrets

    from grader import catalog
    from grader.practice import clock
    from grader.practice.quiz import session

    root = catalog.repository_root()
    banks = quizzes_of(root)
    if not banks:
        raise UsageError(f"No question banks are in this copy: {root / 'quizzes'} is missing.")
    topic = catalog.resolve_topic(bank, root) if bank else None
    if listing:
        console.show("\n".join(f"{each.topic:<22} {len(each.questions):>3}  {each.title}" for each in banks))
        return
    store = store_of(root)
    passed = {attempt.exercise[:2] for attempt in store.attempts() if attempt.status == "passed"}
    session.run(
        banks,
        store,
        now=lambda: clock.now().astimezone(),
        ask=input,
        say=console.show,
        limit=limit,
        topic=topic,
        plain=plain,
        seed=secrets.randbelow(2**31),
        passed=passed,
        **console.style(False if plain else color),
    )


def quizzes_of(root: Path) -> tuple[Bank, ...]:
    """All banks. A question names its exercise only where that is in this course."""
    from grader import catalog

    if not (root / "quizzes").is_dir():
        return ()
    numbers = {name.partition("_")[0] for name in catalog.all_names(root)}

    def placed(question: Question) -> Question:
        return question if question.exercise in numbers else replace(question, exercise=None)

    return tuple(replace(bank, questions=tuple(map(placed, bank.questions))) for bank in catalog.load_banks(root))


@cli.command()
@click.option("--minutes", type=click.FloatRange(1, 600), default=55.0, show_default=True)
@click.option("--exercise", "ex", metavar="EX", help="This exercise instead of one that is drawn.")
@click.option("--questions", type=click.IntRange(0, 50), help="How many; without it as many as fit the time.")
@click.option("--new", is_flag=True, help="Begin another, even if one is paused.")
@click.option("--plain", is_flag=True, help="No countdown that is repainted; for screen readers.")
@click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
def interview(minutes: float, ex: str | None, questions: int | None, new: bool, plain: bool, color: bool | None) -> int:
    """Hold an interview against the clock: an exercise, questions, no hints, and a debrief to keep."""
    from grader import catalog
    from grader.cli import meeting

    grading.need_torch()
    root = catalog.repository_root()
    wish = meeting.Wish(minutes=minutes, exercise=ex, questions=questions, new=new, plain=plain)
    return meeting.hold(wish, root, store_of(root), console.style(False if plain else color))


def _forget(store: Store, yes: bool) -> int:
    if not yes and not _asked(f"Forget all attempts, hints, quiz cards and interviews in {store.path}?", "--delete"):
        console.say("Nothing was forgotten.")
        return FAILED
    store.delete()
    console.show(f"{store.path} is gone.")
    return PASSED


def store_of(root: Path) -> Store:
    """The progress store. A damaged one is set aside, which is said. Where nothing is to be kept, it is one that goes
    when the command ends."""
    from grader.practice.store import FILE, Store, is_off, place

    if is_off():
        folder = tempfile.TemporaryDirectory(prefix="ranklings-")
        return Store(Path(click.get_current_context().with_resource(folder)) / FILE)
    store = Store(place(root))
    if store.set_aside:
        console.say(f"grader: {store.path} was damaged. It is kept as {store.set_aside}, and a new one was begun.")
    return store


def _current(exercise: Any, root: Path, store: Store) -> Attempt | None:
    """The attempt that fits the student's file as it is now; it is graded first if there is none. None for a file that
    nobody has begun."""
    from grader import submission

    if not submission.begun(exercise, root):
        return None
    attempt = store.last(exercise.name)
    if attempt is None or attempt.digest != submission.receive(exercise, None, root).digest:
        grading.need_torch()
        grading.practise(exercise.name, root, store)
        attempt = store.last(exercise.name)
    return attempt


@cli.command()
@click.argument("ex")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(ex: str, yes: bool) -> int:
    """Put the stub of exercise EX back; your file is kept beside it."""
    from grader.practice import reset as again

    exercise, root = _exercise(ex)
    stub = again.original(exercise, root)
    if again.untouched(exercise, stub):
        console.show(f"{exercise.stub} is the stub already; nothing was done.")
        return PASSED
    if not yes and not _asked(f"Replace {exercise.stub} by the stub?", "reset"):
        console.say("Nothing was reset.")
        return FAILED
    kept = again.reset(exercise, stub)
    console.show(f"{exercise.stub} is the stub again." + (f" Your file is kept as {kept}." if kept else ""))
    return PASSED


def _asked(question: str, command: str) -> bool:
    """Ask on a terminal. Raises UsageError where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise UsageError(f"{command} asks before it does that, and there is no terminal to ask on; add --yes.")
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


def _exercise(text: str) -> tuple[Any, Path]:
    """The exercise that `text` names, and the root of the repository."""
    from grader import catalog

    root = catalog.repository_root()
    return catalog.load(catalog.resolve(text, root), root), root
