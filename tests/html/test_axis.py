"""The time axis of drawings, which may be cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from grader.render.html.axis import CUT_WIDTH, axis
from grader.render.html.picture import picture
from tests.html.parsed import page_of
from tests.pages import stuck, timelines


def test_a_long_wait_is_cut_and_says_how_long_it_was():
    drawn = picture(stuck(), 300)
    assert [cut.text for cut in drawn.breaks] == ["100 ms", "1.28 s"]
    assert all(round(cut.right - cut.x) == CUT_WIDTH for cut in drawn.breaks)
    assert "the time axis is cut" in page_of(timelines()).text


def test_an_even_axis_is_not_cut():
    assert axis([0.1 * n for n in range(11)], [], 0, 1000).cuts == ()


def test_ticks_are_round_and_never_in_a_cut():
    scale = axis([0, 0.1, 0.11, 0.12, 5.0, 5.01], [], 0, 1000)
    assert [(cut.start, cut.end) for cut in scale.cuts] == [(0, 0.1), (0.12, 5.0)]
    assert [tick.text for tick in scale.ticks()][:2] == ["105 ms", "110 ms"]
    assert not [t for t in scale.ticks() for cut in scale.cuts if cut.left < t.x < cut.right]


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=40), st.lists(st.floats(0, 1e5), max_size=10))
@settings(max_examples=200, deadline=None)
def test_later_is_never_drawn_further_left(moments, asked):
    """For any moments the axis keeps their order and stays inside its place."""
    scale = axis(moments, [], 100, 900)
    places = [scale.x(moment) for moment in sorted([*moments, *asked])]
    assert all(a <= b + 1e-6 for a, b in pairwise(places))
    assert all(100 - 1e-6 <= place <= 900 + 1e-6 for place in places)
    assert len(scale.ticks()) < 100
