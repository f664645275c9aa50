"""Comparers find every difference, say what it looks like, and stay within their budget of lines."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import grader.compare as compare_module
from grader.compare import close, equal, identical
from grader.model import Finding
from grader.tolerance import Reduction

NAN, INF = float("nan"), float("inf")


def lines(findings: Iterator[Finding]) -> list[str]:
    return [finding.sentence() for finding in findings]


def only(findings: Iterator[Finding]) -> str:
    (line,) = lines(findings)
    return line


def noise(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


GRADIENT = noise(4, 3)
SQUARE = noise(4, 4, seed=1)


# What passes


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
def test_equal_tensors_pass_in_every_dtype(dtype: torch.dtype) -> None:
    tensor = noise(5, 5).to(dtype)
    assert not lines(close(tensor.clone(), tensor, subject="it"))


def test_strides_history_and_device_never_matter() -> None:
    actual = torch.nn.Parameter(GRADIENT.T.contiguous()).T
    assert not lines(close(actual, GRADIENT, subject="it", reduction=Reduction.EXACT))
    assert not lines(identical({0: actual, 1: GRADIENT}, subject="it"))


@pytest.mark.parametrize("value", [torch.empty(0, 3), torch.tensor(True), torch.tensor(1 + 2j), {}, [], None, "x"])
def test_odd_values_equal_themselves(value: Any) -> None:
    for findings in (close(value, value, subject="it"), equal(value, value, subject="it")):
        assert not lines(findings)
    assert not lines(identical({0: value, 1: value}, subject="it"))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), terms=st.integers(2, 8))
def test_sums_in_another_order_always_pass(seed: int, terms: int) -> None:
    rows = noise(terms, 20, seed=seed)
    expected = {"w": sum(rows), "b": [sum(rows.flip(0))]}
    actual = {"w": sum(rows.flip(0)), "b": [sum(rows)]}
    assert not lines(close(actual, expected, subject="it", terms=terms))


def test_floats_are_judged_with_the_tolerance_and_a_whole_number_may_stand_for_one() -> None:
    assert not lines(close([0.1 + 0.2, 1.0], [0.3, 1.0], subject="the losses"))
    assert not lines(close(1, 1.0, subject="the loss"))
    assert lines(close(True, 1.0, subject="the loss"))


# Structure


@pytest.mark.parametrize(
    ("actual", "expected", "sentence"),
    [
        (noise(4, 3), noise(3, 4), "it 'w' on rank 1: expected shape (3, 4), got (4, 3): it is transposed"),
        (noise(6), noise(2, 3), "it 'w' on rank 1: expected shape (2, 3), got (6,): as many elements in another shape"),
        (noise(2), noise(3), "it 'w' on rank 1: expected shape (3,), got (2,)"),
        (noise(2).float(), noise(2), "it 'w' on rank 1: expected dtype float64, got float32"),
        (None, noise(2), "it 'w' on rank 1: expected a tensor of shape (2,), got None"),
        ([1.0], noise(2), "it 'w' on rank 1: expected a tensor of shape (2,), got a list of 1 item"),
        ("no", noise(2), "it 'w' on rank 1: expected a tensor of shape (2,), got 'no' (str)"),
        (noise(2), None, "it 'w' on rank 1: expected None, got a tensor of shape (2,)"),
        ([noise(2)], [noise(2)] * 3, "it 'w' on rank 1: expected 3 items, got 1"),
    ],
)
def test_another_structure_is_named(actual: Any, expected: Any, sentence: str) -> None:
    assert only(close({"w": actual}, {"w": expected}, subject="it", ranks=[1])) == sentence


def test_missing_and_unexpected_keys_are_one_line_each() -> None:
    expected = {f"w{i}": GRADIENT for i in range(9)}
    actual = {"w0": GRADIENT, "x": GRADIENT}
    assert lines(close(actual, expected, subject="the state dict")) == [
        "the state dict: expected the keys 'w1', 'w2', 'w3' and 5 more, got none of them",
        "the state dict: expected no further keys, got the key 'x'",
    ]


def test_the_prefix_of_a_wrapper_is_recognised() -> None:
    line = only(close({"module.w": GRADIENT, "module.b": GRADIENT}, {"w": GRADIENT, "b": GRADIENT}, subject="it"))
    assert line == "it: expected keys such as 'w', got 'module.w': a wrapper's prefix 'module.'"


def test_structure_comes_before_numbers() -> None:
    actual, expected = {"a": GRADIENT + 1, "b": GRADIENT[0]}, {"a": GRADIENT, "b": GRADIENT}
    first, second = lines(close(actual, expected, subject="it"))
    assert "it 'b': expected shape" in first
    assert first != second and "it 'a'" in second


def test_nested_entries_are_named_by_their_path() -> None:
    actual, expected = {"model": [GRADIENT, {"w": GRADIENT + 1}]}, {"model": [GRADIENT, {"w": GRADIENT}]}
    assert only(close(actual, expected, subject="it")).startswith("it 'model'[1]['w']: expected ")


# NaN and infinity


def test_nan_is_no_wildcard() -> None:
    actual = torch.tensor([[1.0, 2.0], [NAN, NAN]])
    line = only(close(actual, torch.ones(2, 2), subject="it"))
    assert line == "it: expected 1 at [1, 0], got nan; of 4 elements 2 are NaN, the first one at [1, 0]"


@pytest.mark.parametrize(("actual", "expected"), [(1.0, NAN), (INF, -INF), (NAN, INF), (INF, 1.0), (1.0, INF)])
@pytest.mark.parametrize("reduction", list(Reduction))
def test_what_is_not_finite_matches_itself_alone(actual: float, expected: float, reduction: Reduction) -> None:
    tensors = torch.tensor([0.5, actual]), torch.tensor([0.5, expected])
    assert len(lines(close(*tensors, subject="it", reduction=reduction))) == 1
    assert not lines(close(tensors[1].clone(), tensors[1], subject="it", reduction=reduction))


def test_a_finite_fault_is_explained_beside_matching_infinities() -> None:
    expected = torch.tensor([INF, NAN, 1.0, 2.0])
    line = only(close(torch.tensor([INF, NAN, 1.0, 2.5]), expected, subject="it"))
    assert line.startswith("it: expected 2 at [3], got 2.5; 1 of 4 elements differ, by 0.5 at most")


# The likely factor


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    ("factor", "clause"),
    [
        (0, "all zeros"),
        (-1, "exactly -1 times what it should be: the sign is wrong"),
        (2, "exactly twice what it should be"),
        (5, "exactly 5 times what it should be"),
        (3, "exactly world_size (3) times what it should be: summed where a mean was asked"),
    ],
)
def test_a_telling_factor_is_named(dtype: torch.dtype, factor: int, clause: str) -> None:
    expected = (noise(8, 8) * 10).to(dtype)
    assert only(close(expected * factor, expected, subject="it", world_size=3)).endswith(f"; {clause}")


@pytest.mark.parametrize(
    ("parts", "clause"),
    [
        (2, "exactly half of what it should be"),
        (7, "exactly 1/7 of what it should be"),
        (3, "exactly 1/world_size (1/3) of what it should be: divided once too often"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_telling_part_is_named(dtype: torch.dtype, parts: int, clause: str) -> None:
    expected = noise(8, 8).to(dtype)
    assert only(close(expected / parts, expected, subject="it", world_size=3)).endswith(f"; {clause}")


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 64), sign=st.sampled_from([1, -1]), inverse=st.booleans(), exponent=st.integers(-250, 250))
def test_every_integer_to_64_and_its_inverse_is_recognised(n: int, sign: int, inverse: bool, exponent: int) -> None:
    expected = noise(50) * 10.0**exponent
    line = only(close(expected * sign / n if inverse else expected * sign * n, expected, subject="it"))
    name = {2: "half" if sign > 0 else "-1/2"}.get(n, f"{sign}/{n}") if inverse else f"{sign * n} times"
    assert f"exactly {'twice' if name == '2 times' else name}" in line


def test_other_fractions_are_named_where_the_dtype_is_fine_enough() -> None:
    assert "exactly 3/2 of what it should be" in only(close(GRADIENT * 1.5, GRADIENT, subject="it"))
    coarse = GRADIENT.bfloat16()
    assert "exactly" not in only(close(coarse * 1.5, coarse, subject="it"))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(1, 10**6))
def test_no_factor_is_claimed_that_does_not_hold_everywhere(seed: int) -> None:
    expected = noise(50)
    actual = expected * 2
    actual[seed % 50] = noise(1, seed=seed)[0]
    assert "exactly twice" not in only(close(actual, expected, subject="it"))


# Other likely mistakes


def test_values_from_the_start_are_named_stale() -> None:
    line = only(close({"w": SQUARE}, {"w": SQUARE - 0.1}, subject="it", stale={"w": SQUARE.clone()}))
    assert line.endswith("; unchanged since the start")


def test_values_of_an_alternative_are_named_by_its_label() -> None:
    label = "these are the gradients of this rank's own batch, not the average"
    alternatives = {"not these": [SQUARE + 2], label: [SQUARE + 1]}
    line = only(close([SQUARE + 1 + 1e-15], [SQUARE], subject="it", alternatives=alternatives))
    assert line.endswith(f"; {label}")


@pytest.mark.parametrize("other", [None, {}, {"w": 3}, {"w": GRADIENT[0]}, {"w": SQUARE.float()}, [SQUARE]])
def test_references_of_another_shape_are_no_help_and_no_harm(other: Any) -> None:
    assert only(close({"w": SQUARE + 1}, {"w": SQUARE}, subject="it", stale=other, alternatives={"other": other}))


def test_a_transposed_square_matrix_and_rows_in_another_order_are_recognised() -> None:
    assert only(close(SQUARE.T, SQUARE, subject="it")).endswith("; the expected matrix, transposed")
    assert only(close(SQUARE[[2, 0, 1, 3]], SQUARE, subject="it")).endswith("; the expected rows in another order")
    assert only(close(SQUARE[0].flip(0), SQUARE[0], subject="it")).endswith("; the expected elements in another order")


def test_a_wrong_part_is_named_with_its_own_factor() -> None:
    rows, columns = SQUARE.clone(), SQUARE.clone()
    rows[2:] = 0
    columns[:, 1:3] *= 2
    assert only(close(rows, SQUARE, subject="it")).endswith("; only rows [2:4] of 4 differ: all zeros")
    line = only(close(columns, SQUARE, subject="it"))
    assert line.endswith("; only columns [1:3] of 4 differ: exactly twice what it should be")


def test_a_part_left_as_it_was_is_named_stale() -> None:
    start, expected = noise(8, seed=5), noise(8)
    line = only(close(torch.cat([expected[:5], start[5:]]), expected, subject="it", stale=start))
    assert line.endswith("; only elements [5:8] of 8 differ: unchanged since the start")


def test_a_small_difference_is_held_against_what_rounding_explains() -> None:
    actual = GRADIENT + 1e-9 * SQUARE[:, :3]
    assert "of the largest value, where rounding explains 1.8e-12" in only(close(actual, GRADIENT, subject="it"))


# Numbers in print


@settings(max_examples=100, deadline=None)
@given(value=st.floats(-1e30, 1e30).filter(lambda value: abs(value) > 1e-30), exact=st.booleans())
def test_expected_and_actual_always_differ_in_print(value: float, exact: bool) -> None:
    for dtype in (torch.float64, torch.float32):
        expected = torch.tensor([value], dtype=dtype)
        actual = torch.nextafter(expected, expected + abs(expected)) if exact else expected * 1.001
        (finding,) = close(actual, expected, subject="it", reduction=Reduction.EXACT)
        assert finding.expected.split(" at ")[0] != finding.actual.split(";")[0]


def test_six_digits_for_float32_and_ten_for_float64() -> None:
    third = torch.tensor([1 / 3])
    assert only(close(third * 2.5, third, subject="it")).startswith("it: expected 0.333333 at [0], got 0.833333")
    third = torch.tensor([1 / 3], dtype=torch.float64)
    assert only(close(third * 2.5, third, subject="it")).startswith(
        "it: expected 0.3333333333 at [0], got 0.8333333333"
    )


def test_bools_and_large_integers_are_shown_as_they_are() -> None:
    assert "expected True at [1], got False" in only(
        close(torch.tensor([True, False]), torch.tensor([True, True]), subject="it")
    )
    big = torch.tensor([2**62, 5])
    assert "expected 4611686018427387904 at [0], got 4611686018427387905" in only(
        close(big + torch.tensor([1, 0]), big, subject="it")
    )


# Budget and speed


def test_many_wrong_entries_end_in_one_line_that_counts_the_rest() -> None:
    expected = {f"w{i}": GRADIENT for i in range(40)}
    found = lines(close({k: v + 1 for k, v in expected.items()}, expected, subject="it", ranks=[0, 2], budget=4))
    assert len(found) == 4
    assert found[-1] == "… and 37 more of 40 tensors differ on ranks 0, 2"


@pytest.mark.parametrize("budget", [0, 1, 2, 5])
@pytest.mark.parametrize("wrong", [0, 1, 2, 5, 6])
def test_the_budget_is_never_exceeded_and_never_hides_everything(budget: int, wrong: int) -> None:
    expected = {f"w{i}": GRADIENT for i in range(8)}
    actual = {key: value + (i < wrong) for i, (key, value) in enumerate(expected.items())}
    found = lines(close(actual, expected, subject="it", budget=budget))
    assert len(found) == min(wrong, max(budget, 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_ten_million_wrong_elements_give_few_lines_in_a_moment(dtype: torch.dtype) -> None:
    expected = torch.rand(10_000_000).add_(0.1).to(dtype)
    actual = expected.clone()
    actual[5_000_000:] = 0
    began = time.process_time()
    found = lines(close(actual, expected, subject="it", stale=expected + 1, alternatives={"other": expected + 2}))
    assert len(found) == 1
    assert "only elements [5000000:10000000] of 10000000 differ: all zeros" in found[0]
    assert len(found[0]) < 300
    assert time.process_time() - began < 10  # a Python loop over the elements would take a minute


def test_findings_carry_their_ranks_and_case() -> None:
    (finding,) = close(SQUARE + 1, SQUARE, subject="it", ranks=[2, 1], case="train[3]")
    assert (finding.ranks, finding.case) == ((2, 1), "train[3]")


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


def test_the_module_imports_no_torch_until_it_is_asked() -> None:
    for name in ("compare.py", "tolerance.py"):
        tree = ast.parse((Path(compare_module.__file__).parent / name).read_text(encoding="utf-8"))
        imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        assert "torch" not in imported
