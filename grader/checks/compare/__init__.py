"""Comparers: pure generators of findings, with a budget of lines.

    close(actual, expected, …)      tensors within the tolerance of their dtype
    identical({rank: value}, …)     bit-identical across ranks
    equal(actual, expected, …)      plain values, exactly

A finding says what was expected, what was seen, and one clause on what the mistake looks like. Nothing here
loops over the elements of a tensor in Python. Devices, strides and requires_grad never matter.
"""

from grader.checks.compare.comparers import close, equal, identical

__all__ = ["close", "equal", "identical"]
