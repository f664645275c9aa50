"""The process that grades one exercise again and again for somebody who watches, on a session that stays warm.

    python -m grader.practice.worker 03_train_ddp --root .

It reads a command a line, and writes an event a line, as JSON objects; nothing else is ever written to its output.

    {"do": "grade", "seed": null, "trace": false}      a grade that is under way is called off first
    {"do": "cancel"}
    {"do": "quit"}                                     as does the end of the input, a broken pipe, or SIGTERM

The main thread judges, because pytest must be there; a second one reads commands. Every text of an event is safe to
show. Whatever ends this process ends the ranks as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from grader import catalog, leaving
from grader.grading.flow import grade, preload
from grader.grading.request import Machine, Request
from grader.grading.running import import_case
from grader.model import Report, Submission
from grader.model.errors import Cancelled, GraderError, UsageError
from grader.practice.worker_events import EventWriter, GradeEvents, Job
from grader.ranks import Session
from grader.render import json as as_json
from grader.visibility import for_student


class Leave(KeyboardInterrupt):
    """The worker is to end. Of KeyboardInterrupt's kind, because pytest lets nothing else through."""


def leave() -> None:
    """End the main thread as SIGTERM does, from any thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


class Worker:
    """Grades one exercise whenever it is told to."""

    def __init__(self, name: str, options: argparse.Namespace, writer: EventWriter) -> None:
        self._name, self._options, self._writer = name, options, writer
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._asked: list[Job] = []
        self._session: Session | None = None

    # ── the thread that reads ──

    def listen(self, commands: IO[bytes]) -> None:
        """Obey until there is nothing more to obey."""
        with contextlib.suppress(OSError, ValueError):
            for line in commands:
                if self._obey(_command(line)):
                    break
        leave()

    def _obey(self, command: dict[str, Any]) -> bool:
        """Do as a command says. True if it says to quit."""
        if command.get("do") in ("grade", "cancel"):
            self._call_off()
        if command.get("do") == "grade":
            seed = self._options.seed if command.get("seed") is None else command["seed"]
            job = Job(len(self._asked) + 1, seed, bool(command.get("trace")))
            self._asked.append(job)
            self._jobs.put(job)
        return command.get("do") == "quit"

    def _call_off(self) -> None:
        """End the grade that is under way, and begin none of those that wait."""
        for job in self._asked[-1:]:  # earlier ones are off already
            job.off = True
        if session := self._session:
            with contextlib.suppress(GraderError, OSError):
                session.cancel()

    # ── the main thread ──

    def serve(self) -> NoReturn:
        """Keep a session warm and grade on it; take a fresh one where it may have been damaged."""
        while True:
            try:
                with self._warm_session() as session:
                    while self._is_sound(self._jobs.get(), session):
                        pass
            except GraderError as error:
                self._say_fault(self._jobs.get(), str(error))

    @contextlib.contextmanager
    def _warm_session(self) -> Iterator[Session]:
        with Machine(sandbox=self._options.sandbox).session() as session:
            preload()
            self._rehearse(session)
            self._writer.say("ready")
            yield session

    def _rehearse(self, session: Session) -> None:
        """Run and judge nothing once, so that no grade has to wait for what is done for the first time."""
        from grader.judge import judge

        try:
            exercise = catalog.load(self._name, self._options.root)
        except GraderError:
            return  # each grade will say so
        nothing = Submission.of(exercise.stub, b"")
        session.run(exercise, nothing, import_case())
        judge(exercise, nothing, ())

    def _is_sound(self, job: Job, session: Session) -> bool:
        """Grade once and say how it ended. False if the session may be damaged."""
        if job.off:
            self._writer.say("cancelled", grade=job.number)
            return True
        try:
            report = self._grade(job, session)
        except Cancelled:
            self._writer.say("cancelled", grade=job.number)
        except UsageError as error:
            self._say_fault(job, str(error))
        except GraderError as error:
            self._say_fault(job, str(error))
            return False
        except Exception as error:
            error_words = " ".join(f"{type(error).__name__}: {error}".split())
            self._say_fault(job, f"The grader itself went wrong ({error_words[:200]}). This is not your fault.")
            return False
        else:
            self._say_end(job, report)
            return session.alive and report.status != "error" and not any(run.retried for run in report.runs)
        return True

    def _grade(self, job: Job, session: Session) -> Report:
        self._session = session
        try:
            request = Request(
                exercise=self._name,
                root=self._options.root,
                submission=self._options.submission,
                seed=job.seed,
                trace=job.trace,
            )
            return grade(request, session, GradeEvents(self._writer, job, session))
        finally:
            self._session = None

    def _say_end(self, job: Job, report: Report) -> None:
        if job.off:
            self._writer.say("cancelled", grade=job.number)
            return
        now = time.monotonic()
        times = {"first": round((job.first or now) - job.asked, 3), "seconds": round(now - job.asked, 3)}
        self._writer.say("report", as_json.render(for_student(report)), grade=job.number, **times)

    def _say_fault(self, job: Job, sentence: str) -> None:
        self._writer.say("fault", grade=job.number, sentence=sentence)


def _command(line: bytes) -> dict[str, Any]:
    """A command, or an empty one where a line is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# ── the process ──


def own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Input and output for this module alone: whatever else prints does so to the errors, and reads nothing."""
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, events


@contextlib.contextmanager
def obeying_signals() -> Iterator[None]:
    """The first signal to end raises Leave in the main thread; no later one disturbs the cleaning up."""
    stop = leaving.Stop(lambda number: Leave(), lambda number: 0, once=True)
    for number in leaving.INTERRUPTS:
        signal.signal(number, stop)
    with leaving.insisted():
        yield


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grader.practice.worker")
    parser.add_argument("name", metavar="EX")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--submission", type=Path)
    parser.add_argument("--sandbox", choices=["auto", "require", "off"], default="auto")
    parser.add_argument("--seed", type=int)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    commands, events = own_streams()
    try:
        with obeying_signals():
            options.root = (options.root or catalog.repository_root()).absolute()  # pytest tells absolute paths
            worker = Worker(catalog.resolve(options.name, options.root), options, EventWriter(events, leave))
            threading.Thread(target=worker.listen, args=(commands,), daemon=True).start()
            worker.serve()
    except Leave:
        return 0
    except GraderError as error:
        print(f"grader: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a daemon thread may hold the input's lock, on which an orderly end would wait
