"""pytest over the checks of one exercise, in this process, under none of the user's settings."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from grader.judge.panel import Panel
from grader.model import Verdict

UNUSED = ["cacheprovider", "terminal", "faulthandler", "unraisableexception", "threadexception", "debugging", "doctest"]
UNUSED += ["junitxml", "legacypath", "logging", "pastebin", "setuponly", "setupplan", "stepwise", "unittest"]
"""pytest's plugins that judging does without; two of them collect garbage thrice, four fifths of the time, and one adds
itself to each of torch's loggers, three times a check."""
TIMEOUT = 120
"""Seconds of its own after which a check that hangs is given up: the last safety net, never the first. While it waits
for a run its time stands still; runs have deadlines."""

_one_at_a_time = threading.RLock()
"""Held while pytest judges, since it is not made for several threads: it sets variables of the environment, hooks and
filters of warnings for the whole process. Ranks of other grades run on meanwhile."""


def judge_with(panel: Panel, only: Sequence[str] = ()) -> tuple[Verdict, ...]:
    """Run the checks of one exercise in this process, under none of the user's settings; `only` names some of them."""
    exercise = panel.exercise
    paths = [folder / "checks.py" for folder in exercise.check_folders]
    options = ["-c", os.devnull, "--rootdir", str(exercise.folder), "--noconftest", "--import-mode=importlib", "-s"]
    options += ["--disable-plugin-autoload", "--assert=plain"]  # parsing checks to explain an `assert` takes a sixth
    plugins = [*(word for name in UNUSED for word in ("-p", f"no:{name}")), "-p", "pytest_timeout"]
    settings = ["-o", "python_files=checks.py", "-o", f"timeout={TIMEOUT}", "--continue-on-collection-errors"]
    chosen = [f"{panel.file_of(check)}::test_{check}" for check in only] or [str(path) for path in paths]
    with _one_at_a_time:
        try:
            pytest.main([*options, *plugins, *settings, *chosen], plugins=[panel])
        finally:
            _forget(paths)
    if panel.interruption is not None:
        raise panel.interruption
    return panel.verdicts()


def _forget(paths: Sequence[Path]) -> None:
    """Drop the imported checks, so that an edited file is read again and two folders of one name do not mix."""
    files = set(map(str, paths))
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) in files:
            del sys.modules[name]
