"""A source becomes its automatic mutants, each with a name that unrelated edits do not change."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from grader.authoring.mutation import scope as scoping
from grader.authoring.mutation.distributed import SCOPED
from grader.authoring.mutation.operators import OPERATORS, Replacement
from grader.authoring.mutation.scope import NOWHERE, Scope

MODULE = "<module>"
SHOWN = 80
"""Letters of the code that is changed, in a sentence."""
_SEPARATOR = " | "


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoMutant:
    """A solution with one small fault. `identity` is operator | function | the text of the line | the change, and a
    number where that is not unique; `line` is for readers only. `base` is what it was made of, of which `variant` is
    the name where that is not the solution itself."""

    identity: str
    operator: str
    function: str
    line: int
    description: str
    source: str
    base: str
    variant: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands: in which function, in what statement, under which node, in which class."""

    function: str = MODULE
    raising: bool = False
    parent: cst.CSTNode | None = None
    owner: cst.ClassDef | None = None
    scope: Scope = NOWHERE


def mutants(source: str) -> tuple[AutoMutant, ...]:
    """All mutants of `source` in the order of its lines. Each compiles, and no two of them, nor one and the source
    itself, are the same program. Docstrings, comments, annotations, imports, the bases of classes and the wording of
    what is raised are left alone."""
    module = cst.parse_module(source)
    positions: Any = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    lines = _without_comments(source)
    seen = {_program(source), None}
    found = []
    for statement, node, place in _everywhere(module):
        for operator, replacement, label, at in _replacements(node, place):
            changed = _replaced(module, statement, node, replacement)
            program = _program(changed)
            if changed is not None and program not in seen:
                seen.add(program)
                line = positions[at].start.line
                change = label or _change(module, operator, node, replacement)
                found.append(
                    AutoMutant(
                        identity=_identity(operator, place.function, lines[line - 1], change),
                        operator=operator,
                        function=place.function,
                        line=line,
                        description=f"{_told(module, operator, at, change, label)} in {place.function}, line {line}",
                        source=changed,
                        base=source,
                    )
                )
    return tuple(_numbered(sorted(found, key=lambda mutant: mutant.line)))


def _identity(operator: str, function: str, line: str, change: str) -> str:
    return _SEPARATOR.join(filter(None, (operator, function, line, change if change != line else "")))


def _numbered(found: list[AutoMutant]) -> Iterator[AutoMutant]:
    """The second of two that are called alike is #2."""
    counts = Counter[str]()
    for mutant in found:
        counts[mutant.identity] += 1
        number = counts[mutant.identity]
        yield mutant if number == 1 else replace(mutant, identity=f"{mutant.identity}{_SEPARATOR}#{number}")


def diff(mutant: AutoMutant) -> str:
    """What the mutant changes, as the lines of a unified diff without context."""
    lines = difflib.unified_diff(mutant.base.splitlines(), mutant.source.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


# --- which nodes, and what may stand in their place ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Statement:
    """One statement of the module's own, and the text on either side of it."""

    node: cst.CSTNode
    before: str
    after: str


def _everywhere(module: cst.Module) -> Iterator[tuple[_Statement, cst.CSTNode, _Place]]:
    """Every node that may be mutated, with the statement of the module that holds it."""
    start = sum(len(module.code_for_node(line)) for line in module.header)
    for node in module.body:
        end = start + len(module.code_for_node(node))
        statement = _Statement(node, module.code[:start], module.code[end:])
        if not _left_alone(module, node):
            for inner, place in _nodes(node, _Place(parent=module, scope=scoping.of_module(module))):
                yield statement, inner, place
        start = end


def _nodes(node: cst.CSTNode, place: _Place) -> Iterator[tuple[cst.CSTNode, _Place]]:
    """Every node that may be mutated, outermost first."""
    yield node, place
    inside = _inside(node, place)
    for child in node.children:
        if not _left_alone(node, child):
            yield from _nodes(child, inside)


def _inside(node: cst.CSTNode, place: _Place) -> _Place:
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        name = node.name.value if place.function == MODULE else f"{place.function}.{node.name.value}"
        if isinstance(node, cst.ClassDef):
            return replace(place, function=name, parent=node, owner=node)
        return replace(place, function=name, parent=node, scope=scoping.inside(place.scope, node, place.owner))
    return replace(place, raising=place.raising or isinstance(node, cst.Raise), parent=node)


def _left_alone(parent: cst.CSTNode, node: cst.CSTNode) -> bool:
    """What no operator sees."""
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom):
        return True
    if isinstance(parent, cst.ClassDef):
        return any(node is base for base in (*parent.bases, *parent.keywords))
    if isinstance(parent, cst.SimpleStatementLine):
        # a docstring, or a body that is none
        return isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString | cst.Ellipsis)
    return False


def _replacements(node: cst.CSTNode, place: _Place) -> Iterator[tuple[str, Replacement, str, cst.CSTNode]]:
    """The operator's name, what may stand in the node's place, what that does where the two texts do not say it, and
    the node whose line names the mutant."""
    for name, kind, operator in OPERATORS:
        if isinstance(node, kind) and not _senseless(name, node, place):
            for replacement in operator(node):
                yield name, replacement, "", node
    for name, kind, scoped in SCOPED:
        if isinstance(node, kind) and not place.raising:  # what a message says is free
            for change in scoped(node, place.scope):
                yield name, change.node, change.label, change.at or node


def _senseless(operator: str, node: cst.CSTNode, place: _Place) -> bool:
    """What would only say the same again: another None in `is None`, and other words in a message, which are free."""
    if operator == "constant" and isinstance(place.parent, cst.ComparisonTarget):
        return isinstance(node, cst.Name)
    if operator == "constant" and isinstance(node, cst.SimpleString):
        return place.raising
    return operator == "drop-unary" and isinstance(place.parent, cst.If | cst.While | cst.IfExp | cst.CompIf)


class _Replacing(cst.CSTTransformer):
    def __init__(self, target: cst.CSTNode, replacement: Replacement) -> None:
        super().__init__()
        self.target, self.replacement = target, replacement

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        return self.replacement if original_node is self.target else updated_node


def _replaced(module: cst.Module, statement: _Statement, node: cst.CSTNode, replacement: Replacement) -> str | None:
    """The changed source; None where the grammar has no such thing. Only the statement is taken apart and put together
    again: with the whole module for each mutant, that would take most of the time."""
    try:
        changed: Any = statement.node.visit(_Replacing(node, replacement))
    except cst.CSTValidationError:
        return None
    parts = changed.nodes if isinstance(changed, cst.FlattenSentinel) else [changed]
    return statement.before + "".join(map(module.code_for_node, parts)) + statement.after


def _program(source: str | None) -> str | None:
    """What the source means to Python, whatever its layout; None where it does not compile."""
    if source is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<mutant>", "exec", dont_inherit=True)
            return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return None


# --- how a mutant is called ------------------------------------------------------------------------------------------


def _without_comments(source: str) -> list[str]:
    """The lines' code, without indentation."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return [" ".join(line.split()) for line in lines]


def _code(module: cst.Module, node: cst.CSTNode) -> str:
    return " ".join(module.code_for_node(node).split())


def _change(module: cst.Module, operator: str, node: Any, replacement: Any) -> str:
    """The change, as part of the identity; empty where the line says it all."""
    if operator in ("drop-statement", "return-none"):
        return _code(module, node)
    if operator == "negate":
        return f"{_code(module, node.test)} -> {_code(module, replacement.test)}"
    if operator == "swap-arguments":
        pairs = zip(node.args, replacement.args, strict=True)
        return " <-> ".join(_code(module, old.value) for old, new in pairs if old.value is not new.value)
    if operator == "drop-keyword":
        kept = {argument.keyword for argument in replacement.args}
        return next(_code(module, old).rstrip(", ") for old in node.args if old.keyword not in kept)
    if operator == "drop-default":
        return f"{node.name.value} = {_code(module, node.default)}"
    if operator == "drop-decorator":
        return next(_code(module, old) for old in node.decorators if old not in replacement.decorators)
    if operator.startswith("unwrap"):
        return ""
    return f"{_code(module, node)} -> {_code(module, replacement)}"


def _told(module: cst.Module, operator: str, node: Any, change: str, label: str) -> str:
    if not label:
        return _sentence(module, operator, node, change)
    code = _code(module, node.with_changes(leading_lines=[]) if hasattr(node, "leading_lines") else node)
    return f"{operator}, {label}: `{code if len(code) <= SHOWN else code[:SHOWN] + '…'}`"


def _sentence(module: cst.Module, operator: str, node: Any, change: str) -> str:
    """What the mutant does, for a reader."""
    if operator == "unwrap-with":
        return f"takes away `with {', '.join(_code(module, item).rstrip(', ') for item in node.items)}`"
    if operator == "unwrap-try":
        return "takes away a part of `try`"
    if operator == "return-none":
        return f"`{change}` becomes `return None`"
    if operator == "swap-arguments":
        return f"swaps `{change.replace(' <-> ', '` and `')}`"
    if operator.startswith("drop") and operator != "drop-unary":
        return f"drops `{change}`"
    return f"`{change.replace(' -> ', '` becomes `')}`"
