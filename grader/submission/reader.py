"""Compiles a student's source and looks whether it is still the stub. `compiles` runs this file as a script.

A small file may take minutes and gigabytes to compile, so this is a process of its own with limits, which imports next
to nothing: it takes 15 ms. The source comes on standard input. What was found is printed as a Python literal: None, or
a SyntaxError's (class, message, line, column, text), or a word; and then whether the required names, which are the
arguments, still raise NotImplementedError. Nothing of the source is executed.
"""

from __future__ import annotations

import _ast
import contextlib
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CPU_SECONDS = 5
"""Ten times what the densest honest file of 256 KiB takes, the largest that is read."""
MEMORY = 384 * 2**20
"""Bytes of address space; the densest honest file takes a quarter."""
NESTED, MEMORY_GONE = "nested", "memory"
PARSED_ONLY = 0x400
"""ast.PyCF_ONLY_AST, without the import of ast."""
Definition = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)


def main(names: list[str]) -> None:
    limit()
    warnings.simplefilter("ignore")
    text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    fault = compiled(text)
    print(ascii((fault, fault is None and untouched(text, names))))


def limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not everywhere
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def compiled(text: str) -> object:
    """Why the text cannot be compiled, or None."""
    try:
        # Of bytes Python 3.11 counts columns in bytes. The made-up name keeps it from reading a file of that name.
        compile(text, "<submission>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return type(error).__name__, error.msg, error.lineno, error.offset, (error.text or "")[:10_000]
    except MemoryError:
        return MEMORY_GONE if _used() > MEMORY // 2 else NESTED  # Python's parser says so of its stack, too
    except (RecursionError, ValueError, OverflowError, SystemError):
        return NESTED
    return None


def _used() -> int:
    """The most memory that this program has had, in bytes; 0 where the system does not tell. getrusage would count what
    the process that started it has."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


def untouched(text: str, names: list[str]) -> bool:
    """Whether every one of these functions, classes and methods still raises NotImplementedError; without names, the
    whole file."""
    module: Any = compile(text, "<submission>", "exec", PARSED_ONLY, dont_inherit=True)
    return all(_untouched(_definition(module, name)) for name in names) if names else _untouched(module)


def _definition(module: _ast.AST, name: str) -> Any:
    """The function, class or method of that dotted name; None where the student has removed it."""
    place: Any = module
    for part in name.split("."):
        place = next((node for node in _definitions(place) if node.name == part), None)
    return place


def _definitions(place: Any) -> list[Any]:
    return [node for node in place.body if isinstance(node, Definition)] if place else []


def _untouched(place: Any) -> bool:
    """Whether the body still raises NotImplementedError, come what may: a class by its constructor where it has one or
    else by all that it holds, a script by anything in it."""
    if isinstance(place, _ast.ClassDef):
        methods = _definitions(place)
        constructors = [method for method in methods if method.name == "__init__"]
        return all(map(_untouched, constructors or methods))
    if isinstance(place, _ast.Module):
        return any(map(_raises_not_implemented, _nodes(place)))
    return place is not None and any(map(_raises_not_implemented, place.body))


def _nodes(module: _ast.AST) -> list[_ast.AST]:
    """Every node of the tree."""
    found = [module]
    for node in found:  # it grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            found += [part for part in (value if type(value) is list else [value]) if isinstance(part, _ast.AST)]
    return found


def _raises_not_implemented(node: Any) -> bool:
    if not isinstance(node, _ast.Raise):
        return False
    error = node.exc.func if isinstance(node.exc, _ast.Call) else node.exc
    return isinstance(error, _ast.Name) and error.id == "NotImplementedError"


if __name__ == "__main__":
    main(sys.argv[1:])
