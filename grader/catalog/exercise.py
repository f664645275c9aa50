"""A folder of exercises/ becomes a frozen Exercise, or an AuthorError that says which line to mend."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from grader.catalog.document import Document, read, read_text, validated
from grader.catalog.functions import is_dotted_name, is_parameter_list, titles, top_level_names
from grader.catalog.levels import levels_of
from grader.catalog.manifest import CaseFamily, CaseLimits, CheckEntry, Manifest, OverlayManifest
from grader.catalog.names import MANIFEST
from grader.catalog.nearest import offer
from grader.kit import gpus
from grader.model import MIB, PROBE, Case, Check, Exercise, Limits, RequiredName, file_of
from grader.model.errors import AuthorError, UsageError

STATEMENT, CHECKS = "README.md", "checks.py"
_NEEDED = (MANIFEST, PROBE, CHECKS)
_POINTS = 100


def load(name: str, root: Path) -> Exercise:
    """The exercise in the folder `name`, with one Case for each world size of each family; seeds are 0 until a run
    draws them. Raises AuthorError for anything that the design does not allow."""
    folder = root / "exercises" / name
    check_folder(folder)
    document = read(folder / MANIFEST)
    manifest = validated(document, Manifest)
    _check_cases(document, manifest)
    _check_requires(document, manifest)
    _check_relatives(document, manifest)
    return Exercise(
        name=name,
        title=manifest.title,
        summary=manifest.summary,
        folder=folder,
        file=file_of(name),
        requires=tuple(RequiredName(name=key, signature=text) for key, text in manifest.requires.items()),
        cases=tuple(case for key, family in manifest.cases.items() for case in _cases(key, family)),
        checks=_checks_of_100_points(document, manifest),
        hints=tuple(manifest.hints),
        time_box=manifest.time_box,
        imports_dynamo=manifest.imports_dynamo,
        script=manifest.script,
        preload=tuple(manifest.preload),
        stub_digest=manifest.stub or "",
        prerequisites=tuple(manifest.prerequisites),
        companions=tuple(manifest.companions),
        levels=levels_of(document, manifest),
    )


def check_folder(folder: Path) -> None:
    """Raises AuthorError unless the folder has a lawful name and all that a grade needs of the author."""
    if not re.fullmatch(r"\d\d_[a-z][a-z0-9_]*", folder.name):
        raise AuthorError(folder, "the folder's name is not two digits and a word", "Rename it, as 03_train_ddp.")
    for file in _NEEDED:
        if not (folder / file).is_file():
            raise AuthorError(folder / file, "the file is missing", f"An exercise holds {', '.join(_NEEDED)}.")


def check_nothing_else(folder: Path) -> None:
    """Raises AuthorError for a file that the design does not know, and for a missing statement or stub. A law for
    authors: a student may keep what they like beside their file, so grading does not ask. Caches and dot files do not
    count."""
    known = (STATEMENT, file_of(folder.name), *_NEEDED)
    for file in known:
        if not (folder / file).is_file():
            raise AuthorError(folder / file, "the file is missing", f"An exercise holds {', '.join(known)}.")
    for entry in sorted(folder.iterdir()):
        if entry.name not in (*known, "__pycache__") and not entry.name.startswith("."):
            remedy = f"Move it elsewhere; an exercise holds {', '.join(known)}."
            raise AuthorError(entry, "this file does not belong in an exercise's folder", remedy)


def checks_for(name: str, folder: Path, *, alone: bool) -> Path | None:
    """Where in `folder` a course's own checks for an exercise lie: in a folder of its name, or, if it is the only
    exercise, in `folder` itself. None where there are none. Raises UsageError where there is no such folder."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; --checks names one that holds further checks.")
    if (folder / name).is_dir():
        return folder / name
    return folder if alone and (folder / MANIFEST).is_file() else None


def overlay(exercise: Exercise, folder: Path) -> Exercise:
    """The exercise with a course's own cases and checks after its own. They lie in `folder` or in a folder of the
    exercise's name in it: exercise.yaml (cases, checks), checks.py and, where the exercise's own probe does not do,
    probe.py. Raises AuthorError."""
    named = folder / exercise.name
    home = named if named.is_dir() else folder
    if not home.is_dir():
        raise AuthorError(home, "there is no such folder of checks", "Name one that holds exercise.yaml and checks.py.")
    for file in (MANIFEST, CHECKS):
        if not (home / file).is_file():
            raise AuthorError(home / file, "the file is missing", f"Further checks need {MANIFEST} and {CHECKS}.")
    document = read(home / MANIFEST)
    manifest = validated(document, OverlayManifest)
    probe = home if (home / PROBE).is_file() else None
    _check_probes(document, manifest.cases, (probe or exercise.folder) / PROBE)
    _check_families_require(document, manifest.cases, [required.name for required in exercise.requires])
    _check_new(document, "cases", manifest.cases, {case.name for case in exercise.cases})
    _check_new(document, "checks", manifest.checks, {check.id for check in exercise.checks})
    checks = _checks(document, manifest.checks, [check.id for check in exercise.checks])
    seen = "visible" if all(check.visibility == "visible" for check in checks) else "hidden"
    cases = [case for key, family in manifest.cases.items() for case in _cases(key, family)]
    return replace(
        exercise,
        cases=(*exercise.cases, *(replace(case, visibility=seen, folder=probe) for case in cases)),
        checks=(*exercise.checks, *(replace(check, folder=home) for check in checks)),
    )


def _check_new(document: Document, key: str, names: Iterable[str], taken: set[str]) -> None:
    for name in names:
        if name in taken:
            raise document.error((key, name), f"the exercise has '{name}' already", "Give it another name.")


def _cases(name: str, family: CaseFamily) -> list[Case]:
    return [
        Case(
            name=name,
            world_size=world_size,
            probe=family.probe or name,
            deadline=family.deadline,
            parameters=copy.deepcopy(family.parameters),
            environment={**family.environment, **(gpus.HIDDEN if family.device == "cpu" else {})},
            process_group=family.process_group,
            hold_group=family.hold_group,
            trace=family.trace,
            opens_files=family.opens_files,
            limits=_limits(family.limits),
            crashes=family.crashes,
            gpus=family.gpus,
            dynamo=family.dynamo,
            requires=tuple(family.requires),
        )
        for world_size in family.world_sizes
    ]


def _limits(entry: CaseLimits) -> Limits:
    """The usual limits with those that the manifest sets in their place."""
    given: dict[str, Any] = {}
    for key, value in entry.model_dump(exclude_none=True).items():
        name, _, unit = key.partition("_")
        given[name] = value * MIB if unit == "mib" else value
    return Limits(**given)


def _check_cases(document: Document, manifest: Manifest) -> None:
    """At least one family, each with a function of probe.py."""
    if not manifest.cases:
        raise document.error(("cases",), "there is no case", "Add one, so that ranks are run at all.")
    _check_probes(document, manifest.cases, document.path.with_name(PROBE))


def _check_probes(document: Document, families: Mapping[str, CaseFamily], path: Path) -> None:
    functions = top_level_names(path)
    for name, family in families.items():
        probe = family.probe or name
        if probe not in functions:
            raise document.error(
                ("cases", name, "probe"), f"{PROBE} has no function '{probe}'", offer(probe, functions)
            )


def _check_requires(document: Document, manifest: Manifest) -> None:
    if manifest.script and manifest.requires:
        remedy = "Write `requires: {}`; what a script promises is seen when it is run."
        raise document.error(("requires",), "a script is not imported, so no name in it is looked for", remedy)
    for name, signature in manifest.requires.items():
        if not is_dotted_name(name):
            raise document.error(
                ("requires", name), f"'{name}' is no Python name", "Write function, Class or Class.method."
            )
        if signature is not None and not is_parameter_list(signature):
            raise document.error(
                ("requires", name),
                f"'{signature}' is no Python parameter list",
                "Write it as (rank, world_size, *, lr=0.1), in quotes if it holds a colon.",
            )
    _check_families_require(document, manifest.cases, list(manifest.requires))


def _check_families_require(document: Document, families: Mapping[str, CaseFamily], names: Sequence[str]) -> None:
    """What a family looks for is among what the exercise requires."""
    for family, entry in families.items():
        for index, name in enumerate(entry.requires):
            if name not in names:
                steps = ("cases", family, "requires", index)
                raise document.error(steps, f"'{name}' is not in the exercise's requires", offer(name, names))


def _check_relatives(document: Document, manifest: Manifest) -> None:
    """Prerequisites and companions are other folders in exercises/."""
    own = document.path.parent
    others = sorted(entry.name for entry in own.parent.iterdir() if entry.is_dir() and entry.name[:1].isalnum())
    for key in ("prerequisites", "companions"):
        for index, name in enumerate(getattr(manifest, key)):
            if name == own.name:
                raise document.error((key, index), f"{key} names the exercise itself", "Remove it.")
            if name not in others:
                raise document.error(
                    (key, index), f"{key} names '{name}', no folder in exercises/", offer(name, others)
                )


def _checks_of_100_points(document: Document, manifest: Manifest) -> tuple[Check, ...]:
    checks = _checks(document, manifest.checks, ())
    total = sum(check.points for check in checks)
    if not math.isclose(total, _POINTS):
        raise document.error(("checks",), f"the points come to {total:g}, not {_POINTS}", "Share out 100 points.")
    _check_seen_by_students(document, checks)
    _check_sections(document, checks)
    return checks


def _checks(document: Document, entries: Mapping[str, CheckEntry], earlier: Sequence[str]) -> tuple[Check, ...]:
    """The test functions of checks.py with the manifest's entries, which must be the same ones in the same order.
    `earlier` are checks of the exercise that these may need."""
    written = titles(document.path.with_name(CHECKS))
    _check_same_checks(document, entries, written)
    _check_needs(document, entries, earlier)
    return tuple(
        Check(
            id=key,
            title=written[key][0],
            points=entry.points,
            hints=tuple(entry.hints),
            needs=tuple(entry.needs),
            visibility=entry.visibility,
            why=entry.why or "",
            section=entry.section or "",
        )
        for key, entry in entries.items()
    )


def _check_sections(document: Document, checks: Sequence[Check]) -> None:
    """A section is a heading of the statement, which a student's copy may lack altogether."""
    path = document.path.with_name(STATEMENT)
    named = [check for check in checks if check.section]
    if not named or not path.is_file():
        return
    headings = [line.lstrip("#").strip() for line in read_text(path).splitlines() if line.startswith("#")]
    for check in named:
        if check.section not in headings:
            fault = f"{STATEMENT} has no heading '{check.section}'"
            raise document.error(("checks", check.id, "section"), fault, offer(check.section, headings))


def _check_seen_by_students(document: Document, checks: Sequence[Check]) -> None:
    """A check that students see does not wait for one that they do not."""
    withheld = {check.id for check in checks if check.visibility != "visible"}
    for check in checks:
        for index, need in enumerate(check.needs):
            if check.visibility == "visible" and need in withheld:
                fault = f"'{check.id}' is visible and needs '{need}', which is not"
                raise document.error(("checks", check.id, "needs", index), fault, "Let it need visible checks only.")


def _check_same_checks(
    document: Document, entries: Mapping[str, CheckEntry], written: dict[str, tuple[str, int]]
) -> None:
    for key in entries:
        if key not in written:
            raise document.error(("checks", key), f"{CHECKS} has no function 'test_{key}'", offer(key, written))
    for key, (_, line) in written.items():
        if key not in entries:
            remedy = f"Add '{key}' to the checks of {MANIFEST}, with its points."
            raise AuthorError(document.path.with_name(CHECKS), f"test_{key} is not in the manifest", remedy, line)
    places = {key: place for place, key in enumerate(written)}
    for before, after in pairwise(entries):
        if places[before] > places[after]:
            remedy = f"Put the checks into one order in both files; there test_{after} comes before test_{before}."
            raise document.error(("checks", after), f"'{after}' is not in the order of {CHECKS}", remedy)


def _check_needs(document: Document, entries: Mapping[str, CheckEntry], before: Sequence[str]) -> None:
    earlier = list(before)
    for key, entry in entries.items():
        for index, need in enumerate(entry.needs):
            if need in earlier:
                continue
            steps = ("checks", key, "needs", index)
            if need in entries:
                raise document.error(steps, f"'{key}' needs '{need}', which is no earlier check", "Move it up.")
            raise document.error(steps, f"'{key}' needs '{need}', which is no check", offer(need, earlier))
        earlier.append(key)
