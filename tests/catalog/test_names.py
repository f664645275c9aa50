"""grader.catalog: folders become exercises, and names are forgiving."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.model.errors import UsageError
from tests.house import House


@pytest.fixture
def street(house: House) -> Path:
    """A root with several exercises, some names beginning alike."""
    for name in ("01_process_group", "02_shard_data", "03_train_ddp", "10_zero2", "11_zero3"):
        house.add(name)
    return house.root


def test_an_exercise_is_a_folder_with_a_manifest(street: Path) -> None:
    """Names come sorted; folders without exercise.yaml and files do not count, and no list names them."""
    (street / "exercises" / "00_draft").mkdir()
    (street / "exercises" / "README.md").write_text("x")
    assert catalog.all_names(street) == ("01_process_group", "02_shard_data", "03_train_ddp", "10_zero2", "11_zero3")


@pytest.mark.parametrize(
    "text",
    ["03", "3", "003", "03_train_ddp", "train_ddp", "TRAIN_DDP", "03_Train-DDP", " 3 ", "train", "03_t", "t",
     "exercises/03_train_ddp/", "exercises/03_train_ddp/train_ddp.py"],
)  # fmt: skip
def test_a_student_may_name_an_exercise_in_many_ways(street: Path, text: str) -> None:
    """Number, name, slug, a unique beginning, a completed path, in any case."""
    assert catalog.resolve(text, street) == "03_train_ddp"


def test_a_number_means_that_number_only(street: Path) -> None:
    """`1` is exercise 01, never one of those that begin with a 1."""
    assert catalog.resolve("1", street) == "01_process_group"
    with pytest.raises(UsageError, match="no exercise '0'"):
        catalog.resolve("0", street)


@pytest.mark.parametrize("text", ["0", "00", "000", "00_warm_up", "warm_up", "warm", "exercises/00_warm_up/warm_up.py"])
def test_the_number_zero_is_a_number(street: Path, house: House, text: str) -> None:
    """Exercise 00 is named like any other, and comes first."""
    house.add("00_warm_up")
    assert catalog.resolve(text, street) == catalog.all_names(street)[0] == "00_warm_up"


def test_an_exact_name_wins_over_longer_ones(house: House) -> None:
    """`zero` names 12_zero although 10_zero2 begins with it too."""
    house.add("10_zero2")
    house.add("12_zero")
    assert catalog.resolve("zero", house.root) == "12_zero"


@pytest.mark.parametrize(
    ("text", "offered"),
    [("trian_ddp", "did you mean 03_train_ddp"), ("shard-date", "did you mean 02_shard_data"),
     ("zero", "could be 10_zero2 or 11_zero3"), ("zero4", "10_zero2"),
     ("qqq", "choose from 01_process_group to 11_zero3"),
     ("", "no exercise ''"), ("99", "no exercise '99'"), ("x" * 5000, "no exercise 'xxx"), ("9" * 5000, "no exercise")],
)  # fmt: skip
def test_a_wrong_name_is_answered_with_the_nearest_ones(street: Path, text: str, offered: str) -> None:
    """One sentence on one line, which offers what may have been meant."""
    with pytest.raises(UsageError) as caught:
        catalog.resolve(text, street)
    assert offered in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_missing_and_empty_exercises_folders_are_named(tmp_path: Path) -> None:
    """The sentence tells the two apart."""
    with pytest.raises(UsageError, match="There is no folder "):
        catalog.resolve("3", tmp_path)
    (tmp_path / "exercises").mkdir()
    with pytest.raises(UsageError, match="exercises is empty"):
        catalog.resolve("3", tmp_path)


def test_the_root_is_the_nearest_folder_above_with_exercises(street: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder within, from the current folder, and from elsewhere the one above the package."""
    within = street / "exercises" / "03_train_ddp"
    assert catalog.repository_root(within) == street
    monkeypatch.chdir(within)
    assert catalog.repository_root() == street
    package_root = Path(catalog.__file__).parents[2]
    if (package_root / "exercises").is_dir():
        assert catalog.repository_root(Path("/")) == package_root


def test_no_root_anywhere_is_the_commands_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither above the current folder nor above the package: a UsageError."""
    monkeypatch.setattr("grader.catalog.names.__file__", str(tmp_path / "a" / "b" / "names.py"))
    with pytest.raises(UsageError, match="No exercises/ folder"):
        catalog.repository_root(tmp_path)
