"""Notebooks: `%load_ext grader` gives `%%grade 03`, whose cell is the submission. Another face of the grader; it asks
the process that practice grades in, so that nothing of torch is imported into the notebook's kernel."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from grader import catalog
from grader.model import MAX_SEED, Report, alone, number_of
from grader.model.errors import Cancelled, GraderError
from grader.notebook.warm import Warm
from grader.practice.warm import phase_of
from grader.render import terminal
from grader.render.html import fragment
from grader.wording.text import safe

SHELL, KEY = "ranklings", "_ranklings_warm"
INTERRUPTED = "Interrupted: the ranks have ended, and the next grade is as quick as before."


@click.command("%%grade", add_help_option=False)
@click.argument("ex")
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Replay a grade; without it a new seed is drawn.")
@click.option("--trace", is_flag=True, help="Draw every run's timeline, not those of deadlocks alone.")
@click.option("--help", "-h", "-?", "helped", is_flag=True, is_eager=True, help="Show this.")
def asked(ex: str, seed: int | None, trace: bool, helped: bool) -> dict[str, Any]:
    """Grade this cell as exercise EX (03, 3, train_ddp)."""
    return {"ex": ex, "seed": seed, "trace": trace, "helped": helped}


def load(shell: Any) -> None:
    """`%load_ext grader`."""
    unload(shell)
    warm = Warm()
    setattr(shell, KEY, warm)
    shell.register_magic_function(_magic(shell, warm), "cell", "grade")


def unload(shell: Any) -> None:
    """`%unload_ext grader`: the warm session ends."""
    if (warm := getattr(shell, KEY, None)) is not None:
        warm.close()
        delattr(shell, KEY)


def _magic(shell: Any, warm: Warm) -> Callable[[str, str], None]:
    def grade(line: str, cell: str) -> None:
        """Grade this cell: %%grade EX [--seed N] [--trace]."""
        _grade(line, cell, shell.display_pub, warm)

    return grade


def _grade(line: str, cell: str, publisher: Any, warm: Warm) -> None:
    try:
        words = shlex.split(line)
        if not words or {"--help", "-h", "-?"} & set(words):
            print(asked.get_help(click.Context(asked, info_name="%%grade")))
            return
        told: dict[str, Any] = asked.main(words, "%%grade", standalone_mode=False)
        root = catalog.repository_root()
        name = catalog.resolve(told["ex"], root)
        below = _Below(publisher, name)
        try:
            report = warm.grade(name, root, _source(line, cell), below.tell, seed=told["seed"], trace=told["trace"])
        except BaseException:
            below.clear()
            raise
        below.show(report, every_run=told["trace"])
    except click.ClickException as error:
        print(f"%%grade: {error.format_message()} Try %%grade --help.", file=sys.stderr)
    except ValueError as error:
        print(f"%%grade: {line.strip()} cannot be read: {error}.", file=sys.stderr)
    except (Cancelled, KeyboardInterrupt):
        print(INTERRUPTED, file=sys.stderr)
    except GraderError as error:
        print(f"grader: {error}", file=sys.stderr)


def _source(line: str, cell: str) -> str:
    """The cell as a file, in which each line has the number that it has in the cell."""
    return f"# %%grade {' '.join(line.split())}\n{cell}"


class _Below:
    """The one output below a cell: first what is going on, then the page, or nothing where there is none."""

    def __init__(self, publisher: Any, name: str) -> None:
        self._publisher, self._name = publisher, name
        self._id = {"display_id": f"{SHELL}-{secrets.token_hex(8)}"}
        self._publish({"text/plain": f"{name}: starting"}, update=False)

    def tell(self, event: Mapping[str, Any]) -> None:
        if phase := phase_of(event):
            self._publish({"text/plain": safe(f"{self._name}: {phase}")})

    def show(self, report: Report, *, every_run: bool) -> None:
        """The page as HTML, and as text for a front end that shows none."""
        command = f"%%grade {number_of(report.exercise.name)} --seed {report.seed}"
        prefix = f"n{secrets.token_hex(4)}-"
        html = fragment.render(alone(report), command=command, prefix=prefix, every_run=every_run)
        self._publish({"text/html": html, "text/plain": terminal.render(report, command=[command])})

    def clear(self) -> None:
        self._publish({"text/plain": ""})

    def _publish(self, data: dict[str, str], *, update: bool = True) -> None:
        self._publisher.publish(data, transient=self._id, update=update)
