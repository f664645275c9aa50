"""grader.submission: a student's file is found, read once and compiled, never executed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from grader.model import Exercise, Finding, RequiredName, Submission
from grader.model.errors import RunError, UsageError
from grader.submission import begun, reader, receive

GOOD = b"import torch\n\ndef train_ddp(rank):\n    return rank\n"
STUB = '''\
import torch


def train_ddp(rank):
    """Trains."""
    # TODO: join the group
    lr = 0.1
    raise NotImplementedError("train_ddp")


class Sampler:
    """Shards."""

    def __init__(self, n):
        super().__init__()
        raise NotImplementedError

    def set_epoch(self, epoch):
        raise NotImplementedError
'''


def exercise_at(
    root: Path, *, companions: tuple[str, ...] = (), requires: tuple[str, ...] = ("train_ddp",)
) -> Exercise:
    return Exercise(
        name="03_train_ddp",
        title="t",
        summary="s",
        folder=root / "exercises" / "03_train_ddp",
        file="train_ddp.py",
        requires=tuple(RequiredName(name=name) for name in requires),
        cases=(),
        checks=(),
        companions=companions,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which the student has written exercise 03."""
    write(tmp_path / "exercises" / "03_train_ddp" / "train_ddp.py", GOOD)
    return tmp_path


def write(path: Path, source: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source)
    return path


def received(root: Path, path: Path | None = None, **settings: tuple[str, ...]) -> Submission:
    return receive(exercise_at(root, **settings), path, root)


def refused(root: Path, path: Path | None) -> str:
    """The one sentence of the UsageError that the path leads to."""
    with pytest.raises(UsageError) as caught:
        received(root, path)
    sentence = str(caught.value)
    assert str(path or "train_ddp.py") in sentence and sentence.endswith(".") and "\n" not in sentence
    return sentence


def problem(root: Path, source: bytes) -> Finding:
    found = received(root, write(root / "s.py", source)).problem
    assert found is not None
    return found


# --- where the file is -----------------------------------------------------------------------------------------------


def test_without_a_path_the_students_own_file_is_taken(root: Path) -> None:
    """With its bytes and their sha256."""
    submission = received(root)
    assert submission.path == root / "exercises" / "03_train_ddp" / "train_ddp.py"
    assert (submission.source, submission.problem) == (GOOD, None)
    assert submission.digest == hashlib.sha256(GOOD).hexdigest()


def test_a_file_of_any_name_is_taken(root: Path, tmp_path: Path) -> None:
    """What the student calls the file does not matter."""
    assert received(root, write(tmp_path / "my solution.txt", GOOD)).source == GOOD


def test_a_folder_stands_for_the_exercises_file_in_it(root: Path, tmp_path: Path) -> None:
    """Directly, or in a folder of the exercise's name; the direct one first."""
    folder = tmp_path / "hand-in"
    nested = write(folder / "03_train_ddp" / "train_ddp.py", b"a = 1\n")
    assert received(root, folder).path == nested
    direct = write(folder / "train_ddp.py", b"b = 1\n")
    assert received(root, folder).path == direct


def test_a_folder_without_the_file_says_which_file_is_meant(root: Path, tmp_path: Path) -> None:
    """The sentence names the folder and the file."""
    write(tmp_path / "hand-in" / "other.py", GOOD)
    assert "holds no train_ddp.py" in refused(root, tmp_path / "hand-in")


def test_a_deleted_stub_can_be_brought_back(root: Path) -> None:
    """The sentence says how."""
    (root / "exercises" / "03_train_ddp" / "train_ddp.py").unlink()
    assert "make reset EX=03" in refused(root, None)


@pytest.mark.parametrize("name", ["missing.py", "s.py/below.py", "x" * 300, "nul\0byte"])
def test_a_path_to_nothing_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    """In a sentence with the path, whatever the system says about it."""
    write(tmp_path / "s.py", GOOD)
    refused(root, tmp_path / name)


def test_what_is_no_regular_file_is_refused_at_once(root: Path, tmp_path: Path) -> None:
    """A FIFO, a device and a folder named as the file: nothing is waited for."""
    os.mkfifo(tmp_path / "fifo.py")
    assert "not a regular file" in refused(root, tmp_path / "fifo.py")
    assert "not a regular file" in refused(root, Path("/dev/zero"))
    (tmp_path / "hand-in" / "train_ddp.py").mkdir(parents=True)
    with pytest.raises(UsageError, match="not a regular file"):
        received(root, tmp_path / "hand-in")


def test_symbolic_links_count_as_what_they_lead_to(root: Path, tmp_path: Path) -> None:
    """A link to a file is fine, a loop and a dangling one are refused."""
    (tmp_path / "link.py").symlink_to(write(tmp_path / "s.py", GOOD))
    assert received(root, tmp_path / "link.py").source == GOOD
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    refused(root, tmp_path / "loop.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")
    refused(root, tmp_path / "dangling.py")


def test_a_dangling_link_in_a_folder_is_no_missing_file(root: Path, tmp_path: Path) -> None:
    """The link is named, not the folder."""
    (tmp_path / "hand-in").mkdir()
    (tmp_path / "hand-in" / "train_ddp.py").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"hand-in/train_ddp\.py"):
        received(root, tmp_path / "hand-in")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser reads everything")
def test_an_unreadable_file_is_refused(root: Path, tmp_path: Path) -> None:
    """With the system's reason."""
    write(tmp_path / "s.py", GOOD).chmod(0)
    assert "Permission denied" in refused(root, tmp_path / "s.py")


def test_a_file_that_cannot_be_opened_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same promise, whoever runs the test."""

    def denied(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("grader.submission.found._open_at_once", denied)
    assert "Permission denied" in refused(root, write(tmp_path / "s.py", GOOD))


def test_a_file_of_256_kibibytes_is_read_and_a_larger_one_refused(root: Path, tmp_path: Path) -> None:
    """The limit is exact."""
    path = write(tmp_path / "s.py", b"#" * 2**18)
    assert received(root, path).problem is None
    write(path, b"#" * (2**18 + 1))
    assert "larger than 256 KiB" in refused(root, path)


# --- whether it is Python --------------------------------------------------------------------------------------------


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


# --- companions ------------------------------------------------------------------------------------------------------

COMPANIONS = ("01_process_group", "02_shard_data")


def test_companions_lie_in_exercises_when_no_path_is_given(root: Path) -> None:
    """Only those that exist and compile."""
    write(root / "exercises" / "02_shard_data" / "shard_data.py", b"b = 2\n")
    write(root / "exercises" / "01_process_group" / "process_group.py", b"def f(:\n")
    assert received(root, companions=COMPANIONS).companions == {"02_shard_data": b"b = 2\n"}


def test_companions_lie_in_the_folder_that_was_handed_in(root: Path, tmp_path: Path) -> None:
    """In a folder of the exercise's name or beside the file; those in exercises/ do not count."""
    folder = tmp_path / "hand-in"
    write(root / "exercises" / "02_shard_data" / "shard_data.py", b"wrong = 1\n")
    write(folder / "03_train_ddp" / "train_ddp.py", GOOD)
    assert received(root, folder, companions=COMPANIONS).companions == {}
    write(folder / "01_process_group" / "process_group.py", b"a = 1\n")
    write(folder / "shard_data.py", b"b = 2\n")
    found = received(root, folder, companions=COMPANIONS).companions
    assert found == {"01_process_group": b"a = 1\n", "02_shard_data": b"b = 2\n"}


def test_a_single_file_has_no_companions(root: Path, tmp_path: Path) -> None:
    """What lies beside a file that was named alone was not handed in."""
    write(tmp_path / "hand-in" / "shard_data.py", b"b = 2\n")
    path = write(tmp_path / "hand-in" / "train_ddp.py", GOOD)
    assert received(root, path, companions=COMPANIONS).companions == {}


# --- whether it is still the stub ------------------------------------------------------------------------------------

REQUIRES = ("train_ddp", "Sampler", "Sampler.set_epoch")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", False),
        ("# TODO: join the group", "# a thought", False),
        ('    raise NotImplementedError("train_ddp")', "    return lr", True),
        ("        super().__init__()\n        raise NotImplementedError", "        super().__init__()", True),
        ("epoch):\n        raise NotImplementedError", "epoch):\n        self.epoch = epoch", True),
        ("def train_ddp", "def trian_ddp", True),
        ("def train_ddp(rank):", "def train_ddp(rank:", True),
        ("    lr = 0.1\n    raise", "    if rank < 0:\n        raise", True),
    ],
)
def test_an_exercise_is_begun_when_a_required_function_no_longer_refuses(
    root: Path, old: str, new: str, expected: bool
) -> None:
    """Comments do not count; a renamed function and a file that does not compile do."""
    assert old in STUB
    write(root / "exercises" / "03_train_ddp" / "train_ddp.py", STUB.replace(old, new, 1).encode())
    assert begun(exercise_at(root, requires=REQUIRES), root) is expected


@pytest.mark.parametrize(("source", "expected"), [(b"", False), (b"if 1:\n    raise NotImplementedError\n", False),
                                                  (b"print(1)\n", True)])  # fmt: skip
def test_a_script_is_begun_when_nothing_in_it_refuses(root: Path, source: bytes, expected: bool) -> None:
    """Where no name is required, the whole file counts; an empty one is not begun."""
    write(root / "exercises" / "03_train_ddp" / "train_ddp.py", source)
    assert begun(exercise_at(root, requires=()), root) is expected


def test_an_exercise_whose_stub_runs_is_begun_when_it_is_another_file(root: Path) -> None:
    """There no function refuses, so its digest tells."""
    source = b"def train_ddp(rank):\n    return rank\n"
    given = replace(exercise_at(root), stub_digest=hashlib.sha256(source).hexdigest())
    for content, expected in ((source, False), (source.replace(b"rank\n", b"-rank\n"), True), (b" \n", False)):
        write(root / "exercises" / "03_train_ddp" / "train_ddp.py", content)
        assert begun(given, root) is expected


def test_a_missing_file_is_not_begun(root: Path) -> None:
    """And no error."""
    (root / "exercises" / "03_train_ddp" / "train_ddp.py").unlink()
    assert begun(exercise_at(root), root) is False
