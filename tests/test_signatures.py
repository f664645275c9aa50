"""How mutants fail is recorded once, and holds for the exercise with which it was made. No rank is started."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from grader import catalog
from grader.batch.report import signatures
from grader.batch.report.facts import Fault
from grader.practice import store
from grader.records import digests

ROOT = Path(__file__).resolve().parent.parent
NAME = "16_torchrun_template"


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """The mutants that were graded, of which the grade is a fake that is interrupted when told so."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    tried: list[str] = []

    def fake(session, exercise, root, mutants):
        for mutant in mutants:
            if mutant.name == getattr(fake, "stops_at", ""):
                raise KeyboardInterrupt
            tried.append(mutant.name)
            yield mutant, frozenset({Fault("joins", mutant.name, "#", "# (more)", "")})

    monkeypatch.setattr(signatures, "warm_session", lambda **options: contextlib.nullcontext())
    monkeypatch.setattr(signatures, "graded", fake)
    return tried, fake


def test_mutants_are_graded_once_and_an_interruption_loses_none_that_was(graded):
    tried, fake = graded
    names = [mutant.name for mutant in catalog.load_mutants(catalog.load(NAME, ROOT), ROOT)]
    assert not any(each.faults for each in signatures.known(NAME, ROOT))
    fake.stops_at = names[5]
    with pytest.raises(KeyboardInterrupt):
        signatures.record(NAME, ROOT, lambda sentence: None)
    fake.stops_at = ""
    assert signatures.record(NAME, ROOT, lambda sentence: None) == len(names) - 5 and tried == names
    assert signatures.record(NAME, ROOT, lambda sentence: None) == 0
    found = signatures.known(NAME, ROOT)
    assert [each.name for each in found] == names
    assert found[0].faults == {Fault("joins", names[0], "#", "# (more)", "")} and found[0].mistake


def test_what_was_recorded_with_other_checks_says_nothing(graded, monkeypatch):
    signatures.record(NAME, ROOT, lambda sentence: None)
    monkeypatch.setattr(digests, "of_exercise", lambda exercise: "another")
    assert not any(each.faults for each in signatures.known(NAME, ROOT))


def test_a_file_that_is_something_else_is_as_good_as_none(graded):
    path = store.place(ROOT).parent / "signatures" / f"{NAME}.json"
    path.parent.mkdir()
    for content in ("", "[]", '{"format": "else"}', '{"format": "ranklings/signatures/1"}'):
        path.write_text(content)
        found = signatures.known(NAME, ROOT)
        assert len(found) > 30 and not any(each.faults for each in found)


def test_an_exercise_without_mutants_has_no_signatures(tmp_path):
    assert signatures.known("90_none", tmp_path) == ()
