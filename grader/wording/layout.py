"""Lines of a terminal page: wrapped with a hanging indent, in rich Text, so that markup is never interpreted."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from grader.model import Run
from grader.wording.strip import legend, strips

MAX_LINES = 12
"""Lines of one value that are shown."""

_RULER = Console(file=StringIO(), width=80, color_system=None, legacy_windows=False)
_CARETS = frozenset(" ^~")


def wrap(text: Text, width: int) -> list[Text]:
    """`text` in lines of at most `width` cells; words that are longer are folded."""
    lines = list(text.wrap(_RULER, max(width, 8), overflow="fold", tab_size=4)) or [Text()]
    for line in lines:
        line.rstrip()
    return lines


def hang(prefix: Text, body: list[Text]) -> list[Text]:
    """`prefix` before the first line of `body`, and the others indented to stand under it."""
    margin = Text(" " * prefix.cell_len)
    lines = [(prefix if index == 0 else margin) + line for index, line in enumerate(body)]
    for line in lines:
        line.rstrip()
    return lines


def paragraph(prefix: Text, text: Text, width: int) -> list[Text]:
    """One text behind a prefix, wrapped to `width` cells with a hanging indent."""
    return hang(prefix, wrap(text, width - prefix.cell_len))


def spaced(parts: Iterable[list[Text]]) -> list[Text]:
    """The parts with an empty line between them."""
    lines: list[Text] = []
    for part in parts:
        lines += [*([Text()] if lines else []), *part]
    return lines


def strip_lines(run: Run, width: int, indent: int) -> list[Text]:
    """Who was in which communication when, up to where all of them stopped; nothing where no rank told."""
    margin, rows = " " * indent, strips(run, max(8, width - indent - 6))
    if not rows:
        return []
    told = paragraph(Text(margin), Text(legend(run), "dim"), width)
    head = Text(f"{margin}in order, from left to right", "dim")
    return [head, *(Text(f"{margin}{rank:<4}  {row}") for rank, row in rows), *told]


def crop(text: str, width: int) -> str:
    """`text` in at most `width` cells on one line, with an ellipsis where something was cut."""
    line = Text(text.replace("\n", " ").replace("\t", "    "))
    line.truncate(width, overflow="ellipsis")
    return line.plain


def value(text: str, width: int) -> list[Text]:
    """A value that may have several lines. Caret lines of a syntax error keep their columns."""
    lines = [line.replace("\t", "    ").rstrip() for line in text.strip("\n").split("\n")]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"… ({len(lines) - MAX_LINES + 1} more lines)"]
    shown: list[Text] = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _is_caret_line(below):
            shown += window(line, below, width)
        elif not _is_caret_line(line) or not shown:
            shown += paragraph(Text(line[: len(line) - len(line.lstrip())][: width // 2]), Text(line.lstrip()), width)
    return shown


def window(code: str, carets: str, width: int) -> list[Text]:
    """A line of code and its caret line, cut alike where they are too wide, so that the caret stays in sight."""
    caret, full = carets.index("^"), cell_len(code)
    if full > width and caret >= width - 8:
        start = max(1, min(caret - width // 2, full - width + 1))
        code, carets = f"…{_from_cell(code, start)}", f" {carets[start:]}"
    return [Text(crop(code, width)), Text(carets[:width].rstrip())]


def _from_cell(text: str, start: int) -> str:
    """What of `text` stands from cell `start` on; a wide character that is cut in two becomes a space."""
    gone = 0
    for index, char in enumerate(text):
        if gone >= start:
            return " " * (gone - start) + text[index:]
        gone += cell_len(char)
    return ""


def _is_caret_line(line: str) -> bool:
    return "^" in line and set(line) <= _CARETS


def paint(lines: list[Text], color: bool) -> str:
    """The lines as one string, with ANSI colours or without; the text is the same. Links are in it either way."""
    linked = any(_leads(span.style) for line in lines for span in line.spans)
    if linked and not color:
        lines = [Text(line.plain, spans=[span for span in line.spans if _leads(span.style)]) for line in lines]
    console = Console(
        file=StringIO(),
        width=1_000,
        color_system="standard" if color or linked else None,
        force_terminal=color or linked,
        force_jupyter=False,  # in a notebook, Rich would show it by itself
        no_color=not color,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        for line in lines:
            console.print(line, soft_wrap=True)
    return captured.get()


def _leads(style: object) -> bool:
    return isinstance(style, Style) and bool(style.link)
