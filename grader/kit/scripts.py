"""Scripts that are run as programs, by themselves or under torchrun's agents, and watched from outside.

A new interpreter takes seconds to import torch. So a program is a fork of this process, which has torch already: it
takes on what `python FILE` begins with, and runs the file as `__main__`. An agent is the real one, the main function of
torch.distributed.run; it starts each worker as a fork of itself instead of `python -u FILE`, and where a torch starts
its workers in some other way, they are new interpreters. In a `fresh` program that is what runs the file in any case.
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
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing import process as multiprocess
from multiprocessing import util as multiprocess_util
from pathlib import Path
from typing import Any

import psutil
import torch

from grader.kit.meeting import wait_until
from grader.kit.processes import Activity, activity, kill, moved

STACK_SIGNAL = signal.SIGUSR2
LOOK = 0.25
"""Seconds between two looks at a job (see `processes.moved`)."""
STACKS = 0.5
"""Seconds that processes have to write where they are."""
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
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                _begin_anew(environment, stacks, stdout, stderr)
                code = _exit_code(main)
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


def _begin_anew(environment: Mapping[str, str], stacks: Path, stdout: Any, stderr: Any) -> None:
    os.setsid()
    gc.freeze()  # what was here before is never finalized here
    os.environ.clear()
    os.environ.update(environment)
    _reset_streams(stdout, stderr)
    _reset_signals()
    faulthandler.unregister(STACK_SIGNAL)  # else it takes its handler for one that is still in place
    faulthandler.register(STACK_SIGNAL, file=(stacks / f"stack-{os.getpid()}").open("w"), all_threads=False)
    multiprocess_util._finalizer_registry.clear()  # type: ignore[attr-defined]
    multiprocess._children = set()  # type: ignore[attr-defined]
    multiprocess._parent_process = None  # type: ignore[attr-defined]
    me: Any = multiprocessing.current_process()
    me.name, me._config = "MainProcess", {**me._config, "daemon": False}
    multiprocessing.set_start_method(None, force=True)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    torch.default_generator.seed()


def _reset_streams(stdout: Any, stderr: Any) -> None:
    """No input, output to these files, and no other descriptor open."""
    for target, file in ((1, stdout), (2, stderr)):
        if file is not None:
            os.dup2(file.fileno(), target)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, _most_descriptors())
    sys.stdin = os.fdopen(0, closefd=False)
    for number, name in ((1, "stdout"), (2, "stderr")):
        setattr(sys, name, os.fdopen(number, "w", buffering=1, errors="backslashreplace", closefd=False))


def _most_descriptors() -> int:
    with contextlib.suppress(OSError):
        return max(map(int, os.listdir("/dev/fd"))) + 1
    return 4096


def _reset_signals() -> None:
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


def _exit_code(main: Callable[[], object]) -> int:
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

    @functools.wraps(original)
    def start(args: Sequence[str], env: Mapping[str, str], stdout: Any = None, stderr: Any = None, **rest: Any) -> Any:
        if list(args[:2]) != [sys.executable, "-u"]:
            return original(args=args, env=env, stdout=stdout, stderr=stderr, **rest)
        return Fork(functools.partial(run_file, args[2], args[3:], prepare), env, stacks, stdout, stderr)

    module.Popen = start


# -- starting, and watching -------------------------------------------------------------------------------------------


class Program:
    """A process and those below it, `python FILE ARGUMENTS` or, with the options of an `agent`, `torchrun`. What they
    print lies in `folder`."""

    def __init__(
        self, folder: Path, file: str, arguments: Sequence[str], environment: Mapping[str, str], *,
        agent: Sequence[str] | None = None, fresh: bool = False, prepare: Prepare = lambda: None,
    ) -> None:  # fmt: skip
        self.folder = folder
        now = time.monotonic_ns()
        self.output, self.errors = folder / f"output-{now}", folder / f"errors-{now}"
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            if fresh and agent is None:
                self.process: Any = subprocess.Popen(
                    [sys.executable, file, *arguments], env=dict(environment), stdin=subprocess.DEVNULL,
                    stdout=output, stderr=errors, start_new_session=True,
                )  # fmt: skip
            else:
                main = functools.partial(run_file, file, arguments, prepare)
                if agent is not None:
                    main = functools.partial(run_agent, [*agent, file, *arguments], None if fresh else folder, prepare)
                self.process = Fork(main, environment, folder, output, errors)

    @property
    def code(self) -> int | None:
        """The exit code, negative after a signal; None as long as it runs."""
        found: int | None = self.process.poll()
        return found

    def printed(self) -> str:
        """What it has printed."""
        return self.output.read_text(errors="replace")

    def complained(self) -> str:
        """What it has printed on stderr."""
        return self.errors.read_text(errors="replace")

    def processes(self) -> list[int]:
        """The program's process, if it has not ended, and all below it."""
        if self.code is not None:
            return []
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(self.process.pid)
            return [own.pid, *(child.pid for child in own.children(recursive=True))]
        return []

    def kill(self) -> None:
        """End all of it at once. The first is stopped before, so that it starts nothing meanwhile."""
        if self.code is None:
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGSTOP)
            for pid in self.processes():
                kill(pid)
            self.process.wait()


class Job:
    """Programs that belong together, such as two agents, until all of them have ended or the job is stuck: when none of
    their processes has moved for more looks in a row than `patience`, or they have used more than so many `seconds` of
    a core. A busy machine, on which all takes longer, makes no job stuck.

    A job that is stuck is killed. `hung` tells that it was, `moving` that it was not for want of movement, and `lines`
    at which lines of `file` its processes were, by process id.
    """

    def __init__(self, programs: Sequence[Program], file: str, patience: int, seconds: float) -> None:
        self.programs, self.file, self.patience, self.seconds = programs, file, patience, seconds
        self.hung = self.moving = False
        self.lines: dict[int, int] = {}
        self._quiet, self._used = 0, 0.0
        self._before, self._looked = self._activity(), time.monotonic()

    def over(self) -> bool:
        """Whether it has ended, or was ended. To be asked often."""
        if all(program.code is not None for program in self.programs):
            return True
        if time.monotonic() - self._looked >= LOOK:
            now = self._activity()
            self._quiet = 0 if moved(self._before, now) else self._quiet + 1
            self._used += sum(
                max(0.0, now[pid].seconds - self._before[pid].seconds) for pid in now.keys() & self._before
            )
            self._before, self._looked = now, time.monotonic()
        if self._quiet > self.patience or self._used > self.seconds:
            self.hung, self.moving = True, self._quiet <= self.patience
            self.lines = self._stacks()
            self.kill()
        return self.hung

    def kill(self) -> None:
        for program in self.programs:
            program.kill()

    def _activity(self) -> dict[int, Activity]:
        return activity([program.process.pid for program in self.programs if program.code is None])

    def _stacks(self) -> dict[int, int]:
        """Where in the file each fork is: the line of the innermost frame of its main thread."""
        found = {pid: program.folder / f"stack-{pid}" for program in self.programs for pid in program.processes()}
        asked = {pid: path for pid, path in found.items() if path.exists()}
        for pid in asked:
            with contextlib.suppress(OSError):
                os.kill(pid, STACK_SIGNAL)
        wait_until(lambda: all(path.stat().st_size for path in asked.values()), STACKS)
        time.sleep(0.05)
        return {pid: line for pid, path in asked.items() if (line := _line_in(path.read_text(), self.file))}


def _line_in(stack: str, file: str) -> int | None:
    found = re.search(rf'File "{re.escape(file)}", line (\d+)', stack)
    return int(found[1]) if found else None


def run_all(chains: Iterable[Iterable[Callable[[], Job]]], at_once: int, ended: Callable[[Job], object]) -> None:
    """Let jobs run, those of a chain one after another and of several chains at a time. Each is handed to `ended`
    before the next of its chain is made."""
    waiting, running = [iter(chain) for chain in chains], list[tuple[Any, Job]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            chain = waiting.pop(0)
            if (make := next(chain, None)) is not None:
                running.append((chain, make()))
        for chain, job in list(running):
            if job.over():
                running.remove((chain, job))
                ended(job)
                waiting.insert(0, chain)
        time.sleep(0.01)
