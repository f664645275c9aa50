"""Terminals as they are found: without ✓, or left raw by a command that was killed."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from click import testing

from grader.cli.tty import use_letters
from grader.practice import watch
from tests import batches, small
from tests.commands import call

ROOT = Path(__file__).parents[1]
TYPES = """
seen = b""
while b"ready" not in seen:
    seen += os.read(screen, 1024)
os.write(screen, b"{keys}")
try:
    while chunk := os.read(screen, 1024):
        seen += chunk
except OSError:
    pass
sys.stdout.buffer.write(seen)
"""
"""What a pseudo-terminal's other side does: types once somebody is ready, and prints all that was shown."""

RAW = """
import os, pty, sys, termios, tty
pid, screen = pty.fork()
if pid == 0:
    tty.setraw(0)
    termios.tcsetattr(0, termios.TCSANOW, [*termios.tcgetattr(0)[:3], 0, *termios.tcgetattr(0)[4:]])
    from grader.cli.tty import mend
    mend()
    print("ready", flush=True)
    print("you typed", input(), flush=True)
    os._exit(0)
""" + TYPES.format(keys="yes\\r")


ECHO = """
import os, pty, sys, termios
pid, screen = pty.fork()
if pid == 0:
    from grader.cli.tty import unechoed
    with unechoed():
        print("ready", flush=True)
        line = sys.stdin.readline()
    print("read", line.strip().upper(), "echo", bool(termios.tcgetattr(0)[3] & termios.ECHO), flush=True)
    os._exit(0)
""" + TYPES.format(keys="typed\\n")


def test_what_is_typed_while_a_spinner_turns_is_not_shown_and_not_lost():
    done = subprocess.run([sys.executable, "-c", ECHO], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "read TYPED echo True" in done.stdout and "typed" not in done.stdout


def test_a_terminal_without_a_check_mark_gets_letters(monkeypatch):
    """As wide as the signs, so that columns stay; and nothing fails."""
    paper = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", paper)
    use_letters()
    print(" ✓ right – “so” · ✗ wrong │ 10⁹ ┌ 中", flush=True)
    assert paper.buffer.getvalue().decode("latin-1") == ' v right - "so" · x wrong | 109 + ?\n'


def test_a_terminal_that_a_killed_command_left_raw_does_not_trap_the_next():
    """Enter ends a line again and Ctrl-C interrupts; the full screen of the other is left."""
    done = subprocess.run([sys.executable, "-c", RAW], check=False, cwd=ROOT, capture_output=True, timeout=60)
    assert b"you typed yes\r\n" in done.stdout and b"\x1b[?1049l" in done.stdout, done


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def narrow(monkeypatch):
    """Every stream of a command is a terminal of 40 columns."""
    monkeypatch.setattr(testing._NamedTextIOWrapper, "isatty", lambda stream: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")


def wrapped_at_words(page: str) -> bool:
    """Whether no line of some is too long but for one word alone."""
    lines = page.rstrip("\n").split("\n")
    return len(lines) > 1 and all(len(line) <= 40 or " " not in line.strip() for line in lines)


@pytest.mark.parametrize(
    "words", [("new", "91_all_of_it"), ("reset", "90"), ("mends", "--check"), ("list", "--no-such-option-of-any-kind")]
)
def test_a_terminal_never_has_to_split_a_word(tmp_path, monkeypatch, narrow, words):
    """Nor where click itself refuses what was typed."""
    monkeypatch.chdir(small.build(tmp_path))
    done = call(*words)
    assert wrapped_at_words(done.output), done.output


def test_a_batch_is_wrapped_on_a_terminal_and_has_a_line_for_each_sentence_elsewhere(tmp_path, monkeypatch):
    batches.class_of_three(tmp_path, monkeypatch)
    batches.faked_engine(monkeypatch)
    assert batches.grade("--seed", 1).stdout.count("\n") == 2
    monkeypatch.setattr(testing._NamedTextIOWrapper, "isatty", lambda stream: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    for done in (batches.grade("--plain"), batches.call("status", "out"), batches.call("diff", "out")):
        assert done.exit_code == 0 and wrapped_at_words(done.stdout), done.stdout


def test_plain_lines_of_watch_mode_are_wrapped_as_far_in_as_they_begin(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    watch._say(f"  expected {'a word or two ' * 5}")
    lines = screen.getvalue().splitlines()
    assert len(lines) == 3 and all(len(line) <= 40 and line.startswith("  ") for line in lines)
