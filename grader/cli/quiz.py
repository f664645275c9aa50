"""`quiz`: questions, spaced so that the answers stay."""

from __future__ import annotations

import secrets

import click

from grader import catalog, leaving
from grader.cli import clock, console, options
from grader.cli.common import store_of
from grader.model.errors import UsageError
from grader.quiz import session
from grader.quiz.banks import course_banks, resolve_topic


@click.command("quiz")
@click.argument("bank", required=False)
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="At most so many questions.")
@click.option("--list", "listing", is_flag=True, help="Name the banks, ask nothing.")
@click.option("--plain", is_flag=True, help="No rules and no colour, for screen readers.")
@options.color
def command(bank: str | None, limit: int, listing: bool, plain: bool, color: bool | None) -> None:
    """Ask questions of all topics, or of one BANK, spaced so that they stay."""
    root = catalog.repository_root()
    banks = course_banks(root)
    if not banks:
        raise UsageError(f"No question banks are in this copy: {root / 'quizzes'} is missing.")
    topic = resolve_topic(bank, root) if bank else None
    if listing:
        console.show("\n".join(f"{each.topic:<22} {len(each.questions):>3}  {each.title}" for each in banks))
        return
    leaving.follow_terminal()
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
        color=console.style(False if plain else color)["color"],
        width=console.width,
    )
