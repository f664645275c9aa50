"""`render`: other formats of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from grader import calling
from grader.cli import console, options, outputs
from grader.records import reading
from grader.render import summary, terminal


@click.command("render")
@click.argument("report", type=options.file_path)
@options.color
@outputs.options
def command(report: Path, color: bool | None, **chosen: Any) -> None:
    """Make other formats of a REPORT that `grade --json` wrote; without any, show its page."""
    wanted = outputs.Outputs.taken(chosen)
    result = reading.read(report)
    wanted.check()
    if not (wanted.files or wanted.github or wanted.problems):
        shown, style = wanted.shown(result), console.style(color)
        how: dict[str, Any] = {"by": calling.way(), "editor": wanted.way_in(style), **style}
        pages = [terminal.render(entry.report, **how) for entry in shown.entries]
        overall = [summary.render(shown, **style)] if len(pages) > 1 else []
        console.show("\n".join([*pages, *overall]))
    wanted.write(result)
    wanted.announce(result)
