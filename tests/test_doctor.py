"""doctor says what a machine has, and what each thing means for grading."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from grader import doctor
from grader.doctor import Fact, Mark, machine, software

YES = Fact(name="gloo", mark=Mark.YES, found="a group was formed", meaning="ranks meet on the CPU")
LESS = Fact(name="GPUs", mark=Mark.LESS, found="none", meaning="all ranks compute on the CPU")
NO = Fact(name="loopback", mark=Mark.NO, found="fails: [busy]", meaning="ranks cannot meet at 127.0.0.1")


def test_every_probe_gives_a_fact_on_this_machine():
    """No probe raises here, and each says what its finding means."""
    facts = doctor.examine()
    assert len({fact.name for fact in facts}) == len(doctor.PROBES)
    assert all(fact.found and fact.meaning for fact in facts)
    assert not [fact for fact in facts if "could not be found out" in fact.found]
    assert doctor.can_grade(facts)


def test_a_probe_that_fails_is_a_fact_and_not_an_exception():
    """A machine that surprises a probe still gets its table."""

    def odd_thing() -> Fact:
        raise OSError("no such luck")

    (fact,) = doctor.examine([odd_thing])
    assert (fact.name, fact.mark) == ("odd thing", Mark.LESS)
    assert "no such luck" in fact.found


def test_only_a_cross_stops_grading():
    assert doctor.can_grade([YES, LESS])
    assert not doctor.can_grade([YES, LESS, NO])


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_keeps_to_its_width(width):
    """Long meanings are wrapped, and square brackets are no markup."""
    text = doctor.table([YES, LESS, NO], color=False, width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "[busy]" in text
    assert "\x1b" not in text
    assert "cannot grade" in " ".join(text.split())


def test_colour_changes_nothing_but_the_colour():
    painted = doctor.table([YES, NO], color=True, width=80)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == doctor.table([YES, NO], color=False, width=80)


def test_the_json_holds_the_same_facts():
    told = json.loads(doctor.as_json([YES, NO]))
    assert told["can_grade"] is False
    assert told["facts"][0] == {
        "name": "gloo",
        "mark": "yes",
        "found": "a group was formed",
        "meaning": "ranks meet on the CPU",
    }


@pytest.mark.parametrize(
    ("version", "mark"),
    [
        ("2.10.1", Mark.LESS),
        ("2.11.0", Mark.YES),
        ("2.13.0+cpu", Mark.YES),
        ("2.14.2", Mark.YES),
        ("2.15.0a0", Mark.LESS),
    ],
)
def test_the_range_of_torch_is_that_of_the_project(version, mark):
    """The bounds of the probe are those that pip is given in pyproject.toml."""
    assert software.torch_version(version).mark is mark
    low, high = (".".join(map(str, bound)) for bound in (software.OLDEST, software.TOO_NEW))
    assert f'"torch>={low},<{high}"' in (Path(__file__).parent.parent / "pyproject.toml").read_text()


def test_a_machine_without_torch_cannot_grade(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    fact = software.torch()
    assert fact.mark is Mark.NO
    assert "make grade" in fact.meaning


def test_a_container_is_given_no_more_memory_than_it_is_allowed(tmp_path):
    """What the control group leaves counts where it is less than what the machine has."""
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert machine.available_memory(10_000, tmp_path) == 600
    assert machine.available_memory(500, tmp_path) == 500
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available_memory(10_000, tmp_path) == 10_000
    assert machine.available_memory(10_000, tmp_path / "absent") == 10_000


def test_little_memory_is_said_and_stops_nothing():
    assert machine.memory_of(100 << 20).mark is Mark.LESS
    assert machine.memory_of(8 << 30).mark is Mark.YES


def test_a_temporary_folder_that_cannot_be_written_stops_grading(tmp_path):
    assert machine.temporary(tmp_path).mark is not Mark.NO
    assert machine.temporary(tmp_path / "absent").mark is Mark.NO


def test_a_machine_without_loopback_cannot_grade(monkeypatch):
    def refuse(*_: object, **__: object) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "create_server", refuse)
    fact = machine.loopback()
    assert fact.mark is Mark.NO
    assert "Operation not permitted" in fact.found


def test_without_bubblewrap_it_says_what_that_means(monkeypatch):
    monkeypatch.setattr("grader.ranks.sandbox.obstacle", lambda: "bubblewrap is not installed")
    fact = software.bubblewrap()
    assert fact.mark is Mark.LESS
    assert "trust" in fact.meaning
