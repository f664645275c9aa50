"""`new`: the files of a new exercise, small and alive, so that `verify` proves it at once and an author changes it from
there. templates/ holds them as they are written, with the exercise's name left open."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jinja2

from grader import catalog
from grader.model import file_of
from grader.model.errors import UsageError

TEMPLATES = Path(__file__).parent / "templates"
OWN = ("probe", "checks", "stub", "variants")
"""Names that other files of an exercise have."""


def create(name: str, root: Path) -> tuple[Path, Path]:
    """Write exercises/NAME and reference/NAME, both or neither, and return them. Raises UsageError for a name that
    cannot be, and where there is something already."""
    check_name(name, root)
    targets = root / "exercises" / name, catalog.reference(name, root)
    try:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as folder:
            _write(Path(folder), name, root)
            _move((Path(folder) / "exercise", Path(folder) / "reference"), targets)
    except OSError as error:
        raise UsageError(f"{name} could not be written below {root}: {error.strerror}. Nothing was changed.") from None
    return targets


def check_name(name: str, root: Path) -> None:
    """Raises UsageError with the first reason why no exercise can be called `name`."""
    for fault in _faults(name, root):
        raise UsageError(fault)


def _faults(name: str, root: Path) -> Iterator[str]:
    number, _, slug = name.partition("_")
    if not re.fullmatch(r"\d\d_[a-z][a-z0-9_]*", name):
        yield f"{name!r} cannot be an exercise's name: write two digits and words of small letters, as 22_all_reduce."
    if keyword.iskeyword(slug) or keyword.issoftkeyword(slug):
        yield f"{slug!r} is a word of Python's own, so no file and no function can be called that. Choose another."
    if slug in OWN:
        yield f"{file_of(name)} is the name of another file in an exercise's folder. Choose another."
    for taken in _taken(root):
        if taken.partition("_")[0] == number:
            yield f"The number {number} is taken by {taken}. The next that is free is {_free(root)}."
        if taken.partition("_")[2] == slug:
            yield f"{taken} has that name already: `{slug}` alone would mean both. Choose another."
    if _hides_a_module(slug):
        yield f"{slug}.py would hide the module {slug} that Python or a package has. Choose another name."


def _taken(root: Path) -> list[str]:
    """Names of all folders of exercises, whatever they hold: nothing is written over."""
    folders = (
        entry for part in ("exercises", "reference") if (root / part).is_dir() for entry in (root / part).iterdir()
    )
    return sorted({folder.name for folder in folders if folder.name[:1].isdigit()})


def _free(root: Path) -> str:
    numbers = {name.partition("_")[0] for name in _taken(root)}
    return next((number for number in map("{:02d}".format, range(1, 100)) if number not in numbers), "none")


def _hides_a_module(slug: str) -> bool:
    try:
        return importlib.util.find_spec(slug) is not None
    except (ImportError, ValueError):
        return False


def _write(folder: Path, name: str, root: Path) -> None:
    """Both parts below `folder`."""
    number, _, slug = name.partition("_")
    earlier = [other for other in catalog.all_names(root) if other < name]
    facts = {
        "name": name,
        "number": number,
        "slug": slug,
        "title": slug.replace("_", " ").capitalize(),
        "prerequisites": ", ".join(earlier[-1:]),
    }
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    for template in environment.list_templates():
        path = folder / template.removesuffix(".jinja")
        if path.stem in ("stub", "solution"):
            path = path.with_name(file_of(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(environment.get_template(template).render(facts), encoding="utf-8")


def _move(sources: tuple[Path, Path], targets: tuple[Path, Path]) -> None:
    """Put both in their places; if the second cannot be, the first is taken away again."""
    done: list[Path] = []
    try:
        for source, target in zip(sources, targets, strict=True):
            target.parent.mkdir(exist_ok=True)
            source.rename(target)
            done.append(target)
    except OSError:
        for target in done:
            shutil.rmtree(target, ignore_errors=True)
        raise
