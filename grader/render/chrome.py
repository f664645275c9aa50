"""The ranks' timelines as one Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Every rank of every run is a process with a track of what it did (regions, forward, backward, optimizer) and tracks of
what it communicated. The runs stand one after another. Arrows lead from a send to its receive.
Format: "Trace Event Format" (Google), JSON object form; times in microseconds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from grader.model import Finished, RankRecord, Report, Run
from grader.model.trace import Communication, Span, Trace
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
        length = _length(run)
        processes = {record.rank: process + place for place, record in enumerate(run.ranks) if record.trace}
        for record in run.ranks:
            if record.trace:
                yield from _rank(run, record, record.trace, processes[record.rank], offset, length)
        yield from _arrows(run, processes, offset, length)
        if processes:
            offset, process = offset + length + GAP, process + len(run.ranks)


def _length(run: Run) -> float:
    """When the last thing of a run happened, in seconds since it began."""
    moments = [record.ending.seconds for record in run.ranks]
    for record in run.ranks:
        if record.trace:
            events: list[Communication | Span] = [*record.trace.communications, *record.trace.spans]
            moments += [event.start if event.end is None else event.end for event in events]
    return max([0.0, *moments])


def _rank(run: Run, record: RankRecord, trace: Trace, process: int, offset: float, length: float) -> Iterator[Event]:
    yield _name("process_name", process, PHASES, f"{run.case.id} rank {record.rank}")
    yield {**_name("process_sort_index", process, PHASES, ""), "args": {"sort_index": process}}
    yield _name("thread_name", process, PHASES, "phases")
    for span in trace.spans:
        name = span.name if span.kind in ("region", span.name) else f"{span.kind} {span.name}"
        yield _bar(name, span.kind, process, PHASES, offset + span.start, _end(span.end, length) - span.start)
    lanes = _lanes(trace.communications, length)
    for lane in sorted(set(lanes)):
        yield _name("thread_name", process, lane, "communication" if lane == 1 else f"communication {lane}")
    for event, lane in zip(trace.communications, lanes, strict=True):
        name = event.operation if event.end is not None else f"{event.operation} (not over)"
        bar = _bar(name, "communication", process, lane, offset + event.start, _lasts(event, length))
        yield {**bar, "args": _told(event)}
    if not isinstance(record.ending, Finished):
        yield {
            **_at(process, PHASES, offset + record.ending.seconds),
            "name": ended(record.ending) or record.ending.kind,
            "cat": "ending",
            "ph": "i",
            "s": "p",
        }


def _lanes(events: tuple[Communication, ...], length: float) -> list[int]:
    """A track for each communication, so that those which overlap do not cover one another."""
    free: list[float] = []
    lanes = []
    for event in events:
        lane = next((lane for lane, until in enumerate(free) if until <= event.start), len(free))
        free[lane : lane + 1] = [event.start + _lasts(event, length)]
        lanes.append(1 + lane)
    return lanes


def _arrows(run: Run, processes: Mapping[int, int], offset: float, length: float) -> Iterator[Event]:
    """From each send to the receive that took it: between two ranks messages keep their order."""
    sends: dict[tuple[int, int], list[Event]] = defaultdict(list)
    receives: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for record in run.ranks:
        events = record.trace.communications if record.trace else ()
        for event, lane in zip(events, _lanes(events, length), strict=True):
            if event.operation == "send" and event.peer is not None:
                begun = _at(processes[record.rank], lane, offset + event.start)
                sends[record.rank, event.peer].append({**begun, "ph": "s"})
            elif event.operation == "recv" and event.peer is not None:
                over = _at(processes[record.rank], lane, offset + _end(event.end, length))
                receives[event.peer, record.rank].append({**over, "ph": "f", "bp": "e"})
    for way, begun_here in sends.items():
        for number, pair in enumerate(zip(begun_here, receives[way], strict=False)):
            common = {"name": "message", "cat": "communication", "id": f"{run.case.id} {way[0]} {way[1]} {number}"}
            yield from ({**end, **common} for end in pair)


def _told(event: Communication) -> Mapping[str, Any]:
    return {
        "bytes": event.bytes,
        "dtype": event.dtype,
        "group": list(event.group),
        **{
            key: value
            for key in ("peer", "line", "backward", "remaining")
            if (value := getattr(event, key)) is not None
        },
    }


def _lasts(event: Communication, length: float) -> float:
    return _end(event.end, length) - event.start


def _end(end: float | None, length: float) -> float:
    return length if end is None else end


def _bar(name: str, category: str, process: int, lane: int, start: float, seconds: float) -> Event:
    return {
        **_at(process, lane, start),
        "name": name,
        "cat": category,
        "ph": "X",
        "dur": round(1e6 * max(0.0, seconds), 3),
    }


def _at(process: int, lane: int, seconds: float) -> Event:
    return {"pid": process, "tid": lane, "ts": round(1e6 * seconds, 3)}


def _name(kind: str, process: int, lane: int, name: str) -> Event:
    return {"pid": process, "tid": lane, "ts": 0, "name": kind, "ph": "M", "args": {"name": name}}
