"""The Chrome trace: held to the rules of the Trace Event Format and to a recorded file."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from grader.model import Case, Deadlocked, Finished, RankRecord, Report, Run, Wait
from grader.model.trace import Communication, Span, Trace
from grader.render import chrome
from tests.goldens import assert_golden
from tests.reports import hostile, passed

PHASES = (
    Span(kind="region", name="step 1", start=0.1, end=0.5),
    Span(kind="forward", name="Net", start=0.1, end=0.2),
    Span(kind="backward", name="backward", start=0.2, end=0.4),
)


def call(operation: str, start: float, end: float | None, **more: Any) -> Communication:
    return Communication(operation=operation, bytes=1200, dtype="float64", group=(0, 1), start=start, end=end, **more)


def run(name: str, *traces: Trace | None) -> Run:
    ranks = [RankRecord(rank=i, ending=Finished(seconds=0.6), trace=trace) for i, trace in enumerate(traces)]
    return Run(case=Case(name=name, world_size=len(traces), probe=name), ranks=tuple(ranks), seconds=0.7)


def traced() -> Report:
    """Two all-reduces that overlap, a message, a case without a trace, and a deadlock."""
    overlapping = (call("all_reduce", 0.25, 0.35, backward=0, remaining=4, line=12), call("all_reduce", 0.3, 0.41))
    sender = Trace(communications=(*overlapping, call("send", 0.45, 0.5, peer=1)), spans=PHASES)
    receiver = Trace(communications=(*overlapping, call("recv", 0.42, 0.51, peer=0)), spans=PHASES)
    stuck = run("stuck", Trace(communications=(call("barrier", 0.2, None),)), Trace())
    ending = Deadlocked(wait=Wait(operation="barrier"), seconds=0.9)
    stuck = replace(stuck, ranks=(replace(stuck.ranks[0], ending=ending), stuck.ranks[1]))
    return replace(passed(), runs=(run("train", sender, receiver), run("quiet", None, None), stuck))


def events(report: Report) -> list[dict[str, Any]]:
    return json.loads(chrome.render(report))["traceEvents"]


def test_the_trace_is_as_recorded() -> None:
    """The file that a viewer gets."""
    assert_golden("trace.chrome.json", chrome.render(traced()))


def test_every_event_has_what_the_format_demands() -> None:
    """Complete events last, times are not negative, every track has a name."""
    found = events(traced())
    assert all({"name", "ph", "ts", "pid", "tid"} <= event.keys() and event["ts"] >= 0 for event in found)
    assert all(event["dur"] >= 0 for event in found if event["ph"] == "X")
    named = {(event["pid"], event["tid"]) for event in found if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in found} <= named


def test_bars_of_a_track_do_not_overlap_unless_they_nest() -> None:
    """Viewers draw anything else wrong: what overlaps lies on tracks of its own."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events(traced()):
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for bars in tracks.values():
        for start, end in bars:
            for other_start, other_end in bars:
                assert (
                    end <= other_start
                    or other_end <= start
                    or start <= other_start <= other_end <= end
                    or (other_start <= start <= end <= other_end)
                )


def test_a_message_is_an_arrow_between_the_bars_of_its_send_and_receive() -> None:
    """Both ends have one identity."""
    start, end = [event for event in events(traced()) if event["ph"] in "sf"]
    assert (start["ph"], end["ph"], start["id"]) == ("s", "f", end["id"])
    assert (start["pid"], end["pid"]) == (0, 1) and end["ts"] > start["ts"]


def test_what_never_ended_lasts_until_the_end_and_says_so() -> None:
    """A deadlock is visible as the place where the bar goes on to the rank's end."""
    bar = next(event for event in events(traced()) if event["name"] == "barrier (not over)")
    note = next(event for event in events(traced()) if event["ph"] == "i")
    assert bar["ts"] + bar["dur"] == note["ts"] and "barrier" in note["name"]


def test_runs_stand_one_after_another() -> None:
    """A run without a trace takes no room."""
    found = [event for event in events(traced()) if event["ph"] == "X"]
    first = max(event["ts"] + event["dur"] for event in found if event["pid"] < 2)
    assert all(event["ts"] > first for event in found if event["pid"] >= 2)


def test_a_report_without_traces_gives_an_empty_timeline() -> None:
    """Still a valid file."""
    assert events(passed()) == [] and events(hostile()) == []
