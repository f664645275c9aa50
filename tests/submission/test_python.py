"""grader.submission: a student's file is read once and compiled, never executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.model import Finding
from grader.model.errors import RunError
from grader.submission import reader
from tests.submission.receiving import received, write


def problem(root: Path, source: bytes) -> Finding:
    found = received(root, write(root / "s.py", source)).problem
    assert found is not None
    return found


@pytest.mark.parametrize("source", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_the_students_problem(root: Path, source: bytes) -> None:
    """White space and a byte-order mark alone count as empty."""
    assert problem(root, source).subject == "The file is empty"


def test_a_binary_file_is_the_students_problem(root: Path) -> None:
    """NUL bytes say so, with their line; UTF-16 is told apart."""
    assert (problem(root, b"x = 1\n\x7fELF\0\0").line, problem(root, b"a\0").expected) == (2, "Python source in UTF-8")
    assert problem(root, "x = 1\n".encode("utf-16")).actual == "UTF-16"


@pytest.mark.parametrize(("source", "line"), [(b"# caf\xe9\n", 1), (b"x = 1\n\ny = 2\nz = '\xe9'\n", 4)])
def test_a_file_that_is_not_utf8_is_the_students_problem(root: Path, source: bytes, line: int) -> None:
    """With the byte and its line."""
    found = problem(root, source)
    assert (found.subject, found.line) == ("The file is not text", line)
    assert found.actual == "byte 0xe9, which is not UTF-8"


@pytest.mark.parametrize(
    "source",
    [b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", b"#!/usr/bin/python\n# vim: fileencoding=cp1252\nx = '\x80'\n",
     b"\xef\xbb\xbfx = '\xc3\xa9'\n", b"x = 1\r\nif x:\r\n    y = '''a\r\n'''\r\n", b"x = 1\ry = 2\r", b"\x0cx = 1\n"],
)  # fmt: skip
def test_what_python_reads_is_no_problem(root: Path, source: bytes) -> None:
    """Coding lines, a byte-order mark and all line ends are honoured."""
    assert received(root, write(root / "s.py", source)).problem is None


@pytest.mark.parametrize("coding", ["klingon", "rot13", "hex", "undefined", "idna", "punycode"])
def test_an_unusable_coding_line_is_the_students_problem(root: Path, coding: str) -> None:
    """Unknown codecs, those that are none for text, and those that take minutes."""
    assert problem(root, f"# coding: {coding}\nx = 'é..'\n".encode()).expected == "Python source in UTF-8"


def test_a_byte_outside_a_named_encoding_is_the_students_problem(root: Path) -> None:
    """A table of letters has no name of its own."""
    found = problem(root, b"# coding: cp1252\nx = '\x81'\n")
    assert found.actual == "byte 0x81, which is not in the encoding that the file names" and found.line == 2


@pytest.mark.parametrize(
    ("source", "subject", "line", "actual"),
    [
        ("x = 1\ndef f(:\n", "SyntaxError: invalid syntax", 2, "def f(:\n      ^"),
        ("def f():\nreturn 1\n", "IndentationError: expected an indented block after", 2, "return 1\n^"),
        ("def f():\n    x = (1,\n", "SyntaxError: '(' was never closed", 2, "x = (1,\n    ^"),
        ("if 1:\n\tx = 1\n        y = 2\n", "TabError: inconsistent use", 3, "y = 2\n^"),
        ("if 1:\n\tx = 1 2\n", "SyntaxError: invalid syntax", 2, "x = 1 2\n      ^"),
        ("x = 1\n\nreturn x\n", "SyntaxError: 'return' outside function", 3, "return x\n^"),
        ('x = "日本" 1\n', "SyntaxError: invalid syntax", 1, 'x = "日本" 1\n           ^'),
        ('x = "a" \x1b[31m\n', "SyntaxError: invalid non-printable character", 1, 'x = "a"  [31m\n        ^'),
        ("a = 1\r\nb = )\r\n", "SyntaxError: unmatched ')'", 2, "b = )\n    ^"),
        ("a = 1\rb = )\r", "SyntaxError: unmatched ')'", 2, "b = )\n    ^"),
        (
            'def f():\n    x = f"q {a b} r"\n',
            "SyntaxError: f-string: invalid syntax",
            2,
            'x = f"q {a b} r"\n         ^',
        ),
    ],
)
def test_a_syntax_error_is_shown_with_its_line_and_caret(
    root: Path, source: str, subject: str, line: int, actual: str
) -> None:
    """Message, line, and two lines: the source and a caret under the column."""
    found = problem(root, source.encode())
    assert found.subject.startswith(subject)
    assert (found.line, found.actual) == (line, actual)


def test_of_a_long_line_the_part_around_the_caret_is_shown(root: Path) -> None:
    """At most 76 columns, with the caret inside."""
    shown, caret = problem(root, b"x = [" + b"1, " * 5000 + b"2 3]\n").actual.split("\n")
    assert len(shown) <= 76 and shown[len(caret) - 1 :].startswith("2 3]")


@pytest.mark.parametrize("source", ["x = " + "-" * 50_000 + "1", "x = a" + ".a" * 50_000, "x = " + "a+" * 50_000 + "a"])
def test_a_file_nested_too_deeply_is_the_students_problem(root: Path, source: str) -> None:
    """The compiler gives up, the grader does not."""
    assert "nested too deeply" in problem(root, source.encode()).subject


def test_a_file_that_takes_too_much_to_compile_is_the_students_problem(root: Path) -> None:
    """Each level of a finally block doubles what is compiled: the compiler's process reaches its limit, the grader
    does not."""
    levels = [f"{'  ' * depth}try:\n{'  ' * depth}  x\n{'  ' * depth}finally:\n" for depth in range(18)]
    found = problem(root, f"{''.join(levels)}{'  ' * 18}pass\n".encode())
    assert found.subject == "The file takes too much memory to compile" and found.expected == "at most 384 MiB"


def test_a_killed_compiler_is_no_problem_of_the_students(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started anew; who kills it again and again is not the source."""
    monkeypatch.setattr(reader, "__file__", str(write(root / "r.py", b"import os; os.kill(os.getpid(), 9)\n")))
    with pytest.raises(RunError, match="compiles the submission was killed"):
        received(root)


def test_nothing_is_executed_and_no_warning_is_heard(
    root: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Compiling is all; warnings about the student's text stay silent, and no future feature is inherited."""
    source = f"open({str(tmp_path / 'trace')!r}, 'w')\nx = 1 is 1\ny = '\\d'\nassert (x, 'y')\n"
    assert received(root, write(root / "s.py", source.encode())).problem is None
    assert not (tmp_path / "trace").exists() and not recwarn.list
