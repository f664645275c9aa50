"""Lines that a terminal would break in the middle of a word, wrapped at words. Standard library only."""

from __future__ import annotations

import shutil
import textwrap
from typing import TextIO


def fitted(text: str, width: int) -> str:
    """The text with its long lines wrapped at words, as far in as they begin. Painted lines fit already."""
    return "\n".join(_folded(line, width) for line in text.split("\n"))


def for_stream(text: str, stream: TextIO) -> str:
    """The text for a terminal that is as wide as it is; as it stands for a pipe or a file, where a line stays one."""
    return fitted(text, shutil.get_terminal_size((80, 24)).columns) if stream.isatty() else text


def _folded(line: str, width: int) -> str:
    if len(line) <= width or "\x1b" in line:
        return line
    lead = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False)
