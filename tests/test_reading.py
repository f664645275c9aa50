"""grader.records.reading: what `--json` wrote comes back as the same report, and nothing else comes in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from grader.model import Entry, Late, Result
from grader.model.errors import UsageError
from grader.model.trace import Communication, Span, Trace
from grader.records import reading
from grader.render import json as renderer
from grader.render import terminal
from tests.reports import KINDS, partial, passed, submission

DOCS = Path(__file__).parent.parent / "docs"


def back(text: str) -> Result:
    return reading.result_of(json.loads(text))


def traced():
    """A report whose first run has a trace."""
    events = (
        Communication(operation="all_reduce", bytes=96, dtype="float64", group=(0, 1), start=0.25, end=None, line=7),
        Communication(operation="send", bytes=8, dtype="int64", group=(0, 1), peer=1, start=0.1, end=0.2, backward=0),
    )
    trace = Trace(communications=events, spans=(Span(kind="region", name='"odd"\n', start=0.0, end=0.5),))
    report = passed()
    ranks = tuple(replace(record, trace=trace) for record in report.runs[0].ranks)
    return replace(report, runs=(replace(report.runs[0], ranks=ranks), *report.runs[1:]))


def assignment() -> Result:
    late = Late(kept=0.8, told="Handed in 2 days late: 20 % off.")
    entries = (Entry(report=partial(), weight=60), Entry(report=traced(), weight=40, late=late))
    return Result(title="Homework 2", entries=entries)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_that_was_written_and_read_renders_the_same(kind):
    report = KINDS[kind]()
    again = back(renderer.render(report)).entries[0].report
    assert renderer.render(again) == renderer.render(report)
    assert terminal.render(again) == terminal.render(report)


def test_traces_come_back():
    text = renderer.render(traced())
    assert back(text).entries[0].report.runs == traced().runs or renderer.render(back(text).entries[0].report) == text
    assert back(text).entries[0].report.runs[0].ranks[0].trace.communications == (
        traced().runs[0].ranks[0].trace.communications
    )


def test_each_event_of_a_trace_is_one_line():
    lines = [line for line in renderer.render(traced()).splitlines() if '"operation": "all_reduce"' in line]
    assert len(lines) == 1
    assert json.loads(lines[0].strip().rstrip(","))["bytes"] == 96


def test_an_assignment_comes_back_with_weights_and_lateness():
    result = back(renderer.render_result(assignment()))
    assert (result.title, [entry.weight for entry in result.entries]) == ("Homework 2", [60, 40])
    assert result.entries[1].late == assignment().entries[1].late
    assert (result.score, result.max_score) == pytest.approx((assignment().score, 100))
    assert result.entries[1].score == pytest.approx(32)


def test_an_assignment_keeps_to_its_schema():
    schemas = [json.loads((DOCS / f"{name}.schema.json").read_text()) for name in ("report", "result")]
    registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)
    Draft202012Validator(schemas[1], registry=registry).validate(json.loads(renderer.render_result(assignment())))
    Draft202012Validator(schemas[0]).validate(json.loads(renderer.render(traced())))


@pytest.mark.parametrize(
    "source",
    [
        b"# -*- coding: latin-1 -*-\nname = '\xe4'\n",
        b"\xef\xbb\xbfname = 'bom'\r\nx = 1\r\n",
        b"# coding: punycode\nx = 1\n",
        b"\xff\xfe\x00broken",
        b"x = '\x1b[31m'\n",
    ],
)
def test_the_students_file_comes_back_line_by_line(source):
    report = replace(passed(), submission=replace(submission(), source=source))
    text = renderer.render(report)
    assert renderer.render(back(text).entries[0].report) == text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"schema": "ranklings/report/2"}', "nonsense", '{"schema": "ranklings/report/1"}']
)
def test_a_file_that_is_no_report_is_told_in_a_sentence(text, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is no report of `grade --json`"):
        reading.read(path)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        reading.read(tmp_path / "none.json")


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_damage_is_refused_or_harmless(data):
    """A value of another type in any place: a report that renders, or one of the errors that `read` turns into a
    sentence."""
    content = json.loads(renderer.render(traced()))
    *way, last = data.draw(st.sampled_from([path for path in places(content) if path]))
    holder = content
    for step in way:
        holder = holder[step]
    holder[last] = data.draw(st.sampled_from([None, True, -1, 1e308, "x", "\udc80", [], {}, [[]], {"start": 1}]))
    try:
        report = reading.report_of(content)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return
    renderer.render(report)
    terminal.render(report)
