"""A small exercise on disk, and runs of it made by hand: what tests of judging need, without a process."""

from __future__ import annotations

from pathlib import Path

import torch

from grader.model import Case, Ending, Finished, RankRecord, Run

NAME = "90_total"
FILES = {
    "exercises/90_total/exercise.yaml": """\
title: The total
summary: All ranks get the sum.
requires:
  total: (value)
cases:
  sum: {world_sizes: [1, 2], process_group: true, deadline: 20}
  bad: {world_sizes: [1]}
checks:
  sums: {points: 50, hints: [where, idea, code]}
  same: {points: 30, needs: [sums]}
  refuses: {points: 20}
""",
    "exercises/90_total/README.md": "# The total\n",
    "exercises/90_total/total.py": 'def total(value):\n    raise NotImplementedError("write me")\n',
    "exercises/90_total/probe.py": """\
import torch


def value(seed, rank):
    return torch.full((4,), float(seed % 97 + rank + 1), dtype=torch.float64)


def sum(rank):
    rank.record("total", rank.student.total(value(rank.seed, rank.rank)))


def bad(rank):
    rank.record("refusal", rank.attempt(rank.student.total, "no tensor").described())
""",
    "exercises/90_total/checks.py": '''\
def test_sums(runs, probe):
    """All ranks get the sum"""
    for run in runs("sum"):
        expected = sum(probe.value(run.seed, rank) for rank in range(run.world_size))
        for rank in run:
            run.expect_close(rank["total"], expected, "the total", ranks=[rank.rank])


def test_same(runs):
    """All ranks agree bit for bit"""
    for run in runs("sum"):
        run.expect_identical({rank.rank: rank["total"] for rank in run}, "the total")


def test_refuses(runs):
    """A value that is no tensor raises TypeError"""
    for run in runs("bad"):
        run.expect_raised(run[0]["refusal"], "TypeError", "total('no tensor')", ranks=[0])
''',
    "reference/90_total/total.py": """\
import torch
import torch.distributed as dist


def total(value):
    if not isinstance(value, torch.Tensor):
        raise TypeError("value must be a tensor")
    result = value.clone()
    dist.all_reduce(result)
    return result
""",
    "reference/90_total/variants/gathers.py": """\
import torch
import torch.distributed as dist


def total(value):
    if not isinstance(value, torch.Tensor):
        raise TypeError("value must be a tensor")
    parts = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, value)
    return sum(parts)
""",
    "reference/90_total/mutants.yaml": """\
- name: forgets_to_reduce
  mistake: Every rank keeps its own value.
  edits: [{old: "    dist.all_reduce(result)\\n", new: ""}]
  fails: [sums]
  below_60: The sum is all that the exercise is about.
- name: adds_its_rank
  mistake: The results differ a little between ranks.
  edits: [{old: "return result", new: "return result * (1 + dist.get_rank() * 1e-15)"}]
  fails: [same]
- name: takes_anything
  mistake: Bad input is not refused.
  edits: [{old: "raise TypeError", new: "return TypeError"}]
  fails: [refuses]
""",
}


def build(root: Path) -> Path:
    """The small exercise under `root`, which is given back."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def sum_run(world_size: int, *totals: torch.Tensor | None, ending: Ending | None = None, seed: int = 0) -> Run:
    """A run of the family `sum` in which rank r recorded totals[r] (None: nothing)."""
    case = Case(name="sum", world_size=world_size, probe="sum", seed=seed, process_group=True)
    ranks = tuple(
        RankRecord(rank=rank, ending=ending or Finished(), observations={} if total is None else {"total": total})
        for rank, total in enumerate(totals)
    )
    return Run(case=case, ranks=ranks, seconds=0.1)


def bad_run(*raised: str, message: str = "no") -> Run:
    """A run of the family `bad` whose attempt raised classes of these names."""
    attempt = {"raised": list(raised), "message": message, "line": 7 if raised else None, "said": message}
    record = RankRecord(rank=0, ending=Finished(), observations={"refusal": attempt})
    return Run(case=Case(name="bad", world_size=1, probe="bad"), ranks=(record,), seconds=0.1)
