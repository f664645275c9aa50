"""Whose fault it is when a run fails by itself. The machine's only where there is evidence that no rank can make.

What happens around a rank may be its own doing: it can kill, starve and mislead the processes beside it, fill what is
shared, or end itself as the kernel would. So

* what goes wrong before any rank of a session was started is the machine's;
* anything else is run once more, alone, in a fresh session, and the second attempt counts;
* where that fails by itself too, the exercise's solution, if it is at hand, is run in the same way before anybody is
  blamed. If it fails as well, the machine is at fault; if not, the submission is;
* where the exercise's probe raised something of its own, with no line of the submission's in the stack, the solution
  is run at once: if the probe raises there as well, its author is at fault;
* once a submission was charged, its later failures of the same kind are charged at once;
* where the submission has made thousands of connections, no port may be left for a minute, whoever asks; so a port that
  is taken, and a session that comes to nothing, are its doing from then on;
* further attempts have the time that the deadlines of the others have left, and no more.

Where runs share the machine's network, one that meets at a port of its own choice may have met a neighbour, whatever
came of it. It is run again alone, and that attempt counts; what follows of the submission is run alone at once.

`decide` is the rule, and pure.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from grader.grading.sessions import AnySession, Sessions
from grader.grading.turns import turn
from grader.model import PROBE, Case, Diagnosis, Finding, Killed, Raised, RankRecord, Run, Submission
from grader.model.errors import NoRankStarted, RunError
from grader.ranks.diagnosis import REFUSED

ON_PURPOSE = ("NeverMeet",)
"""What probes raise to be told: ranks did not come to where the others wait for them."""
HINT = "The processes and files beside those of the ranks belong to the grader; a submission has no business with them."

Attempt = Callable[[AnySession, Submission], Run]
"""Runs a case once."""


class Kind(Enum):
    """In which way a run fails by itself."""

    NO_RESULT = "there is no result"
    KILLED = "a rank was killed, and not by the grader"
    REFUSED = "a port was taken"
    PROBE = "the exercise's probe raised something of its own"
    SHARED = "it met at a port that other runs may use"


ATTEMPTS = {Kind.REFUSED: 3, Kind.PROBE: 1}
"""How often a case is tried before the solution is; else twice. A port may be another grader's for a moment, and no
other program on the machine makes a probe raise."""
MANY_CONNECTIONS = 2000
"""More than any right program makes in a run, and less than a tenth of the ports that a machine gives away."""
PORTS = (Kind.REFUSED, Kind.SHARED)
"""What neighbours may bring about, where the network is the machine's."""


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
    ALONE = "run it once more, alone"
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
    if last.kind is Kind.SHARED:
        return Step.ALONE
    if last.kind in charged:
        return Step.CHARGE
    if len(doubts) < ATTEMPTS.get(last.kind, 2):
        return Step.AGAIN
    if solution_went_well is None:
        return Step.COMPARE
    return Step.CHARGE if solution_went_well else Step.MACHINE


class Blame:
    """Runs the cases of one submission, from several threads, and settles the doubts. `solution` gives the exercise's
    own, or None where it is not at hand: then two failures are enough. `spare` says how many seconds further attempts
    have."""

    def __init__(
        self,
        sessions: Sessions,
        submission: Submission,
        solution: Callable[[], Submission | None] = lambda: None,
        spare: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._sessions, self._submission, self._spare = sessions, submission, spare
        self._chooses_ports = self._took_ports = False
        self._solution = functools.cache(solution)
        self._charged: frozenset[Kind] = frozenset()

    def run(self, case: Case, attempt: Attempt) -> Run:
        """The run of a case that counts. Raises RunError where the machine is at fault."""
        first = None if self._chooses_ports else self._beside_others(attempt)
        if first is not None and first.run is not None and first.doubt is None:
            return first.run
        if first is not None and first.doubt is not None:
            self._chooses_ports |= first.doubt.kind in PORTS
        with self._sessions.alone(), turn() if self._chooses_ports else contextlib.nullcontext():
            return self._settled(case, attempt, first or self._alone(attempt))

    def _beside_others(self, attempt: Attempt) -> Tried:
        with self._sessions.shared() as session:
            return self._noted(tried(attempt, session, self._submission, alone=False))

    def _alone(self, attempt: Attempt) -> Tried:
        """An attempt in the session in use, of whoever has it alone."""
        return self._noted(tried(attempt, self._sessions.current(), self._submission))

    def _noted(self, last: Tried) -> Tried:
        self._took_ports |= last.run is not None and took_ports(last.run)
        return last

    def _settled(self, case: Case, attempt: Attempt, first: Tried) -> Run:
        """The same after a first attempt that left a doubt. Nothing else of the submission runs meanwhile."""
        tries, went_well = [first], None
        while True:
            step = decide([each.doubt for each in tries], went_well, self._charged)
            if step is Step.ALONE:
                tries = [self._alone(attempt)]
            elif step in (Step.AGAIN, Step.COMPARE) and self._spare() <= 0:
                return self._charge(case, tries)
            elif step is Step.AGAIN:
                tries.append(self._noted(tried(attempt, self._sessions.renewed(), self._submission)))
            elif step is Step.COMPARE:
                went_well = self._solution_goes_well(attempt)
            elif step is Step.MACHINE and not (self._took_ports and _may_lack_ports(tries[-1])):
                raise _machine(case, tries[-1])
            else:
                return self._counted(tries) if step is Step.KEEP else self._charge(case, tries)

    def _solution_goes_well(self, attempt: Attempt) -> bool:
        solution = self._solution()
        return solution is None or tried(attempt, self._sessions.renewed(), solution).well

    def _counted(self, tries: Sequence[Tried]) -> Run:
        """The last attempt, with a note where an earlier one did not count that was made in the same way."""
        assert tries[-1].run
        return replace(tries[-1].run, retried=tries[0].doubt.reason if tries[0].doubt else "")

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


def tried(attempt: Attempt, session: AnySession, submission: Submission, *, alone: bool = True) -> Tried:
    """One attempt, alone or beside others, and whether it leaves a doubt."""
    try:
        run = attempt(session, submission)
    except RunError as error:
        return Tried(session=session, doubt=Doubt(kind=Kind.NO_RESULT, reason=_reason(error), error=error))
    doubt = doubt_about(run)
    if not alone and not session.apart and run.witness and run.witness.ports:
        doubt = Doubt(kind=Kind.SHARED, reason="it met at a port of its own choice")
    if session.apart and doubt is not None and doubt.kind is Kind.REFUSED:
        doubt = None  # in a network of its own a run has no neighbours
    return Tried(session=session, run=run, doubt=doubt)


def took_ports(run: Run) -> bool:
    """Whether a run has made so many connections that the machine may have no port left."""
    if run.witness is None or run.witness.absent:
        return False
    made = run.witness.unclaimed.connections + sum(link.connections for link in run.witness.links)
    return not run.witness.complete or made > MANY_CONNECTIONS


def _may_lack_ports(last: Tried) -> bool:
    return last.doubt is not None and last.doubt.kind in (Kind.NO_RESULT, Kind.REFUSED)


def doubt_about(run: Run) -> Doubt | None:
    """Why a run may have gone wrong through no fault of the code in it; None if nothing says so."""
    for record in run.ranks:
        ending = record.ending
        if not run.case.crashes and isinstance(ending, Killed) and ending.signal == "SIGKILL" and not ending.by_grader:
            return Doubt(kind=Kind.KILLED, reason=f"rank {record.rank} was killed by SIGKILL")
        if isinstance(ending, Raised) and _was_refused(ending):
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


def _was_refused(ending: Raised) -> bool:
    return any(mark in text for mark in REFUSED for text in (ending.message, *ending.causes))


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
