"""What checks.py is written in: runs to look at, and expectations that fail with findings."""

from grader.checks.views import RankView, Runs, RunView, line_of, told
from grader.model.errors import CheckFailed

__all__ = ["CheckFailed", "RankView", "RunView", "Runs", "line_of", "told"]
