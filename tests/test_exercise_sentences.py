"""Sentences of single exercises' checks, over runs that are made by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from grader import catalog
from grader.checks import CheckFailed, Runs
from grader.checks.views import RunView
from grader.judge import load_probe
from grader.model import Deadlocked, Diagnosis, Finding, Finished, Killed, RankRecord, Run, Wait

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


def test_a_state_that_does_not_load_because_of_what_is_frozen_is_told_so() -> None:
    """07: whoever deals out the parameters by what is trained deals otherwise when the frozen ones are not any more. Of
    two ranks the one that raised is told, not the one that lost its neighbour."""
    exercise = catalog.load("07_sharded_optimizer", ROOT)
    (case,) = (case for case in exercise.cases if case.name == "resume")
    odd = {"raised": ["ValueError", "Exception"], "message": "a group that doesn't match", "line": 59, "said": ""}
    lost = {"raised": ["RuntimeError", "Exception"], "message": "Connection reset by peer", "line": 33, "said": ""}
    ranks = tuple(
        RankRecord(rank=rank, ending=Finished(), observations={"AdamW: loaded": seen})
        for rank, seen in enumerate((lost, odd))
    )
    diagnosis = Diagnosis(kind="raised", ranks=(1,), findings=(Finding(subject="ValueError was raised"),))
    run = RunView(Run(case=case, ranks=ranks, seconds=1.0, diagnosis=diagnosis))
    with pytest.raises(CheckFailed) as failed:
        checks_of("07_sharded_optimizer").expect_loaded_unfrozen(run, run.parameters)
    (finding,) = failed.value.findings
    assert (finding.ranks, finding.line) == ((1,), 59)
    assert finding.subject.endswith("whose parameters are all trained, where 'weight' was frozen at saving")
    assert finding.actual == "ValueError: a group that doesn't match"


def test_a_call_that_raised_on_every_rank_is_told_before_what_its_messages_did_to_the_next() -> None:
    """08: a size-mismatch that ends the process comes of a message that nobody has received."""
    exercise = catalog.load("08_ring_all_reduce", ROOT)
    (case,) = (case for case in exercise.cases if (case.name, case.world_size) == ("ring", 2))
    checks, probe = checks_of("08_ring_all_reduce"), load_probe(exercise)
    before = list(probe.AGAIN | probe.SHAPES | probe.VIEWS)[-1]
    seen = {
        **{"raised": ["IndexError", "Exception"], "message": "out of range", "line": 14, "said": "", "returned": ""},
        **{"before": {}, "after": {}, "result": torch.zeros(7), "around": torch.zeros(1)},
    }
    observations = {before: None, "7 elements": seen}
    ranks = tuple(
        RankRecord(rank=rank, ending=Killed(signal="SIGABRT"), observations=observations) for rank in range(2)
    )
    diagnosis = Diagnosis(kind="killed", ranks=(0,), findings=(Finding(subject="The process was ended"),))
    runs = Runs([case], lambda asked: Run(case=asked, ranks=ranks, seconds=1.0, diagnosis=diagnosis))
    with pytest.raises(CheckFailed) as failed:
        checks.runs_with(runs, probe, probe.SIZES)
    (finding,) = failed.value.findings
    assert (finding.subject, finding.line) == ("ring_all_reduce of 7 elements", 14)
    assert finding.actual == "IndexError: out of range"


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


def test_rates_after_a_resumption_are_said_to_come_of_a_second_load() -> None:
    """17: a scheduler that takes the state apart as it loads it is right after the first load."""
    exercise = catalog.load("17_learning_rate", ROOT)
    case, probe = next(c for c in exercise.cases if c.name == "schedule"), load_probe(exercise)
    rates = torch.ones(probe.several(case.secret_of(0))["warmup"] + probe.AFTER, 5, dtype=torch.float64)
    other = {f"{order}, other rates": {"outcome": FINE, "rates": 3 * rates} for order in probe.FIRST}
    seen = {"undisturbed": {"outcome": FINE, "rates": rates}, **other}
    record = RankRecord(rank=0, ending=Finished(), observations=seen)
    runs = Runs([case], lambda asked: Run(case=asked, ranks=(record,), seconds=1.0))
    with pytest.raises(CheckFailed) as failed:
        checks_of("17_learning_rate").test_resumes_rates(runs, probe)
    (finding,) = failed.value.findings
    assert finding.subject.endswith(", each time by the second load of one state: the rates by step and group")


@pytest.mark.parametrize(("memory", "told"), [(1e12, "r=0"), (1e6, "r=0; a plan that does not fit")])
def test_a_cost_that_is_asked_of_a_plan_that_does_not_fit_says_so(memory: float, told: str) -> None:
    """20: the subject of the questions about costs."""
    model, cluster = (4, 1024, 16, 1024, 32000, 16), (2, 4, memory, 1e14, 1e11, 1e10, 1e-5)
    assert checks_of("20_plan_parallelism").shown(model, cluster, (2, 2, 2, 1, 2, False)).endswith(told)


@pytest.mark.parametrize(("skipped", "asked"), [(True, [0]), (False, [2])])
def test_gradients_that_are_taken_for_zeros_are_charged_once(
    monkeypatch: pytest.MonkeyPatch, skipped: bool, asked: list[int]
) -> None:
    """10: whoever takes a skipped gradient for zeros has cleared the others all the same."""
    checks, probe = checks_of("10_zero2"), load_probe(catalog.load("10_zero2", ROOT))
    run, seen = SimpleNamespace(parameters={"sizes": {"steps": 3}}), []

    def steps(run: Any, probe: Any, name: str, shapes: Any = None, given: Any = None) -> None:
        seen.extend([given(None, 2, "norm")] if given else [])

    def holds(expectation: Any, *args: Any) -> bool:
        return skipped if expectation is checks.test_absent else expectation(*args) is None

    monkeypatch.setattr(checks, "judged", lambda *args: [run])
    monkeypatch.setattr(checks, "expect_steps", steps)
    monkeypatch.setattr(checks, "holds", holds)
    checks.test_zero_grad(None, probe)
    assert seen == asked


def failure_of_21(name: str, *handed: Any) -> Finding:
    """What one of the expectations of 21 says of a rank."""
    case = catalog.load("21_debug_distributed", ROOT).cases[0]
    ranks = tuple(RankRecord(rank=rank, ending=Finished(), observations={}) for rank in range(case.world_size))
    rank = RunView(Run(case=case, ranks=ranks, seconds=1.0))[1]
    with pytest.raises(CheckFailed) as failed:
        getattr(checks_of("21_debug_distributed"), name)(rank, *handed)
    return failed.value.findings[0]


def test_right_elements_in_new_memory_are_told_from_wrong_ones() -> None:
    """21: whoever sets `tensor.data` has received rightly, and the old memory has the rank's own elements still."""
    own, wanted = torch.zeros(3), torch.ones(3)
    seen = {"after": own, "elsewhere": wanted}
    finding = failure_of_21("expect_filled", seen, wanted, "the tensor", {"these are rank 1's elements": own})
    assert finding.actual == "the right ones in new memory, and in its own what was there before"
    seen = {"after": own, "elsewhere": own}
    finding = failure_of_21("expect_filled", seen, wanted, "the tensor", {"these are rank 1's elements": own})
    assert finding.actual == "these are rank 1's elements"


def test_a_wrong_value_has_a_hint_that_fits_it() -> None:
    """21: the hints of the checks are for ranks that wait and for strides."""
    wanted, nan = torch.ones(3), torch.full((3,), torch.nan)
    assert "0 times NaN" in str(failure_of_21("expect_same", nan, wanted, "the tensor").hint)
    large = torch.tensor([2**60 + 1])
    assert "last digits" in str(failure_of_21("expect_total", large - 1, [large], large, "the sum").hint)
    assert "The calls were matched" in str(failure_of_21("expect_total", wanted, [wanted, wanted], wanted, "it").hint)


def test_what_a_later_call_has_overwritten_has_a_hint_of_its_own() -> None:
    """00: the hints of the check itself are about kinds of values."""
    checks, exercise = checks_of("00_warm_up"), catalog.load("00_warm_up", ROOT)
    (case,) = (case for case in exercise.cases if (case.name, case.world_size) == ("total", 1))
    later, one = load_probe(exercise).AFTERWARDS, torch.ones(2)
    summed = {"type": "tensor", "tensor": one, "argument": one}
    rank = RankRecord(rank=0, ending=Finished(), observations={"vector": summed, f"vector{later}": summed})
    run = RunView(Run(case=case, ranks=(rank,), seconds=1.0))
    for when, hint in (("", None), (later, checks.EARLIER)):
        with pytest.raises(CheckFailed) as failed:
            checks.judge_total(run, "vector", [2 * one], when)
        assert [(one.subject.endswith(when), one.hint) for one in failed.value.findings] == [(True, hint)]
