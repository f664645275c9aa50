"""Typed answers: letters, and numbers with units as people write them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.quiz import answers, units
from grader.quiz.answers import Correctness, Typed
from grader.quiz.banks import load_banks
from grader.quiz.chains import Chain
from grader.quiz.numbers import NumberQuestion
from tests.quizzes import choice, number

ROOT = Path(__file__).resolve().parents[1]
MB = number(value=96.0, unit="MB", tolerance=0.03)
MS = number(value=1.5, unit="ms", tolerance=0.03)
MINUTES = number(value=90.0, unit="min", tolerance=0.02)
PERCENT = number(value=89.0, unit="%", tolerance=0.02)
TIMES = number(value=2.0, unit="x", tolerance=0.01)
COUNT = number(value=24.0, unit="messages", tolerance=0.0)
PLAIN = number(value=0.8, unit="1", tolerance=0.01)
RATE = number(value=12.5, unit="GB/s", tolerance=0.02)
BILLION = number(value=1.6, unit="GB", tolerance=0.02)


RIGHT = [
    (MB, [
        "96 MB", "about 96 MB", "96MB", "96 mb", "96", "~ 96 megabytes", "96e6 bytes", "0.096 GB",
        "96,000,000 bytes", "96 000 000 B", "96 million bytes", "96M", "9.6e7 B", "9.6 x 10^7 bytes",
        "9.6·10⁷ B", "768 Mbit", "768 Mb", "91.55 MiB", "96 MB per rank", "≈96 MB.", "96,0 MB", "95 MB",
        "98.5 MB", "  96  MB ", "96 MByte",
    ]),
    (MS, [
        "1.5ms", "1,5 ms", "1500 us", "1500 µs", "0.0015 s", "1.5 milliseconds", "1.5 MS",
    ]),
    (MINUTES, [
        "1.5 h", "1 h 30 min", "5400 seconds", "90 mins", "1h 30min",
    ]),
    (PERCENT, [
        "89 %", "89%", "0.89", "89", "8/9", "89 percent", ".89", "0,89",
    ]),
    (TIMES, [
        "2x", "2 ×", "2 times", "2-fold", "2", "200 %", "2.0 x",
    ]),
    (COUNT, [
        "24", "24 messages", "24 Messages", "24 message", "24 messages in all",
    ]),
    (PLAIN, [
        "0.8", ".8", "4/5", "80 %", "8e-1",
    ]),
    (RATE, [
        "12.5 GB/s", "100 Gbit/s", "100 Gbps", "100 gbps", "12.5 GB per second", "12.5 GBps", "12.5 GB / s",
        "12500 MB/s", "12.5",
    ]),
    (BILLION, [
        "1.6 GB", "1.6e9 bytes", "1.6 billion bytes", "1600 MB", "1.6 gb",
    ]),
]  # fmt: skip


@pytest.mark.parametrize("question, typed", [(question, typed) for question, many in RIGHT for typed in many])
def test_a_right_number_is_right_however_it_is_written(question, typed):
    assert question.judge(typed).correctness is Correctness.RIGHT


@pytest.mark.parametrize(
    "question, typed, told",
    [
        (MB, "48 MB", ""),
        (MB, "96 GB", "1 GB is 1000 times 1 MB"),
        (MB, "96 kB", "1 kB is 1/1000 of 1 MB"),
        (MB, "96 Mb", "A byte has 8 bits"),
        (MB, "96 MiB", "1 MiB is 1.04858 times 1 MB"),
        (MB, "-96 MB", ""),
        (MB, "0", ""),
        (MB, "96 million", None),
        (PERCENT, "0.89 %", ""),
        (PERCENT, "8.9", ""),
        (TIMES, "20x", ""),
        (COUNT, "23", ""),
        (COUNT, "24.01", ""),
        (RATE, "100 GB/s", ""),
    ],
)
def test_a_wrong_number_is_wrong_and_a_slip_of_scale_is_told(question, typed, told):
    strict = replace(question, tolerance=min(question.tolerance, 0.02))
    found = strict.judge(typed)
    if told is None:
        assert found.correctness is Correctness.RIGHT  # 96 million of the base unit, bytes, are 96 MB
        return
    assert found.correctness is Correctness.WRONG and told in found.message and bool(told) == bool(found.message)


@pytest.mark.parametrize(
    "question, typed, told",
    [
        (MB, "96 ms", "ms is a time; the answer is an amount of data, as in MB."),
        (MB, "96 MB/s", "MB/s is a data rate"),
        (MB, "96 %", "% is a ratio"),
        (MS, "1.5 MB", "the answer is a time, as in ms"),
        (COUNT, "24 %", "% is a ratio; the answer is a number of messages"),
        (COUNT, "24 steps", "steps is a number of steps"),
        (TIMES, "2 GPUs", "the answer is a ratio"),
        (RATE, "12.5 GB", "the answer is a data rate"),
    ],
)
def test_a_wrong_kind_of_unit_is_told_apart_from_a_wrong_number(question, typed, told):
    found = question.judge(typed)
    assert found.correctness is Correctness.WRONG_UNIT and told in found.message


INDICES = number(value=126.0, unit="samples", tolerance=0.0, text="How many indices does each rank draw in an epoch?")
BILLIONS = number(value=32.2, unit="1", tolerance=0.01, text="How many billion parameters have the layers?")
GPU_HOURS = number(value=160.0, unit="h", tolerance=0.0, text="How many GPU-hours does it use up? Answer in hours.")
RESTARTS = number(value=3.0, unit="restarts", tolerance=0.0, text="How often does torchrun restart the group?")
A_SECOND = number(value=2.5, unit="steps/s", tolerance=0.01, text="How many steps a second is that at most?")
IMAGES = number(value=1024.0, unit="samples", tolerance=0.0, text="How large is the global batch?")


@pytest.mark.parametrize(
    "question, right, wrong",
    [
        (INDICES, ["126 indices", "126 Indices", "126 samples", "126", "126 images"], ["125 indices"]),
        (
            BILLIONS,
            ["32.2", "32.2 billion", "32.2B", "32.2 B", "32.2 billion parameters", "32.2e9", "32200000000 parameters"],
            ["30 billion", "32.2 million", "32.2 trillion", "33B", "33", "32.2e8"],
        ),
        (GPU_HOURS, ["160 GPU-hours", "160 GPU hours", "160 h", "160 hours"], ["100 GPU-hours"]),
        (RESTARTS, ["3 times", "3", "3 restarts"], ["2 times"]),
        (A_SECOND, ["2.5/s", "2.5 per second", "2.5 steps/s", "2.5 steps a second", "2.5 steps"], ["2/s", "2 steps"]),
        (IMAGES, ["1024 images", "1,024 sequences", "1024 samples"], ["1000 images"]),
    ],
)
def test_a_number_may_be_of_what_the_question_calls_it(question, right, wrong):
    """And a wrong one is wrong: to be asked again would say that it is."""
    assert [question.judge(typed).correctness for typed in right] == [Correctness.RIGHT] * len(right)
    assert [question.judge(typed).correctness for typed in wrong] == [Correctness.WRONG] * len(wrong)


def test_the_words_of_every_real_question_are_understood():
    """The first one and the first two after "how many", for these are what an answer has beside its number."""
    asked = [
        (question, re.findall(r"how many ((?:[\w-]+\s?)+)", question.text, re.IGNORECASE)[-1].split())
        for question in real_numbers()
        if "how many " in question.text.lower()
    ]
    assert len(asked) > 100
    refused = [
        (question.id, typed)
        for question, words in asked
        for typed in (f"{question.value:.12g} {words[0]}", f"{question.value:.12g} {' '.join(words[:2])}")
        if not question.judge(typed).right
    ]
    assert not refused


def real_numbers():
    """All questions whose answer is a number, those of chains for the first of their draws."""
    for item in (item for bank in load_banks(ROOT) for item in bank.questions):
        if isinstance(item, Chain):
            yield from item.numbers(next(item.draws()))
        elif isinstance(item, NumberQuestion):
            yield item


@pytest.mark.parametrize("name", ["index", "micro-batch", "GPU", "process", "step"])
def test_a_count_is_called_by_its_plural(name):
    plural = {"index": "indices", "micro-batch": "micro-batches", "GPU": "GPUs", "process": "processes"}
    assert units.find(name).kind == f"a number of {plural.get(name, 'steps')}"


@pytest.mark.parametrize(
    "typed",
    ["", "many", "MB", "5 furlongs", "96 m", "?", "1e999", "9**9**9", "10^99999", "nan", "inf", "--4", "1/0", "９６ m"],
)
def test_what_cannot_be_read_is_asked_for_again(typed):
    found = MB.judge(typed)
    assert found.correctness is Correctness.UNREADABLE and found.message


@pytest.mark.parametrize(
    "typed, value",
    [
        ("4*8*24", 768),
        ("6*7e9*5.6e3", 2.352e14),
        ("1e12/(5e3*256)", 781250),
        ("2e-3 x 5E+3", 10),
        ("4 x 8 × 24 messages", 768),
        ("1,500*2", 3000),
        ("120000/(8*5*6)", 500),
        ("2 * (8-1) / 8 * 4", 7),
        ("3*10^-1", 0.3),
        ("3x10^4", 30000),
    ],
)
def test_arithmetic_is_a_number(typed, value):
    """As one types it who has not reached for a calculator."""
    found = answers.parse(typed)
    assert isinstance(found, Typed) and found.number == pytest.approx(value)


@pytest.mark.parametrize("typed", ["2-3 ms", "9^9^9^9^9", "1/0*3", "((2*3)", "5*(", "__import__('os')*2*2"])
def test_what_is_no_arithmetic_is_asked_for_again(typed):
    """A range is no number, and nothing that is typed is run."""
    assert MB.judge(typed).correctness is Correctness.UNREADABLE


def test_a_unit_that_is_not_shown_has_to_be_said():
    hidden = replace(MB, unit_shown=False)
    assert hidden.judge("96").correctness is Correctness.UNREADABLE
    assert hidden.judge("96 MB").correctness is Correctness.RIGHT
    assert replace(COUNT, unit_shown=False).judge("24").correctness is Correctness.RIGHT


@pytest.mark.parametrize(
    "typed, place",
    [
        ("a", 0),
        ("B", 1),
        (" c ", 2),
        ("d)", 3),
        ("(b)", 1),
        ("a.", 0),
        ("e", None),
        ("", None),
        ("ab", None),
        ("1", None),
    ],
)
def test_a_letter_stands_for_an_option(typed, place):
    assert answers.letter(typed, 4) == place


def test_a_choice_is_judged_in_the_order_in_which_it_is_shown():
    first, second, third, _ = choice(right=1).options
    shown = replace(choice(), options=(third, first, second))
    assert shown.judge("c").correctness is Correctness.RIGHT
    wrong = shown.judge("b")
    assert wrong.correctness is Correctness.WRONG and wrong.message == f"You chose b: {first.why}."
    found = shown.judge("d")
    assert found.correctness is Correctness.UNREADABLE and "from a to c" in found.message


# -- properties -------------------------------------------------------------------------------------------------------

NUMBERS = st.floats(min_value=1e-6, max_value=1e12, allow_nan=False)
SPELT = sorted(name for name in units.EXACT if name not in ("1", "%"))


@settings(deadline=None)
@given(NUMBERS, st.sampled_from(SPELT))
def test_a_number_with_any_unit_of_the_table_comes_back(value, name):
    found = answers.parse(f"about {value!r} {name}")
    assert isinstance(found, Typed) and found.number == pytest.approx(value) and found.unit == units.EXACT[name]


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**15))
def test_thousands_may_be_set_apart(value):
    for text in (f"{value:,}", f"{value:_}", f"{value:,}".replace(",", " "), f"{value:,}".replace(",", "'")):
        assert answers.parse(f"{text} B").number == value


@settings(deadline=None)
@given(st.floats(min_value=0.01, max_value=9999), st.sampled_from(["kB", "MB", "GB", "MiB", "GiB", "Mbit", "bytes"]))
def test_a_right_answer_is_right_in_every_unit_of_its_kind(value, name):
    question = replace(MB, value=value, tolerance=0.01)
    typed = value * 1e6 / units.EXACT[name].scale
    assert question.judge(f"{typed:.12g} {name}").correctness is Correctness.RIGHT


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_ever_breaks_the_reader(text):
    for question in (MB, MS, PERCENT, COUNT, RATE):
        assert isinstance(question.judge(text).correctness, Correctness)
    answers.letter(text, 5)


@settings(deadline=None)
@given(st.text(alphabet="0123456789.,eE+-^*/x MGKkBbits%·⁻²", max_size=30))
def test_no_scrambled_number_breaks_the_reader(text):
    assert isinstance(MB.judge(text).correctness, Correctness)
