"""The parts of the course as milestones: how far each has come, and what who has passed it can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from grader.practice.history import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Exercises that belong together, by the first and the last number. `can` goes on after "you can"."""

    title: str
    first: int
    last: int
    can: str


PARTS = (
    Part(title="Warm-up", first=0, last=0, can="call a collective, and say when ranks wait for ever"),
    Part(
        title="Part 1 · Data parallel training",
        first=1,
        last=7,
        can="train a model on several GPUs exactly as on one, start the ranks, save and resume it, and divide the "
        "optimizer's state among them",
    ),
    Part(
        title="Part 2 · From first principles",
        first=8,
        last=15,
        can="build all-reduce, DDP, ZeRO, tensor and pipeline parallelism out of messages and collectives, and say "
        "what each of them sends and keeps",
    ),
    Part(
        title="Part 3 · Running it for real",
        first=16,
        last=21,
        can="launch a job that outlives its crashes, say beforehand what it costs, choose a plan for a cluster, and "
        "find the rank at fault when it hangs",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """How far a part has come, of the exercises that this course has of it. A course that has not all of them cannot
    say that somebody can do what the whole part is about."""

    part: Part
    passed: int
    count: int

    @property
    def reached(self) -> bool:
        return self.passed == self.count

    @property
    def ability(self) -> str:
        """What one can do, or will be able to do, with the whole part; empty where the course has not all of it."""
        if self.count <= self.part.last - self.part.first:
            return ""
        return f"{'You can' if self.reached else 'Then you can'} {self.part.can}"


def milestones(found: Sequence[Standing]) -> tuple[Milestone, ...]:
    """Those of the parts of which the course has exercises, in order."""
    made = []
    for part in PARTS:
        of_part = [each for each in found if part.first <= int(each.exercise.number) <= part.last]
        if of_part:
            passed = sum(each.state == "passed" for each in of_part)
            made.append(Milestone(part=part, passed=passed, count=len(of_part)))
    return tuple(made)


def grid(reached: Sequence[Milestone]) -> Table:
    """A part a row: its mark, what it is, how far it has come, what it is good for."""
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("")
    for each in reached:
        mark, style = ("✓", "green") if each.reached else (" ", "dim")
        row = [Text(each.part.title), Text(f"{each.passed}/{each.count}"), Text(each.ability, style)]
        table.add_row(Text(mark, style), *row)
    return table


def sentence(each: Milestone) -> str:
    """The same for screen readers."""
    end = f" {each.ability}." if each.ability else ""
    return f"{each.part.title}: {each.passed} of {each.count} passed.{end}"


def plain(each: Milestone) -> dict[str, Any]:
    """The same for programs."""
    return {
        "title": each.part.title,
        "passed": each.passed,
        "of": each.count,
        "can": each.part.can if each.ability else "",
    }
