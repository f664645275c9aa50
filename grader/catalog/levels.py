"""The levels of a manifest: the order in which an interviewer asks for an exercise's checks."""

from __future__ import annotations

from grader.catalog.document import Document
from grader.catalog.manifest import Manifest
from grader.catalog.nearest import offer
from grader.model import Level


def levels_of(document: Document, manifest: Manifest) -> tuple[Level, ...]:
    """The levels, none or several. A check that is in none comes after the last. Raises AuthorError for one that is
    unknown, hidden, or in two levels, and for one that needs a check of a later level."""
    found: dict[str, int] = {}
    for place, level in enumerate(manifest.levels):
        for index, name in enumerate(level.checks):
            _check_name(document, manifest, found, name, (place, index))
            found[name] = place
    for place, level in enumerate(manifest.levels):
        for index, name in enumerate(level.checks):
            _check_needs(document, manifest, found, name, (place, index))
    if len(manifest.levels) == 1:
        raise document.error(("levels",), "there is a single level", "Give it a second one, or leave levels out.")
    return tuple(Level(says=level.says, checks=tuple(level.checks)) for level in manifest.levels)


def _check_name(
    document: Document, manifest: Manifest, found: dict[str, int], name: str, where: tuple[int, int]
) -> None:
    place, index = where
    steps = ("levels", place, "checks", index)
    if name not in manifest.checks:
        fault = f"level {place + 1} asks for '{name}', which is no check"
        raise document.error(steps, fault, offer(name, manifest.checks))
    if manifest.checks[name].visibility != "visible":
        raise document.error(steps, f"level {place + 1} asks for '{name}', which students do not see", "Leave it out.")
    if name in found:
        fault = f"'{name}' is in level {found[name] + 1} and in level {place + 1}"
        raise document.error(steps, fault, "Name it in the first level that asks for it.")


def _check_needs(
    document: Document, manifest: Manifest, found: dict[str, int], name: str, where: tuple[int, int]
) -> None:
    """What a check needs has to be asked for by then; what that needs is seen where it is named itself."""
    place, index = where
    for need in manifest.checks[name].needs:
        if found.get(need, len(manifest.levels)) > place:
            stands = f"in level {found[need] + 1}" if need in found else "in no level"
            fault = f"'{name}' of level {place + 1} needs '{need}', which is {stands}"
            remedy = f"Move one of them; '{need}' has to come first."
            raise document.error(("levels", place, "checks", index), fault, remedy)
