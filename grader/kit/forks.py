"""Forks of this process that look like new interpreters: they run a file as `python FILE` does, or torchrun's agent.

A new interpreter takes seconds to import torch, and this process has it already. An agent is the real one, the main
function of torch.distributed.run; it starts each worker as a fork of itself instead of `python -u FILE`. Where a torch
starts its workers in some other way, they are new interpreters.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing import process as multiprocess
from multiprocessing import util as multiprocess_util
from pathlib import Path
from typing import Any

import torch

from grader.kit import gpus
from grader.kit.meeting import wait_until

STACK_SIGNAL = signal.SIGUSR2
POPEN = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
"""The module whose `Popen` starts an agent's workers."""
Prepare = Callable[[], object]


class Fork:
    """A child of this process that runs `main` and ends with its exit code. Like a subprocess.Popen, as far as
    torchrun's agent uses one; what it prints goes where this process prints, or to these files. `stacks` is a folder,
    where its main thread's stack is written when STACK_SIGNAL comes."""

    def __init__(
        self, main: Callable[[], object], environment: Mapping[str, str], stacks: Path, stdout: Any = None,
        stderr: Any = None,
    ) -> None:  # fmt: skip
        self.args, self.returncode = [sys.executable], None
        sys.stdout.flush()
        sys.stderr.flush()
        before = descriptors()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                _begin_anew(environment, stacks, stdout, stderr, changed_since(before))
                code = exit_code(main)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    returncode: int | None

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None as long as it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit code. Raises subprocess.TimeoutExpired after so many seconds."""
        seconds = float("inf") if timeout is None else timeout
        if not wait_until(lambda: self.poll() is not None, seconds, look=0.01):
            raise subprocess.TimeoutExpired(self.args, seconds)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


# -- what a fork does to look like a new interpreter ------------------------------------------------------------------


def _begin_anew(environment: Mapping[str, str], stacks: Path, stdout: Any, stderr: Any, renewed: Iterable[int]) -> None:
    os.setsid()
    gc.freeze()  # what was here before is never finalized here
    os.environ.clear()
    os.environ.update(environment)
    _reset_streams(stdout, stderr, renewed)
    reset_signals()
    faulthandler.unregister(STACK_SIGNAL)  # else it takes its handler for one that is still in place
    faulthandler.register(STACK_SIGNAL, file=(stacks / f"stack-{os.getpid()}").open("w"), all_threads=False)
    reset_multiprocessing()
    reset_generators()


def reset_multiprocessing() -> None:
    """This process started no other and was started by none, as far as multiprocessing knows."""
    multiprocess_util._finalizer_registry.clear()  # type: ignore[attr-defined]
    multiprocess._children = set()  # type: ignore[attr-defined]
    multiprocess._parent_process = None  # type: ignore[attr-defined]
    me: Any = multiprocessing.current_process()
    me.name, me._config = "MainProcess", {**me._config, "daemon": False}
    multiprocessing.set_start_method(None, force=True)


def reset_generators() -> None:
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    torch.default_generator.seed()


def _reset_streams(stdout: Any, stderr: Any, renewed: Iterable[int]) -> None:
    """No input, output to these files, and no other descriptor open but those that the fork has renewed: freed, their
    numbers would be others', which the next fork would then close."""
    for target, file in ((1, stdout), (2, stderr)):
        if file is not None:
            os.dup2(file.fileno(), target)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    first = 3
    for number in sorted(number for number in renewed if number > 2):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, most_descriptors())
    open_streams()


def open_streams() -> None:
    """Python's streams anew, on the descriptors that are theirs."""
    sys.stdin = os.fdopen(0, closefd=False)
    for number, name in ((1, "stdout"), (2, "stderr")):
        setattr(sys, name, os.fdopen(number, "w", buffering=1, errors="backslashreplace", closefd=False))


def descriptors() -> dict[int, str]:
    """What the system calls each of this process's descriptors, by their numbers; nothing where it does not tell."""
    found = dict[int, str]()
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # that of the folder itself has been closed
                found[int(number)] = os.readlink(f"/proc/self/fd/{number}")
    return found


def changed_since(before: Mapping[int, str]) -> list[int]:
    """The descriptors that are not what they were before a fork: those of libraries that renew them in each fork, as
    libuv does once a TCPStore has used it, by their old numbers, whatever is there."""
    now = descriptors()
    return [number for number in now.keys() | before.keys() if now.get(number) != before.get(number)]


def most_descriptors() -> int:
    """One more than the highest descriptor of this process."""
    with contextlib.suppress(OSError):
        return max(map(int, os.listdir("/dev/fd"))) + 1
    return 4096


def reset_signals() -> None:
    """Those of a new Python, whatever this process or an agent has set."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def exit_code(main: Callable[[], object]) -> int:
    """Run it, and what an interpreter does at its end; its exit code."""
    code = 0
    try:
        main()
    except SystemExit as end:
        code = _code_of(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _code_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def run_file(file: str, arguments: Sequence[str], prepare: Prepare = lambda: None) -> None:
    """What `python FILE ARGUMENTS` does. The module is never cleared, so what it holds is not finalized at its end."""
    prepare()
    module = types.ModuleType("__main__")
    module.__file__ = file
    sys.modules["__main__"], sys.argv, sys.path[0] = module, [file, *arguments], os.path.dirname(file)
    exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), vars(module))


def run_agent(words: Sequence[str], stacks: Path | None, prepare: Prepare = lambda: None) -> None:
    """What `torchrun WORDS` does, but workers are forks, each after a call of `prepare`; without a folder for their
    `stacks` they are new interpreters, as ever."""
    torchrun: Any = importlib.import_module("torch.distributed.run")
    if stacks is not None and forks_workers():
        _fork_workers(stacks, prepare)
    sys.argv = ["torchrun", *words]
    torchrun.main()


def forks_workers() -> bool:
    """Whether this torch starts workers in the way that forks can take the place of."""
    with contextlib.suppress(ImportError):
        return hasattr(importlib.import_module(POPEN), "Popen")
    return False


def _fork_workers(stacks: Path, prepare: Prepare) -> None:
    module: Any = importlib.import_module(POPEN)
    original = module.Popen
    visible = {name: os.environ.get(name) for name in gpus.HIDDEN}
    os.environ.update(gpus.HIDDEN)  # from the agent alone: it asks for them, and then its forks could use none

    @functools.wraps(original)
    def start(args: Sequence[str], env: Mapping[str, str], stdout: Any = None, stderr: Any = None, **rest: Any) -> Any:
        if list(args[:2]) != [sys.executable, "-u"]:
            return original(args=args, env=env, stdout=stdout, stderr=stderr, **rest)
        known = {name: value for name, value in {**env, **visible}.items() if value is not None}
        return Fork(functools.partial(run_file, args[2], args[3:], prepare), known, stacks, stdout, stderr)

    module.Popen = start
