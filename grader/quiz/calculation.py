"""Calculations of the quiz: arithmetic over numbers and units, evaluated without ever running text.

evaluate("16 * 7e9 * B")     # 1.12e11, in bytes
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grader.quiz.units import EXACT, ONE, Dimension

MAX_LENGTH, MAX_EXPONENT = 300, 64
_UNITS = ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "bit", "Gbit", "ns", "us", "ms", "s", "min", "h", "day",
          "FLOP", "TFLOP")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in bytes, seconds and FLOP, to the powers of `dimension`."""

    value: float
    dimension: Dimension = ONE


Formula = Callable[[list[Quantity], dict[str, Quantity]], Quantity]
"""Of what is given by place and by name. Raises ValueError where that does not fit."""
_WHOLE: dict[str, Callable[[float], float]] = {"ceil": math.ceil, "floor": math.floor}
_EXTREMES: dict[str, Callable[..., float]] = {"max": max, "min": min}
ROUNDING = (*_WHOLE, *_EXTREMES)
"""What a calculation may call beside formulas."""
_SUMS: dict[type, Callable[[float, float], float]] = {ast.Add: operator.add, ast.Sub: operator.sub}


def as_written(calculation: str) -> str:
    """A calculation as one writes it: 2 GB where it says 2 * GB, and a × for every other product."""
    named = re.sub(r" \* (?=[A-Za-z]+\b(?!\())", " ", calculation)
    return re.sub(r" / (?=[A-Za-z]+\b(?!\())", "/", named).replace(" * ", " × ")


def evaluate(text: str, formulas: Mapping[str, Formula] | None = None) -> Quantity:
    """The value of a calculation. Raises ValueError, whose text says what is wrong with it."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it is longer than {MAX_LENGTH} characters")
    try:
        found = _value(ast.parse(text, mode="eval").body, formulas or {})
    except SyntaxError as error:
        raise ValueError(f"it is no expression ({error.msg})") from None
    except (ArithmeticError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError(f"it cannot be calculated ({error})") from None
    if not math.isfinite(found.value):
        raise ValueError("it has no finite value")
    return found


def _value(node: ast.expr, formulas: Mapping[str, Formula]) -> Quantity:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Quantity(float(number))
        case ast.Name(id=name) if name in _UNITS:
            return Quantity(EXACT[name].scale, EXACT[name].dimension)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _value(operand, formulas)
            return Quantity(-inner.value, inner.dimension)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, formulas), _value(right, formulas))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return _call(name, args, keywords, formulas)
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


def _call(name: str, args: list[ast.expr], keywords: list[ast.keyword], formulas: Mapping[str, Formula]) -> Quantity:
    positional = [_value(arg, formulas) for arg in args]
    if name in formulas:
        return formulas[name](positional, {str(word.arg): _value(word.value, formulas) for word in keywords})
    if keywords or not positional or name not in ROUNDING:
        raise ValueError(f"there is no formula '{name}'")
    dimensions = {arg.dimension for arg in positional}
    if name in _WHOLE and (len(positional) != 1 or dimensions != {ONE}):
        raise ValueError(f"'{name}' takes one plain number")
    if len(dimensions) != 1:
        raise ValueError(f"'{name}' compares what is of different kinds")
    function: Callable[..., Any] = _WHOLE.get(name) or _EXTREMES[name]
    return Quantity(float(function(*(arg.value for arg in positional))), positional[0].dimension)
