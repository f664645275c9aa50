"""The largest report that the budgets allow: every page of it is below five megabytes.

How long each takes: `python -m tests.largest` (5 s are the bar).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from grader.records import reading
from grader.wording.rations import cut_before, with_texts_rationed
from grader.wording.text import safe_report
from tests import reports
from tests.largest import PAGES, largest

MOST = 5e6


@pytest.mark.timeout(600)  # it builds hundreds of megabytes, and other tests run beside it
@pytest.mark.one_in(4)
@pytest.mark.parametrize("letter", ["<", "\U0001f600"])
def test_no_page_of_the_largest_report_is_larger_than_five_megabytes(letter: str) -> None:
    """Letters that a page has to escape, and such as take four bytes. The JSON can be read again."""
    report = largest(letter)
    pages = {name: page(report) for name, page in PAGES.items()}
    assert {name: len(page.encode()) for name, page in pages.items() if len(page.encode()) >= MOST} == {}
    reading.report_of(json.loads(pages["json"]))


def test_what_was_cut_says_so() -> None:
    """A trace is not complete then; the innermost frames and both ends of what was printed are kept."""
    shown = safe_report(largest("x"))
    for run in shown.runs:
        for record in run.ranks:
            assert record.trace is not None and not record.trace.complete
            assert not record.ending.stack or record.ending.stack[-1].line == 99
            assert record.output.startswith(str(record.rank)) and "more characters" in record.output


def test_a_report_of_usual_size_is_cut_nowhere() -> None:
    """But for what each text may be by itself."""
    for report in (reports.endings(), reports.deadlock(), reports.partial()):
        shown = safe_report(report)
        assert [run.ranks for run in shown.runs] == [run.ranks for run in report.runs]


def test_what_was_left_out_before_is_counted_with_what_is_left_out_now():
    printed = "a" * 300_000 + "\n… 1,312,000 bytes left out …\n" + "z" * 300_000
    report = reports.partial()
    ranks = (replace(report.runs[0].ranks[0], output=printed),)
    cut = with_texts_rationed(replace(report, runs=(replace(report.runs[0], ranks=ranks),))).runs[0].ranks[0].output
    assert re.search(r"a\n… [\d,]+ more characters and 1,312,000 bytes left out …\nz", cut)
    assert cut_before(cut) and "1,312,000 bytes" in cut_before(cut)[0]
