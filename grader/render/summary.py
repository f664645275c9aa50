"""The last page of an assignment in a terminal: what each exercise earned, and the sum."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from grader.model import Entry, Result
from grader.wording.layout import crop, hang, paint, wrap
from grader.wording.marks import NO_MARK
from grader.wording.text import points

NARROWEST, WIDEST = 40, 100
MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "error": ("!", "yellow")}


def render(result: Result, *, color: bool = False, width: int = 80) -> str:
    """The page as text, `width` columns wide (40 to 100). Colour changes nothing but the colour."""
    return paint(_Page(result, min(max(width, NARROWEST), WIDEST)).lines(), color)


@dataclass(frozen=True, slots=True)
class _Page:
    result: Result
    width: int

    def lines(self) -> list[Text]:
        rows = [line for entry in self.result.entries for line in self.row(entry)]
        worth = f"{points(self.result.score)}/{points(self.result.max_score)}"
        total = self.ended_by(Text("Total", "bold"), "no mark" if self.result.mark is None else worth)
        return [*wrap(Text(self.result.title, "bold"), self.width), Text(), *rows, Text(), total, *self.remark()]

    def row(self, entry: Entry) -> list[Text]:
        """Mark, exercise, points; below them what handing in late cost."""
        mark, style = MARKS[entry.report.status]
        worth = f"{points(entry.score)}/{points(entry.max_score)}"
        worth = worth if entry.mark is not None else "not judged" if entry.max_score else "not counted"
        title = crop(f"{entry.report.exercise.name}  {entry.report.exercise.title}", self.width - len(worth) - 5)
        lines = [self.ended_by(Text.assemble(" ", (mark, style), " ", title), worth)]
        if entry.late:
            lines += hang(Text("   "), wrap(Text(entry.late.told, "dim"), self.width - 3))
        return lines

    def ended_by(self, text: Text, end: str) -> Text:
        return text.append(" " * max(1, self.width - text.cell_len - len(end))).append(end)

    def remark(self) -> list[Text]:
        """What to make of points that are missing from the sum."""
        if self.result.status == "error":
            return wrap(Text(NO_MARK), self.width)
        lost = self.result.points - self.result.max_score
        if lost < 1e-9:
            return []
        told = f"{points(lost)} points could not be judged through no fault of yours; they are not counted."
        return wrap(Text(told), self.width)
