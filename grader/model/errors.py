"""Every error that the grader raises on purpose.

GraderError
├── UsageError        the command was wrong: a bad EX, a missing file, a wrong assignment.yaml (exit code 2)
├── AuthorError       an exercise folder is wrong: path, line, fault, remedy (exit code 3)
├── WireError         bytes from a rank are not a value that the wire allows
├── RunError          the ranks could not be run; of a whole grade, the machine's fault (exit code 3)
│   ├── NoRankStarted     no rank had been started yet in that session, so that no submission can have caused it
│   └── WatcherKilled     a signal ended the process that watches them
├── Cancelled         somebody called off the grade
├── NotRun            the time of the whole grade was up before a case could be run
├── NotJudged         a check has nothing to look at, since what another check is about went wrong before
└── MissingHardware   a case needs hardware that this machine does not have; its checks are skipped

AssertionError
└── CheckFailed       a check found the student's code wrong; it carries findings

A student's mistake is never a GraderError: it is a finding in a report.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.model import Finding


class GraderError(Exception):
    """Base of all errors raised on purpose; its text is one clear sentence."""

    exit_code = 3


class UsageError(GraderError):
    """The command was wrong, and the sentence says what to type instead."""

    exit_code = 2


class AuthorError(GraderError):
    """An exercise folder is wrong: where, what, and how to mend it."""

    def __init__(self, path: Path, fault: str, remedy: str, line: int | None = None) -> None:
        self.path, self.fault, self.remedy, self.line = path, fault, remedy, line
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {fault}. {remedy}")


class WireError(GraderError):
    """Bytes that came from a rank are malformed, too large or of a type that may not cross."""


class RunError(GraderError):
    """The ranks could not be run. Out of one attempt it says nothing of whose fault that is (`grading.blame`); a grade
    that ends with it was the machine's or the grader's fault."""


class NoRankStarted(RunError):
    """The ranks could not be run, and none had been started yet in that session: no submission can have caused it."""


class Cancelled(GraderError):
    """The grade was called off, as watch mode does when a file is saved again."""

    def __init__(self) -> None:
        super().__init__("the grade was called off")


class NotRun(GraderError):
    """A case was not run because the time of the whole grade was up."""

    def __init__(self) -> None:
        super().__init__("not judged: the time of the whole grade (--deadline) was up")


class NotJudged(GraderError):
    """What a check looks at never came about, because of something that another check is about and fails for."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not judged: {reason}")


class MissingHardware(GraderError):
    """A case needs hardware that this machine does not have, so it is not run."""


class WatcherKilled(RunError):
    """A signal ended the process that watches the ranks."""

    def __init__(self) -> None:
        super().__init__(
            "The process that watches the ranks was killed. Did this machine run out of memory? Try again."
        )


class CheckFailed(AssertionError):
    """A check found the student's code wrong."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        super().__init__("; ".join(finding.sentence() for finding in findings))
