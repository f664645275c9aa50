"""The quiz's calculations with the formulas that exercises 19 and 20 ask for, of which the lint knows the solutions.

evaluate("all_reduce_seconds(2 * GB, 8, 50 * GB / s)")     # 0.07, in seconds
"""

from __future__ import annotations

import functools

from grader.authoring.quiz_formulas import CLUSTER, MODEL, PLAN, solved
from grader.quiz import calculation
from grader.quiz.calculation import Quantity
from grader.quiz.units import BYTES, ONE, RATE, SECONDS, Dimension

_CLUSTER = dict(zip(CLUSTER, (ONE, ONE, BYTES, (0.0, -1.0, 1.0), RATE, RATE), strict=True))
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
    "planned_bytes": (dict.fromkeys((*MODEL, *PLAN), ONE), BYTES),
    "best_step_seconds": ({**dict.fromkeys(MODEL, ONE), **_CLUSTER}, SECONDS),
}
"""What each formula takes, in the order of its parameters, and what it gives."""
_WHOLE = ("planned_bytes", "best_step_seconds")
"""Formulas without defaults."""
_formulas = functools.cache(solved)


def evaluate(text: str) -> Quantity:
    """The value of a calculation. Raises ValueError, whose text says what is wrong with it."""
    return calculation.evaluate(text, {name: functools.partial(_formula, name) for name in _KINDS})


def _formula(name: str, positional: list[Quantity], named: dict[str, Quantity]) -> Quantity:
    parameters, result = _KINDS[name]
    if len(positional) > len(parameters):
        raise ValueError(f"'{name}' takes at most {len(parameters)} values")
    given = dict(zip(parameters, positional, strict=False)) | named
    if name in _WHOLE and (missing := parameters.keys() - given.keys()):
        raise ValueError(f"'{name}' is not told {', '.join(sorted(missing))}")
    for word, quantity in given.items():
        if quantity.dimension != parameters.get(word, quantity.dimension):
            raise ValueError(f"'{word}' of '{name}' is of the wrong kind: units are missing or do not fit")
    return Quantity(_formulas()[name](**{word: quantity.value for word, quantity in given.items()}), result)
