"""Folders to hand out or to upload: the student's repository, Gradescope's zip, GitHub's workflows."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from grader import catalog, files
from grader.course import project
from grader.model import Exercise
from grader.model.assignment import Assignment
from grader.model.errors import UsageError
from grader.practice import begin

ASSIGNMENT, CHECKS, SETTINGS = "assignment.yaml", "checks", "autograder.json"
EXECUTABLE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a platform grades: an assignment, with the course's own checks if it has any."""

    root: Path
    assignment: Assignment

    @property
    def names(self) -> list[str]:
        return [part.exercise for part in self.assignment.parts]

    def checks(self) -> dict[str, Path]:
        """The folders of the course's own checks, by exercise."""
        folder, alone = self.assignment.checks, len(self.names) == 1
        if folder is None:
            return {}
        found = {name: catalog.checks_for(name, folder, alone=alone) for name in self.names}
        return {name: place for name, place in found.items() if place}


def course(root: Path, assignment: Path, checks: Path | None) -> Course:
    """Raises UsageError or AuthorError for an assignment or checks that cannot be graded with."""
    if not assignment.is_file():
        raise UsageError(f"There is no file {assignment}; --assignment names an assignment.yaml.")
    found = catalog.load_assignment(assignment, root)
    given = Course(root=root, assignment=replace(found, checks=checks or found.checks))
    for name, folder in given.checks().items():  # a fault in the course's checks is told now, not by a platform later
        catalog.overlaid(catalog.load(name, root), folder)
    if given.assignment.checks and not given.checks():
        raise UsageError(f"{given.assignment.checks} holds no folder for {' or '.join(given.names)}.")
    return given


def student(to: Path, root: Path, names: Sequence[str], *, mends: bool = True) -> Path:
    """The repository that a student gets: exercises and grader, no solution, no mutant, no hidden check. The packs of
    `mends` are not plain to read, and yet what mutants are made of is in them."""
    files.empty_folder(to)
    exercises = _copied(to, root, names)
    project.copy_places(root, to)
    if mends:
        project.copy_mends(exercises, root, to)
    _write(to / "README.md", "student.md.j2", exercises=exercises)
    _write(to / "tests" / "test_this_copy.py", "test_this_copy.py.j2")
    return to


def _copied(to: Path, root: Path, names: Sequence[str]) -> tuple[Exercise, ...]:
    """What every bundle has: exercises as students get them, the grader, an environment."""
    exercises = project.chosen(names, root)
    project.copy_exercises(exercises, root, to)
    project.copy_grader(root, to)
    begin.keep_stubs(to, [f"exercises/{exercise.name}/{exercise.file}" for exercise in exercises])
    project.write_environment(root, to)
    return exercises


def gradescope(to: Path, given: Course, *, minutes: float, pip_settings: Path | None) -> Path:
    """autograder.zip for Gradescope, which allows `minutes` for a submission."""
    files.empty_folder(to)
    with tempfile.TemporaryDirectory(prefix="ranklings-") as folder:
        source = Path(folder) / "source"
        _grading_side(source, given, minutes)
        _write(source / "setup.sh", "setup.sh.j2", mode=EXECUTABLE)
        _write(source / "run_autograder", "run_autograder.j2", mode=EXECUTABLE)
        if pip_settings:
            shutil.copyfile(pip_settings, source / "pip.conf")
        return _zipped(source, to / "autograder.zip")


def github(to: Path, given: Course, *, minutes: float) -> Path:
    """For GitHub: `actions/`, to be added to the students' repository, and `classroom50/`, for the classroom's
    configuration repository."""
    files.empty_folder(to)
    exercises = project.chosen(given.names, given.root)
    _write(to / "actions" / ".github" / "workflows" / "grade.yml", "grade.yml.j2", exercises=exercises, minutes=minutes)
    autograder = to / "classroom50"
    _grading_side(autograder, given, minutes)
    _write(autograder / "autograder.py", "classroom50.py.j2", mode=EXECUTABLE)
    _write(to / "README.md", "github.md.j2", course=given, exercises=exercises)
    return to


def _grading_side(to: Path, given: Course, minutes: float) -> None:
    """What a platform keeps to itself: the grader, the assignment and the course's checks."""
    to.mkdir()
    _copied(to, given.root, given.names)
    checks = given.checks()
    for name, folder in checks.items():
        shutil.copytree(folder, to / CHECKS / name, ignore=_caches())
    placed = replace(given.assignment, checks=Path(CHECKS) if checks else None)
    (to / ASSIGNMENT).write_text(catalog.dump_assignment(placed), encoding="utf-8")
    (to / SETTINGS).write_text(json.dumps({"minutes": minutes}) + "\n", encoding="utf-8")
    shutil.copytree(given.root / "grader" / "course", to / "grader" / "course", ignore=_caches())


def _caches() -> Any:
    return shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def _zipped(source: Path, archive: Path) -> Path:
    """Every file with its mode, in a fixed order."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            opened.write(path, path.relative_to(source).as_posix())
    return archive


def _write(path: Path, template: str, mode: int = 0o644, **values: Any) -> None:
    text = (resources.files("grader.course") / "templates" / template).read_text(encoding="utf-8")
    made = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.from_string(text).render(values), encoding="utf-8")
    path.chmod(mode)
