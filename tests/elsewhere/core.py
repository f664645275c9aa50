"""Grades solutions, a mutant, a deadlock and a daemon on one session, and prints what came of each, as JSON."""

import json
import sys
from pathlib import Path

from grader.grading.flow import grade
from grader.grading.request import Machine, Request
from grader.kit import prctl
from grader.ranks import sandbox

CASES = json.loads(sys.argv[1])
"""By name: the root of the exercises, the exercise, and the file that is handed in."""


def taken_away():
    """Whether this really is elsewhere."""
    prctl.become_subreaper()
    try:
        Path("/proc/self/status").read_text()
    except FileNotFoundError:
        return not prctl.is_subreaper() and not Path("/proc").is_dir() and "Linux" in (sandbox.obstacle() or "")
    return False


def told(report):
    endings = [[rank.ending.kind for rank in run.ranks] for run in report.runs]
    kinds = [run.diagnosis.kind for run in report.runs if run.diagnosis]
    stuck = [rank for run in report.runs for rank in run.ranks if rank.ending.kind in ("deadlocked", "timed_out")]
    lines = [rank.ending.at for rank in stuck]
    failed = [verdict.check.id for verdict in report.verdicts if verdict.outcome.value == "failed"]
    seconds = max((run.seconds for run in report.runs), default=0)
    return {"status": report.status, "score": report.score, "kinds": kinds, "endings": endings, "lines": lines,
            "failed": failed, "sandbox": report.sandbox, "longest": seconds}  # fmt: skip


if __name__ == "__main__":
    found = {"taken away": taken_away()}
    with Machine().session() as session:
        for name, (root, exercise, file) in CASES.items():
            request = Request(exercise=exercise, root=Path(root), submission=Path(file), seed=5)
            found[name] = told(grade(request, session))
    print(json.dumps(found))
