"""A wheel: the package as a student's copy has it, with the rest of that copy in one archive, which `init` unpacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from grader import files
from grader.course import bundles, project
from grader.model.errors import RunError
from grader.practice.begin import HANDOUT

TOLD = 300


def build(to: Path, root: Path) -> Path:
    """The wheel of this project with all its exercises, written to the folder `to`. Raises RunError where flit_core
    cannot build it."""
    files.empty_folder(to)
    with tempfile.TemporaryDirectory(prefix="ranklings-") as folder:
        source = Path(folder) / "source"
        course = bundles.student(Path(folder) / "course", root, ())
        source.mkdir()
        (course / "grader").rename(source / "grader")
        _pack(course, source / "grader" / HANDOUT)
        for name in (project.PYPROJECT, "README.md", "LICENSE"):
            shutil.copyfile(root / name, source / name)
        return _built(source, to)


def _pack(folder: Path, archive: Path) -> None:
    """Every file, in a fixed order and without its time, so that equal courses give equal archives."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            opened.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def _built(source: Path, to: Path) -> Path:
    command = [sys.executable, "-m", "flit_core.wheel", "--outdir", str(to.resolve()), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"flit_core could not build the wheel: {done.stderr.strip()[-TOLD:]}")
    (made,) = to.glob("*.whl")
    return made
