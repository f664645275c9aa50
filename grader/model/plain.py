"""What names and places of the grader's own mean to a student. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.model.run import StackFrame

NOBODY_TYPES = "Ranks have no keyboard: input() finds nothing."
NO_INPUT = "EOF when reading a line"
"""What Python says where `input()` finds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What an exception whose name tells a student nothing stands for: on a page, in half a sentence, and a hint."""

    subject: str
    short: str
    hint: str | None = None


PLAIN_TYPES: Mapping[str, Meaning] = {
    "ContractError": Meaning(subject="The file is not what the exercise asks for", short="it is not as asked for"),
    "NeverMeet": Meaning(
        subject="Processes that were to meet never did",
        short="the processes never met",
        hint="Were all of them started, and did each stay until the others had come?",
    ),
    "BdbQuit": Meaning(
        subject="A debugger was called (breakpoint or pdb), and nobody sits at it",
        short="a debugger was called, and nobody sits at it",
        hint="Ranks have no keyboard. Print what you want to know.",
    ),
    "ForgedReport": Meaning(subject="The grader was told one thing twice", short="the grader was told one thing twice"),
    "MalformedMessage": Meaning(
        subject="The grader was told what no rank tells it", short="the grader was told what no rank tells it"
    ),
}
"""By the exception's type. They are the grader's own, or Python's for what cannot be had while grading."""


def error_in_words(kind: str, message: str) -> str:
    """`ValueError: what it says`; of a type that says nothing to a student, what it means."""
    said, meaning = message.strip(), PLAIN_TYPES.get(kind)
    if meaning:
        return said or meaning.short
    return f"{kind}: {said}" if said else kind


def no_keyboard(said: str) -> str | None:
    """The hint for an error, told in words as above, that comes of asking somebody at a keyboard; None for others."""
    if f"EOFError: {NO_INPUT}" in said:
        return NOBODY_TYPES
    debugger = PLAIN_TYPES["BdbQuit"]
    return debugger.hint if debugger.short in said else None


def ours(stack: Sequence[StackFrame]) -> str:
    """What is added to an operation that a rank waits in, where nothing of the student's has called it."""
    return ", the grader's own" if stack and not any(frame.student for frame in stack) else ""
