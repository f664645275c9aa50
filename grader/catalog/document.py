"""YAML files that know their lines, so that every author error names the one to mend."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from yaml.reader import ReaderError

from grader.catalog.nearest import offer
from grader.model.errors import AuthorError

T = TypeVar("T")
Step = str | int
_SHOWN = 60
_MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000
"""So many values may a file hold, each counted as often as aliases repeat it."""
_MAX_DEPTH = 100
_MAX_DIGITS = 100
_WHOLE = "tag:yaml.org,2002:int"

FAST: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML was built with it: eight times as fast."""
_REMEDIES = {
    "string_type": "Write it as text, in quotes where YAML reads something else.",
    "model_type": "Write a mapping of keys to values, {} where all of them have their defaults.",
    "dict_type": "Write a mapping of keys to values.",
    "list_type": "Write a list, as [a, b].",
    "invalid-json-value": "Use only null, true, false, numbers, quoted text, lists and mappings.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML file: its plain value beside the nodes that it was made of."""

    path: Path
    node: yaml.Node
    value: Any

    def line(self, steps: Sequence[Step]) -> int:
        """The line (from 1) of what `steps` lead to; steps that the file does not have are passed over."""
        node, line = self.node, self.node.start_mark.line + 1
        for step in steps:
            child = _child(node, step)
            if child:
                node, line = child
        return line

    def error(self, steps: Sequence[Step], fault: str, remedy: str) -> AuthorError:
        return AuthorError(self.path, fault, remedy, self.line(steps))


def _child(node: yaml.Node, step: Step) -> tuple[yaml.Node, int] | None:
    """The node under a key or index, and its line: for what stands below its key, the key's own."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item, item.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, (value if isinstance(value, yaml.ScalarNode) else key).start_mark.line + 1
    return None


def read_text(path: Path) -> str:
    """An author's file as text. Raises AuthorError when it is missing, unreadable or not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise AuthorError(path, "the file is larger than 1 MiB", "Make it shorter.")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise AuthorError(path, "the file is not UTF-8 text", "Save it as UTF-8.", line) from None
    except OSError as error:
        raise AuthorError(path, f"the file cannot be read ({error.strerror})", "Create it.") from None


def read(path: Path) -> Document:
    """A YAML file of plain values without duplicate keys. Raises AuthorError with the line."""
    text = read_text(path)
    try:
        with contextlib.suppress(yaml.YAMLError):  # what is wrong PyYAML's own loader says better
            return _composed(path, FAST(text))
        return _composed(path, yaml.SafeLoader(text))  # the reader refuses control characters already here
    except yaml.YAMLError as error:
        raise _syntax_error(path, text, error) from None
    except (RecursionError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        # PyYAML's constructors trip over values that their tags do not fit, as `!!bool x` and `!!timestamp x`.
        raise AuthorError(path, f"YAML cannot read the file ({error})", "Write plain values only.") from None


def _composed(path: Path, loader: Any) -> Document:
    node = loader.get_single_node()
    if node is None:
        raise AuthorError(path, "the file is empty", "Write it as docs/interfaces.md shows.", 1)
    if _size(node, {}, 0) > _MAX_VALUES:
        raise AuthorError(path, f"the file holds more than {_MAX_VALUES} values, aliases counted", "Make it shorter.")
    _refuse_duplicate_keys(path, node)
    return Document(path=path, node=node, value=loader.construct_document(node))


def _size(node: yaml.Node, sizes: dict[int, int], depth: int) -> int:
    """How many values a node comes to once its aliases are followed. Raises ValueError where it is too deep, as is one
    that holds itself."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH}")
    if node.tag == _WHOLE and len(node.value) > _MAX_DIGITS:
        raise ValueError(f"a number of more than {_MAX_DIGITS} digits")
    if id(node) not in sizes:
        sizes[id(node)] = 1 + sum(_size(child, sizes, depth + 1) for child in _children(node))
    return sizes[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _syntax_error(path: Path, text: str, error: yaml.YAMLError) -> AuthorError:
    problem, line = "malformed", None
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem, line = error.problem or problem, mark.line + 1 if mark else None
        if problem.startswith("but "):  # the other half of "expected a single document in the stream"
            problem = f"{error.context} {problem}"
    elif isinstance(error, ReaderError):
        problem, line = error.reason, text.count("\n", 0, error.position) + 1
    remedy = "Mend the YAML here; text that holds ': ' or ' #' or begins with a sign needs quotes."
    return AuthorError(path, f"not valid YAML: {problem}", remedy, line)


def _refuse_duplicate_keys(path: Path, root: yaml.Node) -> None:
    for mapping in _mappings(root, set()):
        first: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            identity, line = (key.tag, key.value), key.start_mark.line + 1
            if identity in first:
                remedy = f"Keep one of the two; line {first[identity]} has it too."
                raise AuthorError(path, f"the key '{key.value}' stands twice", remedy, line)
            first[identity] = line


def _mappings(node: yaml.Node, seen: set[int]) -> Iterator[yaml.MappingNode]:
    """All mappings of the file, once each although aliases may lead to them again."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield node
    for child in _children(node):
        yield from _mappings(child, seen)


def validated(document: Document, shape: type[T]) -> T:
    """The file's value as a pydantic model or a list of them. Raises AuthorError for the first fault."""
    try:
        return TypeAdapter(shape).validate_python(document.value)
    except ValidationError as error:
        # A misspelt key is unknown and missing at once: the unknown one says more.
        keys = ("extra_forbidden", "invalid_key")
        first = min(error.errors(), key=lambda it: (it["type"] not in keys, document.line(it["loc"])))
        raise _invalid(document, shape, first) from None


def _invalid(document: Document, shape: Any, fault: ErrorDetails) -> AuthorError:
    steps, kind = fault["loc"], fault["type"]
    if kind == "extra_forbidden":
        return document.error(steps, f"unknown key '{steps[-1]}'", offer(str(steps[-1]), _keys(shape, steps[:-1])))
    if kind == "missing":
        where = f" in '{_dotted(steps[:-1])}'" if steps[:-1] else ""
        return document.error(steps[:-1], f"the key '{steps[-1]}' is missing{where}", "Add it.")
    if kind == "invalid_key":
        return document.error(steps, f"the key {_short(fault['input'])} is not text", "Put it in quotes.")
    problem = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
    remedy = _REMEDIES.get(kind, "Correct the value; docs/interfaces.md describes it.")
    return document.error(steps, f"'{_dotted(steps)}' {problem} (got {_short(fault['input'])})", remedy)


def _dotted(steps: Sequence[Step]) -> str:
    return ".".join(str(step) for step in steps if step != "[key]") or "the file"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _keys(shape: Any, steps: Sequence[Step]) -> list[str]:
    """The keys that the model at `steps` knows: down through fields, and through what lists and dicts hold."""
    for step in steps:
        known = isinstance(shape, type) and issubclass(shape, BaseModel)
        shape = shape.model_fields[step].annotation if known else get_args(shape)[-1]
    return list(shape.model_fields)
