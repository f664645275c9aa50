"""The largest report that the budgets allow, of one letter that wants to be expensive. As a script it says how large
each page is and how long it takes:

    .venv/bin/python -m tests.largest
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from grader.model import (
    Case,
    Deadlocked,
    Diagnosis,
    Ending,
    Finding,
    Outcome,
    Raised,
    RankRecord,
    Report,
    Run,
    StackFrame,
    Wait,
    alone,
    budgets,
)
from grader.model.trace import Communication, Span, Trace
from grader.ranks.watch import parsing
from grader.ranks.watch.watched import HEAD, TAIL
from grader.records.structure import MAX_TEXT
from grader.render import chrome, classroom50, github, gradescope, html, junit, terminal
from grader.render import json as as_json
from grader.submission.found import MAX_BYTES
from tests import reports
from tests.test_render_classroom50 import CONTEXT

LETTERS = ("x", "<", "\U0001f600", "\x01", "\u202e", '"', "\n", "(")
RUNS, RANKS, CHECKS, FINDINGS = 20, 15, 30, 10

PAGES: Mapping[str, Callable[[Report], str]] = {
    "json": as_json.render,
    "html": lambda report: html.render(alone(report)),
    "terminal": terminal.render,
    "chrome": chrome.render,
    "junit": lambda report: junit.render(alone(report)),
    "gradescope": lambda report: gradescope.render(alone(report)),
    "classroom50": lambda report: classroom50.render(alone(report), CONTEXT),
    "release body": lambda report: classroom50.release_body(alone(report)),
    "annotations": lambda report: github.annotations(alone(report), Path.as_posix),
    "summary": lambda report: github.summary(alone(report)),
}


def largest(letter: str, *, spread: bool = True) -> Report:
    """Every rank says all that it may. Its events are spread over all ranks, or as many as one may have on some."""
    runs = tuple(_run(number, letter, spread) for number in range(RUNS))
    long = letter * parsing.MAX_TEXT
    report = reports.report("FPPPP", {}, runs, reports.submission())
    first = replace(report.verdicts[0].check, title="t" * 100)
    findings = tuple(
        Finding(subject=long, expected=long, actual=f"{n}{long}", ranks=tuple(range(RANKS)), line=n, case="train[15]")
        for n in range(FINDINGS)
    )
    verdicts = tuple(
        replace(
            report.verdicts[0],
            check=replace(first, id=f"check{n}"),
            outcome=Outcome.FAILED,
            findings=tuple(replace(finding, actual=f"{n} {finding.actual}") for finding in findings),
        )
        for n in range(CHECKS)
    )
    source = f"# {letter * 100}\n".encode() + (f"{letter} " * MAX_BYTES).encode()[: MAX_BYTES - 1000]
    exercise = replace(report.exercise, checks=tuple(v.check for v in verdicts), cases=tuple(r.case for r in runs))
    return replace(report, exercise=exercise, verdicts=verdicts, submission=replace(report.submission, source=source))


def _run(number: int, letter: str, spread: bool) -> Run:
    case = Case(name=f"case{number}", world_size=RANKS, probe="x", trace=True)
    records = tuple(_record(number, rank, letter, spread) for rank in range(RANKS))
    found = Finding(subject=letter * 4000, actual=letter * 4000, ranks=tuple(range(RANKS)), case=case.id)
    return Run(
        case=case,
        ranks=records,
        seconds=30.0,
        diagnosis=Diagnosis(kind="raised", ranks=(0,), findings=(found,) * RANKS),
    )


def _record(number: int, rank: int, letter: str, spread: bool) -> RankRecord:
    events = budgets.EVENTS_OF_GRADE // (2 * RUNS * RANKS)
    if not spread:
        events = budgets.EVENTS if (number * RANKS + rank) * budgets.EVENTS * 2 < budgets.EVENTS_OF_GRADE else 0
    long = letter * parsing.MAX_TEXT
    stack = tuple(StackFrame(file=long, line=line, function=long, student=True) for line in range(parsing.MAX_ROWS))
    ending: Ending = Raised(type=long, message=long, causes=(long,) * parsing.MAX_CAUSES, stack=stack, seconds=30.0)
    if rank % 2:
        ending = Deadlocked(wait=Wait(operation=long, group=long, bytes=2**62, peer=2**62), stack=stack, seconds=30.0)
    name = letter * MAX_TEXT
    talks = tuple(
        Communication(
            operation=name if n % 2 else "send",
            bytes=2**62,
            dtype=name,
            group=tuple(range(RANKS)),
            peer=(rank + 1) % RANKS,
            start=n / 1e3,
            end=None if n % 3 else n / 1e3 + 9,
            line=2**30,
            backward=2**30,
            remaining=2**30,
        )
        for n in range(events)
    )
    spans = tuple(Span(kind="region", name=name, start=n / 1e3, end=20.0) for n in range(events))
    output = f"{rank}{letter * (HEAD + TAIL)}"
    return RankRecord(
        rank=rank, ending=ending, output=output, trace=Trace(communications=talks, spans=spans), device="cpu"
    )


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(PAGES)
    for spread in (True, False):
        for letter in LETTERS:
            report = largest(letter, spread=spread)
            print(f"{letter!r}, events of {'all ranks' if spread else 'some ranks'}")
            for name in chosen:
                began = time.process_time()
                page = PAGES[name](report)
                print(f"  {name:12} {len(page.encode()) / 1e6:7.2f} MB {time.process_time() - began:6.2f} s of CPU")
