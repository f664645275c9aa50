"""What is compared exactly: the ranks among each other bit for bit, and plain values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.checks.compare import close, equal, identical
from tests.comparing import NAN, SQUARE, lines, only

# Ranks among each other


def test_the_rank_outside_the_majority_is_named() -> None:
    line = only(identical({0: {"w": SQUARE}, 1: {"w": SQUARE + 1}, 2: {"w": SQUARE}}, subject="parameter"))
    assert line.startswith("parameter 'w' on rank 1: expected ") and " as on ranks 0, 2, got " in line
    assert line.endswith("; all 16 elements differ, by 1 at most")


def test_two_ranks_that_differ_are_both_named() -> None:
    line = only(identical({0: torch.tensor([1.0, 2.0]), 1: torch.tensor([1.0, 4.0])}, subject="it"))
    assert line == (
        "it on ranks 0, 1: expected the same bits on every rank, also at [1], got 2 on rank 0, 4 on rank 1; "
        "1 of 2 elements differ, by 2 at most"
    )


def test_a_difference_of_rounding_between_ranks_is_called_that() -> None:
    line = only(identical({0: SQUARE, 1: SQUARE * (1 + 2e-16)}, subject="it"))
    assert line.endswith("; a difference of rounding only, as when ranks add up in different orders")


def test_the_sign_of_zero_and_the_bits_of_nan_count_between_ranks() -> None:
    bits = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    nan = torch.tensor([NAN])
    assert not lines(identical({0: nan, 1: nan.clone()}, subject="it"))
    assert "got nan (0x7fc00001)" in only(identical({0: nan, 1: bits, 2: nan}, subject="it"))
    assert "got 0 on rank 0, -0 on rank 1" in only(identical({0: torch.zeros(1), 1: -torch.zeros(1)}, subject="it"))


def test_other_structures_between_ranks_are_named_against_the_majority() -> None:
    values = {0: {"w": SQUARE[:2]}, 1: {"w": SQUARE}, 2: {"w": SQUARE}}
    assert only(identical(values, subject="it")) == "it 'w' on rank 0: expected shape (4, 4) (as on rank 1), got (2, 4)"


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bool, torch.int16, torch.bfloat16, torch.float64, torch.complex128]
)
def test_ranks_are_compared_in_every_dtype(dtype: torch.dtype) -> None:
    zeros, ones = torch.zeros(2, 2, dtype=dtype), torch.ones(2, 2, dtype=dtype)
    assert not lines(identical({0: ones, 1: ones.T.clone()}, subject="it"))
    assert " on rank 2: " in only(identical({0: ones, 1: ones, 2: zeros}, subject="it"))


def test_plain_values_are_compared_between_ranks_too() -> None:
    assert (
        only(identical({0: 3, 1: 3, 2: 4}, subject="the epoch"))
        == "the epoch on rank 2: expected 3 as on ranks 0, 1, got 4"
    )
    assert not lines(identical({0: [1, 2], 1: [1, 2]}, subject="it"))
    assert not lines(identical({}, subject="it"))


# Plain values


@pytest.mark.parametrize(
    ("actual", "expected", "sentence"),
    [
        (4, 3, "it: expected 3, got 4"),
        (True, 1, "it: expected 1 (int), got True (bool)"),
        (1.0, 1, "it: expected 1 (int), got 1.0 (float)"),
        ("b", "a", "it: expected 'a', got 'b'"),
        (
            [0, 2, 1],
            [0, 1, 2],
            "it: expected [0, 1, 2], got [0, 2, 1]: the same items in another order, first difference at index 1",
        ),
        (
            [0, 1, 1],
            [0, 1, 2],
            "it: expected [0, 1, 2], got [0, 1, 1]: lacks 2, should not have 1, first difference at index 2",
        ),
        ([0], [0, 1], "it: expected [0, 1], got [0]: lacks 1, first difference at index 1"),
        ([[1], [2]], [[1], [3]], "it[1]: expected [3], got [2]: first difference at index 0"),
        ({"a": 1}, {"a": 2}, "it 'a': expected 2, got 1"),
        ({}, {"a": 2}, "it: expected the key 'a', got no such key"),
        ({"a": 1}, [1], "it: expected a list of 1 item, got a dict of 1 item"),
    ],
)
def test_plain_values_name_the_first_difference(actual: Any, expected: Any, sentence: str) -> None:
    assert only(equal(actual, expected, subject="it")) == sentence


def test_an_integer_too_long_to_print_is_described() -> None:
    assert only(equal(10**5000, 1, subject="it")) == "it: expected 1, got an integer of 16610 bits"


def test_long_lists_name_the_first_index_and_what_they_lack() -> None:
    actual, expected = [*range(990), *range(2000, 2010)], list(range(1000))
    assert only(equal(actual, expected, subject="it")) == (
        "it: expected 990 at index 990 of 1000, got 2000; "
        "lacks 990, 991, 992 and 7 more, should not have 2000, 2001, 2002 and 7 more"
    )
    assert only(equal(expected[::-1], expected, subject="it")).endswith("; the same items in another order")


def test_a_list_of_another_length_is_named_by_its_lengths() -> None:
    line = only(equal(list(range(98)), list(range(100)), subject="it"))
    assert line == "it: expected 100 items, got 98, the first 98 right; lacks 98, 99"
    assert only(close([SQUARE], [], subject="it")) == "it: expected 0 items, got 1"


def test_long_texts_show_where_they_part() -> None:
    line = only(equal("x" * 5000 + "a", "x" * 5000 + "b", subject="it"))
    assert "b' around index 5000, got 'x" in line and line.endswith("a'") and len(line) < 250


def test_tuples_count_as_lists_and_nan_as_itself() -> None:
    assert not lines(equal([(1, 2), NAN], ((1, 2), NAN), subject="it"))


def test_tensors_among_plain_values_are_compared_exactly() -> None:
    assert only(equal([SQUARE * (1 + 1e-15)], [SQUARE], subject="it"))
    assert only(equal([3, SQUARE], [3, 4], subject="it"))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(actual=plain, expected=plain)
def test_any_two_plain_values_are_told_apart_within_budget_and_in_short_lines(actual: Any, expected: Any) -> None:
    found = lines(equal(actual, expected, subject="it"))
    assert len(found) <= 5 and all(len(line) < 400 for line in found)
    assert (
        bool(found) == (repr(actual) != repr(expected))
        or "-0.0" in repr((actual, expected))
        or isinstance(actual, dict)
    )
    assert not lines(equal(expected, expected, subject="it"))
