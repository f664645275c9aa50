"""What a grade rests on beside the hand-in, in parts, so that a change tells what has to be done again.

What the runs rest on (`RUN_PARTS`) makes a run's key; all parts make a unit's digest. Where only the others changed,
the recorded runs are judged again.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader import catalog
from grader.model import PROBE, Exercise
from grader.records import digests
from grader.records.structure import unstructure

RUN_PARTS = {
    "probe": "its probe.py changed",
    "cases": "its cases, their limits or what it requires changed",
    "kit": "the kit that probes share changed",
    "engine": "the grader's own engine changed",
    "versions": "another Python, torch or package that runs use",
}
"""What runs rest on, with what it means that one of them is another."""
JUDGE_PARTS = {
    "checks": "its checks.py changed",
    "texts": "its points, titles, hints or visibility changed",
    "judging": "what checks share changed",
}
"""What verdicts rest on beside the runs."""
MEANINGS = {**RUN_PARTS, **JUDGE_PARTS, "seed": "another seed", "files": "another file was handed in"}
RUN_PACKAGES = ("torch", "numpy", "scikit-learn", "matplotlib")
JUDGING = ("checks", "judge", "wording")
"""Modules of the grader that look at runs and are in no process that makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """An exercise as a batch grades it. `checks` is the folder of a course's own checks for it, or None; `parts` has a
    digest for each of RUN_PARTS and JUDGE_PARTS."""

    exercise: Exercise
    checks: Path | None
    parts: Mapping[str, str]

    def run_key(self, files: str, seed: int) -> str:
        """What the runs of a hand-in are known by."""
        return hashlib.sha256((self._run_part(seed) + files).encode()).hexdigest()

    def unit(self, run_key: str) -> str:
        """What a grade of those runs is known by."""
        return hashlib.sha256((self._judge_part() + run_key).encode()).hexdigest()

    def _run_part(self, seed: int) -> str:
        """A digest of all but the files, of fixed length."""
        return _mixed_once((self.exercise.name, str(seed), *(self.parts[name] for name in RUN_PARTS)))

    def _judge_part(self) -> str:
        return _mixed_once(tuple(self.parts[name] for name in JUDGE_PARTS))


def basis_of(name: str, root: Path, checks: Path | None) -> Basis:
    """The exercise of that name, with a course's own checks. Raises AuthorError where the exercise is wrong, and
    UsageError where those checks are: they are of whoever calls."""
    exercise = catalog.load(name, root)
    if checks is not None:
        exercise = catalog.overlaid(exercise, checks)
    return Basis(exercise=exercise, checks=checks, parts=_parts(exercise))


def versions() -> dict[str, str]:
    """The versions that are told beside marks."""
    found = {name: importlib.metadata.version(name) for name in (*RUN_PACKAGES, "pytest") if _there(name)}
    return {"python": ".".join(map(str, sys.version_info[:3])), **found, "engine": digests.of_engine()[:12]}


def _parts(exercise: Exercise) -> dict[str, str]:
    engine = digests.modules()
    running = [name for name in engine if name not in (*JUDGING, "kit")]
    packages = {name: fact for name, fact in versions().items() if name not in ("engine", "pytest")}
    return {
        "probe": digests.of_files(_found(exercise, PROBE)),
        "cases": _mixed(_cases(exercise)),
        "kit": digests.of_modules(["kit"]),
        "engine": digests.of_modules(running),
        "versions": _mixed([f"{name} {fact}" for name, fact in packages.items()]),
        "checks": digests.of_files(_found(exercise, "checks.py")),
        "texts": _mixed([exercise.title, exercise.summary, json.dumps(_told(exercise))]),
        "judging": digests.of_modules(JUDGING),
    }


def _told(exercise: Exercise) -> list[Any]:
    """What a manifest says of checks."""
    return [unstructure(replace(check, folder=None)) for check in exercise.checks]


def _cases(exercise: Exercise) -> Iterable[str]:
    """All that a manifest says which ranks are told."""
    for case in exercise.cases:
        told = unstructure(replace(case, folder=None, visibility=""))
        yield json.dumps(told | {"secret": ""}, default=repr)
    facts = (exercise.requires, exercise.preload, exercise.companions, exercise.imports_dynamo, exercise.script)
    yield repr(facts)


def _found(exercise: Exercise, name: str) -> list[tuple[str, bytes]]:
    folders = dict.fromkeys([*exercise.check_folders, *(case.folder or exercise.folder for case in exercise.cases)])
    return [(name, (folder / name).read_bytes()) for folder in folders if (folder / name).is_file()]


def _mixed(texts: Iterable[str]) -> str:
    mixed = hashlib.sha256()
    for text in texts:
        content = text.encode()
        mixed.update(len(content).to_bytes(8) + content)
    return mixed.hexdigest()


@functools.lru_cache(maxsize=256)
def _mixed_once(texts: tuple[str, ...]) -> str:
    """The same for texts that a hundred thousand hand-ins have in common."""
    return _mixed(texts)


def _there(name: str) -> bool:
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False
