"""What experiments with exercises share: which ones, their solutions, a warm session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from grader import catalog
from grader.grading.flow import preload
from grader.model import Exercise, Submission
from grader.model.errors import AuthorError
from grader.ranks import Session


def named(words: Sequence[str], root: Path) -> list[str]:
    """The exercises that the words of a command line name, or all where there is none."""
    return [catalog.resolve(word, root) for word in words] or list(catalog.all_names(root))


def solution_of(exercise: Exercise, root: Path) -> Path:
    """The reference solution. Raises AuthorError where there is none."""
    path = catalog.reference(exercise.name, root) / exercise.file
    if not path.is_file():
        raise AuthorError(path, "the solution is missing", "Write it; mutants are edits of it.")
    return path


def handed_in(path: Path) -> Submission:
    """A file as a student would hand it in, alone."""
    return Submission.of(path, path.read_bytes())


@contextmanager
def warm_session(start_method: str = "forkserver", sandbox: str = "auto") -> Iterator[Session]:
    """A session, and all that judging needs imported in this process meanwhile."""
    with Session(start_method, sandbox) as session:
        preload()
        yield session
