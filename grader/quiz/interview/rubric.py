"""After an interview the person ticks what they said first in each design case, with the rubric before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grader.quiz.answers import LETTERS
from grader.quiz.chains import DesignCase
from grader.quiz.interview.debrief import open_cases
from grader.quiz.interview.state import Interview
from grader.quiz.page import Page
from grader.quiz.questions import Item

ASK = "Which of these did you say? Letters, as a c; Enter for none: "


def tick(
    interview: Interview,
    items: Mapping[str, Item],
    *,
    ask: Callable[[str], str],
    say: Callable[[str], None],
    keep: Callable[[Interview], None],
    page: Page,
) -> Interview:
    """The interview with what the person ticks, kept after each case. Who leaves by Ctrl-C or by the end of the input
    has ticked what they have; the rest can be ticked when the debrief is shown again."""
    try:
        for case in open_cases(interview, items):
            interview = interview.ticked(case.id, _ticked(interview, case, ask, say, page))
            keep(interview)
    except (EOFError, KeyboardInterrupt):
        say("Not ticked; make interview ARGS=--debrief asks again.")
    return interview


def _ticked(
    interview: Interview, case: DesignCase, ask: Callable[[str], str], say: Callable[[str], None], page: Page
) -> tuple[int, ...]:
    points = case.points(interview.seed_of(case))
    typed = next(answer.typed for answer in interview.answers if answer.question == case.id)
    parts = [page.heading("What you said first"), page.prose(f"{case.asks_first(interview.seed_of(case))}\n\n")]
    parts.append(page.prose(f"You said: {' '.join(typed.split()) or 'nothing'}\n\nA good answer has in it:"))
    parts += [page.prose(point, hang=f"  {LETTERS[place]}) ") for place, point in enumerate(points)]
    say("".join(parts).rstrip("\n"))
    while (places := _places(ask(ASK), len(points))) is None:
        say(f"Type letters from a to {LETTERS[len(points) - 1]}, or Enter.")
    return places


def _places(typed: str, count: int) -> tuple[int, ...] | None:
    """`a c`, `ac` or `a, c` as places; None for anything else."""
    letters = "".join(typed.lower().replace(",", " ").split())
    if any(letter not in LETTERS[:count] for letter in letters):
        return None
    return tuple(sorted({LETTERS.index(letter) for letter in letters}))
