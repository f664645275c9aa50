"""Whether a student has begun an exercise: the file is no longer the stub."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from grader.model import Exercise
from grader.model.errors import UsageError
from grader.submission.compiles import problem
from grader.submission.found import own_file, read

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Place = ast.Module | _Definition | None


def begun(exercise: Exercise, root: Path) -> bool:
    """Whether the student has changed the stub: one required function at least no longer raises NotImplementedError.
    A file that does not compile is begun, a missing one is not."""
    try:
        source = read(own_file(exercise, root))
    except UsageError:
        return False
    if problem(source):
        return bool(source.strip())
    module = _parsed(source)
    required: list[_Place] = [_definition(module, entry.name) for entry in exercise.requires]
    return not all(map(_untouched, required or [module]))


def _parsed(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _definition(module: ast.Module, name: str) -> _Definition | None:
    """The function, class or method of that dotted name; None where the student has removed it."""
    place: _Place = module
    for part in name.split("."):
        place = next((node for node in _definitions(place) if node.name == part), None)
    return place if not isinstance(place, ast.Module) else None


def _definitions(place: _Place) -> Iterator[_Definition]:
    for node in place.body if place else []:
        if isinstance(node, _Definition):
            yield node


def _untouched(place: _Place) -> bool:
    """Whether the body still raises NotImplementedError, come what may: a class by its constructor where it has one or
    else by all that it holds, a script by anything in it."""
    if isinstance(place, ast.ClassDef):
        methods = list(_definitions(place))
        constructors = [method for method in methods if method.name == "__init__"]
        return all(map(_untouched, constructors or methods))
    if isinstance(place, ast.Module):
        return any(map(_raises_not_implemented, ast.walk(place)))
    return place is not None and any(map(_raises_not_implemented, place.body))


def _raises_not_implemented(node: ast.AST) -> bool:
    if not isinstance(node, ast.Raise):
        return False
    error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(error, ast.Name) and error.id == "NotImplementedError"
