"""grader.catalog: an author's fault is told with path and line."""

from __future__ import annotations

import re

import pytest

from grader import catalog
from grader.model.errors import AuthorError
from tests.house import CHECKS, MANIFEST, House


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("    points: 40", "    pionts: 40", 18, "unknown key 'pionts'. Did you mean 'points'?"),
        ("summary:", "sumary:", 2, "unknown key 'sumary'. Did you mean 'summary'?"),
        ("    deadline: 20", "    deadlin: 20", 10, "unknown key 'deadlin'. Did you mean 'deadline'?"),
        ("    points: 40\n", "", 17, "the key 'points' is missing in 'checks.runs'"),
        ("title: Train with DistributedDataParallel\n", "", 1, "the key 'title' is missing"),
        ("    points: 40", "    points: 0", 18, "'checks.runs.points' must be greater than 0 (got 0)"),
        ("    points: 40", "    points: -1", 18, "must be greater than 0"),
        ("    points: 40", "    points: 41", 16, "the points come to 101, not 100"),
        ("    points: 40", '    points: "40"', 18, "must be a valid number (got '40')"),
        ("    points: 40", "    points: .nan", 18, "must be a finite number"),
        ("deadline: 20", "deadline: 0", 10, "must be greater than 0"),
        ("deadline: 20", "deadline: -2", 10, "must be greater than 0"),
        ("[1, 2, 3]", "[1, 0, 3]", 9, "at least 1"),
        ("[1, 2, 3]", "[]", 9, "at least one world size"),
        ("[1, 2, 3]", "[1, 2, 2]", 9, "must not name a world size twice"),
        ("[1, 2, 3]", "[1, true]", 9, "must be a valid integer"),
        ("probe: train", "probe: trian", 11, "probe.py has no function 'trian'. Did you mean 'train'?"),
        ("    probe: train\n", "    probe: train\n    requires: [EPOCH]\n", 12, "'EPOCH' is not in the exercise's"),
        ("  alone:\n", "  alon:\n", 14, "probe.py has no function 'alon'. Did you mean 'alone'?"),
        ("[one, two, three]", "[one, two]", 19, "exactly three hints"),
        ("[one, two, three]", '[one, two, " "]', 19, "must not be empty"),
        ("needs: [runs]", "needs: [rnus]", 22, "needs 'rnus', which is no check. Did you mean 'runs'?"),
        ("needs: [runs]", "needs: [same_result]", 22, "no earlier check"),
        ("needs: [runs]", "needs: [runs, runs]", 22, "must not name anything twice"),
        ("visibility: hidden", "visibility: secret", 23, "must be 'visible', 'hidden'"),
        ("(rank, world_size, *, lr=0.1)", "(rank, world_size", 4, "no Python parameter list"),
        ("(rank, world_size, *, lr=0.1)", "(rank, rank)", 4, "no Python parameter list"),
        ("(rank, world_size, *, lr=0.1)", '"(): pass; (a)"', 4, "no Python parameter list"),
        ("  train_ddp: (", "  train ddp: (", 4, "'train ddp' is no Python name"),
        ("MASTER_PORT: null", "MASTER_PORT: 29500", 13, "must be a valid string (got 29500)"),
        ("MASTER_PORT: null", "MASTER-PORT: null", 13, "the name of an environment variable"),
        ("samples: 24", "samples: 2024-01-01", 12, "not a valid JSON value"),
        ("samples: 24", "samples: .inf", 12, "must be a finite number"),
        ("samples: 24", "24: samples", 12, "must be a valid string"),
        ("title: Train with DistributedDataParallel", "title: ' '", 1, "must not be empty"),
        ("title: Train with DistributedDataParallel", "title: Train: well", 1, "not valid YAML: mapping values"),
        ("    deadline: 20", "\tdeadline: 20", 10, "not valid YAML"),
        ("[1, 2, 3]", "[1, 2, 3", 10, "not valid YAML"),
        ("    deadline: 20", "    deadline: 20\n    deadline: 30", 11, "the key 'deadline' stands twice"),
        ("  alone:\n", "  equal_shards:\n", 14, "the key 'equal_shards' stands twice"),
        ("samples: 24", "samples: !!python/name:os.system x", 12, "not valid YAML: could not determine a constructor"),
        ("samples: 24", "samples: \x01", 12, "not valid YAML"),
        ("requires:\n", "prerequisites: [02_shard_dta]\nrequires:\n", 3, "prerequisites names '02_shard_dta'"),
        ("requires:\n", "companions:\n  - 03_train_ddp\nrequires:\n", 4, "names the exercise itself"),
        ("requires:\n", "time_box: 0\nrequires:\n", 3, "must be greater than 0"),
        ("requires:\n", "stub: 12ab\nrequires:\n", 3, "must be a SHA-256"),
        ("requires:\n", "script: true\nrequires:\n", 4, "a script is not imported"),
    ],
)  # fmt: skip
def test_a_fault_in_the_manifest_is_told_with_its_line(house: House, old: str, new: str, line: int, said: str) -> None:
    """Path, line, the fault, then the remedy."""
    error = house.fault(old, new)
    assert said in str(error)
    assert (error.path.name, error.line) == ("exercise.yaml", line)
    assert error.remedy.endswith((".", "?")) and not error.fault.endswith(".")
    assert str(error).startswith(f"{error.path}:{line}: ")


@pytest.mark.parametrize(
    ("manifest", "said"),
    [("", "the file is empty"), ("# nothing\n", "the file is empty"), ("- a\n", "must be a valid dictionary"),
     ("just text\n", "'the file' must be"), ("a: 1\n---\nb: 2\n", "expected a single document"),
     ("on: 1\n", "the key True is not text"),
     ("? [a]\n: b\n", "not valid YAML"), ("&a [*a]", "YAML cannot read"), ("[" * 3000, "YAML cannot read"),
     ("d: 2024-99-99\n", "YAML cannot read")],
)  # fmt: skip
def test_a_manifest_of_another_shape_is_refused(house: House, manifest: str, said: str) -> None:
    """Never a traceback: empty, a list, several documents, a recursive or very deep one."""
    with pytest.raises(AuthorError) as caught:
        house.load(manifest=manifest)
    assert said in str(caught.value)


def test_a_manifest_that_is_not_utf8_is_refused(house: House) -> None:
    """With the line of the byte."""
    folder = house.add()
    (folder / "exercise.yaml").write_bytes(b"title: ok\nsummary: \xff\n")
    with pytest.raises(AuthorError, match="not UTF-8") as caught:
        catalog.load("03_train_ddp", house.root)
    assert caught.value.line == 2


def test_no_case_is_no_exercise(house: House) -> None:
    """An exercise runs ranks."""
    head, _, tail = MANIFEST.partition("cases:\n")
    with pytest.raises(AuthorError, match=r"exercise\.yaml:7: there is no case"):
        house.load(manifest=head + "cases: {}\n" + tail[tail.index("checks:") :])


def test_relatives_are_folders_of_exercises(house: House) -> None:
    """Prerequisites and companions that exist are taken over."""
    house.add("02_shard_data")
    relatives = "prerequisites: [02_shard_data]\ncompanions: [02_shard_data]\n"
    exercise = house.load(manifest=relatives + MANIFEST)
    assert exercise.prerequisites == exercise.companions == ("02_shard_data",)


def test_manifest_and_checks_name_the_same_checks(house: House) -> None:
    """A key without a function is told in the manifest, a function without a key in checks.py."""
    missing = house.fault(checks=CHECKS.replace("test_same_result", "test_same_reslt"))
    assert (missing.path.name, missing.line) == ("exercise.yaml", 20)
    assert "checks.py has no function 'test_same_result'. Did you mean 'same_reslt'?" in str(missing)
    extra = house.fault(checks=CHECKS + '\n\ndef test_more(runs):\n    """More"""\n')
    assert (extra.path.name, extra.line) == ("checks.py", 16)
    assert "test_more is not in the manifest" in str(extra)


def test_manifest_and_checks_have_one_order(house: House) -> None:
    """The line of the first check out of order is told."""
    first, second = CHECKS.index("def test_runs"), CHECKS.index("def test_same")
    error = house.fault(checks=CHECKS[:first] + CHECKS[second:] + "\n\n" + CHECKS[first:second])
    assert error.line == 20 and "'same_result' is not in the order of checks.py" in str(error)


def test_a_check_without_a_title_is_refused(house: House) -> None:
    """At the function's line."""
    error = house.fault(checks=CHECKS.replace('    """Every rank finishes"""', "    pass"))
    assert (error.path.name, error.line) == ("checks.py", 5)
    assert "test_runs has no docstring" in str(error)


def test_a_check_defined_twice_is_refused(house: House) -> None:
    """The second would hide the first."""
    error = house.fault(checks=CHECKS + '\n\ndef test_runs(runs):\n    """Again"""\n')
    assert "test_runs is defined twice" in str(error) and error.line == 16


@pytest.mark.parametrize("file", ["checks", "probe"])
def test_an_authors_file_that_does_not_compile_is_refused(house: House, file: str) -> None:
    """With its own path and line."""
    error = house.fault(**{file: "x = 1\ndef f(:\n"})
    assert (error.path.name, error.line) == (f"{file}.py", 2)


@pytest.mark.parametrize("file", ["notes.txt", "conftest.py", "train_ddp_old.py"])
def test_a_folder_holds_only_the_files_of_the_design(house: House, file: str) -> None:
    """A stray file is an author error that says what belongs there; it never keeps a student from being graded."""
    folder = house.add()
    (folder / "README.md").write_text("# The statement")
    (folder / "train_ddp.py").touch()
    catalog.check_nothing_else(folder)
    (folder / file).write_text("x")
    with pytest.raises(AuthorError, match=f"{re.escape(file)}: this file does not belong"):
        catalog.check_nothing_else(folder)
    catalog.load("03_train_ddp", house.root)


@pytest.mark.parametrize("file", ["exercise.yaml", "probe.py", "checks.py"])
def test_a_folder_holds_all_files_that_a_grade_needs(house: House, file: str) -> None:
    """A missing one is named."""
    (house.add() / file).unlink()
    with pytest.raises(AuthorError, match=f"{re.escape(file)}: the file is missing"):
        catalog.load("03_train_ddp", house.root)


def test_a_folder_is_named_by_number_and_word(house: House) -> None:
    """As NN_name."""
    house.add("train_3")
    with pytest.raises(AuthorError, match="two digits and a word"):
        catalog.load("train_3", house.root)
