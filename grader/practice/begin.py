"""Begin a course from an installed wheel: its files come from an archive in the package, the grader from the package
itself."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from grader import files
from grader.model.errors import RunError, UsageError

PACKAGE = Path(__file__).resolve().parents[1]
HANDOUT = "handout.zip"
"""What a student's copy has beside the grader, where this package came as a wheel."""


def archive(package: Path = PACKAGE) -> Path | None:
    """The archive that a wheel brings; None in a clone, and in a copy that was made from one."""
    path = package / HANDOUT
    return path if path.is_file() else None


def course(to: Path, package: Path = PACKAGE) -> Path:
    """Make a student's copy in the folder `to`, which must be new or empty. Raises UsageError, and RunError where it
    cannot be written."""
    found = archive(package)
    if found is None:
        raise UsageError("This installation brings no course. Copy the folder that you have, or install the wheel.")
    files.empty_folder(to)
    try:
        with zipfile.ZipFile(found) as opened:
            opened.extractall(to)
        shutil.copytree(package, to / "grader", ignore=shutil.ignore_patterns("__pycache__", "*.pyc", HANDOUT))
    except (OSError, zipfile.BadZipFile) as error:
        raise RunError(f"{to} could not be written whole: {error}. Remove it and try again.") from None
    return to


def stub(exercise: str, file: str, package: Path = PACKAGE) -> bytes | None:
    """An exercise's untouched stub as the wheel brings it; None without a wheel."""
    found = archive(package)
    if found is None:
        return None
    with zipfile.ZipFile(found) as opened:
        try:
            return opened.read(f"exercises/{exercise}/{file}")
        except KeyError:
            return None
