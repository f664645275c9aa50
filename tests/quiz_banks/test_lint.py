"""The lint over the real banks, proven on bad questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.authoring.quiz_calculation import evaluate
from grader.authoring.quiz_lint import AT_LEAST, TOPICS, lint
from grader.quiz import units
from grader.quiz.banks import load_banks, topics
from grader.quiz.numbers import NumberQuestion, formulas_of
from grader.quiz.questions import CardQuestion, ChoiceQuestion, Option
from tests.quizzes import bank, card, choice, number
from tests.solutions import ROOT


@pytest.fixture(scope="module")
def real():
    return load_banks(ROOT)


def test_the_real_banks_hold_to_every_rule(real):
    assert [str(fault) for fault in lint(real)] == []


def test_the_real_banks_cover_all_topics_with_enough_questions_of_each_kind(real):
    assert topics(ROOT) == tuple(sorted(TOPICS)) and [bank.topic for bank in real] == list(TOPICS)
    everything = [question for bank in real for question in bank.questions]
    assert len(everything) >= 130 > AT_LEAST
    assert sum(isinstance(question, NumberQuestion) for question in everything) >= 40
    assert all(any(isinstance(question, CardQuestion) for question in bank.questions) for bank in real)
    assert all({question.difficulty for question in bank.questions} == {1, 2, 3} for bank in real)


def test_every_number_of_the_real_banks_follows_from_its_calculation(real):
    for question in (question for topic in real for question in topic.questions):
        if isinstance(question, NumberQuestion):
            for written in filter(None, (question.calculation, question.formula)):
                found = evaluate(written).value / units.find(question.unit).scale
                near = pytest.approx(question.value, rel=max(question.tolerance / 2, 1e-9), abs=1e-9)
                assert found == near, question.id


def test_most_formulas_of_exercise_19_are_practised(real):
    used = {
        name
        for bank in real
        for question in bank.questions
        if isinstance(question, NumberQuestion)
        for name in formulas_of(question.formula)
    }
    assert used == {
        "all_reduce_bytes", "all_reduce_seconds", "amdahl_speedup", "communication_efficiency", "model_state_bytes",
        "pipeline_utilization", "tensor_parallel_bytes",
    }  # fmt: skip


def texts(question: ChoiceQuestion, *texts: str) -> ChoiceQuestion:
    options = tuple(replace(option, text=text) for option, text in zip(question.options, texts, strict=True))
    return replace(question, options=options)


def rules(*questions, **options) -> set[str]:
    options = {"at_least": 0, "covered": (), **options}
    return {fault.rule for fault in lint([bank(*questions)], **options)}


def test_good_questions_have_no_fault():
    assert rules(choice(), number(), card()) == set()


@pytest.mark.parametrize(
    "question, rule",
    [
        (replace(choice(), options=tuple(Option(text=f"t{i}", right=True) for i in range(3))), "one-right"),
        (texts(choice(), "ring", "  ", "tree", "star"), "empty"),
        (texts(choice(), "A ring", "a  ring.", "a tree", "a star"), "same"),
        (texts(choice(), "A ring", "a tree", "a star", "All of the above"), "lazy"),
        (texts(choice(), "A ring", "a tree", "a star", "both a and b"), "lazy"),
        (texts(choice(), "A ring that goes on and on, through every rank and back again", "no", "a", "b"), "length"),
        (replace(choice(), options=tuple(replace(option, why="") for option in choice().options)), "why"),
        (replace(choice(), options=tuple(replace(it, why=f"{it.why}.") for it in choice().options)), "why"),
        (replace(choice(), explanation="So it is."), "explanation"),
        (replace(card(), answer="A ring."), "explanation"),
        (replace(number(), value=97.0, tolerance=0.01), "value"),
        (replace(number(), value=96.04), "value"),
        (replace(number(), unit="furlongs"), "unit"),
        (replace(number(), unit="ms"), "unit"),
        (replace(number(), unit="GB"), "value"),
        (replace(number(), calculation="96 * MB +"), "calculation"),
        (replace(number(), calculation="open('x')"), "calculation"),
        (replace(number(), calculation="all_reduce_bytes(96 * MB, 2)"), "calculation"),
        (replace(number(), formula="all_reduce_bytes(95 * MB, 2)"), "value"),
        (replace(number(), value=95.7, tolerance=0.0001), "tolerance"),
    ],
)
def test_a_bad_question_is_found(question, rule):
    assert rule in rules(question)


def test_a_question_that_stands_twice_or_nearly_so_is_found():
    first = replace(choice(), text="How many bytes does each of 8 ranks send in a ring all-reduce of 400 MB?")
    same = replace(
        first, id="all_reduce/again", text="How many bytes does each of 8 ranks send in a ring all-reduce of 400 MB"
    )
    near = replace(
        first, id="all_reduce/near", text="How many bytes does each of 8 ranks send in a ring all-reduce of 300 MB?"
    )
    other = replace(first, id="all_reduce/other", text="How many messages does each of 8 ranks send for an all-gather?")
    assert "duplicate" in rules(first, same) and "duplicate" in rules(first, near)
    assert rules(first, other) == set()


def test_a_right_option_at_one_place_is_found():
    topics = ("alpha", "beta", "gamma", "delta")
    assert "position" in rules(*(choice(word, right=2) for word in topics))
    assert rules(*(choice(word, right=place) for place, word in enumerate(topics))) == set()


@pytest.mark.parametrize("right", ["an answer that is rather long", "brief"])
def test_a_right_option_that_its_length_gives_away_is_found(right):
    bad = [
        texts(
            choice(word, right=place), *(right if place == index else f"answer {index} of some" for index in range(4))
        )
        for place, word in enumerate(("alpha", "beta", "gamma", "delta"))
    ]
    assert "telling-length" in rules(*bad)


def test_a_missing_topic_and_too_few_questions_are_found():
    assert rules(choice(), covered=("all_reduce", "amdahl")) == {"topic"}
    assert rules(choice(), at_least=120) == {"count"}


def test_a_fault_says_where_it_is():
    (fault,) = lint([bank(replace(number(), line=17, unit="ms"))], at_least=0, covered=())
    assert str(fault).startswith("quizzes/all_reduce.yaml:17: all_reduce/bytes: ")
