"""What `grade` does with its options: what is to be graded, and what becomes of each report."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from grader import calling, catalog, files
from grader.catalog.assignment import moment
from grader.cli import console
from grader.cli.common import tell_faults
from grader.cli.console import say
from grader.cli.ending import FAILED, FAULT, INTERRUPTED, PASSED
from grader.cli.outputs import Apart, Outputs
from grader.cli.telling import Told
from grader.grading import assignment
from grader.grading.assignment import Graded, Plan
from grader.grading.observe import Listener
from grader.grading.request import Machine, Request
from grader.grading.sessions import AnySession
from grader.model import Entry
from grader.model.assignment import Part
from grader.model.errors import UsageError
from grader.practice import overview
from grader.records import recording

CODES = {"passed": PASSED, "failed": FAILED, "error": FAULT}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `grade` was asked to do, beside the exercises' names."""

    submission: Path | None
    seed: int | None
    deadline: float | None
    journal: Path | None
    trace: Path | None
    save_runs: Path | None
    from_runs: Path | None
    color: bool | None
    plain: bool
    outputs: Outputs
    assignment: Path | None
    checks: Path | None
    only: tuple[str, ...]
    submitted_at: datetime | None
    due: datetime | None

    def request(self, root: Path, checks: Path | None) -> Request:
        """The request that every exercise has in common. Runs are saved by this module, after the page."""
        return Request(
            exercise="",
            root=root,
            submission=self.submission,
            seed=self.seed,
            deadline=self.deadline,
            trace=self.trace is not None or self.outputs.html is not None,
            journal=self.journal,
            from_runs=self.from_runs,
            checks=checks,
            only=self.only,
        )

    @property
    def style(self) -> console.Style:
        return console.style(False if self.plain else self.color)

    def check(self, plan: Plan) -> None:
        """What cannot be meant, and files that cannot be read or written. Raises UsageError."""
        for option in ("trace", "journal", "save_runs", "from_runs"):
            if getattr(self, option) and len(plan.parts) != 1:
                raise UsageError(f"--{option.replace('_', '-')} goes with one exercise, not with {len(plan.parts)}.")
        if self.only and (plan.assigned or len(plan.parts) != 1 or self.journal):
            raise UsageError("--only goes with one exercise, and with neither an assignment nor a journal.")
        if plan.assigned and self.submission and not self.submission.is_dir():
            raise UsageError(f"There is no folder {self.submission}; an assignment is handed in as a folder.")
        if self.submission and len(plan.parts) > 1 and not self.submission.is_dir():
            raise UsageError(f"--submission {self.submission} is one file; name the one exercise that it belongs to.")
        for path in filter(None, (self.trace, self.save_runs)):
            files.check_writable(path)
        self.outputs.check()


def grade(ex: Sequence[str], chosen: dict[str, Any], machine: Machine, session: AnySession) -> int:
    """Grade what the options say, first on `session`, which is warm by the time it is needed. The exit code."""
    for name in ("submitted_at", "due"):
        chosen[name] = _moment(name, chosen[name])
    asked = Options(outputs=Outputs.taken(chosen, chosen["submitted_at"]), **chosen)
    plan, code = planned(ex, asked, catalog.repository_root())
    asked.check(plan)
    return max(code, _grade(plan, asked, machine, session))


def _moment(name: str, text: str | None) -> Any:
    try:
        return moment(text) if text else None
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(
            f"{option} {text} is not a time with a time zone; write it like 2026-10-12T23:59:00+02:00."
        ) from None


def planned(texts: Sequence[str], asked: Options, root: Path) -> tuple[Plan, int]:
    """The exercises that were named, those of the assignment, or all that is begun; and the code that faulty ones
    among the others cost."""
    if asked.assignment:
        return _assigned(texts, asked, asked.assignment, root), PASSED
    if asked.submitted_at or asked.due:
        raise UsageError("--submitted-at and --due go with --assignment, which has the rules for what is late.")
    names, code = ([_named(text, root) for text in texts], PASSED) if texts else _begun(root, asked)
    parts = tuple(Part(exercise=name, weight=0) for name in dict.fromkeys(names))
    return Plan(title="Exercises", parts=parts, request=asked.request(root, asked.checks)), code


def _named(text: str, root: Path) -> str:
    """The exercise that `text` names. A path to it lies in the course: a file elsewhere is somebody's work, and by its
    name alone another file would be graded than the one that was meant."""
    path, course = Path(text), root / "exercises"
    is_path = ("/" in text or path.suffix == ".py") and path.exists()
    if is_path and not path.resolve().is_relative_to(course.resolve()):
        raise UsageError(f"{text} is no part of {course}; grade it with --submission {shlex.quote(text)}.")
    return catalog.resolve(text, root)


def _assigned(texts: Sequence[str], asked: Options, path: Path, root: Path) -> Plan:
    if texts:
        raise UsageError("Name exercises or an assignment, not both.")
    if not path.is_file():
        raise UsageError(f"There is no file {path}; --assignment names an assignment.yaml.")
    found = catalog.load_assignment(path, root)
    return Plan(
        title=found.title,
        parts=found.parts,
        request=asked.request(root, asked.checks or found.checks),
        assigned=True,
        submitted_at=asked.submitted_at,
        due=asked.due,
    )


def _begun(root: Path, asked: Options) -> tuple[list[str], int]:
    """The exercises that the student has begun, and the code that faulty ones among the others cost."""
    if asked.submission or asked.from_runs:
        raise UsageError("Say which exercise this is for, as in `grade 03 --submission FILE`.")
    listed = overview.entries(root)
    code = tell_faults(listed)
    names = [entry.name for entry in listed if entry.begun]
    if not names and not code:
        raise UsageError(overview.nothing_begun(listed))
    return names, code


def _grade(plan: Plan, asked: Options, machine: Machine, session: AnySession) -> int:
    """Grade what is planned and show each page as soon as there is one. The worst exit code of all. The files are
    written first, and neither a file nor a page that fails costs the others."""
    done: list[Graded] = []
    codes, apart = [PASSED], Apart()
    try:
        for graded in assignment.grade_all(plan, machine, lambda part: _listening(part, asked), session):
            done.append(graded)
            with apart.doing("A file"):
                _write(_entries(done), plan, asked, assignment.waiting(plan, len(done), machine))
            with apart.doing("The page"):
                codes.append(_shown(graded, plan, asked, later=len(done) > 1))
            with apart.doing("A file"):
                _keep(graded, plan, asked)
    except KeyboardInterrupt as interruption:
        if not done:
            raise
        say(f"Interrupted: {plan.parts[len(done)].exercise} was not graded and nothing is left running.")
        return getattr(interruption, "exit_code", INTERRUPTED)
    with apart.doing("The summary"):
        _conclude(plan, _entries(done), asked)
    apart.conclude()
    return max(codes)


@contextlib.contextmanager
def _listening(part: Part, asked: Options) -> Iterator[Listener]:
    with console.progress(part.exercise, asked.plain) as progress:
        yield Told(progress)


def _entries(done: Sequence[Graded]) -> list[Entry]:
    return [graded.entry for graded in done if graded.entry]


def _shown(graded: Graded, plan: Plan, asked: Options, later: bool) -> int:
    """Show the page of one exercise, or say why there is none. Its code."""
    from grader.render import terminal  # not earlier: the ranks' host should begin before Rich is imported
    from grader.wording import advice

    if graded.error is not None:
        say(f"grader: {graded.error}")
        return graded.error.exit_code
    assert graded.entry is not None
    shown = asked.outputs.shown(plan.result([graded.entry])).entries[0].report
    hidden = asked.outputs.show_hidden
    checks = plan.request.checks if hidden else asked.checks  # those of an assignment are staff's to know
    if checks and catalog.checks_for(graded.part.exercise, checks, alone=len(plan.parts) == 1) is None:
        checks = None  # it has some for other exercises alone, and for this one the command would be refused
    words = advice.replay(shown, calling.way(), checks, hidden)
    page = terminal.render(shown, command=words, editor=asked.outputs.way_in(asked.style), **asked.style)
    asked.outputs.page(("\n" if later else "") + page)
    return CODES[shown.status]


def _keep(graded: Graded, plan: Plan, asked: Options) -> None:
    """Write the files that one exercise has, and remember the attempt."""
    from grader.cli import attempts
    from grader.render import chrome

    if graded.entry is None or graded.error is not None:
        return
    report, apart = graded.entry.report, Apart()
    if asked.trace:
        with apart.doing("--trace"):
            files.write(asked.trace, chrome.render(report))
    if asked.save_runs:
        with apart.doing("--save-runs"):
            files.write(asked.save_runs, recording.encoded(report.exercise, report.seed, report.runs))
    if not (plan.assigned or asked.from_runs or asked.only):
        attempts.remember(report, plan.request.root)
    apart.conclude()


def _write(entries: Sequence[Entry], plan: Plan, asked: Options, waiting: Sequence[Entry]) -> None:
    """Write the files that were asked for, with what is known by now: a platform may end the grade at any moment."""
    if entries and asked.outputs.files:
        asked.outputs.write(plan.result([*entries, *waiting]))


def _conclude(plan: Plan, entries: Sequence[Entry], asked: Options) -> None:
    """What is said of the whole."""
    if not entries:
        return
    result = plan.result(entries)
    if plan.assigned:
        from grader.render import summary

        asked.outputs.page("\n" + summary.render(asked.outputs.shown(result), **asked.style))
    asked.outputs.announce(result)
