"""The quiz's calculations with the formulas that exercise 19 asks for, of which the lint knows the solution.

evaluate("all_reduce_seconds(2 * GB, 8, 50 * GB / s)")     # 0.07, in seconds
"""

from __future__ import annotations

import functools

from grader.authoring.quiz_formulas import solved
from grader.quiz import calculation
from grader.quiz.calculation import Quantity
from grader.quiz.units import BYTES, ONE, RATE, SECONDS, Dimension

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


def evaluate(text: str) -> Quantity:
    """The value of a calculation. Raises ValueError, whose text says what is wrong with it."""
    return calculation.evaluate(text, {name: functools.partial(_formula, name) for name in _KINDS})


def _formula(name: str, positional: list[Quantity], named: dict[str, Quantity]) -> Quantity:
    parameters, result = _KINDS[name]
    if len(positional) > len(parameters):
        raise ValueError(f"'{name}' takes at most {len(parameters)} values")
    given = dict(zip(parameters, positional, strict=False)) | named
    for word, quantity in given.items():
        if quantity.dimension != parameters.get(word, quantity.dimension):
            raise ValueError(f"'{word}' of '{name}' is of the wrong kind: units are missing or do not fit")
    return Quantity(_formulas()[name](**{word: quantity.value for word, quantity in given.items()}), result)
