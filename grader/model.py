"""The nouns of a grade, all frozen. Standard library only.

An Exercise has Cases (how ranks are run) and Checks (what is judged). A Submission is a student's file.
Running a case gives a Run of RankRecords; judging runs gives Verdicts; a Report holds them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from grader.trace import Trace

Value = Any
"""What may cross the wire: None, bool, int, float, str, bytes, torch.Tensor, and lists and dicts of these."""


class Outcome(Enum):
    """What a check came to."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A check that it needs did not pass, so it was not judged."""
    SKIPPED = "skipped"
    """Hardware that it needs is absent. Never a pass."""
    BROKEN = "broken"
    """The grader's or the author's fault. Never costs the student points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is judged: a test function of checks.py with the manifest's entry for it. `why` says what it
    matters for in production, `section` is the heading of the statement that explains it."""

    id: str
    title: str
    points: float
    hints: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    visibility: str = "visible"
    why: str = ""
    section: str = ""


MIB = 2**20


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
    probe kills a rank on purpose. A case that is not `visible` serves hidden checks alone."""

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
    limits: Limits = Limits()
    crashes: bool = False
    visibility: str = "visible"

    @property
    def id(self) -> str:
        return f"{self.name}[{self.world_size}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredName:
    """A name that the student's module must define; `signature` is how the contract calls it, as
    `(rank, world_size, *, lr=0.1)`, or None where it is no function."""

    name: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One folder of exercises/."""

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
    probe_folder: Path | None = None

    @property
    def probe(self) -> Path:
        return (self.probe_folder or self.folder) / "probe.py"

    @property
    def number(self) -> str:
        return self.name.partition("_")[0]

    @property
    def slug(self) -> str:
        return self.name.partition("_")[2]

    @property
    def stub(self) -> Path:
        return self.folder / self.file

    @property
    def max_score(self) -> float:
        return sum(check.points for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault. The sentence is built once, at the end, from the fields."""

    subject: str
    expected: str = ""
    actual: str = ""
    ranks: tuple[int, ...] = ()
    line: int | None = None
    hint: str | None = None
    case: str | None = None

    def sentence(self) -> str:
        """One line: the subject, on which ranks, what was expected, what was seen, at which line."""
        text = self.subject
        if self.ranks:
            text += f" on rank{'s' if len(self.ranks) > 1 else ''} {', '.join(map(str, self.ranks))}"
        seen = [f"expected {self.expected}"] if self.expected else []
        seen += [f"got {self.actual}"] if self.expected and self.actual else [self.actual] if self.actual else []
        if seen:
            text += f": {', '.join(seen)}"
        return f"{text} (line {self.line})" if self.line else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A private copy of a student's file. `problem` is set when the file cannot even be compiled.

    `companions` maps the name of another exercise to the student's source for it, where he has begun it.
    """

    path: Path
    source: bytes
    digest: str
    problem: Finding | None = None
    companions: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One frame of a rank's Python stack. `student` says that the file is the student's own."""

    file: str
    line: int
    function: str
    student: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a rank waits in: an operation as the student knows it (`all_reduce`, `recv from rank 1`)."""

    operation: str
    group: str = "default"
    sequence: int | None = None
    bytes: int | None = None
    peer: int | None = None
    tag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a rank ended. `stack` runs outermost first; `at` is the innermost line of the student's file."""

    stack: tuple[StackFrame, ...] = ()
    seconds: float = 0.0

    kind = "ending"

    @property
    def at(self) -> int | None:
        return next((frame.line for frame in reversed(self.stack) if frame.student), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Ending):
    """The probe returned."""

    kind = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised(Ending):
    """An exception left the student's code. `causes` holds "Type: message" of its causes, nearest first.
    `importing` says that the student's file was still being imported."""

    type: str
    message: str
    causes: tuple[str, ...] = ()
    importing: bool = False
    communication: bool = False

    kind = "raised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited(Ending):
    """The rank left the process: `how` is "sys.exit" or "os._exit"."""

    code: str
    how: str

    kind = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed(Ending):
    """A signal ended the rank. `by_grader` says that the grader stopped it: after another rank had failed, or for a
    limit, such as "processes: 812, at most 500"."""

    signal: str
    by_grader: bool = False
    limit: str = ""

    kind = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlocked(Ending):
    """The rank waits for something that no rank will ever do."""

    wait: Wait

    kind = "deadlocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut(Ending):
    """The case's deadline passed while the rank was still busy. `wait` is set if it sat in communication."""

    wait: Wait | None = None
    importing: bool = False

    kind = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRank:
    """What a rank of a run that stands still does now: `told` is a phrase such as "waits in barrier"."""

    rank: int
    told: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """All that is known of one rank. `observations` maps a name to the value that the probe recorded; `trace` is what
    it communicated, if the case asks for that and the rank could still tell."""

    rank: int
    ending: Ending
    observations: Mapping[str, Value] = field(default_factory=dict)
    output: str = ""
    trace: Trace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a run went wrong: the first failure in time, and what it did to the others."""

    kind: str
    ranks: tuple[int, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One case, run once. `seconds` is wall time. `retried` says why a first attempt did not count."""

    case: Case
    ranks: tuple[RankRecord, ...]
    seconds: float
    diagnosis: Diagnosis | None = None
    retried: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one check came to."""

    check: Check
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    message: str = ""
    seconds: float = 0.0

    @property
    def score(self) -> float:
        return self.check.points if self.outcome is Outcome.PASSED else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one grade. Renderers know nothing else. `seconds` is wall time."""

    exercise: Exercise
    submission: Submission
    verdicts: tuple[Verdict, ...]
    runs: tuple[Run, ...]
    seed: int
    device: str
    sandbox: str
    seconds: float
    torch_version: str = ""
    notes: tuple[str, ...] = ()

    @property
    def max_score(self) -> float:
        return sum(v.check.points for v in self.verdicts if v.outcome not in (Outcome.BROKEN, Outcome.SKIPPED))

    @property
    def score(self) -> float:
        return sum(v.score for v in self.verdicts)

    @property
    def status(self) -> str:
        outcomes = {v.outcome for v in self.verdicts}
        if Outcome.BROKEN in outcomes or not outcomes:
            return "error"
        return "passed" if outcomes <= {Outcome.PASSED, Outcome.SKIPPED} else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What handing in late costs: `kept` is the share of the points that is left, `told` says it in a sentence."""

    kept: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One exercise of a Result. `weight` is what it is worth there, whatever the points of its checks come to.

    Checks that are not counted (broken, skipped) leave the exercise's weight to the others.
    """

    report: Report
    weight: float
    late: Late | None = None

    @property
    def scale(self) -> float:
        """What a point of the report is worth in the result."""
        return self.weight / self.report.max_score if self.report.max_score else 0.0

    @property
    def kept(self) -> float:
        return self.late.kept if self.late else 1.0

    @property
    def score(self) -> float:
        return self.report.score * self.scale * self.kept

    @property
    def max_score(self) -> float:
        return self.report.max_score * self.scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one hand-in came to: one exercise, or those of an assignment. Course renderers know nothing else."""

    title: str
    entries: tuple[Entry, ...]

    @property
    def score(self) -> float:
        return sum(entry.score for entry in self.entries)

    @property
    def max_score(self) -> float:
        return sum(entry.max_score for entry in self.entries)

    @property
    def points(self) -> float:
        """What could be earned if nothing were left out."""
        return sum(entry.weight for entry in self.entries)

    @property
    def status(self) -> str:
        """The worst of its reports': error, failed, passed."""
        statuses = {entry.report.status for entry in self.entries}
        return next((status for status in ("error", "failed") if status in statuses), "passed")
