"""What a class report says, as plain values that page, JSON and CSV are written from. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the rows do not say of their batch."""

    title: str = "A class"
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The batch as a whole. `expected` is how many hand-ins of an exercise there are, `identical` how many of them are
    byte for byte somebody else's. `overhead` is the wall time of the grades over the run time of their cases, None
    where nobody measured it."""

    title: str
    people: int
    expected: int
    graded: int
    waiting: int
    broken: int
    quarantined: int
    unstable: int
    identical: int
    core_hours: float
    overhead: float | None
    versions: Mapping[str, str]
    seed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How marks are spread, in shares of 0 to 1: tens, quartiles, mean."""

    number: int
    tens: tuple[int, ...]
    quartiles: tuple[float, float, float]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """One check. `judged` is how many hand-ins passed or failed it, `rate` the share of these that passed. `interval`
    is of 95 %. `cost` is in points of the assignment, over all hand-ins that failed it or were blocked. `attempts`
    says after how many hand-ins people passed it first, from one on; empty where that is not known."""

    id: str
    title: str
    points: float
    judged: int
    passed: int
    failed: int
    blocked: int
    skipped: int
    broken: int
    rate: float | None
    interval: tuple[float, float]
    blocked_rate: float
    discrimination: float | None
    quintiles: tuple[float | None, ...]
    cost: float
    attempts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A check that may be at fault itself, and why one would think so."""

    check: str
    title: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A mutant that hand-ins fail like, and how many of them do."""

    name: str
    mistake: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hand-ins that fail one check in the same way. `faults` are the kinds of what was found, without numbers,
    `example` is one of them in full and `unit` whose it is. `who` is empty where names are not asked for."""

    check: str
    title: str
    size: int
    share: float
    faults: tuple[str, ...]
    example: str
    unit: str
    mutants: tuple[Named, ...]
    who: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Hand-ins that fail in the same way, which is no mutant's."""

    size: int
    checks: tuple[str, ...]
    example: str
    unit: str
    who: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlocks:
    """Hand-ins that stood still in the same calls. `lines` are those of `unit`; `world_size` is the smallest at which
    that was seen."""

    calls: tuple[str, ...]
    lines: tuple[int, ...]
    size: int
    world_size: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two checks that fail together: in how many hand-ins both do, and how strongly that hangs together (φ)."""

    first: str
    second: str
    both: int
    phi: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """How many hand-ins are of a kind, and, where names are asked for, whose they are with a remark."""

    number: int
    who: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseReport:
    """One exercise. `number` hand-ins were graded, and `tried` of them are begun and compile: only these say something
    of the checks. `known` is how many of the `wrong` ones fail like a mutant; `graded_mutants` says whether mutants are
    known by their own grades, or only by the checks that they must fail."""

    name: str
    title: str
    weight: float
    number: int
    tried: int
    marks: Marks
    checks: tuple[CheckReport, ...]
    suspects: tuple[Suspect, ...]
    wrong: int
    known: int
    graded_mutants: bool
    clusters: tuple[Cluster, ...]
    unknown: tuple[Unknown, ...]
    endings: tuple[tuple[str, int], ...]
    deadlocks: tuple[Deadlocks, ...]
    pairs: tuple[Pair, ...]
    lists: Mapping[str, ListOf]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassReport:
    """All of it. `marks` are those of whole hand-ins, lateness included; `named` says whether people are."""

    header: Header
    marks: Marks
    exercises: tuple[ExerciseReport, ...]
    named: bool
