"""Runs as the HTML page draws them."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from grader.model import Case, Deadlocked, Finished, Killed, RankRecord, Run, TimedOut, Wait, alone
from grader.model.trace import Span, Trace
from grader.render import html
from grader.render.html.events import events_of
from grader.render.html.picture import MOST_LANES, picture
from grader.timeline import timeline
from tests.html.parsed import PAGES, Page, page_of, without_assets
from tests.pages import call, exchange, stuck, timelines, traced
from tests.reports import passed


def test_runs_that_went_wrong_come_first_and_open():
    runs = [(a["id"], "open" in a) for tag, a in page_of(timelines()).elements if a.get("class", "").startswith("run")]
    assert runs[1:] == [("e0-r1", True), ("e0-r0", False)]


def test_a_deadlock_is_where_the_bars_stop():
    """The last bar of each rank goes on to the right edge, ragged, and says in words what it waits in."""
    drawn = picture(stuck(), 300)
    last = [
        max((bar for lane in band.lanes for bar in lane.bars), key=lambda bar: bar.event.start) for band in drawn.bands
    ]
    assert all(bar.event.stuck and bar.x + bar.width == 988 for bar in last)
    assert [band.flag.text for band in drawn.bands] == ["waits in barrier, line 17", "waits in all_reduce, line 15"]
    assert drawn.stuck and drawn.stuck[1] == "nothing moves after 118.0 ms"
    assert "never ended" in last[0].event.told()


def test_a_deadlock_without_a_trace_is_visible_too():
    text = PAGES["deadlock"]
    assert text.count("bar k-all_reduce open stuck") == 2 and text.count("bar k-barrier open stuck") == 1
    assert "waits in all_reduce, line 38" in text


@pytest.mark.parametrize(
    "ending, told",
    [
        (Finished(seconds=0.2), "finished at 200.0 ms"),
        (Killed(signal="SIGSEGV", seconds=0.2), "killed by SIGSEGV at 200.0 ms"),
        (TimedOut(seconds=9.0), "ran out of time at 9000.0 ms"),
        (TimedOut(seconds=9.0, wait=Wait(operation="recv")), "ran out of time, waiting in recv"),
        (Deadlocked(seconds=0.2, wait=Wait(operation="recv")), "waits in recv"),
    ],
)
def test_every_ending_is_marked(ending, told):
    run = Run(case=Case(name="c", world_size=1, probe="p"), ranks=(RankRecord(rank=0, ending=ending),), seconds=1.0)
    assert picture(run, 10).bands[0].flag.text == told


def test_a_message_is_an_arrow_from_its_send_to_its_receive():
    drawn = picture(exchange(), 300)
    first, second = drawn.arrows
    assert first.y < first.to_y and second.y > second.to_y
    assert first.x < first.to_x and second.x < second.to_x


def test_a_message_that_nobody_took_has_no_arrow():
    records = (traced(0, Finished(), (call("send", 0.1, 0.2, peer=1),)), traced(1, Finished(), ()))
    assert picture(replace(exchange(), ranks=records), 300).arrows == ()


def test_bars_of_a_lane_do_not_overlap():
    """Whatever overlaps in time lies on a lane of its own."""
    talks = tuple(call("all_reduce", 0.1 + 0.001 * n, 0.2 + 0.001 * n) for n in range(MOST_LANES))
    for lane in picture(replace(exchange(), ranks=(traced(0, Finished(), talks),)), 300).bands[0].lanes:
        bars = sorted(lane.bars, key=lambda bar: bar.x)
        assert all(a.x + a.width <= b.x + 0.6 for a, b in pairwise(bars))


def test_what_is_not_drawn_is_counted():
    """Of a run that went wrong the last events are drawn, of another the first."""
    talks = tuple(call("barrier", 0.001 * n, 0.001 * n + 0.0005) for n in range(1_000))
    good = replace(exchange(), ranks=(traced(0, Finished(seconds=1.1), talks),))
    bad = replace(stuck(), ranks=(traced(0, stuck().ranks[0].ending, talks),))
    first, last = picture(good, 300).bands[0], picture(bad, 300).bands[0]
    assert (first.left_out, first.last) == (700, False) and (last.left_out, last.last) == (701, True)
    assert first.events[0].start == 0 and last.events[-1].stuck
    assert "Of rank 0, 700 later events are not drawn." in page_of(replace(passed(), runs=(good,))).text


def test_a_page_stays_small_however_much_there_is():
    """Six runs of eight ranks with two thousand events each."""
    talks = tuple(call("all_reduce", 0.001 * n, 0.001 * n + 0.0009) for n in range(2_000))
    records = tuple(traced(rank, Finished(seconds=2.1), talks) for rank in range(8))
    runs = (replace(stuck(), ranks=records), *(replace(exchange(), ranks=records) for _ in range(5)))
    text = html.render(alone(replace(timelines(), runs=runs)))
    assert len(text) < 4_000_000
    assert "The timeline of this run is left out" in text


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1e308, 1e308, -0.0, 5e-324])
def test_forged_times_do_no_harm(odd):
    talks = (call("all_reduce", odd, odd), call("send", 0.1, odd, peer=2**60), call("recv", odd, None, bytes=-(2**62)))
    spans = (Span(kind="forward", name="", start=odd, end=odd), Span(kind="?", name="x", start=0.0, end=odd))
    record = RankRecord(
        rank=0, ending=Finished(seconds=odd), trace=Trace(communications=talks, spans=spans, complete=False)
    )
    report = replace(passed(), runs=(replace(exchange(), ranks=(record,), seconds=odd),))
    page = html.render(alone(report))
    assert "Rank 0 did more than its trace could hold." in Page(page).text
    assert not re.search(r"\b(nan|inf)\b", without_assets(page))


def test_the_table_tells_what_the_drawing_shows():
    drawn = picture(exchange(), 300)
    for band, rank in zip(drawn.bands, timeline(exchange()), strict=True):
        assert band.events == list(events_of(rank, len(exchange().ranks)))
    assert "0 all_reduce 4,096 bytes float32 · all ranks 105.0 ms 2 ms 15" in page_of(timelines()).text


def test_endings_and_traces_are_brought_to_one_clock():
    """An ending that is counted from a later moment is not drawn before what the rank still did."""
    run = replace(exchange(), ranks=tuple(replace(rank, ending=Finished(seconds=0.1)) for rank in exchange().ranks))
    assert [band.flag.text for band in picture(run, 300).bands] == ["finished at 121.0 ms"] * 2
