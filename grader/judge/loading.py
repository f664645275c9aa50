"""What the judge imports of others: probes, and what pytest and torch want before the first check."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import sys
import types
from pathlib import Path

from grader.judge.verdict import fault
from grader.model import Exercise
from grader.model.errors import RunError

USED = ["readline", "pytest_timeout", "_pytest._argcomplete", "_pytest.helpconfig", "_pytest.skipping"]
USED += ["_pytest.tracemalloc", "_pytest.warnings"]
"""What pytest would import when it first judges. Ctrl-C in the middle of an import is lost where C code imports."""


def load_probe(exercise: Exercise, folder: Path | None = None) -> types.ModuleType:
    """A probe as a module of the judge, so that both sides make inputs by the same functions: that of the exercise, or
    the one beside the checks in `folder`."""
    own = exercise.folder if folder is None else folder
    path = own / "probe.py" if (own / "probe.py").is_file() else exercise.probe
    spec = importlib.util.spec_from_file_location(f"ranklings_probe_{exercise.number}", path)
    if spec is None or spec.loader is None:
        raise RunError(f"{path} could not be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RunError(f"{path} could not be imported: {fault(error)}") from error
    return module


def preload() -> None:
    """Import what judging needs, while the ranks' host does so in its own process. One thread is enough for small
    tensors. Two spin while they wait for one another, which makes judging several times dearer on two cores."""
    for name in USED:
        with contextlib.suppress(ImportError):  # another pytest may have other modules, another Python no readline
            importlib.import_module(name)
    if "torch" not in sys.modules:  # what else there is where it is imported already may be garbage later
        gc.disable()
        importlib.import_module("torch")
        gc.freeze()  # torch's hundred thousand objects are here to stay; no collection need look at them again
        gc.enable()
    sys.modules["torch"].set_num_threads(1)
