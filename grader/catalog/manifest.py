"""The shape of exercise.yaml and of mutants.yaml. What needs more than the one file is checked where it is loaded."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, NonNegativeInt, PositiveFloat, PositiveInt


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value.strip()


def _word(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        raise ValueError("must be a word of small letters, digits and underscores")
    return value


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("must be the name of an environment variable")
    return value


def _module(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", value):
        raise ValueError("must be the name of a module")
    return value


def _digest(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ValueError("must be a SHA-256 in hexadecimal, as `sha256sum` prints it")
    return value


def _distinct(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError("must not name anything twice")
    return values


def _three_or_none(hints: list[str]) -> list[str]:
    if len(hints) not in (0, 3):
        raise ValueError(f"must hold exactly three hints, one a level, not {len(hints)}")
    return hints


def _world_sizes(sizes: list[int]) -> list[int]:
    if not sizes or min(sizes) < 1:
        raise ValueError("must hold at least one world size, each of at least 1")
    if len(set(sizes)) < len(sizes):
        raise ValueError("must not name a world size twice")
    return sizes


Text = Annotated[str, AfterValidator(_text)]
Word = Annotated[str, AfterValidator(_word)]
Variable = Annotated[str, AfterValidator(_variable)]
Module = Annotated[str, AfterValidator(_module)]
Digest = Annotated[str, AfterValidator(_digest)]
Words = Annotated[list[str], AfterValidator(_distinct)]
Hints = Annotated[list[Text], AfterValidator(_three_or_none)]
WorldSizes = Annotated[list[int], AfterValidator(_world_sizes)]
Visibility = Literal["visible", "hidden", "after_due_date", "after_published"]


class Strict(BaseModel):
    # Strict: a number is never read from text, nor text from a number, and true is not 1.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class CaseLimits(Strict):
    """What a run may use where the usual limits do not fit; model.Limits says what each means."""

    memory_mib: PositiveInt | None = None
    processes: PositiveInt | None = None
    file_mib: PositiveInt | None = None
    disk_mib: PositiveInt | None = None
    output_mib: PositiveInt | None = None
    cpu_seconds: PositiveFloat | None = None


class CaseFamily(Strict):
    """One way to run the ranks, at several world sizes. `deadline` is in seconds. What needs these
    runs is skipped where the machine has fewer than `gpus` GPUs; on `device: cpu` ranks see none. `requires` are names
    of the exercise's `requires` that are looked for in these runs, and not at the import, so that a missing one costs
    nothing else."""

    world_sizes: WorldSizes = [1, 2, 3]
    deadline: PositiveFloat = 30.0
    probe: str | None = None
    requires: Words = []
    parameters: dict[str, JsonValue] = {}
    environment: dict[Variable, str | None] = {}
    process_group: bool = False
    hold_group: bool = True
    trace: bool = False
    opens_files: bool = False
    limits: CaseLimits = CaseLimits()
    crashes: bool = False
    gpus: NonNegativeInt = 0
    device: Literal["any", "cpu"] = "any"
    dynamo: bool = True


class CheckEntry(Strict):
    """What the manifest adds to a test function of checks.py."""

    points: PositiveFloat
    needs: Words = []
    hints: Hints = []
    visibility: Visibility = "visible"
    why: Text | None = None
    section: Text | None = None


class LevelEntry(Strict):
    """One level of an interview: what the interviewer says, and the checks that are asked for from then on."""

    says: Text
    checks: Annotated[Words, Field(min_length=1)]


class Manifest(Strict):
    """exercise.yaml. `time_box` is in minutes. `preload` are modules that its ranks find imported. The student's file
    is a `script` that is run and never imported. `stub` is the SHA-256 of a stub in which no function raises
    NotImplementedError, so that one can tell whether it was changed."""

    title: Text
    summary: Text
    requires: dict[str, str | None]
    cases: dict[Word, CaseFamily]
    checks: dict[str, CheckEntry]
    time_box: PositiveInt = 30
    prerequisites: Words = []
    companions: Words = []
    hints: Hints = []
    imports_dynamo: bool = False
    script: bool = False
    preload: list[Module] = []
    stub: Digest | None = None
    levels: list[LevelEntry] = []


class HiddenCheck(CheckEntry):
    """A check that a course adds: hidden unless it says otherwise."""

    visibility: Visibility = "hidden"


class OverlayManifest(Strict):
    """exercise.yaml of a folder of further cases and checks."""

    cases: dict[Word, CaseFamily] = {}
    checks: dict[str, HiddenCheck]


class Edit(Strict):
    """A replacement in the solution's text; white space counts."""

    old: str
    new: str


class MutantEntry(Strict):
    """One wrong solution of mutants.yaml. `below_60`: why it is worth less than 60 points of 100."""

    name: Word
    mistake: Text
    edits: list[Edit]
    fails: Words
    below_60: Text | None = None
