"""One leaf against its partner: by number where a tolerance applies, else exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.checks.compare.mistakes import diagnosis
from grader.checks.compare.numbers import Difference, difference_between, extent, index_text
from grader.checks.compare.plain import plain_difference
from grader.checks.compare.question import Fault, Judged, Pair, Path, Question
from grader.checks.compare.text import is_list, is_numeric, is_tensor
from grader.model import Finding

if TYPE_CHECKING:
    import torch


def judged(question: Question, item: Pair | Fault) -> Judged:
    """What comes of one item of the walk."""
    if isinstance(item, Fault):
        fault = item
        return lambda: question.finding(fault.path, fault.expected, fault.actual)
    if not _by_number(question, item):
        difference = plain_difference(item.actual, item.expected)
        if difference is None:
            return None
        return lambda: question.finding(item.path, *difference)
    return _numeric_outcome(question, item)


def _by_number(question: Question, pair: Pair) -> bool:
    """Whether a tolerance applies; a list of floats needs a partner of as many floats."""
    if is_tensor(pair.expected):
        return True
    if question.plain_floats or not is_numeric(pair.expected):
        return False
    return not is_list(pair.expected) or (is_numeric(pair.actual) and len(pair.actual) == len(pair.expected))


def _numeric_outcome(question: Question, pair: Pair) -> Judged:
    difference = difference_between(question, pair.actual, pair.expected)
    if difference is None:
        return None

    def build() -> Finding:
        return question.finding(pair.path, *_described(question, pair.path, difference))

    return build


def _described(question: Question, path: Path, difference: Difference) -> tuple[str, str]:
    """The expected and the actual text of a finding: the worst element, how many differ, and what it looks like."""
    expected, actual, where = difference.at(difference.largest)
    strange = _strange(difference)
    if strange is None:
        clauses = [extent(difference), diagnosis(question, path, difference)]
    else:
        clauses = [_strange_clause(difference, strange)]
    return f"{expected}{where}", "; ".join([actual, *filter(None, clauses)])


def _strange(difference: Difference) -> torch.Tensor | None:
    """Which elements are at fault by being, or by not being, NaN or infinite; None where there are none."""
    if difference.finite:
        return None
    mask = difference.apart & ~(difference.actual.isfinite() & difference.expected.isfinite())
    return mask if mask.any() else None


def _strange_clause(difference: Difference, strange: torch.Tensor) -> str:
    nan = int((strange & difference.actual.isnan()).sum())
    infinite = int((strange & difference.actual.isinf()).sum())
    finite = int(strange.sum()) - nan - infinite
    named = ((nan, "NaN"), (infinite, "infinite"), (finite, "finite and should not be"))
    counted = [f"{count} {'is' if count == 1 else 'are'} {word}" for count, word in named if count]
    if strange.numel() == 1:
        return ""
    first = index_text(int(strange.reshape(-1).byte().argmax()), strange.shape)
    return f"of {strange.numel()} elements {', '.join(counted)}, the first one{first}"
