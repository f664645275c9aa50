"""The packages that ranks need and that lie elsewhere than in Python's own folders: in a folder that PYTHONPATH or a
.pth file names, in the user's site, behind an editable install or a link.

Only what these packages need is found, each by its own folder or file. Of a folder `site-packages` or `dist-packages`,
which holds packages and nothing else, the whole is shown; of any other, such as a home folder that PYTHONPATH names,
the packages alone.
"""

from __future__ import annotations

import functools
import os
import re
import site
import sys
from collections.abc import Iterator, Sequence
from importlib import machinery, metadata, util
from pathlib import Path

ROOTS = {
    "torch": "torch",
    "numpy": "numpy",
    "psutil": "psutil",
    "typing_extensions": "typing_extensions",
    "matplotlib": "matplotlib",
    "scikit-learn": "sklearn",
}
"""What the host, the probes and the exercises import beside the standard library: distributions and their modules.
What these require in turn is found by their metadata."""
_FOLDERS = ("site-packages", "dist-packages")


def elsewhere(known: Sequence[Path], project: Path | None) -> list[Path]:
    """Folders and files of needed packages that lie outside `known`, as they are named and as they really lie.
    `project` is what this package lies in, if that is on the module path: it is never looked into."""
    return list(_elsewhere(tuple(known), project, tuple(sys.path)))


def present() -> list[str]:
    """The modules of ROOTS that this process would find, none of which is imported for it."""
    return [module for module in ROOTS.values() if _origin(module)]


def variables() -> dict[str, str]:
    """What a host has to be told to find the packages that this process finds: it has another HOME, and no PYTHONPATH
    but this."""
    told: dict[str, str] = {}
    named = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if on_path := [entry for entry in named if entry in sys.path and _holds(entry)]:
        told["PYTHONPATH"] = os.pathsep.join(on_path)
    if site.ENABLE_USER_SITE and _holds(site.getusersitepackages()):
        told["PYTHONUSERBASE"] = site.getuserbase()
    return told


def _holds(folder: str) -> bool:
    """Whether a needed package is found in a folder of the module path."""
    return os.path.isdir(folder) and any(str(at) == folder for at, _ in _needed(tuple(sys.path)))


@functools.lru_cache(maxsize=8)
def _elsewhere(known: tuple[Path, ...], project: Path | None, path: tuple[str, ...]) -> tuple[Path, ...]:
    covering = (*known, *([project] if project else []))
    if not _outside(path, covering) and not _linked(known):
        return ()  # as it nearly always is, and reading what packages require takes a while
    found: dict[Path, None] = {}
    for folder, name in _needed(path):
        for place in _places(folder / name):
            if not _covered(place, (*known, *found)) and not Path.home().is_relative_to(place):
                found[place.parent if place.parent.name in _FOLDERS else place] = None
    return tuple(found)


def _outside(path: Sequence[str], known: Sequence[Path]) -> bool:
    """Whether packages may come from a folder, beside the current one, that is not known, or by the finder of an
    editable install."""
    here = os.getcwd()
    folders = [Path(entry) for entry in path if entry and entry != here and os.path.isdir(entry)]
    editable = any("__editable__" in getattr(finder, "__module__", "") for finder in sys.meta_path)
    return editable or any(not _covered(folder, known) for folder in folders)


def _linked(known: Sequence[Path]) -> bool:
    """Whether a package is made of links that lead elsewhere."""
    files = [os.path.realpath(origin) for module in ROOTS.values() if (origin := _origin(module))]
    return any(not _covered(Path(file), known) for file in files)


def _covered(path: Path, known: Sequence[Path]) -> bool:
    return any(path.is_relative_to(outer) for outer in (*known, Path("/usr")))


@functools.lru_cache(maxsize=8)
def _needed(path: tuple[str, ...]) -> tuple[tuple[Path, str], ...]:
    """The entries of folders that make up the needed packages: a folder, and what to show of it."""
    found: dict[tuple[Path, str], None] = {}
    modules = set(ROOTS.values())
    for distribution in _required():
        folder = Path(str(distribution.locate_file("")))
        for name in _recorded(distribution):
            if (folder / name).exists():
                found[folder, name] = None
        modules.update(_modules(distribution))
    for module in sorted(modules):
        if origin := _origin(module):
            file = Path(origin)
            entry = file.parent if file.name == "__init__.py" else file
            found[entry.parent, entry.name] = None
    return tuple(found)


def _required() -> list[metadata.Distribution]:
    """The distributions of ROOTS, and all that they require and that is installed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        try:
            distribution = found.get(name) or metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found[name] = distribution
            waiting += [_name(line) for line in distribution.requires or () if "extra ==" not in line]
    return list(found.values())


def _name(requirement: str) -> str:
    """Of a requirement such as `jinja2>=3.1; python_version > "3"` the name."""
    return re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]


def _recorded(distribution: metadata.Distribution) -> set[str]:
    """What was installed beside one another for a distribution, such as `numpy` and `numpy.libs`."""
    record = distribution.read_text("RECORD") or ""
    names = {line.split(",")[0].split("/")[0] for line in record.splitlines()}
    return names - {"", "..", "__pycache__"}


def _modules(distribution: metadata.Distribution) -> set[str]:
    """The modules that a distribution brings, also where an editable install has recorded none of them."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    return {name for name in listed if name.isidentifier()} or {distribution.metadata["Name"].replace("-", "_")}


def _origin(module: str) -> str | None:
    """The file of a module that is not imported for it. None where there is none, or where it belongs to Python."""
    try:
        found = util.find_spec(module)
    except (ImportError, ValueError):
        return None
    from_file = found and isinstance(found.loader, machinery.SourceFileLoader | machinery.ExtensionFileLoader)
    return found.origin if found and from_file else None


def _places(entry: Path) -> Iterator[Path]:
    """An entry as it is named, and where it, or its files, lead by links."""
    yield entry
    real = Path(os.path.realpath(entry))
    if real != entry:
        yield real
    if real.is_dir():
        file = next((item for item in sorted(real.iterdir()) if item.is_symlink()), None)
        if file and file.resolve().is_file():
            yield file.resolve().parent
