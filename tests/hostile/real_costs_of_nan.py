"""Exercise 20: all costs are NaN, which is like NaN where a cost is judged by another that the code has said."""

from dataclasses import make_dataclass

EXERCISE_NAME = "20"
FILE = "plan_parallelism.py"
REAL = True
TELLS = "expected a finite number, got nan"

ModelSpec = make_dataclass("ModelSpec", ["layers", "hidden", "heads", "seq_len", "vocab", "global_batch"])
CLUSTER = ["nodes", "gpus_per_node", "memory_bytes", "flops", "intra_bandwidth", "inter_bandwidth", "latency"]
ClusterSpec = make_dataclass("ClusterSpec", CLUSTER)
Plan = make_dataclass("Plan", ["dp", "tp", "pp", "zero_stage", "micro_batch", "recompute"])


def memory_bytes(model, cluster, plan):
    return float("nan")


step_seconds = memory_bytes


def plan(model, cluster):
    return Plan(1, 1, 1, 0, 1, False)
