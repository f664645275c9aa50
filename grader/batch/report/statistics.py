"""The statistics of a class, each with its source. Pure; arrays are numpy's, a row a hand-in and a column a check.

Products are einsum's: those of `@` are BLAS', whose threads wait for one another by spinning, and on cores that others
use that takes longer than these small products do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

Z95 = 1.959963984540054
"""The normal quantile of a two-sided interval of 95 %."""
LEAST = 10
"""Hand-ins without which a correlation says nothing."""


def wilson(passed: int, judged: int, z: float = Z95) -> tuple[float, float]:
    """The score interval of a share: `(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)`; 0 to 1 where n is 0.

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927); recommended
    for small n by Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion", Statistical Science 16
    (2001)."""
    if judged <= 0:
        return 0.0, 1.0
    share, spread = passed / judged, z * z / judged
    middle = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / judged + spread / (4 * judged))
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return (0.0 if passed == 0 else low), (1.0 if passed == judged else high)


def quartiles(shares: Floats) -> tuple[float, float, float]:
    """The first quartile, the median and the third, interpolated linearly (Hyndman and Fan, "Sample Quantiles in
    Statistical Packages", The American Statistician 50 (1996), definition 7); zeros where there is no share."""
    if not len(shares):
        return 0.0, 0.0, 0.0
    low, middle, high = np.quantile(shares, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


def histogram(shares: Floats, bins: int = 10) -> tuple[int, ...]:
    """How many shares of 0 to 1 lie in each of equal bins; full marks are in the last."""
    places = np.clip((shares * bins + 1e-9).astype(np.int64), 0, bins - 1)
    return tuple(int(number) for number in np.bincount(places, minlength=bins))


def discrimination(passed: Flags, judged: Flags, points: Sequence[float]) -> list[float | None]:
    """For each check the corrected item-total correlation: Pearson's r of passing it with the points of all other
    checks, over the hand-ins in which it was judged. None where fewer than LEAST were, or all did the same.

    The correction, leaving the item out of the total, is S. Henrysson's, "Correction of Item-Total Correlations in
    Item Analysis", Psychometrika 28 (1963). Hand-ins in which the check was blocked are left out, for they say nothing
    of it; a check that others need is still flattered, since failing it costs their points too."""
    worth = np.asarray(points, dtype=np.float64)
    totals = np.einsum("ij,j->i", passed.astype(np.float64), worth)
    found: list[float | None] = []
    for column, own in enumerate(worth):
        chosen = judged[:, column]
        item = passed[chosen, column].astype(np.float64)
        found.append(_pearson(item, totals[chosen] - own * item))
    return found


def _pearson(first: Floats, second: Floats) -> float | None:
    if len(first) < LEAST or np.ptp(first) == 0 or np.ptp(second) < 1e-9:
        return None
    one, other = first - first.mean(), second - second.mean()
    own, both, others = (float(np.einsum("i,i->", *pair)) for pair in ((one, one), (one, other), (other, other)))
    return both / math.sqrt(own * others)


def by_quintile(shares: Floats, passed: Flags, judged: Flags) -> list[tuple[float | None, ...]]:
    """For each check its pass rate in each fifth of the class by marks, the lowest first; None where nobody of a fifth
    was judged. Equal marks stay together: a hand-in's fifth is that of the middle of all who have its mark."""
    order = np.sort(shares)
    middle = (np.searchsorted(order, shares, "left") + np.searchsorted(order, shares, "right")) / 2
    fifth = np.minimum((5 * middle / max(1, len(shares))).astype(np.int64), 4)
    groups = [fifth == number for number in range(5)]
    return [
        tuple(_rate(passed[group, column], judged[group, column]) for group in groups)
        for column in range(passed.shape[1])
    ]


def _rate(passed: Flags, judged: Flags) -> float | None:
    number = int(judged.sum())
    return int((passed & judged).sum()) / number if number else None


def phi(failed: Flags) -> Floats:
    """The correlation of failing each check with failing each other: the φ coefficient of a fourfold table, which is
    Pearson's r of two flags (G. U. Yule, "On the Methods of Measuring Association Between Two Attributes", JRSS 75
    (1912)); 0 where a check is failed by all or by none."""
    flags = failed.astype(np.float64)
    flags -= flags.mean(axis=0) if len(flags) else 0.0
    spread = np.sqrt((flags**2).sum(axis=0))
    product = np.outer(spread, spread)
    return np.divide(together(flags), product, out=np.zeros_like(product), where=product > 1e-12)


def together(flags: Floats) -> Floats:
    """For each check and each other one the sum of their products: how many failed both, where 1 is failing."""
    return np.asarray(np.einsum("ij,ik->jk", flags, flags))
