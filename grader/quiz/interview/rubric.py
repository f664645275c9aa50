"""After an interview the person judges what nobody else can, with the answers before them: how well they knew an open
question, and what of a design case's rubric they said."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsrs import Rating

from grader import calling
from grader.quiz.answers import LETTERS
from grader.quiz.chains import DesignCase
from grader.quiz.interview.debrief import open_cases, open_questions
from grader.quiz.interview.state import Answer, Interview
from grader.quiz.page import Page
from grader.quiz.questions import Item, Question

RATE = "How well did you know it? 1 not at all, 2 with effort, 3 well, 4 at once; Enter to leave it: "
ASK = "Which of these did you say? Letters, as a c; Enter for none: "


def tick(
    interview: Interview,
    items: Mapping[str, Item],
    *,
    ask: Callable[[str], str],
    say: Callable[[str], None],
    keep: Callable[[Interview], None],
    learn: Callable[[Question, Rating, float], None],
    page: Page,
) -> Interview:
    """The interview with what the person says of it, kept after each question; `learn` tells the quiz how well one was
    known, and how many seconds it took. Who leaves by Ctrl-C or by the end of the input has said what they have; the
    rest is asked for when the debrief is shown again."""
    try:
        for question, answer in open_questions(interview, items):
            if rating := _rated(question, answer, ask, say, page):
                interview = interview.rated_as(question.id, rating)
                keep(interview)
                learn(question, Rating(rating), answer.seconds)
        for case in open_cases(interview, items):
            interview = interview.ticked(case.id, _ticked(interview, case, ask, say, page))
            keep(interview)
    except (EOFError, KeyboardInterrupt):
        say(f"Not ticked; {calling.command('interview', '', '--debrief')} asks again.")
    return interview


def _rated(
    question: Question, answer: Answer, ask: Callable[[str], str], say: Callable[[str], None], page: Page
) -> int | None:
    said = f"You said: {' '.join(answer.typed.split()) or 'nothing'}"
    say(page.question(question, "An open question") + "\n\n" + page.prose(said) + page.answer(question))
    while (typed := ask(RATE).strip()) not in ("", "1", "2", "3", "4"):
        say("Type 1, 2, 3 or 4, or Enter.")
    return int(typed) if typed else None


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
