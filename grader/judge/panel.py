"""The pytest plugin that judges one exercise."""

from __future__ import annotations

import contextlib
import inspect
import re
import types
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.checks import Runs
from grader.checks.once import worked_out
from grader.judge.alarm import Alarm
from grader.judge.loading import load_probe
from grader.judge.verdict import charged, verdict_of
from grader.model import Case, Check, Exercise, Outcome, Run, Verdict
from grader.model.errors import MissingHardware, NotJudged

_Collecting = Generator[None, pytest.CollectReport, pytest.CollectReport]


class Panel:
    """The pytest plugin that judges one exercise: gives checks their runs, and turns outcomes into verdicts."""

    def __init__(
        self,
        exercise: Exercise,
        run_case: Callable[[Case], Run],
        tell: Callable[[Verdict], None] | None = None,
    ) -> None:
        self.exercise, self._tell = exercise, tell
        self.runs_by_family = Runs(exercise.cases, self._noting(run_case))
        self._asked_for: list[Run] = []
        """The runs that the check under way has looked at."""
        self._unjudged: list[tuple[Check, list[Run]]] = []
        """Checks that found nothing to look at, in order, with the runs in which they looked."""
        self._checks = {check.id: check for check in exercise.checks}
        self._verdicts: dict[str, Verdict] = {}
        self._unread: dict[Path, str] = {}
        """Files of checks that could not be read, and why."""
        self.interruption: BaseException | None = None
        self._alarm = Alarm()
        self._timed: tuple[pytest.Item, Any] | None = None
        """The check under way, and how its alarm is set."""

    def _noting(self, run_case: Callable[[Case], Run]) -> Callable[[Case], Run]:
        """The same, and what it gives is noted. The check that waits for it has no less time for that."""

        def noted(case: Case) -> Run:
            with self._off_the_clock():
                self._asked_for.append(run_case(case))
            return self._asked_for[-1]

        return noted

    @contextlib.contextmanager
    def _off_the_clock(self) -> Iterator[None]:
        """Without an alarm for the check under way, ours or pytest-timeout's; it is set anew afterwards."""
        item, settings = self._timed or (None, None)
        if item is None:
            yield
            return
        item.ihook.pytest_timeout_cancel_timer(item=item)
        try:
            yield
        finally:
            item.ihook.pytest_timeout_set_timer(item=item, settings=settings)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """Set our alarm in the place of pytest-timeout's, where it can be set: in the main thread."""
        self._timed = item, settings
        return self._alarm.set(settings.timeout) or None

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self) -> bool | None:
        return self._alarm.cancel() or None

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each check. One that pytest never reached is broken: our fault or the author's."""
        self._charge()
        return tuple(self._verdicts.get(check.id) or self._unreached(check) for check in self.exercise.checks)

    def _charge(self) -> None:
        """A check that is not judged leaves the blame to one that fails. Where none does, the first that is not judged
        fails itself, with what ended its runs, so that no points are gone without a reason."""
        bad = (Outcome.FAILED, Outcome.BROKEN)
        if self._unjudged and not any(verdict.outcome in bad for verdict in self._verdicts.values()):
            check, looked_at = self._unjudged[0]
            self._note(charged(self._verdicts[check.id], looked_at))

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
        self._asked_for = []
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

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Call a check so that others, which ask whether it holds, need not work that out again."""
        given = pyfuncitem.funcargs
        names = [name for name in inspect.signature(pyfuncitem.obj).parameters if name in given]
        worked_out(pyfuncitem.obj, tuple(given[name] for name in names), {})
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
        """The verdict, and pytest's report of a phase with nothing in it. pytest's own would hold a page of traceback
        and compared values, for which it parses sources; nobody reads it here, and it may go wrong."""
        self.note(item, call)
        return _report(item, call)

    def note(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Turn one phase of a test into the check's verdict."""
        check = self.check_of(item)
        if check is not None and (call.when == "call" or (call.when == "setup" and call.excinfo)):
            if call.excinfo is not None and isinstance(call.excinfo.value, NotJudged):
                self._unjudged.append((check, self._asked_for))
            self._note(verdict_of(check, call))

    def _note(self, verdict: Verdict) -> None:
        self._verdicts[verdict.check.id] = verdict
        if self._tell:
            self._tell(verdict)


def _report(item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
    """How a phase ended, as pytest needs it to go on."""
    outcome: Any = "passed" if call.excinfo is None else "failed"
    if call.excinfo is not None and isinstance(call.excinfo.value, pytest.skip.Exception):
        outcome = "skipped"
    when: Any = call.when
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, None, when)
