"""Runs go in, verdicts come out; pytest is the engine. Pure: the same runs give the same verdicts.

The same plugin serves `python -m grader grade 03`, where the runs are there already, and
`pytest exercises/03_train_ddp`, where a case is run when a check first asks for it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import re
import sys
import threading
import traceback
import types
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from grader.checks import Runs
from grader.model import Case, Check, Exercise, Finding, Outcome, Run, Submission, Verdict
from grader.model.errors import CheckFailed, GraderError, MissingHardware, NotJudged, NotRun, RunError, WireError
from grader.records import recording

_Reporting = Generator[None, pytest.TestReport, pytest.TestReport]
_Collecting = Generator[None, pytest.CollectReport, pytest.CollectReport]
UNUSED = ["cacheprovider", "terminal", "faulthandler", "unraisableexception", "threadexception", "debugging", "doctest"]
UNUSED += ["junitxml", "legacypath", "logging", "pastebin", "setuponly", "setupplan", "stepwise", "unittest"]
"""pytest's plugins that judging does without; two of them collect garbage thrice, four fifths of the time, and one adds
itself to each of torch's loggers, three times a check."""
USED = ["readline", "pytest_timeout", "_pytest._argcomplete", "_pytest.helpconfig", "_pytest.skipping"]
USED += ["_pytest.tracemalloc", "_pytest.warnings"]
"""What pytest would import when it first judges. Ctrl-C in the middle of an import is lost where C code imports."""
ODD = "The check could not make sense of what the code recorded"
UNUSABLE = "needs: a file that can be graded"
"""What the other checks wait for where nothing can be judged: none of them has to do with the first."""
LONGEST_FAULT = 500
"""Characters of what is said of an exception: it may quote all that a rank has recorded."""
COLLISION, ATTEMPTS = "AST constructor recursion depth mismatch", 5
"""What Python 3.11 says where another thread parsed something in the same moment (python/cpython#106905)."""
TIMEOUT = 120
"""Seconds after which a check that hangs is given up: the last safety net, never the first."""


def judge(exercise: Exercise, submission: Submission, runs: Sequence[Run]) -> tuple[Verdict, ...]:
    """The verdict of every check, in order. The first run may be the import of the file, judged before all else."""
    if faults := unusable(submission, runs):
        return _all_blocked(exercise, faults)
    by_case = {run.case.id: run for run in runs}
    return judge_live(exercise, lambda case: recording.run_for(by_case, case))


def is_odd(verdict: Verdict) -> bool:
    """Whether a check met what it was not written for. `verify` proves that right solutions never bring that about, and
    an author wants to know."""
    return verdict.outcome is Outcome.BROKEN or any(finding.subject == ODD for finding in verdict.findings)


def unusable(submission: Submission, runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Why no check can be judged: the file does not compile, cannot be imported or lacks what is asked for."""
    if submission.problem is not None:
        return (submission.problem,)
    imported = next((run for run in runs if not run.case.probe), None)
    return imported.diagnosis.findings if imported is not None and imported.diagnosis is not None else ()


def _all_blocked(exercise: Exercise, findings: tuple[Finding, ...]) -> tuple[Verdict, ...]:
    first, *rest = exercise.checks
    message = "; ".join(finding.sentence() for finding in findings)
    return (
        Verdict(check=first, outcome=Outcome.FAILED, findings=findings, message=message),
        *(Verdict(check=check, outcome=Outcome.BLOCKED, message=UNUSABLE) for check in rest),
    )


def judge_live(
    exercise: Exercise,
    run_case: Callable[[Case], Run],
    tell: Callable[[Verdict], None] | None = None,
    *,
    only: bool = False,
) -> tuple[Verdict, ...]:
    """The same while the cases still run: `run_case` waits for one, `tell` hears each verdict as it comes. With `only`
    no test is run but those of the exercise's checks, of which some were left out."""
    return judge_with(Panel(exercise, run_case, tell), [check.id for check in exercise.checks] if only else [])


_one_at_a_time = threading.RLock()
"""Held while pytest judges, since it is not made for several threads: it sets variables of the environment, hooks and
filters of warnings for the whole process. Ranks of other grades run on meanwhile."""


def judge_with(panel: Panel, only: Sequence[str] = ()) -> tuple[Verdict, ...]:
    """Run the checks of one exercise in this process, under none of the user's settings; `only` names some of them."""
    exercise = panel.exercise
    paths = [folder / "checks.py" for folder in exercise.check_folders]
    options = ["-c", os.devnull, "--rootdir", str(exercise.folder), "--noconftest", "--import-mode=importlib", "-s"]
    plugins = [*(word for name in UNUSED for word in ("-p", f"no:{name}")), "-p", "pytest_timeout"]
    patience = TIMEOUT + 3 * sum(case.deadline for case in exercise.cases)  # a check may wait for its runs
    settings = ["-o", "python_files=checks.py", "-o", f"timeout={patience}", "--continue-on-collection-errors"]
    chosen = [f"{panel.file_of(check)}::test_{check}" for check in only] or [str(path) for path in paths]
    for _ in range(ATTEMPTS):
        with _one_at_a_time:
            try:
                pytest.main(["--disable-plugin-autoload", *options, *plugins, *settings, *chosen], plugins=[panel])
            finally:
                _forget(paths)
        if not panel.forget_collision():
            break
    if panel.interruption is not None:
        raise panel.interruption
    return panel.verdicts()


def _forget(paths: Sequence[Path]) -> None:
    """Drop the imported checks, so that an edited file is read again and two folders of one name do not mix."""
    files = set(map(str, paths))
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) in files:
            del sys.modules[name]


class Panel:
    """The pytest plugin that judges one exercise: gives checks their runs, and turns outcomes into verdicts."""

    def __init__(
        self,
        exercise: Exercise,
        run_case: Callable[[Case], Run],
        tell: Callable[[Verdict], None] | None = None,
    ) -> None:
        self.exercise, self._tell = exercise, tell
        self.runs_by_family = Runs(exercise.cases, run_case)
        self._checks = {check.id: check for check in exercise.checks}
        self._verdicts: dict[str, Verdict] = {}
        self._unread: dict[Path, str] = {}
        """Files of checks that could not be read, and why."""
        self.interruption: BaseException | None = None

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each check. One that pytest never reached is broken: our fault or the author's."""
        return tuple(self._verdicts.get(check.id) or self._unreached(check) for check in self.exercise.checks)

    def forget_collision(self) -> bool:
        """Whether checks were not read for a `COLLISION` alone. Then all is to be done again."""
        if collided := any(COLLISION in told for told in self._unread.values()):
            self._unread.clear()
            self._verdicts.clear()
        return collided

    def file_of(self, check: str) -> Path:
        """The checks.py that holds a check."""
        return (self._checks[check].folder or self.exercise.folder) / "checks.py"

    def _unreached(self, check: Check) -> Verdict:
        message = self._unread.get(self.file_of(check.id), "the check was not run")
        return Verdict(check=check, outcome=Outcome.BROKEN, message=message)

    @pytest.fixture(scope="session")
    def runs(self) -> Runs:
        return self.runs_by_family

    @pytest.fixture(scope="module")
    def probe(self, request: pytest.FixtureRequest) -> types.ModuleType:
        return load_probe(self.exercise, request.path.parent)

    def check_of(self, item: pytest.Item) -> Check | None:
        check = self._checks.get(item.name.removeprefix("test_"))
        return check if check and item.path == self.file_of(check.id) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> _Collecting:
        report = yield
        if report.failed:
            told = str(report.longrepr).strip()
            line = re.findall(rf'{re.escape(collector.path.name)}(?::|", line )(\d+)', told)
            where = f"{collector.path.name}:{line[-1]}" if line else collector.path.name
            self._unread[collector.path] = f"{where} could not be read: {told.splitlines()[-1]}"
        return report

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember Ctrl-C and its like, which pytest keeps to itself; not its own signal for a failed collection."""
        if not isinstance(excinfo.value, pytest.Session.Interrupted):
            self.interruption = excinfo.value

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.require_needed(item)

    def require_needed(self, item: pytest.Item) -> None:
        """Skip a check if one that it needs did not pass, which blocks it; it lacks hardware where that one did."""
        check = self.check_of(item)
        for needed in check.needs if check else ():
            verdict = self._verdicts.get(needed)
            if verdict is not None and verdict.outcome is Outcome.SKIPPED:
                raise MissingHardware(verdict.message)
            if verdict is None or verdict.outcome is not Outcome.PASSED:
                pytest.skip(f"needs: {self._checks[needed].title}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> _Reporting:
        """The verdict is noted first: pytest's own page, which nobody reads here, shows the values that were compared
        and may go wrong over them, and the next check is to be reached all the same."""
        self.note(item, call)
        try:
            return (yield)
        except Exception:
            return _failed(item, call)

    def note(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Turn one phase of a test into the check's verdict."""
        check = self.check_of(item)
        if check is not None and (call.when == "call" or (call.when == "setup" and call.excinfo)):
            self._verdicts[check.id] = _verdict(check, call)
            if self._tell:
                self._tell(self._verdicts[check.id])


def _failed(item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
    """pytest's report of a phase that failed, with nothing in it."""
    when: Any = call.when
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", None, when)


def _verdict(check: Check, call: pytest.CallInfo[None]) -> Verdict:
    """What one check came to. Recorded data are the submission's, so whatever a check raises over them is FAILED; were
    it BROKEN, a student could bring it about. BROKEN is what we say ourselves: a GraderError, but for a value that
    may not cross."""
    findings: tuple[Finding, ...] = ()
    error = call.excinfo.value if call.excinfo else None
    message = "" if error is None else _text(error)
    match error:
        case None:
            outcome = Outcome.PASSED
        case CheckFailed():
            outcome, findings = Outcome.FAILED, error.findings
        case pytest.skip.Exception():
            outcome = Outcome.BLOCKED if call.when == "setup" else Outcome.SKIPPED
        case MissingHardware():
            outcome = Outcome.SKIPPED
        case NotRun() | NotJudged():
            outcome = Outcome.BLOCKED
        case GraderError() if not isinstance(error, WireError):
            where = "" if isinstance(error, RunError) else _line_of_checks(error)
            outcome, message = Outcome.BROKEN, f"{where}{message}"
        case _:
            outcome, findings = Outcome.FAILED, (Finding(subject=ODD, actual=_fault(error)),)
            message = findings[0].sentence()
    return Verdict(check=check, outcome=outcome, findings=findings, message=message, seconds=call.duration)


def _text(error: BaseException) -> str:
    """What an exception says, which may go wrong where it quotes what a rank has recorded."""
    try:
        return str(error.msg if isinstance(error, pytest.skip.Exception) else error)
    except Exception:
        return ""


def _fault(error: BaseException) -> str:
    """Where an exception was raised, and what it says. The line of the checks is the one that their author can mend;
    the innermost one stands for it where there is none."""
    places = _places(error)
    where = _line_of_checks(error) or (f"{places[-1]}: " if places else "")
    return f"{where}{type(error).__name__}: {_text(error)[:LONGEST_FAULT]}"


def _line_of_checks(error: BaseException) -> str:
    """`checks.py:41: ` for the innermost line of the checks that an exception went through; empty where it has none."""
    return next((f"{place}: " for place in reversed(_places(error)) if place.startswith("checks.py:")), "")


def _places(error: BaseException) -> list[str]:
    """`file:line` of each frame that an exception went through, outermost first."""
    frames = traceback.walk_tb(error.__traceback__)
    return [f"{Path(frame.f_code.co_filename).name}:{line}" for frame, line in frames]


def load_probe(exercise: Exercise, folder: Path | None = None) -> types.ModuleType:
    """A probe as a module of the judge, so that both sides make inputs by the same functions: that of the exercise, or
    the one beside the checks in `folder`."""
    own = exercise.folder if folder is None else folder
    path = own / "probe.py" if (own / "probe.py").is_file() else exercise.probe
    spec = importlib.util.spec_from_file_location(f"ranklings_probe_{exercise.number}", path)
    if spec is None or spec.loader is None:
        raise RunError(f"{path} could not be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RunError(f"{path} could not be imported: {_fault(error)}") from error
    return module


def preload() -> None:
    """Import what judging needs, while the ranks' host does so in its own process. One thread is enough for small
    tensors. Two spin while they wait for one another, which makes judging several times dearer on two cores."""
    for name in USED:
        with contextlib.suppress(ImportError):  # another pytest may have other modules, another Python no readline
            importlib.import_module(name)
    if "torch" not in sys.modules:  # what else there is where it is imported already may be garbage later
        gc.disable()
        importlib.import_module("torch")
        gc.freeze()  # torch's hundred thousand objects are here to stay; no collection need look at them again
        gc.enable()
    sys.modules["torch"].set_num_threads(1)
