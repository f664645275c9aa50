"""What `verify` remembers: trials that were right, each by a digest of all that it rests on.

A JSON file for each exercise, beside the progress of whoever works here (`practice/store.py`). It is data and nothing
else: reading it runs nothing, an entry that is not as it should be is as good as none, and a file that is damaged or
somebody else's is passed over with a sentence and replaced by the next proof. Several verifications may share it.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from grader import files
from grader.model import Exercise, Outcome
from grader.model.errors import GraderError
from grader.practice import store
from grader.ranks import level_for
from grader.records import digests

FORMAT = "ranklings/proofs/1"
PACKAGES = ("torch", "numpy", "scikit-learn", "matplotlib", "pytest")
"""The packages whose versions may decide a verdict."""
PATIENCE = 60.0
"""Seconds to wait for other processes that write to the same file."""
KEPT = 2000
"""So many trials of an exercise are kept, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The outcome of each check in a trial, and the seed that was drawn for it."""

    outcomes: Mapping[str, Outcome]
    seed: int


def basis(exercise: Exercise, start_method: str) -> list[tuple[str, bytes]]:
    """What the verdicts of every specimen of an exercise rest on, as named contents."""
    import torch

    facts = {name: importlib.metadata.version(name) for name in PACKAGES}
    facts |= {
        "python": sys.version,
        "machine": platform.machine(),
        "gpus": str(torch.cuda.device_count()),
        "start method": start_method,
        "level": level_for("auto"),
        "exercise": exercise.name,
        "files": digests.of_exercise(exercise),
        "engine": digests.of_engine(),
    }
    return [(name, fact.encode()) for name, fact in facts.items()]


def place(name: str, root: Path) -> Path | None:
    """The file for an exercise; None where nothing is to be kept (RANKLINGS_DATA=off)."""
    return None if store.is_off() else store.place(root).parent / "proofs" / f"{name}.json"


class Memory:
    """The trials of one exercise that were right. `tell` hears a sentence where the file is of no use; a `fresh` memory
    gives nothing away and only learns."""

    def __init__(self, path: Path, tell: Callable[[str], None] = lambda sentence: None, *, fresh: bool = False) -> None:
        self._path, self._tell, self._fresh = path, tell, fresh
        self._told = False
        self._entries = self._read()

    def get(self, key: str) -> Remembered | None:
        return None if self._fresh else _remembered(self._entries.get(key))

    def set(self, key: str, trial: Remembered | None) -> None:
        """Keep a trial, or forget it, at once, so that a verification that is interrupted loses nothing."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock", timeout=PATIENCE, poll_interval=0.01):
                entries = {name: entry for name, entry in self._read().items() if name != key}
                entries |= {key: _plain(trial)} if trial else {}
                self._write(entries)
        except (OSError, Timeout, GraderError) as error:
            self._say(f"Proofs cannot be kept in {self._path} ({error}).")

    def _write(self, entries: dict[str, Any]) -> None:
        self._entries = dict(list(entries.items())[-KEPT:])
        text = json.dumps({"format": FORMAT, "trials": self._entries}, indent=0)
        files.write(self._path, text)

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self._say(f"{self._path} cannot be read ({error}); everything is proved anew.")
            return {}
        trials = content.get("trials") if isinstance(content, dict) and content.get("format") == FORMAT else None
        if not isinstance(trials, dict):
            self._say(f"{self._path} holds no proofs; everything is proved anew.")
            return {}
        return trials

    def _say(self, sentence: str) -> None:
        if not self._told:
            self._told = True
            self._tell(sentence)


def _plain(trial: Remembered) -> dict[str, Any]:
    return {"outcomes": {check: outcome.value for check, outcome in trial.outcomes.items()}, "seed": trial.seed}


def _remembered(entry: Any) -> Remembered | None:
    """An entry of the file, or None for what `set` does not write."""
    try:
        outcomes = {str(check): Outcome(outcome) for check, outcome in entry["outcomes"].items()}
        return Remembered(outcomes=outcomes, seed=int(entry["seed"]))
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
