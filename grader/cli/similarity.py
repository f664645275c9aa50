"""`similarity DIR`: short for `batch similarity DIR`."""

from __future__ import annotations

from grader.cli.batch.similarity import command

__all__ = ["command"]
