"""quizzes/*.yaml become frozen banks of questions, or an AuthorError that says which line to mend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, PositiveInt

from grader import calling
from grader.catalog.document import Document, read, validated
from grader.catalog.manifest import Strict, Text, Word
from grader.catalog.names import all_names
from grader.catalog.nearest import offer
from grader.model import number_of
from grader.model.errors import AuthorError, UsageError
from grader.quiz.chains import Chain, DesignCase, Step
from grader.quiz.numbers import NumberQuestion
from grader.quiz.questions import Bank, CardQuestion, ChoiceQuestion, Item, Option

FOLDER = "quizzes"
_SHOWN = 40
MOST_DRAWS = 1000
"""So many draws a chain may have: all are calculated when it is read."""


def _flowing(text: str) -> str:
    """Text whose line breaks inside a paragraph are only the file's; an indented line and an empty one stay."""
    lines = text.strip().split("\n")
    joined = lines[0]
    for before, line in pairwise(lines):
        kept = not line.strip() or not before.strip() or line.startswith("  ") or before.startswith("  ")
        joined += ("\n" if kept else " ") + line.rstrip()
    return joined


Prose = Annotated[Text, AfterValidator(_flowing)]
Number = Annotated[str, Field(pattern=r"^\d\d$")]


class OptionEntry(Strict):
    """An option: `right` with its text, or `wrong` with its text and `why`."""

    right: Prose | None = None
    wrong: Prose | None = None
    why: Prose | None = None


class QuestionEntry(Strict):
    """What all kinds have."""

    id: Word
    question: Prose
    explanation: Prose
    difficulty: Annotated[int, Field(ge=1, le=3)]
    exercise: Number | None = None
    source: Prose | None = None
    hint: Prose | None = None


class ChoiceEntry(QuestionEntry):
    """`kind: choice`."""

    kind: Literal["choice"]
    options: Annotated[list[OptionEntry], Field(min_length=3, max_length=5)]


class NumberEntry(QuestionEntry):
    """`kind: number`."""

    kind: Literal["number"]
    value: float
    unit: Text
    tolerance: Annotated[float, Field(ge=0, le=0.5)]
    calculation: Text
    formula: Text = ""
    unit_shown: bool = True


class CardEntry(QuestionEntry):
    """`kind: card`."""

    kind: Literal["card"]
    answer: Prose


class StepEntry(Strict):
    """One question of a chain; `name` is what later ones call its result."""

    name: Word
    question: Prose
    unit: Text
    tolerance: Annotated[float, Field(ge=0, le=0.5)]
    calculation: Text
    explanation: Prose
    formula: Text = ""


class LinkedEntry(Strict):
    """What a chain and a case have. What is drawn are numbers and calculations such as "100 * Gbit / s", for each word
    its values."""

    id: Word
    question: Prose
    difficulty: Annotated[int, Field(ge=1, le=3)]
    exercise: Number | None = None
    source: Prose | None = None
    draw: Annotated[dict[Word, Annotated[list[int | float | Text], Field(min_length=2)]], Field(min_length=1)]
    steps: Annotated[list[StepEntry], Field(min_length=3, max_length=5)]


class ChainEntry(LinkedEntry):
    """`kind: chain`."""

    kind: Literal["chain"]


class CaseEntry(LinkedEntry):
    """`kind: case`. A chain that begins with an open question; `rubric` is what a good answer to it has in it."""

    kind: Literal["case"]
    opening: Prose
    rubric: Annotated[list[Prose], Field(min_length=3, max_length=5)]
    explanation: Prose
    source: Prose


class BankFile(Strict):
    """A file of quizzes/; its name is the topic."""

    title: Text
    order: PositiveInt
    questions: Annotated[list[dict[str, Any]], Field(min_length=1)]


KINDS: dict[str, type[Strict]] = {
    "choice": ChoiceEntry,
    "number": NumberEntry,
    "card": CardEntry,
    "chain": ChainEntry,
    "case": CaseEntry,
}


def topics(root: Path) -> tuple[str, ...]:
    """The topics that have a bank, by name. No file is read."""
    return tuple(sorted(path.stem for path in (root / FOLDER).glob("*.yaml") if not path.name.startswith(".")))


def resolve_topic(text: str, root: Path) -> str:
    """The topic that a learner typed: its name in any case, with blanks or hyphens, or an unambiguous beginning of it.
    Raises UsageError, which offers the nearest or all."""
    word, known = text.strip().lower().replace("-", "_").replace(" ", "_").removesuffix(".yaml"), topics(root)
    found = [topic for topic in known if topic == word] or [topic for topic in known if word and topic.startswith(word)]
    if len(found) == 1:
        return found[0]
    every = f"All of them: {calling.command('quiz', '', '--list')}."
    raise UsageError(f"There is no quiz on '{text[:_SHOWN]}'. {offer(word, found or known)} {every}")


def load_banks(root: Path, only: str | None = None) -> tuple[Bank, ...]:
    """All banks of quizzes/, or the one on the topic `only`, in the order of their topics. Raises AuthorError."""
    folder = root / FOLDER
    chosen = [topic for topic in topics(root) if only in (None, topic)]
    if not chosen:
        wanted = f"no bank {only}.yaml" if only else "no bank of questions"
        raise AuthorError(folder, f"there is {wanted}", offer(only or "", topics(root)) if only else "Add one.")
    banks = [load_bank(folder / f"{topic}.yaml") for topic in chosen]
    return tuple(sorted(banks, key=lambda bank: (bank.order, bank.topic)))


def course_banks(root: Path) -> tuple[Bank, ...]:
    """All banks as they are asked in this course, whose exercises alone they name. None where it has no quizzes/."""
    if not (root / FOLDER).is_dir():
        return ()
    numbers = {number_of(name) for name in all_names(root)}
    return tuple(
        replace(bank, questions=tuple(question.placed(numbers) for question in bank.questions))
        for bank in load_banks(root)
    )


def load_bank(path: Path) -> Bank:
    """One bank. Raises AuthorError with the line for anything that is malformed."""
    document = read(path)
    entry = validated(document, BankFile)
    questions = tuple(_item(part, path.stem) for part in _parts(document))
    _refuse_same_ids(document, questions)
    return Bank(topic=path.stem, title=entry.title, order=entry.order, questions=questions, path=path)


def _parts(document: Document) -> Iterator[Document]:
    """Each question as a document of its own, which still knows its lines."""
    assert isinstance(document.node, yaml.MappingNode)
    nodes = next(value for key, value in document.node.value if key.value == "questions").value
    for node, value in zip(nodes, document.value["questions"], strict=True):
        yield Document(path=document.path, node=node, value=value)


def _item(part: Document, topic: str) -> Item:
    kind = part.value.get("kind")
    if kind not in KINDS:
        fault = f"'kind' is {kind!r}" if "kind" in part.value else "the key 'kind' is missing"
        raise part.error(("kind",), fault, f"Write one of {', '.join(KINDS)}.")
    match entry := validated(part, KINDS[kind]):
        case ChoiceEntry():
            return ChoiceQuestion(**_of_question(part, topic, entry), options=_options(part, entry))
        case NumberEntry():
            own = ("value", "unit", "tolerance", "calculation", "formula", "unit_shown")
            return NumberQuestion(**_of_question(part, topic, entry), **{name: getattr(entry, name) for name in own})
        case CardEntry():
            return CardQuestion(**_of_question(part, topic, entry), answer=entry.answer)
        case CaseEntry():
            said: dict[str, Any] = {"opening": entry.opening, "rubric": tuple(entry.rubric)}
            shared = _of_chain(part, topic, entry)
            return _calculable(part, DesignCase(**shared, **said, explanation=entry.explanation))
        case ChainEntry():
            return _calculable(part, Chain(**_of_chain(part, topic, entry)))
    raise AssertionError(kind)


def _shared(part: Document, topic: str, entry: QuestionEntry | LinkedEntry) -> dict[str, Any]:
    own = {name: getattr(entry, name) for name in ("difficulty", "exercise", "source")}
    return {"id": f"{topic}/{entry.id}", "topic": topic, "text": entry.question, "line": part.line(()), **own}


def _of_question(part: Document, topic: str, entry: QuestionEntry) -> dict[str, Any]:
    return {**_shared(part, topic, entry), "explanation": entry.explanation, "hint": entry.hint}


def _of_chain(part: Document, topic: str, entry: LinkedEntry) -> dict[str, Any]:
    steps = tuple(Step(text=step.question, **step.model_dump(exclude={"question"})) for step in entry.steps)
    drawn = {word: tuple(map(str, values)) for word, values in entry.draw.items()}
    if math.prod(map(len, drawn.values())) > MOST_DRAWS:
        raise part.error(("draw",), f"there are more than {MOST_DRAWS} draws", "Give fewer values.")
    return {**_shared(part, topic, entry), "drawn": drawn, "steps": steps}


def _calculable(part: Document, chain: Chain) -> Chain:
    """Every draw is calculated here once, so that none is found to be wrong while somebody is asked."""
    for values in chain.draws():
        try:
            chain.with_values(values)
            chain.formulas(values)
        except KeyError as error:
            remedy = f"The words are those of 'draw' and the names of earlier steps; {error} is none of them."
            raise part.error(
                ("steps",), "a text or a calculation uses a word that stands for nothing", remedy
            ) from None
        except (ValueError, IndexError) as error:
            told = ", ".join(f"{word} {value}" for word, value in values.items())
            raise part.error(("steps",), f"with {told}: {error}", "Mend the calculation or the unit.") from None
    return chain


def _options(part: Document, entry: ChoiceEntry) -> tuple[Option, ...]:
    found = tuple(_option(part, index, option) for index, option in enumerate(entry.options))
    right = sum(option.right for option in found)
    if right != 1:
        raise part.error(("options",), f"{right} options are right", "Mark one with 'right', all others with 'wrong'.")
    return found


def _option(part: Document, index: int, entry: OptionEntry) -> Option:
    steps = ("options", index)
    if (entry.right is None) == (entry.wrong is None):
        raise part.error(steps, "an option is either 'right' or 'wrong'", "Give it one of these two keys.")
    if entry.right is not None and entry.why is not None:
        raise part.error((*steps, "why"), "the right option has a 'why'", "Say it in the explanation.")
    if entry.wrong is not None and entry.why is None:
        raise part.error(steps, "the wrong option has no 'why'", "Say in half a sentence what is wrong about it.")
    return Option(text=entry.right or entry.wrong or "", right=entry.right is not None, why=entry.why or "")


def _refuse_same_ids(document: Document, questions: tuple[Item, ...]) -> None:
    lines: dict[str, int] = {}
    for index, question in enumerate(questions):
        if question.id in lines:
            remedy = f"Rename one; the question in line {lines[question.id]} has it too."
            raise document.error(("questions", index, "id"), f"the id of {question.id} stands twice", remedy)
        lines[question.id] = question.line
