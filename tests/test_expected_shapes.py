"""Tensors whose names, shapes or dtypes are not those that were asked for, as checks tell them."""

from __future__ import annotations

import pytest
import torch

from grader.checks import RankView
from grader.model.errors import CheckFailed
from tests import small

RUN = small.sum_run(1, None)
WHOLE = {"weight": torch.zeros(4, 6), "bias": torch.zeros(4)}
ODD = [
    ({**WHOLE, "weight": torch.zeros(4, 3)}, "the slices 'weight' on rank 0: expected shape (4, 6), got (4, 3)"),
    ({**WHOLE, "bias": torch.zeros(4).double()}, "the slices 'bias' on rank 0: expected dtype float32, got float64"),
    ({"weight": WHOLE["weight"]}, "the slices on rank 0: expected the key 'bias', got no such key"),
]


def told(values: dict[str, torch.Tensor], like: dict[str, torch.Tensor], subject: str) -> str:
    view = RankView(RUN.ranks[0], RUN.case)
    with pytest.raises(CheckFailed) as failed:
        view.expect_like(values, like, subject)
    return "; ".join(finding.sentence() for finding in failed.value.findings)


@pytest.mark.parametrize(("values", "sentence"), ODD, ids=["shape", "dtype", "name"])
def test_what_is_odd_is_told_and_what_is_right_is_not(values: dict[str, torch.Tensor], sentence: str) -> None:
    """A shape is told as a shape, and not as a list of numbers of which some are missing."""
    assert told(values, WHOLE, "the slices").startswith(sentence)
    assert ";" not in told(values, WHOLE, "the slices")


def test_one_tensor_is_told_without_a_name() -> None:
    """Where there is but one, which has the subject for its name, that is not said twice."""
    said = told({"the outputs": torch.zeros(4, 3)}, {"the outputs": torch.zeros(4, 6)}, "the outputs")
    assert said.startswith("the outputs on rank 0: expected shape (4, 6), got (4, 3)")


@pytest.mark.parametrize("expectation", ["expect_equal", "expect_close", "expect_like"])
def test_a_check_may_give_a_hint_and_a_line_of_its_own(expectation: str) -> None:
    """As docs/author.md says of each expectation."""
    view = RankView(RUN.ranks[0], RUN.case)
    with pytest.raises(CheckFailed) as failed:
        getattr(view, expectation)({"a": torch.ones(2)}, {"a": torch.zeros(3)}, "the sum", hint="Count.", line=7)
    assert {(finding.hint, finding.line) for finding in failed.value.findings} == {("Count.", 7)}
