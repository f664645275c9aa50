"""Whether a student's file is Python: why it cannot be compiled, as a finding. It is never executed.

What a file may cost to compile nobody knows before, so `reader` does that in a process of its own, with limits.
"""

from __future__ import annotations

import ast
import io
import re
import signal
import subprocess
import sys
import tokenize
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.model import MIB, Finding
from grader.model.errors import RunError
from grader.submission import reader

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PATIENCE = 60.0
"""Seconds for all of it, where the machine is busy; processor time is what is counted."""
ENDLESS = "time"
_WIDTH = 76
_QUADRATIC = {"punycode", "idna"}
"""Codecs that take minutes for what a file may hold."""


def problem(source: bytes) -> Finding | None:
    """Why the file cannot be compiled, or None."""
    return look(source)[0]


def look(source: bytes, names: Sequence[str] = ()) -> tuple[Finding | None, bool]:
    """Why the file cannot be compiled, or None; and whether these names of it are as in the stub (see `reader`)."""
    found = _no_text(source)
    if isinstance(found, Finding):
        return found, False
    fault, untouched = _read(found, names)
    return _compile_problem(fault, found), untouched


def _no_text(source: bytes) -> Finding | str:
    """The file's text, or why it has none."""
    if not source.removeprefix(BYTE_ORDER_MARK).strip():
        return Finding(subject="The file is empty", hint="Did you save it? Start from the stub's signatures.")
    if b"\0" in source:
        return _binary(source)
    try:
        return _decoded(source)
    except UnicodeDecodeError as error:
        return _undecodable(source, error)
    except (SyntaxError, LookupError, UnicodeError) as error:
        return _unknown_coding(error)


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
        if encoding in _QUADRATIC:
            raise LookupError(f"unknown encoding: {encoding}")
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


def _read(text: str, names: Sequence[str]) -> tuple[Any, bool]:
    """What the reader says. Raises RunError where it is killed again and again, which no source can bring about."""
    words = [sys.executable, "-I", "-S", str(Path(reader.__file__).resolve()), *names]
    for _ in range(3):
        try:
            done = subprocess.run(
                words, input=text.encode("utf-8", "surrogatepass"), capture_output=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return ENDLESS, False
        if done.returncode == 0:
            fault, untouched = ast.literal_eval(done.stdout.decode())
            return fault, untouched is True
        if done.returncode == -getattr(signal, "SIGXCPU", 0):
            return ENDLESS, False
        if done.returncode != -signal.SIGKILL:
            return reader.NESTED, False  # the compiler fell over
    raise RunError("The process that compiles the submission was killed. Is memory short? Try again.")


def _compile_problem(fault: Any, text: str) -> Finding | None:
    match fault:
        case (kind, message, line, column, inner):
            return _syntax_problem(f"{kind}: {message}", text, line, column, inner)
        case reader.NESTED:
            subject = "The file is nested too deeply for Python to compile"
            return Finding(subject=subject, hint="Split long expressions.")
        case reader.MEMORY_GONE:
            return _too_much("memory", f"{reader.MEMORY // MIB} MiB")
        case "time":
            return _too_much("time", f"{reader.CPU_SECONDS} s of processor time")
    return None


def _too_much(what: str, most: str) -> Finding:
    return Finding(
        subject=f"The file takes too much {what} to compile",
        expected=f"at most {most}",
        actual="more",
        hint="Each level of a finally block, and each entry of a large literal, is compiled anew. Is all of it yours?",
    )


def _syntax_problem(subject: str, text: str, line: int | None, column: int | None, inner: str) -> Finding:
    return Finding(
        subject=subject,
        actual=_pointed(text, line, column, inner),
        line=line or None,
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
