"""What running a case gives: how each rank ended, what it recorded and communicated. Standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from grader.model.exercise import Case
from grader.model.finding import Finding
from grader.model.trace import Trace
from grader.model.witness import Witness

PROBE = "probe.py"
"""The file of an exercise that runs in every rank beside the student's."""
Value = Any
"""What may cross the wire: None, bool, int, float, str, bytes, torch.Tensor, and lists and dicts of these."""


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

    @property
    def probe_line(self) -> int | None:
        """The innermost line of the exercise's probe, where no line of the student's file is in the stack."""
        if self.at is not None:
            return None
        return next((frame.line for frame in reversed(self.stack) if PurePath(frame.file).name == PROBE), None)


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
    """The rank waits for something that no rank will ever do. `caught` is "Type: message" of what the student's last
    call raised, where the probe has caught that and gone on; `caught_at` is its line. It has `let_go` of a message that
    was not over where its own communication turns over what a peer answers to it, and nobody takes that."""

    wait: Wait
    caught: str = ""
    caught_at: int | None = None
    let_go: bool = False

    kind = "deadlocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut(Ending):
    """The case's deadline passed while the rank was still busy. `wait` is set if it sat in communication; `caught` is
    as for Deadlocked."""

    wait: Wait | None = None
    importing: bool = False
    caught: str = ""
    caught_at: int | None = None

    kind = "timed_out"


BUSY = "computes or sleeps"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRank:
    """What a rank of a run that stands still, or goes on for long, does now: `told` is a phrase such as "waits in
    barrier", or BUSY."""

    rank: int
    told: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """All that is known of one rank. `observations` maps a name to the value that the probe recorded; `trace` is what
    it communicated, if the case asks for that and the rank could still tell. `device` is "cpu" or "cuda", where the
    device rule has placed the rank; "" if it ended before it could say so."""

    rank: int
    ending: Ending
    observations: Mapping[str, Value] = field(default_factory=dict)
    output: str = ""
    trace: Trace | None = None
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """A file that ranks wrote, as a process without student code has opened it: what it holds as plain data, or the
    problem, in one line. `digest` is that of its bytes (`digest_of`)."""

    digest: str
    content: Value = None
    problem: str = ""


def digest_of(data: bytes) -> str:
    """Which file it is."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a run went wrong: the first failure in time, and what it did to the others."""

    kind: str
    ranks: tuple[int, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One case, run once. `seconds` is wall time. `retried` says why a first attempt did not count. `opened` has the
    files among the observations, where the case asks for that. `witness` is what the kernel counted; None where it does
    not, and in older files."""

    case: Case
    ranks: tuple[RankRecord, ...]
    seconds: float
    diagnosis: Diagnosis | None = None
    retried: str = ""
    opened: tuple[OpenedFile, ...] = ()
    witness: Witness | None = None
