"""What an operator that knows distributed code gives, and what it has to know of the place where a node stands: the
function's parameters, loops, and how to ask for the rank there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst

DISTRIBUTED = "torch.distributed"
RANKS = ("rank", "number")
"""Names that hold a rank where a function or a class has them."""


@dataclass(frozen=True, slots=True)
class Change:
    """What stands in a node's place, and what that does. `at`: the part of the node whose line names the mutant."""

    node: cst.CSTNode | cst.FlattenSentinel[Any]
    label: str
    at: cst.CSTNode | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """`dist` is the module's name for torch.distributed, "" where it has none; `rank` compares the rank (`rank {} {}`,
    to be filled with an operator and a number), "" where nobody knows it; `defaults` are the parameters that have one.
    """

    dist: str = ""
    rank: str = ""
    defaults: Mapping[str, cst.BaseExpression] = field(default_factory=dict)
    in_function: bool = False


NOWHERE = Scope()


def of_module(module: cst.Module) -> Scope:
    """What holds everywhere in a module."""
    dist = next(filter(None, (_alias(line) for line in _imports(module))), "")
    asked = f"(not {dist}.is_initialized() or {dist}.get_rank() {{}} {{}})" if dist else ""
    return Scope(dist=dist, rank=asked)


def inside(scope: Scope, node: cst.FunctionDef, owner: cst.ClassDef | None) -> Scope:
    """The same inside of a function, which may be a method of `owner`."""
    parameters = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
    defaults = {one.name.value: one.default for one in parameters if one.default is not None}
    names = [one.name.value for one in parameters]
    own = next((f"{name} {{}} {{}}" for name in RANKS if name in names), "")
    if not own and owner is not None and "self" in names and "self.rank" in cst.Module([]).code_for_node(owner):
        own = "self.rank {} {}"
    return replace(scope, rank=own or scope.rank, defaults=defaults, in_function=True)


def _imports(module: cst.Module) -> list[cst.Import | cst.ImportFrom]:
    return [
        small
        for line in module.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
        if isinstance(small, cst.Import | cst.ImportFrom)
    ]


def _alias(line: cst.Import | cst.ImportFrom) -> str:
    """`dist` for `import torch.distributed as dist` and `from torch import distributed as dist`."""
    prefix = "torch." if isinstance(line, cst.ImportFrom) and _dotted(line.module) == "torch" else ""
    if (isinstance(line, cst.ImportFrom) and not prefix) or isinstance(line.names, cst.ImportStar):
        return ""
    for name in line.names:
        if prefix + _dotted(name.name) == DISTRIBUTED:
            return name.evaluated_alias or name.evaluated_name
    return ""


def _dotted(node: cst.CSTNode | None) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""
