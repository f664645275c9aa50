"""Whatever a rank may have sent, a check passes or fails: it raises nothing but failed expectations.

The runs of each exercise's solution are recorded once; then observations, or parts of them, are replaced by any value
that the wire allows, and all checks that look at that run judge it.
"""

from __future__ import annotations

import importlib.util
import inspect
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader import catalog
from grader.checks import CheckFailed, NotJudged, Runs, RunView
from grader.judge import load_probe
from grader.model import Exercise, Run
from grader.records import wire
from tests.fuzzing import fuzz
from tests.solutions import Solutions

ROOT = Path(__file__).parents[1]
NAMES = catalog.all_names(ROOT)
EXAMPLES = 40

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
DTYPES += [torch.complex64, torch.complex128]
SHAPES = [(), (0,), (1,), (3,), (2, 3), (0, 4), (1, 1, 1)]
TENSORS = st.builds(lambda shape, dtype: torch.ones(shape).to(dtype), st.sampled_from(SHAPES), st.sampled_from(DTYPES))
TENSORS |= st.sampled_from([torch.tensor([float("nan"), float("inf")]), torch.ones(5, 4).double() * -1e308])
SCALARS = st.none() | st.booleans() | st.integers(-3, 10) | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
SCALARS |= st.sampled_from([2**999, -(2**999), 2**63, "x" * 3000, "ValueError", "\ud800\x1b[2J", b"PK\x03\x04"])
SCALARS |= TENSORS
KEYS = st.text(max_size=3) | st.integers(-2, 3) | st.none() | st.floats(-9, 9) | st.binary(max_size=2)
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)


@st.composite
def altered(draw: st.DrawFn, value: Any) -> Any:
    """A value with one part of it, at any depth, replaced, left out or doubled."""
    inside = isinstance(value, list | dict) and value and draw(st.integers(0, 3))
    if not inside:
        return draw(similar(value) if draw(st.booleans()) else JUNK)
    if isinstance(value, dict):
        key = draw(st.sampled_from(sorted(value, key=repr)))
        if draw(st.integers(0, 7)) == 0:
            return {other: one for other, one in value.items() if other != key}
        return {**value, key: draw(altered(value[key]))}
    place = draw(st.integers(0, len(value) - 1))
    how = draw(st.integers(0, 7))
    parts = [] if how == 0 else [value[place]] * 2 if how == 1 else [draw(altered(value[place]))]
    return [*value[:place], *parts, *value[place + 1 :]]


def similar(value: Any) -> st.SearchStrategy[Any]:
    """Values of the same type, which a check that looks at types alone takes for right."""
    if isinstance(value, torch.Tensor):
        likely = [value.new_zeros(0), value.new_zeros(value.shape), value.reshape(-1), value[..., None]]
        return st.sampled_from([*likely, value.double() * float("nan")])
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, int):
        return st.sampled_from([0, -1, 1, value + 1, 2**63, 2**999, -(2**999)])
    if isinstance(value, float):
        return st.floats()
    if isinstance(value, str):
        return st.text(max_size=8)
    return st.sampled_from([[], {}, b"", None])


class Bench:
    """One exercise with the runs of its solution, its checks as functions, and the families that each asks for."""

    def __init__(self, exercise: Exercise, runs: tuple[Run, ...]) -> None:
        self.exercise, self.runs = exercise, {run.case.id: run for run in runs}
        self._functions, self._probe = _functions(exercise), load_probe(exercise)
        self._checks = {check.id: check for check in exercise.checks}
        self.families: dict[str, set[str]] = {check: set() for check in self._checks}
        for check in self._checks:  # the solution passes, and it is seen what each check asks for
            self._call(check, self.runs, self.families[check])

    def places(self, check: str) -> list[tuple[str, int, str]]:
        """Case, rank and name of each observation that a check may look at."""
        runs = [run for run in self.runs.values() if run.case.name in self.families[check]]
        return [(run.case.id, one.rank, name) for run in runs for one in run.ranks for name in one.observations]

    def passes(self, check: str, runs: dict[str, Run]) -> bool:
        """Whether a check passes, where those that it needs do. Raises what it raises beside CheckFailed."""
        if not all(self.passes(needed, runs) for needed in self._checks[check].needs):
            return False
        try:
            self._call(check, runs, set())  # what it asks for now is not noted: what is drawn from must stay the same
        except CheckFailed as failed:
            assert str(failed)
            return False
        except NotJudged:
            return False
        return True

    def _call(self, check: str, runs: dict[str, Run], asked: set[str]) -> None:
        noted = _NotedRuns(self.exercise.cases, runs, asked)
        given, function = {"runs": noted, "probe": self._probe}, self._functions[check]
        function(**{name: given[name] for name in inspect.signature(function).parameters})


class _NotedRuns(Runs):
    def __init__(self, cases: Any, runs: dict[str, Run], asked: set[str]) -> None:
        super().__init__(cases, lambda case: runs[case.id])
        self._asked = asked

    def __call__(self, *names: str, **how: Any) -> tuple[RunView, ...]:
        self._asked.update(names)
        return super().__call__(*names, **how)


def _functions(exercise: Exercise) -> dict[str, FunctionType]:
    spec = importlib.util.spec_from_file_location(f"odd_checks_{exercise.number}", exercise.folder / "checks.py")
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {check.id: getattr(module, f"test_{check.id}") for check in exercise.checks}


@pytest.fixture(scope="module", params=NAMES)
def bench(request: pytest.FixtureRequest, solved: Solutions) -> Bench:
    solution = solved(request.param)
    return Bench(solution.exercise, solution.runs)


@pytest.mark.one_in(5)
@pytest.mark.timeout(600)
def test_a_check_raises_nothing_but_failed_expectations(bench: Bench) -> None:
    """Each part of what a rank recorded may be anything that crosses the wire."""

    @fuzz(EXAMPLES)
    @given(data=st.data())
    def try_one(data: st.DataObject) -> None:
        check = data.draw(st.sampled_from([check for check in bench.families if bench.places(check)]))
        case, rank, name = data.draw(st.sampled_from(bench.places(check)))
        run = bench.runs[case]
        observations = dict(run.ranks[rank].observations)
        observations[name] = wire.decode(wire.encode(data.draw(altered(observations[name]))))
        records = [replace(one, observations=observations) if one.rank == rank else one for one in run.ranks]
        bench.passes(check, {**bench.runs, case: replace(run, ranks=tuple(records))})

    try_one()
