"""The quiz: questions that are due or new, what each answer was worth, and those that were missed once more.

What was answered is kept before anything else is said, so Ctrl-C or the end of the input at any moment loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fsrs import Rating

from grader.quiz import deck
from grader.quiz.answers import Correctness, Judgement
from grader.quiz.deck import Store
from grader.quiz.dialogue import Answered, Dialogue
from grader.quiz.page import Page, when
from grader.quiz.questions import Bank, Item, Question

_RATINGS = {"1": Rating.Again, "2": Rating.Hard, "3": Rating.Good, "4": Rating.Easy}
_RATE = "How well did you know it? 1 not at all, 2 with effort, 3 well, 4 at once: "
_KEYS = "? hint, ? again or skip shows the answer, q quit"
_END_WORDS = {"q", "quit", "exit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a quiz came to. A question that came again after a miss counts once, as it was answered first.

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
    width: int | Callable[[], int] = 80,
) -> Summary:
    """Hold a quiz of at most `limit` questions. `now` names a time zone; `seed` shuffles options; `passed` are the
    numbers of exercises passed. EOFError and KeyboardInterrupt out of `ask` or `say` end it with the summary."""
    chosen = deck.choose(banks, store, now(), limit=limit, topic=topic, passed=passed)
    page = Page(plain=plain, color=color, width=width)
    titles = {bank.topic: bank.title for bank in banks}
    session = QuizSession(store=store, now=now, ask=ask, say=say, page=page, titles=titles, seed=seed)
    finished = session.hold(chosen)
    summary = _summary(session, finished)
    say(in_words(summary, banks, store, now(), page, topic))
    return summary


class _Quit(Exception):
    """The learner has had enough."""


@dataclass(slots=True, kw_only=True)
class QuizSession:
    """One quiz, from the first question to the last that was missed."""

    store: Store
    now: Callable[[], datetime]
    ask: Callable[[str], str]
    say: Callable[[str], None]
    page: Page
    titles: Mapping[str, str]
    seed: int
    results: list[tuple[Item, bool]] = field(default_factory=list)
    _hinted: bool = False

    def hold(self, chosen: Sequence[Item]) -> bool:
        """Ask all, and what was missed once more. Whether it came to its end."""
        try:
            if chosen:
                self.say(self.page.prose(_welcome(len(chosen))).rstrip("\n"))
            for place, question in enumerate(chosen, 1):
                self._put(question, f"{place} of {len(chosen)}")
            missed = [question for question, right in self.results if not right]
            for place, question in enumerate(missed, 1):
                self._put(question, f"{place} of {len(missed)}", label="once more, ")
        except (EOFError, KeyboardInterrupt, _Quit):
            return False
        return True

    def _put(self, item: Item, place: str, label: str = "") -> None:
        """Ask a question or a chain of them, for the first time or with a `label`, and keep what it was worth."""
        questions = item.asked(f"{self.seed} {item.id} {label}")
        worst, seconds = Rating.Easy, 0.0
        for number, shown in enumerate(questions, 1):
            self._hinted = False
            part = f" · part {number} of {len(questions)}" if len(questions) > 1 else ""
            heading = f"{self.titles[item.topic]} · {label}{place}{part} · difficulty {item.difficulty} of 3"
            answered = self._dialogue().put(shown, heading)
            rating = self._rating(shown, answered, again=bool(label))
            seconds += answered.seconds
            missed_before, worst = worst == Rating.Again, min(worst, rating)
            if not missed_before and (worst == Rating.Again or number == len(questions)):
                self._keep(item, worst, seconds, label)  # one that was missed is, whether or not its chain is finished
            if answered.right is not None:
                self.say(self._outcome(answered))
                self.say(self.page.answer(shown))

    def _outcome(self, answered: Answered) -> str:
        """Right or wrong; of what was not answered neither."""
        message = answered.judgement.message
        return self.page.outcome(answered.right is True, message) if answered.typed else self.page.prose(message)

    def _keep(self, item: Item, rating: Rating, seconds: float, label: str) -> None:
        deck.keep(self.store, item, rating, self.now(), seconds)
        if not label:
            self.results.append((item, rating > Rating.Again))

    def _dialogue(self) -> Dialogue:
        keys = {"?": self._help, "skip": _skipped}
        return Dialogue(
            page=self.page,
            now=self.now,
            ask=self._line,
            say=self.say,
            keys=keys,
            told="?, skip, q",
            skips="shows the answer",
        )

    def _line(self, prompt: str) -> str:
        typed = self.ask(prompt).strip()
        if typed.lower() in _END_WORDS:
            raise _Quit
        return typed

    def _help(self, question: Question) -> Judgement | None:
        """A hint, and the second time the answer."""
        if self._hinted:
            correctness = Correctness.OPEN if question.open else Correctness.WRONG
            return Judgement(correctness=correctness, message="Here is the answer.")
        self._hinted = True
        self.say(self.page.prose(f"Hint: {question.clue}", style="note").rstrip("\n"))
        return None

    def _rating(self, question: Question, answered: Answered, *, again: bool) -> Rating:
        """How well the question is known; of an open one the person says it themselves, with the answer before them."""
        if answered.right is None:
            self.say(self.page.answer(question))
            return min(self._own_rating(), Rating.Hard if self._hinted else Rating.Easy)
        first = question.id not in self.store.cards()
        rating = deck.rating(question, right=answered.right, hinted=self._hinted, seconds=answered.seconds, first=first)
        return min(rating, Rating.Good) if again else rating  # the answer was on the page just now

    def _own_rating(self) -> Rating:
        while (typed := self._line(_RATE)) not in _RATINGS:
            self.say("Type 1, 2, 3 or 4.")
        return _RATINGS[typed]


def _skipped(question: Question) -> Judgement:
    """Who skips a question does not know it."""
    return Judgement(correctness=Correctness.WRONG, message="Skipped. Here is the answer.")


def _welcome(count: int) -> str:
    few = f"{count} question{'s' if count != 1 else ''}."
    return f"{few} Keys: a letter or a number with its unit, then Enter; {_KEYS}. What you answered is kept at once."


# -- the end ----------------------------------------------------------------------------------------------------------


def _summary(session: QuizSession, finished: bool) -> Summary:
    asked = Counter(question.topic for question, _ in session.results)
    right = Counter(question.topic for question, was_right in session.results if was_right)
    known = deck.known(session.store)
    return Summary(
        asked=asked.total(),
        right=right.total(),
        by_topic={topic: (number, right[topic]) for topic, number in asked.items()},
        next_due=min((card.due for card in known.values()), default=None),
        finished=finished,
    )


def in_words(
    summary: Summary, banks: Sequence[Bank], store: Store, now: datetime, page: Page, topic: str | None
) -> str:
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
