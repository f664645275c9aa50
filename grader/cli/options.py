"""Options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.model import MAX_SEED

file_path = click.Path(path_type=Path)
seeds = click.IntRange(0, MAX_SEED)
sandboxes = click.Choice(["auto", "require", "off"])

color = click.option("--color/--no-color", default=None, help="Default: colour on a terminal.")
start_method = click.option(
    "--start-method",
    type=click.Choice(["forkserver", "spawn"]),
    default="forkserver" if os.name == "posix" else "spawn",
)
