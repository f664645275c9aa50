"""Why did a run go wrong? The first failure in time is the cause, the others are its consequences. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from grader.model import (
    PROBE,
    Case,
    Deadlocked,
    Diagnosis,
    Ending,
    Exited,
    Finding,
    Finished,
    Killed,
    Raised,
    RankRecord,
    TimedOut,
)
from grader.model.plain import NO_INPUT, NOBODY_TYPES, PLAIN_TYPES, error_in_words, ours
from grader.model.witness import Witness
from grader.model.words import rank_list
from grader.ranks.inside.scene import CAUGHT
from grader.ranks.limits import reached

SIGNALS = {
    "SIGSEGV": "a memory fault (SIGSEGV)",
    "SIGKILL": "SIGKILL (the system kills so when memory runs out)",
    "SIGABRT": "SIGABRT (C++ code gave up, in communication often for tensors of different sizes)",
}

PROBE_HINT = "No line of yours raised this: the grader met what it is not made for. What did your code return or leave?"
REFUSED = ("EADDRINUSE", "address already in use", "Address already in use")
"""What is said where somebody else listens at a port."""
SAME_ORDER = "Every rank of a group must make the same collective calls in the same order."
SAME_SIZE = "Every rank of a group must call a collective with tensors of the same size."
MESSAGE_SIZE = "A recv needs a tensor of the size and dtype that is sent. Whose message is the next to come?"
LEFT_BEHIND = "Who raises in the middle of a call leaves messages behind. Who receives them, and takes them for what?"
PAIRS = "A blocking send waits for its recv: two ranks that both send first, or both receive first, wait for ever."
KEEP_THE_WORK = "Keep the Work that isend or irecv returns, and wait for it: without it the message is cancelled."
ONE_MEETING = "All ranks have to meet at one address with one world size, each under a rank of its own, 0 among them."
A_LOCK = "Who waits for a lock or a queue needs another thread of the same rank: which one, and what does it do?"
ONE_ALONE = "What do the other ranks do when one alone raises?"
AT_IMPORT = 'Ranks import the file before they have a group. What tries it out belongs under if __name__ == "__main__".'
GROUP_WORDS = ("process group", "rendezvous")

WORDS = {"cpu": "processor time", "disk": "files", "file": "the size of a file"}
"""Limits whose name is not what a reader would call them."""


def diagnose(case: Case, ranks: Sequence[RankRecord], file: str, witness: Witness | None = None) -> Diagnosis | None:
    """None if every rank finished. `file` is the name that the student's file has; `witness` says where they met."""
    failed = [record for record in ranks if not isinstance(record.ending, Finished)]
    if not failed:
        return None
    causes = _causes(failed)
    kind, limit = causes[0].ending.kind, reached(causes[0].ending, case.limits, case.deadline)
    if isinstance(causes[0].ending, Deadlocked):
        findings = [*_deadlock(ranks), *_left_early(ranks)]
    elif limit:
        kind, findings = "limit", [*_excess(causes, limit), *_consequences(failed, causes)]
    else:
        findings = [*_same(causes, file, _gave_up(ranks)), *_consequences(failed, causes)]
    if witness and any(map(_concerns_the_meeting, failed)):
        findings = [*_elsewhere(witness), *findings]
    located = tuple(replace(finding, case=case.id) for finding in findings)
    return Diagnosis(kind=kind, ranks=tuple(r.rank for r in causes), findings=located)


def _concerns_the_meeting(record: RankRecord) -> bool:
    """Whether a rank failed in a way that has to do with where the ranks meet."""
    ending = record.ending
    if isinstance(ending, Raised):
        return ending.communication or any(mark in ending.message for mark in REFUSED)
    wait = ending.wait if isinstance(ending, Deadlocked | TimedOut) else None
    return wait is not None and "rendezvous" in wait.operation


def _elsewhere(witness: Witness) -> Iterator[Finding]:
    """That the ranks meet at another port than they were given, from the kernel's tables."""
    if witness.ports and witness.given:
        ports = ", ".join(map(str, witness.ports))
        expected = f"port {witness.given}, as MASTER_PORT says"
        hint = "Other jobs of the machine may use a port that is written into the code."
        yield Finding(subject="Where the ranks meet", expected=expected, actual=ports, hint=hint)


def _causes(failed: Sequence[RankRecord]) -> list[RankRecord]:
    """The earliest failure, and the ranks that failed in the same way at the same line."""
    first = min(failed, key=lambda record: (_weight(record.ending), record.ending.seconds))
    return [record for record in failed if _likeness(record.ending) == _likeness(first.ending)]


def _weight(ending: Ending) -> int:
    """What can only be a consequence comes last, whatever the clocks say: a peer's error may overtake a death."""
    if isinstance(ending, Killed) and ending.by_grader:
        return -1 if ending.limit else 4
    if isinstance(ending, TimedOut) and ending.wait is not None:
        return 3  # it waits in communication, probably for one that is busy or stopped
    if isinstance(ending, Deadlocked | TimedOut):
        return 2
    return 1 if isinstance(ending, Raised) and ending.communication else 0


def _likeness(ending: Ending) -> tuple[object, ...]:
    if isinstance(ending, Deadlocked):
        return (ending.kind,)
    if isinstance(ending, Raised):
        return ending.kind, ending.type, ending.at
    if isinstance(ending, TimedOut):  # looks at ranks in the same loop find them at different lines of it
        return ending.kind, ending.wait is None
    if isinstance(ending, Exited):
        return ending.kind, ending.code, ending.how
    if isinstance(ending, Killed):
        return ending.kind, ending.signal, ending.by_grader, ending.limit
    return ending.kind, ending.at


def _same(causes: Sequence[RankRecord], file: str, gave_up: str) -> Iterator[Finding]:
    first = causes[0].ending
    subject, hint = describe(first, file)
    if not isinstance(first, TimedOut):
        hint, numbers = gave_up if hint == SAME_SIZE else hint, tuple(record.rank for record in causes)
        yield Finding(subject=subject, actual=detail(first), ranks=numbers, line=first.at, hint=hint)
        return
    for (text, line), numbers in _grouped(causes, lambda record: (detail(record.ending), record.ending.at or 0)):
        yield Finding(subject=subject, actual=text, ranks=numbers, line=line or None)


def _gave_up(ranks: Sequence[RankRecord]) -> str:
    """What C++ code gives up for in communication, by what the ranks are known to have done last."""
    last = {call.operation for record in ranks if record.trace for call in record.trace.communications[-1:]}
    if _raisers(ranks):
        return LEFT_BEHIND
    return MESSAGE_SIZE if last and last <= {"send", "recv"} else SAME_SIZE


def _excess(causes: Sequence[RankRecord], limit: str) -> Iterator[Finding]:
    """A limit was reached, and where."""
    first, (name, _, most) = causes[0].ending, limit.partition(": ")
    numbers = tuple(record.rank for record in causes)
    said = detail(first).strip().partition("\n")[0]
    what, size = WORDS.get(name, name), most.rpartition("at most ")[2].removeprefix("more than ")
    far = f"the limit on {what}, {size}." if size[:1].isdigit() else f"the limit on {what}."
    yield Finding(
        subject=f"Reached the limit on {what}", expected=most if said else "",
        actual=said or most, ranks=numbers, line=first.at,
        hint=f"A right solution stays far below {far} Does something grow in every step, or never end?",
    )  # fmt: skip


def describe(ending: Ending, file: str) -> tuple[str, str | None]:
    """Subject and hint of an ending, in a student's words."""
    if isinstance(ending, Raised):
        known, line = PLAIN_TYPES.get(ending.type), ending.probe_line
        if ending.importing and not known:
            return f"{file} could not be imported", _why_raised(ending)
        if known:
            return known.subject, known.hint
        if line is None or ending.communication:
            return f"{ending.type} was raised", _why_raised(ending)
        return f"{ending.type} was raised in the grader's {PROBE}, line {line}", PROBE_HINT
    if isinstance(ending, Exited):
        hint = "A function that is graded returns to its caller; it does not end the process."
        return f"The process was left by {ending.how}({ending.code})", hint
    if isinstance(ending, Killed) and ending.signal == "SIGSTOP":
        return "The process was stopped by a signal and never went on", None
    if isinstance(ending, Killed):
        ended_by = SIGNALS.get(ending.signal, ending.signal)
        return f"The process was ended by {ended_by}", SAME_SIZE if ending.signal == "SIGABRT" else None
    if isinstance(ending, TimedOut):
        return f"Still busy after {ending.seconds:.0f} s, and stopped", None
    return "Did not finish", None


def _why_raised(ending: Raised) -> str | None:
    """What an exception comes from that says nothing of the kind itself: asking at a keyboard, or trying out at import
    what needs a group or is not written."""
    if ending.type == "EOFError" and NO_INPUT in ending.message:
        return NOBODY_TYPES
    tried = ending.type == "NotImplementedError" or any(word in ending.message for word in GROUP_WORDS)
    return AT_IMPORT if ending.importing and tried else None


def detail(ending: Ending) -> str:
    """The rest of the sentence: message and causes of an exception, what a late rank was doing."""
    if isinstance(ending, Raised):
        own = error_in_words(ending.type, ending.message) if ending.importing else ending.message.strip("\n")
        return "\n".join([own, *map(_caused_by, ending.causes)]).strip("\n")
    if isinstance(ending, TimedOut):
        if ending.wait:
            return f"it was in {ending.wait.operation}{ours(ending.stack)}"
        return f"it was in {ending.stack[-1].function}" if ending.stack else ""
    return ""


def _caused_by(cause: str) -> str:
    """A cause, "Type: message". That of another process's error begins with an empty line."""
    kind, _, message = cause.partition(": ")
    return f"caused by {error_in_words(kind, message)}"


def _deadlock(ranks: Sequence[RankRecord]) -> Iterator[Finding]:
    stuck = [record for record in ranks if isinstance(record.ending, Deadlocked)]
    hint = _why_stuck(stuck, len(ranks))
    for index, ((text, line), numbers) in enumerate(_grouped(stuck, _place)):
        verb = "wait" if len(numbers) > 1 else "waits"
        subject = "Deadlock" if index == 0 else "Meanwhile"
        yield Finding(subject=subject, actual=f"{verb} in {text}", ranks=numbers, line=line or None, hint=hint)
        hint = None
    yield from _before(stuck)


def _why_stuck(stuck: Sequence[RankRecord], world_size: int) -> str | None:
    """What a deadlock of this kind comes from; None where the ranks are where they should be."""
    waits = [record.ending.wait for record in stuck if isinstance(record.ending, Deadlocked)]
    names = {wait.operation.partition(" ")[0] for wait in waits}
    if 0 < len(_raisers(stuck)) < world_size:
        return ONE_ALONE
    if let_go := [record.rank for record in stuck if getattr(record.ending, "let_go", False)]:
        return f"{rank_list(let_go).capitalize()} let go of a message that was not over. {KEEP_THE_WORK}"
    if any(word in wait.operation for wait in waits for word in ("rendezvous", "init_process_group")):
        return ONE_MEETING
    if any(wait.operation.startswith("a lock") for wait in waits):
        return A_LOCK
    if names & {"send", "recv", "irecv", "isend", "batch_isend_irecv"}:
        return PAIRS
    if len(stuck) < world_size or len({(wait.operation, wait.group) for wait in waits}) > 1:
        return SAME_ORDER
    return SAME_SIZE if len({wait.bytes for wait in waits}) > 1 else None


def _before(records: Sequence[RankRecord]) -> Iterator[Finding]:
    """What the student's code had raised on ranks that are stuck after it."""
    for (text, line), numbers in _grouped(_raisers(records), _caught):
        yield Finding(subject="Before that, an exception was raised", actual=text, ranks=numbers, line=line or None)


def _raisers(records: Sequence[RankRecord]) -> list[RankRecord]:
    """The ranks whose last call of the student's code raised, which the probe has caught: it goes on by itself."""
    return [record for record in records if ours(record.ending.stack) and _caught(record)[0]]


def _caught(record: RankRecord) -> tuple[str, int]:
    match record.ending, record.observations.get(CAUGHT):
        case (Deadlocked() | TimedOut()) as ending, _:
            return ending.caught.strip("\n"), ending.caught_at or 0
        case Raised(), [str(message), int() | None as line]:
            return message.strip("\n"), line or 0
    return "", 0


def _grouped(
    records: Sequence[RankRecord], key: Callable[[RankRecord], tuple[str, int]]
) -> list[tuple[tuple[str, int], tuple[int, ...]]]:
    """Ranks of which the same can be said, the group with the lowest rank first."""
    groups: dict[tuple[str, int], tuple[int, ...]] = {}
    for record in sorted(records, key=lambda record: record.rank):
        groups[key(record)] = (*groups.get(key(record), ()), record.rank)
    return list(groups.items())


def _place(record: RankRecord) -> tuple[str, int]:
    ending = record.ending
    assert isinstance(ending, Deadlocked)
    wait = ending.wait
    where = "" if wait.group == "default" else f" in group {wait.group.removeprefix('group ')}"
    size = "" if wait.bytes is None else f" of {wait.bytes} bytes"
    return f"{wait.operation}{size}{where}{ours(ending.stack)}", ending.at or 0


def _left_early(ranks: Sequence[RankRecord]) -> Iterator[Finding]:
    numbers = tuple(record.rank for record in ranks if isinstance(record.ending, Finished))
    if numbers:
        yield Finding(subject="Had already returned", ranks=numbers)


def _consequences(failed: Sequence[RankRecord], causes: Sequence[RankRecord]) -> Iterator[Finding]:
    """What the failure did to the others, shortly."""
    others = [record for record in failed if record not in causes]
    late = isinstance(causes[0].ending, TimedOut)
    for (text, line), numbers in _grouped(others, _consequence):
        alike = late and all(isinstance(other.ending, TimedOut) for other in others if other.rank in numbers)
        subject = "Meanwhile" if alike else "As a consequence"
        yield Finding(subject=subject, actual=text, ranks=numbers, line=line or None)
    yield from _before(failed)


def _consequence(record: RankRecord) -> tuple[str, int]:
    ending = record.ending
    if isinstance(ending, Deadlocked):
        return f"waits in {ending.wait.operation}{ours(ending.stack)}", ending.at or 0
    if isinstance(ending, Killed) and ending.by_grader:
        return "was stopped by the grader", 0
    if isinstance(ending, TimedOut):
        doing = f"in {ending.wait.operation}{ours(ending.stack)}" if ending.wait else "busy"
        return f"was still {doing}", ending.at or 0
    return describe(ending, "")[0], ending.at or 0
