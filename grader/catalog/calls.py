"""What a probe asks of the student's file, held against `requires` of the manifest. Read, and never executed."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from grader.catalog.functions import tree
from grader.catalog.names import MANIFEST
from grader.catalog.nearest import offer
from grader.model import PROBE, Exercise
from grader.model.errors import AuthorError

STUDENT, ATTEMPT = "student", "attempt"
"""How a probe reaches the student's module, and how it calls what may raise."""
_Parameter = inspect.Parameter


def check_calls(exercise: Exercise) -> None:
    """The probe asks for nothing that `requires` does not promise, calls it as it stands there, and leaves nothing out.
    Raises AuthorError with the line. What is called through other names or with `*` is left to the solution's run."""
    signatures = {required.name: required.signature for required in exercise.requires}
    module = tree(exercise.probe)
    known = {name.partition(".")[0] for name in signatures}
    for use in _uses(module):
        if use.attr not in known and not use.attr.startswith("__"):
            fault = f"the probe asks for {use.attr}, which `requires` does not name"
            raise AuthorError(exercise.probe, fault, offer(use.attr, sorted(known)), use.lineno)
    for name, call, arguments in _calls(module):
        signature = signatures.get(name)
        if signature is not None and (problem := _misfit(signature, call, arguments)):
            fault = f"{name} is called otherwise than `requires` has it, {name}{signature}: {problem}"
            raise AuthorError(exercise.probe, fault, "Change the call or the signature.", call.lineno)
    _check_all_used(exercise, exercise.probe)


def _check_all_used(exercise: Exercise, probe: Path) -> None:
    text = probe.read_text(encoding="utf-8")
    for required in exercise.requires:
        last = required.name.rpartition(".")[2]
        if not last.startswith("__") and not re.search(rf"\b{re.escape(last)}\b", text):
            fault = f"`requires` names {required.name}, and {PROBE} never asks for it"
            raise AuthorError(exercise.folder / MANIFEST, fault, "Call it in a case, or take it away.")


def _uses(module: ast.Module) -> Iterator[ast.Attribute]:
    """`rank.student.x`, and `student.x` where the name stands for that module or is a parameter."""
    names = {STUDENT, *_other_names(module)}
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and _is_student(node.value, names):
            yield node


def _is_student(node: ast.expr, names: set[str]) -> bool:
    of_rank = isinstance(node, ast.Attribute) and node.attr == STUDENT and "rank" in ast.unparse(node.value)
    return of_rank or (isinstance(node, ast.Name) and node.id in names)


def _other_names(module: ast.Module) -> Iterator[str]:
    """The names that stand for the student's module after `name = rank.student`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, value in _pairs(node.targets[0], node.value):
                if isinstance(target, ast.Name) and _is_student(value, set()):
                    yield target.id


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _calls(module: ast.Module) -> Iterator[tuple[str, ast.Call, list[ast.expr]]]:
    """What is called of the student's file, directly or by `rank.attempt`, with the positional arguments."""
    uses = {id(use): use.attr for use in _uses(module)}
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        if id(node.func) in uses:
            yield uses[id(node.func)], node, node.args
        elif _is_attempt(node) and id(node.args[0]) in uses:
            yield uses[id(node.args[0])], node, node.args[1:]


def _is_attempt(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == ATTEMPT and bool(node.args)


def _misfit(signature: str, call: ast.Call, arguments: list[ast.expr]) -> str:
    """Why a call does not fit; empty where it does, or where only a run can tell."""
    keywords = [keyword.arg for keyword in call.keywords]
    if None in keywords or any(isinstance(argument, ast.Starred) for argument in arguments):
        return ""
    try:
        _parsed(signature).bind(*arguments, **{name: None for name in keywords if name})
    except TypeError as error:
        return str(error)
    return ""


def _parsed(signature: str) -> inspect.Signature:
    """The parameters of `(rank, world_size, *, lr=0.1)`."""
    function = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    bare = len(plain) - len(given.defaults)
    found = [
        _Parameter(one.arg, _Parameter.POSITIONAL_OR_KEYWORD, default=_Parameter.empty if number < bare else None)
        for number, one in enumerate(plain)
    ]
    if given.vararg:
        found.append(_Parameter(given.vararg.arg, _Parameter.VAR_POSITIONAL))
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found.append(_Parameter(one.arg, _Parameter.KEYWORD_ONLY, default=None if default else _Parameter.empty))
    if given.kwarg:
        found.append(_Parameter(given.kwarg.arg, _Parameter.VAR_KEYWORD))
    return inspect.Signature(found)
