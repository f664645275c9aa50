"""The formulas of exercise 19, and the calculations that use them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader.authoring.quiz_calculation import evaluate
from grader.authoring.quiz_formulas import solved
from grader.quiz import units
from grader.quiz.numbers import formulas_of

formulas = SimpleNamespace(**solved())


@pytest.mark.parametrize(
    "value, expected",
    [
        (formulas.model_state_bytes(100e6, 2, 0), 1.6e9),
        (formulas.model_state_bytes(100e6, 2, 2), 0.9e9),
        (formulas.model_state_bytes(100e6, 2, 3), 0.8e9),
        (formulas.model_state_bytes(10e9, 8, 0), 160e9),
        (formulas.model_state_bytes(10e9, 8, 3), 20e9),
        (formulas.model_state_bytes(7.5e9, 64, 1), 31.40625e9),
        (formulas.tensor_parallel_bytes(12, 8, 512, 512), 24 * 8 * 512 * 512 * 2),
        (formulas.pipeline_utilization(2, 1), 0.5),
        (formulas.pipeline_utilization(2, 4), 0.8),
        (formulas.pipeline_utilization(2, 8), 8 / 9),
        (formulas.communication_efficiency(10e-3, 8e-3), 10 / 18),
        (formulas.all_reduce_bytes(1e9, 1), 0.0),
        (formulas.all_reduce_seconds(8e9, 2, 4e9, 0.5), 2.0 + 1.0),
        (formulas.amdahl_speedup(1, 7), 7.0),
        (formulas.amdahl_speedup(0, 7), 1.0),
    ],
)
def test_formulas_meet_the_known_anchors(value, expected):
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: formulas.all_reduce_bytes(1.0, 0),
        lambda: formulas.all_reduce_bytes(-1.0, 2),
        lambda: formulas.all_reduce_seconds(1.0, 2, 0.0),
        lambda: formulas.all_reduce_seconds(1.0, 2, 1.0, -1.0),
        lambda: formulas.amdahl_speedup(1.5, 2),
        lambda: formulas.amdahl_speedup(float("nan"), 2),
        lambda: formulas.communication_efficiency(-1.0, 1.0),
        lambda: formulas.communication_efficiency(0.0, 0.0),
        lambda: formulas.model_state_bytes(1.0, 1, 4),
        lambda: formulas.pipeline_utilization(0, 1),
        lambda: formulas.tensor_parallel_bytes(1, -1, 1, 1),
    ],
)
def test_impossible_input_raises_value_error(call):
    with pytest.raises(ValueError, match="must"):
        call()


# -- calculations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value, dimension",
    [
        ("2 * 3 + 4", 10, units.ONE),
        ("-2 ** 2", -4, units.ONE),
        ("100 * Gbit / s", 12.5e9, units.RATE),
        ("all_reduce_seconds(2 * GB, 16, 100 * Gbit / s)", 0.3, units.SECONDS),
        ("all_reduce_seconds(4 * B, 2, 1 * GB / s, latency=5 * us)", 10e-6 + 4e-9, units.SECONDS),
        ("(4 * min * min) ** 0.5", 120, units.SECONDS),
        ("max(80 * ms, 130 * ms)", 0.13, units.SECONDS),
        ("ceil(10 / 4) * MiB", 3 * 2**20, units.BYTES),
    ],
)
def test_a_calculation_has_a_value_and_a_kind(text, value, dimension):
    found = evaluate(text)
    assert found.value == pytest.approx(value) and found.dimension == dimension


@pytest.mark.parametrize(
    "text, told",
    [
        ("__import__('os').system('true')", "not allowed"),
        ("(1).__class__", "not allowed"),
        ("[1 for _ in range(9)]", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("'a' * 9", "not allowed"),
        ("True", "not allowed"),
        ("eval(1)", "no formula 'eval'"),
        ("bytes(1)", "no formula 'bytes'"),
        ("9 ** 9 ** 9", "at most 64"),
        ("1e300 ** 60", "cannot be calculated"),
        ("1e308 * 10", "no finite value"),
        ("1 / 0", "cannot be calculated"),
        ("1 +", "no expression"),
        ("1 // 2", "only + - * / **"),
        ("1 * GB + 1 * s", "different kinds"),
        ("all_reduce_bytes(400, 8)", "wrong kind"),
        ("all_reduce_bytes(400 * MB, 0)", "at least 1"),
        ("all_reduce_bytes(400 * MB)", "cannot be calculated"),
        ("all_reduce_bytes(400 * MB, 8, 9, 10)", "at most 2 values"),
        ("all_reduce_bytes(400 * MB, size=8)", "cannot be calculated"),
        ("ceil(1 * s)", "one plain number"),
        ("(" * 400 + "1" + ")" * 400, "longer than"),
        ("-" * 290 + "1", ""),
    ],
)
def test_what_is_no_calculation_is_refused_and_nothing_is_run(text, told):
    if not told:
        assert evaluate(text).value == 1
        return
    with pytest.raises(ValueError) as error:
        evaluate(text)
    assert told in str(error.value)


def test_a_calculation_tells_its_formulas():
    text = "communication_efficiency(1 * s, all_reduce_seconds(1 * GB, 8, 1 * GB / s)) + max(1, 2)"
    assert formulas_of(text) == ("communication_efficiency", "all_reduce_seconds")
