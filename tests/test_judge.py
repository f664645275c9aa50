"""grader.judge, checking and recording, on runs made by hand: the same runs give the same verdicts."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from grader import catalog
from grader.checks import RankView
from grader.grading.report import summarise
from grader.judge import COLLISION, is_odd, judge, judge_live, preload
from grader.model import (
    Case,
    Diagnosis,
    Exercise,
    Finding,
    Finished,
    Outcome,
    Raised,
    RankRecord,
    Run,
    Submission,
    Verdict,
)
from grader.model.errors import CheckFailed, UsageError
from grader.records import recording
from tests import small

SUBMISSION = Submission(path=Path("total.py"), source=b"", digest="")


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    return catalog.load(small.NAME, small.build(tmp_path))


def total(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def right_runs() -> list[Run]:
    one, two = torch.full((4,), 1.0, dtype=torch.float64), torch.full((4,), 3.0, dtype=torch.float64)
    return [small.sum_run(1, one), small.sum_run(2, two, two), small.bad_run("TypeError", "Exception")]


def outcomes(verdicts: tuple[Verdict, ...]) -> dict[str, str]:
    return {verdict.check.id: verdict.outcome.value for verdict in verdicts}


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


def test_an_edited_check_is_read_anew(exercise: Exercise) -> None:
    """Nothing of an earlier judgement is kept."""
    assert outcomes(judge(exercise, SUBMISSION, right_runs()))["refuses"] == "passed"
    checks = exercise.folder / "checks.py"
    checks.write_text(checks.read_text().replace('"TypeError"', '"OSError"'))
    assert outcomes(judge(exercise, SUBMISSION, right_runs()))["refuses"] == "failed"


def test_recorded_runs_are_judged_as_they_were(exercise: Exercise, tmp_path: Path) -> None:
    """Saved, loaded, judged: the same verdicts."""
    runs = right_runs()
    finding = Finding(subject="x", ranks=(0,))
    runs[0] = replace(
        small.sum_run(1, total(1, 1, 1, 2), ending=Raised(type="E", message="m", causes=("a",))),
        diagnosis=Diagnosis(kind="raised", ranks=(0,), findings=(finding,)),
    )
    recording.save(tmp_path / "runs", exercise, 7, runs)
    seed, loaded = recording.load(tmp_path / "runs", exercise)
    assert seed == 7 and [run.diagnosis for run in loaded] == [run.diagnosis for run in runs]
    assert [record.ending for run in loaded for record in run.ranks] == [r.ending for run in runs for r in run.ranks]
    assert outcomes(judge(exercise, SUBMISSION, loaded)) == outcomes(judge(exercise, SUBMISSION, runs))


@pytest.mark.parametrize("content", [b"", b"not runs", b"\0\0\0\2{}"])
def test_a_file_that_holds_no_runs_is_refused_in_a_sentence(exercise: Exercise, tmp_path: Path, content: bytes) -> None:
    """As a wrong command."""
    (tmp_path / "runs").write_bytes(content)
    with pytest.raises(UsageError, match="does not hold recorded runs"):
        recording.load(tmp_path / "runs", exercise)
    with pytest.raises(UsageError, match="could not be read"):
        recording.load(tmp_path / "missing", exercise)


def test_ctrl_c_while_judging_is_not_swallowed(exercise: Exercise) -> None:
    """pytest would turn it into an exit code."""
    checks = exercise.folder / "checks.py"
    checks.write_text(
        checks.read_text().replace('    for run in runs("bad"):', "    raise KeyboardInterrupt\n    for run in ():")
    )
    with pytest.raises(KeyboardInterrupt):
        judge(exercise, SUBMISSION, right_runs())


class Terminated(KeyboardInterrupt):
    """What a signal to end raises in the main thread."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Terminated])
def test_an_interrupt_while_a_check_waits_for_its_runs_ends_the_judging(
    exercise: Exercise, kind: type[BaseException]
) -> None:
    """As itself, whichever subclass it is: pytest would keep it, and its sender would wait for ever."""
    sent = kind()

    def interrupted(case: Case) -> Run:
        raise sent

    with pytest.raises(kind) as raised:
        judge_live(exercise, interrupted)
    assert raised.value is sent


def test_one_thread_judges_also_where_torch_was_imported_already() -> None:
    """Two, which spin while they wait for one another, take several times as long on two cores."""
    torch.set_num_threads(2)
    preload()
    assert torch.get_num_threads() == 1


def test_checks_that_another_thread_kept_from_being_parsed_are_read_again(
    exercise: Exercise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11 fails one of two threads that parse in the same moment."""
    parse, failures = ast.parse, [SystemError(f"{COLLISION} (before=3, after=9)")]

    def now_and_then(*args: Any, **kwargs: Any) -> ast.AST:
        if failures and str(kwargs.get("filename", "")).endswith("checks.py"):
            raise failures.pop()
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", now_and_then)
    verdicts = judge(exercise, SUBMISSION, right_runs())
    assert not failures and set(outcomes(verdicts).values()) == {"passed"}


FIRST = """
import sys
from pathlib import Path
from grader import catalog
from grader.grading.flow import preload
from grader.judge import judge
from grader.model import Submission
preload()
(name,), root = catalog.all_names(Path(sys.argv[1])), Path(sys.argv[1])
exercise, before = catalog.load(name, root), set(sys.modules)
judge(exercise, Submission(path=exercise.stub, source=b"", digest=""), ())
print(sorted(name for name in set(sys.modules) - before if not name.startswith("ranklings_probe")))
"""


def test_judging_imports_nothing_that_was_not_preloaded(tmp_path: Path) -> None:
    """Ctrl-C during an import is lost now and then; `preload` imports with signals held back."""
    root = small.build(tmp_path)
    here = Path(__file__).resolve().parents[1]
    words = [sys.executable, "-c", FIRST, str(root)]
    assert subprocess.run(words, cwd=here, capture_output=True, text=True, check=True).stdout.strip() == "[]"
