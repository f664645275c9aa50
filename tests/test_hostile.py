"""Attacks on the grader: none passes, hangs, crashes it, leaves a process, or changes a file outside its scratch.

Each attack is a file of tests/hostile; its control beside it does the innocent half of the same and gets full marks. An
attack that only bubblewrap stops says so, and what it achieves below is asserted too, so that docs/security.md is true.
One in twelve is tried each time; `make test ARGS="--whole tests/test_hostile.py"` tries all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile import table
from tests.hostile.arena import Arena, arena_at, can_have
from tests.hostile.catalogue import LEVELS, MACHINERY, Attack, attacks, control_of, controls

HARMLESS = {"failed", "error", "refused"}


@pytest.fixture(scope="module", params=LEVELS)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """A warm session at one level, which all attacks share."""
    if not can_have(request.param):
        pytest.skip("bubblewrap is not installed here, or may not make namespaces, so its level cannot be tested")
    with arena_at(request.param) as arena:
        yield arena


@pytest.mark.one_in(12)
@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: attack.name)
def test_an_attack_gains_nothing_and_harms_nothing(arena: Arena, attack: Attack) -> None:
    """It ends as its file says: as a failed check, an error or a refusal, and a control gets full marks after it."""
    aftermath = arena.grade(attack)
    assert str(aftermath) in attack.expected(arena.level), aftermath.told
    if attack.stopped_at(arena.level):
        assert attack.tells in aftermath.told


@pytest.fixture(scope="module")
def best_arena() -> Iterator[Arena]:
    """The best level that there is here."""
    with arena_at(next(filter(can_have, ("bubblewrap", "limits")))) as arena:
        yield arena


@pytest.mark.one_in(12)
@pytest.mark.parametrize("control", controls(), ids=lambda control: control.name)
def test_its_innocent_twin_passes(best_arena: Arena, control: Attack) -> None:
    """The same means without the malice get full marks, so it is the attack that was stopped. At the stricter level:
    what passes there passes without it."""
    aftermath = best_arena.grade(control)
    assert str(aftermath) == "passed", aftermath.told


def test_every_attack_has_a_strategy_and_a_control() -> None:
    """A docstring of a line and a half at least, and a control of the same name."""
    for attack in attacks():
        assert attack.title.endswith("."), attack.name
        assert control_of(attack.name).title.endswith("."), attack.name


def test_an_attack_that_is_stopped_is_stopped_without_harm() -> None:
    """No file may declare that winning is fine at a level that is said to stop it."""
    for attack in attacks():
        assert set(attack.expected("bubblewrap")) <= HARMLESS, attack.name
        assert (attack.stopped_by == "bubblewrap") == bool(attack.below), attack.name


def test_the_table_of_attacks_is_true() -> None:
    """docs/security.md says what the tests assert. `python -m tests.hostile.table --write` renews it."""
    assert table.PAGE.read_text() == table.renewed(table.PAGE.read_text())


def test_nothing_else_lies_in_the_folder() -> None:
    """Whatever is no machinery is an attack or a control of one."""
    names = {path.stem for path in Path("tests/hostile").glob("*.py")} - MACHINERY
    attacked = {attack.name for attack in attacks()}
    assert names == attacked | {f"{name}_control" for name in attacked}
