"""Mend this: what a pack holds, when it is stale, and that what is packed here can be shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.authoring import mends
from grader.course import project
from grader.grading import flow
from grader.grading.request import Request
from grader.model import alone
from grader.model.errors import UsageError
from grader.practice.mend import pack
from grader.render import html, terminal
from tests import fakes, mending, small
from tests.mending import of
from tests.solutions import ROOT


def test_a_pack_holds_what_fails_as_its_author_says_and_no_plain_program(root, tmp_path):
    found = pack.load(small.NAME, root)
    assert [mend.mutant for mend in found.mends] == ["forgets_to_reduce", "takes_anything"]
    content = found.path.read_bytes()
    assert b"def total" not in content and b"dist" not in content
    pack.save(tmp_path / "again", small.NAME, found.mends)
    assert (tmp_path / "again").read_bytes() == content


def test_a_recorded_page_is_that_of_a_grade(root, tmp_path):
    file = tmp_path / "total.py"
    file.write_text(of(root).source)
    request = Request(exercise=small.NAME, root=root, submission=file, seed=of(root).report["seed"])
    now = flow.grade(request, fakes.FakeSession(otherwise=mending.behaves))
    shown = terminal.render(pack.report_of(of(root), mending.exercise(root), file))
    assert re.sub(r"[\d.]+ s$", "", shown.rstrip()) == re.sub(r"[\d.]+ s$", "", terminal.render(now).rstrip())
    assert "✗ All ranks get the sum" in shown


def test_it_knows_what_would_be_right_and_where(root):
    packed = of(root, "takes_anything")
    assert packed.mended == (
        '- return TypeError("value must be a tensor")', '+ raise TypeError("value must be a tensor")',
    )  # fmt: skip
    assert (packed.function, packed.line) == ("total", 7)
    assert mends.function_at("class A:\n    def f(self):\n        pass\n", 3) == "A.f"
    assert mends.difference("a\nb\nc\nd\n", "a\nc\ne\n") == ("- b", "…", "- d", "+ e")


@pytest.mark.parametrize("damage", [b"", b"no pack", "cut", "bomb"])
def test_a_file_that_is_no_pack_is_named(root, tmp_path, damage, monkeypatch):
    path = pack.place(small.NAME, tmp_path)
    path.parent.mkdir(parents=True)
    whole = pack.place(small.NAME, root).read_bytes()
    path.write_bytes({"cut": whole[:-9], "bomb": whole}.get(damage, damage))
    if damage == "bomb":
        monkeypatch.setattr(pack, "MAX_BYTES", 100)
    with pytest.raises(UsageError, match=r"packs/90_total\.mends is no pack of mends for 90_total"):
        pack.load(small.NAME, tmp_path)
    assert pack.load("91_other", tmp_path) is None


def test_mutants_are_chosen_check_by_check_and_those_with_nothing_to_find_are_left(root):
    found = mending.exercise(root)
    mutants = catalog.load_mutants(found, root)
    lacking = replace(mutants[0], name="lacks", source="import torch\n")
    several = replace(mutants[0], name="several", fails=("sums", "refuses"))
    switched = replace(mutants[0], name="switched", source=mutants[0].source + "\nif False and total:\n    pass\n")
    chosen = mends.choose(found, [lacking, several, *mutants], 3)
    assert [mutant.name for mutant in chosen] == [mutant.name for mutant in mutants]
    assert len(mends.choose(found, [lacking, switched, several, *mutants], 9)) == 4


def test_a_pack_is_stale_where_a_program_or_a_check_has_changed_and_not_for_words(root, tmp_path):
    copy = small.build(tmp_path)
    packed = mending.packed(copy)
    manifest, mutants = copy / "exercises/90_total/exercise.yaml", copy / "reference/90_total/mutants.yaml"

    def stale() -> tuple[str, ...]:
        return mends.state(pack.load(small.NAME, copy), mending.exercise(copy), copy).stale

    manifest.write_text(manifest.read_text().replace("[where, idea, code]", "[here, this, that]"))
    mutants.write_text(mutants.read_text().replace("Bad input is not", "What is no tensor is not"))
    assert stale() == ()
    mutants.write_text(mutants.read_text().replace("return TypeError", "assert TypeError"))
    assert stale() == ("takes_anything",)
    manifest.write_text(manifest.read_text().replace("points: 20", "points: 21").replace("points: 30", "points: 29"))
    assert stale() == ("takes_anything",), "points are shown as they are today"
    manifest.write_text(manifest.read_text().replace("refuses: {", "refuses: {needs: [same], "))
    assert stale() == tuple(mend.mutant for mend in packed)


def test_a_students_copy_has_packs_in_a_place_of_their_own(root, tmp_path):
    project.copy_mends([mending.exercise(root)], root, tmp_path)
    assert [path.name for path in (tmp_path / "packs").iterdir()] == ["90_total.mends"]
    assert pack.load(small.NAME, tmp_path).mends == pack.load(small.NAME, root).mends


PACKED = [name for name in catalog.all_names(ROOT) if pack.place(name, ROOT).is_file()]


@pytest.mark.parametrize("name", PACKED)
def test_no_page_names_a_place_of_the_machine_on_which_it_was_recorded(name):
    for packed in pack.load(name, ROOT).mends:
        assert "/site-packages/" not in json.dumps(packed.report), packed.mutant


def test_a_librarys_warning_is_kept_without_its_place(tmp_path):
    where = Path(pytest.__file__).parent
    told = f"{where}/graph.py:979: a warning of {tmp_path}/total.py"
    assert mends.anonymous(told, str(tmp_path)) == "pytest/graph.py:979: a warning of total.py"


@pytest.mark.parametrize("name", PACKED)
def test_what_is_packed_here_can_be_shown(name):
    """Every mend has its page for a terminal; the first has one for a browser."""
    found, exercise = pack.load(name, ROOT), catalog.load(name, ROOT)
    fitting = [mend for mend in found.mends if pack.fits(mend, exercise)]
    assert len(fitting) >= len(found.mends) // 2, f"make mends EX={exercise.number}"
    file = Path(f"mends/{name}/1/{exercise.file}")
    for packed in fitting:
        report = pack.report_of(packed, exercise, file)
        assert report.status == "failed" and "✗" in terminal.render(report, width=60)
        assert compile(packed.source, "mend", "exec") and packed.mistake and packed.mended
    assert html.render(alone(pack.report_of(fitting[0], exercise, file))).lower().startswith("<!doctype html>")
