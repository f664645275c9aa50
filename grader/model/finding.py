"""A fault, as fields: the sentence is built once, at the end. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from grader.model.words import rank_list

MAX_LINE = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault. The sentence is built once, at the end, from the fields. A check may take them from what a rank has
    sent: a `line` that is no number of a line counts as none, and a text is a text."""

    subject: str
    ranks: tuple[int, ...] = ()
    expected: str = ""
    actual: str = ""
    line: int | None = None
    case: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        if type(self.line) is not int or not 0 <= self.line < MAX_LINE:
            object.__setattr__(self, "line", None)
        for name in ("subject", "expected", "actual"):
            if type(text := getattr(self, name)) is not str:
                object.__setattr__(self, name, str(text))

    def sentence(self) -> str:
        """One line: the subject, on which ranks, what was expected, what was seen, at which line."""
        text = self.subject
        if self.ranks:
            text += f" on {rank_list(self.ranks)}"
        seen = [f"expected {self.expected}"] if self.expected else []
        seen += [f"got {self.actual}"] if self.expected and self.actual else [self.actual] if self.actual else []
        if seen:
            text += f": {', '.join(seen)}"
        return f"{text} (line {self.line})" if self.line else text
