"""The ranks' timelines as one Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Every rank of every run is a process with a track of what it did (regions, forward, backward, optimizer) and tracks of
what it communicated. The runs stand one after another. Arrows lead from a send to its receive.
Format: "Trace Event Format" (Google), JSON object form; times in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from grader import timeline
from grader.model import Finished, Report, Run, Wait
from grader.model.trace import Communication, Span
from grader.timeline import Band
from grader.wording.text import ended, safe_report

GAP = 0.01
"""Seconds between runs."""
PHASES = 0
Event = dict[str, Any]


def render(report: Report) -> str:
    """All traced runs of a report as one JSON object, ending with a newline."""
    report = safe_report(report)
    content = {
        "traceEvents": list(_events(report)),
        "displayTimeUnit": "ms",
        "otherData": {"exercise": report.exercise.name, "seed": report.seed, "torch": report.torch_version},
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _events(report: Report) -> Iterator[Event]:
    offset, process = 0.0, 0
    for run in report.runs:
        traced = [(process + place, band) for place, band in enumerate(timeline.timeline(run)) if band.record.trace]
        for number, band in traced:
            yield from _rank(run, band, number, offset)
        yield from _arrows(run, traced, offset)
        if traced:
            offset, process = offset + timeline.length_of(run) + GAP, process + len(run.ranks)


def _rank(run: Run, band: Band, process: int, offset: float) -> Iterator[Event]:
    yield _name("process_name", process, PHASES, f"{run.case.id} rank {band.record.rank}")
    yield {**_name("process_sort_index", process, PHASES, ""), "args": {"sort_index": process}}
    yield _name("thread_name", process, PHASES, "phases")
    for event in band.events:
        if isinstance(event.source, Span):
            yield _span(event, event.source, process, offset)
    lanes = _lanes(band)
    for lane in sorted({lane for _, lane in lanes}):
        yield _name("thread_name", process, lane, "communication" if lane == 1 else f"communication {lane}")
    for event, lane in lanes:
        name = f"{event.operation} (not over)" if event.open else event.operation
        yield {**_bar(name, "communication", process, lane, offset, event), "args": _told(event.source)}
    ending = band.record.ending
    if not isinstance(ending, Finished):
        at = _at(process, PHASES, offset + band.ended)
        yield {**at, "name": ended(ending) or ending.kind, "cat": "ending", "ph": "i", "s": "p"}


def _lanes(band: Band) -> list[tuple[timeline.Event, int]]:
    """A track for each communication, so that those which overlap do not cover one another."""
    free: list[float] = []
    lanes = []
    for event in band.communications:
        lane = next((lane for lane, until in enumerate(free) if until <= event.start), len(free))
        free[lane : lane + 1] = [event.end]
        lanes.append((event, 1 + lane))
    return lanes


def _arrows(run: Run, traced: Sequence[tuple[int, Band]], offset: float) -> Iterator[Event]:
    """From each send to the receive that took it."""
    found = [(process, lane, event) for process, band in traced for event, lane in _lanes(band) if event.message]
    receives = {event.message: (process, lane, event) for process, lane, event in found if event.operation == "recv"}
    for process, lane, event in found:
        if event.operation == "send" and event.message in receives:
            taker, track, receive = receives[event.message]
            message = " ".join(map(str, event.message or ()))
            common = {"name": "message", "cat": "communication", "id": f"{run.case.id} {message}"}
            yield {**_at(process, lane, offset + event.start), "ph": "s", **common}
            yield {**_at(taker, track, offset + receive.end), "ph": "f", "bp": "e", **common}


def _span(event: timeline.Event, span: Span, process: int, offset: float) -> Event:
    name = span.name if span.kind in ("region", "step", span.name) else f"{span.kind} {span.name}"
    return _bar(name, span.kind, process, PHASES, offset, event)


def _told(source: Communication | Span | Wait) -> Mapping[str, Any]:
    if not isinstance(source, Communication):
        return {"seen": "when the rank was given up"}
    more = {name: getattr(source, name) for name in ("peer", "line", "backward", "remaining")}
    known = {name: value for name, value in more.items() if value is not None}
    return {"bytes": source.bytes, "dtype": source.dtype, "group": list(source.group), **known}


def _bar(name: str, category: str, process: int, lane: int, offset: float, event: timeline.Event) -> Event:
    duration = round(1e6 * (event.end - event.start), 3)
    return {**_at(process, lane, offset + event.start), "name": name, "cat": category, "ph": "X", "dur": duration}


def _at(process: int, lane: int, seconds: float) -> Event:
    return {"pid": process, "tid": lane, "ts": round(1e6 * seconds, 3)}


def _name(kind: str, process: int, lane: int, name: str) -> Event:
    return {"pid": process, "tid": lane, "ts": 0, "name": kind, "ph": "M", "args": {"name": name}}
