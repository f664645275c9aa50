"""Nothing outlives its terminal: each command is the window's own, and the window is closed, or it is told to end."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grader.ranks.sandbox import obstacle
from tests import mending, small
from tests.conftest import CHOICE
from tests.watching import file_of, solution

PATIENCE = 240.0
pytestmark = pytest.mark.timeout(3 * PATIENCE)
CODE = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # as of a window whose own command this is: it hears of the terminal's end
from grader.cli import main
sys.argv = ["grader", *sys.argv[1:]]
main()
"""
LOOP = "def total(value):\n    while hasattr(value, 'clone'):\n        pass\n"
SINGLE = "limits" if obstacle() else "bubblewrap"
LEVELS = list(dict.fromkeys([SINGLE, "limits"]))


class Window:
    """A terminal with one command, which is its own."""

    def __init__(self, root: Path, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.written = b""
        self.command = subprocess.Popen(
            [sys.executable, "-c", CODE, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=root,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, text: str) -> None:
        """Read until it says a text."""
        end = time.monotonic() + PATIENCE
        while text.encode() not in self.written:
            assert time.monotonic() < end, self.written[-2000:]
            if select.select([self._ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.written += os.read(self._ours, 65536)

    def until_below(self, count: int) -> None:
        """Wait until so many processes are below it."""
        end = time.monotonic() + PATIENCE
        while len(self.everything()) <= count:
            assert time.monotonic() < end and self.command.poll() is None, self.written[-2000:]
            self.drain()

    def drain(self) -> None:
        if select.select([self._ours], [], [], 0.02)[0]:
            self.written += os.read(self._ours, 65536)

    def everything(self) -> list[psutil.Process]:
        own = psutil.Process(self.command.pid)
        return [own, *own.children(recursive=True)]

    def strike(self, how: str) -> None:
        if how == "window closed":
            self.close()
        else:
            self.command.send_signal(getattr(signal, how))

    def close(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


@contextlib.contextmanager
def window(root: Path, *words: str) -> Iterator[Window]:
    opened = Window(root, *words)
    try:
        yield opened
    finally:
        opened.close()
        for process in opened.everything() if opened.command.poll() is None else []:
            process.kill()
        opened.command.wait()


def gone(opened: Window, how: str) -> list[psutil.Process]:
    """Who is still there when it was told to end and has had its time."""
    everything = opened.everything()
    opened.strike(how)
    opened.command.wait(timeout=PATIENCE)
    _, alive = psutil.wait_procs(everything, timeout=PATIENCE)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path)


HOW = ["window closed", "SIGTERM"]
DIALOGUES = [
    (("interview", "--new", "--questions", "0"), "left]"),
    (("quiz",), "Your answer"),
    (("mend", "--spoil"), "left]"),
]
RANKS = {"watch": 5, "grade": 4}
"""How many processes stand below a command when its ranks run: the worker, the host with bubblewrap's
or its keeper, the supervisor."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("command", RANKS)
def test_while_ranks_loop_the_window_is_closed(root: Path, command: str, level: str) -> None:
    """Nothing at all is left, of an endless loop in the middle of a grade."""
    file_of(root).write_text(LOOP)
    with window(root, command, small.NAME, "--sandbox", CHOICE[level]) as opened:
        opened.until_below(RANKS[command])
        assert gone(opened, "window closed") == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOW)
def test_a_screen_that_waits_for_a_save_ends_with_its_window(root: Path, how: str) -> None:
    """It is idle: nobody presses a key, and nothing is graded."""
    file_of(root).write_text(solution(root))
    with window(root, "watch", small.NAME, "--sandbox", CHOICE[SINGLE]) as opened:
        opened.until("100")
        assert gone(opened, how) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("command", ["watch", "grade"])
def test_a_command_that_starts_ends_with_its_window(root: Path, command: str, how: str) -> None:
    """As soon as it has started somebody who imports torch."""
    with window(root, command, small.NAME, "--sandbox", CHOICE[SINGLE]) as opened:
        opened.until_below(1)
        assert gone(opened, how) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("words", "text"), DIALOGUES)
def test_a_dialogue_ends_with_its_window(root: Path, words: tuple[str, ...], text: str, how: str) -> None:
    """While it waits for a line, and the session that it has started for the first grade waits too."""
    mending.packed(root)
    (root / "quizzes").symlink_to(Path(__file__).resolve().parents[1] / "quizzes")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=S", "-c", "user.email=s@example.org", "commit", "-qm", "work"],
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    with window(root, *words) as opened:
        opened.until(text)
        assert gone(opened, how) == []


def test_a_hang_up_that_is_ignored_does_not_keep_a_screen_without_a_terminal(root: Path) -> None:
    """As of a shell that ignores it for all that it starts."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with window(root, "watch", small.NAME, "--sandbox", CHOICE[SINGLE]) as opened:
            opened.until_below(1)
            assert gone(opened, "window closed") == []
    finally:
        signal.signal(signal.SIGHUP, before)


QUICK = """
import atexit, os, sys, threading
from grader import leaving
leaving.quickly()
class Slow:
    def __del__(self):
        os.write(1, b"taken apart ")
kept = Slow()
atexit.register(os.write, 1, b"handler ")
last = threading.Event()
threading.Thread(target=lambda: (last.wait(), os.write(1, b"thread "))).start()
try:
    leaving.end_with(5)
finally:
    last.set()
"""


def test_a_command_ends_without_taking_its_modules_apart() -> None:
    """Threads that are waited for and what others have registered come first."""
    here = Path(__file__).resolve().parents[1]
    ended = subprocess.run([sys.executable, "-c", QUICK], cwd=here, capture_output=True, check=False)
    assert (ended.stdout, ended.returncode) == (b"thread handler ", 5)


LOST = """
import signal, sys, threading
from grader import leaving
number = signal.Signals[sys.argv[1]]
with leaving.handled(leaving.Stop(lambda number: SystemExit(7))):
    try:
        threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), number)).start()
        sys.stdin.readline() if sys.argv[2] == "line" else threading.Event().wait()
    except KeyboardInterrupt:
        sys.exit(7)
"""


@pytest.mark.parametrize("waits", ["line", "event"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_that_does_not_wake_the_main_thread_is_not_lost(name: str, waits: str) -> None:
    """As one that arrives when it is about to wait: here another thread receives it."""
    here = Path(__file__).resolve().parents[1]
    with subprocess.Popen([sys.executable, "-c", LOST, name, waits], cwd=here, stdin=subprocess.PIPE) as command:
        assert command.wait(timeout=PATIENCE) == 7
