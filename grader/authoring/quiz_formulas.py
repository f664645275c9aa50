"""What communication, memory and parallel work cost: the formulas of exercise 19's solution, and 20's planner.

They solve these exercises, so they are written once, in their folders of reference/, which no bundle for students takes
in: the lint holds the banks' values to them, and the quiz shows the values alone.

Bytes, seconds and bytes per second throughout; GB is 10^9 bytes. All raise ValueError for input that cannot be.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

REFERENCE = Path(__file__).resolve().parents[2] / "reference"
SOLUTION = REFERENCE / "19_cost_model" / "cost_model.py"
PLANNER = REFERENCE / "20_plan_parallelism" / "plan_parallelism.py"
NAMES = (
    "all_reduce_bytes", "all_reduce_seconds", "amdahl_speedup", "communication_efficiency", "model_state_bytes",
    "pipeline_utilization", "tensor_parallel_bytes",
)  # fmt: skip
MODEL = ("layers", "hidden", "heads", "seq_len", "vocab", "global_batch")
PLAN = ("dp", "tp", "pp", "zero_stage", "micro_batch", "recompute")
CLUSTER = ("nodes", "gpus_per_node", "memory_bytes", "flops", "intra_bandwidth", "inter_bandwidth")
"""What the planner asks for, in its order."""


def solved() -> Mapping[str, Callable[..., float]]:
    """The formulas by name. Imports the solutions, and with one of them matplotlib."""
    model, planner = _module(SOLUTION), Planner(_module(PLANNER))
    return {
        **{name: getattr(model, name) for name in NAMES},
        "planned_bytes": planner.memory_bytes,
        "best_step_seconds": planner.best_step_seconds,
    }


class Planner:
    """Exercise 20's solution, asked in plain numbers that are named as in its dataclasses. No latency."""

    def __init__(self, solution: ModuleType) -> None:
        self._solution = solution

    def memory_bytes(self, **given: float) -> float:
        """Of the fullest GPU under a plan."""
        whole = {name: int(given[name]) for name in PLAN}
        plan = self._solution.Plan(**{**whole, "recompute": bool(whole["recompute"])})
        return float(self._solution.memory_bytes(self._model(given), None, plan))

    def best_step_seconds(self, **given: float) -> float:
        """Of one step under the best plan there is."""
        sizes: dict[str, float] = {name: given[name] for name in CLUSTER}
        sizes |= {name: int(given[name]) for name in ("nodes", "gpus_per_node")}
        model, cluster = self._model(given), self._solution.ClusterSpec(**sizes, latency=0.0)
        return float(self._solution.step_seconds(model, cluster, self._solution.plan(model, cluster)))

    def _model(self, given: Mapping[str, float]) -> object:
        return self._solution.ModelSpec(**{name: int(given[name]) for name in MODEL})


def _module(path: Path) -> ModuleType:
    name = f"ranklings_solution_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their module's names
    spec.loader.exec_module(module)
    return module
