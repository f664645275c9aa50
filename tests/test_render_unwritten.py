"""The page of a file that is not written yet, in whole or in part: where to start, what is next, which hints help."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from grader.model import Finding, Killed, Outcome, Raised, Report, TimedOut
from grader.render.terminal import render
from tests.reports import EXERCISE, failed_run, frame, stub, submission
from tests.reports import report as report_of


def test_a_stub_is_told_where_to_start():
    page = " ".join(render(stub()).split())
    assert "open exercises/03_train_ddp/train_ddp.py and read README.md beside it" in page
    assert "the first thing to write is train_ddp (line 25)." in page
    assert "Hint" not in page
    assert page.count("not written yet") == 2


def test_who_has_begun_is_not_told_where_to_start():
    report = stub()
    verdicts = (*report.verdicts[:4], replace(report.verdicts[4], outcome=Outcome.PASSED))
    page = render(replace(report, verdicts=verdicts))
    assert "Where to start" not in page
    assert "Next: write train_ddp (line 25)." in page and page.count("not written yet") == 2


FUNCTIONS = b"""def written():
    return 1


def unwritten(
    value,
):
    # TODO
    raise NotImplementedError("unwritten is yours to write")


def refuses(value):
    if value is None:
        raise NotImplementedError("no None")
"""


def of_functions(letters: str, findings: dict[str, tuple[Finding, ...]]) -> Report:
    return report_of(letters, findings, (), replace(submission(), source=FUNCTIONS))


def raised(line: int | None, said: str) -> Finding:
    return Finding(subject="f(1)", expected="2", actual=f"NotImplementedError: {said}", line=line, case="f[1]")


def test_a_function_is_not_written_yet_also_where_others_are():
    """Each for itself: the others' checks keep their faults and hints, and what is next is said where nothing fails."""
    stub_error = raised(9, "unwritten is yours to write")
    page = render(of_functions("PFBBB", {"same_as_one_process": (stub_error,)}))
    assert "same as in" not in page and "not written yet" in page and "Hint" not in page
    assert "Next: write unwritten (line 9)." in page
    wrong = Finding(subject="written()", expected="2", actual="1", line=2)
    page = render(of_functions("FFBBB", {"runs": (wrong,), "same_as_one_process": (stub_error,)}))
    assert page.count("not written yet") == 1 and "Hint: Read the first traceback" in page
    assert "Where to start" not in page and "Next" not in page


def test_the_stubs_error_is_known_by_what_it_says():
    bare = Finding(subject="f(1)", expected="broken", actual="unwritten is yours to write")
    assert "not written yet" in render(of_functions("PFBBB", {"same_as_one_process": (bare,)}))


@pytest.mark.parametrize("finding", [raised(14, "no None"), raised(2, "aten::add"), Finding(subject="x", actual="y")])
def test_an_error_of_the_students_own_is_none_of_the_stub(finding):
    page = render(of_functions("PFBBB", {"same_as_one_process": (finding,)}))
    assert "not written yet" not in page and "Next" not in page and "Hint" in page


def test_a_stub_that_runs_is_to_be_mended_where_its_first_check_says():
    exercise = replace(EXERCISE, stub_digest=hashlib.sha256(FUNCTIONS).hexdigest())
    fault = Finding(subject="train_ddp", expected="2", actual="1", line=2)
    report = replace(of_functions("FFBBB", {"runs": (fault,), "saves_once": (raised(9, "x"),)}), exercise=exercise)
    page = " ".join(render(report).split())
    assert "Where to start:" in page and "the first thing to mend is what the first check asks for (line 2)." in page


def test_a_checks_hint_is_not_given_where_it_cannot_help():
    """For a file that cannot be imported, and for ranks that a signal has ended or that compute without end."""
    fault = Finding(subject="train_ddp.py could not be imported", actual="ModuleNotFoundError: nosuch", line=1)
    assert "Hint" not in render(report_of("FBBBB", {"runs": (fault,)}, (), submission(problem=fault)))
    lacks = Raised(type="ContractError", message="train_ddp.py does not define train_ddp")
    for ending in (Killed(signal="SIGSEGV"), TimedOut(stack=(frame(33),)), lacks):
        fault = Finding(subject="It ended", ranks=(0,), case="equal_shards[1]")
        run = failed_run(ending.kind, (fault,), ending)
        assert "Hint" not in render(report_of("FBBBB", {"runs": (fault,)}, (run,), submission()))


def test_what_is_tried_at_import_says_of_no_function_that_it_is_unwritten():
    """The call at import may be of another one than the first check judges."""
    finding = Finding(
        subject="train_ddp.py could not be imported", actual="NotImplementedError: last", line=30, hint="Ranks import"
    )
    report = stub()
    verdicts = (replace(report.verdicts[0], findings=(finding,)), *report.verdicts[1:])
    page = render(replace(report, verdicts=verdicts, runs=()))
    assert "not written yet" not in page.split("\n\n")[1] and "train_ddp.py could not be imported · line 30" in page
