"""The three comparers, and the budget of lines that they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from grader.checks.compare.leaves import judged
from grader.checks.compare.question import Judged, Pair, Question
from grader.checks.compare.ranks import disagreements
from grader.checks.compare.structure import walk
from grader.checks.compare.text import is_tensor
from grader.checks.tolerance import Reduction
from grader.model import Finding, Value


def close(
    actual: Value,
    expected: Value,
    *,
    subject: str,
    ranks: Sequence[int] = (),
    case: str | None = None,
    reduction: Reduction = Reduction.REORDERED,
    terms: int = 1,
    budget: int = 5,
    world_size: int | None = None,
    stale: Value = None,
    alternatives: Mapping[str, Value] | None = None,
) -> Iterator[Finding]:
    """How `actual` differs from `expected`: a tensor, a float, or nested dicts and lists of them.

    `reduction` and `terms` choose the tolerance (see grader.checks.tolerance). The rest only helps to name the mistake:
    `stale` holds the values at the start, `alternatives` maps a clause ("these are the gradients of this rank's
    own batch, not the average") to the values that it explains; both are built like `expected`. A clause is added only
    where it holds for the whole tensor. At most `budget` findings.
    """
    question = Question(
        subject=subject,
        ranks=tuple(ranks),
        case=case,
        reduction=reduction,
        terms=terms,
        world_size=world_size,
        stale=stale,
        alternatives=alternatives or {},
    )
    return _answer(question, actual, expected, budget)


def equal(
    actual: Value,
    expected: Value,
    *,
    subject: str,
    ranks: Sequence[int] = (),
    case: str | None = None,
    budget: int = 5,
) -> Iterator[Finding]:
    """How plain values differ: ints, strings, lists, dicts, also tensors, all exactly.

    Types count: 1 is neither True nor 1.0; but tuples count as lists. At most `budget` findings.
    """
    question = Question(subject=subject, ranks=tuple(ranks), case=case, plain_floats=True)
    return _answer(question, actual, expected, budget)


def identical(
    by_rank: Mapping[int, Value], *, subject: str, case: str | None = None, budget: int = 5
) -> Iterator[Finding]:
    """Where the ranks' values are not the same bit for bit, NaN patterns and the sign of zero included.

    At most `budget` findings. Where most ranks agree, a finding names the others; otherwise all that are compared.
    """
    question = Question(subject=subject, case=case)
    if len(by_rank) < 2:
        return iter(())
    return _within_budget(disagreements(question, by_rank), budget, question, next(iter(by_rank.values())))


def _answer(question: Question, actual: Value, expected: Value, budget: int) -> Iterator[Finding]:
    found = sorted(walk(actual, expected, ()), key=lambda item: isinstance(item, Pair))
    return _within_budget((judged(question, item) for item in found), budget, question, expected)


def _within_budget(outcomes: Iterable[Judged], budget: int, question: Question, like: Value) -> Iterator[Finding]:
    """The first few findings; where there are more than `budget`, the last line counts the rest. What is compared is
    `like` this value."""
    total = wrong = 0
    kept: list[Callable[[], Finding]] = []
    for outcome in outcomes:
        total += 1
        if outcome is not None:
            wrong += 1
            if len(kept) < max(budget, 1):
                kept.append(outcome)
    shown = kept if wrong <= budget or budget <= 1 else kept[:-1]
    yield from (build() for build in shown)
    if len(shown) < len(kept):
        noun = "tensors" if not question.plain_floats and _holds_tensors(like) else "entries"
        rest = f"… and {wrong - len(shown)} more of {total} {noun} differ"
        yield Finding(subject=rest, ranks=question.ranks, case=question.case)


def _holds_tensors(value: Value) -> bool:
    """Whether all that is compared in a value are tensors."""
    return all(isinstance(item, Pair) and is_tensor(item.expected) for item in walk(value, value, ()))
