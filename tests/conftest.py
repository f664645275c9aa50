"""What tests share: one warm host for all tests that need real ranks, and an exercise around any student source."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.model import Case, Exercise, RequiredName, Run, Submission
from grader.ranks import Session

STUDENTS = Path(__file__).parent / "students"
RunIt = Callable[..., Run]


@pytest.fixture(scope="session")
def warm() -> Iterator[Session]:
    """A host that all tests share, so that torch is imported once."""
    with Session() as session:
        yield session


@pytest.fixture
def run_on_ranks(warm: Session, tmp_path: Path) -> RunIt:
    """run_on_ranks("behaviour", world_size=2, …) runs one function of students/behaviours.py, or of `source`."""
    shutil.copyfile(STUDENTS / "probe.py", tmp_path / "probe.py")

    def run(behaviour: str, *, source: str | None = None, session: Session | None = None, **how: object) -> Run:
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
        )
        settings = {"world_size": 2, "process_group": True, "deadline": 30.0, **how}
        case = Case(name=behaviour, probe=behaviour, **settings)  # type: ignore[arg-type]
        submission = Submission(path=Path("behaviours.py"), source=text.encode(), digest="")
        return (session or warm).run(exercise, submission, case)

    return run
