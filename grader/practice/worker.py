"""The process that grades one exercise again and again for somebody who watches, on a session that stays warm.

    python -m grader.practice.worker 03_train_ddp --root .

It reads a command a line, and writes an event a line, as JSON objects; nothing else is ever written to its output.

    {"do": "grade", "seed": null, "trace": false, "only": []}      a grade that is under way is called off first
    {"do": "cancel"}
    {"do": "quit"}                                     as does the end of the input, a broken pipe, or SIGTERM

The main thread judges, because pytest must be there; a second one reads commands. Every text of an event is safe to
show. Whatever ends this process ends the ranks as well.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from grader import catalog
from grader.grading import servant
from grader.grading.flow import grade, preload
from grader.grading.request import Machine, Request
from grader.grading.running import import_case
from grader.grading.servant import Leave, own_streams
from grader.model import Report, Submission
from grader.model.errors import Cancelled, GraderError, UsageError
from grader.practice.worker_events import EventWriter, GradeEvents, Job
from grader.ranks import Session
from grader.render import json as as_json
from grader.visibility import for_student


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
        servant.listen(commands, self._obey)

    def _obey(self, command: dict[str, Any]) -> bool:
        """Do as a command says. True if it says to quit."""
        if command.get("do") in ("grade", "cancel"):
            self._call_off()
        if command.get("do") == "grade":
            seed = self._options.seed if command.get("seed") is None else command["seed"]
            only = tuple(map(str, command.get("only") or ()))
            job = Job(len(self._asked) + 1, seed, bool(command.get("trace")), only)
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
            self._say_fault(job, servant.own_fault(error))
            return False
        else:
            self._say_end(job, report)
            return servant.is_sound(session, report)
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
                only=job.only,
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


# ── the process ──


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
        with servant.obeying_signals():
            options.root = (options.root or catalog.repository_root()).absolute()  # pytest tells absolute paths
            worker = Worker(catalog.resolve(options.name, options.root), options, EventWriter(events, servant.leave))
            threading.Thread(target=worker.listen, args=(commands,), daemon=True).start()
            worker.serve()
    except Leave:
        return 0
    except GraderError as error:
        print(f"grader: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    servant.end_at_once(main())
