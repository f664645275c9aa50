"""Sentences of single exercises' checks, over runs that are made by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grader import catalog
from grader.checks import CheckFailed, NotJudged, Runs, parts
from grader.judge import load_probe
from grader.model import Case, Deadlocked, RankRecord, Run, Wait

ROOT = Path(__file__).parents[1]
FINE: dict[str, Any] = {"raised": [], "message": "", "line": None, "said": ""}


def checks_of(name: str) -> ModuleType:
    """An exercise's checks.py."""
    path = catalog.load(name, ROOT).folder / "checks.py"
    spec = importlib.util.spec_from_file_location(f"sentences_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_rank_0_raised_stands_beside_the_ranks_that_wait_for_it() -> None:
    """06: which failure was staged, what rank 0 made of it, at which line, and who never came back. Where rank 0 waits
    afterwards is the grader's own barrier, and is not told."""
    exercise = catalog.load("06_checkpoint", ROOT)
    cases = {(c.name, c.world_size): c for c in exercise.cases}
    case, other = cases["failing", 3], cases["together", 3]
    full = {"raised": ["OSError", "Exception"], "message": "[Errno 27] File too large", "line": 57, "said": ""}
    waits = Deadlocked(wait=Wait(operation="barrier"))
    seen: list[dict[str, Any]] = [{"first": FINE, "middle": full}, {"first": FINE}, {"first": FINE}]
    ranks = tuple(RankRecord(rank=rank, ending=waits, observations=told) for rank, told in enumerate(seen))
    none = tuple(RankRecord(rank=rank, ending=waits, observations={}) for rank in range(3))
    recorded = {case.name: ranks, other.name: none}
    runs = Runs([case, other], lambda asked: Run(case=asked, ranks=recorded[asked.name], seconds=1.0))
    with pytest.raises(CheckFailed) as failed:
        checks_of("06_checkpoint").test_every_rank_raises(runs, load_probe(exercise))
    (finding,) = failed.value.findings
    assert (finding.ranks, finding.line) == ((1, 2), 57)
    assert finding.subject == "saving where the disk is full in the middle of writing"
    assert finding.actual == "ranks 1, 2 never came back: rank 0 had raised OSError: [Errno 27] File too large"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("", "BrokenProcessPool: "),
        ('\n"""\nTraceback (most recent call last):\nKeyError: 3\n"""', "BrokenProcessPool: KeyError: 3"),
        ("\n\n-- Process 2 terminated:\nValueError: no\n", "BrokenProcessPool: ValueError: no"),
    ],
)
def test_the_line_that_names_an_error_is_told(message: str, told: str) -> None:
    """04: pools begin what they raise with an empty line, and end it with quotation marks."""
    call = {**FINE, "raised": ["BrokenProcessPool"], "message": message}
    assert checks_of("04_launch_distributed").first_line(call) == told


def test_what_no_run_of_several_ranks_came_to_is_not_judged() -> None:
    """10, 11: else what is right on one rank alone would pass. One of these runs is enough."""
    two, three = (Case(name="parts", world_size=size, probe="probe") for size in (2, 3))
    hangs = Deadlocked(wait=Wait(operation="barrier"))

    def earlier(ctx: Any) -> None: ...

    def later(ctx: Any) -> None: ...

    def arrived(came: list[Case]) -> list[int]:
        def run_of(case: Case) -> Run:
            told = {"earlier ended": True, "seen": 3} if case in came else {}
            ranks = [RankRecord(rank=rank, ending=hangs, observations=told) for rank in range(case.world_size)]
            return Run(case=case, ranks=tuple(ranks), seconds=1.0)

        runs = Runs([two, three], run_of)
        return [run.world_size for run in parts.arrived(runs, {"parts": [earlier, later]}, "later", ["seen"])]

    assert (arrived([two, three]), arrived([three])) == ([2, 3], [3])
    with pytest.raises(NotJudged):
        arrived([])
