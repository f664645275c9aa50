"""quizzes/*.yaml: the format of a bank, and its faults."""

from __future__ import annotations

import pytest

from grader.model.errors import AuthorError, UsageError
from grader.quiz.banks import load_bank, load_banks, resolve_topic
from grader.quiz.numbers import NumberQuestion
from grader.quiz.questions import CardQuestion, ChoiceQuestion
from tests.quiz_banks.writing import written
from tests.solutions import ROOT

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
    assert told in str(error.value) and "All of them: make quiz ARGS=--list." in str(error.value)
    assert typed != "zz" or " and 12 more." in str(error.value)
