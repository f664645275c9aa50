"""Which mends are open to a person, and the folder that one is written into."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import calling, catalog
from grader.model import Exercise, file_of, number_of
from grader.model.errors import UsageError
from grader.practice import interviews
from grader.practice.mend import pack
from grader.practice.mend.draw import Offer, draw
from grader.practice.mend.kept import Mend
from grader.practice.mend.pack import Pack, Packed
from grader.practice.store import Store
from grader.quiz.interview import drawing

FOLDER = "mends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A program that was drawn, with its exercise."""

    exercise: Exercise
    packed: Packed


def passed(store: Store) -> set[str]:
    """The exercises that were passed, in an attempt or in an interview."""
    found = {attempt.exercise for attempt in store.attempts() if attempt.status == "passed"}
    return found | drawing.passed_in(interviews.held(store)).keys()


def open_packs(root: Path, store: Store, wanted: str | None, *, spoil: bool) -> list[Pack]:
    """The packs of the exercises that were passed, or of the one `wanted`; `spoil` asks for no pass. Raises UsageError
    where nothing is open, which names what is."""
    names = catalog.all_names(root)
    allowed = set(names) if spoil else passed(store)
    if wanted is not None and wanted not in allowed:
        grade = calling.command("grade", number_of(wanted))
        raise UsageError(
            f"A mend of {wanted} is made of its solution, so it comes after you have passed it ({grade}). "
            f"{_open_to_you([name for name in names if name in allowed])}"
        )
    chosen = [name for name in names if name in allowed and wanted in (None, name)]
    found = [each for name in chosen if (each := pack.load(name, root)) and each.mends]
    if chosen and not found:
        raise UsageError(f"No mends of {', '.join(map(number_of, chosen))} are in this copy.")
    if not found:
        raise UsageError(f"A mend is made of an exercise's solution, so it comes after a pass. {_open_to_you([])}")
    return found


def _open_to_you(names: Sequence[str]) -> str:
    if not names:
        return f"You have passed none yet; {calling.command('list')} shows them all."
    return f"Open to you: {', '.join(map(number_of, names))}."


def drawn(packs: Sequence[Pack], root: Path, store: Store, seed: int) -> Drawn:
    """One of the mends that still fit their exercise. Raises UsageError where none does."""
    offers = [offer for each in packs for offer in each.offers()]
    by_name = {each.exercise: each for each in packs}
    while offers:
        exercise = catalog.load(draw(offers, store.mends(), store.attempts(), seed).exercise, root)
        fitting = [each for each in offers if each.exercise != exercise.name or _fits(each, by_name, exercise)]
        if len(fitting) == len(offers):
            chosen = draw(offers, store.mends(), store.attempts(), seed)
            return Drawn(exercise=exercise, packed=_of(chosen, by_name))
        offers = fitting
    raise UsageError("The mends of this copy were packed for other exercises than these; take the course anew.")


def _of(offer: Offer, packs: dict[str, Pack]) -> Packed:
    return next(mend for mend in packs[offer.exercise].mends if mend.mutant == offer.mutant)


def _fits(offer: Offer, packs: dict[str, Pack], exercise: Exercise) -> bool:
    return pack.fits(_of(offer, packs), exercise)


def resumed(mend: Mend, root: Path) -> Drawn | None:
    """A mend that was left, as it was drawn; None where its pack has it no more."""
    found = pack.load(mend.exercise, root)
    packed = found.named(mend.mutant) if found else None
    if packed is None or mend.exercise not in catalog.all_names(root):
        return None
    exercise = catalog.load(mend.exercise, root)
    return Drawn(exercise=exercise, packed=packed) if pack.fits(packed, exercise) else None


def write(chosen: Drawn, root: Path) -> Path:
    """The program in a folder of its own, with the student's files that it may need beside it. Nothing that is there
    is overwritten. Raises UsageError where it cannot be written."""
    above = root / FOLDER / chosen.exercise.name
    number = 1
    try:
        while (above / str(number)).exists():
            number += 1
        file = above / str(number) / chosen.exercise.file
        file.parent.mkdir(parents=True)
        file.write_text(chosen.packed.source, encoding="utf-8")
        for name in chosen.exercise.companions:
            with contextlib.suppress(FileNotFoundError):
                own = (root / "exercises" / name / file_of(name)).read_bytes()
                (file.parent / file_of(name)).write_bytes(own)
    except OSError as error:
        raise UsageError(f"{above} cannot be written: {error.strerror}.") from None
    return file
