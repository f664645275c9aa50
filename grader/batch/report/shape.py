"""What of a text stays when its numbers are taken out: the same mistake reads the same with other data. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 240
"""Characters of a shape."""

_ADDRESS = re.compile(r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)[0-9a-f]{12,})\b")
_PATH = re.compile(r"(?<![\w.])(?:/[\w.@+-]+){2,}/?")
_NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
_INDEX = re.compile(r"(?<=\.)\d+(?=\.)")
_MANY = re.compile(r"#(?:[ ,x×:]*#)+")
_EXTENT = re.compile(
    r"(?:all #|# of #|every|half of all #) elements? differs?(?:, by # at most)?|differs? by # at most"
)
_PLURAL = re.compile(r"\branks? #")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=65_536)
def shape(text: str) -> str:
    """`text` without what changes with the data: numbers, addresses, folders, and how many elements differ how far.

    `-2.56; all 12 elements differ, by 3.16 at most; all zeros` becomes `#; elements differ; all zeros`."""
    text = _PATH.sub("PATH", _ADDRESS.sub("#", text[: 4 * LONGEST]))
    text = _MANY.sub("#…", _NUMBER.sub("#", _INDEX.sub("#", text)))
    text = _PLURAL.sub("rank #", _EXTENT.sub("elements differ", text))
    return _SPACE.sub(" ", text).strip()[:LONGEST]


def compared(expected: str, actual: str) -> str:
    """The shape of what was seen. Where both texts are one count, it also says which way it is off, for that is what
    tells a step too many from one too few."""
    if expected.isdecimal() and actual.isdecimal():
        seen, wanted = int(actual[:9]), int(expected[:9])
        return "0" if not seen else "# (more)" if seen > wanted else "# (fewer)"
    return shape(actual)


def is_telling(subject: str) -> bool:
    """Whether a finding tells of a mistake: not one that says how many more there are, nor one that says what the first
    failure did to other ranks, which depends on how far a fault reaches and on which rank is faster."""
    return not subject.startswith(("…", "As a consequence"))
