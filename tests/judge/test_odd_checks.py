"""Checks that cannot be read, or that come upon what their author has not thought of."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from grader.grading.report import summarise
from grader.judge import engine, is_odd, judge, judge_live
from grader.model import Case, Exercise, Outcome, RankRecord, Run
from tests.judge.runs import SUBMISSION, outcomes, right_runs


@pytest.mark.parametrize("fault", ["import no_such_module", "def f(:"])
def test_checks_that_cannot_be_read_are_broken(exercise: Exercise, fault: str) -> None:
    """Whatever was recorded: it is the author's fault, costs nothing and gives nothing."""
    checks = exercise.folder / "checks.py"
    checks.write_text(f"{fault}\n{checks.read_text()}")
    verdicts = judge(exercise, SUBMISSION, right_runs())
    assert {verdict.outcome for verdict in verdicts} == {Outcome.BROKEN}
    assert verdicts[2].message.startswith("checks.py:1 could not be read: ")
    report = summarise(exercise, SUBMISSION, (), verdicts, seed=1, device="cpu", sandbox="limits", seconds=1.0)
    assert report.status == "error"


@pytest.mark.parametrize("fault", ["def bad(:", "raise OSError('no')"])
def test_a_probe_that_the_judge_cannot_import_breaks_the_checks_that_ask_for_it(exercise: Exercise, fault: str) -> None:
    (exercise.folder / "probe.py").write_text(fault)
    verdicts = judge(exercise, SUBMISSION, right_runs())
    assert outcomes(verdicts) == {"sums": "broken", "same": "blocked", "refuses": "passed"}
    assert "probe.py could not be imported" in verdicts[0].message


def test_a_case_that_the_machine_kept_from_running_breaks_its_check(exercise: Exercise) -> None:
    """A RunError is ours; a family that the author misspelt, too, which is told with its line."""
    verdict = judge(exercise, SUBMISSION, right_runs()[:2])[2]
    assert verdict.outcome is Outcome.BROKEN and "checks.py" not in verdict.message
    checks = exercise.folder / "checks.py"
    checks.write_text(checks.read_text().replace('runs("bad")', 'runs("no_such_family")'))
    verdict = judge(exercise, SUBMISSION, right_runs())[2]
    line = 1 + checks.read_text().splitlines().index('    for run in runs("no_such_family"):')
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.message == f"checks.py:{line}: no case family 'no_such_family' in exercise.yaml"


def test_what_a_check_could_not_make_sense_of_is_told_with_the_line_of_the_check(exercise: Exercise) -> None:
    """Not with that of torch or of ours in which it went wrong."""
    checks = exercise.folder / "checks.py"
    checks.write_text('import json\n\n\ndef test_sums(runs):\n    """A"""\n    json.loads("{")\n' + checks.read_text())
    checks.write_text(checks.read_text().replace("def test_sums(runs, probe)", "def test_other(runs, probe)"))
    verdict = judge(exercise, SUBMISSION, right_runs())[0]
    assert is_odd(verdict) and "checks.py:6: JSONDecodeError: " in verdict.message


def test_a_check_that_goes_on_for_ever_is_given_up_and_named(exercise: Exercise, monkeypatch: Any) -> None:
    monkeypatch.setattr(engine, "TIMEOUT", 1)
    checks = exercise.folder / "checks.py"
    begins, spins = "def test_sums(runs, probe):\n", "    while True:\n        pass\n"
    checks.write_text(checks.read_text().replace(begins, begins + spins))
    verdict = judge(exercise, SUBMISSION, right_runs())[0]
    assert is_odd(verdict) and "checks.py:" in verdict.message
    assert verdict.message.endswith("TimeoutError: the check has worked for more than 1 s")


def test_no_alarm_rings_for_a_check_that_waits_for_a_run(exercise: Exercise) -> None:
    """Runs have deadlines. What the check does afterwards has an alarm again."""
    alarms = []

    def run_case(case: Case) -> Run:
        alarms.append(signal.getitimer(signal.ITIMER_REAL)[0])
        return next(run for run in right_runs() if run.case.id == case.id)

    checks = exercise.folder / "checks.py"
    asks = 'runs("bad"):\n'
    rings = "        import signal\n        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0\n"
    checks.write_text(checks.read_text().replace(asks, asks + rings))
    verdicts = judge_live(exercise, run_case)
    assert {verdict.outcome for verdict in verdicts} == {Outcome.PASSED}
    assert alarms and not any(alarms)


def test_nor_does_pytests_own_where_judging_is_in_another_thread(exercise: Exercise) -> None:
    """It would end the process."""
    alarms = []

    def run_case(case: Case) -> Run:
        alarms.extend(thread.name for thread in threading.enumerate() if "checks.py" in thread.name)
        return next(run for run in right_runs() if run.case.id == case.id)

    with ThreadPoolExecutor(1) as pool:
        verdicts = pool.submit(judge_live, exercise, run_case).result()
    assert {verdict.outcome for verdict in verdicts} == {Outcome.PASSED} and not alarms


WRONG = {
    "name": "raise NameError('x')",
    "assertion": "assert run == 3",
    "memory": "raise MemoryError",
    "recursion": "f = lambda: f(); f()",
    "os": "open('/no/such/file')",
    "pickle": "import pickle; pickle.loads(b'x')",
    "assertion of ours": "from grader.model.errors import WireError; raise WireError('odd')",
    "exit": "raise SystemExit(0)",
    "base": "raise BaseException('x')",
    "group": "raise ExceptionGroup('x', [ValueError()])",
    "stop": "raise StopIteration",
    "generator": "raise GeneratorExit",
    "timeout": "import pytest; pytest.fail('Timeout >120.0s')",
    "xfail": "import pytest; pytest.xfail('it is expected')",
    "mute": """class Mute(Exception):
        def __str__(self): raise ValueError
    raise Mute""",
    "long": "raise KeyError('x' * 10_000_000)",
    "untellable": """class Odd:
        def __repr__(self): raise KeyboardInterrupt
    odd = Odd(); raise ValueError""",
}
"""What a check may come to raise over recorded data, whatever its author has thought of."""


@pytest.mark.parametrize("fault", WRONG.values(), ids=WRONG)
def test_whatever_a_check_raises_over_recorded_data_is_a_failure(exercise: Exercise, fault: str) -> None:
    """Were it broken, a student could bring it about. `verify` tells authors of it, and the next check is reached."""
    checks = exercise.folder / "checks.py"
    text = checks.read_text().replace('    for run in runs("sum"):', f"    run = 2\n    {fault}\n    for run in ():", 1)
    checks.write_text(text)
    verdicts = judge(exercise, SUBMISSION, right_runs())
    assert outcomes(verdicts) == {"sums": "failed", "same": "blocked", "refuses": "passed"}
    assert is_odd(verdicts[0]) and "could not make sense" in verdicts[0].message and len(verdicts[0].message) < 1000


def test_a_check_that_meets_what_no_probe_records_fails(exercise: Exercise) -> None:
    """As above, brought about from the rank's side."""
    *others, bad = right_runs()
    runs = [*others, replace(bad, ranks=tuple(map(numb, bad.ranks)))]
    verdict = judge(exercise, SUBMISSION, runs)[2]
    assert verdict.outcome is Outcome.FAILED and "could not make sense" in verdict.message and is_odd(verdict)


def numb(record: RankRecord) -> RankRecord:
    """The record of a rank that reports 5 for everything."""
    return replace(record, observations=dict.fromkeys(record.observations, 5))
