"""The wheel's life: built, installed into an environment of its own, a course begun with it, and an exercise graded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from grader.course import bundles, wheel
from grader.model.errors import UsageError
from grader.practice import begin
from grader.ranks.sandbox import obstacle
from tests import small

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(sysconfig.get_path("purelib"))
OURS = re.compile(r"grader|ranklings|__editable__", re.IGNORECASE)
MAKES_THE_PROJECT = ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE", ".gitignore", "README.md")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small exercise as a project of its own, with this grader."""
    root = small.build(tmp_path_factory.mktemp("project"))
    for name in MAKES_THE_PROJECT:
        shutil.copyfile(ROOT / name, root / name)
    (root / "grader").symlink_to(ROOT / "grader")
    shutil.copytree(ROOT / "quizzes", root / "quizzes")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(root)]
    for words in (["init", "-q"], ["add", "exercises"], ["commit", "-q", "-m", "stubs"]):
        subprocess.run([*git, *words], check=True)
    return root


@pytest.fixture(scope="module")
def environment(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this one's packages, but for the grader, and then with the wheel. Nothing is downloaded."""
    folder = tmp_path_factory.mktemp("fresh")
    made = wheel.build(folder / "dist", root)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    there = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    for entry in HERE.iterdir():
        if entry.is_dir() and not OURS.match(entry.name) and entry.name != "__pycache__":
            shutil.copytree(entry, there / entry.name, copy_function=_linked, dirs_exist_ok=True)
        elif entry.suffix == ".py":
            _linked(entry, there / entry.name)
    words = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", made]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return folder / "env"


def _linked(source: str | Path, to: str | Path) -> None:
    try:
        os.link(source, to)
    except OSError:  # another file system
        shutil.copyfile(source, to)


def run(environment: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin" / words[0]), *words[1:]]
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MAKELEVEL")}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=clean)


def files_of(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.one_in(3)
def test_a_wheel_makes_the_students_copy_and_grades_in_it(environment, root, tmp_path):
    """`init` writes byte for byte what `bundle student` writes, and `grade` works there, sandbox and all."""
    course = tmp_path / "course"
    done = run(environment, "ranklings", "init", "course", cwd=tmp_path)
    assert done.returncode == 0 and "ranklings grade 90" in done.stdout, done.stdout + done.stderr
    assert files_of(course) == files_of(bundles.student(tmp_path / "bundled", root, ()))
    stub = course / "exercises/90_total/total.py"
    begun = run(environment, "ranklings", "grade", "90", cwd=course)
    assert begun.returncode == 1 and "Score 0/100" in begun.stdout, begun.stdout + begun.stderr
    stub.write_text(small.FILES["reference/90_total/total.py"])
    graded = run(environment, "ranklings", "grade", "90", "--sandbox", _best(), cwd=course)
    assert graded.returncode == 0 and "Score 100/100" in graded.stdout, graded.stdout + graded.stderr
    again = run(environment, "ranklings", "reset", "90", "--yes", cwd=course)
    assert again.returncode == 0 and stub.read_text() == small.FILES["exercises/90_total/total.py"], again.stderr


def _best() -> str:
    return "auto" if obstacle() else "require"


def test_a_command_that_a_copy_lacks_is_told_as_that(root, tmp_path):
    course = bundles.student(tmp_path / "course", root, ())
    words = [sys.executable, "-m", "grader", "bundle", "student", "x"]
    done = subprocess.run(words, cwd=course, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "for authors and teachers" in done.stderr


def test_a_copy_without_a_wheel_says_that_it_brings_no_course(tmp_path):
    with pytest.raises(UsageError, match="brings no course"):
        begin.course(tmp_path / "course", package=tmp_path)
    assert begin.stub("90_total", "total.py", package=tmp_path) is None


def test_a_copy_that_git_does_not_know_has_its_stubs(root, tmp_path):
    """`reset` and an interview need them, and `init` asks for no git."""
    course = bundles.student(tmp_path / "course", root, ())
    stub = course / "exercises/90_total/total.py"
    untouched = stub.read_bytes()
    stub.write_text(small.FILES["reference/90_total/total.py"])
    assert begin.stub("90_total", "total.py", package=course / "grader") == untouched
    words = [sys.executable, "-m", "grader", "reset", "90", "--yes"]
    done = subprocess.run(words, cwd=course, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and stub.read_bytes() == untouched, done.stderr


def test_a_course_is_begun_in_an_empty_folder_only(root, tmp_path):
    course = bundles.student(tmp_path / "bundled", root, ())
    wheel._pack(course, tmp_path / begin.HANDOUT)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    with pytest.raises(UsageError, match="is not empty"):
        begin.course(tmp_path / "mine", package=tmp_path)
    assert begin.stub("90_total", "total.py", package=tmp_path) == (course / "exercises/90_total/total.py").read_bytes()
    assert begin.stub("90_total", "other.py", package=tmp_path) is None
