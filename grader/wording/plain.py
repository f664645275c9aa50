"""What a check came to and why, as plain lines: for the files that other programs show. Give them safe reports."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from grader.model import (
    Deadlocked,
    Ending,
    Exercise,
    Finding,
    Outcome,
    Raised,
    RankRecord,
    Report,
    Run,
    TimedOut,
    Verdict,
)
from grader.model.plain import ours
from grader.model.words import rank_list
from grader.wording.advice import next_step, unusable, unwritten
from grader.wording.marks import FINDINGS_SHOWN, OUR_FAULT
from grader.wording.rations import cut_before
from grader.wording.strip import legend, strips
from grader.wording.text import blocked_by, ended, in_world, place, waiting

VALUE_LINES = 12
OUTPUT_LINES = 40
STRIP_WIDTH = 70
LACKS = ("ContractError", "ModuleNotFoundError")
"""Errors that say of a file that something is not there."""

Row = tuple[str, str, str]


def details(verdict: Verdict, report: Report) -> list[str]:
    """Why a check did not pass, in lines without a margin; none for one that passed."""
    match verdict.outcome:
        case Outcome.BLOCKED:
            return [_capital(blocked_by(verdict, report.verdicts))]
        case Outcome.SKIPPED:
            return [f"Skipped, and not counted: {verdict.message or 'this machine lacks what it needs'}"]
        case Outcome.BROKEN:
            return [OUR_FAULT, *verdict.message.splitlines()[:VALUE_LINES]]
        case Outcome.FAILED:
            return _failure(verdict, report)
    return []


def _failure(verdict: Verdict, report: Report) -> list[str]:
    run = deadlock_of(verdict.findings, report)
    lines = deadlock_lines(run, report.exercise) if run else []
    left = untold(verdict.findings, run)
    for finding in left[:FINDINGS_SHOWN]:
        lines += finding_lines(finding, report.exercise)
    if len(left) > FINDINGS_SHOWN:
        lines.append(f"… and {len(left) - FINDINGS_SHOWN} more findings")
    if not verdict.findings:
        lines += verdict.message.splitlines()[:VALUE_LINES]
    hint = hint_of(verdict, report)
    return [*lines, f"Hint: {hint}"] if hint else lines


def beginning(report: Report) -> str:
    """Where to start, for who has written nothing yet, or what is next."""
    step = next_step(report)
    return f"{step.label}: {step.sentence()}" if step else ""


def hint_of(verdict: Verdict, report: Report) -> str:
    """The one hint that is given: a finding's own goes before the check's."""
    hints = [*(finding.hint for finding in verdict.findings if finding.hint), *general_hints(verdict, report)]
    return " ".join(hints[0].split()) if hints and not unwritten(verdict, report) else ""


def general_hints(verdict: Verdict, report: Report) -> tuple[str, ...]:
    """The check's own hints, where they can help: they say nothing of a function that is not written yet, of a file
    that cannot be graded, or of ranks that a signal has ended or that never came to an end."""
    if verdict.findings and (unwritten(verdict, report) or set(verdict.findings) & set(unusable(report))):
        return ()
    about = {finding.case for finding in verdict.findings}
    runs = [run for run in report.runs if run.case.id in about and run.diagnosis]
    return () if any(_says_nothing(run, verdict.findings) for run in runs) else verdict.check.hints


def _says_nothing(run: Run, findings: Sequence[Finding]) -> bool:
    """Whether the findings are those of a run that never came to what is judged: a signal or an endless computation has
    ended it, or the file lacks what is asked for or what it imports."""
    if run.diagnosis is None or not set(run.diagnosis.findings) & set(findings):
        return False
    first = [rank.ending for rank in run.ranks if rank.rank in run.diagnosis.ranks]
    return run.diagnosis.kind == "killed" or (bool(first) and all(map(_came_to_nothing, first)))


def _came_to_nothing(ending: Ending) -> bool:
    if isinstance(ending, Raised):
        return ending.importing or ending.type in LACKS
    return isinstance(ending, TimedOut) and ending.wait is None


def finding_lines(finding: Finding, exercise: Exercise) -> list[str]:
    """Subject and place, then `expected` and `got` under one another."""
    head = " · ".join(filter(None, [" ".join(finding.subject.split()), place(finding, exercise)]))
    labelled = [("expected  ", finding.expected), ("got       ", finding.actual)]
    if not finding.expected:
        labelled = [("", finding.actual)]
    lines = [head] if head else []
    for label, text in labelled:
        lines += _value(label, text) if text else []
    return lines


def _value(label: str, text: str) -> list[str]:
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    if len(lines) > VALUE_LINES:
        lines[VALUE_LINES - 1 :] = [f"… ({len(lines) - VALUE_LINES + 1} more lines)"]
    margin = " " * len(label)
    return [f"  {margin if index else label}{line}".rstrip() for index, line in enumerate(lines)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ── deadlocks ──


def deadlock_of(findings: Sequence[Finding], report: Report) -> Run | None:
    """The first deadlocked run whose diagnosis is among the findings. One that was found in what the ranks had recorded
    before has nothing to do with how their run ended."""
    causes = {cause(finding) for finding in findings}
    return next((run for run in report.runs if is_deadlocked(run) and _is_told(run, causes)), None)


def is_deadlocked(run: Run) -> bool:
    """Whether ranks of it wait for what never comes."""
    return run.diagnosis is not None and any(isinstance(rank.ending, Deadlocked) for rank in run.ranks)


def untold(findings: Sequence[Finding], run: Run | None) -> list[Finding]:
    """The findings that the table of a deadlocked run does not tell already."""
    diagnosed = run.diagnosis.findings if run and run.diagnosis else ()
    told = {cause(finding) for finding in diagnosed if run and not finding.expected and _is_in_table(finding, run)}
    return [finding for finding in findings if cause(finding) not in told]


def _is_in_table(finding: Finding, run: Run) -> bool:
    """Whether a finding of the run's diagnosis says no more than that its ranks wait there, have returned, or were
    struck by what another rank did."""
    causes = run.diagnosis.ranks if run.diagnosis else ()
    blamed = [rank for rank in run.ranks if rank.rank in finding.ranks]
    if any(rank.rank in causes and not isinstance(rank.ending, Deadlocked) for rank in blamed):
        return False
    return all(rank.ending.at == finding.line for rank in blamed)


def waits(run: Run) -> list[Row]:
    """Rank, what it waits in, line: a row for each rank."""
    return [(str(rank.rank), _state(rank, run), str(rank.ending.at or "")) for rank in run.ranks]


def deadlock_lines(run: Run, exercise: Exercise) -> list[str]:
    """A deadlock in lines: the table of what every rank waits in, and who was in which communication when."""
    return [*deadlock_table(run, exercise), *strip_lines(run)]


def deadlock_table(run: Run, exercise: Exercise, width: int | None = None) -> list[str]:
    """A heading and the aligned table of what every rank waits in. Where it has to fit into `width` columns, the lines'
    numbers stay."""
    head = finding_lines(Finding(subject="Deadlock: no rank can go on", case=run.case.id), exercise)
    rows = [("rank", "waits in", "line"), *waits(run)]
    if width is not None:
        rows = folded(rows, max(8, width - 14))
    wide = max(len(state) for _, state, _ in rows)
    return [*head, *(f"  {rank:<4}  {state:<{wide}}  {line:>4}".rstrip() for rank, state, line in rows)]


def folded(rows: Sequence[Row], width: int) -> list[Row]:
    """The rows of the table, where a state that is longer than `width` takes several."""
    parts = [(rank, textwrap.wrap(state, width, break_on_hyphens=False) or [""], line) for rank, state, line in rows]
    return [
        (rank, part, line) if index == 0 else ("", part, "")
        for rank, states, line in parts
        for index, part in enumerate(states)
    ]


def strip_lines(run: Run) -> list[str]:
    """Who was in which communication when, if the ranks told."""
    rows = strips(run, STRIP_WIDTH)
    if not rows:
        return []
    told = [f"  {rank:<4}  {row}" for rank, row in rows]
    return ["  in order, from left to right", *told, f"  {legend(run)}"]


def _state(rank: RankRecord, run: Run) -> str:
    """What a rank waits in, with the bytes where ranks that wait in the same operation differ in them."""
    if not isinstance(rank.ending, Deadlocked):
        return f"nothing ({' '.join(ended(rank.ending).split())})"
    wait = rank.ending.wait
    others = [r.ending.wait for r in run.ranks if isinstance(r.ending, Deadlocked)]
    differ = {other.bytes for other in others if other.operation == wait.operation} - {wait.bytes}
    told = f"{waiting(wait)} of {wait.bytes:,} bytes" if differ and wait.bytes is not None else waiting(wait)
    return " ".join(f"{told}{ours(rank.ending.stack)}".split())


def cause(finding: Finding) -> Finding:
    """A finding without its hint: what two checks may have in common."""
    return replace(finding, hint=None)


def _is_told(run: Run, causes: set[Finding]) -> bool:
    """Whether any finding of the run's diagnosis is among these."""
    diagnosed = run.diagnosis.findings if run.diagnosis else ()
    return any(cause(finding) in causes for finding in diagnosed)


# ── what ranks printed ──


def printed(report: Report, whole: str = "", kept: str = "") -> list[tuple[str, list[str]]]:
    """What the ranks of the first run in trouble printed: a label and the lines for each group that printed alike.
    Where some are left out, `whole` says what has them all, or `kept` what has those that are still there."""
    run = in_trouble(report)
    if run is None:
        return []
    shown: dict[str, list[int]] = {}
    for rank in run.ranks:
        if rank.output.strip():
            shown.setdefault(rank.output, []).append(rank.rank)
    world = len(run.ranks)
    where = in_world(world) if run.case.probe else "when the file was imported"
    return [(f"{rank_list(ranks)} printed, {where}", _trimmed(text, whole, kept)) for text, ranks in shown.items()]


def in_trouble(report: Report) -> Run | None:
    """The first run that went wrong and in which any rank printed."""
    if report.status == "passed":
        return None
    return next((run for run in report.runs if _in_trouble(run, report)), None)


def _in_trouble(run: Run, report: Report) -> bool:
    blamed = {f.case for v in report.verdicts if v.outcome is Outcome.FAILED for f in v.findings}
    return any(rank.output.strip() for rank in run.ranks) and (run.diagnosis is not None or run.case.id in blamed)


def more_lines(lines: Sequence[str], whole: str, kept: str) -> str:
    """That these lines are not shown. Where more was left out before among them, nothing has all."""
    lost = cut_before("\n".join(lines))
    if not lost:
        return f"… ({len(lines)} more lines{whole})"
    return f"… ({len(lines) - len(lost)} more lines{kept}; others are lost)"


def _trimmed(text: str, whole: str, kept: str) -> list[str]:
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    if len(lines) > OUTPUT_LINES:
        head = OUTPUT_LINES // 2
        tail = OUTPUT_LINES - head - 1
        lines[head:-tail] = [more_lines(lines[head:-tail], whole, kept)]
    return lines


# ── room ──


def in_bytes(line: str) -> int:
    """Bytes that a line takes in UTF-8, with its end."""
    return len(line.encode("utf-8", "replace")) + 1


def within(lines: Iterable[str], room: int, size: Callable[[str], int] = in_bytes) -> list[str]:
    """The first of the lines that fit into `room`, and how many were left out."""
    kept: list[str] = []
    rest = list(lines)
    note = "… (cut: {} more lines)"
    room -= size(note.format(len(rest)))
    for index, line in enumerate(rest):
        room -= size(line)
        if room < 0:
            return [*kept, note.format(len(rest) - index)]
        kept.append(line)
    return kept
