"""Whether other processes wait, or have ended, as probes see it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from grader.kit.meeting import wait_until
from grader.kit.processes import asleep_for, has_ended, waits


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
