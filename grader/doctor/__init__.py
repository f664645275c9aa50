"""What this machine has, and what each thing means for grading. Probes look; they change nothing that lasts.

facts = examine()
table(facts, color=False, width=80)            # or as_json(facts)
can_grade(facts)                               # False where a ✗ stands
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grader.doctor import machine, software
from grader.doctor.fact import Fact, Mark, can_grade
from grader.doctor.page import as_json, table

__all__ = ["PROBES", "Fact", "Mark", "as_json", "can_grade", "examine", "table"]

Probe = Callable[[], Fact]
PROBES: tuple[Probe, ...] = (*software.PROBES, *machine.PROBES)


def examine(probes: Iterable[Probe] = PROBES) -> tuple[Fact, ...]:
    """All facts, in order. A probe that fails is a fact too, never an exception."""
    return tuple(map(_safely, probes))


def _safely(probe: Probe) -> Fact:
    try:
        return probe()
    except Exception as error:
        found = f"could not be found out ({type(error).__name__}: {error})"
        name = probe.__name__.replace("_", " ")
        return Fact(name=name, mark=Mark.LESS, found=found, meaning="grading may work or not")
