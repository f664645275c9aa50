"""Processes that are started quickly find what they would find as new interpreters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.kit.spawns import SPAWN

STUDENT = """
import multiprocessing, os, signal, sys, threading

TOLD = []

def found(send, lock, queue):
    import torch
    weight = torch.ones(300, 300, requires_grad=True)
    (weight @ weight).sum().backward()
    me = multiprocessing.current_process()
    with lock:
        queue.put("from the queue")
    print("printed by", me.name)
    send.send({
        "caller": os.getppid() == multiprocessing.parent_process().pid,
        "group": os.getpgrp() == os.getpgid(os.getppid()),
        "told": TOLD,
        "name": me.name, "daemon": me.daemon, "main": me is not multiprocessing.process._parent_process,
        "method": multiprocessing.get_start_method(),
        "threads": [thread.name for thread in threading.enumerate()],
        "children": len(multiprocessing.active_children()),
        "argv": sys.argv, "path": sys.path, "folder": os.getcwd(),
        "environment": {key: os.environ.get(key) for key in ("SAID", "UNSAID")},
        "signals": [str(signal.getsignal(number)) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)],
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "standard input": os.fstat(0) == os.stat(os.devnull),
        "descriptors": len(os.listdir("/dev/fd")),
        "student": __name__, "file": __file__,
        "torch's threads": torch.get_num_threads() > 0, "gradient": weight.grad[0, 0].item(),
        "below": below(),
    })

def below():
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=os._exit, args=(4,))
    process.start()
    process.join()
    return process.exitcode

def ended(how):
    {"exit": lambda: sys.exit(5), "os": lambda: os._exit(3), "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
     "raise": lambda: 1 / 0, "return": lambda: None}[how]()

def double(number):
    return 2 * number

def number_each(ends):
    for number, end in enumerate(ends):
        end.send(number)
    print("printed", flush=True)
    print("complained", file=sys.stderr)
"""
CALLER = """
import contextlib, json, os, signal, sys
from pathlib import Path
import psutil, torch
from multiprocessing import get_context
from grader.kit import spawns
import student

method, quick = sys.argv.pop(), sys.argv.pop()
student.TOLD.append("by the caller")
os.environ["SAID"] = "yes"
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGUSR2, lambda *_: None)
context = get_context(method)
if method == "forkserver":
    context.set_forkserver_preload(["torch"])

def processes():
    return [each for each in psutil.Process().children(recursive=True) if each.name() == spawns.SERVER]

def ran(target, *args):
    process = context.Process(target=target, args=args, name="the process")
    process.start()
    process.join()
    return process.exitcode

with spawns.quick_spawns(Path(student.__file__).parent) if quick == "quick" else contextlib.nullcontext():
    told = {"codes": {how: ran(student.ended, how) for how in ("return", "exit", "os", "kill", "raise")}}
    servers = len(processes())
    weight = torch.ones(300, 300, requires_grad=True)
    (weight @ weight).sum().backward()  # from here on no fork of the caller could do this
    receive, send = context.Pipe(duplex=False)
    lock, queue = context.Lock(), context.Queue()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    told["code"], told["found"], told["queue"] = ran(student.found, send, lock, queue), receive.recv(), queue.get()
    with context.Pool(2) as pool:
        told["pool"] = pool.map(student.double, range(5))
    for process in sorted(processes(), key=psutil.Process.create_time)[:1]:
        process.kill()
    told["after"] = ran(student.ended, "os")
told["servers"], told["left"] = servers, len(processes())
print(json.dumps(told))
"""
HOST = """
import json, sys
from multiprocessing import get_context
from pathlib import Path
from torch.distributed import TCPStore
from grader.kit import spawns
import student

def hosted():
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

early = sys.argv.pop() == "early" and hosted()
with spawns.quick_spawns(Path(student.__file__).parent):
    store, context = early or hosted(), get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(6)]
    process = context.Process(target=student.number_each, args=([send for _, send in pipes],))
    process.start()
    process.join()
    print(json.dumps([process.exitcode, *(receive.recv() for receive, _ in pipes if receive.poll())]))
"""


def called(folder: Path, method: str, quick: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """What the caller tells, and what was printed: the lines, and the last words of errors."""
    (folder / "student.py").write_text(STUDENT)
    (folder / "caller.py").write_text(CALLER)
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); import caller"
    words = [sys.executable, "-c", program, quick, method]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *printed, told = done.stdout.splitlines()
    return json.loads(told), printed, [line for line in done.stderr.splitlines() if "Error" in line]


@pytest.mark.parametrize(
    ("method", "servers"), [("spawn", 1), pytest.param("forkserver", 2, marks=pytest.mark.one_in(3))]
)
def test_a_quick_process_is_like_a_new_interpreter(method: str, servers: int, tmp_path: Path) -> None:
    """Its parent, environment, signals, descriptors, modules, exit codes, and what it may do. A server that was killed
    is missed by nobody. The server of "forkserver" is a quick process itself."""
    if sys.platform != "linux":
        pytest.skip("the kernel hands no orphan to a subreaper")
    quick, slow = (called(tmp_path, method, how) for how in ("quick", "slow"))
    assert [quick[0].pop(what) for what in ("servers", "left")] == [servers, servers - 1]
    assert [slow[0].pop(what) for what in ("servers", "left")] == [0, 0]
    assert quick == slow
    assert quick[0]["codes"] == {"return": 0, "exit": 5, "os": 3, "kill": -9, "raise": 1}
    assert quick[0]["found"]["told"] == [] and quick[0]["found"]["below"] == 4


@pytest.mark.one_in(2)
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_callers_store_changes_no_descriptor_of_a_quick_process(when: str, tmp_path: Path) -> None:
    """Once a TCPStore has used libuv, each fork renews two descriptors by their numbers, whatever they are by then. A
    store that was there before the server costs new interpreters, and one that comes later costs nothing."""
    (tmp_path / "student.py").write_text(STUDENT)
    (tmp_path / "host.py").write_text(HOST)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import host"
    done = subprocess.run([sys.executable, "-c", program, when], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("printed\n[0, 0, 1, 2, 3, 4, 5]\n", "complained\n")


def test_the_program_of_this_python_is_known() -> None:
    """Otherwise new interpreters are started, and nothing is quick."""
    from multiprocessing.spawn import get_command_line

    assert get_command_line(tracker_fd=3, pipe_handle=4)[-2].startswith(SPAWN)
