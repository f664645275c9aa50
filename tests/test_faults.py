"""Faults from outside: a rank that is hit, no room, no descriptors, a stepped clock, many grades.

The long versions are `python -m grader.authoring.faults` and `python -m grader.authoring.endurance`;
docs/reliability.md has their figures.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import grader
from grader import catalog
from grader.authoring import faults
from grader.authoring.endurance import Holdings, holdings, in_a_row, private_folder
from grader.grading.flow import grade
from grader.grading.request import Request
from grader.model import Case, Submission
from grader.ranks import Session
from tests import small

SOLUTION = small.FILES["reference/90_total/total.py"]
BUSY = SOLUTION.replace(
    "    result =",
    "    until = time.monotonic() + 1.0\n    while time.monotonic() < until:\n        pass\n    result =",
)
"""A right solution whose ranks compute for a second before they meet, so that a hit at once comes in time."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.build(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def bench(warm: Session, root: Path) -> faults.Bench:
    source = f"import time\n{BUSY}".encode()
    submission = Submission(path=root / "total.py", source=source, digest=hashlib.sha256(source).hexdigest())
    return faults.Bench(warm, catalog.load(small.NAME, root), submission, seed=1)


# -- a rank that is hit -----------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("kind", "told"), [("SIGKILL", "killed"), ("SIGSEGV", "killed"), ("SIGSTOP", "killed")])
def test_a_rank_that_is_hit_is_the_cause_and_nothing_is_left(
    bench: faults.Bench, monkeypatch: pytest.MonkeyPatch, kind: str, told: str, rank: int
) -> None:
    """Its peers are not charged, no mark is given, no process or file stays, and the next run is right."""
    monkeypatch.setattr(faults, "STOP_DEADLINE", 2.0)
    trial = faults.try_once(bench, case_of(bench, "sum[2]"), kind, rank, 0.0)
    assert (trial.faults, trial.seen) == ((), f"told {told}")


def test_a_rank_that_is_stopped_for_a_while_costs_nothing(bench: faults.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the quiet that makes a deadlock; the rank goes on and all checks pass."""
    monkeypatch.setattr(faults, "SLOW_SECONDS", 1.5)
    trial = faults.try_once(bench, case_of(bench, "sum[2]"), "slow", 1, 0.0)
    assert (trial.faults, trial.seen) == ((), "finished after the stop")


def case_of(bench: faults.Bench, wanted: str) -> Case:
    return next(case for case in bench.cases if case.id == wanted)


# -- the machine runs out of something --------------------------------------------------------------------------------


def graded(root: Path, before: str, *around: str, **variables: str) -> tuple[int, str]:
    """Exit code and all that was printed by a grade whose shell has taken something away `before`, `around` it."""
    command = f'{before} exec "$0" -m grader grade 90 --sandbox off --submission reference/90_total/total.py'
    environment = {**os.environ, "PYTHONPATH": str(Path(grader.__file__).parents[1]), **variables}
    words = [*around, "sh", "-c", command, sys.executable]
    ended = subprocess.run(words, check=False, cwd=root, env=environment, capture_output=True, text=True)
    return ended.returncode, " ".join((ended.stdout + ended.stderr).split())


@pytest.mark.one_in(2)
@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap to make a file system that is small")
def test_a_full_disk_under_the_scratch_is_our_fault_and_told(root: Path, tmp_path: Path) -> None:
    """The submission fits and the probe does not: exit code 3, what to do about it, and never a lost point."""
    small_disk = ["bwrap", "--dev-bind", "/", "/", "--size", "65536", "--tmpfs", str(tmp_path), "--"]
    if subprocess.run([*small_disk, "true"], check=False, capture_output=True).returncode:
        pytest.skip("bubblewrap may not run here")
    code, said = graded(root, 'head -c 61440 /dev/zero > "$TMPDIR/full";', *small_disk, TMPDIR=str(tmp_path))
    assert code == 3 and "Set TMPDIR" in said and "Traceback" not in said, said


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [10, 24])
def test_exhausted_descriptors_are_told_or_survived(root: Path, count: int) -> None:
    """With so few descriptors the grade is right, or it ends with exit code 3 and a sentence."""
    code, said = graded(root, f"ulimit -n {count};")
    assert code in (0, 3) and "Traceback" not in said, said


def test_a_grade_is_right_while_the_clock_is_stepped(
    warm: Session, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of day jumps by an hour at every look, forth and back."""
    real, looks = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() + (3600 if next(looks) % 2 else -3600))
    report = grade(Request(exercise=small.NAME, root=root, submission=root / "reference/90_total/total.py"), warm)
    assert report.status == "passed" and 0 < report.seconds < 600


def test_no_duration_is_taken_from_the_time_of_day() -> None:
    """time.monotonic everywhere: what time it is is asked by a format that wants it, and by the diary."""
    package = Path(grader.__file__).parent
    exempt = {package / "cli" / "outputs.py", package / "cli" / "clock.py"}
    sources = [path for path in package.rglob("*.py") if path not in exempt]
    assert [f"{path.name}:{line}" for path in sources for line in _asks(ast.parse(path.read_text()))] == []


def _asks(module: ast.Module) -> list[int]:
    names = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}
    attributes = [node for node in ast.walk(module) if isinstance(node, ast.Attribute)]
    return [n.lineno for n in attributes if isinstance(n.value, ast.Name) and (n.value.id, n.attr) in names]


# -- many grades ------------------------------------------------------------------------------------------------------


def test_eight_runs_at_once_on_one_session_are_all_right(warm: Session, root: Path) -> None:
    """More runs than cores, four of them with two ranks."""
    exercise = catalog.load(small.NAME, root)
    submission = Submission(path=root / "total.py", source=SOLUTION.encode(), digest="")
    cases = [replace(case, seed=seed) for seed in range(4) for case in exercise.cases if case.name == "sum"]
    with ThreadPoolExecutor(max_workers=8) as pool:
        runs = list(pool.map(lambda case: warm.run(exercise, submission, case), cases))
    assert len(runs) == 8 and [run.diagnosis for run in runs] == [None] * 8
    assert all("total" in record.observations for run in runs for record in run.ranks)


@pytest.mark.one_in(3)
def test_grades_in_a_row_leave_nothing_behind(warm: Session, root: Path) -> None:
    """Twenty on one session: memory, descriptors, processes, ports and files stay as they were."""
    with private_folder():
        seen = list(in_a_row(small.NAME, root, 20, warm))
    assert [status for status, _ in seen] == ["passed"] * 20
    before, after = seen[3][1], seen[-1][1]
    assert not before.growth(after), (before, after)


def test_growth_is_seen(warm: Session) -> None:
    """A control: one more descriptor is growth, a page of memory is not."""
    before = holdings(warm)
    more = replace(before, judge_memory=before.judge_memory + 4, host_descriptors=before.host_descriptors + 1)
    assert isinstance(before, Holdings) and before.growth(more) == {"host_descriptors": 1}
