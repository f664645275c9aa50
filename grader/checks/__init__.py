"""What checks.py is written in, and all of the grader that it imports: runs to look at (`Runs`, `RunView`, `RankView`),
expectations that fail with findings, kinds for what ranks recorded, replays of training, and words."""

from typing_extensions import TypedDict

from grader.checks.communication import line_of, told
from grader.checks.expect import error_text, holds
from grader.checks.observations import Attempt, Tensor, Tensors
from grader.checks.once import once
from grader.checks.views import RankView, Runs, RunView
from grader.model.errors import CheckFailed, NotJudged
from grader.model.words import amount, count, listed, rank_list

__all__ = [
    "Attempt",
    "CheckFailed",
    "NotJudged",
    "RankView",
    "RunView",
    "Runs",
    "Tensor",
    "Tensors",
    "TypedDict",
    "amount",
    "count",
    "error_text",
    "holds",
    "line_of",
    "listed",
    "once",
    "rank_list",
    "told",
]
