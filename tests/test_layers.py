"""The law of imports: downwards only, and what runs, judges and renders does not know one another."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINT = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True))"


def linted(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LINT], cwd=root, capture_output=True, text=True, check=False)


def copied(root: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "grader", root / "grader", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_every_import_keeps_the_law_of_layers():
    """Every module has a place on the ladder of pyproject.toml and imports only what stands below."""
    done = linted(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_up_the_ladder_is_caught(tmp_path):
    """The law bites: a leaf that imports a renderer, a rank that imports the catalog, a module without a place."""
    root = copied(tmp_path)
    with (root / "grader/checks/compare/__init__.py").open("a") as file:
        file.write("\nimport grader.render.json\n")
    with (root / "grader/ranks/watch/quiet.py").open("a") as file:
        file.write("\nimport yaml\n")
    (root / "grader/homeless.py").write_text('"""No place."""\n')
    done = linted(root)
    assert done.returncode == 1
    upwards = "grader.checks is not allowed to import grader.render"
    heavy = "grader.ranks is not allowed to import yaml"
    assert upwards in done.stdout and heavy in done.stdout
    assert "grader.homeless" in done.stdout


def test_a_process_that_knows_too_much_is_caught(tmp_path):
    """A rank that imports our nouns or psutil, a supervisor that knows the host, a host that knows the judge."""
    root = copied(tmp_path)
    wrong = {
        "inside/contract.py": "import grader.model.run, psutil",
        "inside/limits.py": "import grader.ranks.watch.census",
        "watch/census.py": "import grader.ranks.host.protocol",
        "host/tidy.py": "import grader.ranks.diagnosis",
    }
    for name, line in wrong.items():
        with (root / "grader/ranks" / name).open("a") as file:
            file.write(f"\n{line}\n")
    done = linted(root)
    assert done.returncode == 1
    for importer, imported in (
        ("grader.ranks.inside", "grader.model"),
        ("grader.ranks.inside", "psutil"),
        ("grader.ranks.inside", "grader.ranks.watch"),
        ("grader.ranks.watch", "grader.ranks.host"),
        ("grader.ranks.host", "grader.ranks.diagnosis"),
    ):
        assert f"{importer} is not allowed to import {imported}" in done.stdout


def test_the_command_line_loads_without_what_is_heavy():
    """`python -m grader --help` imports neither torch nor pytest nor pydantic."""
    code = "import sys, grader.cli; print([m for m in ('torch', 'pytest', 'pydantic', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_kit_stands_on_torch_psutil_and_the_standard_library_alone():
    """It runs in every rank, beside student code."""
    allowed = {"torch", "psutil", "grader"} | sys.stdlib_module_names
    for path in (ROOT / "grader/kit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed, path
            assert all(name.startswith("grader.kit") for name in names if name.startswith("grader")), path
