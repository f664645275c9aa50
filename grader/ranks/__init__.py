"""The only step in which student code runs: a case goes in, a Run of plain data comes out."""

from grader.ranks.launch import Live, Session
from grader.ranks.sandbox import level_for

__all__ = ["Live", "Session", "level_for"]
