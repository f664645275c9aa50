"""`grade`: which exercises, in which way, and what becomes of their reports."""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from grader.cli import console
from grader.cli.console import say, show
from grader.cli.ending import FAILED, FAULT, INTERRUPTED, PASSED, terminable
from grader.errors import GraderError, RunError, UsageError

if TYPE_CHECKING:
    from grader.model import Report
    from grader.practice.overview import Entry
    from grader.ranks import Session

CODES = {"passed": PASSED, "failed": FAILED, "error": FAULT}


def need_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise RunError(
            "PyTorch is not installed here. `make grade` creates an environment that has it; "
            "in an environment of your own: pip install 'torch>=2.11,<2.15'."
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What `grade` was asked to do, beside the exercises' names."""

    submission: Path | None
    device: str
    seed: int | None
    start_method: str
    sandbox: str
    deadline: float | None
    journal: Path | None
    json: Path | None
    trace: Path | None
    save_runs: Path | None
    from_runs: Path | None
    color: bool | None
    plain: bool

    def check(self, names: Sequence[str]) -> None:
        """What one order cannot mean, and files that cannot be written. Raises UsageError."""
        from grader.practice import output

        for option in ("json", "trace", "journal", "save_runs", "from_runs"):
            if getattr(self, option) and len(names) != 1:
                raise UsageError(f"--{option.replace('_', '-')} goes with one exercise, not with {len(names)}.")
        if self.submission and len(names) > 1 and not self.submission.is_dir():
            raise UsageError(f"--submission {self.submission} is one file; name the one exercise that it belongs to.")
        for path in filter(None, (self.json, self.trace, self.save_runs)):
            output.check_writable(path)


def grade(texts: Sequence[str], order: Order) -> int:
    """Grade what was named, or all that is begun, one after another. The worst exit code of all."""
    from grader import catalog

    root = catalog.repository_root()
    names, code = ([catalog.resolve(text, root) for text in texts], PASSED) if texts else _begun(root, order)
    names = list(dict.fromkeys(names))
    order.check(names)
    need_torch()
    codes, start = [code], time.monotonic()
    with ExitStack() as stack:
        session = None
        for name in names:
            if len(names) > 1 and (session is None or codes[-1] == FAULT):  # a fault may have cost the last session
                session = stack.enter_context(_warmed(order))
            try:
                left = None if order.deadline is None else max(0.1, order.deadline - (time.monotonic() - start))
                codes.append(_grade_one(name, root, order, session, later=len(codes) > 1, left=left))
            except KeyboardInterrupt as interruption:
                if len(codes) == 1:
                    raise
                say(f"Interrupted: {name} was not graded and nothing is left running.")
                return getattr(interruption, "exit_code", INTERRUPTED)
    return max(codes)


def _warmed(order: Order) -> AbstractContextManager[Session]:
    """A session that several grades share; a single grade starts its own, if it comes to that."""
    from grader.grade import warmed

    return warmed(order.device, order.start_method, order.sandbox)


def _begun(root: Path, order: Order) -> tuple[list[str], int]:
    """The exercises that the student has begun, and the code that faulty ones among the others cost."""
    from grader.practice import overview

    if order.submission or order.from_runs:
        raise UsageError("Say which exercise this is for, as in `grade 03 --submission FILE`.")
    listed = list(overview.entries(root))
    code = tell_faults(listed)
    names = [entry.name for entry in listed if entry.begun]
    if not names and not code:
        raise UsageError(overview.nothing_begun(listed))
    return names, code


def tell_faults(listed: Sequence[Entry]) -> int:
    for entry in listed:
        if entry.fault:
            say(f"grader: {entry.fault}")
    return FAULT if any(entry.fault for entry in listed) else PASSED


def _grade_one(name: str, root: Path, order: Order, session: Session | None, later: bool, left: float | None) -> int:
    """Grade one exercise and show its page. Its code; an error costs the exercises after it nothing."""
    from grader.render import terminal

    try:
        with terminable():
            report = _graded(name, root, order, session, left)
    except GraderError as error:
        say(f"grader: {error}")
        return error.exit_code
    style = console.style(False if order.plain else order.color)
    show(("\n" if later else "") + terminal.render(report, **style))
    _write(report, order)
    return CODES[report.status]


def _graded(name: str, root: Path, order: Order, session: Session | None, deadline: float | None) -> Report:
    with console.progress(name, order.plain) as progress:
        from grader.grade import grade as grade_one

        return grade_one(
            name,
            root=root,
            submission=order.submission,
            seed=order.seed,
            device=order.device,
            start_method=order.start_method,
            sandbox=order.sandbox,
            deadline=deadline,
            journal=order.journal,
            progress=progress,
            from_runs=order.from_runs,
            trace=order.trace is not None,
            session=session,
        )


def _write(report: Report, order: Order) -> None:
    """The files that were asked for. After the page, which a full disk must not cost the student."""
    from grader import recording
    from grader.practice import output
    from grader.render import chrome, json

    if order.json:
        output.write(order.json, lambda path: path.write_text(json.render(report), encoding="utf-8"))
    if order.trace:
        output.write(order.trace, lambda path: path.write_text(chrome.render(report), encoding="utf-8"))
    if order.save_runs:
        output.write(order.save_runs, lambda path: recording.save(path, report.exercise, report.seed, report.runs))
