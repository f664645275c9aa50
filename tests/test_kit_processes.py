"""Whether other processes wait, have ended or were left behind, as probes see it; calls that are broken off."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.kit.meeting import wait_until
from grader.kit.processes import Activity, WatchedCall, asleep_for, has_ended, left_behind, moved, waits

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


@pytest.fixture
def processes() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One that sleeps, and one that computes."""
    codes = {"sleeps": "import time; time.sleep(60)", "computes": "while True: pass"}
    started = {name: subprocess.Popen([sys.executable, "-c", code]) for name, code in codes.items()}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


def test_who_sleeps_waits_and_who_computes_does_not(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """One that computes keeps the others from counting as asleep, however long they are."""
    sleeper, computer = (processes[name].pid for name in ("sleeps", "computes"))
    assert wait_until(asleep_for(20, [sleeper]))
    time.sleep(0.1)
    assert not waits(computer) and not has_ended(computer)
    assert not wait_until(asleep_for(3, [sleeper, computer]), seconds=0.2)


def test_a_process_that_was_killed_has_ended(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Before its parent asks for it, and after."""
    sleeper = processes["sleeps"]
    assert not has_ended(sleeper.pid)
    sleeper.kill()
    assert wait_until(lambda: has_ended(sleeper.pid))
    sleeper.wait()
    assert has_ended(sleeper.pid)


def test_who_is_left_behind_is_told_by_its_state_and_killed(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """A zombie is left behind as well, until its parent has waited for it."""
    sleeper, computer = processes["sleeps"], processes["computes"]
    computer.kill()
    assert wait_until(lambda: has_ended(computer.pid))
    assert wait_until(asleep_for(5, [sleeper.pid]))
    assert left_behind([sleeper.pid, computer.pid], seconds=0) == ["sleeping", "zombie"]
    assert sleeper.wait() == computer.wait() == -9
    assert left_behind([sleeper.pid, computer.pid]) == []


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({1: Activity(False, 5.0)}, {1: Activity(False, 5.01)}, False),
        ({1: Activity(True, 5.0)}, {1: Activity(False, 5.0)}, False),
        ({1: Activity(True, 5.0)}, {1: Activity(True, 5.0)}, True),
        ({1: Activity(False, 5.0)}, {1: Activity(False, 5.1)}, True),
        ({1: Activity(False, 5.0)}, {1: Activity(False, 5.0), 2: Activity(False, 0.0)}, True),
        ({1: Activity(False, 5.0), 2: Activity(False, 0.0)}, {1: Activity(False, 5.0)}, True),
    ],
)
def test_a_tree_moves(before: dict[int, Activity], now: dict[int, Activity], expected: bool) -> None:
    """If a process comes or goes, wants a core at both looks, though it may not get it, or uses one."""
    assert moved(before, now) is expected


STUCK = """
import subprocess, sys, time
from pathlib import Path
from grader.kit import processes

def stuck():
    below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    below.wait()
    time.sleep(60)

watch = processes.WatchedCall(__file__, lambda: 3, Path("given_up").touch)
print(watch.run(stuck), watch.hung, watch.line, watch.quiet > 3)
watch = processes.WatchedCall(__file__, lambda: 3)
print(watch.run(lambda: "back"), watch.hung, watch.line, watch.quiet > 3)
"""


def test_a_call_in_which_nothing_moves_is_broken_off(tmp_path: Path) -> None:
    """With what it waited for, and the line at which it did; the next call is watched anew."""
    (tmp_path / "calls.py").write_text(STUCK)
    command = [sys.executable, "calls.py"]
    found = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert found.stdout.splitlines() == ["None True 8 True", "back False None False"], found.stderr
    assert (tmp_path / "given_up").exists()


RESTLESS = """
import time
from grader.kit import processes

def asks():
    while True:
        sum(range(10**5))

watch = processes.WatchedCall(__file__, lambda: 10**9, longest=lambda: 3)
print(watch.run(asks), watch.hung, watch.moving, watch.line)
"""


def test_a_call_that_asks_again_and_again_is_broken_off_as_well(tmp_path: Path) -> None:
    """Something moves in it for ever, so it is given a number of looks."""
    (tmp_path / "calls.py").write_text(RESTLESS)
    command = [sys.executable, "calls.py"]
    found = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert found.stdout in ("None True True 6\n", "None True True 7\n"), found.stderr


UNREACHABLE = """
import ctypes, os
from grader.kit import processes

libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)  # all zero: PTHREAD_MUTEX_INITIALIZER
processes.MERCY = 3

def inside_c():
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)

def abandon():
    print(watch.hung, watch.line, flush=True)
    os._exit(7)

watch = processes.WatchedCall(__file__, lambda: 3, abandon=abandon)
watch.run(inside_c)
"""


def test_a_call_that_no_exception_reaches_is_abandoned(tmp_path: Path) -> None:
    """It waits inside C, where a signal's handler in Python does not run: another thread tells what is known."""
    (tmp_path / "calls.py").write_text(UNREACHABLE)
    command = [sys.executable, "calls.py"]
    found = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (7, "True 10\n"), found.stderr


def test_what_waits_is_left_behind_and_may_be_spared(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """What wants a core is killed all the same: it would take it from what comes next."""
    sleeper, computer = processes["sleeps"], processes["computes"]
    assert wait_until(asleep_for(5, [sleeper.pid]))
    assert left_behind([sleeper.pid, computer.pid], seconds=0, spare=True) == ["running", "sleeping"]
    assert computer.wait() == -9 and sleeper.poll() is None


def test_what_a_watched_call_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        WatchedCall(__file__, lambda: 3).run(lambda: 1 / 0)
