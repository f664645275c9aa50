"""A student's file becomes a Submission: found, read once, digested and compiled, never executed.

What the command got wrong (no such file, a folder without it) is a UsageError; what the student got wrong (a syntax
error, a binary file) is the submission's `problem`.
"""

from __future__ import annotations

import ast
import io
import os
import re
import stat
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

from grader.model import Exercise, Finding, Submission, file_of
from grader.model.errors import UsageError

MAX_BYTES = 1 << 18
"""Python takes a minute and a gigabyte to compile some files of 1 MiB (one call with a hundred thousand keywords)."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDTH = 76
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Place = ast.Module | _Definition | None


def receive(exercise: Exercise, path: Path | None, root: Path) -> Submission:
    """The student's file: `path` itself, the exercise's file in the folder `path`, or with None the student's own in
    exercises/. Raises UsageError where there is no file to read."""
    location = _own(exercise, root) if path is None else _located(exercise, path)
    folder = root / "exercises" if path is None else path if path.is_dir() else path.parent
    source = _read(_inside(location, folder))
    return Submission.of(
        location,
        source,
        problem=_problem(source),
        companions=_companions(exercise, folder, location) if path is None or path.is_dir() else {},
    )


def receive_or_miss(exercise: Exercise, path: Path | None, root: Path) -> Submission:
    """The same in an assignment, where a file that is missing or cannot be read is the student's doing."""
    try:
        return receive(exercise, path, root)
    except UsageError as error:
        finding = Finding(subject=f"{exercise.file} was not handed in", actual=str(error))
        place = _own_file(exercise, root) if path is None else path / exercise.file if path.is_dir() else path
        return Submission.of(place, b"", problem=finding)


def begun(exercise: Exercise, root: Path) -> bool:
    """Whether the student has changed the stub: one required function at least no longer raises NotImplementedError.
    A file that does not compile is begun, a missing one is not."""
    try:
        source = _read(_own_file(exercise, root))
    except UsageError:
        return False
    if _problem(source):
        return bool(source.strip())
    module = _parsed(source)
    required: list[_Place] = [_definition(module, entry.name) for entry in exercise.requires]
    return not all(map(_untouched, required or [module]))


# --- where the file is -----------------------------------------------------------------------------------------------


def _own_file(exercise: Exercise, root: Path) -> Path:
    return root / "exercises" / exercise.name / exercise.file


def _own(exercise: Exercise, root: Path) -> Path:
    path = _own_file(exercise, root)
    if not _there(path):
        raise UsageError(f"{path} is missing; `make reset EX={exercise.number}` brings the stub back.")
    return path


def _located(exercise: Exercise, path: Path) -> Path:
    if not stat.S_ISDIR(_status(path).st_mode):
        return path
    inside = Path(exercise.name) / exercise.file
    for candidate in (path / exercise.file, path / inside, path / "exercises" / inside):
        if _there(candidate):
            return candidate
    raise UsageError(f"{path} holds no {exercise.file}; name the file itself or the folder that it lies in.")


def _status(path: Path) -> os.stat_result:
    """What the path leads to. Raises UsageError when it leads nowhere."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise UsageError(f"There is no file or folder {path}; check the path of the submission.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}); check the path of the submission.") from None


def _there(path: Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}); check its permissions.") from None
    return True


def _inside(path: Path, folder: Path) -> Path:
    """`path`, unless a link leads it out of the folder that was handed in: what it would read is not the student's."""
    try:
        own = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        own = True  # a loop, or a name that no file can have: reading it says so
    if not own:
        raise UsageError(f"{path} is a link that leads out of {folder}; hand in the file itself.")
    return path


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _read(path: Path) -> bytes:
    """The file's bytes, at most 256 KiB. Never waits, whatever the path turns out to be."""
    if not stat.S_ISREG(_status(path).st_mode):
        raise UsageError(f"{path} is not a regular file; name a Python file.")
    try:
        # Not blocking: the file may have been exchanged for a FIFO meanwhile.
        with open(path, "rb", opener=_open_at_once) as file:
            source = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({_reason(error)}); check its permissions.") from None
    if len(source) > MAX_BYTES:
        raise UsageError(f"{path} is larger than 256 KiB; name the Python file of the exercise.")
    return source


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _companions(exercise: Exercise, folder: Path, location: Path) -> dict[str, bytes]:
    """The student's compilable files of the exercises that this one builds on, by the exercise's name."""
    found = {}
    for name in exercise.companions:
        file = file_of(name)
        places = (folder / name / file, folder / "exercises" / name / file, folder / file, location.parent / file)
        source = next(filter(None, (_usable(place, folder) for place in places)), None)
        if source:
            found[name] = source
    return found


def _usable(path: Path, folder: Path) -> bytes | None:
    try:
        source = _read(_inside(path, folder))
    except UsageError:
        return None
    return None if _problem(source) else source


# --- whether it is Python --------------------------------------------------------------------------------------------


def _problem(source: bytes) -> Finding | None:
    """Why the file cannot be compiled, or None."""
    if not source.removeprefix(_BYTE_ORDER_MARK).strip():
        return Finding(subject="The file is empty", hint="Did you save it? Start from the stub's signatures.")
    if b"\0" in source:
        return _binary(source)
    try:
        text = _decoded(source)
    except UnicodeDecodeError as error:
        return _undecodable(source, error)
    except (SyntaxError, LookupError, UnicodeError) as error:
        return _unknown_coding(error)
    return _compile_problem(text)


def _binary(source: bytes) -> Finding:
    if source[:2] in (b"\xff\xfe", b"\xfe\xff"):
        actual, hint = "UTF-16", "Your editor can save the same text as UTF-8."
    else:
        actual, hint = "a binary file, with NUL bytes in it", "Is this the right file?"
    line = source[: source.index(b"\0")].count(b"\n") + 1
    return Finding(
        subject="The file is not text", expected="Python source in UTF-8", actual=actual, line=line, hint=hint
    )


def _decoded(source: bytes) -> str:
    """The text as `tokenize.open` reads it: a byte-order mark and a coding line count, every line ends in "\\n"."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return re.sub(r"\r\n?", "\n", source.decode(encoding))
    except SyntaxError:
        source.decode("utf-8")  # raises where the first lines are at fault, and not what they say of the coding
        raise


def _undecodable(source: bytes, error: UnicodeDecodeError) -> Finding:
    return Finding(
        subject="The file is not text",
        expected="Python source in UTF-8",
        actual=f"byte 0x{error.object[error.start]:02x}, which is not {_known(error.encoding)}",
        line=error.object[: error.start].count(b"\n") + 1,
        hint="Let your editor save the file as UTF-8.",
    )


def _known(encoding: str) -> str:
    """A codec's name for readers; Python calls every table of 256 letters "charmap"."""
    return "in the encoding that the file names" if encoding == "charmap" else encoding.upper()


def _unknown_coding(error: Exception) -> Finding:
    hint = "The comment with `coding:` at the top says so; UTF-8 needs none."
    return Finding(
        subject="The file's encoding is not known",
        expected="Python source in UTF-8",
        actual=str(error),
        line=1,
        hint=hint,
    )


def _compile_problem(text: str) -> Finding | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Of bytes Python 3.11 counts columns in bytes. The made-up name keeps it from reading a file of that name.
            compile(text, "<submission>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return _syntax_problem(error, text)
    except (RecursionError, MemoryError, ValueError, OverflowError, SystemError):
        return Finding(subject="The file is nested too deeply for Python to compile", hint="Split long expressions.")
    return None


def _syntax_problem(error: SyntaxError, text: str) -> Finding:
    return Finding(
        subject=f"{type(error).__name__}: {error.msg}",
        actual=_pointed(text, error.lineno, error.offset, error.text or ""),
        line=error.lineno or None,
        hint="Python names the place where it gave up; the mistake may stand just before it.",
    )


def _pointed(text: str, line: int | None, column: int | None, inner: str) -> str:
    """The source line and, below, a caret under the column (from 1); of a long line the part around it."""
    lines = text.removeprefix("\ufeff").split("\n")
    if not line or line > len(lines) or not lines[line - 1].strip():
        return ""
    shown = "".join(letter if letter.isprintable() else " " for letter in lines[line - 1]).rstrip()
    place = min(max((column or 1) - 1, 0) + _inner_column(shown, inner), len(shown))
    start = max(len(shown) - len(shown.lstrip()), place - _WIDTH // 2)
    place = max(place, start)
    return f"{shown[start : start + _WIDTH]}\n{' ' * _width(shown[start:place])}^"


def _inner_column(line: str, inner: str) -> int:
    """Where the expression of an f-string begins in its line, which Python 3.11 shows alone, in brackets."""
    expression = inner.strip()[1:-1]
    inside = inner.startswith("(") and inner.strip() not in line and expression in line
    return max(line.index(expression) - 1, 0) if inside else 0


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


# --- whether it is still the stub ------------------------------------------------------------------------------------


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
