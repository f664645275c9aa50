"""quizzes/*.yaml: the format, the calculations, the formulas of exercise 19, and the lint over the real banks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.authoring.quiz_calculation import evaluate
from grader.authoring.quiz_formulas import solved
from grader.authoring.quiz_lint import AT_LEAST, TOPICS, lint
from grader.model.errors import AuthorError, UsageError
from grader.quiz import units
from grader.quiz.banks import load_bank, load_banks, resolve_topic, topics
from grader.quiz.numbers import NumberQuestion, formulas_of
from grader.quiz.questions import CardQuestion, ChoiceQuestion, Option
from tests.quizzes import bank, card, choice, number

ROOT = Path(__file__).resolve().parents[1]
formulas = SimpleNamespace(**solved())
BANK = """\
title: All-reduce
order: 2
questions:
  - id: sum
    kind: choice
    difficulty: 1
    exercise: "08"
    source: PyTorch documentation
    question: |
      What does the default
      operation do?

        dist.all_reduce(tensor)
    options:
      - wrong: "It averages"
        why: "DDP does so, in addition"
      - right: "It sums"
      - wrong: "It gathers"
        why: "nothing is combined there"
    explanation: |
      Sums, element by element.
  - id: bytes
    kind: number
    difficulty: 2
    question: How much?
    value: 700
    unit: MB
    tolerance: 0.02
    calculation: all_reduce_bytes(400 * MB, 8)
    explanation: Twice seven eighths.
  - id: why
    kind: card
    difficulty: 3
    hint: Think of links.
    question: Why a ring?
    answer: Each link carries the same.
    explanation: No root.
"""


@pytest.fixture(scope="module")
def real():
    return load_banks(ROOT)


def written(folder: Path, text: str) -> Path:
    path = folder / "quizzes" / "all_reduce.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# -- the format -------------------------------------------------------------------------------------------------------


def test_a_bank_has_questions_of_three_kinds(tmp_path):
    written(tmp_path, BANK)
    (found,) = load_banks(tmp_path)
    first, second, third = found.questions
    assert (found.topic, found.title, found.order) == ("all_reduce", "All-reduce", 2)
    assert isinstance(first, ChoiceQuestion) and first.right == 1 and first.options[0].why == "DDP does so, in addition"
    assert isinstance(second, NumberQuestion) and (second.value, second.unit) == (700.0, "MB") and second.unit_shown
    assert isinstance(third, CardQuestion) and third.hint == "Think of links."
    assert [question.id for question in found.questions] == ["all_reduce/sum", "all_reduce/bytes", "all_reduce/why"]
    assert [question.line for question in found.questions] == [4, 22, 31]
    assert first.exercise == "08" and second.exercise is None


def test_lines_of_a_paragraph_flow_and_code_keeps_its_lines(tmp_path):
    first = load_bank(written(tmp_path, BANK)).questions[0]
    assert first.text == "What does the default operation do?\n\n  dist.all_reduce(tensor)"


@pytest.mark.parametrize(
    "old, new, line, told",
    [
        ("kind: card", "kind: crad", 32, "'kind' is 'crad'"),
        ("    kind: card\n", "", 31, "the key 'kind' is missing"),
        ("id: why", "id: sum", 31, "stands twice"),
        ("id: why", "id: Why not", 31, "small letters"),
        ("difficulty: 3", "difficulty: 4", 33, "less than or equal to 3"),
        ("answer: Each", "anwser: Each", 36, "unknown key 'anwser'. Did you mean 'answer'?"),
        ("    value: 700\n", "", 22, "the key 'value' is missing"),
        ("tolerance: 0.02", "tolerance: 2", 28, "less than or equal to 0.5"),
        ('right: "It sums"', 'wrong: "It sums"\n        why: "no"', 14, "0 options are right"),
        ('wrong: "It gathers"\n        why: "nothing', 'right: "It gathers"\n#       "', 14, "2 options are right"),
        ('        why: "nothing is combined there"\n', "", 18, "the wrong option has no 'why'"),
        ('right: "It sums"', 'right: "It sums"\n        why: "so"', 18, "the right option has a 'why'"),
        ('right: "It sums"', 'why: "so"', 17, "either 'right' or 'wrong'"),
        ("order: 2", "order: 0", 2, "greater than 0"),
        ('exercise: "08"', "exercise: 8", 7, "valid string"),
        ("questions:\n", "questions: []\nmore:\n", 4, "unknown key 'more'"),
    ],
)  # fmt: skip
def test_a_fault_names_path_line_and_remedy(tmp_path, old, new, line, told):
    assert old in BANK
    with pytest.raises(AuthorError) as error:
        load_bank(written(tmp_path, BANK.replace(old, new)))
    assert told in str(error.value) and error.value.line == line and error.value.remedy
    assert error.value.path.name == "all_reduce.yaml"


def test_a_topic_without_a_bank_is_told(tmp_path):
    written(tmp_path, BANK)
    with pytest.raises(AuthorError, match=r"no bank al_reduce\.yaml\. Did you mean 'all_reduce'"):
        load_banks(tmp_path, "al_reduce")
    with pytest.raises(AuthorError, match="no bank of questions"):
        load_banks(tmp_path / "nowhere")


@pytest.mark.parametrize("typed", ["all_reduce", "All-Reduce", " all reduce ", "all", "all_reduce.yaml"])
def test_a_topic_is_named_as_one_types_it(typed):
    assert resolve_topic(typed, ROOT) == "all_reduce"


@pytest.mark.parametrize(
    "typed, told",
    [("al_reduc", "Did you mean 'all_reduce'"), ("c", "checkpoints"), ("", "Choose from"), ("zz", "amdahl")],
)
def test_a_topic_that_is_none_or_several_is_told(typed, told):
    with pytest.raises(UsageError) as error:
        resolve_topic(typed, ROOT)
    assert told in str(error.value)


# -- the formulas of exercise 19 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, expected",
    [
        (formulas.model_state_bytes(100e6, 2, 0), 1.6e9),
        (formulas.model_state_bytes(100e6, 2, 2), 0.9e9),
        (formulas.model_state_bytes(100e6, 2, 3), 0.8e9),
        (formulas.model_state_bytes(10e9, 8, 0), 160e9),
        (formulas.model_state_bytes(10e9, 8, 3), 20e9),
        (formulas.model_state_bytes(7.5e9, 64, 1), 31.40625e9),
        (formulas.tensor_parallel_bytes(12, 8, 512, 512), 24 * 8 * 512 * 512 * 2),
        (formulas.pipeline_utilization(2, 1), 0.5),
        (formulas.pipeline_utilization(2, 4), 0.8),
        (formulas.pipeline_utilization(2, 8), 8 / 9),
        (formulas.communication_efficiency(10e-3, 8e-3), 10 / 18),
        (formulas.all_reduce_bytes(1e9, 1), 0.0),
        (formulas.all_reduce_seconds(8e9, 2, 4e9, 0.5), 2.0 + 1.0),
        (formulas.amdahl_speedup(1, 7), 7.0),
        (formulas.amdahl_speedup(0, 7), 1.0),
    ],
)
def test_formulas_meet_the_known_anchors(value, expected):
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: formulas.all_reduce_bytes(1.0, 0),
        lambda: formulas.all_reduce_bytes(-1.0, 2),
        lambda: formulas.all_reduce_seconds(1.0, 2, 0.0),
        lambda: formulas.all_reduce_seconds(1.0, 2, 1.0, -1.0),
        lambda: formulas.amdahl_speedup(1.5, 2),
        lambda: formulas.amdahl_speedup(float("nan"), 2),
        lambda: formulas.communication_efficiency(-1.0, 1.0),
        lambda: formulas.communication_efficiency(0.0, 0.0),
        lambda: formulas.model_state_bytes(1.0, 1, 4),
        lambda: formulas.pipeline_utilization(0, 1),
        lambda: formulas.tensor_parallel_bytes(1, -1, 1, 1),
    ],
)
def test_impossible_input_raises_value_error(call):
    with pytest.raises(ValueError, match="must"):
        call()


# -- calculations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value, dimension",
    [
        ("2 * 3 + 4", 10, units.ONE),
        ("-2 ** 2", -4, units.ONE),
        ("100 * Gbit / s", 12.5e9, units.RATE),
        ("all_reduce_seconds(2 * GB, 16, 100 * Gbit / s)", 0.3, units.SECONDS),
        ("all_reduce_seconds(4 * B, 2, 1 * GB / s, latency=5 * us)", 10e-6 + 4e-9, units.SECONDS),
        ("(4 * min * min) ** 0.5", 120, units.SECONDS),
        ("max(80 * ms, 130 * ms)", 0.13, units.SECONDS),
        ("ceil(10 / 4) * MiB", 3 * 2**20, units.BYTES),
    ],
)
def test_a_calculation_has_a_value_and_a_kind(text, value, dimension):
    found = evaluate(text)
    assert found.value == pytest.approx(value) and found.dimension == dimension


@pytest.mark.parametrize(
    "text, told",
    [
        ("__import__('os').system('true')", "not allowed"),
        ("(1).__class__", "not allowed"),
        ("[1 for _ in range(9)]", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("'a' * 9", "not allowed"),
        ("True", "not allowed"),
        ("eval(1)", "no formula 'eval'"),
        ("bytes(1)", "no formula 'bytes'"),
        ("9 ** 9 ** 9", "at most 64"),
        ("1e300 ** 60", "cannot be calculated"),
        ("1e308 * 10", "no finite value"),
        ("1 / 0", "cannot be calculated"),
        ("1 +", "no expression"),
        ("1 // 2", "only + - * / **"),
        ("1 * GB + 1 * s", "different kinds"),
        ("all_reduce_bytes(400, 8)", "wrong kind"),
        ("all_reduce_bytes(400 * MB, 0)", "at least 1"),
        ("all_reduce_bytes(400 * MB)", "cannot be calculated"),
        ("all_reduce_bytes(400 * MB, 8, 9, 10)", "at most 2 values"),
        ("all_reduce_bytes(400 * MB, size=8)", "cannot be calculated"),
        ("ceil(1 * s)", "one plain number"),
        ("(" * 400 + "1" + ")" * 400, "longer than"),
        ("-" * 290 + "1", ""),
    ],
)
def test_what_is_no_calculation_is_refused_and_nothing_is_run(text, told):
    if not told:
        assert evaluate(text).value == 1
        return
    with pytest.raises(ValueError) as error:
        evaluate(text)
    assert told in str(error.value)


def test_a_calculation_tells_its_formulas():
    text = "communication_efficiency(1 * s, all_reduce_seconds(1 * GB, 8, 1 * GB / s)) + max(1, 2)"
    assert formulas_of(text) == ("communication_efficiency", "all_reduce_seconds")


# -- the lint ---------------------------------------------------------------------------------------------------------


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
