"""What a student may do next: where to start, and the command that replays a grade."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import calling
from grader.model import MISSING, Finding, Outcome, Raised, Report, StackFrame, Verdict
from grader.wording.text import safe

UNWRITTEN = "NotImplementedError"
"""What the stubs raise."""
NO_IMPORT = "could not be imported"
_RAISES = re.compile(rf"\s+raise {UNWRITTEN}\b")
_DEFINES = re.compile(r"\s*(async\s+def\b|def\b|\).*:)")
"""How a function's head begins, or the last line of one that takes several."""
_NAMED = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")


def begun(report: Report) -> bool:
    """Whether anything has been written: false for the stub, and where all that fails does so for want of code."""
    if _is_stub(report):
        return False
    failed = [verdict for verdict in report.verdicts if verdict.outcome is Outcome.FAILED]
    return report.score > 0 or not failed or not all(unwritten(verdict, report) for verdict in failed)


def unwritten(verdict: Verdict, report: Report) -> bool:
    """Whether a check failed only because what it asks for still raises the stub's own error."""
    findings = verdict.findings if verdict.outcome is Outcome.FAILED else ()
    own = _stub_findings(findings, report)
    cases = {finding.case for finding in own}
    return bool(own) and all(finding.case in cases for finding in findings)


def says_unwritten(finding: Finding) -> bool:
    """Whether a finding speaks of the stub's own error. A call at import says nothing of a check."""
    return UNWRITTEN in f"{finding.subject} {finding.actual}" and not finding.subject.endswith(NO_IMPORT)


def unusable(report: Report) -> tuple[Finding, ...]:
    """Why nothing was judged: the file does not compile, cannot be imported or lacks what is asked for."""
    if report.submission.problem is not None:
        return (report.submission.problem,)
    imported = next((run for run in report.runs if not run.case.probe), None)
    return imported.diagnosis.findings if imported is not None and imported.diagnosis is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do first or next: `lead` comes before `name`, which is a function and its line."""

    label: str
    lead: str
    name: str

    def sentence(self) -> str:
        return f"{self.lead} {self.name}."


def next_step(report: Report) -> Step | None:
    """What is to be written first or next. None where the student has more at hand: nothing is unwritten, or a check
    of what is written fails."""
    failed = [verdict for verdict in report.verdicts if verdict.outcome is Outcome.FAILED]
    faulty = next((verdict for verdict in failed if not unwritten(verdict, report)), None)
    if begun(report):
        return None if faulty or not failed else Step(label="Next", lead="write", name=_first(report))
    file, beside = where_to_start(report)
    what, name = ("mend", _faulty(faulty, report)) if faulty else ("write", _first(report))
    lead = f"open {file} and read README.md {beside}; the first thing to {what} is"
    return Step(label="Where to start", lead=lead, name=name)


def _first(report: Report) -> str:
    """The unwritten function that stands first in the student's file: `train_ddp (line 25)`."""
    names = [required.name for required in report.exercise.requires]
    default = names[0] if names else "the script itself" if report.exercise.script else "the first function"
    places = [(frame.line, frame.function) for frame in _unwritten_frames(report)]
    lines = _lines(report)
    found = [finding for verdict in report.verdicts for finding in verdict.findings if lines and finding.line]
    places += [(at.line, _function(at.line, lines)) for at in _stub_findings(found, report) if at.line]
    line, function = min(places, default=(0, ""))
    if not function:
        return default
    known = [name for name in names if name.split(".")[-1] == function]
    nameless = function.startswith(("_", "<"))
    return f"{known[0] if known else default if nameless else function} (line {line})"


def _faulty(verdict: Verdict, report: Report) -> str:
    """What a check of the stub finds at fault: `mean_loss (line 29)`, the last line of it that a rank has come to."""
    names = [required.name for required in report.exercise.requires]
    name = next((name for name in names if verdict.check.title.startswith(f"{name}:")), "")
    lines = [finding.line for finding in verdict.findings if finding.line]
    return f"{name or 'what the first check asks for'}{f' (line {lines[0]})' if lines else ''}"


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

    Paths are quoted. Where one of them cannot be written, there is no command, since it would grade another file: then
    the words say the seed, and with what.
    """
    exercise, submission = report.exercise, report.submission
    name = exercise.number if exercise.number.isdigit() else exercise.name
    missing = submission.problem is not None and submission.problem.subject == f"{exercise.file} {MISSING}"
    path = str(submission.path.parent if missing else submission.path)
    elsewhere = "" if at_home(report) or path == "." else _argument(path)
    further = _argument(str(checks)) if checks else ""
    words = [f"--seed {report.seed}"]
    if elsewhere is None or further is None:
        return [f"{calling.option(*words, by=by)} on the same file{' with the same checks' if checks else ''}"]
    words += [f"--checks {shlex.quote(further)}"] if further else []
    words += ["--show-hidden"] if hidden else []
    return calling.words("grade", name, *words, submission=elsewhere, by=by)


_CHANGED = ("\\", "…", ": :", "## ")
"""What `safe` writes in place of what it does not let through: it may have been here already."""


def _argument(path: str) -> str | None:
    """A path as an option takes it. None for one that no page can show as it is: a command would name another."""
    if not path.isprintable() or safe(path) != path or any(mark in path for mark in _CHANGED):
        return None
    return f"./{path}" if path.startswith(("-", " ")) else path


def _is_stub(report: Report) -> bool:
    """Whether the file is that of an exercise whose stub runs."""
    digest = report.exercise.stub_digest
    return bool(digest) and hashlib.sha256(report.submission.source).hexdigest() == digest


def _lines(report: Report) -> list[str]:
    """The student's file by lines; none where it is not known. It is not parsed: that may take minutes."""
    source = report.submission.source.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return source.split("\n") if source else []


def _stub_findings(findings: Sequence[Finding], report: Report) -> list[Finding]:
    """Those that tell of the stub's own error, by its name or by what it says."""
    lines = _lines(report) if findings else []
    said = [line for line in lines if _RAISES.match(line)]
    return [
        finding
        for finding in findings
        if (says_unwritten(finding) and _is_stub_line(finding.line, lines))
        or (finding.actual and any(f'"{finding.actual}"' in line for line in said))
    ]


def _is_stub_line(line: int | None, lines: Sequence[str]) -> bool:
    """Whether a function's own block raises the stub's error in that line, and not a condition in it. What is not known
    speaks for it."""
    if not lines:
        return True
    if line is None:
        return any(map(_RAISES.match, lines))
    if line > len(lines) or not _RAISES.match(lines[line - 1]):
        return False
    return bool(_DEFINES.match(_above(line, lines)))


def _above(line: int, lines: Sequence[str]) -> str:
    """The nearest line above that is indented less: the head of the block."""
    margin = _margin(lines[line - 1])
    return next((text for text in reversed(lines[: line - 1]) if text.strip() and _margin(text) < margin), "")


def _function(line: int, lines: Sequence[str]) -> str:
    """The name of the function that a line of it belongs to, or "<function>"."""
    margin = _margin(lines[line - 1])
    heads = (_NAMED.match(text) for text in reversed(lines[: line - 1]) if _margin(text) < margin)
    return next((head[1] for head in heads if head), "<function>")


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _unwritten_frames(report: Report) -> list[StackFrame]:
    """The student's innermost frame of each rank that met the stub's own error."""
    endings = [rank.ending for run in report.runs for rank in run.ranks]
    raised = [ending for ending in endings if isinstance(ending, Raised) and ending.type.split(".")[-1] == UNWRITTEN]
    stacks = [[frame for frame in ending.stack if frame.student] for ending in raised if not ending.importing]
    return [stack[-1] for stack in stacks if stack]
