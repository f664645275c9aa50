"""Every field that crosses, with every value that the wire and JSON allow: it is refused, or all pages can be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.checks import CheckFailed, RunView
from grader.model import Case, Finding, Finished, LiveRank, OpenedFile, Outcome, RankRecord, Report, Run, alone
from grader.model.errors import UsageError
from grader.ranks.answer import heard
from grader.ranks.diagnosis import diagnose
from grader.ranks.watch.channel import LIVE
from grader.records import reading, recording
from grader.records.structure import REFUSALS, structure, unstructure
from grader.render import chrome, classroom50, github, gradescope, html, junit, terminal
from grader.render import json as as_json
from tests import pages, reports
from tests.fuzzing import JSON, fuzz, mutated
from tests.test_render_classroom50 import CONTEXT

OPENED = OpenedFile(digest="0" * 64, content=[1], problem="")
RUNS = [
    unstructure(replace(run, opened=(OPENED,)))
    for report in (reports.endings(), pages.timelines(), pages.markup())
    for run in report.runs
]


def rendered(report: Report) -> Iterator[str]:
    """The report in every format."""
    result = alone(report)
    yield terminal.render(report)
    yield as_json.render(report)
    yield html.render(result)
    yield chrome.render(report)
    yield junit.render(result)
    yield gradescope.render(result)
    yield classroom50.render(result, CONTEXT)
    yield classroom50.release_body(result)
    yield github.annotations(result, Path.as_posix)
    yield github.summary(result)


def require_pages(run: Run) -> None:
    """All pages of a report with this run can be made and written, and its JSON be read back."""
    found = diagnose(run.case, run.ranks, "train_ddp.py") if run.ranks else None
    report = reports.report("FPPPP", {"trains": found.findings} if found else {}, (run,), reports.submission())
    for page in rendered(report):
        page.encode()
    reading.report_of(json.loads(as_json.render(report)))


@fuzz(60)
@given(st.sampled_from(RUNS).flatmap(mutated))
def test_any_recorded_run_is_refused_or_can_be_shown(raw: object) -> None:
    """As journals and files of recorded runs have it, with any part replaced by any JSON."""
    try:
        run = recording.run_of(raw)
    except (*REFUSALS, AttributeError):
        return
    require_pages(run)


@fuzz(60)
@given(mutated([[0, "waits in barrier", 3], [1, "starts", None]]))
def test_what_live_ranks_do_is_refused_or_typed(rows: object) -> None:
    """The rows that a supervisor sends while ranks stand still."""
    seen: list[LiveRank] = []
    list(heard(iter([LIVE + json.dumps(rows).encode()]), seen.extend))
    for rank in seen:
        assert structure(LiveRank, unstructure(rank)) == rank


ATTEMPT = {"raised": ["ValueError", "Exception"], "message": "m", "line": 3, "said": "m"}


@fuzz(60)
@given(mutated(ATTEMPT), JSON)
def test_any_observation_that_a_check_tells_can_be_shown(attempt: Any, value: Any) -> None:
    """Also by a check that takes it as it came: a line that is a list or no number is none."""
    case = Case(name="x", world_size=1, probe="x")
    record = RankRecord(rank=0, ending=Finished(), observations={"attempt": attempt, "value": value})
    view = RunView(Run(case=case, ranks=(record,), seconds=1.0))
    findings: tuple[Finding, ...] = ()
    for told in (
        lambda: view[0].expect_raised(view[0]["attempt"], "LookupError", "the call"),
        lambda: view[0].expect_success(view[0]["attempt"], "the call"),
        lambda: view[0].expect_equal(view[0]["value"], 1, "the value"),
        lambda: view[0].fail("x", expected=value, actual=value, line=value),
    ):
        try:
            told()  # type: ignore[no-untyped-call]
        except CheckFailed as failed:
            findings += failed.findings
        except (TypeError, LookupError, AttributeError, ValueError):
            pass  # judged as an odd observation
    report = reports.partial()
    failed_check = replace(report.verdicts[0], outcome=Outcome.FAILED, findings=findings)
    for page in rendered(replace(report, verdicts=(failed_check, *report.verdicts[1:]))):
        page.encode(errors="strict")


@pytest.mark.parametrize("line", [[1], float("nan"), True, "3", -1, 10**30, {}])
def test_a_line_that_is_none_is_left_out(line: Any) -> None:
    """Of the sentence, and of every page."""
    assert Finding(subject="x", line=line).sentence() == "x"


@fuzz(60)
@given(mutated(json.loads(as_json.render(pages.timelines()))))
def test_any_json_is_no_report_or_can_be_shown(tmp_path_factory: pytest.TempPathFactory, raw: object) -> None:
    """A file that `render` is given may be anybody's."""
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_text(json.dumps(raw))
    try:
        result = reading.read(path)
    except UsageError:
        return
    for entry in result.entries:
        for page in rendered(entry.report):
            page.encode()
