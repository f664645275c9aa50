"""What a process writes, as the kit sees it, and how it is disturbed. In processes of its own: a spy stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = """
import os, pathlib, tempfile, torch
from grader.kit import disturb
folder = pathlib.Path({folder!r})
target = folder / "file.pt"
target.write_bytes(b"old")
spy = disturb.WriteSpy()
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    code = HEAD.format(folder=str(folder)) + code
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_spy_hears_of_every_way_to_write(tmp_path: Path) -> None:
    """Open files by Python, the system or torch's C++, and renames; not of reading, nor of other folders."""
    done = run(
        tmp_path,
        """
names, there = [], []
with spy.telling(disturb.note_writes(names, folder)):
    (folder / "a").write_text("x")
    os.close(os.open(folder / "b", os.O_WRONLY | os.O_CREAT))
    torch.save(1, folder / "c")
    os.replace(folder / "c", folder / "d")
    target.read_bytes()
    with tempfile.NamedTemporaryFile() as elsewhere:
        torch.save(1, elsewhere)
(folder / "e").write_text("unheard")
print(sorted(set(names)))
""",
    )
    assert done.stdout.strip() == "['a', 'b', 'c', 'd']", done.stderr


def test_a_limit_makes_a_write_fail_and_can_be_lifted(tmp_path: Path) -> None:
    """The process goes on, and writes again."""
    done = run(
        tmp_path,
        """
disturb.limit_files(100)
try:
    target.write_bytes(bytes(200))
except OSError as error:
    print(type(error).__name__, target.stat().st_size)
disturb.limit_files(None)
print(target.write_bytes(bytes(200)))
""",
    )
    assert done.stdout.split() == ["OSError", "100", "200"], done.stderr


@pytest.mark.one_in(3)
def test_who_touches_the_target_dies(tmp_path: Path) -> None:
    """Writing in place dies in the middle of it; a finished file from the same folder is not renamed any more."""
    in_place = 'with spy.telling(disturb.die_at(target)):\n    torch.save(list(range(9)), target)\nprint("alive")'
    done = run(tmp_path, in_place)
    assert done.returncode < 0 and not done.stdout and (tmp_path / "file.pt").read_bytes() != b"old"
    renamed = (
        'new = folder / "new"\ntorch.save(1, new)\nwith spy.telling(disturb.die_at(target)):\n    new.replace(target)'
    )
    done = run(tmp_path, renamed)
    assert done.returncode < 0 and (tmp_path / "file.pt").read_bytes() == b"old"
