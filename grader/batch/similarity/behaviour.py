"""What a hand-in did when it ran, as features that two who worked apart seldom share: the same unusual sequence of
communication, the same wrong numbers. Pure, from reports as JSON gives them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from grader.batch.report.shape import is_telling, shape

SHOWN = 8
"""Steps of a sequence that are told."""


class Sequence(NamedTuple):
    """What rank 0 communicated in a case, in order. `digest` is that of all of it, `told` its beginning."""

    case: str
    digest: str
    told: str


class Wrong(NamedTuple):
    """A wrong value, numbers included. What is drawn from the seed differs from seed to seed, so it says which."""

    case: str
    subject: str
    actual: str
    seed: int


Feature = Sequence | Wrong


def features(report: Mapping[str, Any]) -> frozenset[Feature]:
    """The features of a report. Text of a finding without a number is no feature, for everybody's first mistake reads
    the same."""
    return frozenset((*_sequences(report), *_wrong(report)))


def _sequences(report: Mapping[str, Any]) -> Iterator[Sequence]:
    for run in report["runs"]:
        trace = run["ranks"][0]["trace"] if run["ranks"] else None
        if trace and trace["communications"]:
            steps = [(each["operation"], each["bytes"], len(each["group"])) for each in trace["communications"]]
            digest = hashlib.sha256(repr(steps).encode()).hexdigest()[:16]
            yield Sequence(run["case"], digest, _told([name for name, _, _ in steps]))


def _told(names: list[str]) -> str:
    """`all_gather, 3 × all_reduce, …`"""
    runs = [(name, len(list(group))) for name, group in groupby(names)]
    told = [f"{number} × {name}" if number > 1 else name for name, number in runs[:SHOWN]]
    return ", ".join([*told, "…"] if len(runs) > SHOWN else told)


def _wrong(report: Mapping[str, Any]) -> Iterator[Wrong]:
    for check in report["checks"]:
        for finding in check["findings"] if check["status"] == "failed" else ():
            actual = finding["actual"]
            if is_telling(finding["subject"]) and "." in actual and shape(actual) != actual:
                yield Wrong(finding["case"] or "", shape(finding["subject"]), actual, report["seed"])


def told(feature: Feature) -> str:
    """A feature in a few words."""
    if isinstance(feature, Sequence):
        return f"in {feature.case} rank 0 calls {feature.told}"
    return f"{feature.subject}: {feature.actual}" + (f" in {feature.case}" if feature.case else "")


def rare(found: Mapping[str, frozenset[Feature]]) -> dict[str, frozenset[Feature]]:
    """Of each only what at most one in twenty of all have, and two in any case: what many did is how one does it."""
    number = Counter(feature for own in found.values() for feature in own)
    most = max(2, len(found) // 20)
    return {name: frozenset(each for each in own if number[each] <= most) for name, own in found.items()}
