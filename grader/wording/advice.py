"""What a student may do next: where to start, and the command that replays a grade."""

from __future__ import annotations

import re
from pathlib import Path

from grader import calling
from grader.model import MISSING, Finding, Raised, Report, StackFrame

UNWRITTEN = "NotImplementedError"
"""What the stubs raise."""
NO_IMPORT = "could not be imported"


def begun(report: Report) -> bool:
    """Whether anything has been written: false where no check passed and the stub's own error was seen."""
    if report.score > 0:
        return True
    found = (finding for verdict in report.verdicts for finding in verdict.findings)
    return not (_unwritten_frames(report) or any(says_unwritten(finding) for finding in found))


def says_unwritten(finding: Finding) -> bool:
    """Whether a finding speaks of the stub's own error. A call at import says nothing of a check."""
    return UNWRITTEN in f"{finding.subject} {finding.actual}" and not finding.subject.endswith(NO_IMPORT)


def first_to_write(report: Report) -> str:
    """The unwritten function that stands first in the student's file: `train_ddp (line 25)`."""
    names = [required.name for required in report.exercise.requires]
    default = names[0] if names else "the script itself" if report.exercise.script else "the first function"
    frame = min(_unwritten_frames(report), key=lambda frame: frame.line, default=None)
    if frame is None:
        return default
    known = [name for name in names if name.split(".")[-1] == frame.function]
    nameless = frame.function.startswith(("_", "<"))
    return f"{known[0] if known else default if nameless else frame.function} (line {frame.line})"


def at_home(report: Report) -> bool:
    """Whether the file is the exercise's own, not one that was handed in from elsewhere."""
    exercise = report.exercise
    return report.submission.path.parts[-3:] == ("exercises", exercise.name, exercise.file)


def where_to_start(report: Report) -> tuple[str, str]:
    """The file to open, and where its README.md lies."""
    folder = f"exercises/{report.exercise.name}"
    if at_home(report):
        return f"{folder}/{report.exercise.file}", "beside it"
    return str(report.submission.path), f"in {folder}"


def replay(report: Report, by: str = calling.MAKE, checks: Path | None = None, hidden: bool = False) -> list[str]:
    """The words of the command that grades with the same seed, for who calls `by` make or otherwise; staff names a
    course's further `checks`, and whether what is `hidden` is shown. Of what was not handed in the folder is named.

    A path goes into it only if neither make nor a shell reads anything else in it.
    """
    exercise, submission = report.exercise, report.submission
    name = exercise.number if exercise.number.isdigit() else exercise.name
    missing = submission.problem is not None and submission.problem.subject == f"{exercise.file} {MISSING}"
    path = str(submission.path.parent if missing else submission.path)
    elsewhere = not at_home(report) and path != "." and _is_plain(path)
    words = [f"--seed {report.seed}"]
    words += [f"--checks {checks}"] if checks and _is_plain(str(checks)) else []
    words += ["--show-hidden"] if hidden else []
    return calling.words("grade", name, *words, submission=path if elsewhere else "", by=by)


def _is_plain(path: str) -> bool:
    return re.fullmatch(r"[\w./+@][\w./+@-]*", path, re.ASCII) is not None


def _unwritten_frames(report: Report) -> list[StackFrame]:
    """The student's innermost frame of each rank that met the stub's own error."""
    endings = [rank.ending for run in report.runs for rank in run.ranks]
    raised = [ending for ending in endings if isinstance(ending, Raised) and ending.type.split(".")[-1] == UNWRITTEN]
    stacks = [[frame for frame in ending.stack if frame.student] for ending in raised if not ending.importing]
    return [stack[-1] for stack in stacks if stack]
