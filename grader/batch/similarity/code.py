"""What of a Python file survives renaming, reordering, and other comments: fingerprints of it, by copydetect.

copydetect tokenizes by Pygments, calls every name the same, leaves comments and layout away, and winnows the hashes of
k-grams (S. Schleimer, D. Wilkerson, A. Aiken, "Winnowing: Local Algorithms for Document Fingerprinting", SIGMOD 2003):
every common stretch of GUARANTEED characters is found, none shorter than NOISE.
"""

from __future__ import annotations

import importlib.util
import logging

from grader import calling
from grader.model.errors import UsageError

NOISE, GUARANTEED = 25, 30
PINNED = "0.5.0"


def need_copydetect() -> None:
    """Raises UsageError, which says how to get it, where copydetect is missing."""
    if importlib.util.find_spec("copydetect") is None:
        raise UsageError(
            f"Similarity of code needs copydetect, which is not installed here: {calling.extra('similarity')}"
        )


def fingerprints(source: str, template: str = "") -> frozenset[int]:
    """The fingerprints of a file without those of its template. They hold within this process only."""
    from copydetect import utils

    text = _filtered(source)
    hashes = utils.hashed_kgrams(text, NOISE)
    if not len(hashes):
        return frozenset()
    chosen, _ = utils.winnow(hashes, GUARANTEED - NOISE + 1)
    given = utils.hashed_kgrams(_filtered(template), NOISE) if template else ()
    return frozenset(map(int, chosen)) - frozenset(map(int, given))


def _filtered(source: str) -> str:
    from copydetect import utils

    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    text, _ = utils.filter_code(source, "file.py", "python")
    return str(text)
