"""The mutation operators that know distributed code: what people get wrong when several ranks run one program.

Each takes a node and its scope and gives what could stand in the node's place, with a label that says what it does. As
in `operators`, what does not compile or changes nothing is sorted out by whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

from grader.authoring.mutation.options import ignored_option, option_not_handed_on, other_default, plus_for_times
from grader.authoring.mutation.scope import Change, Scope

ScopedOperator = Callable[[Any, Scope], Iterator[Change]]

COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "scatter",
)  # fmt: skip
REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
OBJECTS = ("all_gather_object", "broadcast_object_list")
"""Those that can only be waited for."""
WORLD_SIZES = ("world_size", "num_replicas", "replicas")
RANKS = ("rank", "group_rank", "local_rank")
GROUPS = ("group", "process_group")
OPERATIONS = {"SUM": "MAX", "MAX": "SUM", "MIN": "MAX", "AVG": "SUM", "PRODUCT": "SUM"}
GLOBAL_FOR_GROUP = {"get_group_rank": 1, "get_global_rank": 1}
"""Which argument is the rank that they translate."""
RENAMED = {"group_src": "src", "group_dst": "dst", "src": "group_src", "dst": "group_dst"}
FIRST = 'next(globals().setdefault("_calls", __import__("itertools").count()))'
"""How often this was asked before."""
STALE = '(lambda now: (globals().get("_before", now), globals().update(_before=now))[0])'
SINGLE = (
    '(lambda x: __import__("ctypes").c_float(x).value if type(x) is float else '
    'x.float().to(x.dtype) if hasattr(x, "is_floating_point") else x)'
)
NUMBERS = ("tensor", "clone", "detach", "sum", "mean", "item", "stack", "cat", "zeros", "empty_like", "zeros_like")
"""Calls that give numbers, whatever else they are about."""


# --- who does it, and how often --------------------------------------------------------------------------------------


def one_rank(line: cst.SimpleStatementLine, scope: Scope) -> Iterator[Change]:
    """Only rank 0 does it, or all but rank 1."""
    if scope.rank and _is_deed(line, scope):
        yield Change(_under(line, scope.rank.format("==", 0)), "only rank 0")
        yield Change(_under(line, scope.rank.format("!=", 1)), "all but rank 1")


def one_call(line: cst.SimpleStatementLine, scope: Scope) -> Iterator[Change]:
    """It is done the first time only, or every time but the first."""
    if _is_deed(line, scope):
        yield Change(_under(line, f"{FIRST} == 0"), "first call only")
        yield Change(_under(line, f"{FIRST} > 0"), "all but the first call")


def _is_deed(line: cst.SimpleStatementLine, scope: Scope) -> bool:
    """Whether the line does something that others see. A plain name that was never assigned would be no riddle."""
    if not scope.in_function or len(line.body) != 1:
        return False
    small = line.body[0]
    if isinstance(small, cst.Assign):
        return not any(isinstance(target.target, cst.Name | cst.Tuple) for target in small.targets)
    is_call = isinstance(small, cst.Expr) and isinstance(small.value, cst.Call | cst.Await)
    return is_call or isinstance(small, cst.AugAssign | cst.Raise | cst.Del)


def _under(line: cst.SimpleStatementLine, condition: str) -> cst.If:
    body = cst.IndentedBlock([line.with_changes(leading_lines=[])])
    return cst.If(test=cst.parse_expression(condition), body=body, leading_lines=line.leading_lines)


def stale(node: cst.Assign, scope: Scope) -> Iterator[Change]:
    """The value of the step before is used; the first step has its own."""
    constant = isinstance(node.value, cst.BaseNumber | cst.BaseString | cst.Name | cst.List | cst.Dict)
    if scope.in_function and not constant and [type(target.target) for target in node.targets] == [cst.Name]:
        yield Change(node.with_changes(value=_through(STALE, node.value)), "the value of the step before")


def single(node: cst.Assign | cst.AugAssign | cst.Return, scope: Scope) -> Iterator[Change]:
    """A number goes through float32."""
    if scope.in_function and node.value is not None and _is_number(node.value):
        yield Change(node.with_changes(value=_through(SINGLE, node.value), **_space(node)), "through float32")


def _is_number(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        return value.func.attr.value in NUMBERS
    whole = cst.FloorDivide | cst.Modulo  # which integers stay, as they are
    return isinstance(value, cst.BinaryOperation) and not isinstance(value.operator, whole)


def _through(function: str, value: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.parse_expression(function), [cst.Arg(value)])


def _space(node: cst.CSTNode) -> dict[str, Any]:
    return {"whitespace_after_return": cst.SimpleWhitespace(" ")} if isinstance(node, cst.Return) else {}


def swap_statements(node: cst.IndentedBlock, scope: Scope) -> Iterator[Change]:
    """Two neighbouring statements are exchanged, unless neither calls anything, one of them leaves the block, or the
    second needs a name that the first makes."""
    body = list(node.body)
    for index in range(len(body) - 1 if scope.in_function else 0):
        first, second = body[index : index + 2]
        if all(map(_movable, (first, second))) and any(map(_calls, (first, second))) and not _feeds(first, second):
            swapped = [*body[:index], second, first, *body[index + 2 :]]
            yield Change(node.with_changes(body=swapped), f"after {_head(second)}", first)


def _movable(statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.FunctionDef | cst.ClassDef):
        return False
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    docstring = isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)
    return not docstring and not isinstance(small, cst.Return | cst.Raise | cst.Break | cst.Continue | cst.Pass)


def _calls(statement: cst.CSTNode) -> bool:
    return any(isinstance(node, cst.Call) for node in _all_of(statement))


def _feeds(first: cst.CSTNode, second: cst.CSTNode) -> bool:
    small = first.body[0] if isinstance(first, cst.SimpleStatementLine) else None
    targets = [target.target for target in small.targets] if isinstance(small, cst.Assign) else []
    made = {node.value for target in targets for node in _all_of(target) if isinstance(node, cst.Name)} - {"self"}
    return any(isinstance(node, cst.Name) and node.value in made for node in _all_of(second))


def _all_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _all_of(child)


def _head(statement: Any) -> str:
    """Its first line, without comments."""
    return cst.Module([statement.with_changes(leading_lines=[])]).code.splitlines()[0].partition("  #")[0].strip()


# --- collectives -----------------------------------------------------------------------------------------------------


def extra_collective(node: Any, scope: Scope) -> Iterator[Change]:
    """A barrier, or an all-reduce, that only some paths come to: at the end, in `finally`, in a branch."""
    if not scope.dist or not isinstance(node.body, cst.IndentedBlock):
        return
    if isinstance(node, cst.FunctionDef):
        for what in (f"{scope.dist}.barrier()", f'{scope.dist}.all_reduce(__import__("torch").zeros(1))'):
            yield Change(_with(node, what, scope, at_end=True), f"{what.partition('(')[0]} at the end")
    elif scope.in_function:
        yield Change(
            _with(node, f"{scope.dist}.barrier()", scope, at_end=False), f"{scope.dist}.barrier {_where(node)}"
        )


def _where(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Finally):
        return "in finally"
    return "in except" if isinstance(node, cst.ExceptHandler) else "in a branch"


def _with(node: Any, call: str, scope: Scope, *, at_end: bool) -> cst.CSTNode:
    """The block with the call where there is a group: before its last `return`, or as its first statement."""
    more, body = cst.parse_statement(f"{scope.dist}.is_initialized() and {call}"), list(node.body.body)
    place = len(body) if at_end else 0
    if at_end and isinstance(body[-1], cst.SimpleStatementLine) and isinstance(body[-1].body[0], cst.Return):
        place -= 1
    body.insert(place, more)
    changed: cst.CSTNode = node.with_changes(body=node.body.with_changes(body=body))
    return changed


def other_reduction(node: cst.Call | cst.Attribute, scope: Scope) -> Iterator[Change]:
    """Another reduce operation."""
    if isinstance(node, cst.Attribute):
        other = OPERATIONS.get(node.attr.value)
        if other and _last(node.value) == "ReduceOp":
            yield Change(node.with_changes(attr=cst.Name(other)), other)
    elif scope.dist and _is_collective(node, scope, REDUCTIONS) and not _mentions(node, "ReduceOp"):
        yield Change(_and_argument(node, "op", f"{scope.dist}.ReduceOp.MAX"), "MAX")


def not_awaited(node: cst.Call, scope: Scope) -> Iterator[Change]:
    """A collective is begun and not waited for; or waited for as soon as it was begun, which hides nothing."""
    if not _is_collective(node, scope, [name for name in COLLECTIVES if name not in OBJECTS]):
        return
    given = next((one for one in node.args if one.keyword is not None and one.keyword.value == "async_op"), None)
    if given is None:
        yield Change(_and_argument(node, "async_op", "True"), "not awaited")
    else:
        yield Change(_through("(lambda work: (work.wait(), work)[1])", node), "awaited too early")


def _is_collective(node: cst.Call, scope: Scope, names: Any) -> bool:
    named = isinstance(node.func, cst.Attribute) and node.func.attr.value in names
    return named and bool(scope.dist) and cst.Module([]).code_for_node(node.func).startswith(f"{scope.dist}.")


def _and_argument(node: cst.Call, name: str, value: str) -> cst.Call:
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return node.with_changes(
        args=[*node.args, cst.Arg(cst.parse_expression(value), keyword=cst.Name(name), equal=equal)]
    )


def _mentions(node: cst.CSTNode, text: str) -> bool:
    return text in cst.Module([]).code_for_node(node)


def _last(node: cst.CSTNode) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else getattr(node, "value", "")


# --- one thing taken for another -------------------------------------------------------------------------------------


def other_size(node: cst.Name | cst.Attribute | cst.Call, scope: Scope) -> Iterator[Change]:
    """2 for the world size, which two ranks never notice; rank 0 for one's own; all ranks for those of a group."""
    if isinstance(node, cst.Call):
        yield from _other_call(node, scope)
        return
    name = _last(node)
    if scope.in_function and name in WORLD_SIZES:
        yield Change(cst.Integer("2"), "2 ranks")
    elif scope.in_function and name in RANKS:
        yield Change(cst.Integer("0"), "rank 0")


def _other_call(node: cst.Call, scope: Scope) -> Iterator[Change]:
    name = _last(node.func)
    if name == "get_world_size":
        yield Change(cst.Integer("2"), "2 ranks")
    if name == "get_rank":
        yield Change(cst.Integer("0"), "rank 0")
    if name in ("get_world_size", "get_rank") and node.args:
        yield Change(node.with_changes(args=[]), "of all ranks")
    place = GLOBAL_FOR_GROUP.get(name, len(node.args))
    if place < len(node.args):
        yield Change(node.args[place].value, "global for group rank")


def other_group(node: cst.Arg, scope: Scope) -> Iterator[Change]:
    """The default group for the one that was meant, and a rank of the one for a rank of the other."""
    if node.keyword is not None and node.keyword.value in RENAMED:
        other = RENAMED[node.keyword.value]
        yield Change(node.with_changes(keyword=cst.Name(other)), other)
    if scope.in_function and _last(node.value) in GROUPS and not node.star:
        yield Change(node.with_changes(value=cst.Name("None")), "the default group")


SCOPED: tuple[tuple[str, type | tuple[type, ...], ScopedOperator], ...] = (
    ("one-rank", cst.SimpleStatementLine, one_rank),
    ("one-call", cst.SimpleStatementLine, one_call),
    ("stale", cst.Assign, stale),
    ("float32", (cst.Assign, cst.AugAssign, cst.Return), single),
    ("swap-statements", cst.IndentedBlock, swap_statements),
    ("extra-collective", (cst.FunctionDef, cst.Finally, cst.ExceptHandler, cst.If, cst.Else), extra_collective),
    ("reduce-op", (cst.Call, cst.Attribute), other_reduction),
    ("async", cst.Call, not_awaited),
    ("other-size", (cst.Name, cst.Attribute, cst.Call), other_size),
    ("other-group", cst.Arg, other_group),
    ("plus-times", cst.BinaryOperation, plus_for_times),
    ("ignored-option", cst.Name, ignored_option),
    ("default", cst.Param, other_default),
    ("drop-option", cst.Call, option_not_handed_on),
)
"""The name, the nodes it looks at, and the operator."""
