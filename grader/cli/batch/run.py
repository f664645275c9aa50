"""`batch FOLDER …`: grade a folder of hand-ins, or go on where an earlier call ended."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
from pathlib import Path
from typing import Any

import click
import yaml

from grader import catalog, leaving
from grader.cli import clock, options
from grader.cli.batch import engines, progress
from grader.cli.console import say, tell
from grader.cli.ending import FAILED, INTERRUPTED, PASSED
from grader.cli.options import file_path
from grader.grading.request import Machine, need_torch
from grader.model.errors import RunError, UsageError


class Run(click.Command):
    """`batch run`, whose usage is told as it is called: `batch FOLDER …`."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage((ctx.parent or ctx).command_path, " ".join(self.collect_usage_pieces(ctx)))


@click.command("run", cls=Run, options_metavar="--assignment FILE --out DIR [OPTIONS]")
@click.argument("submissions", type=file_path)
@click.option("--assignment", type=file_path, required=True, metavar="FILE", help="An assignment.yaml.")
@click.option(
    "--out", type=file_path, required=True, metavar="DIR", help="The batch's folder; it may be there already."
)
@click.option("--engine", default="local", show_default=True, metavar="local|ray[=ADDRESS]", help="Where slots run.")
@click.option("--slots", type=click.IntRange(1), metavar="N", help="Hand-ins graded at a time; default: by the cores.")
@click.option("--shard", metavar="I/N", help="Grade the I-th of N parts; `batch merge` joins them.")
@click.option("--seed", type=options.seeds, help="All hand-ins' seed; default: the one of the folder, drawn once.")
@click.option("--only", metavar="WHO", multiple=True, help="Grade this person's hand-ins alone; may be repeated.")
@click.option("--again", type=click.Choice(["broken", "failed", "all"]), default=None,
              help="Grade also what is quarantined, what failed, or everything again.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be done and how long it would take, and do nothing.")
@click.option("--latest", is_flag=True, help="Of several hand-ins of one person the latest counts.")
@click.option("--best", is_flag=True, help="The best one counts, exercise by exercise.")
@click.option("--people", type=file_path, metavar="FILE", help="CSV: hand_in, student, submitted_at, due. It is kept.")
@click.option("--checks", type=file_path, metavar="DIR", help="Further cases and checks of your course.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--sandbox", type=options.sandboxes, default="auto", show_default=True, help="As with grade.")
@click.option("--rank-user", metavar="NAME", help="Run the ranks as this user; for root, without bubblewrap.")
@options.start_method
@click.option("--plain", is_flag=True, help="A plain line a minute in place of a bar.")
def command(**chosen: Any) -> int:
    """Grade all hand-ins in the folder SUBMISSIONS. Called again it goes on: with what has no final verdict yet, what
    is broken, and what a change of exercises, checks or files makes necessary.

    Exit codes: 0 all graded, 1 some are broken or quarantined, 2 the command was wrong, 3 not all were graded.
    """
    need_torch()
    names = ("device", "sandbox", "start_method", "rank_user")
    machine = Machine(**{name: chosen.pop(name) for name in names})
    asked = Options(**chosen)
    return _dry(asked, machine) if asked.dry_run else _grade(asked, machine)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for, beside the machine."""

    submissions: Path
    assignment: Path
    out: Path
    engine: str
    slots: int | None
    shard: str | None
    seed: int | None
    only: tuple[str, ...]
    again: str | None
    dry_run: bool
    latest: bool
    best: bool
    people: Path | None
    checks: Path | None
    plain: bool

    def asked(self, seed: int | None) -> Any:
        """As the plan wants it. Raises UsageError or AuthorError."""
        from grader.batch import people
        from grader.batch.plan import Asked

        root = catalog.repository_root()
        if self.latest and self.best:
            raise UsageError("Of several hand-ins of one person either the --latest or the --best counts, not both.")
        if not self.assignment.is_file():
            raise UsageError(f"There is no file {self.assignment}; --assignment names an assignment.yaml.")
        found = catalog.load_assignment(self.assignment, root)
        if self.out.resolve().is_relative_to(self.submissions.resolve()):
            raise UsageError(f"--out {self.out} lies among the hand-ins; name a folder elsewhere.")
        return Asked(
            submissions=self.submissions,
            assignment=dataclasses.replace(found, checks=self.checks or found.checks),
            root=root,
            seed=seed or 0,
            choice="latest" if self.latest else "best" if self.best else "",
            shard=shard_of(self.shard),
            people=people.read(self.people) if self.people else people.kept(self.out),
            out=None if self.dry_run else self.out,
        )


def shard_of(text: str | None) -> tuple[int, int]:
    """`2/8` as numbers. Raises UsageError for what is out of range."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text} is no part of a whole; say I/N with I from 1 to N, as 2/8.")
    return int(found[1]), int(found[2])


def _grade(asked: Options, machine: Machine) -> int:
    """Plan, grade what is left, and say what it came to."""
    from grader.batch import folder
    from grader.batch.agenda import agenda_of
    from grader.batch.driver import Driver
    from grader.batch.ledger import Ledger
    from grader.batch.plan import make

    plan = asked.asked(asked.seed)
    plan = dataclasses.replace(plan, seed=folder.prepare(asked.out, plan.assignment.title, asked.seed))
    with Ledger(asked.out, shard=folder.shard_name(plan.shard), new=True) as ledger, folder.driving(ledger):
        _tell_kept(asked, plan, ledger)
        planned = make(ledger, plan, clock.timestamp)
        _tell_untimed(planned)
        only = _people(asked.only, planned.people)
        agenda = agenda_of(ledger, planned.estimates, again=asked.again or "", only=only)
        engine = engines.engine_of(asked.engine, plan.root, machine, planned.widest)
        leaving.at_last(engine.close)
        slots = engines.slots_for(engine, asked.slots, machine, planned.widest)
        with progress.shown(asked.plain) as watch:
            driver = Driver(ledger, engine, agenda, checks=planned.checks, now=clock.timestamp, watch=watch)
            try:
                driver.run(min(slots, max(1, len(agenda.tasks))))
            except KeyboardInterrupt as interruption:
                _interrupted(ledger, only)
                return int(getattr(interruption, "exit_code", INTERRUPTED))
            finally:
                ended = driver.progress
        return _conclude(ledger, only, agenda.units, ended.tasks)


def _dry(asked: Options, machine: Machine) -> int:
    """Say what would be done. Nothing is written to the batch's folder."""
    from grader.batch import folder, outlook
    from grader.batch.agenda import agenda_of
    from grader.batch.ledger import Ledger
    from grader.batch.plan import make
    from grader.batch.slots.local import slots_for as local_slots

    plan = asked.asked(asked.seed)
    plan = dataclasses.replace(plan, seed=folder.seed_of(asked.out, plan.assignment.title, asked.seed))
    with tempfile.TemporaryDirectory(prefix="ranklings-") as scratch:
        ledger = Ledger.rehearsal(asked.out, Path(scratch), shard=folder.shard_name(plan.shard))
        with contextlib.closing(ledger):
            _tell_kept(asked, plan, ledger)
            before = ledger.plan()
            planned = make(ledger, plan, clock.timestamp)
            _tell_untimed(planned)
            only = _people(asked.only, planned.people)
            agenda = agenda_of(ledger, planned.estimates, again=asked.again or "", only=only)
            slots = asked.slots or local_slots(machine.cores, planned.widest)
            tell(outlook.told(ledger, agenda, slots, before))
    return PASSED


def _tell_kept(asked: Options, plan: Any, ledger: Any) -> None:
    """Say what this call takes from an earlier one, and what it leaves out that an earlier one had."""
    from grader.batch.ledger import content_of

    if plan.people and not asked.people:
        say(f"Who handed in what, and when, is as {plan.people.path} says, which keeps what --people was given last. "
            "Another --people replaces it.")  # fmt: skip
    before = yaml.safe_load(content_of(ledger.plan()).get("assignment", "")) or {}
    if before.get("checks") and not plan.assignment.checks:
        say(f"Earlier the checks in {before['checks']} were judged too, and now they are not; --checks names them.")


def _tell_untimed(planned: Any) -> None:
    if planned.untimed:
        say(planned.untimed)


def _people(named: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The people that --only names, as their hand-ins are called. Raises UsageError where there is no such person."""
    from grader.catalog.nearest import offer
    from grader.course.roster import normal

    by_key = {normal(who): who for who in known}
    for who in named:
        if normal(who) not in by_key:
            raise UsageError(f"--only {who}: there is no hand-in of that person. {offer(who, list(known))}")
    return tuple(by_key[normal(who)] for who in named)


def _interrupted(ledger: Any, only: tuple[str, ...]) -> None:
    from grader.batch import state

    found = state.standings(ledger, only)
    say(f"Interrupted: {found.final} of {found.units} are graded and recorded, and nothing is left running. The same "
        "command goes on.")  # fmt: skip


def _conclude(ledger: Any, only: tuple[str, ...], expected: int, done: int) -> int:
    """Say what the batch came to. Its exit code."""
    from grader.batch import state

    found = state.standings(ledger, only)
    if found.units != expected or found.waiting:
        raise RunError(
            f"{expected} hand-ins were expected, and there are {found.final} verdicts, {found.broken} broken and "
            f"{found.quarantined} quarantined. Please report it; the same command goes on."
        )
    tell(state.page(ledger, only, done))
    return FAILED if found.broken or found.quarantined else PASSED
