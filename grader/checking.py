"""What checks.py is written in: runs to look at, and expectations that fail with findings.

    def test_results_in_rank_order(runs):
        \"\"\"Results come back in rank order\"\"\"
        for run in runs("results"):
            run.expect_equal(run[0]["results"], list(range(run.world_size)), "the returned list")

Nothing here starts a process. A check that is not passed raises CheckFailed; any other exception is the author's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn

from grader import compare
from grader.errors import CheckFailed
from grader.model import Case, Ending, Finding, RankRecord, Run, Value

__all__ = ["CheckFailed", "RankView", "RunView", "Runs"]

MAX_FINDINGS = 5


class RankView:
    """One rank of a run: `rank`, `ending`, and what its probe recorded."""

    def __init__(self, record: RankRecord, run: RunView) -> None:
        self._record, self._run = record, run

    @property
    def rank(self) -> int:
        return self._record.rank

    @property
    def ending(self) -> Ending:
        return self._record.ending

    def __getitem__(self, name: str) -> Value:
        """The observation `name`; a rank that does not have it fails the check."""
        if name not in self._record.observations:
            self._run.fail(
                f"The grader saw no {name!r}", ranks=[self.rank], actual="the code left before it was recorded"
            )
        return self._record.observations[name]

    def get(self, name: str, default: Value = None) -> Value:
        return self._record.observations.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self._record.observations


class RunView:
    """One run of a case, with the expectations that a check can state about it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ranks = tuple(RankView(record, self) for record in run.ranks)

    @property
    def case(self) -> Case:
        return self._run.case

    @property
    def world_size(self) -> int:
        return self._run.case.world_size

    @property
    def seed(self) -> int:
        return self._run.case.seed

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._run.case.parameters

    def __iter__(self) -> Iterator[RankView]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)

    def __getitem__(self, rank: int) -> RankView:
        return self._ranks[rank]

    def require_finished(self) -> None:
        """Fail with the run's diagnosis if a rank did not finish."""
        if self._run.diagnosis is not None:
            raise CheckFailed(self._run.diagnosis.findings)

    def fail(
        self,
        subject: str,
        *,
        expected: Any = "",
        actual: Any = "",
        ranks: Sequence[int] = (),
        line: int | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        """The check has failed: one fault, what was expected, what was seen, where."""
        finding = Finding(
            subject=subject,
            expected=str(expected),
            actual=str(actual),
            ranks=tuple(ranks),
            line=line,
            hint=hint,
            case=self.case.id,
        )
        raise CheckFailed((finding,))

    def expect(self, condition: object, subject: str, **fields: Any) -> None:
        """Fail unless `condition` holds; `fields` as for fail."""
        if not condition:
            self.fail(subject, **fields)

    def expect_equal(self, actual: Value, expected: Value, subject: str, *, ranks: Sequence[int] = ()) -> None:
        """Plain values, exactly equal."""
        self._raise(compare.equal(actual, expected, subject=subject, ranks=ranks, case=self.case.id))

    def expect_close(
        self, actual: Value, expected: Value, subject: str, *, ranks: Sequence[int] = (), **how: Any
    ) -> None:
        """Tensors, floats, or dicts and lists of them, within the tolerance of their dtype.

        `how` (reduction, terms, stale, alternatives) is handed to grader.compare.close.
        """
        how = {"world_size": self.world_size, **how}
        self._raise(compare.close(actual, expected, subject=subject, ranks=ranks, case=self.case.id, **how))

    def expect_identical(self, by_rank: Mapping[int, Value], subject: str) -> None:
        """The same bits on all ranks."""
        self._raise(compare.identical(by_rank, subject=subject, case=self.case.id))

    def expect_raised(
        self, attempt: Mapping[str, Any], error: str, subject: str, *, ranks: Sequence[int] = (), **fields: Any
    ) -> None:
        """An attempt, as `rank.attempt(...).described()` recorded it, raised `error` or a subclass of it."""
        raised = attempt["raised"]
        if error not in raised:
            actual = f"{raised[0]}: {attempt['message']}" if raised else "no exception"
            self.fail(subject, expected=error, actual=actual, ranks=ranks, line=attempt["line"], **fields)

    def _raise(self, findings: Iterator[Finding]) -> None:
        if found := tuple(islice(findings, MAX_FINDINGS)):
            raise CheckFailed(found)


class Runs:
    """The runs of an exercise by case family. `run_case` is asked for each case when a check first needs it."""

    def __init__(self, cases: Sequence[Case], run_case: Callable[[Case], Run]) -> None:
        self._cases, self._run_case = cases, run_case

    def __call__(self, name: str, *, finished: bool = True) -> tuple[RunView, ...]:
        """The runs of a case family, one a world size. With `finished`, a run in which some rank did not finish
        fails the check with its diagnosis."""
        chosen = [case for case in self._cases if case.name == name]
        if not chosen:
            raise KeyError(f"no case family {name!r} in exercise.yaml")
        views = tuple(RunView(self._run_case(case)) for case in chosen)
        if finished:
            for view in views:
                view.require_finished()
        return views
