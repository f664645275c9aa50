"""A report cut to what pages have room for: of what can be long, each rank keeps a fair share of a ration. Pure.

The bar: every page of the largest report that there can be is below 5 MB and written in 5 s. Rations are in bytes, for
a letter may take four of them, and ten where a page has to escape it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import accumulate
from typing import Any

from grader.model import Ending, Finding, RankRecord, Report, StackFrame
from grader.model.trace import Communication, Span, Trace

EVENTS = 1_300_000
"""Of all traces: 6,000 events. The right solutions need 5,000 at most."""
OUTPUT = 400_000
"""Of what all ranks printed."""
STACKS = 300_000
"""Of all stacks: 25 ranks have sixty frames each."""
TEXTS = 200_000
"""Of all else that ranks say of their endings."""
FINDINGS = 800_000
"""Of all that checks and diagnoses have found."""
TEXTS_OF_AN_ENDING = ("type", "message", "code", "signal", "limit", "caught")
LEAST_TEXT, LONGEST = 40, 600
"""Letters of one text that are shown at least, and at most."""

_CUTS = re.compile(r"^… ([\d,]+ bytes|[\d,]+ more characters(?: and [\d,]+ bytes)?)(?: left out)? …$", re.MULTILINE)
"""The supervisor's note in what a rank printed, and that of `_ends`."""

Event = Communication | Span


def with_rows_rationed(report: Report) -> Report:
    """The report with the first events of each rank and its innermost frames, as many as there is room for. A trace
    that was cut is not complete."""
    records = [record for run in report.runs for record in run.ranks]
    shares = zip(
        _shares([sum(map(_event, _events(record.trace))) for record in records], EVENTS),
        _shares([sum(map(_frame, record.ending.stack)) for record in records], STACKS),
        strict=True,
    )
    return _with(report, [_rows_cut(record, *share) for record, share in zip(records, shares, strict=True)])


def with_texts_rationed(report: Report) -> Report:
    """The report with what its ranks printed and the texts of their endings cut to their rations."""
    records = [record for run in report.runs for record in run.ranks]
    shares = zip(
        _shares([_letters(record.output) for record in records], OUTPUT),
        _shares([sum(map(_letters, _texts(record.ending))) for record in records], TEXTS),
        strict=True,
    )
    report = _with_findings_rationed(report)
    return _with(report, [_text_cut(record, *share) for record, share in zip(records, shares, strict=True)])


def _with_findings_rationed(report: Report) -> Report:
    found = [finding for verdict in report.verdicts for finding in verdict.findings]
    found += [finding for run in report.runs if run.diagnosis for finding in run.diagnosis.findings]
    size = sum(_letters(text) for finding in found for text in (finding.subject, finding.expected, finding.actual))
    if size <= FINDINGS:
        return report
    longest = max(2 * LEAST_TEXT, LONGEST * FINDINGS // size)

    def cut(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return tuple(map(shorter, findings))

    def shorter(finding: Finding) -> Finding:
        names = ("subject", "expected", "actual")
        texts: dict[str, Any] = {name: _cut(getattr(finding, name), longest) for name in names}
        return replace(finding, **texts)

    return replace(
        report,
        verdicts=tuple(replace(verdict, findings=cut(verdict.findings)) for verdict in report.verdicts),
        runs=tuple(
            replace(run, diagnosis=replace(run.diagnosis, findings=cut(run.diagnosis.findings)))
            if run.diagnosis
            else run
            for run in report.runs
        ),
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} more characters)"


def _with(report: Report, records: Sequence[RankRecord]) -> Report:
    left = iter(records)
    return replace(report, runs=tuple(replace(run, ranks=tuple(next(left) for _ in run.ranks)) for run in report.runs))


def _shares(sizes: Sequence[int], total: int) -> list[int | None]:
    """How much of `total` each gets: None for all that it needs, or as much as every other that needs more."""
    left, shares = total, [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda place: sizes[place])
    for done, place in enumerate(order):
        shares[place] = left // (len(order) - done)
        left -= min(shares[place], sizes[place])
    return [None if size <= share else share for size, share in zip(sizes, shares, strict=True)]


def _rows_cut(record: RankRecord, events: int | None, frames: int | None) -> RankRecord:
    if frames is not None:
        stack = record.ending.stack
        innermost = _fitting([_frame(frame) for frame in reversed(stack)], frames)
        record = replace(record, ending=replace(record.ending, stack=stack[len(stack) - innermost :]))
    return record if events is None else replace(record, trace=_first(record.trace or Trace(), events))


def _first(trace: Trace, room: int) -> Trace:
    events = sorted(_events(trace), key=lambda event: event.start)
    kept = set(map(id, events[: _fitting(list(map(_event, events)), room)]))
    return Trace(
        communications=tuple(event for event in trace.communications if id(event) in kept),
        spans=tuple(span for span in trace.spans if id(span) in kept),
        complete=False,
    )


def _text_cut(record: RankRecord, output: int | None, texts: int | None) -> RankRecord:
    ending = record.ending
    if texts is not None:
        ending = _terse(ending, max(LEAST_TEXT, texts // (4 * len(_texts(ending)))))
    return replace(record, ending=ending, output=record.output if output is None else _ends(record.output, output))


def _fitting(sizes: Sequence[int], room: int) -> int:
    """How many of the first have room."""
    return sum(size <= room for size in accumulate(sizes))


def _ends(text: str, room: int) -> str:
    """The beginning and the end of a text, each with half of the room."""
    half = max(LEAST_TEXT, room * len(text) // (2 * _letters(text)))
    left = len(text) - 2 * half
    if left <= 0:
        return text
    earlier = "".join(f" and {lost} left out" for lost in cut_before(text[half:-half]))
    return f"{text[:half]}\n… {left:,} more characters{earlier} …\n{text[-half:]}"


def cut_before(text: str) -> list[str]:
    """What earlier cuts of a rank's output say that they have left out there: "1,312,000 bytes"."""
    return _CUTS.findall(text)


def _texts(ending: Ending) -> list[str]:
    """What a rank says of its ending, beside the stack."""
    fields = [getattr(ending, name, "") for name in TEXTS_OF_AN_ENDING]
    wait = getattr(ending, "wait", None)
    return [*fields, *getattr(ending, "causes", ()), *((wait.operation, wait.group) if wait else ())]


def _terse(ending: Ending, longest: int) -> Ending:
    """The ending, each of its texts cut."""

    def cut(text: str) -> str:
        return _cut(text, longest)

    names = [name for name in TEXTS_OF_AN_ENDING if hasattr(ending, name)]
    short: dict[str, Any] = {name: cut(getattr(ending, name)) for name in names}
    if causes := getattr(ending, "causes", ()):
        short["causes"] = tuple(map(cut, causes))
    if wait := getattr(ending, "wait", None):
        short["wait"] = replace(wait, operation=cut(wait.operation), group=cut(wait.group))
    return replace(ending, **short)


# ── about how many bytes each takes on a page ──


def _events(trace: Trace | None) -> list[Event]:
    return [*trace.communications, *trace.spans] if trace else []


def _event(event: Event) -> int:
    if isinstance(event, Span):
        return 90 + _letters(event.kind) + _letters(event.name)
    return 190 + _letters(event.operation) + _letters(event.dtype) + 6 * len(event.group)


def _frame(frame: StackFrame) -> int:
    return 160 + _letters(frame.file[:LONGEST]) + _letters(frame.function[:LONGEST])


def _letters(text: str) -> int:
    """A letter that has to be escaped takes up to ten bytes, in a browser's page five."""
    if text.isidentifier() and text.isascii():  # as most are
        return len(text)
    if not text.replace("\n", "").isprintable():
        return 10 * len(text)
    return len(escape(text)) if text.isascii() else 5 * len(text)
