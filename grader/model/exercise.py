"""What is graded: an exercise with its cases and checks, and a student's file for it. Standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.model.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is judged: a test function of checks.py with the manifest's entry for it. `why` says what it
    matters for in production, `section` is the heading of the statement that explains it. `folder` is where its
    checks.py lies, if that is not the exercise's own."""

    id: str
    title: str
    points: float
    hints: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    visibility: str = "visible"
    why: str = ""
    section: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of an interview: what the interviewer says, and the ids of the checks that it adds."""

    says: str
    checks: tuple[str, ...]


MIB = 2**20
MAX_SEED = 2**31 - 1
MISSING = "was not handed in"
"""What is said of a file that was asked for and is not there."""
"""Seeds of grades and of cases lie between 0 and this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use, beside its time. Sizes are in bytes.

    `memory` is of one rank, with all that it starts, beyond what it began with; `processes` are processes and threads
    of the whole run; `file` is one file, `disk` all files of the run; `output` is what one rank prints; `cpu` is
    seconds of processor time of one process, None for twice the deadline.
    """

    memory: int = 4096 * MIB
    processes: int = 500
    file: int = 1024 * MIB
    disk: int = 2048 * MIB
    output: int = 32 * MIB
    cpu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to run the ranks. `deadline` is in seconds, counted from the start of the ranks. `crashes` says that the
    probe kills a rank on purpose. A case that is not `visible` serves hidden checks alone. `gpus` is how many GPUs it
    needs: where there are fewer it is not run. `opens_files` says that all bytes which its probe records are files that
    torch.save wrote, which checks want to look into. `dynamo` says that its ranks may use an optimizer, DDP or FSDP,
    which import torch._dynamo, or is traced; without it a rank does so itself. `requires` are names in the student's
    file that this case alone looks for. `folder` is where its probe.py lies, if not in the exercise's own. What
    `secret` holds the judge knows and no rank does."""

    name: str
    world_size: int
    probe: str
    seed: int = 0
    deadline: float = 30.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    process_group: bool = False
    hold_group: bool = True
    trace: bool = False
    opens_files: bool = False
    limits: Limits = Limits()
    crashes: bool = False
    visibility: str = "visible"
    gpus: int = 0
    dynamo: bool = True
    requires: tuple[str, ...] = ()
    folder: Path | None = None
    secret: bytes = field(default=b"", repr=False)

    @property
    def id(self) -> str:
        return f"{self.name}[{self.world_size}]"

    @property
    def needs_dynamo(self) -> bool:
        """Whether torch._dynamo should be there before the ranks are: tracing imports it as well."""
        return self.dynamo or self.trace

    def secret_of(self, rank: int) -> int:
        """What `rank` alone is told in a run of this case, 63 bits: `rank.secret` of a probe and of a check."""
        digest = hashlib.blake2b(str(rank).encode(), key=self.secret, digest_size=8)
        return int.from_bytes(digest.digest()) >> 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredName:
    """A name that the student's module must define; `signature` is how the contract calls it, as
    `(rank, world_size, *, lr=0.1)`, or None where it is no function."""

    name: str
    signature: str | None = None


def number_of(name: str) -> str:
    """`03` of the exercise `03_train_ddp`."""
    return name.partition("_")[0]


def slug_of(name: str) -> str:
    """`train_ddp` of the exercise `03_train_ddp`."""
    return name.partition("_")[2]


def file_of(name: str) -> str:
    """The student's file of the exercise `03_train_ddp`, `train_ddp.py`."""
    return f"{slug_of(name)}.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One folder of exercises/. `preload` are modules that take long to import and that its ranks find imported. The
    student's file is a `script` that probes run and nobody imports, or a module. `stub_digest` is that of a stub that
    runs, empty where its functions raise NotImplementedError. `levels` order its checks, or most of them, for an
    interview; there may be none."""

    name: str
    title: str
    summary: str
    folder: Path
    file: str
    requires: tuple[RequiredName, ...]
    cases: tuple[Case, ...]
    checks: tuple[Check, ...]
    hints: tuple[str, ...] = ()
    time_box: int = 30
    prerequisites: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    imports_dynamo: bool = False
    script: bool = False
    preload: tuple[str, ...] = ()
    stub_digest: str = ""
    levels: tuple[Level, ...] = ()

    @property
    def probe(self) -> Path:
        return self.folder / "probe.py"

    def probe_of(self, case: Case) -> Path:
        """The file that has the case's probe."""
        return (case.folder or self.folder) / "probe.py"

    def required_by(self, case: Case) -> tuple[RequiredName, ...]:
        """The names that a case looks for: its own, or at the import those that no case has for its own."""
        if case.probe:
            return tuple(one for one in self.requires if one.name in case.requires)
        claimed = {name for other in self.cases for name in other.requires}
        return tuple(one for one in self.requires if one.name not in claimed)

    @property
    def check_folders(self) -> tuple[Path, ...]:
        """Where its checks.py lie: its own folder, then that of a course's further checks."""
        return tuple(dict.fromkeys([self.folder, *(check.folder or self.folder for check in self.checks)]))

    @property
    def number(self) -> str:
        return number_of(self.name)

    @property
    def slug(self) -> str:
        return slug_of(self.name)

    @property
    def stub(self) -> Path:
        return self.folder / self.file

    @property
    def max_score(self) -> float:
        return sum(check.points for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A private copy of a student's file. `problem` is set when the file cannot even be compiled. Make one by `of`.

    `companions` maps the name of another exercise to the student's source for it, where they have begun it.
    """

    path: Path
    source: bytes
    digest: str
    problem: Finding | None = None
    companions: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(
        cls, path: Path, source: bytes, *, problem: Finding | None = None, companions: Mapping[str, bytes] | None = None
    ) -> Submission:
        """With the digest of its source (SHA-256, in hexadecimal)."""
        digest = hashlib.sha256(source).hexdigest()
        return cls(path=path, source=source, digest=digest, problem=problem, companions=companions or {})
