"""grader.catalog: folders become exercises, names are forgiving, and an author's fault is told with path and line."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import pytest

from grader import catalog
from grader.grading.running import import_case
from grader.model import Exercise, Submission
from grader.model.errors import AuthorError, UsageError
from grader.ranks.request import plain, request_for, request_of
from tests import small

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


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path.resolve())


@pytest.fixture
def street(house: House) -> Path:
    """A root with several exercises, some names beginning alike."""
    for name in ("01_process_group", "02_shard_data", "03_train_ddp", "10_zero2", "11_zero3"):
        house.add(name)
    return house.root


# --- names -----------------------------------------------------------------------------------------------------------


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


# --- a good manifest -------------------------------------------------------------------------------------------------


def test_a_folder_becomes_an_exercise(house: House) -> None:
    """Names, signatures and defaults are taken over."""
    exercise = house.load()
    assert (exercise.name, exercise.number, exercise.slug) == ("03_train_ddp", "03", "train_ddp")
    assert exercise.stub == house.root / "exercises" / "03_train_ddp" / "train_ddp.py"
    assert [(entry.name, entry.signature) for entry in exercise.requires] == [
        ("train_ddp", "(rank, world_size, *, lr=0.1)"), ("Sampler.set_epoch", "(self, epoch)"), ("EPOCHS", None)
    ]  # fmt: skip
    assert (exercise.time_box, exercise.hints, exercise.prerequisites) == (30, (), ())
    assert exercise.max_score == 100


def test_a_family_becomes_one_case_a_world_size(house: House) -> None:
    """Each case carries the family's settings; the probe is the family's name unless one is given; seeds stay 0."""
    cases = house.load().cases
    assert [case.id for case in cases] == ["equal_shards[1]", "equal_shards[2]", "equal_shards[3]", "alone[1]"]
    first, last = cases[0], cases[-1]
    assert (first.probe, first.deadline, first.seed) == ("train", 20.0, 0)
    assert first.parameters == {"samples": 24, "names": ["a", None, 1.5]}
    assert first.environment == {"MASTER_PORT": None, "OMP_NUM_THREADS": "1"}
    assert (last.probe, last.hold_group, last.process_group) == ("alone", True, False)


def test_a_family_may_look_for_names_of_its_own(house: House) -> None:
    """What a family requires is looked for in its runs and not at the import, so its absence costs nothing else."""
    exercise = house.load(manifest=MANIFEST.replace("    probe: train\n", "    probe: train\n    requires: [EPOCHS]\n"))
    looked_for = {case.id: [entry.name for entry in exercise.required_by(case)] for case in exercise.cases}
    assert looked_for == {"equal_shards[1]": ["EPOCHS"], "equal_shards[2]": ["EPOCHS"], "equal_shards[3]": ["EPOCHS"],
                          "alone[1]": []}  # fmt: skip
    assert [entry.name for entry in exercise.required_by(import_case())] == ["train_ddp", "Sampler.set_epoch"]


def test_an_exercise_may_want_torch_dynamo_before_its_file_is_imported(house: House) -> None:
    """Else the import, which has ten seconds, would have to do that by itself where a file imports fully_shard."""
    for text, wanted in ((MANIFEST, False), (f"imports_dynamo: true\n{MANIFEST}", True)):
        exercise = house.load(manifest=text)
        submission = Submission.of(Path("student.py"), b"")
        request = request_for(exercise, submission, import_case(), start_method="fork", live=False, alone=True)
        assert request.dynamo is wanted


def test_an_exercise_may_want_modules_that_take_long_to_import(house: House) -> None:
    """The host imports them before any rank of the exercise starts, that of the import included."""
    exercise = house.load(manifest=f"preload: [colorsys, xml.dom]\n{MANIFEST}")
    submission = Submission.of(Path("student.py"), b"")
    for case in (import_case(), exercise.cases[0]):
        request = request_for(exercise, submission, case, start_method="fork", live=False, alone=True)
        assert request.preload == ("colorsys", "xml.dom")
        assert request_of(plain(request)) == request


def test_an_exercise_may_be_a_script(house: House) -> None:
    """Its ranks are told so, for such a file must not be imported; nothing can be looked for in it."""
    named = MANIFEST[MANIFEST.index("requires:") : MANIFEST.index("cases:")]
    script = f"script: true\n{MANIFEST.replace(named, 'requires: {}' + chr(10))}"
    for text, wanted in ((MANIFEST, False), (script, True)):
        exercise = house.load(manifest=text)
        submission = Submission.of(Path("student.py"), b"")
        request = request_for(exercise, submission, import_case(), start_method="fork", live=False, alone=True)
        assert request.script is wanted and request_of(plain(request)) == request


def test_cases_of_a_family_share_no_parameters(house: House) -> None:
    """What one run does to its parameters cannot reach another's."""
    first, second = house.load().cases[:2]
    first.parameters["names"].append("changed")
    assert second.parameters["names"] == ["a", None, 1.5]


def test_a_check_takes_its_title_from_its_docstring(house: House) -> None:
    """The docstring's first line is the title; the manifest gives the rest."""
    runs, same = house.load().checks
    assert (runs.id, runs.title, runs.points) == ("runs", "Every rank finishes", 40)
    assert runs.hints == ("one", "two", "three")
    assert (same.title, same.needs, same.visibility) == ("The result is that of one process", ("runs",), "hidden")


def test_the_students_file_plays_no_part(house: House) -> None:
    """The exercise loads although stub and statement were deleted, and beside caches and dot files."""
    folder = house.add()
    (folder / "train_ddp.py").unlink()
    (folder / "README.md").unlink()
    (folder / "__pycache__").mkdir()
    (folder / ".train_ddp.py.swp").write_text("x")
    assert catalog.load("03_train_ddp", house.root).file == "train_ddp.py"


# --- faults of authors -----------------------------------------------------------------------------------------------


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


# --- the reference ---------------------------------------------------------------------------------------------------


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


# --- what a probe calls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rank.record('a', rank.student.totl(1))", "totl, which `requires` does not name. Did you mean 'total'?"),
        ("student = rank.student; student.other", "asks for other, which `requires`"),
        ("rank.student.total(1, 2)", "total(value): too many positional arguments"),
        ("rank.attempt(rank.student.total)", "total(value): missing a required argument: 'value'"),
        ("rank.attempt(rank.student.total, 1, norm=2)", "unexpected keyword argument 'norm'"),
        ("rank.student.total(1); rank.student.total(*many); rank.student.__file__", ""),
    ],
)  # fmt: skip
def test_a_probe_asks_for_what_the_manifest_promises(tmp_path: Path, line: str, said: str) -> None:
    """Otherwise the first who hears of it is a student. The fault is told with the probe's line."""
    exercise = catalog.load(small.NAME, small.build(tmp_path))
    catalog.check_calls(exercise)
    text = exercise.probe.read_text()
    exercise.probe.write_text(f"{text}\n\ndef more(rank, many):\n    {line}\n")
    if not said:
        return catalog.check_calls(exercise)
    with pytest.raises(AuthorError) as caught:
        catalog.check_calls(exercise)
    assert said in str(caught.value)
    assert (caught.value.path.name, caught.value.line) == ("probe.py", len(text.splitlines()) + 4)


def test_what_is_promised_and_never_asked_for_is_a_fault(tmp_path: Path) -> None:
    """A name that no case tries is not graded."""
    root = small.build(tmp_path)
    manifest = root / "exercises" / small.NAME / "exercise.yaml"
    manifest.write_text(manifest.read_text().replace("total: (value)", "total: (value)\n  mean: (value)"))
    with pytest.raises(AuthorError, match=r"`requires` names mean, and probe\.py never asks for it"):
        catalog.check_calls(catalog.load(small.NAME, root))
