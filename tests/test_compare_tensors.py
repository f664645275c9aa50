"""Comparers find every difference between tensors and nested values, and stay within their budget of lines."""

from __future__ import annotations

import ast
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.checks import compare
from grader.checks.compare import close, equal, identical
from grader.checks.tolerance import Reduction
from tests.comparing import GRADIENT, INF, NAN, SQUARE, lines, noise, only

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
    floats = {name: float(number) for number, name in enumerate(expected)}
    found = lines(close({k: v + 1 for k, v in floats.items()}, floats, subject="it", budget=4))
    assert found[-1] == "… and 37 more of 40 entries differ"


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


def test_no_module_imports_torch_until_it_is_asked() -> None:
    package = Path(compare.__file__).parent
    for path in (*package.glob("*.py"), package.parent / "tolerance.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        assert "torch" not in imported
