"""The mutation operators: each takes a node of a syntax tree and gives the nodes that could stand in its place.

An operator knows one kind of fault. It may give what does not compile or changes nothing; whoever asks sorts that out.
Those that need to know where the node stands are in `generate`, which never shows them docstrings, annotations,
imports and the bases of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

Replacement = cst.CSTNode | cst.FlattenSentinel[Any]
Operator = Callable[[Any], Iterator[Replacement]]

_PARENS = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}
_PASS = cst.Pass()
_FORGETTABLE = (
    cst.Assert,
    cst.Assign,
    cst.AugAssign,
    cst.Break,
    cst.Continue,
    cst.Del,
    cst.Expr,
    cst.Raise,
    cst.Return,
)

_COMPARED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
}
_OPPOSITES = (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot, cst.In, cst.NotIn)
"""Of these the neighbour is the negation, so that a condition that is such a comparison need not be negated as well."""
_ARITHMETIC: dict[type[cst.BaseBinaryOp], type[cst.BaseBinaryOp]] = {
    cst.Add: cst.Subtract,
    cst.Subtract: cst.Add,
    cst.Multiply: cst.Divide,
    cst.Divide: cst.Multiply,
    cst.FloorDivide: cst.Divide,
    cst.Modulo: cst.FloorDivide,
    cst.Power: cst.Multiply,
    cst.BitAnd: cst.BitOr,
    cst.BitOr: cst.BitAnd,
    cst.LeftShift: cst.RightShift,
    cst.RightShift: cst.LeftShift,
}
_ASSIGNED: dict[type[cst.BaseAugOp], type[cst.BaseAugOp]] = {
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.DivideAssign,
    cst.DivideAssign: cst.MultiplyAssign,
    cst.FloorDivideAssign: cst.DivideAssign,
    cst.BitAndAssign: cst.BitOrAssign,
    cst.BitOrAssign: cst.BitAndAssign,
}
_OTHER_NAMES = {"True": "False", "False": "True", "None": "0"}


# --- statements ------------------------------------------------------------------------------------------------------


def drop_statement(node: cst.BaseSmallStatement) -> Iterator[Replacement]:
    """A statement is forgotten."""
    if isinstance(node, _FORGETTABLE) or (isinstance(node, cst.AnnAssign) and node.value):
        yield _PASS


def return_none(node: cst.Return) -> Iterator[Replacement]:
    """The result is forgotten."""
    if node.value is not None:
        yield node.with_changes(value=cst.Name("None"), whitespace_after_return=cst.SimpleWhitespace(" "))


def swap_break(node: cst.Break | cst.Continue) -> Iterator[Replacement]:
    """A loop is left where it should go on, or goes on where it should be left."""
    yield cst.Continue() if isinstance(node, cst.Break) else cst.Break()


def unwrap_with(node: cst.With) -> Iterator[Replacement]:
    """A context is not entered; one whose value is used is entered and left to the garbage collector."""
    for index, item in enumerate(node.items):
        rest = [other for other in node.items if other is not item]
        inner = list(node.body.body)
        if rest:
            rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            inner = [node.with_changes(items=rest, leading_lines=[])]
        entering = _entered(item)
        if index == 0 or entering is None:  # a later item may use what the earlier ones gave
            yield cst.FlattenSentinel([*([entering] if entering else []), *map(_as_line, inner)])


def _as_line(statement: cst.CSTNode) -> cst.CSTNode:
    """What may stand alone: the body of `with a: b` on one line is a bare small statement."""
    return cst.SimpleStatementLine([statement]) if isinstance(statement, cst.BaseSmallStatement) else statement


def _entered(item: cst.WithItem) -> cst.SimpleStatementLine | None:
    if item.asname is None:
        return None
    manager = item.item if isinstance(item.item, cst.Name | cst.Call) else item.item.with_changes(**_PARENS)
    value = cst.Call(cst.Attribute(manager, cst.Name("__enter__")))
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(item.asname.name)], value)])


def unwrap_try(node: cst.Try) -> Iterator[Replacement]:
    """Handlers are forgotten, or what `finally` does is done only where all went well."""
    if node.handlers and node.finalbody is None:
        after = node.orelse.body.body if node.orelse else ()
        yield cst.FlattenSentinel([*map(_as_line, node.body.body), *map(_as_line, after)])
    elif node.handlers:
        yield node.with_changes(handlers=[], orelse=None)
    if node.finalbody is not None:
        after = node.finalbody.body.body
        before = [node.with_changes(finalbody=None)] if node.handlers else list(map(_as_line, node.body.body))
        yield cst.FlattenSentinel([*before, *map(_as_line, after)])


# --- conditions ------------------------------------------------------------------------------------------------------


def negate_condition(node: cst.If | cst.While | cst.IfExp | cst.CompIf | cst.Assert) -> Iterator[Replacement]:
    """The condition is taken the wrong way round."""
    test = node.test
    compared = test.comparisons if isinstance(test, cst.Comparison) else ()
    if len(compared) != 1 or not isinstance(compared[0].operator, _OPPOSITES):
        yield node.with_changes(test=_negated(test), **_spaced(node))


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    inner = test if isinstance(test, cst.Name | cst.Call | cst.Attribute) or test.lpar else test.with_changes(**_PARENS)
    return cst.UnaryOperation(cst.Not(), inner)


def _spaced(node: cst.CSTNode) -> dict[str, cst.SimpleWhitespace]:
    """`if(a)` needs a space once the brackets no longer come first."""
    names = ("whitespace_before_test", "whitespace_after_while", "whitespace_after_if", "whitespace_after_assert")
    return {name: cst.SimpleWhitespace(" ") for name in names if getattr(node, name, None) is not None}


def swap_and_or(node: cst.BooleanOperation) -> Iterator[Replacement]:
    """`and` and `or` are confused, or one of the two conditions is forgotten."""
    kind = cst.Or if isinstance(node.operator, cst.And) else cst.And
    yield node.with_changes(operator=kind(), **_PARENS)
    for side in (node.left, node.right):
        yield side if side.lpar else side.with_changes(**_PARENS)


def change_comparison(node: cst.Comparison) -> Iterator[Replacement]:
    """A comparison is off by its boundary or the wrong way round."""
    for index, target in enumerate(node.comparisons):
        other = _COMPARED.get(type(target.operator))
        if other is not None:
            changed = list(node.comparisons)
            changed[index] = target.with_changes(operator=other())
            yield node.with_changes(comparisons=changed)


def drop_unary(node: cst.UnaryOperation) -> Iterator[Replacement]:
    """A minus, a `not` or a `~` is forgotten."""
    yield node.expression if node.expression.lpar else node.expression.with_changes(**_PARENS)


# --- values ----------------------------------------------------------------------------------------------------------


def change_constant(node: cst.BaseExpression) -> Iterator[Replacement]:
    """Another constant: an integer one more and one less, a float doubled, a text, a truth or a None replaced."""
    if isinstance(node, cst.Integer):
        yield cst.Integer(str(node.evaluated_value + 1))
        less = node.evaluated_value - 1
        yield cst.Integer(str(less)) if less >= 0 else cst.UnaryOperation(cst.Minus(), cst.Integer(str(-less)))
    elif isinstance(node, cst.Float):
        yield cst.Float(repr(node.evaluated_value * 2 or 1.0))
    elif isinstance(node, cst.Name) and node.value in _OTHER_NAMES:
        other = _OTHER_NAMES[node.value]
        yield cst.Integer(other) if other.isdecimal() else cst.Name(other)
    elif isinstance(node, cst.SimpleString):
        yield cst.SimpleString(f"{node.prefix}{node.quote}XX{node.raw_value}{node.quote}")


def change_arithmetic(node: cst.BinaryOperation | cst.AugAssign) -> Iterator[Replacement]:
    """Another operator: + for -, * for /, / for //."""
    known: Any = _ASSIGNED if isinstance(node, cst.AugAssign) else _ARITHMETIC
    other = known.get(type(node.operator))
    if other is not None:
        yield node.with_changes(operator=other())


def shift_index(node: cst.Subscript) -> Iterator[Replacement]:
    """An index or a bound is off by one. A constant index is left to `change_constant`."""
    for place, element in enumerate(node.slice):
        for changed in _shifted(element.slice):
            elements = list(node.slice)
            elements[place] = element.with_changes(slice=changed)
            yield node.with_changes(slice=elements)


def _shifted(part: cst.BaseSlice) -> Iterator[cst.BaseSlice]:
    if isinstance(part, cst.Index):
        if not isinstance(part.value, cst.Integer | cst.BaseString):
            yield part.with_changes(value=_plus_one(part.value))
    elif isinstance(part, cst.Slice):
        for bound in ("lower", "upper"):
            value = getattr(part, bound)
            if value is not None and not isinstance(value, cst.Integer):
                yield part.with_changes(**{bound: _plus_one(value)})


def _plus_one(value: cst.BaseExpression) -> cst.BaseExpression:
    plain = isinstance(value, cst.Name | cst.Call | cst.Attribute) or value.lpar
    return cst.BinaryOperation(value if plain else value.with_changes(**_PARENS), cst.Add(), cst.Integer("1"))


# --- calls and definitions -------------------------------------------------------------------------------------------


def swap_arguments(node: cst.Call) -> Iterator[Replacement]:
    """Two neighbouring positional arguments are exchanged."""
    for index in range(len(node.args) - 1):
        first, second = node.args[index : index + 2]
        if _positional(first) and _positional(second):
            changed = list(node.args)
            changed[index : index + 2] = first.with_changes(value=second.value), second.with_changes(value=first.value)
            yield node.with_changes(args=changed)


def _positional(argument: cst.Arg) -> bool:
    return argument.keyword is None and argument.star == ""


def drop_keyword(node: cst.Call) -> Iterator[Replacement]:
    """A keyword argument is forgotten."""
    for argument in node.args:
        if argument.keyword is not None:
            left = [other for other in node.args if other is not argument]
            if left:
                left[-1] = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            yield node.with_changes(args=left)


def drop_default(node: cst.Param) -> Iterator[Replacement]:
    """A parameter's default is forgotten, so that every caller has to give it."""
    if node.default is not None:
        yield node.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT)


def drop_decorator(node: cst.FunctionDef | cst.ClassDef) -> Iterator[Replacement]:
    """A decorator is forgotten."""
    for decorator in node.decorators:
        yield node.with_changes(decorators=[other for other in node.decorators if other is not decorator])


OPERATORS: tuple[tuple[str, type | tuple[type, ...], Operator], ...] = (
    ("drop-statement", cst.BaseSmallStatement, drop_statement),
    ("return-none", cst.Return, return_none),
    ("swap-break", (cst.Break, cst.Continue), swap_break),
    ("unwrap-with", cst.With, unwrap_with),
    ("unwrap-try", cst.Try, unwrap_try),
    ("negate", (cst.If, cst.While, cst.IfExp, cst.CompIf, cst.Assert), negate_condition),
    ("and-or", cst.BooleanOperation, swap_and_or),
    ("comparison", cst.Comparison, change_comparison),
    ("drop-unary", cst.UnaryOperation, drop_unary),
    ("constant", (cst.Integer, cst.Float, cst.Name, cst.SimpleString), change_constant),
    ("arithmetic", (cst.BinaryOperation, cst.AugAssign), change_arithmetic),
    ("shift-index", cst.Subscript, shift_index),
    ("swap-arguments", cst.Call, swap_arguments),
    ("drop-keyword", cst.Call, drop_keyword),
    ("drop-default", cst.Param, drop_default),
    ("drop-decorator", (cst.FunctionDef, cst.ClassDef), drop_decorator),
)
"""The name, the nodes it looks at, and the operator."""
