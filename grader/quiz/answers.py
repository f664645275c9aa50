"""How typed answers are read: numbers with units as people write them, and letters; and what a judgement says. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from simpleeval import InvalidExpression, simple_eval

from grader.quiz import units
from grader.quiz.units import SECONDS, Unit

LETTERS = "abcde"
_MAX_LENGTH = 100


class Correctness(Enum):
    """What an answer is. One that is not readable, or in a unit of another kind, is asked for again and costs nothing;
    of an open question the person who answered it says themselves how good the answer was."""

    RIGHT = "right"
    WRONG = "wrong"
    WRONG_UNIT = "wrong unit"
    UNREADABLE = "unreadable"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What an answer is, and a sentence where there is more to say."""

    correctness: Correctness
    message: str = ""

    @property
    def right(self) -> bool | None:
        """None for an open question."""
        return None if self.correctness is Correctness.OPEN else self.correctness is Correctness.RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A number as it was typed. `unit` is None where none was given; `multiplied` where "million" or its like was."""

    number: float
    unit: Unit | None
    multiplied: bool = False


_HEDGE = re.compile(r"^(?:about|approximately|approx\.?|around|roughly|circa|ca\.?|nearly|almost|~|≈|=|\s)+", re.I)
_MANTISSA = r"[-+−]?(?:\d{1,3}(?:[ ,_'’]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<base>{_MANTISSA})(?:"
    r"[eE](?P<e>[-+]?\d+)|\s*[x×*·]\s*10\s*(?:\^|\*\*)\s*(?P<ten>[-+]?\d+)|\s*(?:\^|\*\*)\s*(?P<power>\d+)"
    r"|\s*/\s*(?P<below>\d+(?:\.\d+)?))?"
)
_MANTISSA_BARE = _MANTISSA.removeprefix("[-+−]?")
_EXPONENT = r"(?:[eE][-+]?\d+)?"
_FACTOR = rf"\(*\s*{_MANTISSA_BARE}{_EXPONENT}(?:\s*\))*"
_ARITHMETIC = re.compile(
    rf"{_FACTOR}(?:\s*(?:\*\*|[x×*·/^+−-])\s*{_FACTOR}){{2,}}"
    rf"|{_FACTOR}\s*[x×*·]\s*{_FACTOR}(?![\d.,]|\s*\^|\s*\*\*)"
)
"""A product of two numbers, or more of them with any signs between: 2-3 is a range, and no number."""
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_MULTIPLIERS = {
    "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "B": 1e9, "trillion": 1e12,
    "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
}  # fmt: skip


def letter(text: str, count: int) -> int | None:
    """The index that a letter stands for among `count` options, as `b`, `B`, `b)` or `(b)`; None where it is none."""
    word = text.strip().lower().strip("().:")
    return LETTERS.index(word) if len(word) == 1 and word in LETTERS[:count] else None


def parse(text: str) -> Typed | str:
    """What was typed as a number with its unit, or a sentence that says why it cannot be read."""
    found = _piece(_level(text))
    if isinstance(found, str):
        return found
    typed, rest = found
    while rest and typed.unit and typed.unit.dimension == SECONDS:  # 1 min 30 s
        more = _piece(rest)
        if isinstance(more, str) or more[0].unit is None or more[0].unit.dimension != SECONDS:
            break
        added = more[0].number * more[0].unit.scale / typed.unit.scale
        typed, rest = Typed(number=typed.number + added, unit=typed.unit), more[1]
    return typed


def in_words(text: str, asked: Sequence[str]) -> tuple[float, ...]:
    """What a number may mean that is followed by the first of the words for which a question asks, or by more of them:
    126 in "126 indices", where it asks for "indices of a rank". Where these begin with "billion", 32e9, 32 billion and
    32B are 32, and so may 32 be. Empty for anything else."""
    found = _first_number(_level(text))
    if isinstance(found, str) or not asked:
        return ()
    value, words = found[0], words_of(found[1])
    factor = _MULTIPLIERS.get(asked[0], 0.0)
    if factor and _begin(asked[1:], words):
        return (value / factor,) if words else (value, value / factor)
    if factor and words and _MULTIPLIERS.get(words[0]) == factor:
        words[0] = asked[0]
    return (value,) if words and _begin(asked, words) else ()


def words_of(text: str) -> list[str]:
    """GPU-hours are two, as GPU hours are."""
    return [word for word in re.split(r"[\s-]+", text) if word]


def _begin(asked: Sequence[str], words: Sequence[str]) -> bool:
    return len(words) <= len(asked) and all(map(_same, words, asked))


def _same(word: str, asked: str) -> bool:
    """Mb is not MB, and Indices are indices."""
    return word == asked or (len(asked) > 3 and word.lower() == asked.lower())


def _level(text: str) -> str:
    """Without what stands around a number."""
    level = _RAISED.sub(lambda match: "^" + match[0].translate(_LOWERED), text.strip()[:_MAX_LENGTH])
    return _HEDGE.sub("", level).strip().rstrip(".!?")


def _piece(text: str) -> tuple[Typed, str] | str:
    """The first number and its unit, and what follows them."""
    found = _first_number(text)
    return found if isinstance(found, str) else _united(*found)


def _first_number(text: str) -> tuple[float, str] | str:
    """It and what follows."""
    match = _ARITHMETIC.match(text) or _NUMBER.match(text)
    if not match:
        return "Type a number, with its unit, as 96 MB, 1.5 ms, 89 % or 2x."
    try:
        value = _number(match) if match.re is _NUMBER else _calculated(match[0])
    except (ArithmeticError, SyntaxError, InvalidExpression):
        value = math.inf
    if not math.isfinite(value):
        return "That number is too large to be read, or it is none."
    return value, text[match.end() :].strip()


def _calculated(text: str) -> float:
    """The value of 4*8*24, of (1024/64)/7 and the like; of numbers as people write them."""
    plain = re.sub(f"({_MANTISSA_BARE})({_EXPONENT})", lambda found: repr(_plain(found[1])) + found[2], text)
    return float(simple_eval(re.sub("[x×·]", "*", plain).replace("−", "-").replace("^", "**")))


def _number(match: re.Match[str]) -> float:
    base = _plain(match["base"])
    if match["power"]:
        return base ** int(match["power"])
    if match["below"]:
        return base / float(match["below"])
    exponent = match["e"] or match["ten"]
    return base * 10.0 ** int(exponent) if exponent else base


def _plain(digits: str) -> float:
    """1,500 and 1 500 are fifteen hundred; 1,5 and 0,896 have a decimal comma."""
    digits = digits.replace("−", "-")
    if re.fullmatch(r"[-+]?(?:0,\d+|\d+,\d{1,2}|\d+,\d{4,})", digits):
        return float(digits.replace(",", "."))
    return float(re.sub(r"[ ,_'’]", "", digits))


def _united(value: float, rest: str) -> tuple[Typed, str] | str:
    """The unit at the beginning of `rest`; words after it, as in "96 MB per rank", are left over."""
    rest = re.sub(r"\s*(?:/|\bper\b|\ba\b)\s*(?:s|sec|second)\b", "/s", rest)
    word, _, more = rest.removeprefix("-").partition(" ")
    if not word:
        return Typed(number=value, unit=None), ""
    unit = units.find(word.rstrip(",;"))
    if unit:
        return Typed(number=value, unit=unit), more.strip()
    if word in _MULTIPLIERS or word.lower() in _MULTIPLIERS:
        factor = _MULTIPLIERS.get(word) or _MULTIPLIERS[word.lower()]
        return _multiplied(value * factor, more.strip())
    return f"'{word}' is no unit that is known here. Examples: 96 MB, 1.5 ms, 89 %, 2x."


def _multiplied(value: float, rest: str) -> tuple[Typed, str] | str:
    word, _, more = rest.partition(" ")
    unit = units.find(word) if word else None
    if word and unit is None:
        return f"'{word}' is no unit that is known here. Examples: 96 MB, 1.5 ms, 89 %, 2x."
    return Typed(number=value, unit=unit, multiplied=True), more.strip()
