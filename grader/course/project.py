"""What of this project goes into a bundle: exercises without their secrets, the grader, an environment, a Makefile."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from grader import catalog
from grader.model import Exercise
from grader.model.errors import UsageError
from grader.practice.mend import pack
from grader.practice.reset import original

LOCK, PYPROJECT, MAKEFILE = "requirements.lock", "pyproject.toml", "Makefile"
AUTHORS, ENVIRONMENT = "## -- For authors\n", "## -- The environment\n"
"""The part of the Makefile between these is for the project's own developers."""
PLACES = (".vscode", ".devcontainer", "Dockerfile", ".dockerignore")
TOOLS = "TOOLS := $(VENV)/.tools\n"
"""What marks their environment."""
PYTEST = """\
[tool.pytest.ini_options]
python_files = ["test_*.py", "checks.py"]
addopts = ["--import-mode=importlib"]
timeout = 120
"""
TEST = """\
## -- This copy
## test       whether this copy is whole: every exercise loads, and its stub is judged
test: $(READY)
\t@$(PY) -m pytest -q tests $(ARGS)

"""


def chosen(names: Sequence[str], root: Path) -> tuple[Exercise, ...]:
    """The exercises of these names, or all, with those that they build on, in order."""
    wanted = {catalog.resolve(name, root) for name in names} or set(catalog.all_names(root))
    found: dict[str, Exercise] = {}
    while missing := sorted(wanted - found.keys()):
        for name in missing:
            found[name] = catalog.load(name, root)
            wanted |= {*found[name].prerequisites, *found[name].companions}
    return tuple(found[name] for name in sorted(found))


def copy_exercises(exercises: Sequence[Exercise], root: Path, to: Path) -> None:
    """Statements, manifests, probes, visible checks and untouched stubs; nothing else that lies beside them. Raises
    UsageError for an exercise whose own checks are not all visible."""
    for exercise in exercises:
        if any(check.visibility != "visible" for check in exercise.checks):
            raise UsageError(
                f"{exercise.folder / 'exercise.yaml'} holds checks that are not visible, and students would get them. "
                "Move them into a folder of their own for --checks."
            )
        folder = to / "exercises" / exercise.name
        folder.mkdir(parents=True)
        for name in ("README.md", "exercise.yaml", "probe.py", "checks.py"):
            shutil.copyfile(exercise.folder / name, folder / name)
        (folder / exercise.file).write_bytes(original(exercise, root))


def copy_mends(exercises: Sequence[Exercise], root: Path, to: Path) -> None:
    """The packs of mends, each where a copy without `reference/` has it."""
    for exercise in exercises:
        found = pack.place(exercise.name, root)
        if found.is_file():
            (to / pack.FOLDER).mkdir(exist_ok=True)
            shutil.copyfile(found, pack.place(exercise.name, to))


def copy_grader(root: Path, to: Path) -> None:
    """The package as it is here, but for what only its authors use."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc", "authoring", "course")
    shutil.copytree(root / "grader", to / "grader", ignore=unwanted)
    if (root / "quizzes").is_dir():
        shutil.copytree(root / "quizzes", to / "quizzes")
    for name in ("LICENSE", ".gitignore"):
        if (root / name).is_file():
            shutil.copyfile(root / name, to / name)


def copy_places(root: Path, to: Path) -> None:
    """What an editor and a container need to know of the folder that a student opens."""
    for name in PLACES:
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name)
        elif (root / name).is_file():
            shutil.copyfile(root / name, to / name)


def write_environment(root: Path, to: Path) -> None:
    """pyproject.toml without the developers' tools, the lock without theirs, and the Makefile without the authors'
    part."""
    (to / PYPROJECT).write_text(_without_tools((root / PYPROJECT).read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copyfile(root / LOCK, to / LOCK)
    (to / MAKEFILE).write_text(makefile((root / MAKEFILE).read_text(encoding="utf-8")), encoding="utf-8")


def _without_tools(text: str) -> str:
    kept = re.sub(r"\[project\.optional-dependencies\]\n.*?(?=\n\[)", "", text, flags=re.DOTALL)
    kept = kept.partition("# ------")[0].replace('readme = "README.md"\n', "")
    kept = re.sub(r"^# Why each.*\n", "", kept, flags=re.MULTILINE)
    return kept + PYTEST


def makefile(text: str) -> str:
    """The project's Makefile for a student. Raises UsageError if its parts are not where they are looked for."""
    before, found, rest = text.partition(AUTHORS)
    _, also_found, after = rest.partition(ENVIRONMENT)
    if not (found and also_found):
        raise UsageError(f"{MAKEFILE} lacks the line {AUTHORS.strip()!r} or {ENVIRONMENT.strip()!r}.")
    after = re.sub(r"## lock .*?(?=## clean)", "", after, flags=re.DOTALL)
    before = before.replace(TOOLS, "")
    made = before + TEST + ENVIRONMENT + after
    targets = re.findall(r"^([a-z]+):", made, flags=re.MULTILINE)
    return re.sub(r"^\.PHONY:.*$", f".PHONY: {' '.join(targets)}", made, flags=re.MULTILINE)
