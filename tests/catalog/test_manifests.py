"""grader.catalog: what a good manifest says."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.grading.running import import_case
from grader.model import Submission
from grader.ranks.request import plain, request_for, request_of
from tests.house import MANIFEST, House


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


def test_a_family_may_ask_for_the_cpu(house: House) -> None:
    """Its ranks see no GPU, whatever there is; its other variables stay."""
    exercise = house.load(manifest=MANIFEST.replace("    probe: train\n", "    probe: train\n    device: cpu\n"))
    first, last = exercise.cases[0], exercise.cases[-1]
    assert first.environment == {"MASTER_PORT": None, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    assert "CUDA_VISIBLE_DEVICES" not in last.environment


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


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (b"from torch.distributed._functional_collectives import all_reduce\n", True),
        (b"from torch.distributed.fsdp import fully_shard\n", True),
        (b"import torch\nstep = torch.compile(step)\n", True),
        (b"import torch.distributed as dist\nimport re\nre.compile('a')\n", False),
    ],
)
def test_a_file_that_will_import_torch_dynamo_finds_it_there(house: House, source: bytes, wanted: bool) -> None:
    """Else each rank imports it for itself, which takes seconds."""
    submission = Submission.of(Path("student.py"), source)
    request = request_for(house.load(), submission, import_case(), start_method="fork", live=False, alone=True)
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
