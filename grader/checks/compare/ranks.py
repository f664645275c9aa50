"""The ranks among each other: which of them hold other bits than most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from grader.checks.compare.numbers import Difference, as_tensor, bits, distinct_numbers, extent, measured, widened
from grader.checks.compare.plain import plain_difference
from grader.checks.compare.question import Fault, Judged, Path, Question
from grader.checks.compare.structure import leaf_fault, walk
from grader.checks.compare.text import is_numeric, short
from grader.checks.tolerance import Reduction, tolerance
from grader.model import Finding, Value
from grader.model.words import rank_list

if TYPE_CHECKING:
    import torch


def disagreements(question: Question, by_rank: Mapping[int, Value]) -> Iterator[Judged]:
    """One outcome for each entry, after the faults of structure against the rank that most others are built like."""
    leaves = {rank: {item.path: item.expected for item in walk(value, value, ())} for rank, value in by_rank.items()}
    model = max(
        by_rank, key=lambda rank: sum(not _structure_faults(other, by_rank[rank]) for other in by_rank.values())
    )
    for rank, value in by_rank.items():
        for fault in _structure_faults(value, by_rank[model]):
            yield _structure_outcome(question, fault, rank, model)
    for path, leaf in leaves[model].items():
        partners = {rank: of[path] for rank, of in leaves.items() if path in of}
        alike = {rank: value for rank, value in partners.items() if not leaf_fault(value, leaf, path)}
        yield _entry_outcome(question, path, alike)


def _structure_faults(value: Value, model: Value) -> list[Fault]:
    return [item for item in walk(value, model, ()) if isinstance(item, Fault)]


def _structure_outcome(question: Question, fault: Fault, rank: int, model: int) -> Judged:
    expected = f"{fault.expected} (as on rank {model})"
    return lambda: question.finding(fault.path, expected, fault.actual, (rank,))


def _entry_outcome(question: Question, path: Path, entries: Mapping[int, Value]) -> Judged:
    groups: list[list[int]] = []
    for rank, value in entries.items():
        home = next((group for group in groups if _same_bits(value, entries[group[0]])), None)
        if home is None:
            groups.append([rank])
        else:
            home.append(rank)
    return None if len(groups) < 2 else lambda: _entry_finding(question, path, entries, groups)


def _entry_finding(
    question: Question, path: Path, entries: Mapping[int, Value], groups: Sequence[Sequence[int]]
) -> Finding:
    """Names the ranks outside the majority, or all of them where there is no majority."""
    majority, *others = sorted(groups, key=len, reverse=True)
    texts, where, clauses = _values_by_group(entries, [group[0] for group in (majority, *others)])
    if 2 * len(majority) > len(entries):
        ranks = tuple(sorted(rank for group in others for rank in group))
        expected = f"{texts[0]}{where} as on {rank_list(majority)}"
        seen = texts[1] if len(others) == 1 else _by_rank(texts[1:], others)
    else:
        ranks, expected = tuple(sorted(entries)), f"the same bits on every rank{where and ', also' + where}"
        seen = _by_rank(texts, [majority, *others])
    return question.finding(path, expected, "; ".join([seen, *clauses]), ranks)


def _values_by_group(entries: Mapping[int, Value], ranks: Sequence[int]) -> tuple[list[str], str, list[str]]:
    """What the groups hold where the first two differ most, that place, and how far those two are apart."""
    if not is_numeric(entries[ranks[0]]):
        return [short(entries[rank]) for rank in ranks], "", []
    tensors = [as_tensor(entries[rank]) for rank in ranks]
    difference = _bit_difference(tensors[1], tensors[0])
    flat = difference.largest
    first, second, where = difference.at(flat)
    rest = [
        distinct_numbers(tensors[0].reshape(-1)[flat].item(), t.reshape(-1)[flat].item(), t.dtype)[1] for t in tensors
    ]
    texts = [first, second, *rest[2:]]
    if first == second:
        texts = [f"{text} ({_hex(tensor, flat)})" for text, tensor in zip(texts, tensors, strict=True)]
    clauses = (extent(difference), _rounding_clause(difference, len(entries)))
    return texts, where, [clause for clause in clauses if clause]


def _bit_difference(actual: torch.Tensor, expected: torch.Tensor) -> Difference:
    apart = bits(actual).ne(bits(expected)).any(dim=1).reshape(expected.shape)
    exact = tolerance(expected.dtype, Reduction.EXACT)
    return measured(expected.dtype, widened(actual), widened(expected), apart, exact)


def _rounding_clause(difference: Difference, terms: int) -> str:
    if not difference.dtype.is_floating_point:
        return ""
    reordered = tolerance(difference.dtype, Reduction.REORDERED, terms)
    if not float(difference.distance.nansum()) or reordered.exceeded(difference.actual, difference.expected).any():
        return ""
    return "a difference of rounding only, as when ranks add up in different orders"


def _same_bits(first: Value, second: Value) -> bool:
    if not is_numeric(first):
        return plain_difference(first, second) is None
    return bits(as_tensor(first)).equal(bits(as_tensor(second)))


def _hex(tensor: torch.Tensor, flat: int) -> str:
    import torch

    return "0x" + bytes(bits(tensor)[flat].contiguous().view(torch.uint8).tolist())[::-1].hex()


def _by_rank(texts: Sequence[str], groups: Sequence[Sequence[int]]) -> str:
    shown = [f"{text} on {rank_list(group)}" for text, group in zip(texts[:4], groups[:4], strict=True)]
    return ", ".join(shown) + (", …" if len(groups) > 4 else "")
