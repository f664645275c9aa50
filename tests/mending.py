"""Mends of the small exercise (tests/small.py), recorded without a process, and somebody who mends: what tests of
mending share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from grader import catalog
from grader.authoring import mends
from grader.grading import flow
from grader.grading.request import Request
from grader.model import Case, Exercise, Report, Run, Submission
from grader.practice.mend import pack
from grader.practice.mend.draw import Offer
from grader.practice.mend.kept import Mend
from grader.practice.mend.pack import Packed
from grader.practice.mend.session import MendSession
from grader.practice.store import Store
from grader.quiz.page import Page
from grader.render import terminal
from tests import fakes, small
from tests.attempts import NOW
from tests.interviewing import Clock
from tests.people import asker

SOLUTION = small.FILES["reference/90_total/total.py"]
OTHERWISE_WRONG = SOLUTION.replace("raise TypeError", "return TypeError")


def behaves(submission: Submission, case: Case) -> Run:
    """What the solution of the small exercise does, and two of its mutants: a lone rank's own value, no refusal."""
    source = submission.source.decode()
    if case.name == "sum" and "dist.all_reduce(result)" not in source:
        values = [torch.full((4,), float(rank), dtype=torch.float64) for rank in range(case.world_size)]
        return replace(small.sum_run(case.world_size, *values), case=case)
    if case.name == "bad" and "raise TypeError" not in source:
        return replace(small.bad_run(), case=case)
    return fakes.right(submission, case)


def exercise(root: Path) -> Exercise:
    return catalog.load(small.NAME, root)


def recorded(root: Path) -> tuple[Packed, ...]:
    """`forgets_to_reduce` and `takes_anything`; what `adds_its_rank` does wrong no fake shows, so it is left out."""
    found = exercise(root)
    mutants = catalog.load_mutants(found, root)
    return tuple(mends.record(found, root, fakes.FakeSession(otherwise=behaves), mutants))


def packed(root: Path) -> tuple[Packed, ...]:
    """The same, with their pack written."""
    found = recorded(root)
    pack.save(pack.place(small.NAME, root), small.NAME, found)
    return found


def of(root: Path, mutant: str = "forgets_to_reduce") -> Packed:
    """One of the pack."""
    found = pack.load(small.NAME, root)
    assert found is not None
    packed = found.named(mutant)
    assert packed is not None
    return packed


def mend(offer: Offer, name: str = "1", **facts: Any) -> Mend:
    given: dict[str, Any] = {"at": NOW, "file": "mends/01_join/1/join.py", "minutes": 12.0, **facts}
    return Mend(name=name, exercise=offer.exercise, mutant=offer.mutant, fails=offer.fails, **given)


@dataclass
class Person:
    """Somebody who mends the small exercise as a script says: lines, what to raise, or what to do before the next."""

    root: Path
    folder: Path
    store: Store
    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.folder / "total.py"
        self.file.write_text(of(self.root).source)

    def session(self, *script: Any, kept: Mend | None = None, **facts: Any) -> MendSession:
        found, packed = exercise(self.root), of(self.root)
        fresh = mend(Offer(exercise=small.NAME, mutant=packed.mutant, fails=packed.fails))
        given: dict[str, Any] = {"grade": self.grade, **facts}
        return MendSession(
            mend=kept or fresh, packed=packed, exercise=found, file=self.file, store=self.store, now=self.clock,
            recorded=pack.report_of(packed, found, self.file), ask=asker(script), say=self.said.append,
            show=terminal.render, page=Page(plain=True), **given,
        )  # fmt: skip

    def grade(self) -> Report:
        request = Request(exercise=small.NAME, root=self.root, submission=self.file, seed=3)
        return flow.grade(request, fakes.FakeSession(otherwise=behaves))

    def writes(self, source: str) -> Callable[[], object]:
        return lambda: self.file.write_text(source)

    def waits(self, **span: float) -> Callable[[], object]:
        return lambda: self.clock.move(**span)

    @property
    def text(self) -> str:
        return " ".join("\n".join(self.said).split())
