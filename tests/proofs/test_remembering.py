"""What `verify` remembers of earlier proofs: right trials of the same content, and nothing else."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grader.authoring import memory as remembering
from grader.authoring.memory import Memory, Remembered
from grader.authoring.proof_page import matrix
from grader.authoring.verify import Specimen, Trial, verify
from grader.model import Exercise, Outcome, Verdict
from grader.records import digests
from tests import small
from tests.proofs import trials

ALL = ["stub", "solution", "gathers", "forgets_to_reduce", "adds_its_rank", "takes_anything"]


def test_what_has_not_changed_is_not_tried_again(root: Path, path: Path, tried: list[str]) -> None:
    """The second proof is the first one's, and says so."""
    first = verify(small.NAME, root, memory=Memory(path))
    assert tried == ALL and "earlier" not in matrix(first)
    second = verify(small.NAME, root, memory=Memory(path))
    assert tried == ALL and all(trial.remembered for trial in second.trials)
    assert "6 of 6 from earlier proofs" in matrix(second) and second.breaches() == []
    assert [t.of(Outcome.FAILED) for t in second.trials] == [t.of(Outcome.FAILED) for t in first.trials]


def test_a_changed_mutant_costs_one_trial(root: Path, path: Path, tried: list[str]) -> None:
    """And so does a variant; a changed solution costs its own and that of its mutants, which are edits of it."""
    verify(small.NAME, root, memory=Memory(path))
    mutants = root / "reference" / small.NAME / "mutants.yaml"
    mutants.write_text(mutants.read_text().replace("1e-15", "1e-14"))
    assert retried(root, path, tried) == ["adds_its_rank"]
    solution = root / "reference" / small.NAME / "total.py"
    solution.write_text("# Sums.\n" + solution.read_text())
    assert retried(root, path, tried) == ["solution", *ALL[3:]]


def retried(root: Path, path: Path, tried: list[str], **how: Any) -> list[str]:
    tried.clear()
    verify(small.NAME, root, memory=Memory(path), **how)
    return tried


@pytest.mark.parametrize("file", ["probe.py", "checks.py", "exercise.yaml"])
def test_a_changed_exercise_is_proved_anew(root: Path, path: Path, tried: list[str], file: str) -> None:
    """Every specimen is run by the probe and judged by the checks."""
    verify(small.NAME, root, memory=Memory(path))
    changed = root / "exercises" / small.NAME / file
    changed.write_text(changed.read_text() + "# changed\n")
    assert retried(root, path, tried) == ALL


def test_another_engine_or_torch_or_start_method_is_proved_anew(
    root: Path, path: Path, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof rests on them as well."""
    verify(small.NAME, root, memory=Memory(path))
    assert retried(root, path, tried, start_method="spawn") == ALL
    with monkeypatch.context() as patch:
        patch.setattr(digests, "of_engine", lambda: "another")
        assert retried(root, path, tried) == ALL
    monkeypatch.setattr(remembering.importlib.metadata, "version", lambda name: "9.9")
    assert retried(root, path, tried) == ALL


def test_nothing_is_remembered_for_a_seed_or_by_a_fresh_memory(root: Path, path: Path, tried: list[str]) -> None:
    """They ask for trials. What a fresh memory learns is there afterwards."""
    verify(small.NAME, root, memory=Memory(path), seed=5)
    assert not path.exists()
    verify(small.NAME, root, memory=Memory(path, fresh=True))
    assert retried(root, path, tried) == []
    assert retried(root, path, tried, seed=5) == ALL
    tried.clear()
    verify(small.NAME, root, memory=Memory(path, fresh=True))
    assert tried == ALL


def test_what_is_wrong_is_not_remembered_and_makes_forget_what_was(
    root: Path, path: Path, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant that fails what it must with one seed and not with another is tried until somebody mends it."""
    verify(small.NAME, root, memory=Memory(path))
    monkeypatch.setattr(trials, "as_it_must", passing_everything)
    proof = verify(small.NAME, root, memory=Memory(path, fresh=True))
    assert any("does not fail sums" in breach for breach in proof.breaches())
    assert retried(root, path, tried) == ["stub", *ALL[3:]]


def passing_everything(exercise: Exercise, specimen: Specimen) -> Trial:
    verdicts = tuple(Verdict(check=check, outcome=Outcome.PASSED) for check in exercise.checks)
    return Trial(specimen=specimen, verdicts=verdicts, seed=4, seconds=0.1)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[1]", b'{"format": "else", "trials": {}}', b"[" * 99999])
def test_a_damaged_or_foreign_file_is_passed_over_with_a_sentence(
    root: Path, path: Path, tried: list[str], content: bytes
) -> None:
    """And replaced by the proof that follows."""
    path.parent.mkdir()
    path.write_bytes(content)
    said: list[str] = []
    verify(small.NAME, root, memory=Memory(path, said.append))
    assert tried == ALL and len(said) == 1 and "proved anew" in said[0]
    assert retried(root, path, tried) == []


@pytest.mark.parametrize(
    "entry", [None, 5, {}, {"outcomes": {"sums": "splendid"}, "seed": 1}, {"outcomes": {}, "seed": 1}]
)
def test_an_entry_that_is_not_as_it_should_be_is_none(root: Path, path: Path, tried: list[str], entry: Any) -> None:
    """It is tried, whatever else the file holds."""
    verify(small.NAME, root, memory=Memory(path))
    content = json.loads(path.read_text())
    first = next(iter(content["trials"]))
    content["trials"][first] = entry
    path.write_text(json.dumps(content))
    assert retried(root, path, tried) == ["stub"]


def test_verdicts_that_somebody_wrote_into_the_file_must_still_be_those_that_are_asked_for(
    root: Path, path: Path, tried: list[str]
) -> None:
    """What is remembered is judged again by what the mutant claims today."""
    verify(small.NAME, root, memory=Memory(path))
    path.write_text(path.read_text().replace('"failed"', '"passed"'))
    assert retried(root, path, tried) == ["stub", *ALL[3:]]


# -- the file ----------------------------------------------------------------------------------------------------------


def test_several_verifications_at_once_lose_nothing(path: Path) -> None:
    """Each adds to what the others have written meanwhile."""
    trial = Remembered(outcomes={"sums": Outcome.PASSED}, seed=1)
    memories = [Memory(path) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: memories[number % 4].set(f"key {number}", trial), range(16)))
    found = Memory(path)
    assert all(found.get(f"key {number}") == trial for number in range(16))


def test_a_folder_that_cannot_be_written_costs_a_sentence(root: Path, tmp_path: Path, tried: list[str]) -> None:
    """The proof goes on."""
    (tmp_path / "file").write_text("")
    said: list[str] = []
    proof = verify(small.NAME, root, memory=Memory(tmp_path / "file" / "proofs.json", said.append))
    assert proof.breaches() == [] and len(said) == 1


def test_nothing_is_kept_where_nothing_is_to_be_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RANKLINGS_DATA=off holds for proofs as for progress; else they lie beside it."""
    place = remembering.place(small.NAME, root)
    assert place is not None and place.parent.name == "proofs"
    monkeypatch.setenv("RANKLINGS_DATA", "off")
    assert remembering.place(small.NAME, root) is None
