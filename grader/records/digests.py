"""Digests of what a grade or a proof rests on: the same content gives the same digest, wherever it lies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from grader.catalog.exercise import CHECKS
from grader.catalog.names import MANIFEST
from grader.model import PROBE, Exercise

PACKAGE = Path(__file__).resolve().parents[1]
SHARED = ("kit", "checks")
"""What probes and checks import of the grader."""
SHOWN = ("render", "visibility.py", "scoring.py")
AFTERWARDS = ("authoring", "batch", "cli", "course", "doctor", "practice", "quiz", *SHOWN)
"""What shows, keeps and ships results, so that no verdict rests on it."""


def of_files(files: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 of named contents, as hexadecimal. The order counts."""
    found = hashlib.sha256()
    for name, content in files:
        for part in (name.encode(), content):
            found.update(len(part).to_bytes(8) + part)
    return found.hexdigest()


def of_exercise(exercise: Exercise) -> str:
    """What verdicts rest on beside the submission and the engine: manifests, probes and checks, and what they share."""
    return of_files([*_in_exercise(exercise), *(file for name in SHARED for file in _in_package(PACKAGE / name))])


def of_engine() -> str:
    """Every module of the grader on which a verdict may rest."""
    return of_modules(modules())


def modules() -> list[str]:
    """The names of those modules, as they lie in the package."""
    return sorted(entry.name for entry in PACKAGE.iterdir() if entry.name not in AFTERWARDS)


def of_modules(names: Iterable[str]) -> str:
    """Some modules of the grader, by their names in the package."""
    return of_files(file for name in sorted(names) for file in _in_package(PACKAGE / name))


def _in_exercise(exercise: Exercise) -> Iterable[tuple[str, bytes]]:
    for path in (folder / name for folder in exercise.check_folders for name in (MANIFEST, PROBE, CHECKS)):
        if path.is_file():
            yield path.name, path.read_bytes()


def _in_package(part: Path) -> Iterable[tuple[str, bytes]]:
    for path in sorted(part.rglob("*.py")) if part.is_dir() else [part] if part.suffix == ".py" else []:
        yield path.relative_to(PACKAGE).as_posix(), path.read_bytes()
