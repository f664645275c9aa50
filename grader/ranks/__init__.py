"""The only step in which student code runs: a case goes in, a Run of plain data comes out."""

from grader.ranks.launch import Session

__all__ = ["Session"]
