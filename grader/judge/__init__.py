"""Runs go in, verdicts come out; pytest is the engine. Pure: the same runs give the same verdicts.

The same plugin serves `python -m grader grade 03`, where the runs are there already, and
`pytest exercises/03_train_ddp`, where a case is run when a check first asks for it.
"""

from grader.judge.engine import judge_with
from grader.judge.judging import judge, judge_live, unusable
from grader.judge.loading import load_probe, preload
from grader.judge.panel import Panel
from grader.judge.verdict import ODD, is_odd

__all__ = ["ODD", "Panel", "is_odd", "judge", "judge_live", "judge_with", "load_probe", "preload", "unusable"]
