"""Any bytes, names and links handed in give a submission or a usage error."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import catalog
from grader.model import Finding, Submission
from grader.model.errors import UsageError
from grader.submission import begun, receive
from tests import small
from tests.fuzzing import damaged, fuzz

CODINGS = ["utf-8", "latin-1", "ascii", "cp1252", "utf-7", "utf-16", "utf-32", "utf-8-sig", "idna", "punycode", "rot13"]
CODINGS += ["zlib", "hex", "base64", "undefined", "unicode_escape", "raw_unicode_escape", "hz", "iso2022_jp", "big5"]
CODINGS += ["shift_jis", "gb18030", "mbcs", "oem", "cp65001", "koi8-r", "nonsense"]
PIECES = (
    [b"\0", b"\r", b"\r\n", b"\x0c", b"\xef\xbb\xbf", b"\xff\xfe", b"f'{", b'"""', b"\\N{x}", b"\\", b"#", b"(" * 300]
    + [b"def total(value):\n", b"    raise NotImplementedError\n", b"class A:\n", b"\t", b"\xc3", b"\xe2\x80\xa8"]
    + [f"# coding: {name}\n".encode() for name in CODINGS]
)
SOURCES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), max_size=8).map(b"".join)


@fuzz(400)
@given(SOURCES | damaged(small.FILES["reference/90_total/total.py"].encode(), tuple(PIECES)))
def test_any_bytes_become_a_submission(root: Path, source: bytes) -> None:
    """With a problem or without; the problem is a sentence that can be printed."""
    exercise = catalog.load(small.NAME, root)
    path = root / "exercises" / small.NAME / "total.py"
    path.write_bytes(source)
    received = receive(exercise, path, root)
    assert isinstance(received, Submission) and received.source == source
    if received.problem is not None:
        assert type(received.problem) is Finding and len(received.problem.sentence()) < 2000
        received.problem.sentence().encode("utf-8", "surrogateescape")
    begun(exercise, root)


@pytest.mark.parametrize("coding", CODINGS)
def test_no_encoding_makes_a_large_file_slow(root: Path, coding: str) -> None:
    """A megabyte in any encoding that a first line may name."""
    exercise = catalog.load(small.NAME, root)
    path = root / "slow.py"
    start = time.process_time()
    for piece in (b"a-9b", b"+AGE-", b"a", b"\x1b$B", b"~{"):
        path.write_bytes(f"# coding: {coding}\n#".encode() + piece * (250_000 // len(piece)))
        assert isinstance(receive(exercise, path, root), Submission)
    assert time.process_time() - start < 20


NAMES = st.text(st.characters(), max_size=30) | st.sampled_from(
    [
        "\0",
        "x" * 5000,
        "../" * 2000,
        "/dev/zero",
        "/dev/tty",
        "/proc/self/mem",
        "/proc/self/fd/0",
        "\udcff",
        "",
        ".",
        "~",
    ]
)


@fuzz(150)
@given(NAMES)
def test_any_name_gives_a_usage_error_or_a_submission(root: Path, name: str) -> None:
    """Names that no file can have, devices, folders, and bytes that are no text."""
    exercise = catalog.load(small.NAME, root)
    for path in (Path(name), root / "nowhere" / name.lstrip("/")):
        with contextlib.suppress(UsageError):
            receive(exercise, path, root)


@pytest.mark.parametrize("kind", ["fifo", "loop", "folder"])
def test_a_path_that_is_no_file_is_refused_at_once(root: Path, tmp_path: Path, kind: str) -> None:
    """Nothing waits for a FIFO's writer or follows a loop of links."""
    path = tmp_path / "total.py"
    {"fifo": os.mkfifo, "loop": lambda p: p.symlink_to(p), "folder": Path.mkdir}[kind](path)
    for chosen in (path, tmp_path):
        with pytest.raises(UsageError):
            receive(catalog.load(small.NAME, root), chosen, root)


@pytest.mark.parametrize("where", ["total.py", "90_total/total.py", "exercises"])
def test_a_link_out_of_the_folder_is_refused(root: Path, tmp_path: Path, where: str) -> None:
    """Neither the reference nor another file of this machine can be handed in by a link, of the file or of a folder."""
    outside = tmp_path / "outside"
    (outside / small.NAME).mkdir(parents=True)
    for target in (outside / "total.py", outside / small.NAME / "total.py"):
        target.write_text("secret = 1\n")
    link = tmp_path / "handed in" / where
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / where if where.endswith(".py") else outside)
    with pytest.raises(UsageError, match="link that leads out"):
        receive(catalog.load(small.NAME, root), tmp_path / "handed in", root)
