"""The source in the HTML page, with its marked lines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from grader.model import Finding
from grader.render.html.source import MOST_COLOURED, MOST_LINES, coloured, shown_lines
from tests.html.parsed import PAGES, page_of
from tests.pages import MARKUP, SOURCE, timelines
from tests.reports import partial, submission


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
