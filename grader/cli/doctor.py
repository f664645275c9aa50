"""`doctor`: what this machine has."""

from __future__ import annotations

import click

from grader import doctor
from grader.cli import console, options
from grader.cli.ending import FAULT, PASSED


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@options.color
def command(as_json: bool, color: bool | None) -> int:
    """Say what this machine has and what each thing means for grading."""
    facts = doctor.examine()
    console.show(doctor.as_json(facts) if as_json else doctor.table(facts, **console.style(color)))
    return PASSED if doctor.can_grade(facts) else FAULT
