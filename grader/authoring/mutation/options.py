"""The mutation operators for arithmetic and for options: what is added up, left out, or a default. As those of
`distributed` they take a node and its scope."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from grader.authoring.mutation.scope import Change, Scope


def plus_for_times(node: cst.BinaryOperation, scope: Scope) -> Iterator[Change]:
    """+ for *, and * for +."""
    other: dict[type, cst.BaseBinaryOp] = {cst.Multiply: cst.Add(), cst.Add: cst.Multiply()}
    if type(node.operator) in other:
        brackets = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}
        operator = other[type(node.operator)]
        yield Change(node.with_changes(operator=operator, **brackets), "+" if isinstance(operator, cst.Add) else "*")


def ignored_option(node: cst.Name, scope: Scope) -> Iterator[Change]:
    """An option has its default, whatever the caller has said."""
    default = scope.defaults.get(node.value)
    if default is not None:
        yield Change(default, "its default")


def other_default(node: cst.Param, scope: Scope) -> Iterator[Change]:
    """A default that is None, where it was more than a constant; constants are changed by `constant`."""
    if node.default is not None and not isinstance(node.default, cst.BaseNumber | cst.BaseString | cst.Name):
        yield Change(node.with_changes(default=cst.Name("None")), "None")


def option_not_handed_on(node: cst.Call, scope: Scope) -> Iterator[Change]:
    """The last positional argument is forgotten, or all that come by `*` or `**`; keywords are for `drop-keyword`."""
    positional = [one for one in node.args if one.keyword is None and one.star == ""]
    forgotten = [one for one in node.args if one.star] + (positional[-1:] if len(positional) > 1 else [])
    for one in forgotten:
        left = [other for other in node.args if other is not one]
        if left:
            left[-1] = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        yield Change(node.with_changes(args=left), f"without {cst.Module([]).code_for_node(one).rstrip(', ')}")
