"""Runs go in, verdicts come out; pytest is the engine. Pure: the same runs give the same verdicts.

The same plugin serves `python -m grader grade 03`, where the runs are there already, and
`pytest exercises/03_train_ddp`, where a case is run when a check first asks for it.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from grader.checks import Runs
from grader.model import Case, Check, Exercise, Finding, Outcome, Run, Submission, Verdict
from grader.model.errors import CheckFailed, GraderError, NotRun, RunError

_Reporting = Generator[None, pytest.TestReport, pytest.TestReport]
UNUSED = ("cacheprovider", "terminal", "faulthandler", "unraisableexception", "threadexception")
"""pytest's plugins that judging does without; the last two collect garbage thrice, four fifths of the time."""
MISLED = (TypeError, LookupError, AttributeError, ValueError, ArithmeticError, RuntimeError)
"""What a check raises that meets values of another kind than a probe records. `verify` proves that right solutions
never bring that about, so it is the submission's doing. As our fault it would cost nothing, and be worth doing."""
ODD = "The check could not make sense of what the code recorded"
TIMEOUT = 120
"""Seconds after which a check that hangs is given up: the last safety net, never the first."""


def judge(
    exercise: Exercise, submission: Submission, runs: Sequence[Run], further: Exercise | None = None
) -> tuple[Verdict, ...]:
    """The verdict of every check, in order. The first run may be the import of the file, judged before all else.
    `further` are the course's own checks; they come last and may need the exercise's."""
    if unusable := _unusable(submission, runs):
        return _all_blocked(_together(exercise, further), unusable)
    by_case = {run.case.id: run for run in runs}
    return judge_live(exercise, lambda case: _recorded(by_case, case), further=further)


def _together(exercise: Exercise, further: Exercise | None) -> Exercise:
    return replace(exercise, checks=exercise.checks + further.checks) if further else exercise


def _recorded(runs: Mapping[str, Run], case: Case) -> Run:
    if case.id not in runs:
        raise RunError(f"the runs do not hold {case.id}")
    return runs[case.id]


def is_odd(verdict: Verdict) -> bool:
    """Whether a check met what it was not written for. Right solutions never do that; an author wants to know."""
    return verdict.outcome is Outcome.BROKEN or any(finding.subject == ODD for finding in verdict.findings)


def _unusable(submission: Submission, runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Why no check can be judged: the file does not compile, cannot be imported or lacks what is asked for."""
    if submission.problem is not None:
        return (submission.problem,)
    imported = next((run for run in runs if not run.case.probe), None)
    return imported.diagnosis.findings if imported is not None and imported.diagnosis is not None else ()


def _all_blocked(exercise: Exercise, findings: tuple[Finding, ...]) -> tuple[Verdict, ...]:
    first, *rest = exercise.checks
    message = "; ".join(finding.sentence() for finding in findings)
    blocked = f"needs: {first.title}"
    return (
        Verdict(check=first, outcome=Outcome.FAILED, findings=findings, message=message),
        *(Verdict(check=check, outcome=Outcome.BLOCKED, message=blocked) for check in rest),
    )


def judge_live(
    exercise: Exercise,
    run_case: Callable[[Case], Run],
    tell: Callable[[Verdict], None] | None = None,
    further: Exercise | None = None,
) -> tuple[Verdict, ...]:
    """The same while the cases still run: `run_case` waits for one, `tell` hears each verdict as it comes."""
    verdicts = judge_with(Panel(exercise, run_case, tell))
    return verdicts + judge_with(Panel(further, run_case, tell, known=verdicts)) if further else verdicts


def judge_with(panel: Panel, only: str | None = None) -> tuple[Verdict, ...]:
    """Run checks.py of one exercise in this process, under none of the user's settings; `only` names one check."""
    path = panel.exercise.folder / "checks.py"
    options = ["-c", os.devnull, "--rootdir", str(path.parent), "--noconftest", "--import-mode=importlib", "-s"]
    plugins = [*(word for name in UNUSED for word in ("-p", f"no:{name}")), "-p", "pytest_timeout"]
    patience = TIMEOUT + 3 * sum(case.deadline for case in panel.exercise.cases)  # a check may wait for its runs
    settings = ["-o", "python_files=checks.py", "-o", f"timeout={patience}"]
    before = os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        chosen = str(path) if only is None else f"{path}::test_{only}"
        pytest.main([*options, *plugins, *settings, chosen], plugins=[panel])
    finally:
        _restore("PYTEST_DISABLE_PLUGIN_AUTOLOAD", before)
        _forget(path)
    if panel.interrupted:
        raise KeyboardInterrupt
    return panel.verdicts()


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _forget(path: Path) -> None:
    """Drop the imported checks, so that an edited file is read again and two folders of one name do not mix."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == str(path):
            del sys.modules[name]


class Panel:
    """The pytest plugin that judges one exercise: gives checks their runs, and turns outcomes into verdicts."""

    def __init__(
        self,
        exercise: Exercise,
        run_case: Callable[[Case], Run],
        tell: Callable[[Verdict], None] | None = None,
        known: Sequence[Verdict] = (),
    ) -> None:
        """`known` are verdicts of earlier checks that these may need."""
        self.exercise, self._tell = exercise, tell
        self.runs_by_family = Runs(exercise.cases, run_case)
        self._checks = {check.id: check for check in exercise.checks}
        self._verdicts: dict[str, Verdict] = {verdict.check.id: verdict for verdict in known}
        self._titles = {check.id: check.title for check in (*(verdict.check for verdict in known), *exercise.checks)}
        self._collection_error = ""
        self.interrupted = False

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each check. A check that pytest never reached is broken: our fault or the author's."""
        message = self._collection_error or "the check was not run"
        return tuple(
            self._verdicts.get(check.id, Verdict(check=check, outcome=Outcome.BROKEN, message=message))
            for check in self.exercise.checks
        )

    @pytest.fixture(scope="session")
    def runs(self) -> Runs:
        return self.runs_by_family

    @pytest.fixture(scope="session")
    def probe(self) -> types.ModuleType:
        return load_probe(self.exercise)

    def check_of(self, item: pytest.Item) -> Check | None:
        if item.path.parent != self.exercise.folder:
            return None
        return self._checks.get(item.name.removeprefix("test_"))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._collection_error = f"checks.py could not be read: {str(report.longrepr).strip().splitlines()[-1]}"

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember Ctrl-C, which pytest keeps to itself. Its own signal for a failed collection is a subclass."""
        self.interrupted |= excinfo.type is KeyboardInterrupt

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.require_needed(item)

    def require_needed(self, item: pytest.Item) -> None:
        """Skip a check, which makes it BLOCKED, if one that it needs did not pass."""
        check = self.check_of(item)
        for needed in check.needs if check else ():
            if needed not in self._verdicts or self._verdicts[needed].outcome is not Outcome.PASSED:
                pytest.skip(f"needs: {self._titles[needed]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> _Reporting:
        report = yield
        self.note(item, call)
        return report

    def note(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Turn one phase of a test into the check's verdict."""
        check = self.check_of(item)
        if check is not None and (call.when == "call" or (call.when == "setup" and call.excinfo)):
            self._verdicts[check.id] = _verdict(check, call)
            if self._tell:
                self._tell(self._verdicts[check.id])


def _verdict(check: Check, call: pytest.CallInfo[None]) -> Verdict:
    seconds = call.duration
    if call.excinfo is None:
        return Verdict(check=check, outcome=Outcome.PASSED, seconds=seconds)
    error = call.excinfo.value
    if isinstance(error, CheckFailed):
        return Verdict(
            check=check, outcome=Outcome.FAILED, findings=error.findings, message=str(error), seconds=seconds
        )
    if isinstance(error, pytest.skip.Exception):
        outcome = Outcome.BLOCKED if call.when == "setup" else Outcome.SKIPPED
        return Verdict(check=check, outcome=outcome, message=str(error.msg), seconds=seconds)
    if isinstance(error, MISLED):
        finding = Finding(subject=ODD, actual=_fault(error))
        return Verdict(check=check, outcome=Outcome.FAILED, findings=(finding,), message=finding.sentence())
    if isinstance(error, NotRun):
        return Verdict(check=check, outcome=Outcome.BLOCKED, message=str(error), seconds=seconds)
    return Verdict(check=check, outcome=Outcome.BROKEN, message=_fault(error), seconds=seconds)


def _fault(error: BaseException) -> str:
    if isinstance(error, GraderError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}: " if trace else ""
    return f"{where}{type(error).__name__}: {error}"


def load_probe(exercise: Exercise) -> types.ModuleType:
    """The exercise's probe as a module of the judge, so that inputs are made by the same functions on both sides."""
    path = exercise.probe
    spec = importlib.util.spec_from_file_location(f"ranklings_probe_{exercise.number}", path)
    if spec is None or spec.loader is None:
        raise RunError(f"{path} could not be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def preload() -> None:
    """Import what judging needs, while the ranks' host does the same in its own process."""
    importlib.import_module("pytest_timeout")
    import torch

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # torch's hundred thousand objects are here to stay; no collection need look at them again
