"""Units as people write them.

A table and no units library. Pint reads "96 mb" as millibarn, "96 Mb" as megabarn, "25 Gbps" as gigabaud and
"1 min 30 s" as 30 minute-seconds; "2x" and "24 messages" it cannot read. What is missing here is added in a line of the
table. A plain number has the unit "1".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Dimension = tuple[float, float, float]
"""Exponents of byte, second and FLOP."""

ONE: Dimension = (0, 0, 0)
BYTES: Dimension = (1, 0, 0)
SECONDS: Dimension = (0, 1, 0)
FLOPS: Dimension = (0, 0, 1)
RATE: Dimension = (1, -1, 0)
PER_SECOND: Dimension = (0, -1, 0)
MIB_NAMES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_WORDS = {"": 1.0, "kilo": 1e3, "mega": 1e6, "giga": 1e9, "tera": 1e12}
_TIMES = {
    1e-9: "ns nanosecond nanoseconds nsec",
    1e-6: "us µs μs microsecond microseconds usec",
    1e-3: "ms millisecond milliseconds msec",
    1.0: "s sec secs second seconds",
    60.0: "min mins minute minutes",
    3600.0: "h hr hrs hour hours",
    86400.0: "d day days",
    604800.0: "week weeks",
}
_RATIOS = {0.01: "% percent pct", 1.0: "1 x × times fold"}
_COUNTS = """
    all-gather all-reduce backward batch block broadcast bucket collective device element epoch forward gpu index layer
    message micro-batch node parameter process rank replica restart sample slot stage step token worker
"""


_ALIKE = {"microbatch": "micro-batch", "image": "sample", "sequence": "sample", "example": "sample", "copy": "replica"}
"""Nouns for what a question has another noun for."""
_PLURALS = {
    "index": "indices", "batch": "batches", "micro-batch": "micro-batches", "process": "processes", "gpu": "GPUs"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit: how many bytes, seconds, FLOP or ones it is. `noun` is what a count counts."""

    name: str
    scale: float
    dimension: Dimension
    noun: str = ""

    @property
    def kind(self) -> str:
        """What it measures, in words."""
        if self.noun:
            several = _PLURALS.get(self.noun) or f"{self.noun}s"
            return f"a number of {several}" + (" per second" if self.dimension == PER_SECOND else "")
        known = {BYTES: "an amount of data", SECONDS: "a time", RATE: "a data rate", ONE: "a ratio"}
        return known.get(self.dimension, "an amount of computing" if self.dimension == FLOPS else "a rate")


def _table() -> dict[str, Unit]:
    names: dict[str, tuple[float, Dimension]] = {}
    for prefix, scale in _PREFIXES.items():
        names |= {prefix + name: (scale, BYTES) for name in ("B", "byte", "bytes", "Byte", "Bytes")}
        names |= {prefix + name: (scale / 8, BYTES) for name in ("bit", "bits")}
        names |= {prefix + name: (scale, FLOPS) for name in ("FLOP", "FLOPs")}
        names[prefix + "FLOPS"] = (scale, (0, -1, 1))
        if prefix:
            names[prefix + "b"] = (scale / 8, BYTES)
            names[prefix + "bps"] = (scale / 8, RATE)
            names[prefix + "Bps"] = (scale, RATE)
    for word, scale in _WORDS.items():
        names |= {word + name: (scale, BYTES) for name in ("byte", "bytes")}
        names |= {word + name: (scale / 8, BYTES) for name in ("bit", "bits")}
    for prefix, whole in MIB_NAMES.items():
        names |= {prefix + name: (float(whole), BYTES) for name in ("B", "byte", "bytes")}
    for scale, spelt in _TIMES.items():
        names |= dict.fromkeys(spelt.split(), (scale, SECONDS))
    for scale, spelt in _RATIOS.items():
        names |= dict.fromkeys(spelt.split(), (scale, ONE))
    return {name: Unit(name=name, scale=scale, dimension=dimension) for name, (scale, dimension) in names.items()}


EXACT = _table()
_FOLDED = {name.lower(): unit for name, unit in EXACT.items() if not name.endswith(("b", "Bps"))}
"""In small letters mb is MB, for nobody who writes mb thinks of bits; Mb, spelt so, is Mbit. But mbps is Mbit/s."""


def find(text: str) -> Unit | None:
    """The unit that `text` names: of the table, spelt so or in any case; a count's noun; or one of these a second,
    which may be left out: 7/s."""
    top, slash, below = text.strip().partition("/")
    if slash:
        unit, second = find(top or "x"), find(below)
        return _per_second(unit, text.strip()) if unit and second == EXACT["s"] else None
    name = top.strip()
    return EXACT.get(name) or _FOLDED.get(name.lower()) or _count(name)


def _per_second(unit: Unit, name: str) -> Unit:
    data, time, work = unit.dimension
    return replace(unit, name=name, dimension=(data, time - 1, work))


def _count(name: str) -> Unit | None:
    word = name.lower()
    singular = word.removesuffix("es") if word.endswith(("batches", "processes")) else word.removesuffix("s")
    noun = {"indice": "index", "proces": "process", "copie": "copy"}.get(singular, singular)
    noun = _ALIKE.get(noun, noun)
    return Unit(name=name, scale=1.0, dimension=ONE, noun=noun) if noun in _COUNTS.split() else None
