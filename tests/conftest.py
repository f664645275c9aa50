"""What tests share: one warm host for all tests that need real ranks, and an exercise around any student source."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from grader.judge import preload
from grader.model import Case, Exercise, RequiredName, Run, Submission
from grader.ranks import Live, Session
from grader.ranks.sandbox import obstacle
from grader.records import digests
from tests import sampling
from tests.solutions import Solutions

STUDENTS = Path(__file__).parent / "students"
RunIt = Callable[..., Run]


CHOICE = {"bubblewrap": "require", "limits": "off"}
"""What makes a session of each level."""
LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))),
    "limits",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run every test, those too of which one in some is drawn")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("whatever the machine's load", deadline=None)
    settings.load_profile("whatever the machine's load")
    config.addinivalue_line("markers", sampling.LINE)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not drawn, unless all are asked for, or some by name."""
    named = config.option.keyword or any("::" in word for word in config.invocation_params.args)
    if config.option.whole or named:
        return
    tree, kept, left_out = digests.of_engine(), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        mark = item.get_closest_marker(sampling.MARKER)
        tried = mark is None or sampling.is_drawn(item.nodeid, mark.args[0], tree)
        (kept if tried else left_out).append(item)
    items[:] = kept
    if left_out:
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C and `nohup` a hang-up, and so would all graders that
    tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def judged_as_by_a_grade() -> None:
    """What tests judge in their own process is judged with one thread, as everywhere."""
    preload()


@pytest.fixture(scope="session", autouse=True)
def own_progress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nothing that a test does is kept in the progress of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("progress")
        patch.setenv("RANKLINGS_DATA", str(folder))
        yield folder


@pytest.fixture(scope="session")
def warm_levels() -> Iterator[dict[str, Session]]:
    """A host a level that all tests share, so that torch is imported once in each."""
    sessions: dict[str, Session] = {}
    with ExitStack() as stack:
        for level, choice in CHOICE.items():
            if level == "limits" or obstacle() is None:
                sessions[level] = stack.enter_context(Session(sandbox=choice))
        yield sessions


@pytest.fixture
def level() -> str:
    """The level of `run_on_ranks`: the best that there is, unless a test asks for each."""
    return "limits" if obstacle() else "bubblewrap"


@pytest.fixture(scope="session")
def warm(warm_levels: dict[str, Session]) -> Session:
    """The host of the best level that there is."""
    return next(iter(warm_levels.values()))


@pytest.fixture(scope="session")
def solved(warm: Session, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Solutions:
    """The solutions' runs, which all tests share, those too that run in other processes."""
    folder = tmp_path_factory.getbasetemp()
    return Solutions((folder if worker_id == "master" else folder.parent) / "solutions", warm)


@pytest.fixture
def run_on_ranks(warm_levels: dict[str, Session], level: str, tmp_path: Path) -> RunIt:
    """run_on_ranks("behaviour", world_size=2, …) runs one function of students/behaviours.py, or of `source`."""
    shutil.copyfile(STUDENTS / "probe.py", tmp_path / "probe.py")

    def run(
        behaviour: str,
        *,
        source: str | None = None,
        session: Session | None = None,
        live: Live | None = None,
        preload: tuple[str, ...] = (),
        handed_in: str = "behaviours.py",
        **how: object,
    ) -> Run:
        text = (STUDENTS / "behaviours.py").read_text() if source is None else source
        exercise = Exercise(
            name="90_behaviours",
            title="",
            summary="",
            folder=tmp_path,
            file="behaviours.py",
            requires=(RequiredName(name="wanted", signature="(rank, *, lr=0.1)"),),
            cases=(),
            checks=(),
            preload=preload,
        )
        settings = {"world_size": 2, "process_group": True, "deadline": 30.0, **how}
        case = Case(name=behaviour, probe=behaviour, **settings)  # type: ignore[arg-type]
        submission = Submission(path=Path(handed_in), source=text.encode(), digest="")
        return (session or warm_levels[level]).run(exercise, submission, case, live)

    return run
