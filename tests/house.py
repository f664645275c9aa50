"""A repository of one exercise, written from texts that a test may change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from grader import catalog
from grader.model import Exercise
from grader.model.errors import AuthorError

MANIFEST = """\
title: Train with DistributedDataParallel
summary: One sentence for the list.
requires:
  train_ddp: (rank, world_size, *, lr=0.1)
  Sampler.set_epoch: (self, epoch)
  EPOCHS:
cases:
  equal_shards:
    world_sizes: [1, 2, 3]
    deadline: 20
    probe: train
    parameters: {samples: 24, names: [a, null, 1.5]}
    environment: {MASTER_PORT: null, OMP_NUM_THREADS: "1"}
  alone:
    world_sizes: [1]
checks:
  runs:
    points: 40
    hints: [one, two, three]
  same_result:
    points: 60
    needs: [runs]
    visibility: hidden
"""
CHECKS = '''\
def helper(runs):
    return runs


def test_runs(runs):
    """Every rank finishes"""


def test_same_result(runs, probe):
    """The result is that of one process

    More for authors.
    """
'''
PROBE = "raise RuntimeError('probes are read, never imported')\n\ndef train(rank): ...\n\ndef alone(rank): ...\n"
SOLUTION = "def train_ddp(rank):\n    epoch = rank + 1\n    return epoch\n"
MUTANTS = """\
- name: off_by_one
  mistake: One is not added.
  edits:
    - {old: rank + 1, new: rank}
  fails: [same_result]
- name: returns_nothing
  mistake: Nothing is returned.
  edits:
    - {old: "    return epoch\\n", new: ""}
    - {old: epoch = rank, new: epoch = 2 * rank}
  fails: [runs, same_result]
"""


@dataclass
class House:
    """A small repository in a temporary folder."""

    root: Path

    def add(
        self, name: str = "03_train_ddp", manifest: str = MANIFEST, checks: str = CHECKS, probe: str = PROBE
    ) -> Path:
        folder = self.root / "exercises" / name
        folder.mkdir(parents=True, exist_ok=True)
        files = {"README.md": "# x\n", "exercise.yaml": manifest, "checks.py": checks, "probe.py": probe}
        for file, text in {**files, f"{name.partition('_')[2]}.py": "x = 1\n"}.items():
            (folder / file).write_text(text, encoding="utf-8")
        return folder

    def solve(self, mutants: str = MUTANTS, solution: str = SOLUTION, name: str = "03_train_ddp") -> Path:
        folder = self.root / "reference" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mutants.yaml").write_text(mutants)
        (folder / "train_ddp.py").write_text(solution)
        return folder

    def load(self, **texts: str) -> Exercise:
        self.add(**texts)
        return catalog.load("03_train_ddp", self.root)

    def fault(self, old: str = "", new: str = "", **texts: str) -> AuthorError:
        """The author error that one change of the manifest, or other files, leads to."""
        assert MANIFEST.count(old) == 1 or not old
        with pytest.raises(AuthorError) as caught:
            self.load(manifest=MANIFEST.replace(old, new) if old else MANIFEST, **texts)
        return caught.value

    def mutant_fault(self, mutants: str, solution: str = SOLUTION) -> AuthorError:
        exercise = self.load()
        self.solve(mutants, solution)
        with pytest.raises(AuthorError) as caught:
            catalog.load_mutants(exercise, self.root)
        return caught.value
