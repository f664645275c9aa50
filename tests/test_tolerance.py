"""The tolerances let every order of summation pass, and no wrong factor, missing term or stale parameter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.checks.replay import but_rounding
from grader.checks.tolerance import BLOCK, Reduction, Tolerance, lost_in_difference, magnitude, tolerance

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FINE = [torch.float64, torch.float32]
ROUNDED = [Reduction.REORDERED, Reduction.ACCUMULATED]
seeds = st.integers(0, 2**31 - 1)


def agree(actual: torch.Tensor, expected: torch.Tensor, allowed: Tolerance) -> bool:
    return not allowed.exceeded(actual.double(), expected.double()).any()


def terms_of_one_size(seed: int, terms: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(terms, 50, generator=generator, dtype=torch.float64) + 0.1).to(dtype)


def added_one_by_one(rows: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(rows[0])
    for row in rows:
        total = total + row
    return total


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, terms=st.integers(1, 5))
def test_reordered_sums_always_pass(dtype: torch.dtype, seed: int, terms: int) -> None:
    rows = terms_of_one_size(seed, terms, dtype)
    other = rows[torch.randperm(terms, generator=torch.Generator().manual_seed(seed))]
    assert agree(added_one_by_one(other), added_one_by_one(rows), tolerance(dtype, Reduction.REORDERED, terms))


@pytest.mark.parametrize("dtype", FINE)
@settings(max_examples=40, deadline=None)
@given(seed=seeds, terms=st.integers(2, 64))
def test_reordered_sums_with_cancellation_pass_in_fine_dtypes(dtype: torch.dtype, seed: int, terms: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(terms, 50, generator=generator, dtype=dtype)
    other = rows[torch.randperm(terms, generator=generator)]
    assert agree(added_one_by_one(other), added_one_by_one(rows), tolerance(dtype, Reduction.REORDERED, terms))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, terms=st.integers(1, 1000), reduction=st.sampled_from(ROUNDED), excess=st.floats(1.01, 1e6))
def test_a_perturbation_above_the_bound_always_fails(
    seed: int, terms: int, reduction: Reduction, excess: float
) -> None:
    for dtype in FLOATS:
        allowed = tolerance(dtype, reduction, terms)
        expected = torch.randn(50, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        actual = expected.clone()
        actual[seed % 50] += excess * allowed.bound * magnitude(expected)
        assert allowed.exceeded(actual, expected).sum() == 1


@pytest.mark.parametrize("reduction", ROUNDED)
@pytest.mark.parametrize("terms", [1, 4, 100, 10**9])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("factor", [0.0, -1.0, 2.0, 0.5, 1.5, 2 / 3, 3 / 4, 4 / 3, 7 / 8])
def test_a_wrong_factor_never_hides(factor: float, dtype: torch.dtype, terms: int, reduction: Reduction) -> None:
    expected = terms_of_one_size(1, 1, dtype)[0]
    wrong = (expected.double() * factor).to(dtype)
    assert not agree(wrong, expected, tolerance(dtype, reduction, terms))


@pytest.mark.parametrize("reduction", ROUNDED)
@pytest.mark.parametrize("terms", [1, 1000, 10**9])
@pytest.mark.parametrize("dtype", FINE)
def test_a_missing_term_of_weight_one_in_a_thousand_never_hides(
    dtype: torch.dtype, terms: int, reduction: Reduction
) -> None:
    rows = torch.ones(1000, 50, dtype=dtype)
    assert not agree(rows[1:].mean(0) * 0.999, rows.mean(0), tolerance(dtype, reduction, terms))


@pytest.mark.parametrize("weight", [1 / 64, 1 / 8])
def test_half_precision_sees_a_missing_term_of_a_weight_that_it_can_hold(weight: float) -> None:
    dtype = torch.float16 if weight < 1 / 16 else torch.bfloat16
    expected = torch.ones(50, dtype=dtype)
    assert not agree((expected.double() * (1 - weight)).to(dtype), expected, tolerance(dtype, Reduction.REORDERED, 100))


@pytest.mark.parametrize("steps", [1, 100, 10_000])
def test_a_stale_parameter_in_float64_never_hides(steps: int) -> None:
    """A parameter that missed one of many small steps."""
    generator = torch.Generator().manual_seed(3)
    before = torch.randn(50, generator=generator, dtype=torch.float64)
    after = before - 1e-4 * torch.randn(50, generator=generator, dtype=torch.float64)
    assert not agree(before, after, tolerance(torch.float64, Reduction.ACCUMULATED, steps))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.bool])
@pytest.mark.parametrize("reduction", list(Reduction))
def test_integers_and_bools_are_always_exact(dtype: torch.dtype, reduction: Reduction) -> None:
    assert tolerance(dtype, reduction, 1000).exact


@pytest.mark.parametrize("dtype", FLOATS)
def test_copies_are_exact_whatever_the_dtype(dtype: torch.dtype) -> None:
    assert tolerance(dtype, Reduction.EXACT, 1000).bound == 0.0


@pytest.mark.parametrize("dtype", FLOATS)
def test_more_terms_and_more_steps_never_tighten(dtype: torch.dtype) -> None:
    for reduction in ROUNDED:
        bounds = [tolerance(dtype, reduction, terms).bound for terms in (1, 2, 10, 1000, 10**12)]
        assert bounds == sorted(bounds)
    one_step, one_sum = (tolerance(dtype, reduction).bound for reduction in reversed(ROUNDED))
    assert one_step >= one_sum


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2])
def test_no_dtype_may_be_off_by_more_than_an_eighth(dtype: torch.dtype) -> None:
    assert 0.0 < tolerance(dtype, Reduction.ACCUMULATED, 10**12).bound <= 1 / 8


def test_the_numbers_of_the_docstring_are_those_of_the_code() -> None:
    bounds = [f"{tolerance(dtype, Reduction.REORDERED).bound:.1e}" for dtype in FLOATS]
    assert bounds == ["1.8e-12", "6.4e-06", "5.5e-03", "2.6e-02"]


def test_zeros_in_a_large_tensor_may_be_off_by_rounding() -> None:
    expected, actual = torch.tensor([1.0, 0.0]).double(), torch.tensor([1.0, 1e-13]).double()
    assert agree(actual, expected, tolerance(torch.float64, Reduction.REORDERED))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e300])
def test_a_tiny_tensor_is_judged_like_a_large_one(scale: float) -> None:
    expected = torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64) * scale
    allowed = tolerance(torch.float64, Reduction.REORDERED)
    assert agree(expected * (1 + 1e-15), expected, allowed)
    assert not agree(expected * 1.001, expected, allowed)


def test_where_zeros_are_expected_only_zeros_pass() -> None:
    zeros = torch.zeros(3, dtype=torch.float64)
    assert not agree(zeros + 1e-300, zeros, tolerance(torch.float64, Reduction.REORDERED))


@pytest.mark.parametrize("reduction", list(Reduction))
def test_nan_agrees_with_nan_alone_and_an_infinity_with_itself_alone(reduction: Reduction) -> None:
    nan, inf = float("nan"), float("inf")
    expected = torch.tensor([nan, nan, 1.0, inf, inf, inf, 1.0, -inf, inf], dtype=torch.float64)
    actual = torch.tensor([nan, 1.0, nan, inf, -inf, 1.0, inf, -inf, nan], dtype=torch.float64)
    apart = tolerance(torch.float64, reduction).exceeded(actual, expected)
    assert apart.tolist() == [False, True, True, False, True, True, True, False, True]


def test_a_tensor_of_many_blocks_is_judged_as_a_whole() -> None:
    """The scale is that of the whole tensor, and a fault in the last block is found."""
    expected = torch.zeros(2, BLOCK, dtype=torch.float64)
    expected[0, 0] = 1.0
    actual = expected + 1e-14
    actual[1, -1] = 1e-6
    apart = tolerance(torch.float64, Reduction.REORDERED).exceeded(actual, expected)
    assert apart.nonzero().tolist() == [[1, BLOCK - 1]]


def test_magnitude_looks_at_finite_elements_only() -> None:
    assert magnitude(torch.tensor([float("nan"), -3.0, float("inf")])) == 3.0
    assert magnitude(torch.tensor([])) == 0.0
    assert magnitude(torch.tensor([3 + 4j])) == 5.0


def test_fewer_than_one_term_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        tolerance(torch.float64, Reduction.REORDERED, 0)


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(-12, 0))
def test_what_a_difference_loses_is_allowed_and_hides_nothing_else(dtype: torch.dtype, seed: int, size: int) -> None:
    """A step off a parameter, recovered from the parameter before and after it."""
    generator = torch.Generator().manual_seed(seed)
    before, gradient = (torch.randn(50, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    rate = 10.0**size
    gradient = gradient.clamp(-(before.abs() / rate / 2).double(), (before.abs() / rate / 2).double()).to(dtype)
    after = before - rate * gradient
    lost = lost_in_difference(before, after).double()
    taken, step = (before - after).double(), rate * gradient.double()
    assert ((taken - step).abs() <= lost).all()
    assert not ((taken - 2 * step).abs() <= lost)[step.abs() > 2 * lost].any()


def test_a_step_too_small_for_its_state_is_as_wanted_and_a_wrong_one_is_not() -> None:
    """As in the last batch of a model that is sure of its single sample: a gradient of 1e-8 beside values of 1."""
    before = {"weight": torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)}
    gradient = {"weight": torch.tensor([3e-8, -1e-8, 2e-8], dtype=torch.float64)}
    for factor, right in ((1, True), (1.001, False), (0, False)):
        after = {"weight": before["weight"] - 0.2 * factor * gradient["weight"]}
        used = {"weight": (before["weight"] - after["weight"]) / 0.2}
        assert factor != 1 or not used["weight"].allclose(gradient["weight"], rtol=1e-10, atol=0)
        assert but_rounding(used, gradient, before, after, 0.2)["weight"].equal(gradient["weight"]) is right
    after = {"weight": torch.full((3,), torch.nan, dtype=torch.float64)}
    assert but_rounding(after, gradient, before, after)["weight"].isnan().all()
