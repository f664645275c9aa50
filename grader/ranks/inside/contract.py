"""Whether a student's module has what the contract names, callable as the contract calls it. Runs in a rank."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable
from typing import Any


class ContractError(Exception):
    """The student's module lacks a name, or a function cannot be called as the contract calls it."""


def check_contract(module: types.ModuleType, requires: Iterable[tuple[str, str | None]], file: str) -> None:
    for name, signature in requires:
        target: Any = module
        for part in name.split("."):
            if not hasattr(target, part):
                raise ContractError(f"{file} does not define {name}")
            target = getattr(target, part)
        if signature is not None:
            _check_signature(target, name, signature)


def _check_signature(target: Any, name: str, signature: str) -> None:
    if not callable(target):
        raise ContractError(f"{name} must be callable as {name}{signature}; it is a {type(target).__name__}")
    namespace: dict[str, Any] = {}
    exec(f"def contract{signature}: ...", namespace)  # the text is the manifest's, not the student's
    wanted = inspect.signature(namespace["contract"]).parameters.values()
    positional = [p for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p for p in wanted if p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    try:
        actual = inspect.signature(target, follow_wrapped=False)  # what is called: a decorator may hand on more or less
    except (TypeError, ValueError):
        return  # a callable without a signature is tried out by the cases
    required = [p for p in positional if p.default is p.empty]
    extra = [1, 2] if any(p.kind is p.VAR_POSITIONAL for p in wanted) else []
    try:
        actual.bind(*([0] * len(required)), *extra, **({} if extra else {p.name: p.default for p in keywords}))
        actual.bind(*([0] * len(required)), *extra)
    except TypeError as error:
        raise ContractError(
            f"{name} must be callable as {name}{signature}, but {error}: it is {name}{actual}"
        ) from None
