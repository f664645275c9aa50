"""A page of Markdown about a result, in blocks that are shown whole or not at all. Give it students' safe reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from grader.model import Finding, Outcome, Report, Result, Verdict
from grader.wording.advice import replay
from grader.wording.markdown import code, escape, fence, table
from grader.wording.marks import FINDINGS_SHOWN, MARKS
from grader.wording.plain import (
    beginning,
    deadlock_of,
    details,
    finding_lines,
    hint_of,
    in_bytes,
    printed,
    untold,
    waits,
)

OUTPUTS_SHOWN = 4
CUT = "*This page was cut here, as it would have grown too long.*"

Block = list[str]


def page(blocks: Iterable[Block], room: int) -> str:
    """The blocks with an empty line between them, as many as fit into `room` bytes, and a word where some did not."""
    kept: list[str] = []
    room -= in_bytes(CUT)
    for block in blocks:
        room -= sum(map(in_bytes, block)) + 1
        if room < 0:
            kept.append(CUT)
            break
        kept.append("\n".join(block))
    return "\n\n".join(kept) + "\n"


def sections(result: Result) -> Iterator[Block]:
    """What went wrong in each exercise and how to see it again; where there are several, each has its heading."""
    several = len(result.entries) > 1
    for entry in result.entries:
        blocks = list(_exercise(entry.report))
        if several:
            yield [f"### {escape(entry.report.exercise.name)}: {escape(entry.report.exercise.title)}"]
        yield from blocks


def _exercise(report: Report) -> Iterator[Block]:
    problem = report.submission.problem
    if problem:
        yield fence(finding_lines(problem, report.exercise))
    told: set[Finding] = {problem} if problem else set()
    for verdict in report.verdicts:
        yield from _check(verdict, report, told)
    for label, lines in printed(report)[:OUTPUTS_SHOWN]:
        yield [f"{label[:1].upper()}{label[1:]}:"]
        yield fence(lines)
    if start := beginning(report):
        yield fence([start])
    if report.notes:
        yield fence(report.notes)
    yield ["Replay with", "", *fence([" ".join(replay(report))], "sh")]


def _check(verdict: Verdict, report: Report, told: set[Finding]) -> Iterator[Block]:
    """One check that failed, is broken or was skipped; what an earlier one has told is not told again."""
    if verdict.outcome in (Outcome.PASSED, Outcome.BLOCKED):
        return
    head = [f"#### {MARKS[verdict.outcome][0]} {escape(verdict.check.title)}"]
    if verdict.outcome is not Outcome.FAILED:
        yield head
        yield fence(details(verdict, report))
        return
    new = [finding for finding in verdict.findings if finding not in told]
    if verdict.findings and not new:
        yield [*head, "", "As above."]
        return
    told.update(new)
    yield head
    yield from _failure(verdict, new, report)


def _failure(verdict: Verdict, findings: Sequence[Finding], report: Report) -> Iterator[Block]:
    run = deadlock_of(findings, report)
    if run:
        yield [f"Deadlock: no rank can go on, on {len(run.ranks)} ranks."]
        cells = [(rank, code(state), line) for rank, state, line in waits(run)]
        yield table(("rank", "waits in", "line"), cells, "rlr")
    left = untold(findings, run)
    lines = [line for finding in left[:FINDINGS_SHOWN] for line in finding_lines(finding, report.exercise)]
    lines += [f"… and {len(left) - FINDINGS_SHOWN} more findings"] if len(left) > FINDINGS_SHOWN else []
    if not findings:
        lines = details(verdict, report)
    if lines:
        yield fence(lines)
    hint = hint_of(verdict, report)
    if hint and findings:
        yield [f"Hint: {code(hint)}" if any(finding.hint for finding in findings) else f"Hint: {escape(hint)}"]
