"""Comparers: pure generators of findings, with a budget of lines.

    close(actual, expected, …)      tensors within the tolerance of their dtype
    identical({rank: value}, …)     bit-identical across ranks
    equal(actual, expected, …)      plain values, exactly

A finding says what was expected, what was seen, and one clause on what the mistake looks like. Nothing here
loops over the elements of a tensor in Python. Devices, strides and requires_grad never matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from grader.model import Finding, Value
from grader.tolerance import Reduction, Tolerance, blocks, magnitude, tolerance

if TYPE_CHECKING:
    import torch

Path = tuple[str | int, ...]
LARGEST_FACTOR = 64
"""The largest n of a factor n or 1/n that is named."""
LARGEST_PARTS = 8
"""The largest number in any other fraction that is named, such as 3/2."""
COARSE = 1e-3
"""A tolerance above which two such fractions could be taken for one another."""
SAMPLE = 4096
"""How many elements of a tensor decide quickly that a guess is wrong."""
MOST_ROWS = 1_000_000
"""How many rows are sorted at most, to see whether they only changed places."""
LONGEST = 70
"""How many characters of a value are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is compared, and all that helps to explain a difference."""

    subject: str
    ranks: tuple[int, ...] = ()
    case: str | None = None
    reduction: Reduction = Reduction.EXACT
    terms: int = 1
    plain_floats: bool = False
    world_size: int | None = None
    stale: Value = None
    alternatives: Mapping[str, Value] = field(default_factory=dict)

    def finding(self, path: Path, expected: str, actual: str, ranks: tuple[int, ...] | None = None) -> Finding:
        return Finding(
            subject=self.subject + _path_text(path),
            expected=expected,
            actual=actual,
            ranks=self.ranks if ranks is None else ranks,
            case=self.case,
        )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two leaves of the same kind; tensors have the same shape and dtype."""

    path: Path
    actual: Any
    expected: Any


@dataclass(frozen=True, slots=True)
class _Fault:
    """The structures differ at `path`."""

    path: Path
    expected: str
    actual: str


# The three comparers


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

    `reduction` and `terms` choose the tolerance (see grader.tolerance). The rest only helps to name the mistake:
    `stale` holds the values at the start, `alternatives` maps a clause ("these are the gradients of this rank's
    own batch, not the average") to the values that it explains; both are built like `expected`. A clause is added only
    where it holds for the whole tensor. At most `budget` findings.
    """
    question = _Question(
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
    question = _Question(subject=subject, ranks=tuple(ranks), case=case, plain_floats=True)
    return _answer(question, actual, expected, budget)


def identical(
    by_rank: Mapping[int, Value], *, subject: str, case: str | None = None, budget: int = 5
) -> Iterator[Finding]:
    """Where the ranks' values are not the same bit for bit, NaN patterns and the sign of zero included.

    At most `budget` findings. Where most ranks agree, a finding names the others; otherwise all that are compared.
    """
    question = _Question(subject=subject, case=case)
    if len(by_rank) < 2:
        return iter(())
    return _within_budget(_disagreements(question, by_rank), budget, question)


def _answer(question: _Question, actual: Value, expected: Value, budget: int) -> Iterator[Finding]:
    found = sorted(_walk(actual, expected, ()), key=lambda item: isinstance(item, _Pair))
    return _within_budget((_judge(question, item) for item in found), budget, question)


_Outcome = Callable[[], Finding] | None
"""None where all is well, else what builds the finding (explaining one is dear, finding one is cheap)."""


def _within_budget(outcomes: Iterable[_Outcome], budget: int, question: _Question) -> Iterator[Finding]:
    """The first few findings; where there are more than `budget`, the last line counts the rest."""
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
        noun = "entries" if question.plain_floats else "tensors"
        rest = f"… and {wrong - len(shown)} more of {total} {noun} differ"
        yield Finding(subject=rest, ranks=question.ranks, case=question.case)


def _judge(question: _Question, item: _Pair | _Fault) -> _Outcome:
    if isinstance(item, _Fault):
        fault = item
        return lambda: question.finding(fault.path, fault.expected, fault.actual)
    if not _by_number(question, item):
        difference = _plain_difference(item.actual, item.expected)
        if difference is None:
            return None
        return lambda: question.finding(item.path, *difference)
    return _numeric_outcome(question, item)


def _by_number(question: _Question, pair: _Pair) -> bool:
    """Whether a tolerance applies; a list of floats needs a partner of as many floats."""
    if _is_tensor(pair.expected):
        return True
    if question.plain_floats or not _is_numeric(pair.expected):
        return False
    return not _is_list(pair.expected) or (_is_numeric(pair.actual) and len(pair.actual) == len(pair.expected))


# Structure


def _walk(actual: Value, expected: Value, path: Path) -> Iterator[_Pair | _Fault]:
    """All leaves of `expected` with their partners, and a fault wherever there is none."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _key_faults(actual, expected, path)
        for key in expected:
            if key in actual:
                yield from _walk(actual[key], expected[key], (*path, key))
    elif _is_list(expected) and _is_list(actual) and not _is_flat(expected):
        if len(actual) != len(expected):
            yield _Fault(path, _items(len(expected)), str(len(actual)))
        for index, pair in enumerate(zip(actual, expected, strict=False)):
            yield from _walk(*pair, (*path, index))
    else:
        yield _leaf_fault(actual, expected, path) or _Pair(path, actual, expected)


def _key_faults(actual: Mapping[Any, Value], expected: Mapping[Any, Value], path: Path) -> Iterator[_Fault]:
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing and [_without_prefix(key) for key in extra] == missing:
        yield _Fault(path, f"keys such as {_short(missing[0])}", f"{_short(extra[0])}: a wrapper's prefix 'module.'")
        return
    if missing:
        yield _Fault(path, _listed(missing, "key"), f"{'none of them' if len(missing) > 1 else 'no such key'}")
    if extra:
        yield _Fault(path, "no further keys", _listed(extra, "key"))


def _without_prefix(key: Any) -> Any:
    return key.removeprefix("module.") if isinstance(key, str) else key


def _leaf_fault(actual: Value, expected: Value, path: Path) -> _Fault | None:
    if not _is_tensor(actual) or not _is_tensor(expected):
        same = _kind(actual) == _kind(expected) or _stands_for_float(actual, expected)
        return None if same else _Fault(path, _kind_text(expected), _kind_text(actual))
    if actual.shape != expected.shape:
        return _Fault(path, f"shape {tuple(expected.shape)}", f"{tuple(actual.shape)}{_shape_clause(actual, expected)}")
    if actual.dtype != expected.dtype:
        return _Fault(path, f"dtype {_dtype_name(expected)}", _dtype_name(actual))
    return None


def _stands_for_float(actual: Value, expected: Value) -> bool:
    return type(expected) is float and type(actual) is int and abs(actual) < 2**53


def _shape_clause(actual: torch.Tensor, expected: torch.Tensor) -> str:
    if actual.dim() == 2 and tuple(actual.shape) == tuple(expected.shape)[::-1]:
        return ": it is transposed"
    if actual.numel() == expected.numel():
        return ": as many elements in another shape"
    return ""


def _is_tensor(value: Value) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_list(value: Value) -> bool:
    return isinstance(value, list | tuple)


def _is_flat(value: Sequence[Value]) -> bool:
    """Whether a list holds only scalars, so that it is compared as one sequence."""
    import torch

    return not any(issubclass(kind, list | tuple | Mapping | torch.Tensor) for kind in set(map(type, value)))


def _is_numeric(value: Value) -> bool:
    """A tensor, a float, or a list of floats, which is judged as one tensor."""
    return (
        _is_tensor(value) or type(value) in (float, complex) or (_is_list(value) and set(map(type, value)) == {float})
    )


def _kind(value: Value) -> str:
    if _is_tensor(value):
        return "tensor"
    if isinstance(value, Mapping):
        return "dict"
    return "list" if _is_list(value) else type(value).__name__


def _kind_text(value: Value) -> str:
    kind = _kind(value)
    if value is None:
        return "None"
    if kind == "tensor":
        return f"a tensor of shape {tuple(value.shape)}"
    if kind in ("dict", "list"):
        return f"a {kind} of {_items(len(value))}"
    return f"{_short(value)} ({kind})"


def _path_text(path: Path) -> str:
    if not path:
        return ""
    head = f" {_short(path[0])}" if isinstance(path[0], str) else f"[{_short(path[0])}]"
    return head + "".join(f"[{_short(step)}]" for step in path[1:])


def _listed(keys: Sequence[Any], noun: str) -> str:
    shown = ", ".join(_short(key) for key in keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"the {noun}{'s' if len(keys) > 1 else ''} {shown}{more}"


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


# Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """Two tensors of one shape and dtype that lie too far apart.

    `actual` and `expected` are widened (int64, float64, complex128); `apart` marks the elements at fault.
    """

    dtype: torch.dtype
    actual: torch.Tensor
    expected: torch.Tensor
    apart: torch.Tensor
    allowed: Tolerance
    distance: torch.Tensor
    """|actual - expected| of every element, float64."""

    finite: bool
    """Whether all of `distance` is finite."""
    largest: int
    """The flat index of the largest difference; of the first non-finite one where there is any."""

    def at(self, flat: int) -> tuple[str, str, str]:
        """Expected, actual and " at [index]" of one element, as text."""
        expected, actual = self.expected.reshape(-1)[flat].item(), self.actual.reshape(-1)[flat].item()
        return *_distinct_numbers(expected, actual, self.dtype), _index_text(flat, self.actual.shape)


def _numeric_outcome(question: _Question, pair: _Pair) -> _Outcome:
    difference = _difference(question, pair.actual, pair.expected)
    if difference is None:
        return None

    def build() -> Finding:
        return question.finding(pair.path, *_described(question, pair.path, difference))

    return build


def _difference(question: _Question, actual: Value, expected: Value) -> _Difference | None:
    actual, expected = _as_tensor(actual), _as_tensor(expected)
    dtype = expected.dtype
    if _bits(actual).equal(_bits(expected)):
        return None
    allowed = tolerance(dtype, question.reduction, question.terms)
    actual, expected = _widened(actual), _widened(expected)
    apart = allowed.exceeded(actual, expected)
    return _apart(dtype, actual, expected, apart, allowed) if apart.any() else None


def _apart(
    dtype: torch.dtype, actual: torch.Tensor, expected: torch.Tensor, apart: torch.Tensor, allowed: Tolerance
) -> _Difference:
    # Integers are subtracted as float64, in which the difference of two int64 cannot overflow.
    distance = (actual - expected if actual.is_complex() else actual.double() - expected.double()).abs()
    finite = math.isfinite(float(distance.max()))
    ranked = distance if finite else distance.nan_to_num(nan=math.inf, posinf=math.inf)
    return _Difference(
        dtype=dtype,
        actual=actual,
        expected=expected,
        apart=apart,
        allowed=allowed,
        distance=distance,
        finite=finite,
        largest=int(ranked.where(apart, -1.0).argmax()),
    )


def _as_tensor(value: Value) -> torch.Tensor:
    """A dense CPU tensor without history; floats become float64."""
    import torch

    if not isinstance(value, torch.Tensor):
        return torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
    tensor = value.detach().cpu()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)


def _described(question: _Question, path: Path, difference: _Difference) -> tuple[str, str]:
    """The expected and the actual text of a finding: the worst element, how many differ, and what it looks like."""
    expected, actual, where = difference.at(difference.largest)
    strange = _strange(difference)
    if strange is None:
        clauses = [_extent(difference), _diagnosis(question, path, difference)]
    else:
        clauses = [_strange_clause(difference, strange)]
    return f"{expected}{where}", "; ".join([actual, *filter(None, clauses)])


def _extent(difference: _Difference) -> str:
    """How many elements differ and by how much."""
    import torch

    count, total = int(difference.apart.sum()), difference.apart.numel()
    if total == 1:
        return ""
    counted = f"{'all' if count == total else f'{count} of'} {total} elements differ"
    if difference.dtype == torch.bool:
        return counted
    by = float(difference.distance.reshape(-1)[difference.largest])
    return f"{counted}, by {by:.3g} at most" if by and math.isfinite(by) else counted


def _strange(difference: _Difference) -> torch.Tensor | None:
    """Which elements are at fault by being, or by not being, NaN or infinite; None where there are none."""
    if difference.finite:
        return None
    mask = difference.apart & ~(difference.actual.isfinite() & difference.expected.isfinite())
    return mask if mask.any() else None


def _strange_clause(difference: _Difference, strange: torch.Tensor) -> str:
    nan = int((strange & difference.actual.isnan()).sum())
    infinite = int((strange & difference.actual.isinf()).sum())
    finite = int(strange.sum()) - nan - infinite
    named = ((nan, "NaN"), (infinite, "infinite"), (finite, "finite and should not be"))
    counted = [f"{count} {'is' if count == 1 else 'are'} {word}" for count, word in named if count]
    if strange.numel() == 1:
        return ""
    first = _index_text(int(strange.reshape(-1).byte().argmax()), strange.shape)
    return f"of {strange.numel()} elements {', '.join(counted)}, the first one{first}"


def _index_text(flat: int, shape: Sequence[int]) -> str:
    """ " at [2, 0]"; nothing for a single number."""
    index: list[int] = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.insert(0, position)
    return f" at {index}" if index else ""


def _distinct_numbers(expected: Any, actual: Any, dtype: torch.dtype) -> tuple[str, str]:
    """Both numbers with as few digits as show that they differ: at least 10 for float64, else 6."""
    import torch

    if not (dtype.is_floating_point or dtype.is_complex):
        return (str(bool(expected)), str(bool(actual))) if dtype == torch.bool else (str(expected), str(actual))
    if expected != actual:  # so that no zero is shown as -0 where its sign is not the point
        expected, actual = expected + 0.0, actual + 0.0
    for digits in range(10 if dtype in (torch.float64, torch.complex128) else 6, 18):
        texts = f"{expected:.{digits}g}", f"{actual:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# What the mistake looks like


def _diagnosis(question: _Question, path: Path, difference: _Difference) -> str:
    """The first guess that holds for the whole tensor, else which part of it is wrong, else nothing."""
    guesses: tuple[Callable[[], str | None], ...] = (
        lambda: _named_alternative(question, path, difference),
        lambda: _unchanged(question, path, difference),
        lambda: _factor(question, difference),
        lambda: _rearranged(difference),
        lambda: _part(question, path, difference),
        lambda: _nearly(difference),
    )
    return next((clause for guess in guesses if (clause := guess())), "")


def _named_alternative(question: _Question, path: Path, difference: _Difference) -> str | None:
    for label, values in question.alternatives.items():
        other = _counterpart(values, path, difference)
        if other is None or not _plausible(difference, other):
            continue
        if _agrees(difference.actual, _widened(other), difference.allowed):
            return label
    return None


def _unchanged(question: _Question, path: Path, difference: _Difference) -> str | None:
    start = _counterpart(question.stale, path, difference)
    if start is None or not _plausible(difference, start):
        return None
    return "unchanged since the start" if _widened(start).equal(difference.actual) else None


def _plausible(difference: _Difference, other: torch.Tensor) -> bool:
    """Whether a sample of `other` agrees with the actual values; spares most others from being widened and read."""
    seen, wanted = _sample(difference.actual.reshape(-1), other.reshape(-1))
    return not difference.allowed.exceeded(seen, _widened(wanted), 2 * magnitude(difference.actual)).any()


def _counterpart(values: Value, path: Path, difference: _Difference) -> torch.Tensor | None:
    """The entry of `values` at `path`; None where it has none of the same shape and dtype."""
    try:
        for step in path:
            values = values[step]
    except (KeyError, IndexError, TypeError):
        return None
    if not _is_numeric(values):
        return None
    tensor = _as_tensor(values)
    fits = tensor.shape == difference.expected.shape and tensor.dtype == difference.dtype
    return tensor if fits else None


def _agrees(actual: torch.Tensor, expected: torch.Tensor, allowed: Tolerance, times: int = 1, parts: int = 1) -> bool:
    """Whether parts · actual = times · expected. A sample rules out most wrong guesses before the whole is read."""
    scale = magnitude(expected) * abs(times)
    sample = _sample(actual.reshape(-1), expected.reshape(-1))
    for seen, wanted in (sample, *zip(blocks(actual), blocks(expected), strict=True)):
        left = seen if parts == 1 else seen * parts
        right = wanted if times == 1 else wanted * times
        if allowed.exceeded(left, right, scale).any():
            return False
    return True


def _sample(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    step = max(1, first.numel() // SAMPLE)
    return first[::step], second[::step]


def _factor(question: _Question, difference: _Difference) -> str | None:
    """A clause where actual = k · expected everywhere, for a telling k."""
    import torch

    actual, expected = difference.actual, difference.expected
    if difference.dtype == torch.bool or not expected.any():
        return None
    if not actual.any():
        return "all zeros" if actual.numel() > 1 else None
    times, parts = _telling(_ratio(actual, expected), fine=difference.allowed.bound < COARSE and actual.numel() > 1)
    if times == parts or not _agrees(actual, expected, difference.allowed, times, parts):
        return None
    return _factor_text(times, parts, question.world_size)


def _ratio(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The k that brings k · expected nearest to actual by least squares, over a sample: the caller verifies it."""
    flat = actual.reshape(-1), expected.reshape(-1)
    few = _sample(*flat)
    if not few[1].any():
        few = flat
    scale = magnitude(few[1])  # so that no square overflows
    base, other = few[1] / scale, few[0] / scale
    return float((base.conj() * other).sum().real / (base.conj() * base).sum().real)


def _telling(ratio: float, *, fine: bool) -> tuple[int, int]:
    """The k = times/parts that a ratio is taken for; (1, 1) where it tells nothing.

    First n and 1/n, then other fractions of small numbers where the data are `fine` enough to tell these apart.
    """
    if not math.isfinite(ratio) or abs(ratio) < 0.5 / LARGEST_FACTOR:
        return 1, 1
    larger = ratio if abs(ratio) >= 1 else 1 / ratio
    whole = round(larger)
    if abs(larger - whole) < 0.05 and abs(whole) <= LARGEST_FACTOR:
        return (whole, 1) if abs(ratio) >= 1 else (int(math.copysign(1, whole)), abs(whole))
    simple = Fraction(ratio).limit_denominator(LARGEST_PARTS)
    if not fine or abs(simple.numerator) > LARGEST_PARTS:
        return 1, 1
    return simple.numerator, simple.denominator


def _factor_text(times: int, parts: int, world_size: int | None) -> str:
    if (times, parts) == (world_size, 1):
        return f"exactly world_size ({times}) times what it should be: summed where a mean was asked"
    if (times, parts) == (1, world_size):
        return f"exactly 1/world_size (1/{parts}) of what it should be: divided once too often"
    if (times, parts) == (-1, 1):
        return "exactly -1 times what it should be: the sign is wrong"
    if parts == 1:
        return f"exactly {'twice' if times == 2 else f'{times} times'} what it should be"
    return f"exactly {'half' if (times, parts) == (1, 2) else f'{times}/{parts}'} of what it should be"


def _rearranged(difference: _Difference) -> str | None:
    """A clause where the expected values are all there, but elsewhere."""
    actual, expected = difference.actual, difference.expected
    if actual.dim() == 2 and actual.shape[0] == actual.shape[1] and _agrees(actual, expected.T, difference.allowed):
        return "the expected matrix, transposed"
    if actual.dim() == 0 or not 1 < actual.shape[0] <= MOST_ROWS or actual.is_complex():
        return None
    order, wanted = _row_order(actual), _row_order(expected)
    if not _agrees(actual[order], expected[wanted], difference.allowed):
        return None
    return f"the expected {'elements' if actual.dim() == 1 else 'rows'} in another order"


def _row_order(tensor: torch.Tensor) -> torch.Tensor:
    """The rows' indices, sorted by a weighted sum of each row, so that equal sets of rows come out alike."""
    import torch

    rows = tensor.double().reshape(tensor.shape[0], -1)
    weights = torch.linspace(1.0, 2.0, rows.shape[1], dtype=torch.float64).sqrt()
    return (rows @ weights).argsort()


def _part(question: _Question, path: Path, difference: _Difference) -> str | None:
    """A clause where only a run of neighbouring rows or columns is wrong, as when one chunk or shard was left out."""
    for dim in range(difference.apart.dim()):
        others = [other for other in range(difference.apart.dim()) if other != dim]
        lines = (difference.apart.any(dim=others) if others else difference.apart).byte()
        first, last = int(lines.argmax()), lines.numel() - 1 - int(lines.flip(0).argmax())
        # A few inside the run may be right by chance, zeros for instance.
        if last - first + 1 < lines.numel() and 2 * int(lines.sum()) >= last - first + 1:
            return _part_text(question, path, difference, dim, first, last + 1)
    return None


def _part_text(question: _Question, path: Path, difference: _Difference, dim: int, start: int, stop: int) -> str | None:
    nouns = ("elements",) if difference.apart.dim() == 1 else ("rows", "columns")
    noun = nouns[dim] if dim < len(nouns) else f"indices of dimension {dim}"
    pattern = _part_pattern(question, path, difference, dim, start, stop)
    if not pattern and int(difference.apart.sum()) == 1:
        return None  # the one index has been named already
    text = f"only {noun} [{start}:{stop}] of {difference.apart.shape[dim]} differ"
    return f"{text}: {pattern}" if pattern else text


def _part_pattern(
    question: _Question, path: Path, difference: _Difference, dim: int, start: int, stop: int
) -> str | None:
    part = _slice(difference, dim, start, stop)
    stale = _counterpart(question.stale, path, difference)
    if stale is not None and _widened(stale.narrow(dim, start, stop - start)).equal(part.actual):
        return "unchanged since the start"
    return _factor(question, part)


def _slice(difference: _Difference, dim: int, start: int, stop: int) -> _Difference:
    tensors = (difference.actual, difference.expected, difference.apart, difference.distance)
    actual, expected, apart, distance = (tensor.narrow(dim, start, stop - start) for tensor in tensors)
    return replace(difference, actual=actual, expected=expected, apart=apart, distance=distance)


def _nearly(difference: _Difference) -> str | None:
    """A clause where the difference is small, but more than rounding explains."""
    scale = magnitude(difference.expected)
    if difference.allowed.exact or not scale:
        return None
    relative = float(difference.distance.max()) / scale
    if relative > max(1e-3, min(0.05, 10 * difference.allowed.bound)):
        return None
    return f"off by {relative:.1e} of the largest value, where rounding explains {difference.allowed.bound:.1e}"


# The ranks among each other


def _disagreements(question: _Question, by_rank: Mapping[int, Value]) -> Iterator[_Outcome]:
    """One outcome for each entry, after the faults of structure against the rank that most others are built like."""
    leaves = {rank: {item.path: item.expected for item in _walk(value, value, ())} for rank, value in by_rank.items()}
    model = max(
        by_rank, key=lambda rank: sum(not _structure_faults(other, by_rank[rank]) for other in by_rank.values())
    )
    for rank, value in by_rank.items():
        for fault in _structure_faults(value, by_rank[model]):
            yield _structure_outcome(question, fault, rank, model)
    for path, leaf in leaves[model].items():
        partners = {rank: of[path] for rank, of in leaves.items() if path in of}
        alike = {rank: value for rank, value in partners.items() if not _leaf_fault(value, leaf, path)}
        yield _entry_outcome(question, path, alike)


def _structure_faults(value: Value, model: Value) -> list[_Fault]:
    return [item for item in _walk(value, model, ()) if isinstance(item, _Fault)]


def _structure_outcome(question: _Question, fault: _Fault, rank: int, model: int) -> _Outcome:
    expected = f"{fault.expected} (as on rank {model})"
    return lambda: question.finding(fault.path, expected, fault.actual, (rank,))


def _entry_outcome(question: _Question, path: Path, entries: Mapping[int, Value]) -> _Outcome:
    groups: list[list[int]] = []
    for rank, value in entries.items():
        home = next((group for group in groups if _same_bits(value, entries[group[0]])), None)
        if home is None:
            groups.append([rank])
        else:
            home.append(rank)
    return None if len(groups) < 2 else lambda: _entry_finding(question, path, entries, groups)


def _entry_finding(
    question: _Question, path: Path, entries: Mapping[int, Value], groups: Sequence[Sequence[int]]
) -> Finding:
    """Names the ranks outside the majority, or all of them where there is no majority."""
    majority, *others = sorted(groups, key=len, reverse=True)
    texts, where, clauses = _values_by_group(entries, [group[0] for group in (majority, *others)])
    if 2 * len(majority) > len(entries):
        ranks = tuple(sorted(rank for group in others for rank in group))
        expected = f"{texts[0]}{where} as on {_ranks_text(majority)}"
        seen = texts[1] if len(others) == 1 else _by_rank(texts[1:], others)
    else:
        ranks, expected = tuple(sorted(entries)), f"the same bits on every rank{where and ', also' + where}"
        seen = _by_rank(texts, [majority, *others])
    return question.finding(path, expected, "; ".join([seen, *clauses]), ranks)


def _values_by_group(entries: Mapping[int, Value], ranks: Sequence[int]) -> tuple[list[str], str, list[str]]:
    """What the groups hold where the first two differ most, that place, and how far those two are apart."""
    if not _is_numeric(entries[ranks[0]]):
        return [_short(entries[rank]) for rank in ranks], "", []
    tensors = [_as_tensor(entries[rank]) for rank in ranks]
    difference = _bit_difference(tensors[1], tensors[0])
    flat = difference.largest
    first, second, where = difference.at(flat)
    rest = [
        _distinct_numbers(tensors[0].reshape(-1)[flat].item(), t.reshape(-1)[flat].item(), t.dtype)[1] for t in tensors
    ]
    texts = [first, second, *rest[2:]]
    if first == second:
        texts = [f"{text} ({_hex(tensor, flat)})" for text, tensor in zip(texts, tensors, strict=True)]
    clauses = (_extent(difference), _rounding_clause(difference, len(entries)))
    return texts, where, [clause for clause in clauses if clause]


def _bit_difference(actual: torch.Tensor, expected: torch.Tensor) -> _Difference:
    apart = _bits(actual).ne(_bits(expected)).any(dim=1).reshape(expected.shape)
    exact = tolerance(expected.dtype, Reduction.EXACT)
    return _apart(expected.dtype, _widened(actual), _widened(expected), apart, exact)


def _rounding_clause(difference: _Difference, terms: int) -> str:
    if not difference.dtype.is_floating_point:
        return ""
    reordered = tolerance(difference.dtype, Reduction.REORDERED, terms)
    if not float(difference.distance.nansum()) or reordered.exceeded(difference.actual, difference.expected).any():
        return ""
    return "a difference of rounding only, as when ranks add up in different orders"


def _same_bits(first: Value, second: Value) -> bool:
    if not _is_numeric(first):
        return _plain_difference(first, second) is None
    return _bits(_as_tensor(first)).equal(_bits(_as_tensor(second)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bit patterns as integers, [elements, words of an element]."""
    import torch

    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(tensor.element_size(), torch.int64)
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(words).reshape(flat.numel(), -1) if flat.numel() else flat.new_empty((0, 1), dtype=words)


def _hex(tensor: torch.Tensor, flat: int) -> str:
    import torch

    return "0x" + bytes(_bits(tensor)[flat].contiguous().view(torch.uint8).tolist())[::-1].hex()


def _by_rank(texts: Sequence[str], groups: Sequence[Sequence[int]]) -> str:
    shown = [f"{text} on {_ranks_text(group)}" for text, group in zip(texts[:4], groups[:4], strict=True)]
    return ", ".join(shown) + (", …" if len(groups) > 4 else "")


def _ranks_text(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


# Plain values


def _plain_difference(actual: Value, expected: Value) -> tuple[str, str] | None:
    """What was expected and seen, where two values of the same kind differ."""
    if _is_list(expected):
        return _sequence_difference(actual, expected)
    if _same(actual, expected):
        return None
    if isinstance(expected, str | bytes):
        return _text_difference(actual, expected)
    return _short(expected), _short(actual)


def _same(actual: Value, expected: Value) -> bool:
    """Equal and of one type; NaN is the same as NaN."""
    if type(actual) is not type(expected):
        return False
    return bool(actual == expected) or (actual != actual and expected != expected)


def _sequence_difference(actual: Sequence[Value], expected: Sequence[Value]) -> tuple[str, str] | None:
    """The same for two flat lists: in full where they are short, else the first difference."""
    pairs = enumerate(zip(actual, expected, strict=False))
    first = next((index for index, pair in pairs if not _same(*pair)), min(len(actual), len(expected)))
    if first == len(actual) == len(expected):
        return None
    clause = _sequence_clause(actual, expected)
    whole = _whole(list(expected)), _whole(list(actual))
    if whole[0] and whole[1]:
        return whole[0], f"{whole[1]}: {clause + ', ' if clause else ''}first difference at index {first}"
    rest = f"; {clause}" if clause else ""
    if first == min(len(actual), len(expected)):
        return _items(len(expected)), f"{len(actual)}{f', the first {first} right' if first else ''}{rest}"
    return f"{_short(expected[first])} at index {first} of {len(expected)}", f"{_short(actual[first])}{rest}"


def _sequence_clause(actual: Sequence[Value], expected: Sequence[Value]) -> str:
    """What two flat lists have and lack as multisets; nothing where that tells little (floats, one item each)."""
    clauses: list[str] = []
    if {type(item) for item in (*actual, *expected)} <= {int, str, type(None)}:
        seen, wanted = Counter(actual), Counter(expected)
        if seen == wanted:
            return "the same items in another order"
        if len(expected) > 1:
            lacks, extra = list((wanted - seen).elements()), list((seen - wanted).elements())
            clauses += [
                f"{word} {_some(items)}" for word, items in (("lacks", lacks), ("should not have", extra)) if items
            ]
    return ", ".join(clauses)


def _some(items: Sequence[Value]) -> str:
    return ", ".join(_short(item) for item in items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")


def _text_difference(actual: Any, expected: Any) -> tuple[str, str]:
    """Two strings (or bytes): in full where they are short, else a window that begins shortly before they part."""
    if max(len(actual), len(expected)) <= LONGEST:
        return repr(expected), repr(actual)
    pairs = enumerate(zip(actual, expected, strict=False))
    first = next((index for index, pair in pairs if pair[0] != pair[1]), min(len(actual), len(expected)))
    window = slice(max(0, first - LONGEST // 4), max(0, first - LONGEST // 4) + LONGEST)
    return f"{expected[window]!r} around index {first}", f"{actual[window]!r}"


_REPR = Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = LONGEST


def _short(value: Value) -> str:
    """A repr of at most about LONGEST characters, whatever the value."""
    if type(value) is int and value.bit_length() > 4 * LONGEST:
        return f"an integer of {value.bit_length()} bits"
    if _is_tensor(value):
        return _kind_text(value)
    text = _REPR.repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _whole(items: Sequence[Value]) -> str:
    """The full repr of a flat list where it is short, else nothing."""
    if len(items) > LONGEST // 3 or any(type(item) not in (bool, int, float, str, type(None)) for item in items):
        return ""
    texts = [_short(item) for item in items]
    return f"[{', '.join(texts)}]" if sum(map(len, texts)) + 2 * len(texts) <= LONGEST else ""
