"""The HTML page, held to recorded pages, to the rules of its format and to what it promises."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.model import Case, Deadlocked, Finding, Finished, Killed, RankRecord, Report, Run, TimedOut, Wait, alone
from grader.model.trace import Span, Trace
from grader.render import html
from grader.render.html.axis import CUT_WIDTH, axis
from grader.render.html.events import events_of
from grader.render.html.picture import MOST_LANES, picture
from grader.render.html.source import MOST_COLOURED, MOST_LINES, coloured, shown_lines
from grader.timeline import timeline
from grader.visibility import for_student
from grader.wording.marks import NO_MARK
from tests.goldens import assert_golden
from tests.pages import MARKUP, SOURCE, assignment, call, exchange, hidden, markup, pipeline, stuck, timelines, traced
from tests.reports import (
    KINDS,
    broken,
    deadlock,
    endings,
    hostile,
    no_mark_for_one_of_two,
    partial,
    passed,
    skipped,
    stub,
    submission,
    syntax_error,
)

VOID = {"meta", "rect", "path", "polygon", "input", "br"}
RECORDED = ("passed", "partial", "deadlock", "hostile", "broken")


class Page(HTMLParser):
    """All elements of a page with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def page_of(report: Report) -> Page:
    return Page(html.render(alone(report)))


BUILDERS = {**KINDS, "timelines": timelines, "markup": markup, "hidden": hidden}
PAGES = {name: html.render(alone(build())) for name, build in BUILDERS.items()} | {"two": html.render(assignment())}


def without_assets(text: str) -> str:
    """The page without its style, its script and their hashes, which would drown what a golden file shows."""
    text = re.sub(r"<(style|script)>.*?</\1>", r"<\1>…</\1>", text, flags=re.S)
    return re.sub(r"sha256-[\w+/=]+", "sha256-…", text)


# ── the page as a whole ──


@pytest.mark.parametrize("name", [*RECORDED, "timelines", "two"])
def test_a_page_is_as_recorded(name):
    assert_golden(f"{name}.html", without_assets(PAGES[name]))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_every_link_leads_somewhere(name):
    page = Page(PAGES[name])
    assert page.open == []
    ids = Counter(page.values("id"))
    assert set(ids.values()) == {1}
    links = [value for tag, attributes in page.elements if tag == "a" and (value := attributes["href"])]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    named = " ".join(page.values("aria-labelledby")).split()
    assert set(named) <= set(ids)


@pytest.mark.parametrize("name", PAGES)
def test_headings_are_in_order(name):
    levels = [int(tag[1]) for tag, _ in Page(PAGES[name]).elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fetches_nothing_and_runs_nothing_but_its_own(name):
    """No attribute that fetches or executes, and a policy that names the one style and the one script by hash."""
    page = Page(PAGES[name])
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "action", "data", "xlink:href"} & set(attributes)
        assert not [attribute for attribute in attributes if attribute.startswith("on")]
        assert tag not in {"img", "iframe", "object", "embed", "link", "base", "form", "image", "use", "foreignobject"}
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGES[name], flags=re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"url\((?!#)|@import|https?:", PAGES[name].split("</style>")[0])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_same_each_time_and_can_be_written(name):
    build = BUILDERS.get(name)
    assert html.render(alone(build()) if build else assignment()) == PAGES[name]
    assert PAGES[name].endswith("</html>\n") and PAGES[name].startswith("<!DOCTYPE html>")
    PAGES[name].encode("utf-8")
    assert all(char.isprintable() or char in "\n\t" for char in PAGES[name])


# ── checks ──


def test_the_outcome_is_told_in_words():
    page = page_of(
        replace(partial(), verdicts=(*partial().verdicts[:3], *broken().verdicts[2:4], *deadlock().verdicts[1:2]))
    )
    for word in ("✓ passed", "✗ failed", "! broken", "– skipped", "– blocked"):
        assert word in page.text


def test_failing_checks_are_open_and_passed_ones_are_one_line():
    page = page_of(partial())
    checks = [(tag, a) for tag, a in page.elements if a.get("class", "").startswith("check ")]
    assert [(tag, a["class"], "open" in a) for tag, a in checks] == [
        ("div", "check passed", False),
        ("details", "check failed", True),
        ("details", "check failed", True),
        ("div", "check passed", False),
        ("div", "check passed", False),
    ]


def test_a_finding_tells_subject_place_expected_and_got():
    text = page_of(partial()).text
    assert "parameter layer.weight after step 1 all 3 ranks line 41 run equal_shards[3] expected the same as in" in text
    assert "got 31 of 32 elements differ" in text


def test_only_the_first_hint_is_given():
    text = page_of(partial()).text
    assert "Hint: DDP averages gradients." in text and "Second." not in text
    assert "Hint: A function that is graded returns" in page_of(endings()).text


def test_a_fault_that_two_checks_share_is_told_once():
    text = page_of(deadlock()).text
    assert text.count("wait in all_reduce") == 1
    assert "Deadlock: the same fault as above ." in text


def test_a_blocked_check_names_what_it_needs_and_a_skipped_one_why():
    assert "needs: Every rank finishes" in page_of(deadlock()).text
    assert "needs 2 GPUs, this machine has none" in page_of(broken()).text


def test_a_skipped_check_is_not_counted():
    text = page_of(skipped()).text
    assert "12.5 of 100 points are not counted" in text
    assert text.count("not counted") == 2


@pytest.mark.parametrize("result", [alone(broken()), no_mark_for_one_of_two()], ids=["alone", "one of two"])
def test_a_broken_check_is_our_fault_and_there_is_no_mark(result):
    text = html.render(result)
    page = Page(text)
    assert "The grader or the exercise is at fault here, not your code." in page.text
    assert NO_MARK in page.text and "not judged" in page.text
    assert "no mark" in text[: text.index("</title>")]
    assert not re.search(r"(67.5|87.5|100) / 100", page.text)


def test_points_are_those_of_the_result():
    """A check is worth its share of the entry's weight."""
    text = Page(PAGES["two"]).text
    assert "Together 53 / 100" in text
    assert "Every rank finishes 0 / 8" in text
    assert "Late: 2 days late: 10 % a day. 80 % of 60 points are kept: 48." in text


def test_the_score_of_one_exercise_is_that_of_the_terminal():
    assert "40 / 100" in page_of(partial()).text


def test_the_command_that_replays_is_there():
    assert 'make grade EX=03 SUBMISSION=handed_in/no_mean.py ARGS="--seed 123"' in page_of(partial()).text
    assert "SUBMISSION" not in page_of(replace(partial(), submission=submission("$(id).py"))).text


def test_a_stub_is_told_where_to_start():
    text = page_of(stub()).text
    assert "Where to start: open exercises/03_train_ddp/train_ddp.py" in text and "Hint:" not in text


def test_a_file_that_does_not_compile_is_told_first():
    text = page_of(syntax_error()).text
    assert text.index("The file could not be graded.") < text.index("0 of 5 passed")
    assert (
        text.count("momentum=0.9 nesterov=True") == 1
        and "SyntaxError: invalid syntax: the same fault as above ." in text
    )


def test_hidden_checks_are_marked_and_gone_from_the_students_page():
    assert "For staff: 1 check is not visible to students." in page_of(hidden()).text
    students = page_of(for_student(hidden())).text
    assert "For staff" not in students and "The result equals training" not in students
    assert "Note: 1 check of your course is judged too and not shown here, worth 40 points." in students


# ── the source ──


def test_lines_are_numbered_as_python_counts_them():
    ids = [value for value in page_of(timelines()).values("id") if value.startswith("e0-L")]
    assert ids == [f"e0-L{number}" for number in range(1, SOURCE.count("\n") + 1)]


def test_a_marked_line_leads_to_its_finding_and_back():
    text = PAGES["timelines"]
    assert '<a href="#e0-c0-f0">✗ Deadlock · rank 0 of 2: waits in barrier</a>' in text
    assert re.search(r'id="e0-c0-f0".*?<a class="at" href="#e0-L17">line 17</a>', text, flags=re.S)


@pytest.mark.parametrize(
    "text", [*MARKUP, SOURCE, "'''open", "\\", "f'{", "\t\tx", "x" * 5_000, "(" * 9_000, "# \x0c\x1c\x85\u2028"]
)
def test_colours_change_nothing_of_the_text(text):
    """Without tags and entities each line is what the student wrote, and there are as many."""
    handed_in = replace(submission(), source=text.encode("utf-8", "surrogatepass"))
    plain = [line.code for line in shown_lines(handed_in, {})]
    for line in plain:
        assert set(re.findall(r"<[^>]*>", line)) <= {"</span>", *re.findall(r'<span class="[a-z0-9]+">', line)}
    again = [re.sub(r"<[^>]*>", "", line) for line in plain]
    assert len(again) == len(coloured(again))


def test_a_long_file_is_shown_around_its_marks_only():
    handed_in = replace(submission(), source=b"x = 1\n" * 10_000)
    finding = Finding(subject="s", line=8_000)
    verdicts = (replace(partial().verdicts[1], findings=(finding,)),)
    lines = [v for v in page_of(replace(partial(), submission=handed_in, verdicts=verdicts)).values("id") if "-L" in v]
    assert "e0-L8000" in lines and len(lines) < MOST_LINES + 30


def test_a_huge_file_stays_without_colours():
    assert all("<" not in line for line in coloured(["x = 1"] * (MOST_COLOURED // 5 + 1)))


# ── runs ──


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


# ── steps ──


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


# ── the time axis ──


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


# ── hostile text ──


def test_hostile_text_is_text():
    """Markup of a student gives the same elements and attributes as words would."""

    def shape(report):
        return {(tag, *sorted(attributes)) for tag, attributes in page_of(report).elements}

    assert shape(markup()) <= shape(timelines()) | shape(partial()) | shape(broken()) | shape(stub()) | {
        ("p", "class"),
        ("span", "class"),
        ("g", "aria-label", "class", "data-call", "role", "tabindex"),
    }
    text = Page(PAGES["markup"]).text
    assert "<script>window.owned = 1</script>" in text and "{{ 7 * 7 }}" in text
    assert "49" not in re.sub(r"[^{}\d ]", "", text).split()


def test_classes_come_from_a_list_of_ours():
    classes = {name for value in Page(PAGES["markup"]).values("class") for name in value.split()}
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]*", name) for name in classes)
    assert "owned" not in " ".join(classes)


def test_a_huge_message_is_cut():
    finding = Finding(subject="s" * 100_000, actual="<" * 100_000)
    verdicts = (replace(partial().verdicts[1], findings=(finding,) * 500),)
    text = html.render(alone(replace(partial(), verdicts=verdicts)))
    assert len(text) < 200_000 and "more characters" in text and "… and 488 more" in text


def test_hostile_reports_stay_short():
    assert len(html.render(alone(hostile()))) < 60_000
