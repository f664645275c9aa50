"""Whose fault it is when a run fails by itself. The machine's only where there is evidence that no rank can make.

What happens around a rank may be its own doing: it can kill, starve and mislead the processes beside it, fill what is
shared, or end itself as the kernel would. So

* what goes wrong before any rank of a session was started is the machine's;
* anything else is run once more, alone, in a fresh session, and the second attempt counts;
* where that fails by itself too, the exercise's solution, if it is at hand, is run in the same way before anybody is
  blamed. If it fails as well, the machine is at fault; if not, the submission is;
* where the exercise's probe raised something of its own, with no line of the submission's in the stack, the solution
  is run at once: if the probe raises there as well, its author is at fault;
* once a submission was charged, its later failures of the same kind are charged at once.

`decide` is the rule, and pure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from grader.grading.sessions import AnySession, Sessions
from grader.model import PROBE, Case, Diagnosis, Finding, Killed, Raised, RankRecord, Run, Submission
from grader.model.errors import NoRankStarted, RunError

ON_PURPOSE = ("NeverMeet",)
"""What probes raise to be told: ranks did not come to where the others wait for them."""
REFUSED = ("EADDRINUSE", "address already in use", "Address already in use")
HINT = "The processes and files beside those of the ranks belong to the grader; a submission has no business with them."

Attempt = Callable[[AnySession, Submission], Run]
"""Runs a case once."""


class Kind(Enum):
    """In which way a run fails by itself."""

    NO_RESULT = "there is no result"
    KILLED = "a rank was killed, and not by the grader"
    REFUSED = "a port was taken"
    PROBE = "the exercise's probe raised something of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why an attempt may say nothing about the code that was run. `reason` follows a "because"."""

    kind: Kind
    reason: str
    error: RunError | None = None

    @property
    def is_the_machine(self) -> bool:
        """Whether no rank can have brought it about."""
        return isinstance(self.error, NoRankStarted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of one attempt, which has a run or a doubt or both."""

    session: AnySession
    run: Run | None = None
    doubt: Doubt | None = None

    @property
    def well(self) -> bool:
        """Whether it went as a right solution's has to."""
        return self.run is not None and not self.doubt and (self.run.diagnosis is None or self.run.case.crashes)


class Step(Enum):
    """What is to be done about a case that was tried."""

    KEEP = "the last attempt counts"
    AGAIN = "run it once more, in a fresh session"
    COMPARE = "run the exercise's solution, in a fresh session"
    CHARGE = "the submission is at fault"
    MACHINE = "the machine is at fault"


def decide(doubts: Sequence[Doubt | None], solution_went_well: bool | None, charged: frozenset[Kind]) -> Step:
    """What is next, from the doubts of the attempts so far, how the solution did in the same place (None: not known
    yet), and the kinds of failure that this submission was charged with before."""
    last = doubts[-1]
    if last is None:
        return Step.KEEP
    if last.is_the_machine:
        return Step.MACHINE
    if last.kind in charged:
        return Step.CHARGE
    if len(doubts) == 1 and last.kind is not Kind.PROBE:  # which no other program on the machine brings about
        return Step.AGAIN
    if solution_went_well is None:
        return Step.COMPARE
    return Step.CHARGE if solution_went_well else Step.MACHINE


class Blame:
    """Runs the cases of one submission, from several threads, and settles the doubts. `solution` gives the exercise's
    own, or None where it is not at hand: then two failures are enough."""

    def __init__(
        self, sessions: Sessions, submission: Submission, solution: Callable[[], Submission | None] = lambda: None
    ) -> None:
        self._sessions, self._submission = sessions, submission
        self._solution = functools.cache(solution)
        self._charged: frozenset[Kind] = frozenset()

    def run(self, case: Case, attempt: Attempt) -> Run:
        """The run of a case that counts. Raises RunError where the machine is at fault."""
        with self._sessions.shared() as session:
            first = tried(attempt, session, self._submission)
        if first.run is not None and first.doubt is None:
            return first.run
        with self._sessions.alone():
            return self._settled(case, attempt, first)

    def _settled(self, case: Case, attempt: Attempt, first: Tried) -> Run:
        """The same after a first attempt that left a doubt. Nothing else of the submission runs meanwhile."""
        tries, went_well = [first], None
        while True:
            step = decide([each.doubt for each in tries], went_well, self._charged)
            if step is Step.AGAIN:
                tries.append(tried(attempt, self._sessions.renewed(), self._submission))
            elif step is Step.COMPARE:
                went_well = self._solution_goes_well(attempt)
            elif step is Step.MACHINE:
                raise _machine(case, tries[-1])
            else:
                return self._counted(case, tries) if step is Step.KEEP else self._charge(case, tries)

    def _solution_goes_well(self, attempt: Attempt) -> bool:
        solution = self._solution()
        return solution is None or tried(attempt, self._sessions.renewed(), solution).well

    def _counted(self, case: Case, tries: Sequence[Tried]) -> Run:
        assert tries[0].doubt and tries[-1].run
        return replace(tries[-1].run, retried=tries[0].doubt.reason)

    def _charge(self, case: Case, tries: Sequence[Tried]) -> Run:
        """The run as the submission's doing. The session may be damaged, so what follows gets another."""
        last, doubt = tries[-1], tries[-1].doubt
        assert doubt
        self._charged |= {doubt.kind}
        if last.run is None:
            self._sessions.leave(last.session)
        run = last.run or _without_result(case, doubt, again=len(tries) > 1)
        return replace(run, retried=self._told(doubt)) if len(tries) > 1 else run

    def _told(self, doubt: Doubt) -> str:
        told = "so it went again"
        if self._solution():
            told += ", while the exercise's own solution ran well in its place"
        return f"{doubt.reason}; {told}"


def tried(attempt: Attempt, session: AnySession, submission: Submission) -> Tried:
    """One attempt, and whether it leaves a doubt."""
    try:
        run = attempt(session, submission)
    except RunError as error:
        return Tried(session=session, doubt=Doubt(kind=Kind.NO_RESULT, reason=_reason(error), error=error))
    return Tried(session=session, run=run, doubt=doubt_about(run))


def doubt_about(run: Run) -> Doubt | None:
    """Why a run may have gone wrong through no fault of the code in it; None if nothing says so."""
    for record in run.ranks:
        ending = record.ending
        if not run.case.crashes and isinstance(ending, Killed) and ending.signal == "SIGKILL" and not ending.by_grader:
            return Doubt(kind=Kind.KILLED, reason=f"rank {record.rank} was killed by SIGKILL")
        if isinstance(ending, Raised) and any(mark in ending.message for mark in REFUSED):
            return Doubt(kind=Kind.REFUSED, reason=f"a port was taken on rank {record.rank}")
    return _doubt_about_the_probe(run)


def _doubt_about_the_probe(run: Run) -> Doubt | None:
    """Whether the first failure was raised by the probe itself. What the submission returned may have led to it."""
    for rank in run.diagnosis.ranks if run.diagnosis else ():
        ending = run.ranks[rank].ending
        if isinstance(ending, Raised) and ending.probe_line and not (ending.communication or ending.type in ON_PURPOSE):
            reason = f"{PROBE}, line {ending.probe_line}, raised {ending.type}: {ending.message}"
            return Doubt(kind=Kind.PROBE, reason=reason)
    return None


def _reason(error: RunError) -> str:
    """The first sentence of an error, as it may follow a "because"."""
    first = str(error).partition(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _machine(case: Case, last: Tried) -> RunError:
    assert last.doubt
    if last.doubt.is_the_machine and last.doubt.error:
        return last.doubt.error
    if last.doubt.kind is Kind.PROBE:
        return RunError(
            f"{last.doubt.reason}. It does not get on with the exercise's own solution either, so the exercise's "
            "author is at fault."
        )
    return RunError(
        f"{case.id} could not be run here: {last.doubt.reason}, and the exercise's own solution did not run well "
        "either. Close other programs and try again."
    )


def _without_result(case: Case, doubt: Doubt, again: bool) -> Run:
    """The run of a case that the submission kept from having one."""
    how = "twice, the second time in a session of its own" if again else "as did one before that was tried twice"
    finding = Finding(subject=f"This run came to no result, {how}", actual=doubt.reason, case=case.id, hint=HINT)
    ranks = tuple(RankRecord(rank=rank, ending=Killed(signal="SIGKILL")) for rank in range(case.world_size))
    return Run(case=case, ranks=ranks, seconds=0.0, diagnosis=Diagnosis(kind="killed", ranks=(), findings=(finding,)))
