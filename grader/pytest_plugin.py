"""`pytest exercises/03_train_ddp`: the same checks, with pytest's own options (-k, --lf, -x, --junitxml).

A case is run when a check first asks for it, and its run is shared by all checks that judge it. Student files are never
collected or imported here; they run in ranks.
"""

from __future__ import annotations

import functools
import secrets
import types
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from grader import catalog
from grader.checks import Runs
from grader.grading.running import Runner
from grader.judge import Panel, load_probe, unusable
from grader.model import MAX_SEED, Case, Run
from grader.model.errors import CheckFailed, GraderError, MissingHardware
from grader.ranks import Session
from grader.submission import receive

_Reporting = Generator[None, pytest.TestReport, pytest.TestReport]
CHECKS = "checks.py"
MANIFEST = "exercise.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ranklings", "grading exercises on real ranks")
    group.addoption("--submission", type=Path, metavar="PATH", help="the file or folder to grade")
    group.addoption("--seed", type=int, metavar="N", help="replay a grade")
    group.addoption("--start-method", default="forkserver", choices=["forkserver", "spawn"])
    group.addoption("--sandbox", default="auto", choices=["auto", "require", "off"], help="isolation of the ranks")


class Grading:
    """The exercises that this pytest session judges, and the one warm host that serves them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stack = ExitStack()
        self._session: Session | None = None
        self._panels: dict[Path, Panel] = {}
        chosen = config.getoption("--seed")
        self.seed: int = secrets.randbelow(MAX_SEED) if chosen is None else chosen

    def close(self) -> None:
        self._stack.close()

    def panel(self, folder: Path) -> Panel | None:
        """The panel of the exercise in `folder`, or None where there is no exercise."""
        if folder not in self._panels and (folder / MANIFEST).is_file():
            self._panels[folder] = self._new_panel(folder)
        return self._panels.get(folder)

    def _new_panel(self, folder: Path) -> Panel:
        root = folder.parent.parent
        exercise = catalog.load(folder.name, root)
        submission = receive(exercise, self._config.getoption("--submission"), root)

        @functools.cache
        def runner() -> Runner:
            made = Runner(self._host(), exercise, submission, self.seed)
            return self._stack.enter_context(made.running())

        def run(case: Case) -> Run:
            imported = () if submission.problem else (runner().imported(),)
            if faults := unusable(submission, imported):
                raise CheckFailed(faults)
            return runner().wait(case)

        return Panel(exercise, run)

    def _host(self) -> Session:
        if self._session is None:
            method = self._config.getoption("--start-method")
            self._session = self._stack.enter_context(Session(method, self._config.getoption("--sandbox")))
        return self._session


_grading = pytest.StashKey[Grading]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_grading] = Grading(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (grading := config.stash.get(_grading, None)) is not None:
        grading.close()


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"ranklings: seed {config.stash[_grading].seed}, replay with --seed"


def _panel(item: pytest.Item) -> Panel | None:
    if item.path.name != CHECKS:
        return None
    try:
        return item.config.stash[_grading].panel(item.path.parent)
    except GraderError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Runs:
    """The runs of the exercise whose checks.py is judged, by case family."""
    panel = request.config.stash[_grading].panel(request.path.parent)
    if panel is None:
        raise pytest.UsageError(f"{request.path.parent} holds no {MANIFEST}")
    return panel.runs_by_family


@pytest.fixture(scope="module")
def probe(request: pytest.FixtureRequest) -> types.ModuleType:
    """The exercise's probe module, imported in the judge."""
    panel = request.config.stash[_grading].panel(request.path.parent)
    if panel is None:
        raise pytest.UsageError(f"{request.path.parent} holds no {MANIFEST}")
    return load_probe(panel.exercise)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if panel := _panel(item):
        panel.require_needed(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> _Reporting:
    report = yield
    if panel := _panel(item):
        panel.note(item, call)
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, CheckFailed):
            report.longrepr = "\n".join(finding.sentence() for finding in error.findings)
        if isinstance(error, MissingHardware):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {error}")
    return report
