"""A wrong tensor is explained by what the mistake looks like, but only where that holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.checks.compare import close
from tests.comparing import GRADIENT, SQUARE, noise, only

# The likely factor


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    ("factor", "clause"),
    [
        (0, "all zeros"),
        (-1, "exactly -1 times what it should be: the sign is wrong"),
        (2, "exactly twice what it should be"),
        (5, "exactly 5 times what it should be"),
        (3, "exactly world_size (3) times what it should be: summed once too often, or a mean not divided"),
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


def test_float64_that_was_float32_on_the_way_is_told_so() -> None:
    """A tenth kept in float32 is off by 1.5e-8; what is off by more, or was float32 from the start, is not told so."""
    tenths = torch.arange(1, 9, dtype=torch.float64) / 10
    assert "as float32 would be, where" in only(close(tenths.float().double(), tenths, subject="it"))
    lucky = tenths[0].float().double()  # float32's own, and by luck nearer than most
    assert "as float32 would be, where" in only(close(lucky, lucky + 1e-10, subject="it"))
    for seen, wanted in ((tenths + 1e-6, tenths), (tenths + 1e-11, tenths), (tenths.float() + 1e-5, tenths.float())):
        assert "float32 would" not in only(close(seen, wanted, subject="it"))


def test_whole_numbers_where_fractions_are_expected_are_told_as_such() -> None:
    """Whether cut off or rounded; whole numbers that are expected, or that are off by more, are told otherwise."""
    wanted = torch.tensor([51651382.5, 7340032.25], dtype=torch.float64)
    for seen in (wanted.trunc(), wanted.round()):
        assert "as whole numbers would be, where" in only(close(seen, wanted, subject="it"))
    for seen, exact in ((wanted.trunc() + 40, wanted), (wanted.trunc() + 1, wanted.trunc()), (wanted + 0.125, wanted)):
        assert "whole numbers" not in only(close(seen, exact, subject="it"))
