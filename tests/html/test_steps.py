"""The steps of regions as the HTML page draws them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from grader.model import Finished, RankRecord, alone
from grader.model.trace import Span, Trace
from grader.render import html
from grader.render.html.picture import picture
from tests.html.parsed import PAGES, Page, page_of
from tests.pages import MARKUP, call, exchange, pipeline
from tests.reports import passed


def test_the_steps_of_a_region_are_a_row_for_each_rank():
    """In slots of one width: a step stands after the one before it, and after those whose messages it needed."""
    (chart,) = picture(pipeline(), 300).charts
    assert chart.name == "run_gpipe" and [row.idle for row in chart.rows] == ["idle 33 %", "idle 33 %"]
    assert [bar.label for bar in chart.rows[0].bars] == ["F0", "F1", "B0", "B1"]
    assert [bar.event.kind for bar in chart.rows[0].bars] == ["forward", "forward", "backward", "backward"]
    assert [[round((bar.x - 96) / 40) for bar in row.bars] for row in chart.rows] == [[0, 1, 4, 5], [1, 2, 3, 4]]
    text = page_of(replace(passed(), runs=(pipeline(),))).text
    assert "run_gpipe" in text and "idle 33 %" in text and "in order, not to scale" in text


@pytest.mark.parametrize("lasts", [0.001, 0.019])
def test_a_schedule_is_drawn_alike_however_long_its_steps_took(lasts):
    (slow,), (usual,) = picture(pipeline(lasts), 300).charts, picture(pipeline(), 300).charts
    assert [[bar.x for bar in row.bars] for row in slow.rows] == [[bar.x for bar in row.bars] for row in usual.rows]


def test_messages_out_of_nowhere_move_no_step():
    """Sent later than they came, to itself, by a rank that has no steps, or never over."""
    records = [
        replace(rank, trace=replace(rank.trace or Trace(), communications=(
            call("recv", 0.0, 0.01, peer=1 - rank.rank), call("send", 0.39, 0.4, peer=1 - rank.rank),
            call("send", 0.0, 0.1, peer=rank.rank), call("recv", 0.0, 0.1, peer=rank.rank),
            call("recv", 0.0, 0.1, peer=7), call("recv", 0.0, None, peer=-1),
        )))
        for rank in pipeline().ranks
    ]  # fmt: skip
    (chart,) = picture(replace(pipeline(), ranks=tuple(records)), 300).charts
    assert [[round((bar.x - 96) / 40) for bar in row.bars] for row in chart.rows] == [[0, 1, 2, 3]] * 2


def test_steps_are_drawn_once():
    """Not among the phases of the whole run, nor in its table."""
    drawn = picture(pipeline(), 300)
    kinds = {bar.event.kind for band in drawn.bands for lane in band.lanes for bar in lane.bars}
    assert kinds == {"region", "send", "recv"} and drawn.size == 2 * (1 + 4 + 4)


def test_too_many_steps_are_not_drawn():
    assert picture(pipeline(), 3).charts == () and len(picture(pipeline(), 4).charts) == 1


@pytest.mark.parametrize("name", [*MARKUP, "", " ", "forward", "?" * 10_000])
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1e308, 0.05])
def test_forged_steps_do_no_harm(name, odd):
    """A step's name is text, its time inside the run, its colour one that the page knows."""
    spans = (Span(kind="region", name=name, start=0.0, end=None), Span(kind="step", name=name, start=odd, end=odd))
    record = RankRecord(rank=0, ending=Finished(seconds=0.1), trace=Trace(spans=spans))
    text = html.render(alone(replace(passed(), runs=(replace(exchange(), ranks=(record,)),))))
    assert {tag for tag, _ in Page(text).elements} <= {tag for tag, _ in Page(PAGES["timelines"]).elements}
    assert not [key for _, given in Page(text).elements for key in given if key.startswith("on")]
    assert not re.search(r'="(nan|-?inf)', text)


def test_a_run_of_countless_regions_has_few_drawings_of_steps():
    spans = [Span(kind="region", name=f"{n}", start=0.001 * n, end=1.0) for n in range(60)]
    spans += [Span(kind="step", name="forward 0", start=0.001 * n, end=None) for n in range(60)]
    record = RankRecord(rank=0, ending=Finished(seconds=0.1), trace=Trace(spans=tuple(spans)))
    assert 1 <= len(picture(replace(exchange(), ranks=(record,)), 300).charts) <= 12
