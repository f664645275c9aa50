"""The guard of a worker and the keeper of a host: whoever is killed, and whatever is deaf, nothing stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from grader.ranks import hosting

PATIENCE = 120.0
ROOT = Path(__file__).resolve().parents[1]
WORKER = """
import os, signal, subprocess, sys, time
from grader.grading import guard
guard.guarded()
if sys.argv[1] == "ends":
    sys.exit(5)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7) if sys.argv[1] == "obeys" else None)
away = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
apart = subprocess.Popen(away, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
apart.stdout.readline()
print(os.getpid(), apart.pid, flush=True)
while True:
    time.sleep(600)
"""
Begun = Callable[[str], tuple[subprocess.Popen[bytes], psutil.Process, psutil.Process]]


@pytest.fixture
def begun() -> Iterator[Begun]:
    """Starts a guard with a worker that hears nothing, and somebody in a session of its own below it."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(how: str) -> tuple[subprocess.Popen[bytes], psutil.Process, psutil.Process]:
        words = [sys.executable, "-c", WORKER, how]
        guard = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(guard)
        assert guard.stdout
        worker, apart = guard.stdout.readline().split()
        return guard, psutil.Process(int(worker)), psutil.Process(int(apart))

    yield begin
    for guard in started:
        guard.kill()
        guard.wait()
        for end in (guard.stdin, guard.stdout):
            if end:
                end.close()


def await_end(*processes: psutil.Process) -> None:
    assert psutil.wait_procs(processes, timeout=PATIENCE)[1] == []


def test_a_worker_that_hears_nothing_ends_with_whoever_started_it(begun: Begun) -> None:
    """With all below it, however they got away."""
    guard, worker, apart = begun("deaf")
    assert guard.stdin
    guard.stdin.close()
    await_end(worker, apart)
    assert guard.wait(PATIENCE) == -signal.SIGKILL


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
def test_what_a_worker_leaves_is_ended_and_its_end_is_told(begun: Begun, how: signal.Signals) -> None:
    """A worker that was stopped would never answer, so it is ended."""
    guard, worker, apart = begun("deaf")
    worker.send_signal(how)
    await_end(worker, apart)
    assert guard.wait(PATIENCE) == -(signal.SIGKILL if how is signal.SIGSTOP else how)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells nobody that a parent has ended")
def test_a_worker_whose_guard_is_killed_ends(begun: Begun) -> None:
    guard, worker, apart = begun("deaf")
    guard.kill()
    await_end(worker)
    apart.kill()  # it was nobody of ours: hosts hear for themselves


def test_a_worker_hears_what_its_guard_is_told(begun: Begun) -> None:
    guard, worker, apart = begun("obeys")
    guard.terminate()
    await_end(worker, apart)
    assert guard.wait(PATIENCE) == 7


def test_a_guard_ends_as_its_worker() -> None:
    ended = subprocess.run([sys.executable, "-c", WORKER, "ends"], cwd=ROOT, stdin=subprocess.PIPE, check=False)
    assert ended.returncode == 5


def test_a_guard_imports_nothing_heavy() -> None:
    code = "import sys, grader.grading.guard; print({'torch', 'pytest', 'numpy', 'psutil', 'yaml'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True).stdout == b"set()\n"


# ── the host ──


def test_a_host_that_imports_hears_that_its_judge_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import of torch never ends here. Its folder goes with it."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "torch.py").write_text("import time\nopen('importing', 'w').close()\nwhile True:\n    time.sleep(600)\n")
    scratch = tmp_path / "ranklings-scratch"
    scratch.mkdir()
    monkeypatch.setattr(hosting, "ABOVE_PACKAGE", f"{package}{os.pathsep}{ROOT}")
    judge, theirs = socket.socketpair()
    with theirs, (tmp_path / "log").open("wb") as log:
        host = hosting.started(theirs.fileno(), "limits", scratch, log, None, "cpu")
    try:
        while not (scratch / "importing").exists():
            assert host.poll() is None, (tmp_path / "log").read_text()
        below = psutil.Process(host.pid).children()
        assert len(below) == 1
        judge.close()
        assert host.wait(PATIENCE) == -signal.SIGKILL
        await_end(*below)
        assert not scratch.exists()
    finally:
        host.kill()


def test_a_host_whose_judge_was_gone_before_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At either level: a judge that was killed while bubblewrap came up."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "torch.py").write_text("while True:\n    pass\n")
    scratch = tmp_path / "ranklings-scratch"
    scratch.mkdir()
    monkeypatch.setattr(hosting, "ABOVE_PACKAGE", f"{package}{os.pathsep}{ROOT}")
    judge, theirs = socket.socketpair()
    judge.close()
    with theirs, (tmp_path / "log").open("wb") as log:
        host = hosting.started(theirs.fileno(), "limits", scratch, log, None, "cpu")
    try:
        assert host.wait(PATIENCE) == 0 and not scratch.exists()
    finally:
        host.kill()
