"""Begin a course from an installed wheel: its files come from an archive in the package, the grader from the package
itself."""

from __future__ import annotations

import contextlib
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

from grader import files
from grader.model.errors import RunError, UsageError

PACKAGE = Path(__file__).resolve().parents[1]
HANDOUT = "handout.zip"
"""What a student's copy has beside the grader, where this package came as a wheel."""
STUBS = "practice/stubs.zip"
"""The untouched stubs in a student's copy, which git need not know."""


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
    """An exercise's untouched stub as the wheel or the copy brings it; None where neither does."""
    for found in (package / HANDOUT, package / STUBS):
        with contextlib.suppress(FileNotFoundError, KeyError), zipfile.ZipFile(found) as opened:
            return opened.read(f"exercises/{exercise}/{file}")
    return None


def keep_stubs(root: Path, names: Iterable[str]) -> None:
    """Let a copy's own grader bring its stubs: files relative to `root`, each without its time, so that equal copies
    are equal."""
    with zipfile.ZipFile(root / "grader" / STUBS, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in names:
            opened.writestr(zipfile.ZipInfo(name), (root / name).read_bytes(), zipfile.ZIP_DEFLATED)
