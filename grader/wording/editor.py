"""A line of the student's file as a way into an editor: an address to click on, or `file:line` as terminals know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rich.style import Style
from rich.text import Text

from grader.wording.text import safe

SCHEMES = ("vscode", "vscode-insiders", "vscodium", "cursor")
"""Editors that open vscode://file/PATH:LINE, each under its own name."""
PLAIN = "code:line"
"""No address: `file:line` in place of `line 41`, which terminals of editors make a link, and `code -g` takes."""
CHOICES: Sequence[str] = (*SCHEMES, PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """Where the lines of a page lead. `here` is the folder from which paths are told."""

    name: str
    here: Path

    def address(self, path: Path, line: int) -> str:
        """What opens the file at the line; nothing for `code:line`. Of a path nothing but ASCII is left."""
        if self.name == PLAIN:
            return ""
        return f"{self.name}://file/{quote(str(self.here / path).lstrip('/'), errors='surrogateescape')}:{line}"

    def told(self, path: Path, line: int) -> str:
        """How a line is named: as on every page, or with its file."""
        if self.name != PLAIN:
            return f"line {line}"
        whole = self.here / path
        return safe(f"{whole.relative_to(self.here) if whole.is_relative_to(self.here) else whole}:{line}")

    def link(self, text: Text, path: Path, line: int, word: str) -> None:
        """Make the last `word` of a text lead to the line."""
        start = text.plain.rfind(word)
        if start >= 0 and (address := self.address(path, line)):
            text.stylize(Style(link=address), start, start + len(word))
