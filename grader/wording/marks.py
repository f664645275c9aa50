"""What every page shows alike: the marks of outcomes, whose fault a broken check is, how many findings are shown."""

from __future__ import annotations

from collections.abc import Mapping

from grader.model import Outcome

MARKS: Mapping[Outcome, tuple[str, str]] = {
    Outcome.PASSED: ("✓", "green"),
    Outcome.FAILED: ("✗", "red"),
    Outcome.BLOCKED: ("\N{EN DASH}", "dim"),
    Outcome.SKIPPED: ("\N{EN DASH}", "dim"),
    Outcome.BROKEN: ("!", "yellow"),
}
"""The character and its style, in the words of rich, where there are colours."""

UNJUDGED: Mapping[Outcome, str] = {Outcome.SKIPPED: "not counted", Outcome.BROKEN: "not judged"}
"""What stands in the place of points."""

OUR_FAULT = "The grader or the exercise is at fault here, not your code."
NO_MARK = "No mark: a check could not be judged, which is not your fault. In a course, staff will grade this again."
"""What stands in the place of a score, wherever there is no mark because a check is broken."""

FINDINGS_SHOWN, FINDINGS_ON_A_TERMINAL, FINDINGS_IN_A_BROWSER = 6, 4, 12
"""Findings of one check: as a rule, on a page that has to fit a screen, and where the reader can fold and scroll."""
