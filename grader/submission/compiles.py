"""Whether a student's file is Python: why it cannot be compiled, as a finding. It is never executed."""

from __future__ import annotations

import io
import re
import tokenize
import unicodedata
import warnings

from grader.model import Finding

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDTH = 76


def problem(source: bytes) -> Finding | None:
    """Why the file cannot be compiled, or None."""
    if not source.removeprefix(BYTE_ORDER_MARK).strip():
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
