"""Design cases, and chains and cases in an interview: asked part by part, ticked after it. No process is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from grader.authoring.quiz_calculation import evaluate
from grader.authoring.quiz_lint import lint
from grader.model.errors import AuthorError
from grader.practice.store import Store
from grader.quiz import deck
from grader.quiz.answers import Correctness
from grader.quiz.banks import load_bank, load_banks
from grader.quiz.chains import Chain, DesignCase
from grader.quiz.interview import debrief, debrief_page, drawing, rubric, state
from grader.quiz.interview.session import InterviewSession
from grader.quiz.interview.state import Interview
from grader.quiz.page import Page
from grader.quiz.questions import Bank, CardQuestion
from grader.render import terminal
from tests.attempts import COURSE, NOW
from tests.interviewing import STATEMENT, Clock
from tests.quizzes import bank, card, number
from tests.reports import partial

ROOT = Path(__file__).resolve().parents[1]
CASE = """\
title: Restarts
order: 23
questions:
  - id: interval
    kind: case
    difficulty: 3
    draw: {hours: [3, 6], save: [30, 120]}
    question: "One failure in {hours} hours, {save} s a save."
    opening: How often do you save?
    rubric:
      - A failure costs the work since the last save, beside the restart.
      - Saving every so often costs the time of saving {save} s each.
      - The time between failures is that of the job as a whole.
    steps:
      - name: interval
        question: How long is the best interval?
        unit: min
        tolerance: 0.1
        calculation: "(2 * {save} * s * {hours} * h) ** 0.5"
        explanation: Young's formula, the root of twice the save times the time between.
      - name: lost
        question: And the share that is lost at {interval}?
        unit: "%"
        tolerance: 0.1
        calculation: "{save} * s / {interval} + {interval} / (2 * {hours} * h)"
        explanation: Both parts are equally large where the interval is the best one.
      - name: state
        question: How much state has a rank of 8, of a billion parameters?
        unit: GB
        tolerance: 0.05
        calculation: 1e9 * (2 + 2 + 12 / 8) * B
        formula: model_state_bytes(1e9, 8, 1)
        explanation: Stage 1 shares out the twelve bytes of Adam's state among the ranks.
    explanation: At the best interval saving and repeated work cost the same share of time.
    source: Young, CACM 1974
"""
DRAWN = {"hours": "3", "save": "30"}


def loaded(folder: Path, text: str = CASE) -> DesignCase:
    path = folder / "quizzes" / "recovery.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (found,) = load_bank(path).questions
    assert isinstance(found, DesignCase)
    return found


@pytest.fixture
def case(tmp_path: Path) -> DesignCase:
    return loaded(tmp_path)


# -- a case -----------------------------------------------------------------------------------------------------------


def test_a_case_begins_with_an_open_question_and_goes_on_in_numbers(case: DesignCase) -> None:
    opening, *numbers = case.with_values(DRAWN)
    assert isinstance(opening, CardQuestion) and opening.text.endswith("30 s a save.\n\nHow often do you save?")
    assert "- Saving every so often costs the time of saving 30 s each." in opening.answer
    assert [question.correct.partition(" =")[0] for question in numbers] == ["13.42 min", "7.454 %", "5.5 GB"]


def test_units_are_part_of_the_answers(case: DesignCase) -> None:
    _, interval, lost, _ = case.with_values(DRAWN)
    assert interval.judge("13.4").correctness is Correctness.UNREADABLE
    assert "Say the unit" in interval.judge("13.4").message and "with its unit" in interval.asks_for
    assert interval.judge("805 s").right and interval.judge("13 min").right and not interval.judge("20 min").right
    assert lost.judge("7.4 %").right and lost.judge("0.075").right


def test_a_formula_that_gives_something_else_is_a_fault(tmp_path: Path) -> None:
    wrong = {"model_state_bytes(1e9, 8, 1)": ("model_state_bytes(1e9, 8, 2)", "gives 3.75"),
             "8, 1)": ("8)", "model_state_bytes")}  # fmt: skip
    for old, (new, said) in wrong.items():
        faults = lint([bank(loaded(tmp_path, CASE.replace(old, new)))], at_least=0, covered=())
        assert [fault.rule for fault in faults] == ["formula"] and said in faults[0].text
    assert lint([bank(loaded(tmp_path))], at_least=0, covered=()) == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("    opening: How often do you save?\n", "", "the key 'opening' is missing"),
     ("      - The time between failures is that of the job as a whole.\n", "", "at least 3"),
     ("    source: Young, CACM 1974\n", "", "the key 'source' is missing"),
     ("saving {save} s each", "saving {sav} s each", "'sav' is none of them"),
     ("(1e9, 8, 1)", "({billions}, 8, 1)", "'billions' is none of them")],
)  # fmt: skip
def test_a_case_that_cannot_be_asked_is_told_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(AuthorError, match=r"recovery\.yaml:\d+: ") as caught:
        loaded(tmp_path, CASE.replace(old, new))
    assert said in str(caught.value)


def test_the_banks_have_cases_and_the_planner_agrees_with_them() -> None:
    found = {item.id: item for one in load_banks(ROOT) for item in one.questions if isinstance(item, DesignCase)}
    assert len(found) >= 7
    one, drawn = found["choosing_a_strategy/transformer_on_nodes"], {"nodes": "8", "batch": "512"}
    assert evaluate(one.formulas(drawn)[-1]).value == pytest.approx(one.numbers(drawn)[-1].value, rel=0.03)


# -- in an interview --------------------------------------------------------------------------------------------------


class Room:
    """An interview with a question, a chain and a case, and one who types what a script says."""

    def __init__(self, store: Store, *items: Any) -> None:
        self.store, self.clock, self.said = store, Clock(), list[str]()
        self.items = {item.id: item for item in items}
        self.learnt: list[Any] = []

    def begun(self) -> Interview:
        return state.begin(COURSE[0], list(self.items.values()), 55, seed=3, now=NOW)

    def hold(self, interview: Interview, *script: str | type[BaseException]) -> Interview:
        lines: Iterator[Any] = iter(script)

        def ask(prompt: str) -> str:
            line = next(lines, EOFError)
            if isinstance(line, type):
                raise line
            self.clock.move(seconds=30)
            return str(line)

        self.said = []
        return InterviewSession(
            interview=interview, exercise=COURSE[0], file=Path("join.py"), questions=self.items, store=self.store,
            now=self.clock, ask=ask, say=self.said.append, grade=lambda only: partial(), show=terminal.render,
            statement=STATEMENT, page=Page(plain=True, width=60),
        ).hold()  # fmt: skip

    def right(self, item: Chain) -> list[str]:
        """What to type for a chain or a case."""
        return [getattr(part, "shown", "The work since the last save") for part in self.begun().shown(item)]

    @property
    def text(self) -> str:
        return " ".join("\n".join(self.said).split())


@pytest.fixture
def room(tmp_path: Path, case: DesignCase) -> Room:
    return Room(Store(tmp_path / "progress.sqlite3"), number(), case)


def test_a_case_is_asked_part_by_part_and_its_answers_come_later(room: Room, case: DesignCase) -> None:
    over = room.hold(room.begun(), "q", "700 MB", "q", *room.right(case), "q", "f")
    assert [(answer.part, answer.right) for answer in over.answers][1:] == [(0, None), (1, True), (2, True), (3, True)]
    assert "Question 2 of 2 · part 4 of 4" in room.text and "Those were all the questions" in room.text
    assert "A good answer has in it" not in room.text
    assert deck.known(room.store)[case.id].due > NOW + timedelta(days=1)


def test_a_part_that_was_missed_is_what_is_remembered(room: Room, case: DesignCase) -> None:
    room.hold(room.begun(), "q", "skip", "q", "Often", "1 min", "later", "f")
    assert not list(deck.reviews(room.store))[-1]["right"]


def test_of_a_case_that_was_left_nothing_is_remembered_while_nothing_was_missed(room: Room, case: DesignCase) -> None:
    room.hold(room.begun(), "q", "skip", "q", "Often", "f", "later", "f")
    assert case.id not in deck.known(room.store)


def test_a_case_can_be_left_for_later_and_after_a_pause(room: Room, case: DesignCase) -> None:
    first, second, *others = room.right(case)
    paused = room.hold(room.begun(), "q", "skip", "q", first, "later", "g", "q", second, KeyboardInterrupt)
    assert paused.parts_answered(case.id) == 2 and "q comes back to it" in room.text
    over = room.hold(state.read(state.as_json(paused)).resumed(room.clock()), "q", *others, "f")
    setting = case.setting(paused.seed_of(case))
    seen = " ".join(room.text.split())
    assert seen.count(" ".join(setting.split())) == 1, "somebody who comes back is told what it was about, once"
    assert [answer.right for answer in over.answers] == [False, None, True, True, True]
    assert "1 of 2 questions answered" in room.text and "part 3 of 4" in room.text


def ticked(room: Room, over: Interview, *typed: str | type[BaseException]) -> tuple[Interview, list[Interview]]:
    lines, kept = iter(typed), list[Interview]()

    def ask(prompt: str) -> str:
        line = next(lines)
        if isinstance(line, type):
            raise line
        return line

    page = Page(plain=True, width=60)
    how = {"ask": ask, "say": room.said.append, "keep": kept.append, "page": page}
    return rubric.tick(over, room.items, learn=lambda *told: room.learnt.append(told), **how), kept


@pytest.fixture
def over(room: Room, case: DesignCase) -> Interview:
    return room.hold(room.begun(), "q", "skip", "q", *room.right(case), "f")


def test_the_rubric_is_ticked_by_the_person(room: Room, case: DesignCase, over: Interview) -> None:
    told, kept = ticked(room, over, "x", "c a")
    assert told.ticks == {case.id: (0, 2)} and kept == [told] and "Type letters from a to c" in room.text
    assert state.read(state.as_json(told)) == told
    found = debrief.debrief(told, COURSE[0], room.items, STATEMENT, due={case.id: NOW + timedelta(days=2)}, now=NOW)
    text = debrief_page.text(found, 60)
    assert "{hours}" not in text and "the question “One failure in" in text
    assert "2 of 3 points made" in text and "[x] A failure costs" in text and "[ ] Saving every so often" in text
    assert max(map(len, text.splitlines())) <= 60
    page = debrief_page.html(found)
    assert "✓ A failure costs" in page and "✗ Saving every so often" in page
    assert ticked(room, told)[1] == [], "nobody is asked twice"


def test_an_open_question_is_rated_by_the_person(tmp_path: Path) -> None:
    room = Room(Store(tmp_path / "progress.sqlite3"), card())
    over = room.hold(room.begun(), "q", "Each link carries the same", "f")
    left, _ = ticked(room, over, "")
    assert left == over and room.learnt == [], "who says nothing is asked again"
    told, kept = ticked(room, over, "5", "2")
    assert told.rated == {card().id: 2} and kept == [told] and state.read(state.as_json(told)) == told
    assert [(question.id, int(rating), seconds) for question, rating, seconds in room.learnt] == [(card().id, 2, 30)]
    assert "You said: Each link carries the same" in room.text and card().answer in room.text
    assert "known with effort" in debrief_page.text(debrief.debrief(told, COURSE[0], room.items, STATEMENT))


def test_who_leaves_while_ticking_loses_nothing_and_can_tick_later(room: Room, over: Interview) -> None:
    told, kept = ticked(room, over, KeyboardInterrupt)
    assert told == over and kept == [] and "--debrief asks again" in room.text
    assert "[?] A failure" in debrief_page.text(debrief.debrief(told, COURSE[0], room.items, STATEMENT))
    assert ticked(room, told, "")[0].ticks == {"recovery/interval": ()}


def test_a_long_interview_has_a_chain_and_a_case_and_a_short_one_one_of_them(case: DesignCase) -> None:
    found: Callable[..., tuple[Any, ...]] = drawing.draw_questions
    banks: list[Bank] = list(load_banks(ROOT))
    for seed in range(20):
        long, short = (found(banks, (), COURSE[0], minutes, seed) for minutes in (55, 30))
        assert [isinstance(item, Chain) for item in long] == [False, False, True, True]
        assert [isinstance(item, DesignCase) for item in long][2:] == [False, True]
        assert [isinstance(item, Chain) for item in short] == [False, True]
    assert found([bank(replace(case, exercise="01"), case)], {case.id}, COURSE[0], 30, 1)[-1].exercise == "01"
