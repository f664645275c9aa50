"""Whether a file is still the stub."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from grader.submission import begun
from tests.submission.receiving import exercise_at, write

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
REQUIRES = ("train_ddp", "Sampler", "Sampler.set_epoch")


def test_the_same_bytes_are_looked_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look takes a process."""
    exercise = exercise_at(root)
    looks: list[bytes] = []

    def look(source: bytes, names: object) -> tuple[None, bool]:
        looks.append(source)
        return None, True

    monkeypatch.setattr(sys.modules["grader.submission.begun"], "look", look)
    for text in (STUB + "# once", STUB + "# once", STUB + "# again"):
        write(root / "exercises" / "03_train_ddp" / "train_ddp.py", text.encode())
        assert not begun(exercise, root)
    assert len(looks) == 2


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
