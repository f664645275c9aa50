"""The runs that a check looks at: by case family, each with its ranks.

    def test_results_in_rank_order(runs):
        \"\"\"Results come back in rank order\"\"\"
        for run in runs("results"):
            for rank in run:
                rank.expect_equal(rank.read("results", list[int]), list(range(run.world_size)), "the returned list")

Nothing here starts a process. A check that is not passed raises CheckFailed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from grader.checks import compare
from grader.checks.communication import Communication
from grader.checks.once import Facts, Knowing
from grader.checks.traffic import disagreement
from grader.checks.witness import Witnessed
from grader.model import Case, Ending, Finished, OpenedFile, RankRecord, Run, TimedOut, Value
from grader.model.errors import CheckFailed, GraderError, NotJudged
from grader.model.witness import Seen, Witness

LISTED = 12
"""So many names of observations are told where one is missing."""


class RankView(Communication):
    """One rank of a run: `rank`, `ending`, what it was run with, what its probe recorded, and the expectations that a
    check can state about it, whose findings name this rank."""

    def __init__(
        self,
        record: RankRecord,
        case: Case,
        opened: Sequence[OpenedFile] = (),
        witness: Witness | None = None,
        facts: Facts | None = None,
    ) -> None:
        super().__init__(case, (record.rank,), opened, facts)
        self._record, self._witness = record, witness

    @property
    def rank(self) -> int:
        return self._record.rank

    @property
    def on_gpu(self) -> bool:
        """Whether the device rule has placed this rank on a GPU, as it said before student code began."""
        return self._record.device == "cuda"

    @property
    def secret(self) -> int:
        """What this rank alone was told, as its probe had it in `rank.secret`."""
        return self.case.secret_of(self.rank)

    @property
    def ending(self) -> Ending:
        return self._record.ending

    def read(self, name: str, kind: Any) -> Any:
        """The observation `name`, which is of this kind through and through: `int`, `list[str]`, `Tensors`, a
        TypedDict … A rank that did not record it, or sent something else, fails the check."""
        return self.expect_kind(self[name], kind, f"What the grader saw as {name!r}")

    def __getitem__(self, name: str) -> Value:
        """The observation `name` as it came: any value that the wire allows. A rank without it fails the check."""
        if name not in self._record.observations:
            self.fail(f"The grader saw no {name!r}", actual=self._instead())
        return self._record.observations[name]

    def _instead(self) -> str:
        """What there is where an observation is missing; a probe that came to its end may call it something else."""
        names = sorted(map(repr, self._record.observations))
        names = [*names[:LISTED], "…"] if len(names) > LISTED else names
        recorded = f"recorded were {', '.join(names)}" if names else "nothing was recorded"
        return recorded if isinstance(self.ending, Finished) else f"the code left before it was recorded; {recorded}"

    def seen(self, name: str) -> Seen | None:
        """What the supervisor saw of this rank when its probe called `be_seen(name)`; None where there is no witness. A
        rank that was not to be seen fails the check."""
        if self._witness is None:
            return None
        for one in self._witness.seen:
            if (one.rank, one.name) == (self.rank, name):
                return one
        self.fail(f"A look at this rank from outside, {name!r}", actual="the probe's call for it never came")

    def get(self, name: str, default: Value = None) -> Value:
        return self._record.observations.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self._record.observations


class RunView(Witnessed):
    """One run of a case: its ranks in order, what it was run with, and expectations about all of it."""

    def __init__(self, run: Run, facts: Facts | None = None) -> None:
        super().__init__(run.case, (), run.opened, facts)
        self.run = run
        self._ranks_seen = tuple(
            RankView(record, run.case, run.opened, run.witness, self.facts) for record in run.ranks
        )

    @property
    def finished(self) -> bool:
        """Whether every rank came to the end of the probe."""
        return all(isinstance(rank.ending, Finished) for rank in self)

    @property
    def timed_out(self) -> bool:
        """Whether a rank ran on until the deadline."""
        return any(isinstance(rank.ending, TimedOut) for rank in self)

    def __iter__(self) -> Iterator[RankView]:
        return iter(self._ranks_seen)

    def __len__(self) -> int:
        return len(self._ranks_seen)

    def __getitem__(self, rank: int) -> RankView:
        return self._ranks_seen[rank]

    def came_to(self, names: Sequence[str]) -> bool:
        """Whether every rank recorded all of these."""
        return all(name in rank for rank in self for name in names)

    def require_finished(self) -> None:
        """Fail with the run's diagnosis if a rank did not finish."""
        if self.run.diagnosis is not None:
            raise CheckFailed(self.run.diagnosis.findings)

    def expect_identical(
        self, by_rank: Mapping[int, Value], subject: str, *, line: int | None = None, hint: str | None = None
    ) -> None:
        """The same bits on all ranks."""
        self._raise(compare.identical(by_rank, subject=subject, case=self.case.id), hint, line)

    def expect_count(self, *args: Any, **fields: Any) -> None:
        """Of every rank, as RankView.expect_count."""
        for rank in self:
            rank.expect_count(*args, **fields)

    def expect_none(self, *args: Any, **fields: Any) -> None:
        """Of every rank, as RankView.expect_none."""
        for rank in self:
            rank.expect_none(*args, **fields)

    def expect_peers(self, region: str, operation: str, peers: Mapping[int, Sequence[int]], **fields: Any) -> None:
        """Of every rank, as RankView.expect_peers; `peers` has them by rank."""
        for rank in self:
            rank.expect_peers(region, operation, peers[rank.rank], **fields)

    def expect_sent(self, region: str, at_most: float | Mapping[int, float], **fields: Any) -> None:
        """Of every rank, as RankView.expect_sent; `at_most` is one number, or one for each rank."""
        for rank in self:
            most = at_most[rank.rank] if isinstance(at_most, Mapping) else at_most
            rank.expect_sent(region, most, **fields)

    def expect_overlap(self, *args: Any, **fields: Any) -> None:
        """Of every rank, as RankView.expect_overlap."""
        for rank in self:
            rank.expect_overlap(*args, **fields)

    def expect_same_order(self, region: str, *, subject: str = "", **fields: Any) -> None:
        """In each group all ranks launch the same collectives of the same size in one order."""
        found = disagreement({rank.rank: rank.during(region) for rank in self})
        if found is not None:
            group, place, here = found
            self.fail(
                subject or f"collective {place + 1} in {region}",
                expected="the same on all ranks of the group",
                actual=", ".join(f"rank {rank}: {what}" for rank, what in sorted(here.items())),
                **{"ranks": group, **fields},
            )

    def expect_of_all(self, subject: str, expected: Mapping[int, Value], actual: Mapping[int, Value]) -> None:
        """Plain values by rank, exactly equal. The first fault is told once, for all ranks that share it."""
        wrong = {rank: (wanted, actual[rank]) for rank, wanted in expected.items() if actual[rank] != wanted}
        for wanted, seen in wrong.values():
            self.fail(subject, expected=wanted, actual=seen, ranks=[r for r in wrong if wrong[r] == (wanted, seen)])


class Runs(Knowing):
    """The runs of an exercise by case family. `run_case` is asked for each case when a check first needs it."""

    def __init__(self, cases: Sequence[Case], run_case: Callable[[Case], Run]) -> None:
        super().__init__()
        self._cases, self._run_case = cases, run_case
        self._views: dict[str, RunView] = {}

    def __call__(
        self, *names: str, finished: bool = True, recorded: Sequence[str] = (), after: Sequence[str] = ()
    ) -> tuple[RunView, ...]:
        """The runs of case families, one a world size. With `finished`, a run in which some rank did not finish
        fails the check with its diagnosis. `recorded` asks instead that every rank came as far as these observations;
        what went wrong later is another check's business, and so is what went wrong before the observations `after`
        were there: such a run is left out, and where none is left the check is not judged."""
        views = []
        for case in (case for name in names for case in self._family(name)):
            view = self._view(case)
            if view.came_to(after):
                views.append(view)
                if finished and not (recorded and view.came_to(recorded)):
                    view.require_finished()  # one that fails the check spares the wait for the rest
        if not views:
            raise NotJudged("the code did not come so far")
        return tuple(views)

    def _view(self, case: Case) -> RunView:
        """What there is to see of a case's run; the same object as long as the run is the same."""
        run = self.facts.asking(functools.partial(self._run_case, case))
        if case.id not in self._views or self._views[case.id].run is not run:
            self._views[case.id] = RunView(run, self.facts)
        return self._views[case.id]

    def _family(self, name: str) -> list[Case]:
        chosen = [case for case in self._cases if case.name == name]
        if not chosen:
            raise GraderError(f"no case family {name!r} in exercise.yaml")
        return chosen
