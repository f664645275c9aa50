"""What a rank recorded, held to the type that a check expects of it.

A rank may have sent any value that the wire allows. `typed(value, kind)` gives the value back where it is of that kind
through and through, so that a check that reads by kind raises nothing but failed expectations. The kinds are Python's
own type expressions, nested as you like: `int`, `float | None`, `list[str]`, `Tensors`, `dict[str, list[int]]`, or a
TypedDict that names the keys. Types are exact: True is no int; an int may stand for a float.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any

import torch
from pydantic import InstanceOf, TypeAdapter, ValidationError
from typing_extensions import TypedDict

Tensor = Annotated[torch.Tensor, InstanceOf()]
Tensors = dict[str, Tensor]
"""Tensors by name."""


class Attempt(TypedDict):
    """What came of a call, as `rank.attempt(...).described()` records it: the class names of what it raised, its own
    first ([] if nothing), its message, the student's line, and all that the error, its notes and its causes say."""

    raised: list[str]
    message: str
    line: int | None
    said: str


class WrongKind(Exception):
    """A value is not of the kind that was asked for: where in it, what was expected, and what is there."""

    def __init__(self, place: str, expected: str, actual: str) -> None:
        self.place, self.expected, self.actual = place, expected, actual
        super().__init__(f"{place}: expected {expected}, got {actual}")

    @property
    def hint(self) -> str | None:
        """None where a key is missing, which is no matter of types."""
        wanted = PYDANTIC_NAMES.get(self.expected)
        return type_hint(wanted, self.actual.removeprefix("a ")) if wanted else None


PYDANTIC_NAMES = {
    "a valid boolean": "bool",
    "a valid dictionary": "dict",
    "a valid integer": "int",
    "a valid list": "list",
    "a valid number": "float",
    "a valid string": "str",
    "a valid tuple": "tuple",
    "an instance of Tensor": "Tensor",
}
"""What an expected type is called in pydantic's sentences, and in Python."""
CONVERSIONS = {
    ("int", "float"): "`/` gives a float, also where nothing is left over; `//` of two ints gives an int.",
    ("float", "int"): "`//` of two ints gives an int; `/` gives a float.",
    ("list", "tuple"): "`list(...)` makes a list of a tuple.",
    ("tuple", "list"): "`tuple(...)` makes a tuple of a list.",
}
"""By the types that were asked for and seen."""


def type_hint(wanted: str, seen: str) -> str:
    """The hint where a value has another type than it should: by the names of both."""
    told = f"The contract says {wanted}, not {'None' if seen == 'NoneType' else seen}."
    return " ".join(filter(None, [told, CONVERSIONS.get((wanted, seen))]))


def typed(value: Any, kind: Any) -> Any:
    """`value`, if it is of this kind. Raises WrongKind."""
    try:
        return _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{step!r}]" for step in first["loc"] if isinstance(step, int | str))
        expected, actual = first["msg"].removeprefix("Input should be "), f"a {type(first['input']).__name__}"
        raise WrongKind(place, expected, actual) from None


@functools.lru_cache(maxsize=512)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
