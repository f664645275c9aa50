"""How the fuzz tests draw: the same examples every time, or a long campaign with new ones.

RANKLINGS_FUZZ=20 .venv/bin/python -m pytest tests/fuzz --timeout 0

draws 20 times as many examples as a test names, at random. What it finds is printed as a `reproduce_failure` line and
becomes an `@example`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FACTOR = int(os.environ.get("RANKLINGS_FUZZ", "0"))


def fuzz(examples: int) -> Callable[..., Callable[..., None]]:
    """Settings of a fuzz test with half so many examples, the same ones every time; all of them, and new ones, where a
    campaign was asked for."""
    return settings(
        max_examples=examples * FACTOR or max(1, examples // 2),
        derandomize=not FACTOR,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


JSON_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from([10**400, -1, 2**63, "x" * 5000, "\ud800", "\x1b[2J", ""])
)
JSON = st.recursive(
    JSON_SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@st.composite
def mutated(draw: st.DrawFn, value: object, junk: st.SearchStrategy[object] = JSON) -> object:
    """A tree of lists and dicts with some of its parts replaced, left out or doubled."""
    if draw(st.integers(0, 9)) == 0:
        return draw(junk)
    if isinstance(value, dict):
        kept = {key: draw(mutated(item, junk)) for key, item in value.items() if draw(st.integers(0, 19))}
        return {**kept, "extra": 1} if draw(st.integers(0, 19)) == 0 else kept
    if isinstance(value, list):
        kept_items = [draw(mutated(item, junk)) for item in value if draw(st.integers(0, 19))]
        return kept_items * 2 if draw(st.integers(0, 19)) == 0 else kept_items
    return value


@st.composite
def damaged(draw: st.DrawFn, data: bytes, scraps: tuple[bytes, ...] = ()) -> bytes:
    """Bytes with up to four cuts, insertions and replacements."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.sampled_from([0, 0, 1, 3, 20, 1000])))
        scrap = draw(st.binary(max_size=8) | st.sampled_from(scraps) if scraps else st.binary(max_size=8))
        data = data[:start] + scrap + data[stop:]
    return data
