"""What `verify` remembers of earlier proofs: right trials of the same content, and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.authoring import memory as remembering
from grader.authoring import verify as proving
from grader.authoring.memory import Memory, Remembered
from grader.authoring.proof_page import histogram, matrix
from grader.authoring.verify import Kind, Proof, Specimen, Trial, verify
from grader.model import Exercise, Outcome, Verdict
from grader.records import digests
from tests import small


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small.build(tmp_path / "root")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "proofs" / "90_total.json"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the specimens that were tried. No rank is started: each gets the verdicts that it must."""
    names: list[str] = []

    def try_all(
        session: Any, exercise: Exercise, root: Path, chosen: Sequence[Specimen], *rest: Any
    ) -> Iterator[Trial]:
        for specimen in chosen:
            names.append(specimen.name)
            yield as_it_must(exercise, specimen)

    monkeypatch.setattr(proving, "try_all", try_all)
    monkeypatch.setattr(proving, "warm_session", lambda start_method: contextlib.nullcontext())
    return names


def as_it_must(exercise: Exercise, specimen: Specimen) -> Trial:
    failed = {"sums"} if specimen.kind is Kind.STUB else specimen.fails
    passed = Outcome.BLOCKED if specimen.kind is Kind.STUB else Outcome.PASSED
    verdicts = [Verdict(check=c, outcome=Outcome.FAILED if c.id in failed else passed) for c in exercise.checks]
    return Trial(specimen=specimen, verdicts=tuple(verdicts), seed=3, seconds=0.1)


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
    monkeypatch.setitem(globals(), "as_it_must", passing_everything)
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


# --- when something is wrong ------------------------------------------------------------------------------------------


def test_where_the_solution_fails_the_rest_is_not_tried(
    root: Path, path: Path, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its breach is told at once; that no mutant fails a check is no news then."""
    monkeypatch.setitem(globals(), "as_it_must", failing_everything)
    proof = verify(small.NAME, root, memory=Memory(path))
    assert tried == ["stub", "solution"] and len(proof.trials) == 2
    *wrong, last = proof.breaches()
    assert len(wrong) == 3 and all("solution" in breach for breach in wrong)
    assert last == "4 specimens were not tried: first the solution has to pass"


def failing_everything(exercise: Exercise, specimen: Specimen) -> Trial:
    verdicts = tuple(Verdict(check=check, outcome=Outcome.FAILED, message="no") for check in exercise.checks)
    return Trial(specimen=specimen, verdicts=verdicts, seed=4, seconds=0.1)


def test_a_broken_check_is_told_once(root: Path) -> None:
    """With what it says, and for how many specimens; that it did not pass or fail is not told as well."""
    exercise = catalog.load(small.NAME, root)
    message = "checks.py:3: no case family 'x' in exercise.yaml"
    verdicts = tuple(
        Verdict(check=c, outcome=Outcome.BROKEN if c.id == "same" else Outcome.PASSED, message=message)
        for c in exercise.checks
    )
    kinds = [(Kind.SOLUTION, "solution"), (Kind.VARIANT, "gathers"), (Kind.VARIANT, "other")]
    made = [Specimen(kind=kind, name=name, path=path_of(root), source=b"") for kind, name in kinds]
    trials = tuple(Trial(specimen=specimen, verdicts=verdicts, seed=1, seconds=0.1) for specimen in made)
    found = Proof(exercise=exercise, trials=trials, seconds=0.1).breaches()
    assert found[0] == f"solution solution (seed 1) and 2 more: check same is broken: {message}"
    assert all(breach.startswith("no mutant fails") for breach in found[1:])


# --- fair marks -------------------------------------------------------------------------------------------------------

REASON = "  below_60: The sum is all that the exercise is about.\n"


def edited(root: Path, old: str, new: str) -> None:
    mutants = root / "reference" / small.NAME / "mutants.yaml"
    assert mutants.read_text().count(old) == 1
    mutants.write_text(mutants.read_text().replace(old, new))


def test_a_mutant_worth_less_than_60_points_is_a_breach_unless_its_author_says_why(
    root: Path, path: Path, tried: list[str]
) -> None:
    """It is named with its points. What was proved of it stays proved: the sentence costs no trial."""
    edited(root, REASON, "")
    proof = verify(small.NAME, root, memory=Memory(path))
    (breach,) = proof.breaches()
    assert breach.startswith("mutant forgets_to_reduce: 50 points for one mistake; ") and "below_60" in breach
    assert f"✗ {breach}" in matrix(proof)
    edited(root, "  fails: [sums]\n", "  fails: [sums]\n" + REASON)
    tried.clear()
    assert verify(small.NAME, root, memory=Memory(path)).breaches() == [] and tried == []


def test_a_reason_that_is_not_needed_is_a_breach(root: Path, path: Path, tried: list[str]) -> None:
    """So that none outlives the checks that it was written for."""
    edited(root, "  fails: [same]\n", "  fails: [same]\n" + REASON)
    (breach,) = verify(small.NAME, root, memory=Memory(path)).breaches()
    assert breach == "mutant adds_its_rank: 70 points, so its `below_60` says nothing; take it away"


def test_points_are_of_those_that_are_counted(root: Path) -> None:
    """As in a grade: hardware that is absent takes its checks out, and 60 exactly is enough."""
    exercise = catalog.load(small.NAME, root)
    specimen = Specimen(kind=Kind.MUTANT, name="m", path=path_of(root), source=b"", fails=frozenset({"refuses"}))
    outcomes = [Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILED]
    verdicts = tuple(Verdict(check=c, outcome=o) for c, o in zip(exercise.checks, outcomes, strict=True))
    trial = Trial(specimen=specimen, verdicts=verdicts, seed=1, seconds=0.1)
    assert trial.points == pytest.approx(100 * 50 / 70) and list(trial.unfair()) == []


def path_of(root: Path) -> Path:
    return root / "reference" / small.NAME / "total.py"


def test_the_page_has_a_histogram_of_the_points(root: Path, path: Path, tried: list[str]) -> None:
    """Tens of points, and how many mutants are worth them."""
    proof = verify(small.NAME, root, memory=Memory(path))
    points, mutants, _ = histogram(proof)
    assert points.split() == ["points", *(str(ten) for ten in range(0, 110, 10))]
    assert mutants.split() == ["mutants", *"00000101100"] and points in matrix(proof)
    assert histogram(Proof(exercise=proof.exercise, trials=(), seconds=0.0)) == []


# --- the file ---------------------------------------------------------------------------------------------------------


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


# --- digests ---------------------------------------------------------------------------------------------------------


def test_a_digest_takes_in_what_probes_and_checks_share(root: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """A changed comparer is another exercise to a journal, and a changed engine another proof; a page is not."""
    exercise = catalog.load(small.NAME, root)
    package = tmp_path / "grader"
    monkeypatch.setattr(digests, "PACKAGE", package)
    for name in ("kit/values.py", "checks/views.py", "ranks/host.py", "judge.py", "cli/list.py", "render/html.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    before = [digests.of_exercise(exercise), digests.of_engine()]
    differs = {}
    for name in ("kit/values.py", "checks/views.py", "ranks/host.py", "judge.py", "cli/list.py", "render/html.py"):
        (package / name).write_text("2")
        now = [digests.of_exercise(exercise), digests.of_engine()]
        differs[name] = [old != new for old, new in zip(before, now, strict=True)]
        (package / name).write_text("1")
    assert differs == {
        "kit/values.py": [True, True],
        "checks/views.py": [True, True],
        "ranks/host.py": [False, True],
        "judge.py": [False, True],
        "cli/list.py": [False, False],
        "render/html.py": [False, False],
    }


def test_contents_that_run_together_have_different_digests() -> None:
    """Where one ends and the next begins counts."""
    assert digests.of_files([("a", b"bc"), ("d", b"")]) != digests.of_files([("a", b"b"), ("cd", b"")])
