"""What one check came to: the outcome of a phase of pytest as a Verdict."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from grader.model import Check, Finding, Outcome, Run, Verdict
from grader.model.errors import CheckFailed, GraderError, MissingHardware, NotJudged, NotRun, RunError, WireError

ODD = "The check could not make sense of what the code recorded"
LONGEST_FAULT = 500
"""Characters of what is said of an exception: it may quote all that a rank has recorded."""


def is_odd(verdict: Verdict) -> bool:
    """Whether a check met what it was not written for. `verify` proves that right solutions never bring that about, and
    an author wants to know."""
    return verdict.outcome is Outcome.BROKEN or any(finding.subject == ODD for finding in verdict.findings)


def verdict_of(check: Check, call: pytest.CallInfo[None]) -> Verdict:
    """What one check came to. Recorded data are the submission's, so whatever a check raises over them is FAILED; were
    it BROKEN, a student could bring it about. BROKEN is what we say ourselves: a GraderError, but for a value that
    may not cross."""
    findings: tuple[Finding, ...] = ()
    error = call.excinfo.value if call.excinfo else None
    message = "" if error is None else _text(error)
    match error:
        case None:
            outcome = Outcome.PASSED
        case CheckFailed():
            outcome, findings = Outcome.FAILED, error.findings
        case pytest.skip.Exception():
            outcome = Outcome.BLOCKED if call.when == "setup" else Outcome.SKIPPED
        case MissingHardware():
            outcome = Outcome.SKIPPED
        case NotRun() | NotJudged():
            outcome = Outcome.BLOCKED
        case GraderError() if not isinstance(error, WireError):
            where = "" if isinstance(error, RunError) else _line_of_checks(error)
            outcome, message = Outcome.BROKEN, f"{where}{message}"
        case _:
            outcome, findings = Outcome.FAILED, (Finding(subject=ODD, actual=fault(error)),)
            message = findings[0].sentence()
    return Verdict(check=check, outcome=outcome, findings=findings, message=message, seconds=call.duration)


def charged(verdict: Verdict, runs: Sequence[Run]) -> Verdict:
    """A check that was not judged, failed by what ended the first of these runs that did not come to its end; where all
    did, by its own words."""
    ended = next((run.diagnosis.findings for run in runs if run.diagnosis is not None), ())
    findings = ended or (Finding(subject="This check found nothing to look at", actual=verdict.message),)
    message = "; ".join(finding.sentence() for finding in findings)
    return replace(verdict, outcome=Outcome.FAILED, findings=findings, message=message)


def _text(error: BaseException) -> str:
    """What an exception says, which may go wrong where it quotes what a rank has recorded."""
    try:
        return str(error.msg if isinstance(error, pytest.skip.Exception) else error)
    except Exception:
        return ""


def fault(error: BaseException) -> str:
    """Where an exception was raised, and what it says. The line of the checks is the one that their author can mend;
    the innermost one stands for it where there is none."""
    places = _places(error)
    where = _line_of_checks(error) or (f"{places[-1]}: " if places else "")
    return f"{where}{type(error).__name__}: {_text(error)[:LONGEST_FAULT]}"


def _line_of_checks(error: BaseException) -> str:
    """`checks.py:41: ` for the innermost line of the checks that an exception went through; empty where it has none."""
    return next((f"{place}: " for place in reversed(_places(error)) if place.startswith("checks.py:")), "")


def _places(error: BaseException) -> list[str]:
    """`file:line` of each frame that an exception went through, outermost first."""
    frames = traceback.walk_tb(error.__traceback__)
    return [f"{Path(frame.f_code.co_filename).name}:{line}" for frame, line in frames]
