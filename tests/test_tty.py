"""Terminals as they are found: without ✓, or left raw by a command that was killed."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from grader.cli.tty import use_letters

ROOT = Path(__file__).parents[1]
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
seen = b""
while b"ready" not in seen:
    seen += os.read(screen, 1024)
os.write(screen, b"yes\\r")
try:
    while chunk := os.read(screen, 1024):
        seen += chunk
except OSError:
    pass
sys.stdout.buffer.write(seen)
"""


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
