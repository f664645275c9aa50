"""grader.judge on runs made by hand: what passes, what fails and with which findings, what is blocked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from grader import catalog
from grader.checks import Attempt, RankView, Tensors
from grader.grading.report import summarise
from grader.judge import judge, judge_live
from grader.model import Diagnosis, Exercise, Finding, Finished, Outcome, Raised, RankRecord
from grader.model.errors import CheckFailed
from tests import small
from tests.judge.runs import SUBMISSION, outcomes, right_runs, total


def test_right_runs_pass_every_check(exercise: Exercise) -> None:
    """And give full points."""
    verdicts = judge(exercise, SUBMISSION, right_runs())
    assert outcomes(verdicts) == {"sums": "passed", "same": "passed", "refuses": "passed"}
    report = summarise(
        exercise, SUBMISSION, right_runs(), verdicts, seed=1, device="cpu", sandbox="limits", seconds=1.0
    )
    assert (report.score, report.max_score, report.status) == (100, 100, "passed")


def test_what_never_came_about_is_charged_to_what_prevented_it(exercise: Exercise) -> None:
    """A check of the second part is judged by the runs that came there; where none did it is blocked, and the first
    part's check, whose own observation is missing, fails."""
    path = exercise.folder / "checks.py"
    first, same = path.read_text().split("def test_same")
    path.write_text(f"{first}def test_same" + same.replace('runs("sum")', 'runs("sum", after=["total"])'))
    manifest = exercise.folder / "exercise.yaml"
    manifest.write_text(manifest.read_text().replace(", needs: [sums]", ""))
    changed = catalog.load(small.NAME, exercise.folder.parents[1])
    one, bad = right_runs()[0], right_runs()[2]
    raised = Diagnosis(kind="raised", ranks=(0,), findings=(Finding(subject="total raised"),))
    left, none = (
        replace(small.sum_run(size, *[None] * size, ending=Raised(type="E", message="")), diagnosis=raised)
        for size in (2, 1)
    )
    verdicts = judge(changed, SUBMISSION, [one, left, bad])
    assert outcomes(verdicts) == {"sums": "failed", "same": "passed", "refuses": "passed"}
    verdicts = judge(changed, SUBMISSION, [none, left, bad])
    assert outcomes(verdicts) == {"sums": "failed", "same": "blocked", "refuses": "passed"}
    assert verdicts[1].message.startswith("not judged")


def test_what_is_not_judged_while_nothing_fails_is_charged_with_what_ended_the_run(exercise: Exercise) -> None:
    """Points are never gone without a reason. It is told as it comes, and told anew."""
    path = exercise.folder / "checks.py"
    path.write_text(path.read_text().replace('runs("sum")', 'runs("sum", after=["total"])'))
    one, two, bad = right_runs()
    raised = Diagnosis(kind="raised", ranks=(0,), findings=(Finding(subject="total raised", ranks=(0,)),))
    left = [small.sum_run(size, *[None] * size, ending=Raised(type="E", message="")) for size in (1, 2)]
    by_case = {run.case.id: replace(run, diagnosis=raised) for run in left} | {bad.case.id: bad}
    told: list[tuple[str, str]] = []
    verdicts = judge_live(
        exercise, lambda case: by_case[case.id], lambda verdict: told.append((verdict.check.id, verdict.outcome.value))
    )
    assert outcomes(verdicts) == {"sums": "failed", "same": "blocked", "refuses": "passed"}
    assert verdicts[0].findings == raised.findings and verdicts[0].message == "total raised on rank 0"
    assert told == [("sums", "blocked"), ("same", "blocked"), ("refuses", "passed"), ("sums", "failed")]
    killed = replace(bad, diagnosis=replace(raised, findings=(Finding(subject="killed, as was staged"),)))
    path.write_text(_refuses_first(path.read_text()).replace('runs("bad")', 'runs("bad", finished=False)'))
    assert judge(exercise, SUBMISSION, [*(by_case[run.case.id] for run in left), killed])[0].findings == raised.findings
    verdicts = judge(exercise, SUBMISSION, [*left, bad])
    assert outcomes(verdicts)["sums"] == "failed" and "the code did not come so far" in verdicts[0].message
    assert outcomes(judge(exercise, SUBMISSION, [one, two, bad]))["sums"] == "passed"


def _refuses_first(checks: str) -> str:
    """The same checks, the third one first, which looks at another run; pytest goes by the order in the file."""
    before, third = checks.split("def test_refuses")
    head, first = before.split("def test_sums")
    return f"{head}def test_refuses{third}\n\n\ndef test_sums{first}"


def test_a_wrong_value_fails_with_expected_actual_and_rank(exercise: Exercise) -> None:
    """The check that needs it is blocked, not failed; the independent one is judged."""
    runs = right_runs()
    runs[1] = small.sum_run(2, total(3, 3, 3, 3), total(6, 6, 6, 6))
    verdicts = judge(exercise, SUBMISSION, runs)
    assert outcomes(verdicts) == {"sums": "failed", "same": "blocked", "refuses": "passed"}
    (finding,) = verdicts[0].findings
    assert finding.ranks == (1,) and finding.case == "sum[2]" and "exactly" in finding.actual
    assert verdicts[1].message == "needs: All ranks get the sum"


def test_a_missing_observation_is_a_failure(exercise: Exercise) -> None:
    """Silence is never a pass."""
    runs = [small.sum_run(1, None), *right_runs()[1:]]
    verdict = judge(exercise, SUBMISSION, runs)[0]
    assert verdict.outcome is Outcome.FAILED and "recorded" in verdict.message


def test_a_missing_observation_is_told_beside_those_that_were_recorded() -> None:
    """A probe that came to its end may call it something else; code that left before has recorded what came before."""
    said = {}
    for ending in (Finished(), Raised(type="ValueError", message="boom")):
        record = RankRecord(rank=0, ending=ending, observations={"b": 1, "a": 2})
        with pytest.raises(CheckFailed) as caught:
            RankView(record, right_runs()[0].case).read("c", int)
        said[ending.kind] = str(caught.value)
    assert said["finished"].endswith("The grader saw no 'c' on rank 0: recorded were 'a', 'b'")
    assert said["raised"].endswith("the code left before it was recorded; recorded were 'a', 'b'")
    many = RankRecord(rank=0, ending=Finished(), observations={f"n{number}": 1 for number in range(20)})
    with pytest.raises(CheckFailed, match=r"'n19', …$"):
        RankView(many, right_runs()[0].case).read("c", int)


def hint_of(expectation: Callable[..., object], *args: object, **fields: object) -> str | None:
    """The hint of what fails, where the check gives another or none."""
    with pytest.raises(CheckFailed) as caught:
        expectation(*args, **fields)
    return caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("EOFError", "EOF when reading a line", "Ranks have no keyboard: input() finds nothing."),
        ("BdbQuit", "", "Ranks have no keyboard. Print what you want to know."),
        ("EOFError", "Ran out of input", "the check's"),
        ("ValueError", "boom", "the check's"),
    ],
)
def test_a_call_that_asks_at_a_keyboard_gets_the_hint_that_there_is_none(kind: str, message: str, hint: str) -> None:
    """In place of what the check says about the value that never came."""
    rank, attempt = first_rank(), {"raised": [kind, "Exception"], "message": message, "line": 3, "said": message}
    assert hint_of(rank.expect_success, attempt, "f()", hint="the check's") == hint
    assert hint_of(rank.expect_raised, attempt, "TypeError", "f()", hint="the check's") == hint


@pytest.mark.parametrize(
    ("value", "kind", "hint"),
    [
        ((1,), list[int], "The contract says list, not tuple. `list(...)` makes a list of a tuple."),
        ([1], tuple[int], "The contract says tuple, not list. `tuple(...)` makes a tuple of a list."),
        ([1.5], list[int], "The contract says int, not float. `/` gives a float, also where nothing is left over; "
                           "`//` of two ints gives an int."),
        ("True", bool, "The contract says bool, not str."),
        (None, Tensors, "The contract says dict, not None."),
        ({}, Attempt, None),
    ],
)  # fmt: skip
def test_a_value_of_another_type_gets_a_hint_about_types(value: Any, kind: Any, hint: str | None) -> None:
    """Unless the check gives one of its own. A key that is missing is no matter of types."""
    rank = first_rank(value=value)
    assert hint_of(rank.read, "value", kind) == hint_of(rank.expect_kind, value, kind, "it") == hint
    assert hint_of(rank.expect_kind, value, kind, "it", hint="the check's") == "the check's"


def test_a_type_that_a_probe_named_is_judged_likewise() -> None:
    rank = first_rank()
    rank.expect_type("int", "int", "the type of f()")
    assert hint_of(rank.expect_type, "float", "int", "it") == hint_of(rank.expect_kind, 1.5, int, "it")
    assert hint_of(rank.expect_type, "float", "int", "it", hint="the check's") == "the check's"


def first_rank(**observations: Any) -> RankView:
    return RankView(RankRecord(rank=0, ending=Finished(), observations=observations), right_runs()[0].case)


def test_a_run_that_went_wrong_fails_its_check_with_the_diagnosis(exercise: Exercise) -> None:
    """Other checks look at other runs."""
    finding = Finding(subject="ValueError was raised", actual="boom", ranks=(0,), line=3, case="sum[1]")
    broken = small.sum_run(1, None, ending=Raised(type="ValueError", message="boom"))
    broken = replace(broken, diagnosis=Diagnosis(kind="raised", ranks=(0,), findings=(finding,)))
    verdicts = judge(exercise, SUBMISSION, [broken, *right_runs()[1:]])
    assert verdicts[0].findings == (finding,) and outcomes(verdicts)["refuses"] == "passed"


@pytest.mark.parametrize(
    ("names", "outcome"),
    [
        (("TypeError", "Exception"), "passed"),
        (("Own", "TypeError"), "passed"),
        (("ValueError",), "failed"),
        ((), "failed"),
    ],
)
def test_an_exception_is_judged_by_its_classes(exercise: Exercise, names: tuple[str, ...], outcome: str) -> None:
    """A subclass will do; another type or none will not."""
    runs = [*right_runs()[:2], small.bad_run(*names)]
    assert outcomes(judge(exercise, SUBMISSION, runs))["refuses"] == outcome


def test_a_file_that_does_not_compile_fails_the_first_check_and_blocks_the_rest(exercise: Exercise) -> None:
    """No check is run on nothing."""
    problem = Finding(subject="total.py has a syntax error", line=3)
    verdicts = judge(exercise, replace(SUBMISSION, problem=problem), [])
    assert outcomes(verdicts) == {"sums": "failed", "same": "blocked", "refuses": "blocked"}
    assert verdicts[0].findings == (problem,)
