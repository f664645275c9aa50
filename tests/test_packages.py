"""Packages that lie outside of the environment are seen by the ranks, and nothing that lies beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from grader.model.errors import RunError
from grader.ranks import Session, coming_up, packages, sandbox
from tests import small

ROOT = Path(__file__).resolve().parent.parent
REAL = Path(sysconfig.get_path("purelib"))
"""Where this environment has its packages."""
inside_only = pytest.mark.skipif(sandbox.obstacle() is not None, reason=str(sandbox.obstacle()))
Environment = tuple[Path, Mapping[str, str]]
LOOK = """if True:
    import json, sys
    from grader.ranks import Session, sandbox
    with Session(sandbox=sys.argv[1]) as session:
        session.await_ready()
        print(json.dumps([session.missing, session.level, list(map(str, sandbox.shown()))]))
"""


def made(folder: Path, *options: str) -> tuple[Path, Path]:
    """An empty environment: its Python, and where its packages go."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *options, folder], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
    return python, Path(done.stdout.strip())


def without(folder: Path, name: str) -> Path:
    """A folder of links to all that this environment has, but for one package."""
    folder.mkdir(parents=True)
    for entry in REAL.iterdir():
        if not entry.name.startswith((f"{name}-", "grader.pth")) and entry.name != name:
            (folder / entry.name).symlink_to(entry)
    return folder


def psutil_in(folder: Path) -> Path:
    """psutil itself, copied, with a hand-in and a key beside it."""
    shutil.copytree(Path(psutil.__file__).parent, folder / "psutil")
    (folder / "hand_ins").mkdir()
    (folder / "hand_ins" / "ada.py").write_text("total = 1\n")
    (folder / "key").write_text("s3cret")
    return folder


def by_pth(tmp_path: Path) -> Environment:
    """All packages in another environment, which a .pth file names."""
    python, own = made(tmp_path / "env")
    (own / "theirs.pth").write_text(f"{ROOT}\n{REAL}\n")
    return python, {}


def by_pythonpath(tmp_path: Path) -> Environment:
    """One package in a home folder that PYTHONPATH names."""
    python, own = made(tmp_path / "env")
    (own / "theirs.pth").write_text(f"{ROOT}\n{without(tmp_path / 'lib', 'psutil')}\n")
    home = psutil_in(tmp_path / "home")
    return python, {"PYTHONPATH": str(home), "HOME": str(home)}


def by_user_site(tmp_path: Path) -> Environment:
    """All packages in the user's site, of which a .pth file there names one folder more."""
    python, own = made(tmp_path / "env", "--system-site-packages")
    (own / "theirs.pth").write_text(f"{ROOT}\n")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    user = without(tmp_path / "home" / ".local" / "lib" / version / "site-packages", "psutil")
    (user / "more.pth").write_text(f"{psutil_in(tmp_path / 'src')}\n")
    return python, {"HOME": str(tmp_path / "home")}


def by_editable(tmp_path: Path) -> Environment:
    """One package by an editable install's finder, as setuptools writes it."""
    python, own = made(tmp_path / "env")
    (own / "theirs.pth").write_text(f"{ROOT}\n{without(tmp_path / 'lib', 'psutil')}\n")
    source = psutil_in(tmp_path / "src")
    (own / "__editable___psutil_finder.py").write_text(
        "import sys\nfrom importlib.util import spec_from_file_location\n\n\n"
        "class _EditableFinder:\n    @classmethod\n    def find_spec(cls, name, path=None, target=None):\n"
        f"        return spec_from_file_location(name, {str(source / 'psutil' / '__init__.py')!r})"
        " if name == 'psutil' else None\n\n\ndef install():\n    sys.meta_path.append(_EditableFinder)\n"
    )
    (own / "__editable__.psutil.pth").write_text(
        "import __editable___psutil_finder; __editable___psutil_finder.install()\n"
    )
    return python, {}


def by_links(tmp_path: Path) -> Environment:
    """Packages whose files are links into a cache, as uv and conda can make them."""
    python, own = made(tmp_path / "env")
    (own / "theirs.pth").write_text(f"{ROOT}\n{without(tmp_path / 'lib', 'psutil')}\n")
    cache = psutil_in(tmp_path / "cache")
    for folder, _, names in os.walk(cache / "psutil"):
        there = own / Path(folder).relative_to(cache)
        there.mkdir()
        for name in names:
            (there / name).symlink_to(Path(folder) / name)
    return python, {}


LAYOUTS = (by_pth, by_pythonpath, by_user_site, by_editable, by_links)


def looked(python: Path, more: Mapping[str, str], choice: str) -> tuple[list[str], str, list[str]]:
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONUSERBASE")}
    words = [str(python), "-c", LOOK, choice]
    done = subprocess.run(words, env={**variables, **more}, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


@pytest.mark.one_in(2)
@inside_only
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_ranks_find_what_the_judge_finds(layout: Callable[[Path], Environment], tmp_path: Path) -> None:
    """The host comes up inside bubblewrap, has all that exercises import, and proves that nothing else is seen; of a
    folder that holds more than packages the package alone is shown."""
    python, more = layout(tmp_path)
    missing, level, shown = looked(python, more, "require")
    assert missing == [] and level == "bubblewrap"
    for beside in (tmp_path / "home", tmp_path / "src", tmp_path / "cache", ROOT, ROOT / "reference", Path.home()):
        assert not any(beside == Path(path) or beside.is_relative_to(path) for path in shown), shown
    assert not [path for path in shown if "hand_ins" in path or path.endswith("key")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", [by_pythonpath, by_user_site], ids=lambda layout: layout.__name__)
def test_ranks_find_it_without_bubblewrap_too(layout: Callable[[Path], Environment], tmp_path: Path) -> None:
    """Where HOME and PYTHONPATH are the ranks' own as well."""
    missing, level, _ = looked(*layout(tmp_path), "off")
    assert missing == [] and level == "limits"


@inside_only
@pytest.mark.one_in(3)
def test_an_exercise_is_graded_with_packages_from_elsewhere(tmp_path: Path) -> None:
    """From the command to the verdict; doctor says that the ranks can start."""
    python, more = by_pythonpath(tmp_path)
    root = small.build(tmp_path / "small")
    (root / "exercises/90_total/total.py").write_text(small.FILES["reference/90_total/total.py"])
    variables = {**os.environ, **more, "RANKLINGS_DATA": "off"}
    for words in (["grade", "90", "--sandbox", "require", "--plain"], ["doctor"]):
        done = subprocess.run(
            [str(python), "-m", "grader", *words], cwd=root, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_ordinary_environment_takes_no_look_at_what_packages_require(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cold grade pays nothing for layouts that it has not."""
    packages._elsewhere.cache_clear()

    def refuse(path: object) -> object:
        raise AssertionError("looked")

    monkeypatch.setattr(packages, "_needed", refuse)
    assert packages.elsewhere([Path(sys.prefix), Path(sys.base_prefix)], ROOT) == [] and packages.variables() == {}


def test_a_folder_that_holds_the_home_folder_is_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where a module is named as the folder above it."""
    home = tmp_path / "psutil" / "me"
    home.mkdir(parents=True)
    (tmp_path / "psutil" / "__init__.py").write_text("")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert tmp_path / "psutil" not in packages.elsewhere([Path(sys.prefix), Path(sys.base_prefix)], ROOT)


def test_a_host_that_finds_no_torch_says_what_to_do(tmp_path: Path) -> None:
    said = coming_up.no_start("Traceback\nModuleNotFoundError: No module named 'torch'\n", sandbox.BUBBLEWRAP)
    assert "No module named 'torch'" in said and "--sandbox off" in said
    assert "--sandbox off" not in coming_up.no_start("ModuleNotFoundError: No module named 'torch'", sandbox.LIMITS)
    assert "said nothing" in coming_up.no_start("", sandbox.LIMITS)


def test_doctor_tells_of_ranks_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """And of modules that are missing where ranks are."""
    from grader.doctor import Mark, software

    def refuse(self: Session) -> None:
        raise RunError("No module named 'torch'")

    monkeypatch.setattr(Session, "start", lambda self: None)
    monkeypatch.setattr(Session, "await_ready", refuse)
    assert software.ranks().mark is Mark.NO and "torch" in software.ranks().meaning
    monkeypatch.setattr(Session, "await_ready", lambda self: setattr(self, "missing", ("sklearn",)))
    assert software.ranks().mark is Mark.NO and software.ranks().found == "without sklearn"
