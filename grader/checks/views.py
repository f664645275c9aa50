"""What checks.py is written in: runs to look at, and expectations that fail with findings.

    def test_results_in_rank_order(runs):
        \"\"\"Results come back in rank order\"\"\"
        for run in runs("results"):
            run.expect_equal(run[0]["results"], list(range(run.world_size)), "the returned list")

Nothing here starts a process. A check that is not passed raises CheckFailed; any other exception is the author's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

from grader.checks import compare
from grader.checks.traffic import Traffic, amount, disagreement, traffic
from grader.model import Case, Ending, Finding, RankRecord, Run, Value
from grader.model.errors import CheckFailed, GraderError

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

    @property
    def trace(self) -> Traffic:
        """What this rank communicated. A rank that could not tell fails the check."""
        trace = self._record.trace
        if trace is None or not trace.complete:
            reason = "more than the grader keeps" if trace else "nothing, since it left before it could tell"
            self._run.fail("What the rank communicated", ranks=[self.rank], actual=reason)
        return traffic(trace)

    def during(self, region: str) -> Traffic:
        """What this rank launched in a region that the probe marked. Never having been there fails the check."""
        trace = self.trace
        if region not in trace.regions:
            self._run.fail(f"The code never came to {region}", ranks=[self.rank])
        return trace.during(region)


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

        `how` (reduction, terms, stale, alternatives) is handed to grader.checks.compare.close.
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

    def expect_count(
        self,
        region: str,
        operation: str,
        count: int | tuple[int, int],
        *,
        subject: str = "",
        at_least: float = 0,
        below: float = float("inf"),
        **fields: Any,
    ) -> None:
        """Every rank launches an operation so often in a region: `count` is a number, or the least and the most.
        Only payloads of `at_least` bytes and `below` others are counted."""
        low, high = count if isinstance(count, tuple) else (count, count)
        wanted = f"{low}" if low == high else f"{low} to {high}"
        for rank in self:
            part = rank.during(region).of(operation).at_least(at_least).below(below)
            self.expect(
                low <= len(part) <= high,
                subject or f"{operation} in {region}",
                expected=f"{wanted} {operation}",
                actual=told(part, operation),
                **{"ranks": [rank.rank], "line": line_of(part), **fields},
            )

    def expect_none(self, region: str, *operations: str, subject: str = "", at_least: float = 0, **fields: Any) -> None:
        """No rank launches any of some operations in a region."""
        for operation in operations:
            self.expect_count(region, operation, 0, subject=subject, at_least=at_least, **fields)

    def expect_sent(
        self,
        region: str,
        at_most: float | Mapping[int, float],
        *,
        subject: str = "",
        ignore_below: float = 0,
        **fields: Any,
    ) -> None:
        """No rank sends more bytes in a region, at ring cost, than `at_most` (a number, or one for each rank).
        Payloads below `ignore_below` bytes do not count."""
        for rank in self:
            part = rank.during(region).at_least(ignore_below)
            most = at_most[rank.rank] if isinstance(at_most, Mapping) else at_most
            self.expect(
                part.sent_bytes <= most,
                subject or f"the bytes that a rank sends in {region}",
                expected=f"at most {amount(most)}",
                actual=f"{amount(part.sent_bytes)}, by {told(part)}",
                **{"ranks": [rank.rank], "line": line_of(part), **fields},
            )

    def expect_overlap(
        self, region: str, *, subject: str = "", at_least: float = 0, in_all: float = 0, **fields: Any
    ) -> None:
        """In the last backward pass of a region every rank launches something while gradients are still to be
        computed: communications of `at_least` bytes, and of `in_all` bytes together. Judged by the order of launch; no
        clock is read."""
        for rank in self:
            part = rank.during(region).at_least(at_least)
            last = part.in_backward(part.backwards[-1]) if part.backwards else replace(part, communications=())
            early, much = last.overlapping(), f"{amount(in_all)} or more " if in_all else ""
            self.expect(
                len(early) and early.bytes >= in_all,
                subject or f"communication during the last backward pass of {region}",
                expected=f"{much}begun while gradients were still being computed",
                actual=_moment(part, last),
                **{"ranks": [rank.rank], "line": line_of(last) or line_of(part), **fields},
            )

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

    def _raise(self, findings: Iterator[Finding]) -> None:
        if found := tuple(islice(findings, MAX_FINDINGS)):
            raise CheckFailed(found)


def told(part: Traffic, operation: str = "") -> str:
    """4 all_reduce of 1.2 MB: operations by kind, with the mean payload of each kind."""
    kinds = [operation] if operation and not len(part) else list(dict.fromkeys(c.operation for c in part))
    return ", ".join(_told_kind(part.of(kind), kind) for kind in kinds) or "no communication"


def _told_kind(part: Traffic, kind: str) -> str:
    if not len(part):
        return f"no {kind}"
    sizes = {c.bytes for c in part}
    about = "" if len(sizes) == 1 else "about "
    return f"{len(part)} {kind} of {about}{amount(part.bytes / len(part))}"


def line_of(part: Traffic) -> int | None:
    """The student's line at which the last of them was launched."""
    return next((c.line for c in reversed(part.communications) if c.line), None)


def _moment(part: Traffic, last: Traffic) -> str:
    if early := last.overlapping():
        return f"only {told(early)} of {told(part)}"
    if last:
        return f"{told(last)}, begun when the last gradient was there"
    if not len(part):
        return "no communication"
    earlier = any(c.backward is not None for c in part)
    return f"{told(part)}, begun {'in earlier backward passes' if earlier else 'outside of backward'}"


class Runs:
    """The runs of an exercise by case family. `run_case` is asked for each case when a check first needs it."""

    def __init__(self, cases: Sequence[Case], run_case: Callable[[Case], Run]) -> None:
        self._cases, self._run_case = cases, run_case

    def __call__(self, name: str, *, finished: bool = True) -> tuple[RunView, ...]:
        """The runs of a case family, one a world size. With `finished`, a run in which some rank did not finish
        fails the check with its diagnosis."""
        chosen = [case for case in self._cases if case.name == name]
        if not chosen:
            raise GraderError(f"no case family {name!r} in exercise.yaml")
        views = tuple(RunView(self._run_case(case)) for case in chosen)
        if finished:
            for view in views:
                view.require_finished()
        return views
