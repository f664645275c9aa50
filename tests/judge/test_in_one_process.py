"""Judging in a process that does other things: interrupts, threads, and what is imported beforehand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grader.judge import judge, judge_live, preload
from grader.model import Case, Exercise, Run
from tests import small
from tests.judge.runs import SUBMISSION, right_runs


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


@pytest.mark.one_in(2)
def test_judging_imports_nothing_that_was_not_preloaded(tmp_path: Path) -> None:
    """Ctrl-C during an import is lost now and then; `preload` imports with signals held back."""
    root = small.build(tmp_path)
    here = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-c", FIRST, str(root)]
    assert subprocess.run(words, cwd=here, capture_output=True, text=True, check=True).stdout.strip() == "[]"
