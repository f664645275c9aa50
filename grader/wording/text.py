"""Text from students made safe to show, and the phrases that all renderers share."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from grader.model import (
    Case,
    Check,
    Deadlocked,
    Ending,
    Exercise,
    Exited,
    Finding,
    Killed,
    Outcome,
    Raised,
    Report,
    Submission,
    TimedOut,
    Verdict,
    Wait,
)
from grader.model.plain import PLAIN_TYPES, error_in_words, ours
from grader.model.words import count, rank_list
from grader.wording.rations import with_rows_rationed, with_texts_rationed

LIMIT = 600
"""Characters of one text that are shown."""

LIMITS = {"output": 40_000, "hint": 2_000}
"""Fields that may be longer: the engine has trimmed the first, and an author wrote the second."""

IMPORT = "import[1]"
"""The case that only imports the student's file: there, a rank says nothing to a student."""


def visible(char: str) -> str:
    """One character as it may reach a terminal: control, bidi and other unprintable characters as escapes.

    A lone carriage return starts a new line, so that nothing overwrites what stands before it.
    """
    if char == "\r":
        return "\n"
    return char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode("ascii")


_MORE = 40
"""Room for the sentence that says how much was left out."""

_COMMAND = re.compile(
    r"::(?=(?:error|warning|notice|debug|group|endgroup|add-mask|stop-commands|echo|add-matcher|remove-matcher"
    r"|set-output|save-state|set-env|add-path)\b)",
    re.IGNORECASE,
)
"""What a runner of GitHub Actions takes for a command where a line begins with it, and a wrapped line begins anywhere.
"##[" and "##vso[" are the like of Azure Pipelines, "##teamcity[" that of TeamCity."""
_BRACKET = re.compile(r"##(|vso|teamcity)\[", re.IGNORECASE)


def safe(text: str, limit: int = LIMIT) -> str:
    """At most `limit` characters of `text`, all visible; where that is not all, its beginning and how many more there
    were. What has been made safe once stays as it is."""
    text = _COMMAND.sub(": :", text.replace("\r\n", "\n"))
    text = _BRACKET.sub(r"## \1[", text)
    if text[: limit + 1].isprintable():  # as nearly all are, and then there is no letter to look at
        cut = limit - _MORE
        return text if len(text) <= limit else f"{text[:cut]}… ({len(text) - cut:,} more characters)"
    shown: list[str] = []
    room, cut, left = limit, 0, 0
    for index, char in enumerate(text):
        piece = visible(char)
        room -= len(piece)
        if room >= _MORE:
            cut, left = index + 1, len(text) - index - 1
        if room < 0:
            return f"{''.join(shown[:cut])}… ({left:,} more characters)"
        shown.append(piece)
    return "".join(shown)


def source_lines(submission: Submission) -> list[str]:
    """The student's file, line by line as Python and editors count them, every character visible."""
    text = submission.source.decode(encoding_of(submission.source), errors="replace").removeprefix("\ufeff")
    return ["".join(map(visible, line)) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def encoding_of(source: bytes) -> str:
    """The encoding that a Python file names, or UTF-8 where it names none that text could be in."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        if encoding in ("punycode", "idna"):  # they take minutes for what a file may hold
            return "utf-8"
        return encoding if isinstance("".encode(encoding), bytes) and b"".decode(encoding) == "" else "utf-8"
    except (SyntaxError, LookupError, UnicodeError, ValueError):
        return "utf-8"


def safe_report(report: Report) -> Report:
    """The same report with every text that a student can influence made safe, and as much as pages have room for; an
    author's texts stay as they are."""
    made_safe: Report = _safe_value(with_rows_rationed(report))
    return with_texts_rationed(made_safe)


def _safe_value(value: Any, name: str = "") -> Any:
    match value:
        case str():
            return safe(value, LIMITS.get(name, LIMIT))
        case Path():
            return Path(safe(str(value)))
        case tuple():
            return tuple(_safe_value(item, name) for item in value)
        case Exercise() | Check() | Case():
            return value
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{f.name: _safe_value(getattr(value, f.name), f.name) for f in fields(value)})


def points(value: float) -> str:
    """Points with at most two decimals and no idle ones: 20, 2.5, 49.09."""
    return f"{round(value, 2):.10g}"


def world_size_of(case: str | None) -> int | None:
    """The world size in a case's id: 3 for "equal_shards[3]". The import of the file has none."""
    if case == IMPORT:
        return None
    found = re.search(r"\[(\d{1,6})\]$", case or "")
    return int(found[1]) if found else None


_ASKED_FOR = re.compile(r"rank \d+ of \d+\b|\d+ ranks? together\b")


def place(finding: Finding, exercise: Exercise) -> str:
    """Where a finding was seen: `ranks 0, 2 of 3 · line 41`; empty where nothing is known. That it was one rank alone
    is told only where the exercise has runs on several. One that speaks of ranks that were only asked for ("rank 0 of
    5, 20 samples") does not name the run's own beside them as if they were of one kind."""
    sizes = {case.world_size for case in exercise.cases}
    ranks = () if finding.case == IMPORT else finding.ranks
    if _ASKED_FOR.match(finding.subject):
        parts = [f"asked in the {'process' if len(ranks) == 1 else 'processes'} of {rank_list(ranks)}"] if ranks else []
    else:
        parts = [] if sizes == {1} else [_ranks_in_world(ranks, world_size_of(finding.case))]
    if finding.line:
        parts.append(f"line {finding.line}")
    return " · ".join(filter(None, parts))


def in_world(world_size: int) -> str:
    """`on 3 ranks`; that there is no rank but one is not said so, for it reads as if the others had done well."""
    return f"on {count(world_size, 'rank')}" if world_size != 1 else "at world size 1"


def _ranks_in_world(ranks: Sequence[int], world_size: int | None) -> str:
    if world_size is None:
        return rank_list(ranks) if ranks else ""
    if world_size == 1 or not ranks:
        return in_world(world_size)
    if len(set(ranks)) == world_size:
        return f"all {world_size} ranks" if world_size > 2 else "both ranks"
    return f"{rank_list(ranks)} of {world_size}"


def waiting(wait: Wait) -> str:
    """What a rank waits in: `all_reduce`, `all_reduce in group tp`."""
    group = wait.group.removeprefix("group ")
    return wait.operation if group in ("", "default") else f"{wait.operation} in group {group}"


def ended(ending: Ending) -> str:
    """How a rank ended, in a few words."""
    match ending:
        case Raised():
            meaning = PLAIN_TYPES.get(ending.type)
            return meaning.short if meaning else f"raised {error_in_words(ending.type, ending.message)}"
        case Exited():
            return f"left with {ending.how}({ending.code})"
        case Killed():
            return f"stopped by the grader ({ending.signal})" if ending.by_grader else f"killed by {ending.signal}"
        case Deadlocked():
            return f"waits in {waiting(ending.wait)}{ours(ending.stack)}"
        case TimedOut():
            busy = f", waiting in {waiting(ending.wait)}{ours(ending.stack)}" if ending.wait else ""
            return f"ran out of time{' during import' if ending.importing else ''}{busy}"
    return ending.kind


def blocked_by(verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    """What a blocked check waits for: the checks that it needs and that did not pass."""
    if verdict.message:
        return verdict.message
    titles = [v.check.title for v in verdicts if v.check.id in verdict.check.needs and v.outcome is not Outcome.PASSED]
    return f"needs: {', '.join(titles or verdict.check.needs) or 'an earlier check'}"
