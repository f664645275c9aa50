"""The process that grades whatever it is sent, one unit of work after another, on a session that stays warm.

    python -m grader.batch.worker --root . --cores 2

It reads a command a line, and writes an event a line, as JSON objects; nothing else is ever written to its output.
Bytes are in base64. `grader.batch.slots.process` is who speaks with it.

    {"do": "grade", "unit": "ab12", "exercise": "03_train_ddp", "files": [["train_ddp.py", "aW1w…"]], "seed": 7,
     "checks": "", "deadline": null, "runs": ""}       runs that are recorded already are judged, and nothing is run
    {"do": "quit"}                                     as does the end of the input, a broken pipe, or SIGTERM

    {"event": "ready"}                                 from here on the session comes up
    {"event": "graded", "unit": "ab12", "report": "{…}", "runs": "H4sI…", "log": "…", "seconds": 1.9, …}
    {"event": "refused", "unit": "ab12", "sentence": "…", "log": "…"}

The main thread judges, because pytest must be there; a second one reads commands. Nothing of a unit is left when the
next begins: no process and no file, and a fresh session wherever the last one may have been damaged. Whatever ends this
process ends the ranks as well: above it is a guard (`grading.guard`).
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import json
import os
import queue
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from grader.batch.seam import Work
from grader.grading import guard, servant
from grader.grading.servant import Leave, LineWriter

if TYPE_CHECKING:
    from grader.grading.request import Machine
    from grader.model import Report, Run
    from grader.ranks import Session

MAX_LOG = 64 * 1024
"""Bytes of a unit's log that are kept, from its beginning."""
ERRORS = 2
PATIENCE = 0.4
"""Seconds that an orderly end may take where nobody listens any more: there is nothing to be told or kept."""


class Worker:
    """Grades whatever it is told to, for the exercises under `root`."""

    def __init__(self, root: Path, machine: Machine, lines: LineWriter) -> None:
        self._root, self._machine, self._lines = root, machine, lines
        self._log = Log()

    def serve(self, works: queue.SimpleQueue[Work]) -> NoReturn:
        """Keep a session warm and grade on it; take a fresh one where it may have been damaged. Raises GraderError
        where none can be had."""
        while True:
            with self._warm_session() as session:
                while self._is_sound_after(works.get(), session):
                    pass

    @contextlib.contextmanager
    def _warm_session(self) -> Iterator[Session]:
        from grader.grading.flow import preload

        with self._machine.session() as session:
            preload()
            self._say("ready")
            yield session

    def _is_sound_after(self, work: Work, session: Session) -> bool:
        """Grade once and say how it ended. False if the session may be damaged. Raises NoRankStarted where it never
        came up, which is this machine's fault: others should have the next unit."""
        from grader.model.errors import AuthorError, GraderError, NoRankStarted, UsageError

        self._log.begin(work)
        try:
            report = self._graded(work, session)
        except GraderError as error:
            self._refuse(work, str(error))
            if isinstance(error, NoRankStarted):
                raise
            return isinstance(error, UsageError | AuthorError) and session.alive
        except Exception as error:
            traceback.print_exc()
            self._refuse(work, servant.own_fault(error))
            return False
        return servant.is_sound(session, report)

    def _graded(self, work: Work, session: Session) -> Report:
        from grader.grading.flow import grade
        from grader.grading.request import Request
        from grader.render import json as as_json

        start, used = time.monotonic(), seconds_of_processor()
        with _recorded(work) as recorded:
            request = Request(
                exercise=work.exercise,
                root=self._root,
                files=work.files,
                seed=work.seed,
                deadline=work.deadline,
                checks=Path(work.checks) if work.checks else None,
                from_runs=recorded,
            )
            report = grade(request, session, machine=self._machine)
        runs = b"" if work.runs else self._kept(report)
        facts = {
            "report": as_json.render(report),
            "runs": base64.b64encode(runs).decode(),
            "busy": sum(run.seconds for run in report.runs),
            "cpu": round(max(0.0, seconds_of_processor() - used), 3),
            "seconds": round(time.monotonic() - start, 4),
        }
        self._say("graded", unit=work.unit, log=self._log.text(report.runs), **facts)
        return report

    def _kept(self, report: Report) -> bytes:
        """The runs as a gzipped file of `records.recording`; none where they are more than it may hold."""
        from grader.model.errors import WireError
        from grader.records import recording

        try:
            return recording.compressed(report.exercise, report.seed, report.runs)
        except WireError as error:
            print(f"The runs were not kept: {error}.", file=sys.stderr)
            return b""

    def _refuse(self, work: Work, sentence: str) -> None:
        self._say("refused", unit=work.unit, sentence=sentence, log=self._log.text())

    def _say(self, event: str, **facts: Any) -> None:
        self._lines.write(json.dumps({"event": event, **facts}))


@contextlib.contextmanager
def _recorded(work: Work) -> Iterator[Path | None]:
    """A file of the runs that are to be judged again; None where there are none."""
    if not work.runs:
        yield None
        return
    with tempfile.NamedTemporaryFile(prefix="ranklings-", suffix=".runs") as file:
        file.write(work.runs)
        file.flush()
        yield Path(file.name)


class Log:
    """What this process says of one unit: whatever is written to its errors, if those are a file, which whoever started
    it reads where it died."""

    def __init__(self) -> None:
        self._is_file = stat.S_ISREG(os.fstat(ERRORS).st_mode)
        if self._is_file:
            fcntl.fcntl(ERRORS, fcntl.F_SETFL, fcntl.fcntl(ERRORS, fcntl.F_GETFL) | os.O_APPEND)

    def begin(self, work: Work) -> None:
        """Forget what was said of the last unit."""
        if self._is_file:
            sys.stderr.flush()
            os.ftruncate(ERRORS, 0)
        print(f"unit {work.unit}: {work.exercise}, seed {work.seed}", file=sys.stderr)

    def text(self, runs: Sequence[Run] = ()) -> str:
        """All that was said, and what has to be known of the runs."""
        for run in runs:
            if run.retried:
                print(f"{run.case.id} was run again: {run.retried}", file=sys.stderr)
        if not self._is_file:
            return ""
        sys.stderr.flush()
        return os.pread(ERRORS, MAX_LOG, 0).decode(errors="replace")


def seconds_of_processor() -> float:
    """What this process and all below it have used so far, those that have ended included."""
    import psutil

    used = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def work_of(command: dict[str, Any]) -> Work | None:
    """The work that a command tells of; None where it is no such command."""
    if command.get("do") != "grade":
        return None
    with contextlib.suppress(LookupError, TypeError, ValueError):
        files = tuple((str(name), base64.b64decode(content)) for name, content in command["files"])
        names = ("unit", "exercise", "seed", "checks", "deadline")
        runs = base64.b64decode(command.get("runs", ""))
        return Work(files=files, runs=runs, **{name: command[name] for name in names})
    return None


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grader.batch.worker")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--sandbox", choices=["auto", "require", "off"], default="auto")
    parser.add_argument("--start-method", choices=["forkserver", "spawn"], default="forkserver")
    parser.add_argument("--rank-user")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = vars(arguments(words))
    root = options.pop("root").absolute()  # pytest tells absolute paths
    guard.guarded()
    commands, events = servant.own_streams()
    works: queue.SimpleQueue[Work] = queue.SimpleQueue()

    def obey(command: dict[str, Any]) -> bool:
        if work := work_of(command):
            works.put(work)
        return command.get("do") == "quit"

    try:
        with servant.obeying_signals():
            threading.Thread(target=servant.listen, args=(commands, obey, PATIENCE), daemon=True).start()
            return _served(root, options, LineWriter(events), works)
    except Leave:
        return 0


def _served(root: Path, options: dict[str, Any], lines: LineWriter, works: queue.SimpleQueue[Work]) -> int:
    """Serve until there is no session to be had; the exit code for that."""
    from grader.grading.request import Machine  # not earlier: the process may end before all of this is imported
    from grader.model.errors import GraderError

    try:
        Worker(root, Machine(**options), lines).serve(works)
    except GraderError as error:
        print(f"grader: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    servant.end_at_once(main())
