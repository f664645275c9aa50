"""A student's file becomes a Submission: found, read once, digested and compiled, never executed.

What the command got wrong (no such file, a folder without it) is a UsageError; what the student got wrong (a syntax
error, a binary file) is the submission's `problem`.
"""

from grader.submission.begun import begun
from grader.submission.found import MAX_BYTES, given, places, receive, receive_or_miss

__all__ = ["MAX_BYTES", "begun", "given", "places", "receive", "receive_or_miss"]
