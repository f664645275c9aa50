"""The calculations of the quiz: arithmetic over formulas and units, evaluated without ever running text.

evaluate("all_reduce_seconds(2 * GB, 8, 50 * GB / s)")     # 0.07, in seconds
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.authoring.quiz_formulas import solved
from grader.quiz.units import BYTES, EXACT, ONE, RATE, SECONDS, Dimension

MAX_LENGTH, MAX_EXPONENT = 300, 64
_UNITS = ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "bit", "Gbit", "ns", "us", "ms", "s", "min", "h", "day",
          "FLOP", "TFLOP")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in bytes, seconds and FLOP, to the powers of `dimension`."""

    value: float
    dimension: Dimension = ONE


_KINDS: dict[str, tuple[dict[str, Dimension], Dimension]] = {
    "all_reduce_bytes": ({"model_bytes": BYTES, "n": ONE}, BYTES),
    "all_reduce_seconds": ({"model_bytes": BYTES, "n": ONE, "bandwidth": RATE, "latency": SECONDS}, SECONDS),
    "amdahl_speedup": ({"p": ONE, "n": ONE}, ONE),
    "communication_efficiency": ({"compute_seconds": SECONDS, "communication_seconds": SECONDS}, ONE),
    "model_state_bytes": ({"parameters": ONE, "n": ONE, "stage": ONE}, BYTES),
    "pipeline_utilization": ({"stages": ONE, "micro_batches": ONE}, ONE),
    "tensor_parallel_bytes": (
        dict.fromkeys(("layers", "batch", "seq_len", "d_model", "bytes_per_element"), ONE),
        BYTES,
    ),
}
"""What each formula takes, and what it gives."""
_formulas = functools.cache(solved)
_WHOLE: dict[str, Callable[[float], float]] = {"ceil": math.ceil, "floor": math.floor}
_EXTREMES: dict[str, Callable[..., float]] = {"max": max, "min": min}
_SUMS: dict[type, Callable[[float, float], float]] = {ast.Add: operator.add, ast.Sub: operator.sub}


def evaluate(text: str) -> Quantity:
    """The value of a calculation. Raises ValueError, whose text says what is wrong with it."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it is longer than {MAX_LENGTH} characters")
    try:
        found = _value(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"it is no expression ({error.msg})") from None
    except (ArithmeticError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(f"it cannot be calculated ({error})") from None
    if not math.isfinite(found.value):
        raise ValueError("it has no finite value")
    return found


def _value(node: ast.expr) -> Quantity:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Quantity(float(number))
        case ast.Name(id=name) if name in _UNITS:
            return Quantity(EXACT[name].scale, EXACT[name].dimension)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _value(operand)
            return Quantity(-inner.value, inner.dimension)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return _call(name, args, keywords)
    raise ValueError(f"'{ast.unparse(node)}' is not allowed: numbers, units, + - * / ** and the formulas are")


def _binary(op: ast.operator, left: Quantity, right: Quantity) -> Quantity:
    if isinstance(op, ast.Mult | ast.Div):
        sign = 1 if isinstance(op, ast.Mult) else -1
        value = left.value * right.value if sign == 1 else left.value / right.value
        return Quantity(value, _combined(left.dimension, right.dimension, sign))
    if isinstance(op, ast.Pow):
        return _power(left, right)
    if type(op) not in _SUMS:
        raise ValueError("only + - * / ** are allowed")
    if left.dimension != right.dimension:
        raise ValueError("it adds or subtracts what is of different kinds")
    return Quantity(_SUMS[type(op)](left.value, right.value), left.dimension)


def _combined(left: Dimension, right: Dimension, sign: float) -> Dimension:
    first, second, third = (a + sign * b for a, b in zip(left, right, strict=True))
    return first, second, third


def _power(base: Quantity, exponent: Quantity) -> Quantity:
    if exponent.dimension != ONE or abs(exponent.value) > MAX_EXPONENT or base.value < 0:
        raise ValueError("an exponent must be a plain number of at most 64, over a base that is not negative")
    return Quantity(base.value**exponent.value, _combined(ONE, base.dimension, exponent.value))


def _call(name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> Quantity:
    positional = [_value(arg) for arg in args]
    if name in _KINDS:
        return _formula(name, positional, {str(word.arg): _value(word.value) for word in keywords})
    if keywords or not positional or name not in (*_WHOLE, *_EXTREMES):
        raise ValueError(f"there is no formula '{name}'")
    dimensions = {arg.dimension for arg in positional}
    if name in _WHOLE and (len(positional) != 1 or dimensions != {ONE}):
        raise ValueError(f"'{name}' takes one plain number")
    if len(dimensions) != 1:
        raise ValueError(f"'{name}' compares what is of different kinds")
    function: Callable[..., Any] = _WHOLE.get(name) or _EXTREMES[name]
    return Quantity(float(function(*(arg.value for arg in positional))), positional[0].dimension)


def _formula(name: str, positional: list[Quantity], named: dict[str, Quantity]) -> Quantity:
    parameters, result = _KINDS[name]
    if len(positional) > len(parameters):
        raise ValueError(f"'{name}' takes at most {len(parameters)} values")
    given = dict(zip(parameters, positional, strict=False)) | named
    for word, quantity in given.items():
        if quantity.dimension != parameters.get(word, quantity.dimension):
            raise ValueError(f"'{word}' of '{name}' is of the wrong kind: units are missing or do not fit")
    return Quantity(_formulas()[name](**{word: quantity.value for word, quantity in given.items()}), result)
