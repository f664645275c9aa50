"""The quiz as a dialogue over two functions: `ask` puts a prompt and gives a line, `say` shows text.

What was answered is kept before anything else is said, so Ctrl-C or the end of the input at any moment loses nothing.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from fsrs import Rating

from grader.catalog.questions import Bank, CardQuestion, ChoiceQuestion, NumberQuestion, Question
from grader.practice.quiz import answers, calculation, deck
from grader.practice.quiz.answers import LETTERS, Judgement, Outcome
from grader.practice.quiz.deck import Store
from grader.practice.quiz.page import Page, when

_RATINGS = {"1": Rating.Again, "2": Rating.Hard, "3": Rating.Good, "4": Rating.Easy}
_RATE = "How well did you know it? 1 not at all, 2 with effort, 3 well, 4 at once: "
_KEYS = "? hint, ? again the answer, q quit"
_END_WORDS = {"q", "quit", "exit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a sitting came to. A question that came again after a miss counts once, as it was answered first.

    `by_topic` has (asked, right) for each topic. `next_due` is when the next of all questions is due, or None."""

    asked: int
    right: int
    by_topic: Mapping[str, tuple[int, int]]
    next_due: datetime | None
    finished: bool


def run(
    banks: Sequence[Bank],
    store: Store,
    *,
    now: Callable[[], datetime],
    ask: Callable[[str], str],
    say: Callable[[str], None],
    limit: int = 10,
    topic: str | None = None,
    plain: bool = False,
    seed: int = 0,
    passed: Collection[str] = (),
    color: bool = False,
    width: int = 80,
) -> Summary:
    """Hold a quiz of at most `limit` questions. `now` names a time zone; `seed` shuffles options; `passed` are the
    numbers of exercises passed. EOFError and KeyboardInterrupt out of `ask` or `say` end it with the summary."""
    chosen = deck.choose(banks, store, now(), limit=limit, topic=topic, passed=passed)
    page = Page(plain=plain, color=color, width=width)
    sitting = _Sitting(
        store=store, now=now, ask=ask, say=say, page=page, titles={bank.topic: bank.title for bank in banks}, seed=seed
    )
    finished = sitting.hold(chosen)
    summary = _summary(sitting, finished)
    say(told(summary, banks, store, now(), page, topic))
    return summary


class _Quit(Exception):
    """The learner has had enough."""


@dataclass(slots=True, kw_only=True)
class _Turn:
    """One showing of a question: how its options stand, and what happened before it was answered."""

    question: Question
    shown: Sequence[int]
    begun: datetime
    again: bool
    hinted: bool = False


@dataclass(slots=True, kw_only=True)
class _Sitting:
    """One evening's dialogue."""

    store: Store
    now: Callable[[], datetime]
    ask: Callable[[str], str]
    say: Callable[[str], None]
    page: Page
    titles: Mapping[str, str]
    seed: int
    results: list[tuple[Question, bool]] = field(default_factory=list)

    def hold(self, chosen: Sequence[Question]) -> bool:
        """Ask all, and what was missed once more. Whether it came to its end."""
        try:
            if chosen:
                self.say(self.page.prose(_welcome(len(chosen))).rstrip("\n"))
            missed = [question for question in self._all(chosen, "") if not self.results[-1][1]]
            results, self.results = self.results, []
            try:
                deque(self._all(missed, "once more, "), maxlen=0)
            finally:
                self.results = results
        except (EOFError, KeyboardInterrupt, _Quit):
            return False
        return True

    def _all(self, questions: Sequence[Question], label: str) -> Iterator[Question]:
        """Ask each, and give it when it is answered."""
        for number, question in enumerate(questions, 1):
            shown = _order(question, self.seed, label)
            heading = f"{self.titles[question.topic]} · {label}{number} of {len(questions)}"
            heading += f" · difficulty {question.difficulty} of 3"
            self.say(self.page.question(question, heading, shown))
            self._answered(_Turn(question=question, shown=shown, begun=self.now(), again=bool(label)))
            yield question

    def _answered(self, turn: _Turn) -> None:
        if isinstance(turn.question, CardQuestion):
            self._card(turn)
            return
        for tries in count():
            typed = self._line(_prompt(turn.question) if not tries else "> ")
            if typed == "?" and turn.hinted:
                self._close(turn, Judgement(outcome=Outcome.WRONG, message="Here is the answer."), None)
                return
            if typed == "?":
                self._hint(turn)
                continue
            judgement, place = _judged(turn, typed)
            if judgement.outcome is not Outcome.UNREADABLE:
                self._close(turn, judgement, place)
                return
            self.say(self.page.prose(judgement.message).rstrip("\n"))

    def _line(self, prompt: str) -> str:
        typed = self.ask(prompt).strip()
        if typed.lower() in _END_WORDS:
            raise _Quit
        return typed

    def _hint(self, turn: _Turn) -> None:
        turn.hinted = True
        self.say(self.page.prose(_hint(turn), style="note").rstrip("\n"))

    def _close(self, turn: _Turn, judgement: Judgement, place: int | None) -> None:
        """Keep the answer, then say what it was worth and why."""
        right = judgement.outcome is Outcome.RIGHT
        seconds = self._seconds(turn)
        first = turn.question.id not in self.store.cards()
        rating = deck.rating(turn.question, right=right, hinted=turn.hinted, seconds=seconds, first=first)
        self._keep(turn, min(rating, Rating.Good) if turn.again else rating)  # the answer was on the page just now
        self.say(self.page.outcome(right, judgement.message))
        self.say(self.page.answer(turn.question, turn.shown, place))

    def _card(self, turn: _Turn) -> None:
        typed = self._line("Answer aloud or type, then Enter [? hint, q quit]: ")
        if typed == "?":
            self._hint(turn)
            self._line("Enter shows the answer: ")
        self.say(self.page.answer(turn.question, turn.shown))
        while (rated := self._line(_RATE)) not in _RATINGS:
            self.say("Type 1, 2, 3 or 4.")
        best = Rating.Hard if turn.hinted else Rating.Easy
        self._keep(turn, min(_RATINGS[rated], best))

    def _keep(self, turn: _Turn, rating: Rating) -> None:
        deck.keep(self.store, turn.question, rating, self.now(), self._seconds(turn))
        self.results.append((turn.question, rating > Rating.Again))

    def _seconds(self, turn: _Turn) -> float:
        return (self.now() - turn.begun).total_seconds()


def _welcome(count: int) -> str:
    few = f"{count} question{'s' if count != 1 else ''}."
    return f"{few} Keys: a letter or a number with its unit, then Enter; {_KEYS}. What you answered is kept at once."


def _order(question: Question, seed: int, label: str) -> Sequence[int]:
    """The options' indices, shuffled by the seed, the question, and whether it comes once more."""
    indices = list(range(len(question.options))) if isinstance(question, ChoiceQuestion) else []
    random.Random(f"{seed} {question.id} {label}").shuffle(indices)
    return indices


def _prompt(question: Question) -> str:
    if isinstance(question, ChoiceQuestion):
        return f"Your answer [a-{LETTERS[len(question.options) - 1]}, ?, q]: "
    assert isinstance(question, NumberQuestion)
    known = "a plain number" if question.unit == "1" else f"in {question.unit}"
    unit = known if question.unit_shown else "with its unit"
    return f"Your answer, {unit} [?, q]: "


def _judged(turn: _Turn, typed: str) -> tuple[Judgement, int | None]:
    """The judgement, and the place of the option that was chosen."""
    if isinstance(turn.question, ChoiceQuestion):
        judgement = answers.chosen(typed, turn.shown, turn.question.right)
        return judgement, answers.letter(typed, len(turn.shown))
    assert isinstance(turn.question, NumberQuestion)
    return answers.number(typed, turn.question), None


def _hint(turn: _Turn) -> str:
    """The question's own hint, or else one wrong option less, or the formula to think of."""
    question = turn.question
    if question.hint:
        return f"Hint: {question.hint}"
    if isinstance(question, ChoiceQuestion):
        index = next(index for index in turn.shown if index != question.right)
        return f"Hint: it is not {LETTERS[turn.shown.index(index)]}: {question.options[index].why}."
    if isinstance(question, NumberQuestion):
        used = calculation.names(question.calculation)
        return f"Hint: {', '.join(used)} of exercise 19." if used else "Hint: write down each quantity with its unit."
    return "Hint: say first what is sent or kept, by whom, and when."


# -- the end ----------------------------------------------------------------------------------------------------------


def _summary(sitting: _Sitting, finished: bool) -> Summary:
    asked = Counter(question.topic for question, _ in sitting.results)
    right = Counter(question.topic for question, was_right in sitting.results if was_right)
    known = deck.known(sitting.store)
    return Summary(
        asked=asked.total(),
        right=right.total(),
        by_topic={topic: (number, right[topic]) for topic, number in asked.items()},
        next_due=min((card.due for card in known.values()), default=None),
        finished=finished,
    )


def told(summary: Summary, banks: Sequence[Bank], store: Store, now: datetime, page: Page, topic: str | None) -> str:
    """The summary in words."""
    titles = {bank.topic: bank.title for bank in banks}
    lines = [f"{summary.asked} asked, {summary.right} right." if summary.asked else _nothing(summary, topic)]
    if len(summary.by_topic) > 1:
        lines += [f"  {titles[topic]}: {right} of {asked}" for topic, (asked, right) in summary.by_topic.items()]
    known = {question.id for bank in banks for question in bank.questions}
    due = [card.due for identity, card in deck.known(store).items() if identity in known]
    if due:
        lines.append(f"Next: {when(due, now)}. Met so far: {len(due)} of {len(known)}.")
    return page.heading("Summary") + page.prose("\n".join(lines)).rstrip("\n")


def _nothing(summary: Summary, topic: str | None) -> str:
    if not summary.finished:
        return "Nothing was answered."
    where = "of this topic " if topic else ""
    more = "" if topic else " Name a topic to see more of it now."
    return f"Nothing {where}is due now, and today's new questions are done.{more}"
