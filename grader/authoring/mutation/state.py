"""What is kept of automatic mutants: a JSON file of each one's last outcome, and the table of docs/verification.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.authoring.mutation.generate import AutoMutant, diff
from grader.authoring.mutation.runner import MutantOutcome, TriedMutant
from grader.authoring.mutation.score import Score
from grader.model.errors import UsageError

SCHEMA = "ranklings/auto-mutants/1"
BEGIN, END = "<!-- auto-mutants: begin -->", "<!-- auto-mutants: end -->"
_HEAD = [
    "| exercise | mutants | killed | equivalent | only without a GPU | survived | score |",
    "|---|--:|--:|--:|--:|--:|--:|",
]


# --- the JSON file ---------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """The exercises of a file written before, by name; {} where there is none. Raises UsageError for another file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); remove it or name another file.") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UsageError(f"{path} was not written by `verify --auto --json`; name another file.")
    return dict(content["exercises"])


def merged(before: dict[str, Any], scores: Sequence[Score]) -> str:
    """The file's new text: tried mutants have their new outcome, others of the same solution keep theirs."""
    exercises = dict(before)
    for score in scores:
        known, left_out = {mutant.identity for mutant in score.subject.mutants}, score.subject.left_out
        name = score.subject.exercise.name
        before_now = exercises.get(name, {}).items()
        old = {identity: entry for identity, entry in before_now if identity in known or identity.startswith(left_out)}
        new = {result.mutant.identity: _entry(score, result) for result in score.results}
        exercises[name] = old | new
    return json.dumps({"schema": SCHEMA, "exercises": exercises}, indent=1, ensure_ascii=False) + "\n"


def _entry(score: Score, result: TriedMutant) -> dict[str, Any]:
    listed = score.subject.listed(result.mutant, score.gpu)
    return {
        "fate": result.outcome.value,
        "by": result.by,
        "message": result.message,
        "seed": result.seed,
        "seconds": round(result.seconds, 2),
        "line": result.mutant.line,
        "description": result.mutant.description,
        "diff": diff(result.mutant),
        "equivalent": listed.reason if listed else None,
    }


def survivors(known: dict[str, Any]) -> set[str]:
    """Of one exercise, the names of those that survived when they were last tried."""
    return {name for name, entry in known.items() if entry["fate"] != MutantOutcome.KILLED.value}


def completed(score: Score, known: dict[str, Any]) -> Score:
    """The score with what the file says of the solution's own mutants that were not tried now: an exercise may be
    tried in parts. Raises UsageError where some have not been tried at all."""
    tried = {result.mutant.identity for result in score.results}
    others = [mutant for mutant in score.subject.mutants if not mutant.variant and mutant.identity not in tried]
    if missing := [mutant.identity for mutant in others if mutant.identity not in known]:
        raise UsageError(f"{len(missing)} mutants have not been tried, so there is no row yet: {missing[0]}, …")
    return replace(score, results=(*score.results, *(_remembered(mutant, known) for mutant in others)))


def _remembered(mutant: AutoMutant, known: dict[str, Any]) -> TriedMutant:
    entry = known[mutant.identity]
    return TriedMutant(
        mutant=mutant,
        outcome=MutantOutcome(entry["fate"]),
        seed=entry["seed"],
        by=entry["by"],
        message=entry["message"],
        seconds=entry["seconds"],
    )


# --- the table -------------------------------------------------------------------------------------------------------


def tabulated(text: str, scores: Sequence[Score]) -> str:
    """The page with the rows of these exercises written anew and all others left. Raises UsageError for a page without
    the two markers."""
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"The page for --table lacks the lines {BEGIN} and {END}; put them where the table belongs.")
    rows = {row.split("|")[1].strip(): row for row in table.splitlines() if row.startswith("|")}
    rows = {name: row for name, row in rows.items() if name[:1].isdigit()}
    rows |= {score.subject.exercise.name: _row(score) for score in scores}
    return "\n".join([before + begin, *_HEAD, *(rows[name] for name in sorted(rows)), end + after])


def _row(score: Score) -> str:
    """The solution's own; a variant's mutants are drawn, so that their number says nothing."""
    own = replace(score, results=tuple(result for result in score.results if not result.mutant.variant))
    return _numbers(own)


def _numbers(score: Score) -> str:
    listed = [score.subject.listed(result.mutant, score.gpu) for result in score.equivalent]
    hidden = sum(entry is not None and entry.needs_gpu for entry in listed)
    survived = len(score.survivors) + len(score.of(MutantOutcome.BROKEN))
    numbers = [len(score.results), len(score.of(MutantOutcome.KILLED)), len(listed) - hidden, hidden, survived]
    return f"| {' | '.join([score.subject.exercise.name, *map(str, numbers)])} | {score.percent:.1f} % |"
