"""Which of many things have rare features in common. Pure: a thing is a name, a feature is anything hashable.

What more than half of all things have is left out, for it says nothing; of the rest a rare feature counts for more than
a frequent one: `ln(n / df)` where `df` of `n` things have it (K. Spärck Jones, "A Statistical Interpretation of Term
Specificity and Its Application in Retrieval", Journal of Documentation 28 (1972)). How much two things resemble each
other is what both have of what the one with less has, so that a copy that was added to is one all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

Features = Mapping[str, frozenset[Hashable]]
FEW = 4
"""With fewer things there is no half that could be said to have something in common."""
CROWD = 60
"""A feature that more things have makes no pair by itself: it says little, and pairs of a crowd are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two things. `share` is 0 to 1, `common` are the features that both have, the rarest first."""

    first: str
    second: str
    share: float
    common: tuple[Hashable, ...]


def weights(things: Features) -> dict[Hashable, float]:
    """What each feature counts for; those that more than half of all have, or one alone, are left out."""
    number = Counter(feature for features in things.values() for feature in features)
    count = len(things)
    most = count / 2 if count >= FEW else count
    return {feature: math.log(count / df) or 0.1 for feature, df in number.items() if df <= most}


def pairs(things: Features, *, least: float, shared: int) -> list[Pair]:
    """The pairs that have at least `shared` features in common and resemble each other by at least `least`, the most
    alike first."""
    weight = weights(things)
    worth = {name: sum(weight.get(feature, 0.0) for feature in features) for name, features in things.items()}
    found = []
    for (first, second), common in _in_common(things, weight).items():
        smaller = min(worth[first], worth[second])
        share = sum(weight[feature] for feature in common) / smaller if smaller else 0.0
        if len(common) >= shared and share >= least:
            rarest = sorted(common, key=lambda feature: (-weight[feature], str(feature)))
            found.append(Pair(first=first, second=second, share=min(share, 1.0), common=tuple(rarest)))
    return sorted(found, key=lambda pair: (-pair.share, -len(pair.common), pair.first, pair.second))


def _in_common(things: Features, weight: Mapping[Hashable, float]) -> dict[tuple[str, str], list[Hashable]]:
    """The features of each pair, by way of those that have each feature, so that no two are compared that have nothing
    in common."""
    holders: dict[Hashable, list[str]] = {}
    for name in sorted(things):
        for feature in things[name]:
            if feature in weight:
                holders.setdefault(feature, []).append(name)
    common: dict[tuple[str, str], list[Hashable]] = {}
    crowded = []
    for feature, names in holders.items():
        if len(names) > CROWD:
            crowded.append(feature)
            continue
        for pair in combinations(names, 2):
            common.setdefault(pair, []).append(feature)
    for (first, second), features in common.items():
        features += [feature for feature in crowded if feature in things[first] and feature in things[second]]
    return common


def clusters(found: Iterable[Pair]) -> list[tuple[str, ...]]:
    """Those that hang together by pairs, the largest first (single linkage; R. Sibson, "SLINK", The Computer Journal 16
    (1973))."""
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for pair in found:
        leader[lead(pair.first)] = lead(pair.second)
    groups: dict[str, list[str]] = {}
    for name in list(leader):
        groups.setdefault(lead(name), []).append(name)
    return sorted((tuple(sorted(group)) for group in groups.values()), key=lambda group: (-len(group), group))
