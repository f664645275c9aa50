"""A fault, as fields: the sentence is built once, at the end. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from grader.model.words import rank_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault. The sentence is built once, at the end, from the fields."""

    subject: str
    ranks: tuple[int, ...] = ()
    expected: str = ""
    actual: str = ""
    line: int | None = None
    case: str | None = None
    hint: str | None = None

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
