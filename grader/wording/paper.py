"""Rich renderables as strings."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def on_paper(thing: RenderableType, *, color: bool, width: int) -> str:
    """A Rich table, statement or text as lines without trailing blanks, at most `width` columns wide."""
    system = "standard" if color else None
    console = Console(file=io.StringIO(), width=width, color_system=system, force_terminal=color, highlight=False)  # type: ignore[arg-type]
    with console.capture() as capture:
        console.print(thing)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n") + "\n"
