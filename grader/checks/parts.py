"""What came of the parts of an exercise that grader.kit.parts tried, each alone and those of a family in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from grader.checks.observations import Attempt
from grader.checks.views import RankView, Runs, RunView

LONGEST = 300
"""Characters of what a part raised that are shown."""


def expect_done(rank: RankView, part: str, subject: str) -> None:
    """A part that was tried alone came to its end."""
    outcome = rank.read(f"{part} alone", Attempt)
    said = "; ".join(filter(None, outcome["said"].splitlines()))[:LONGEST]
    seen = ": ".join(filter(None, [*outcome["raised"][:1], said]))
    rank.expect(not outcome["raised"], subject, "no exception", seen, line=outcome["line"])


def arrived(
    runs: Runs, families: Mapping[str, Sequence[Callable[[Any], None]]], part: str, recorded: Sequence[str]
) -> Iterator[RunView]:
    """The runs on several ranks in which a part has its turn, with these records; a run that lacks one of them is told
    by its diagnosis. What kept a run from coming to the part at all is told by the check of what came before."""
    for family, parts in families.items():
        names = [one.__name__ for one in parts]
        if part in names:
            earlier = [f"{name} ended" for name in names[: names.index(part)]]
            for run in (run for run in runs(family, finished=False) if run.came_to(earlier)):
                if not run.came_to(recorded):
                    run.require_finished()
                yield run
