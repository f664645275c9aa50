"""An exception as plain data: type, message, the student's lines, the chain of causes. Runs in a rank."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from typing import Any

from grader.ranks.inside.rendezvous import DISTRIBUTED
from grader.ranks.inside.scene import CAUGHT
from grader.ranks.inside.waits import MAX_FRAMES

MAX_TEXT = 4000
MAX_CAUSES = 5
MAX_LINKED = 50
MAX_SAID = 20_000
"""Characters of all that an error says. A traceback of another process may be long, and has its message at the end."""


def described(error: BaseException, file: str, importing: bool) -> dict[str, Any]:
    frames = frames_of(error, file)
    return {
        "kind": "raised",
        "type": type(error).__qualname__,
        "message": text_of(error),
        "stack": frames,
        "causes": _causes(error),
        "importing": importing,
        "communication": _is_transport(error) or (bool(frames) and DISTRIBUTED in frames[-1][0]),
    }


def tell_caught(record: Callable[[str, Any], None], caught: list[Any] | None, error: BaseException) -> None:
    """Record what was caught before another error came, unless that came of a peer that had gone already."""
    if caught and caught[0] != f"{type(error).__qualname__}: {text_of(error)}" and not _tells_of_a_peer(caught[0]):
        with contextlib.suppress(Exception):
            record(CAUGHT, caught)


def _is_transport(error: BaseException) -> bool:
    return _tells_of_a_peer(f"{type(error).__name__}: {text_of(error)}")


def _tells_of_a_peer(said: str) -> bool:
    """Whether an error, "Type: message", says that a peer has gone, as gloo and NCCL do. C++ raises some of it as a
    plain RuntimeError."""
    named = said.partition(":")[0] in ("DistBackendError", "DistNetworkError", "DistStoreError", "DistError")
    return named or any(
        mark in said for mark in ("gloo/transport", "onnection closed by peer", "onnection reset by peer")
    )


def text_of(error: BaseException) -> str:
    """An error's message, at most 4000 characters of it."""
    return _whole_text(error)[:MAX_TEXT]


def _whole_text(thing: object) -> str:
    try:
        return str(thing)
    except Exception:  # a student's __str__ may raise; the type still tells something
        return "(its message could not be read)"


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    while len(found) < MAX_CAUSES:
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            break
        found.append(f"{type(following).__qualname__}: {text_of(following)}")
        error = following
    return found


def said(error: BaseException) -> str:
    """All that an error says: its text and its notes, then those of the errors that it came from and of the members of
    a group, each after its type. Of more than 20,000 characters both ends are kept."""
    lines, seen, waiting = [_ends(error)], {id(error)}, [error]
    while waiting and len(seen) < MAX_LINKED:
        error = waiting.pop(0)
        notes = getattr(error, "__notes__", None)  # a student may have put anything there
        lines += map(_ends, notes if isinstance(notes, list) else [])
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        context = None if error.__suppress_context__ else error.__context__
        for link in (error.__cause__, context, *members):
            if link is not None and id(link) not in seen:
                seen.add(id(link))
                waiting.append(link)
                lines.append(f"{type(link).__qualname__}: {_ends(link)}")
    return _ends("\n".join(lines))


def _ends(thing: object) -> str:
    """What it says: all of it, or its beginning and its end."""
    text, half = _whole_text(thing), MAX_SAID // 2
    return text if len(text) <= MAX_SAID else f"{text[:half]} … {text[-half:]}"


def frames_of(error: BaseException, file: str) -> list[list[Any]]:
    rows = [
        [frame.f_code.co_filename, line, frame.f_code.co_qualname, frame.f_code.co_filename == file]
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename == file:
        rows.append([file, error.lineno or 1, "<module>", True])
    return rows[-MAX_FRAMES:]
