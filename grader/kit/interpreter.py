"""A freshly started interpreter with another hash seed, for what must not depend on the process that computes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import gc, json, os, sys
gc.disable()  # this and the short way out halve the time that importing torch costs
folder, function, answer, arguments = sys.argv[1:]
sys.path.insert(0, folder)
import probe
with open(answer, "w") as file:
    json.dump(getattr(probe, function)(*json.loads(arguments)), file)
os._exit(0)
"""


class FreshInterpreter:
    """Calls a function of the probe, with the name of the student's module and further arguments. Arguments and answer
    are what JSON takes. It has begun when this is made, and runs beside the rank."""

    def __init__(self, rank: Any, function: str, *arguments: Any) -> None:
        self._errors, self._answer = (Path(rank.scratch / f"{function}.{end}") for end in ("err", "json"))
        folder, name = str(Path(rank.student.__file__).parent), rank.student.__name__
        hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-B", "-c", PROGRAM, folder, function, self._answer, json.dumps([name, *arguments])],
                cwd=rank.scratch,
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def ended(self) -> dict[str, Any]:
        """Wait for its end: its exit code, the last line of its errors, and the answer, None unless the code is 0."""
        code = self._process.wait()
        lines = self._errors.read_text(errors="replace").split("\n")
        error = next((line[:300] for line in reversed(lines) if line.strip()), "")
        return {"code": code, "error": error, "answer": json.loads(self._answer.read_text()) if code == 0 else None}
