"""What stands below the checks: ranks that stand still, and all about the selected check. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from grader.model import Finding, Outcome, Report, Run, Verdict
from grader.practice.watch.keys import hints_of
from grader.practice.watch.nouns import LiveCase, Row, State
from grader.practice.watch.pages import Lines
from grader.wording import plain
from grader.wording.advice import unusable
from grader.wording.layout import crop, hang, paragraph, spaced, strip_lines, value, wrap
from grader.wording.marks import FINDINGS_SHOWN
from grader.wording.plain import beginning, deadlock_of, deadlock_table, finding_lines, printed, untold
from grader.wording.text import source_lines


def details(state: State, width: int) -> Lines:
    """Ranks that stand still, why nothing could be graded, and all about the selected check."""
    parts = [
        [line for case in state.live for line in live_lines(case, width)],
        _told("", state.fault, width) if state.fault else [],
        problem_lines(state, width),
        start_lines(state, width),
        _passed(state, width) or check_lines(state, width),
    ]
    return spaced([part for part in parts if part])


def live_lines(case: LiveCase, width: int) -> Lines:
    """A run that stands still, rank by rank. Where there is little room, only what each waits in is told."""
    room = max(8, width - 20)
    told = [doing for _, doing, _ in case.ranks]
    if max(map(len, told)) > room:
        told = [crop(doing.removeprefix("waits in "), room) for doing in told]
    wide = max(map(len, told))
    rows = [
        f"  rank {rank:<2} {doing:<{wide}}  {f'line {line}' if line else ''}".rstrip()
        for doing, (rank, _, line) in zip(told, case.ranks, strict=True)
    ]
    return [*wrap(Text(case.head, "bold yellow"), width), *map(Text, rows)]


def _passed(state: State, width: int) -> Lines:
    if state.current is None or state.current.status != "passed":
        return []
    text = "Every check passed. Go on and try things: each save is graded again. n is the next exercise."
    return wrap(Text(text, "green"), width)


def _told(label: str, text: str, width: int) -> Lines:
    return hang(Text(label), value(text, max(8, width - len(label))))


def verdict_of(report: Report, row: Row) -> Verdict | None:
    return next((verdict for verdict in report.verdicts if verdict.check.id == row.id), None)


def start_lines(state: State, width: int) -> Lines:
    """Where to begin, when nothing has been written yet."""
    text = beginning(state.current) if state.current else ""
    return wrap(Text(text), width) if text else []


def problem_lines(state: State, width: int) -> Lines:
    """Why the file cannot be graded at all, unless the selected check tells that itself."""
    report, row = state.current, state.selected
    faults = unusable(report) if report else ()
    verdict = verdict_of(report, row) if report and row else None
    if report is None or (verdict and verdict.outcome is Outcome.FAILED and set(verdict.findings) & set(faults)):
        return []
    lines = [line for finding in faults[:FINDINGS_SHOWN] for line in finding_lines(finding, report.exercise)]
    return _indented(lines, width)


def check_lines(state: State, width: int) -> Lines:
    """The selected check: its title, and why it does not pass."""
    row = state.selected
    if row is None:
        return []
    head = [*wrap(Text(row.title, "bold"), width), *_age(state, row)]
    verdict = verdict_of(state.report, row) if state.report and _is_reported(state, row) else None
    if verdict is None or state.report is None:
        parts = [head + _indented(row.message.splitlines(), width), _hints(state, row, (), width)]
    else:
        why = head + _why(verdict, state.report, width)
        parts = [why, _hints(state, row, verdict.findings, width), *_printed(verdict, state.report, width)]
    return spaced([part for part in parts if part])


def _is_reported(state: State, row: Row) -> bool:
    """Whether the last report is what there is to tell: nothing newer is known of the check."""
    return not state.busy or row.outcome is None


def _age(state: State, row: Row) -> Lines:
    if row.outcome is not None or row.before is None:
        return [Text("not judged yet", "dim")] if row.outcome is None else []
    return [Text("as it was before the last save" if state.busy else "as it was in the last full grade", "dim")]


def _why(verdict: Verdict, report: Report, width: int) -> Lines:
    if verdict.outcome is not Outcome.FAILED:
        return _indented(plain.details(verdict, report), width)
    run = deadlock_of(verdict.findings, report)
    left = untold(verdict.findings, run)
    lines = _deadlock(run, report, width) if run else []
    for finding in left[:FINDINGS_SHOWN]:
        lines += _indented(finding_lines(finding, report.exercise), width)
        lines += _source(report, finding.line, width)
    if len(left) > FINDINGS_SHOWN:
        lines.append(Text(f"  … and {len(left) - FINDINGS_SHOWN} more", "dim"))
    return lines if verdict.findings else _indented(verdict.message.splitlines(), width)


def _deadlock(run: Run, report: Report, width: int) -> Lines:
    """The table of what each rank waits in, and who was in which communication when."""
    table = [Text(f"  {crop(line, width - 2)}") for line in deadlock_table(run, report.exercise, width - 2)]
    return [*table, *strip_lines(run, width, 2)]


def _source(report: Report, line: int | None, width: int) -> Lines:
    """The student's line that a finding names."""
    source = source_lines(report.submission)
    if not line or line > len(source) or report.submission.problem or not source[line - 1].strip():
        return []
    return [Text(crop(f"    {line} │ {source[line - 1].strip()}", width), "dim")]


def _hints(state: State, row: Row, findings: Sequence[Finding], width: int) -> Lines:
    """As many hints as were asked for; those of the findings come with the first."""
    shown, hints = state.hints.get(row.id, 0), hints_of(state, row.id)
    if (row.outcome or row.before) != "failed" or not shown:
        return [Text("h gives a hint.", "dim")] if hints and row.outcome == "failed" else []
    own = list(dict.fromkeys(finding.hint for finding in findings if finding.hint))
    lines = [line for hint in own for line in paragraph(Text("Hint  ", "cyan"), Text(_flat(hint)), width)]
    for level, hint in enumerate(hints[:shown], start=1):
        lines += paragraph(Text(f"Hint {level} of {len(hints)}  ", "cyan"), Text(_flat(hint)), width)
    why = next((check.why for check in state.exercise.checks if check.id == row.id), "")
    if shown == len(hints) and why:
        lines += paragraph(Text("Why it matters  ", "cyan"), Text(_flat(why)), width)
    return lines


def _printed(verdict: Verdict, report: Report, width: int) -> Iterator[Lines]:
    """What the ranks printed."""
    if verdict.outcome is not Outcome.FAILED:
        return
    for label, lines in printed(report, "; o opens a page with all", "; o opens a page with them")[:2]:
        head = wrap(Text(f"{label[:1].upper()}{label[1:]}:"), width)
        yield head + [Text(f"  │ {crop(line, width - 4)}") for line in lines]


def newest_hint(lines: Lines) -> int:
    """The last line of the hints that are shown."""
    found = [index for index, line in enumerate(lines) if line.plain.startswith("Hint ")]
    return next((index for index in range(found[-1], len(lines)) if not lines[index].plain), len(lines)) if found else 0


def _flat(text: str) -> str:
    return " ".join(text.split())


def _indented(texts: Sequence[str], width: int) -> Lines:
    """Lines with a margin of two; what is indented already keeps its own, and wrapped lines hang below it."""
    return [Text("  ") + line for text in _blocks(texts) for line in value(text, max(8, width - 2))]


def _blocks(texts: Sequence[str]) -> list[str]:
    """Lines whose next line is a caret stay together, so that both are cut alike."""
    return ["\n".join(texts)] if any(set(text.strip()) == {"^"} for text in texts) else list(texts)
