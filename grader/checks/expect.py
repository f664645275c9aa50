"""Expectations: what a check states about a rank or a run, failing with findings that name both by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from grader.checks import compare
from grader.checks.observations import Attempt, Tensors, WrongKind, type_hint, typed
from grader.checks.once import Facts, Knowing, worked_out
from grader.checks.tolerance import Reduction
from grader.model import Case, Finding, OpenedFile, Value
from grader.model.errors import CheckFailed, GraderError, NotJudged
from grader.model.plain import error_in_words, no_keyboard
from grader.model.run import digest_of

if TYPE_CHECKING:
    import torch

MAX_FINDINGS = 5
NO_EXCEPTION = "no exception"
NOT_OPENED = OpenedFile(digest="", problem="it was not opened with the others")


class Expectations(Knowing):
    """What a RankView and a RunView have in common. A finding names `ranks` unless it is given others. `opened` are the
    files that the ranks wrote."""

    def __init__(
        self, case: Case, ranks: tuple[int, ...], opened: Sequence[OpenedFile] = (), facts: Facts | None = None
    ) -> None:
        super().__init__(facts)
        self.case, self._ranks, self._opened = case, ranks, opened

    @property
    def world_size(self) -> int:
        return self.case.world_size

    @property
    def seed(self) -> int:
        return self.case.seed

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What exercise.yaml hands to the case."""
        return self.case.parameters

    def fail(
        self,
        subject: str,
        *,
        expected: Any = "",
        actual: Any = "",
        ranks: Sequence[int] | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        """The check has failed: one fault, what was expected, what was seen, where. What was seen may say more of it
        than the check's hint."""
        finding = Finding(
            subject=subject,
            expected=str(expected),
            actual=str(actual),
            ranks=self._named(ranks),
            line=line,
            hint=no_keyboard(str(actual)) or hint,
            case=self.case.id,
        )
        raise CheckFailed((finding,))

    def expect(self, condition: object, subject: str, expected: Any = "", actual: Any = "", **fields: Any) -> None:
        """Fail unless `condition` holds; `fields` as for fail."""
        if not condition:
            self.fail(subject, expected=expected, actual=actual, **fields)

    def expect_equal(
        self,
        actual: Value,
        expected: Value,
        subject: str,
        *,
        ranks: Sequence[int] | None = None,
        line: int | None = None,
        hint: str | None = None,
        budget: int = 5,
    ) -> None:
        """Plain values, exactly equal."""
        found = compare.equal(
            actual, expected, subject=subject, ranks=self._named(ranks), case=self.case.id, budget=budget
        )
        self._raise(found, hint, line)

    def expect_close(
        self,
        actual: Value,
        expected: Value,
        subject: str,
        *,
        ranks: Sequence[int] | None = None,
        steps: int | None = None,
        line: int | None = None,
        hint: str | None = None,
        **how: Any,
    ) -> None:
        """Tensors, floats, or dicts and lists of them, within the tolerance of their dtype: sums of `terms` terms in
        another order, or values after so many dependent `steps`.

        `how` (terms, reduction, stale, alternatives, budget) is handed to grader.checks.compare.close.
        """
        if steps is not None:
            how = {"reduction": Reduction.ACCUMULATED, "terms": steps, **how}
        how = {"world_size": self.world_size, **how}
        whose: dict[str, Any] = {"ranks": self._named(ranks), "case": self.case.id}
        found = compare.close(actual, expected, subject=subject, **whose, **how)
        self._raise(found, hint, line)

    def expect_like(self, values: Tensors, like: Mapping[str, torch.Tensor], subject: str, **fields: Any) -> Tensors:
        """The values, if they have the names, shapes and dtypes of `like`. If there is but one, and it has the subject
        for its name, it is told without a name."""
        kinds, wanted = ({name: _kind(tensor) for name, tensor in one.items()} for one in (values, like))
        if kinds != wanted:  # to find out what is wrong takes longer than that something is
            odd = {name for name in kinds | wanted if kinds.get(name) != wanted.get(name)}
            seen, asked = ({name: one[name] for name in one if name in odd} for one in (values, like))
            if seen.keys() == asked.keys() == {subject}:
                self.expect_equal(seen[subject], asked[subject], subject, **fields)
            self.expect_equal(seen, asked, subject, **fields)
        return values

    def expect_raised(
        self, attempt: Attempt, error: str, subject: str, *, returned: str = NO_EXCEPTION, **fields: Any
    ) -> None:
        """A call, as `rank.attempt(...).described()` recorded it, raised `error` or a subclass of it. `returned` tells
        what it did instead of raising."""
        if error not in attempt["raised"]:
            actual = error_text(attempt) if attempt["raised"] else returned
            self.fail(subject, expected=error, actual=actual, **{"line": attempt["line"], **fields})

    def expect_success(self, attempt: Attempt, subject: str, *, expected: str = NO_EXCEPTION, **fields: Any) -> None:
        """A call, recorded likewise, raised nothing."""
        if attempt["raised"]:
            self.fail(subject, expected=expected, actual=error_text(attempt), **{"line": attempt["line"], **fields})

    def expect_kind(self, value: Value, kind: Any, subject: str, **fields: Any) -> Any:
        """The value, if it is of this kind (see grader.checks.observations)."""
        try:
            return typed(value, kind)
        except WrongKind as wrong:
            told = {"expected": wrong.expected, "actual": wrong.actual, "hint": wrong.hint}
            self.fail(f"{subject}{wrong.place}", **{**told, **fields})

    def expect_type(self, seen: str, wanted: str, subject: str, **fields: Any) -> None:
        """What the student's code gave is of the type of this name; `seen` is the name of its type, as a probe recorded
        it."""
        if seen != wanted:
            self.fail(subject, **{"expected": wanted, "actual": seen, "hint": type_hint(wanted, seen), **fields})

    def expect_loads(
        self, data: bytes | None, subject: str, *, wanted: str = "a state dict", missing: str = "a file", **fields: Any
    ) -> dict[Any, Any]:
        """The dict in a file that torch.save wrote, by the bytes of it that a rank recorded. It was opened outside of
        the judge, with weights_only=True onto the CPU, so the case has to say `opens_files: true`. `wanted` says what
        it should be, `missing` what is not there where there are no bytes."""
        if data is None:
            self.fail(subject, expected=missing, actual="there is none", **fields)
        if not self.case.opens_files:
            raise GraderError(f"{self.case.id} does not say `opens_files: true`, so no file of it can be looked into")
        file = next((file for file in self._opened if file.digest == digest_of(data)), NOT_OPENED)
        if file.problem:
            wanted = f"{wanted} that loads with weights_only=True"
            self.fail(subject, expected=wanted, actual=file.problem, **fields)
        if not isinstance(file.content, dict):
            self.fail(subject, expected=wanted, actual=f"a {type(file.content).__name__}", **fields)
        return file.content

    def _named(self, ranks: Sequence[int] | None) -> tuple[int, ...]:
        return self._ranks if ranks is None else tuple(ranks)

    def _raise(self, findings: Iterator[Finding], hint: str | None = None, line: int | None = None) -> None:
        """The check has failed, if there are faults; what a fault says for itself goes before `hint` and `line`."""
        if found := tuple(islice(findings, MAX_FINDINGS)):
            raise CheckFailed(tuple(replace(one, hint=one.hint or hint, line=one.line or line) for one in found))


def holds(expectation: Callable[..., object], *args: Any, **fields: Any) -> bool:
    """Whether an expectation holds, for a check that goes another way where it does not instead of failing. One that
    cannot be judged does not hold. Of something recorded that is found out once (`once`)."""
    try:
        worked_out(expectation, args, fields)
    except (CheckFailed, NotJudged):
        return False
    return True


def error_text(attempt: Attempt) -> str:
    """`ValueError: what it says`, or `no exception`."""
    return error_in_words(attempt["raised"][0], attempt["message"])[:300] if attempt["raised"] else NO_EXCEPTION


def _kind(tensor: torch.Tensor) -> list[Any]:
    return [list(tensor.shape), str(tensor.dtype)]
