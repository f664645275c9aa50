"""What communication, memory and parallel work cost: the formulas of exercise 19's solution.

They solve that exercise, so they are written once, in its folder of reference/, which no bundle for students takes in:
the lint holds the banks' values to them, and the quiz shows the values alone.

Bytes, seconds and bytes per second throughout; GB is 10^9 bytes. All raise ValueError for input that cannot be.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

SOLUTION = Path(__file__).resolve().parents[2] / "reference" / "19_cost_model" / "cost_model.py"
NAMES = (
    "all_reduce_bytes", "all_reduce_seconds", "amdahl_speedup", "communication_efficiency", "model_state_bytes",
    "pipeline_utilization", "tensor_parallel_bytes",
)  # fmt: skip


def solved() -> Mapping[str, Callable[..., float]]:
    """The formulas by name. Imports the solution, and with it matplotlib."""
    spec = importlib.util.spec_from_file_location("ranklings_solution_of_19", SOLUTION)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: getattr(module, name) for name in NAMES}
