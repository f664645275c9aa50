"""The tiny exercise that attacks are let loose on: an all-reduce on two ranks.

Each rank draws its input itself, before the student's file is imported, so that no rank can know another's without
communicating, and the judge alone sees all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

NAME, LARGER, FILE = "91_total", "92_total", "total.py"
SECRET = "the-canary-must-not-sing"
SMALL = "{memory_mib: 1024, processes: 300, file_mib: 128, disk_mib: 256, output_mib: 16}"
"""Limits of the exercise, so that a bomb reaches one soon."""
MANIFEST = """\
title: The total
summary: All ranks get the sum of what each of them holds.
requires:
  total: (value)
cases:
  sum: {world_sizes: [2], process_group: true, deadline: @DEADLINE@, limits: @LIMITS@}
@CASES@
checks:
  sums: {points: @POINTS@}
  same: {points: 40, needs: [sums]}
@CHECKS@
"""
PROBE = """\
import secrets

import torch


def value(own):
    generator = torch.Generator().manual_seed(own)
    return torch.randint(1 << 40, (4,), generator=generator).to(torch.float64)


def sum(rank):
    own = secrets.randbits(62)
    rank.record("own", own)
    rank.record("total", rank.student.total(value(own)))


def refuses(rank):
    rank.record("refusal", rank.attempt(rank.student.total, "no tensor").described())
"""
CHECKS = (
    f"# {SECRET}\n"
    + '''\
def test_sums(runs, probe):
    """All ranks get the sum"""
    for run in runs("sum"):
        expected = sum(probe.value(rank["own"]) for rank in run)
        for rank in run:
            run.expect_close(rank["total"], expected, "the total", ranks=[rank.rank])


def test_same(runs):
    """All ranks agree bit for bit"""
    for run in runs("sum"):
        run.expect_identical({rank.rank: rank["total"] for rank in run}, "the total")
'''
)
REFUSES = '''

def test_refuses(runs):
    """What is no tensor raises LookupError"""
    for run in runs("refuses"):
        run.expect_raised(run[0]["refusal"], "LookupError", "total('no tensor')", ranks=[0])
'''
SOLUTION = f"""\
# {SECRET}
import torch.distributed as dist


def total(value):
    if isinstance(value, str):
        raise LookupError("value must be a tensor")
    result = value.clone()
    dist.all_reduce(result)
    return result
"""


def course(deadline: float) -> Iterator[tuple[str, str]]:
    """Paths and texts of the exercise, and of a second one that asks for a refusal besides."""
    cases = "  refuses: {world_sizes: [1], deadline: @DEADLINE@}"
    both = {NAME: ("", "", CHECKS), LARGER: (cases, "  refuses: {points: 50}", CHECKS + REFUSES)}
    for name, (more_cases, more_checks, checks) in both.items():
        manifest = MANIFEST.replace("@CASES@", more_cases).replace("@CHECKS@", more_checks)
        manifest = manifest.replace("@POINTS@", "10" if more_checks else "60")
        manifest = manifest.replace("@DEADLINE@", str(deadline)).replace("@LIMITS@", SMALL)
        yield f"exercises/{name}/exercise.yaml", manifest
        yield f"exercises/{name}/README.md", "# The total\n"
        yield f"exercises/{name}/{FILE}", 'def total(value):\n    raise NotImplementedError("write me")\n'
        yield f"exercises/{name}/probe.py", PROBE
        yield f"exercises/{name}/checks.py", checks
        yield f"reference/{name}/{FILE}", SOLUTION
