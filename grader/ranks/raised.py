"""An exception as plain data: type, message, the student's lines, the chain of causes. Runs in a rank."""

from __future__ import annotations

import traceback
from typing import Any

from grader.ranks import recorder

MAX_TEXT = 4000
MAX_CAUSES = 5


def described(error: BaseException, file: str, importing: bool) -> dict[str, Any]:
    frames = frames_of(error, file)
    return {
        "kind": "raised",
        "type": type(error).__qualname__,
        "message": _text(error),
        "stack": frames,
        "causes": _causes(error),
        "importing": importing,
        "communication": _is_transport(error) or (bool(frames) and recorder.DISTRIBUTED in frames[-1][0]),
    }


def _is_transport(error: BaseException) -> bool:
    """Gloo and NCCL say so when a peer has gone; C++ raises some of it as a plain RuntimeError."""
    named = type(error).__name__ in ("DistBackendError", "DistNetworkError", "DistStoreError", "DistError")
    text = _text(error)
    return named or any(
        mark in text for mark in ("gloo/transport", "onnection closed by peer", "onnection reset by peer")
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception:  # a student's __str__ may raise; the type still tells something
        return "(its message could not be read)"


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    while len(found) < MAX_CAUSES:
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            break
        found.append(f"{type(following).__qualname__}: {_text(following)}")
        error = following
    return found


def frames_of(error: BaseException, file: str) -> list[list[Any]]:
    rows = [
        [frame.f_code.co_filename, line, frame.f_code.co_qualname, frame.f_code.co_filename == file]
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename == file:
        rows.append([file, error.lineno or 1, "<module>", True])
    return rows[-recorder.MAX_FRAMES :]
