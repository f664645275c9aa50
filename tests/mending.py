"""Mends of the small exercise (tests/small.py), recorded without a process: what tests of mending share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from grader import catalog
from grader.authoring import mends
from grader.model import Case, Exercise, Run, Submission
from grader.practice.mend import pack
from grader.practice.mend.pack import Packed
from tests import fakes, small


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
