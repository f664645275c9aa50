"""Watch mode in a real pseudo-terminal, with real keys, real saves and a real worker."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest

from tests import small
from tests.watching import file_of, solution

PATIENCE = 60.0
CODE = """
import fcntl, sys, termios
from pathlib import Path
from grader.practice import watch
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
sys.exit(watch.run(sys.argv[1], Path(sys.argv[2])))
"""
ESCAPES = re.compile(
    r"\x1b(?:\[[0-9;:?<>=]*[a-zA-Z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][A-Z0-9]|[=>78cM])"
)


class Terminal:
    """A pseudo-terminal in which watch mode runs. `seen` is what was written since the last `until`."""

    def __init__(self, root: Path, **variables: str) -> None:
        self._master, theirs = pty.openpty()
        self.resize(100, 30)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, small.NAME, str(root)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", **variables},
            start_new_session=True,
        )
        os.close(theirs)
        self.written = b""
        self._from = 0

    @property
    def seen(self) -> str:
        return ESCAPES.sub("", self.written[self._from :].decode(errors="replace"))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> str:
        """Read until a text was written since the last such text. What was seen."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in {self.seen[-2000:]!r}"
            assert self._read(0.5) or self.process.poll() is None, f"ended without {text!r}: {self.seen[-2000:]!r}"
        seen, self._from = self.seen, len(self.written)
        return seen

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self.written += more
        return bool(more)

    def ended(self) -> int:
        """The exit code, when it is there."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end
            self._read(0.1)
        while self._read(0.1):
            pass
        return self.process.returncode

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def renamed_over(path: Path, text: str) -> None:
    """Save as many editors do: write a temporary file and put it in the place of the other."""
    partial = path.with_name(".total.py.swp")
    partial.write_text(text)
    partial.replace(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path)


def test_a_person_fails_asks_passes_and_leaves(root: Path) -> None:
    """Real keys and a real save through a temporary file; afterwards the terminal is as before, and nothing is left."""
    terminal = Terminal(root)
    try:
        terminal.until("Where to start:")
        terminal.press("h")
        terminal.until("Hint 1 of 3")
        renamed_over(file_of(root), "def total(:\n")
        terminal.until("SyntaxError")
        renamed_over(file_of(root), solution(root))
        terminal.until("Every check passed")
        terminal.resize(40, 12)
        terminal.press("?")
        terminal.until("the check above")
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        assert len(children) > 1
        terminal.press("?q")
        assert terminal.ended() == 0
        assert b"\x1b[?1049l" in terminal.written and b"Traceback" not in terminal.written
        assert not psutil.wait_procs(children, timeout=PATIENCE)[1]
    finally:
        terminal.close()


@pytest.mark.one_in(2)
def test_a_dumb_terminal_gets_plain_lines_until_ctrl_c(root: Path) -> None:
    terminal = Terminal(root, TERM="dumb")
    try:
        terminal.until("Waiting for a save.")
        file_of(root).write_text(solution(root))
        seen = terminal.until("Waiting for a save.")
        assert "Saved; grading." in seen and "Score 100 of 100" in seen
        assert b"\x1b" not in terminal.written
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.press("\x03")
        assert terminal.ended() == 0 and not psutil.wait_procs(children, timeout=PATIENCE)[1]
    finally:
        terminal.close()


def test_what_it_started_ends_with_it_however_that_ends(root: Path) -> None:
    """Killed, it can end nothing itself: the worker sees that nobody listens any more."""
    terminal = Terminal(root)
    try:
        terminal.until("starting")
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.process.kill()
        assert children and not psutil.wait_procs(children, timeout=PATIENCE)[1]
    finally:
        terminal.close()
