"""`doctor` and `verify`: their codes."""

from __future__ import annotations

import json

import pytest

from tests.commands import call


def test_doctor_is_3_where_grading_is_impossible(monkeypatch):
    from grader import doctor

    wrong = doctor.Fact(name="loopback", mark=doctor.Mark.NO, found="fails", meaning="ranks cannot meet")
    monkeypatch.setattr(doctor, "examine", lambda: (wrong,))
    assert call("doctor").exit_code == 3
    assert json.loads(call("doctor", "--json").stdout)["can_grade"] is False


@pytest.mark.parametrize(("breaches", "code"), [([], 0), (["stub: passes adds"], 1)])
def test_verify_is_1_where_an_exercise_is_not_proved(root, monkeypatch, breaches, code):
    import grader.authoring.proof_page as proof_page
    import grader.authoring.verify as proving

    class FakeProof:
        def breaches(self) -> list[str]:
            return breaches

    names: list[str] = []
    monkeypatch.setattr(proving, "verify", lambda name, *_, **__: names.append(name) or FakeProof())
    monkeypatch.setattr(proof_page, "matrix", lambda proof: "the matrix\n")
    result = call("verify")
    assert result.exit_code == code
    assert names == ["01_add", "02_ring"]
    assert result.stdout == "the matrix\nthe matrix\n"


def test_a_log_hears_every_tenth_specimen_and_every_wrong_one(monkeypatch, capsys):
    """`verify` in a pipe says that it goes on, and what went wrong as soon as it is known."""
    from grader.cli import console

    said: list[str] = []
    tell = console.logged(said.append, "wrong")
    for number in range(1, 26):
        tell(f"{number} of 25{', wrong' if number == 4 else ''}: mutant wrong_{number}")
    lines = capsys.readouterr().err.splitlines()
    assert len(said) == 25
    assert [line.partition(" of")[0] for line in lines] == ["4", "11", "21"]
