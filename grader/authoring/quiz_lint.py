"""What a good bank must hold to beyond its format. Pure: banks in, faults out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

from grader.authoring.quiz_calculation import evaluate
from grader.quiz import units
from grader.quiz.chains import Chain, DesignCase, Step
from grader.quiz.numbers import NumberQuestion, formulas_of
from grader.quiz.questions import Bank, CardQuestion, ChoiceQuestion, Item, Question
from grader.quiz.units import Unit

TOPICS = (
    "data_parallel", "all_reduce", "overlap", "samplers", "learning_rate", "torchrun", "checkpoints", "accumulation",
    "unused_parameters", "amdahl", "zero_memory", "pipeline", "tensor_parallel", "choosing_a_strategy",
    "ring_all_reduce", "bucketing", "zero2", "zero3", "fsdp", "schedules", "meshes", "clipping", "recovery",
    "debugging",
)  # fmt: skip
"""What the quizzes must cover."""
AT_LEAST = 120
"""So many questions in all."""
NEAR = 0.75
"""Two questions are near duplicates that share so much of their words, numbers included."""
LONGER, SLACK = 2.0, 25
"""An option may be so many times as long as the shortest, and so many characters longer."""
TELLING = 0.5
"""The right option may be the longest, the shortest, or at one place, in at most this share of a bank's choices."""
TELLING_OVERALL = 0.35
"""The same for all banks together, where even a single character counts."""
_EMPTY_WORDS = """
    a an and are as at be by do does for from has have how if in is it its of on or that the their there this to what
    when which why will with you your
"""
_LAZY = re.compile(r"(?:(?:all|none|both|any) of (?:the above|these|them)|(?:both )?[a-e] and [a-e])\W*", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a bank: the rule, where, and what to do."""

    rule: str
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text} [{self.rule}]"


Rule = Callable[[Bank, Item], Iterator[Fault]]


def lint(banks: Sequence[Bank], *, at_least: int = AT_LEAST, covered: Sequence[str] = TOPICS) -> tuple[Fault, ...]:
    """All faults of the banks together."""
    each = (fault for bank in banks for question in bank.questions for rule in RULES for fault in rule(bank, question))
    return (*each, *duplicates(banks), *telling(banks), *coverage(banks, at_least, covered))


def _fault(rule: str, bank: Bank, line: int, text: str) -> Fault:
    return Fault(rule=rule, path=bank.path, line=line, text=text)


# -- one question -----------------------------------------------------------------------------------------------------


def one_right_answer(bank: Bank, question: Item) -> Iterator[Fault]:
    """A choice has one right option."""
    if isinstance(question, ChoiceQuestion):
        right = sum(option.right for option in question.options)
        if right != 1:
            yield _fault("one-right", bank, question.line, f"{question.id}: {right} options are right, not one")


def plausible_distractors(bank: Bank, question: Item) -> Iterator[Fault]:
    """Wrong options say something, say why they are wrong, and none is "all of the above" or one of the others."""
    if not isinstance(question, ChoiceQuestion):
        return
    texts = [" ".join(_words(option.text)) or option.text.strip() for option in question.options]
    for option, text in zip(question.options, texts, strict=True):
        if not text:
            yield _fault("empty", bank, question.line, f"{question.id}: an option is empty")
        if _LAZY.fullmatch(option.text.strip()):
            yield _fault("lazy", bank, question.line, f"{question.id}: '{option.text}' is no answer of its own")
        if not option.right and not option.why.strip():
            yield _fault("why", bank, question.line, f"{question.id}: '{option.text}' does not say why it is wrong")
        if option.why.strip().endswith((".", "!", "?")):
            yield _fault(
                "why", bank, question.line, f"{question.id}: a 'why' is half a sentence, without its full stop"
            )
        if texts.count(text) > 1:
            yield _fault("same", bank, question.line, f"{question.id}: two options say the same, '{option.text}'")


def comparable_lengths(bank: Bank, question: Item) -> Iterator[Fault]:
    """No option stands out by its length."""
    if isinstance(question, ChoiceQuestion):
        lengths = [len(option.text) for option in question.options]
        if max(lengths) > LONGER * min(lengths) + SLACK:
            text = f"{question.id}: options are {min(lengths)} to {max(lengths)} characters long"
            yield _fault("length", bank, question.line, text)


def calculated(bank: Bank, question: Item) -> Iterator[Fault]:
    """Calculation and formula give the value, to four digits, in a unit of the same kind."""
    if not isinstance(question, NumberQuestion):
        return
    unit = units.find(question.unit)
    if unit is None:
        yield _fault("unit", bank, question.line, f"{question.id}: the unit '{question.unit}' is not known")
        return
    for written in filter(None, (question.calculation, question.formula)):
        yield from _gives(written, unit, bank, question)


def _gives(written: str, unit: Unit, bank: Bank, question: NumberQuestion) -> Iterator[Fault]:
    try:
        found = evaluate(written)
    except ValueError as error:
        yield _fault("calculation", bank, question.line, f"{question.id}: '{written}': {error}")
        return
    if written == question.calculation and (used := formulas_of(written)):
        text = f"{question.id}: nobody can look up {used[0]}; write its numbers, and it into `formula`"
        yield _fault("calculation", bank, question.line, text)
    if found.dimension != unit.dimension:
        text = f"{question.id}: '{written}' gives no {question.unit}"
        yield _fault("unit", bank, question.line, text)
    elif not _is_same(found.value / unit.scale, question):
        text = f"{question.id}: '{written}' gives {found.value / unit.scale:.6g}, not {question.value:g}"
        yield _fault("value", bank, question.line, text)


def _is_same(value: float, question: NumberQuestion) -> bool:
    """Whether a value is the question's within its tolerance, and as it is shown: to four digits."""
    near = abs(value - question.value) <= question.tolerance * abs(question.value) + 1e-9
    return near and f"{value:.4g}" == f"{question.value:.4g}"


def sensible_tolerance(bank: Bank, question: Item) -> Iterator[Fault]:
    """Rounding as people round is within the tolerance, and the value itself well inside."""
    if isinstance(question, NumberQuestion) and not units_are_counted(question) and question.tolerance < 0.005:
        yield _fault("tolerance", bank, question.line, f"{question.id}: a tolerance under 0.5 % punishes rounding")


def units_are_counted(question: NumberQuestion) -> bool:
    """Whether the answer is a whole number of things, which can be asked exactly."""
    return question.value == round(question.value)


def explained(bank: Bank, question: Item) -> Iterator[Fault]:
    """The explanation is a sentence at least, and a card's answer too."""
    told = [step.explanation for step in question.steps] if isinstance(question, Chain) else []
    told += [question.explanation] if isinstance(question, Question | DesignCase) else []
    told += question.rubric if isinstance(question, DesignCase) else []
    if min(len(text.split()) for text in told) < 8:
        yield _fault("explanation", bank, question.line, f"{question.id}: the explanation says next to nothing")
    if isinstance(question, CardQuestion) and len(question.answer.split()) < 8:
        yield _fault("explanation", bank, question.line, f"{question.id}: the model answer says next to nothing")


def linked(bank: Bank, question: Item) -> Iterator[Fault]:
    """In a chain each word that is drawn is used, each question but the first rests on an earlier one, and rounding is
    forgiven. In a design case one question that does so is enough."""
    if not isinstance(question, Chain):
        return
    is_case = isinstance(question, DesignCase)
    used = "".join([question.text, *(text for step in question.steps for text in (step.text, step.calculation))])
    for word in question.drawn:
        if f"{{{word}}}" not in used:
            yield _fault("chain", bank, question.line, f"{question.id}: '{word}' is drawn and not used")
    alone = [step for place, step in enumerate(question.steps[1:], 1) if not _rests(step, question.steps[:place])]
    if alone and (not is_case or len(alone) == len(question.steps) - 1):
        text = f"{question.id}: '{alone[0].name}' rests on no question before it"
        yield _fault("chain", bank, question.line, text)
    for step in question.steps:
        unit = units.find(step.unit)
        if step.tolerance < 0.005 and not (unit and unit.noun):
            yield _fault("tolerance", bank, question.line, f"{question.id}: '{step.name}' punishes rounding")


def _rests(step: Step, earlier: Sequence[Step]) -> bool:
    return any(f"{{{before.name}}}" in step.calculation for before in earlier)


def formulated(bank: Bank, question: Item) -> Iterator[Fault]:
    """What a part of a chain comes to is right by its formula, too, whatever was drawn: who answers by the cost model
    and the planner of exercises 19 and 20 is as right as who answers by hand."""
    if not isinstance(question, Chain) or not any(step.formula for step in question.steps):
        return
    for drawn in question.draws():
        parts = zip(question.steps, question.numbers(drawn), question.formulas(drawn), strict=True)
        for step, number, formula in parts:
            if formula and (fault := _differs(number, formula)):
                told = ", ".join(f"{word} {value}" for word, value in drawn.items())
                yield _fault("formula", bank, question.line, f"{question.id}: '{step.name}' with {told}: {fault}")
                return


def _differs(number: NumberQuestion, formula: str) -> str:
    """Where a formula gives something else than the number, to its tolerance: what it gives."""
    unit = units.find(number.unit)
    try:
        found = evaluate(formula)
    except ValueError as error:
        return f"'{formula}': {error}"
    if unit is None or found.dimension != unit.dimension:
        return f"'{formula}' gives no {number.unit}"
    value = found.value / unit.scale
    near = abs(value - number.value) <= max(number.tolerance, 1e-9) * abs(number.value)
    return "" if near else f"'{formula}' gives {value:.6g}, and the calculation {number.value:g}"


RULES: tuple[Rule, ...] = (
    formulated,
    linked,
    one_right_answer,
    plausible_distractors,
    comparable_lengths,
    calculated,
    sensible_tolerance,
    explained,
)


# -- several questions ------------------------------------------------------------------------------------------------


def duplicates(banks: Sequence[Bank]) -> Iterator[Fault]:
    """No two questions ask the same, in the same words or nearly so. What is offered or answered counts with them."""
    asked = [(bank, question, _essence(question)) for bank in banks for question in bank.questions]
    for (_, first, ours), (bank, second, theirs) in combinations(asked, 2):
        if len(ours & theirs) >= NEAR * len(ours | theirs):
            yield _fault("duplicate", bank, second.line, f"{second.id} asks nearly what {first.id} asks")


def _essence(question: Item) -> frozenset[str]:
    return frozenset(_words(question.text)) - frozenset(_EMPTY_WORDS.split())


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+(?:\.\d+)?", text.lower())


def telling(banks: Sequence[Bank]) -> Iterator[Fault]:
    """Nothing gives the right option away: not its place in the file, not its length."""
    everything = [question for bank in banks for question in bank.questions if isinstance(question, ChoiceQuestion)]
    for bank in banks:
        choices = [question for question in bank.questions if isinstance(question, ChoiceQuestion)]
        if len(choices) >= 4:
            yield from _telling(bank, choices, TELLING, bank.topic)
    if banks and len(everything) >= 20:
        yield from _telling(banks[0], everything, TELLING_OVERALL, "all banks together", margin=0)


def _telling(
    bank: Bank, choices: Sequence[ChoiceQuestion], share: float, name: str, margin: float = 0.1
) -> Iterator[Fault]:
    most = share * len(choices)
    for place, count in Counter(question.right for question in choices).items():
        if count > most:
            text = f"{name}: the right option stands at place {place + 1} in {count} of {len(choices)} choices"
            yield _fault("position", bank, 1, text)
    for word, extreme in (("longest", max), ("shortest", min)):
        count = sum(_stands_out(question, extreme, margin) for question in choices)
        if count > most:
            text = f"{name}: the right option is the {word} in {count} of {len(choices)} choices"
            yield _fault("telling-length", bank, 1, text)


def _stands_out(question: ChoiceQuestion, extreme: Callable[[list[int]], int], margin: float) -> bool:
    """Whether the right option alone is the longest (or shortest), by more than a share of its length."""
    lengths = sorted((len(option.text) for option in question.options), reverse=extreme([0, 1]) == 1)
    first, second = next(pairwise(lengths))
    return len(question.options[question.right].text) == first and abs(first - second) > margin * max(first, second)


def coverage(banks: Sequence[Bank], at_least: int, covered: Sequence[str]) -> Iterator[Fault]:
    """Every topic has a bank, and there are enough questions."""
    topics = {bank.topic for bank in banks}
    folder = banks[0].path.parent if banks else Path("quizzes")
    for topic in covered:
        if topic not in topics:
            yield Fault(rule="topic", path=folder, line=1, text=f"no bank covers {topic}")
    count = sum(len(bank.questions) for bank in banks)
    if count < at_least:
        yield Fault(rule="count", path=folder, line=1, text=f"{count} questions, and there must be {at_least}")
