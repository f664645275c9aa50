"""Results of several exercises, and reports that must not be shown or believed as they are (see tests/reports.py)."""

from __future__ import annotations

from dataclasses import replace

from grader.model import (
    Check,
    Deadlocked,
    Diagnosis,
    Entry,
    Finding,
    Finished,
    Late,
    Outcome,
    Raised,
    Report,
    Result,
    Run,
    Verdict,
    Wait,
)
from tests.reports import (
    CHECKS,
    EXERCISE,
    broken,
    case,
    deadlock,
    failed_run,
    frame,
    partial,
    passed,
    ranks,
    report,
    submission,
)


def with_hidden() -> Report:
    """One check is hidden and failed, one is for after the due date and passed; a run serves the hidden one alone."""
    made = partial()
    leak = Finding(
        subject="SECRET tensor", expected="SECRET value", actual="SECRET seen", ranks=(3,), line=77, case="secret[4]"
    )
    hidden = Check(id="secret_sizes", title="SECRET title", points=20, hints=("SECRET hint",), visibility="hidden")
    later = Check(id="later", title="LATER title", points=10, visibility="after_due_date")
    verdicts = (
        *made.verdicts,
        Verdict(check=hidden, outcome=Outcome.FAILED, findings=(leak,)),
        Verdict(check=later, outcome=Outcome.PASSED),
    )
    run = Run(
        case=replace(case("secret", 4), visibility="hidden"),
        ranks=ranks(*[Finished(seconds=0.1)] * 4, outputs=["SECRET output"] * 4),
        seconds=0.3,
        diagnosis=Diagnosis(kind="raised", ranks=(3,), findings=(leak,)),
    )
    exercise = replace(EXERCISE, checks=(*CHECKS, hidden, later))
    return replace(made, exercise=exercise, verdicts=verdicts, runs=(*made.runs, run))


def two_exercises() -> Result:
    """An assignment of two exercises, of which the second was handed in late."""
    second = replace(partial(), exercise=replace(EXERCISE, name="04_digits", title="Digits on several ranks"))
    late = Late(kept=0.8, told="Handed in 2 days late: 20 % off.")
    return Result(
        title="Assignment 1: data parallel",
        entries=(Entry(report=deadlock(), weight=60), Entry(report=second, weight=40, late=late)),
    )


def no_mark_for_one_of_two() -> Result:
    """An assignment of which one exercise has a check that could not be judged; the other passed."""
    second = replace(broken(), exercise=replace(EXERCISE, name="04_digits", title="Digits on several ranks"))
    return Result(title="Assignment 2", entries=(Entry(report=passed(), weight=60), Entry(report=second, weight=40)))


def commanding() -> Report:
    """A student whose texts try to be commands, markup and formulas of whatever reads a report."""
    texts = (
        "::error file=x::owned\n::stop-commands::t\n##[error]owned\n##vso[task.complete]\n"
        "##teamcity[x]\n::set-output name=a::b",
        "```\n# owned\n~~~\n</code><script>alert(1)</script><img src=x onerror=alert(1)>\n| a | b |\n|---|---|",
        "=HYPERLINK(1)\t+1+1\n-2+3\n@SUM(A1)\r=cmd|' /C calc'!A0",
        "]]></failure><testcase/> &amp; &#x0; \x00\x0b\ufffe\uffff \ud800 <!-- --> %0A %25 ,:",
        "@everyone #123 http://owned.example [x](javascript:alert(1)) `a` ``b`` $x$",
    )
    findings = tuple(
        Finding(subject=text, expected=text, actual=text, ranks=(0,), line=number, case="equal_shards[2]", hint=text)
        for number, text in enumerate(texts, 1)
    )
    raised = Raised(stack=(frame(3),), type=texts[0], message=texts[1])
    stuck = Deadlocked(stack=(frame(4),), wait=Wait(operation=f"all|reduce\n{texts[1]}", group=texts[4]))
    run = failed_run("deadlocked", findings, raised, stuck, outputs=("\n".join(texts), texts[0]))
    return report(
        "FFPPP", {"runs": findings, "same_as_one_process": findings[1:]}, (run,), submission("a b\n::error::.py")
    )
