"""Scripts that are run as programs, by themselves or under torchrun's agents, and watched from outside.

A program is a fork of this process, which has torch already (`kit.forks`). The workers of a `fresh` agent are new
interpreters.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from grader.kit.forks import STACK_SIGNAL, Fork, Prepare, run_agent, run_file
from grader.kit.meeting import wait_until
from grader.kit.processes import Activity, activity, kill, moved

LOOK = 0.25
"""Seconds between two looks at a job (see `processes.moved`)."""
STACKS = 0.5
"""Seconds that processes have to write where they are."""


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
        lines: dict[int, int] = {}

        def all_told() -> bool:
            told = ((pid, _line_in(path.read_text(), self.file)) for pid, path in asked.items())
            lines.update((pid, line) for pid, line in told if line)
            return len(lines) == len(asked)

        wait_until(all_told, STACKS)  # an agent is nowhere in the file
        return lines


def _line_in(stack: str, file: str) -> int | None:
    found = re.search(rf'File "{re.escape(file)}", line (\d+) in', stack)  # whole, however far it is written
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
