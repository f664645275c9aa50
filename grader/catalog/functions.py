"""What a Python file of an exercise defines, read and never imported."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from pathlib import Path

from grader.catalog.document import read_text
from grader.model.errors import AuthorError

_PREFIX = "test_"


def compiled_fault(source: str) -> SyntaxError | None:
    """Why `source` cannot be compiled, or None. Nothing of it is executed."""
    found = _parsed(source)
    return found if isinstance(found, SyntaxError) else None


def _parsed(source: str) -> ast.Module | SyntaxError:
    """The syntax tree of `source`, or why it cannot be compiled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.parse(source)
            compile(found, "<source>", "exec", dont_inherit=True)
            return found
    except SyntaxError as error:
        return error
    except (RecursionError, MemoryError, ValueError) as error:
        return SyntaxError(str(error) or "nested too deeply")


def tree(path: Path) -> ast.Module:
    """The file's syntax tree, which nobody may change. Raises AuthorError with the line where it does not compile."""
    found = _tree(read_text(path).removeprefix("\ufeff"))
    if isinstance(found, SyntaxError):
        raise AuthorError(path, f"the file does not compile: {found.msg}", "Mend it.", found.lineno)
    return found


@functools.lru_cache(maxsize=64)
def _tree(source: str) -> ast.Module | SyntaxError:
    """Remembered, since a watched exercise is loaded at each save."""
    return _parsed(source)


def top_level_names(path: Path) -> list[str]:
    """The functions and plain variables that the file defines at its top level."""
    names = []
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def titles(path: Path) -> dict[str, tuple[str, int]]:
    """The `test_…` functions of checks.py without their prefix, in order, each with its title (the first line of its
    docstring) and its line. Raises AuthorError for one without a docstring and for one defined twice."""
    found: dict[str, tuple[str, int]] = {}
    for node in tree(path).body:
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith(_PREFIX):
            continue
        if node.name in {_PREFIX + check for check in found}:
            raise AuthorError(path, f"{node.name} is defined twice", "Rename one of the two.", node.lineno)
        found[node.name.removeprefix(_PREFIX)] = _title(path, node), node.lineno
    return found


def _title(path: Path, node: ast.FunctionDef) -> str:
    lines = (ast.get_docstring(node) or "").splitlines()
    if not lines:
        remedy = "Its first line is the title that the student reads; write one."
        raise AuthorError(path, f"{node.name} has no docstring", remedy, node.lineno)
    return lines[0].strip()


def is_parameter_list(text: str) -> bool:
    """Whether `text` is what stands behind a function's name: `(rank, world_size, *, lr=0.1)`."""
    if not re.fullmatch(r"\([^\n]*\)", text):
        return False
    match _parsed(f"def f{text}: ..."):
        case ast.Module(body=[ast.FunctionDef(body=[_])]):
            return True
    return False


def is_dotted_name(text: str) -> bool:
    """Whether `text` names a function, a class, or a method as `ShardedSampler.set_epoch`."""
    return all(part.isidentifier() for part in text.split("."))
