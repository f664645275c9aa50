"""grader.catalog: solutions, mutants and variants."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from grader import catalog
from grader.model.errors import AuthorError
from tests.house import MUTANTS, House


def test_a_mutant_is_the_solution_with_its_edits(house: House) -> None:
    """All edits are made in the solution's own text, white space included."""
    exercise = house.load()
    house.solve()
    one, two = catalog.load_mutants(exercise, house.root)
    assert one.source == "def train_ddp(rank):\n    epoch = rank\n    return epoch\n"
    assert two.source == "def train_ddp(rank):\n    epoch = 2 * rank + 1\n"
    assert (one.name, one.mistake, two.fails) == ("off_by_one", "One is not added.", ("runs", "same_result"))
    with pytest.raises(FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("old: rank + 1", "old: rank + 2", 4, "'rank + 2' occurs nowhere in the solution"),
        ("old: rank + 1", "old: epoch", 4, "'epoch' occurs 2 times in the solution"),
        ("old: rank + 1", 'old: ""', 4, "occurs nowhere"),
        ("new: rank}", "new: rank + 1}", 4, "the edit changes nothing"),
        ("new: rank}", "new: rank+1}", 3, "'off_by_one' changes no code"),
        ("new: rank}", "new: rank +}", 3, "'off_by_one' does not compile"),
        ("new: rank}", "new:}", 4, "must be a valid string (got None)"),
        ("name: returns_nothing", "name: off_by_one", 6, "there are two mutants 'off_by_one'"),
        ("[runs, same_result]", "[runs, same_resul]", 11, "no check 'same_resul'. Did you mean 'same_result'?"),
        ("[runs, same_result]", "[]", 11, "'returns_nothing' fails no check"),
        ("old: epoch = rank,", 'old: "rank + 1\\n    return",', 9, "two edits overlap"),
        ("mistake: One", "mistakes: One", 2, "unknown key 'mistakes'. Did you mean 'mistake'?"),
    ],
)  # fmt: skip
def test_a_fault_in_the_mutants_is_told_with_its_line(house: House, old: str, new: str, line: int, said: str) -> None:
    """Path, line, the fault, then the remedy."""
    assert MUTANTS.count(old) == 1
    error = house.mutant_fault(MUTANTS.replace(old, new))
    assert said in str(error)
    assert (error.path.name, error.line) == ("mutants.yaml", line)


def test_a_missing_or_broken_solution_is_an_author_error(house: House) -> None:
    """The path is the solution's, or that of the missing mutants."""
    assert "does not compile" in str(house.mutant_fault(MUTANTS, "def f(:\n"))
    (house.root / "reference" / "03_train_ddp" / "mutants.yaml").unlink()
    with pytest.raises(AuthorError, match=r"mutants\.yaml: the file cannot be read"):
        catalog.load_mutants(house.load(), house.root)


def test_variants_are_the_python_files_of_their_folder(house: House) -> None:
    """Sorted; none where there is no folder."""
    exercise = house.load()
    assert catalog.variants(exercise, house.root) == ()
    folder = catalog.reference("03_train_ddp", house.root) / "variants"
    folder.mkdir(parents=True)
    for name in ("b.py", "a.py", "_shared.py", "notes.md"):
        (folder / name).write_text("")
    assert [path.name for path in catalog.variants(exercise, house.root)] == ["a.py", "b.py"]
