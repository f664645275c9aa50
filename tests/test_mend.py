"""Mend this: what is drawn, what a pack holds, the dialogue, what is kept. Only the last test starts ranks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.authoring import mends
from grader.course import project
from grader.grading import flow
from grader.grading.request import Request
from grader.model import Report, alone
from grader.model.errors import RunError, UsageError
from grader.practice.mend import choice, pack
from grader.practice.mend.draw import NOT_MENDED, Offer, draw, failed_before, weight
from grader.practice.mend.kept import Mend
from grader.practice.mend.session import MendSession
from grader.practice.store import Store
from grader.quiz.interview.session import TimeUp
from grader.quiz.page import Page
from grader.render import html, terminal
from tests import fakes, mending, small
from tests.people import asker
from tests.test_interview import Clock
from tests.test_progress import NOW, attempt

ROOT = Path(__file__).resolve().parent.parent

OFFERS = tuple(
    Offer(exercise=exercise, mutant=mutant, fails=fails)
    for exercise, mutant, fails in [
        ("01_join", "ends_early", ("runs",)),
        ("01_join", "adds_twice", ("sums",)),
        ("02_shard", "drops_the_last", ("sums",)),
    ]
)


def mend(offer: Offer, name: str = "1", **facts) -> Mend:
    given = {"at": NOW, "file": "mends/01_join/1/join.py", "minutes": 12.0, **facts}
    return Mend(name=name, exercise=offer.exercise, mutant=offer.mutant, fails=offer.fails, **given)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "progress.sqlite3")


# -- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_none_comes_twice_before_all_were_seen(seed):
    seen: list[Mend] = []
    for number in range(3 * len(OFFERS)):
        drawn = draw(OFFERS, seen, [], seed + number)
        seen.append(mend(drawn, str(number), status="mended"))
    keys = [(each.exercise, each.mutant) for each in seen]
    assert [len(set(keys[start : start + 3])) for start in (0, 3, 6)] == [3, 3, 3]
    assert all(one != other for one, other in pairwise(keys))


def test_what_the_person_failed_before_comes_rather():
    attempts = [attempt(runs="passed", sums="failed"), attempt(runs="passed", sums="failed")]
    drawn = Counter(draw(OFFERS[:2], [], attempts, seed).mutant for seed in range(400))
    assert drawn["adds_twice"] > 2 * drawn["ends_early"] > 0


def test_a_failure_counts_for_its_own_exercise_and_up_to_a_limit():
    failures = failed_before([attempt(runs="failed", sums="blocked")] * 9, [])
    assert [weight(offer, failures, []) for offer in OFFERS] == [4, 1, 1]


def test_one_that_was_not_mended_weighs_more_and_so_do_checks_that_failed_meanwhile():
    given_up = mend(OFFERS[0], status="given up", grades=(("runs",), ("runs", "sums")))
    assert failed_before([], [given_up]) == {("01_join", "runs"): 2, ("01_join", "sums"): 1}
    assert weight(OFFERS[0], Counter(), [given_up]) == 1 + NOT_MENDED
    assert weight(OFFERS[0], Counter(), [given_up, replace(given_up, status="mended")]) == 1


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_mends_come_back_as_they_were_each_once(store):
    first, second = mend(OFFERS[0]), mend(OFFERS[2], "2", grades=(("sums",), ()), hints=2, seconds=31.5)
    store.keep_mend(first)
    store.keep_mend(second)
    store.keep_mend(replace(first, status="mended"))
    again = Store(store.path)
    assert again.mends() == (replace(first, status="mended"), second)
    assert again.mends("02_shard") == (second,) and second.open and second.left == 12 * 60 - 31.5


# -- packs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small exercise with its pack. Nobody changes it."""
    root = small.build(tmp_path_factory.mktemp("course"))
    mending.packed(root)
    return root


def of(root: Path, mutant: str = "forgets_to_reduce"):
    found = pack.load(small.NAME, root)
    assert found is not None
    packed = found.named(mutant)
    assert packed is not None
    return packed


def test_a_pack_holds_what_fails_as_its_author_says_and_no_plain_program(root, tmp_path):
    found = pack.load(small.NAME, root)
    assert [mend.mutant for mend in found.mends] == ["forgets_to_reduce", "takes_anything"]
    content = found.path.read_bytes()
    assert b"def total" not in content and b"dist" not in content
    pack.save(tmp_path / "again", small.NAME, found.mends)
    assert (tmp_path / "again").read_bytes() == content


def test_a_recorded_page_is_that_of_a_grade(root, tmp_path):
    file = tmp_path / "total.py"
    file.write_text(of(root).source)
    request = Request(exercise=small.NAME, root=root, submission=file, seed=of(root).report["seed"])
    now = flow.grade(request, fakes.FakeSession(otherwise=mending.behaves))
    shown = terminal.render(pack.report_of(of(root), mending.exercise(root), file))
    assert re.sub(r"[\d.]+ s$", "", shown.rstrip()) == re.sub(r"[\d.]+ s$", "", terminal.render(now).rstrip())
    assert "✗ All ranks get the sum" in shown


def test_it_knows_what_would_be_right_and_where(root):
    packed = of(root, "takes_anything")
    assert packed.mended == (
        '- return TypeError("value must be a tensor")', '+ raise TypeError("value must be a tensor")',
    )  # fmt: skip
    assert (packed.function, packed.line) == ("total", 7)
    assert mends.function_at("class A:\n    def f(self):\n        pass\n", 3) == "A.f"
    assert mends.difference("a\nb\nc\nd\n", "a\nc\ne\n") == ("- b", "…", "- d", "+ e")


@pytest.mark.parametrize("damage", [b"", b"no pack", "cut", "bomb"])
def test_a_file_that_is_no_pack_is_named(root, tmp_path, damage, monkeypatch):
    path = pack.place(small.NAME, tmp_path)
    path.parent.mkdir(parents=True)
    whole = pack.place(small.NAME, root).read_bytes()
    path.write_bytes({"cut": whole[:-9], "bomb": whole}.get(damage, damage))
    if damage == "bomb":
        monkeypatch.setattr(pack, "MAX_BYTES", 100)
    with pytest.raises(UsageError, match=r"packs/90_total\.mends is no pack of mends for 90_total"):
        pack.load(small.NAME, tmp_path)
    assert pack.load("91_other", tmp_path) is None


def test_mutants_are_chosen_check_by_check_and_those_without_a_function_are_left(root):
    found = mending.exercise(root)
    mutants = catalog.load_mutants(found, root)
    lacking = replace(mutants[0], name="lacks", source="import torch\n")
    several = replace(mutants[0], name="several", fails=("sums", "refuses"))
    chosen = mends.choose(found, [lacking, several, *mutants], 3)
    assert [mutant.name for mutant in chosen] == [mutant.name for mutant in mutants]
    assert len(mends.choose(found, [lacking, several, *mutants], 9)) == 4


def test_a_pack_is_stale_where_a_program_or_a_check_has_changed_and_not_for_words(root, tmp_path):
    copy = small.build(tmp_path)
    packed = mending.packed(copy)
    manifest, mutants = copy / "exercises/90_total/exercise.yaml", copy / "reference/90_total/mutants.yaml"

    def stale() -> tuple[str, ...]:
        return mends.state(pack.load(small.NAME, copy), mending.exercise(copy), copy).stale

    manifest.write_text(manifest.read_text().replace("[where, idea, code]", "[here, this, that]"))
    mutants.write_text(mutants.read_text().replace("Bad input is not", "What is no tensor is not"))
    assert stale() == ()
    mutants.write_text(mutants.read_text().replace("return TypeError", "assert TypeError"))
    assert stale() == ("takes_anything",)
    manifest.write_text(manifest.read_text().replace("points: 20", "points: 21").replace("points: 30", "points: 29"))
    assert stale() == ("takes_anything",), "points are shown as they are today"
    manifest.write_text(manifest.read_text().replace("refuses: {", "refuses: {needs: [same], "))
    assert stale() == tuple(mend.mutant for mend in packed)


def test_a_students_copy_has_packs_in_a_place_of_their_own(root, tmp_path):
    project.copy_mends([mending.exercise(root)], root, tmp_path)
    assert [path.name for path in (tmp_path / "packs").iterdir()] == ["90_total.mends"]
    assert pack.load(small.NAME, tmp_path).mends == pack.load(small.NAME, root).mends


PACKED = [name for name in catalog.all_names(ROOT) if pack.place(name, ROOT).is_file()]


@pytest.mark.parametrize("name", PACKED)
def test_what_is_packed_here_can_be_shown(name):
    """Every mend has its page for a terminal; the first has one for a browser."""
    found, exercise = pack.load(name, ROOT), catalog.load(name, ROOT)
    fitting = [mend for mend in found.mends if pack.fits(mend, exercise)]
    assert len(fitting) >= len(found.mends) // 2, f"make mends EX={exercise.number}"
    file = Path(f"mends/{name}/1/{exercise.file}")
    for packed in fitting:
        report = pack.report_of(packed, exercise, file)
        assert report.status == "failed" and "✗" in terminal.render(report, width=60)
        assert compile(packed.source, "mend", "exec") and packed.mistake and packed.mended
    assert html.render(alone(pack.report_of(fitting[0], exercise, file))).lower().startswith("<!doctype html>")


# -- what is open -----------------------------------------------------------------------------------------------------


def test_a_mend_comes_after_a_pass(root, store):
    with pytest.raises(UsageError, match=r"comes after you have passed it \(make grade EX=90\). You have passed none"):
        choice.open_packs(root, store, small.NAME, spoil=False)
    with pytest.raises(UsageError, match="comes after a pass"):
        choice.open_packs(root, store, None, spoil=False)
    assert choice.open_packs(root, store, None, spoil=True)
    store.add(attempt(small.NAME, "failed"))
    assert choice.passed(store) == set()
    store.add(attempt(small.NAME, "passed"))
    assert [found.exercise for found in choice.open_packs(root, store, None, spoil=False)] == [small.NAME]


def test_a_copy_without_packs_says_so(root, store, tmp_path):
    copy = small.build(tmp_path / "other")
    with pytest.raises(UsageError, match="No mends of 90 are in this copy"):
        choice.open_packs(copy, store, small.NAME, spoil=True)


def test_mends_whose_checks_are_gone_are_not_drawn(root, store, tmp_path):
    copy = small.build(tmp_path / "other")
    first, second = mending.packed(copy)
    save = lambda *found: pack.save(pack.place(small.NAME, copy), small.NAME, found)  # noqa: E731
    save(replace(first, fails=("gone",)), second)
    packs = choice.open_packs(copy, store, None, spoil=True)
    assert {choice.drawn(packs, copy, store, seed).packed.mutant for seed in range(9)} == {second.mutant}
    save(replace(first, fails=("gone",)))
    with pytest.raises(UsageError, match="packed for other exercises"):
        choice.drawn(choice.open_packs(copy, store, None, spoil=True), copy, store, 1)


def test_a_program_is_written_beside_those_that_are_there(root, store, tmp_path):
    copy = small.build(tmp_path / "other")
    mending.packed(copy)
    chosen = choice.drawn(choice.open_packs(copy, store, None, spoil=True), copy, store, 1)
    first, second = choice.write(chosen, copy), choice.write(chosen, copy)
    assert [file.relative_to(copy).as_posix() for file in (first, second)] == [
        "mends/90_total/1/total.py", "mends/90_total/2/total.py",
    ]  # fmt: skip
    written = {path.name for path in (copy / "mends").rglob("*") if path.is_file()}
    assert written == {"total.py"} and first.read_text() == chosen.packed.source


# -- the dialogue -----------------------------------------------------------------------------------------------------


@dataclass
class Person:
    """Somebody who mends the small exercise as a script says: lines, what to raise, or what to do before the next."""

    root: Path
    folder: Path
    store: Store
    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.folder / "total.py"
        self.file.write_text(of(self.root).source)

    def session(self, *script: Any, kept: Mend | None = None, **facts: Any) -> MendSession:
        exercise, packed = mending.exercise(self.root), of(self.root)
        fresh = mend(Offer(exercise=small.NAME, mutant=packed.mutant, fails=packed.fails))
        given: dict[str, Any] = {"grade": self.grade, **facts}
        return MendSession(
            mend=kept or fresh, packed=packed, exercise=exercise, file=self.file, store=self.store, now=self.clock,
            recorded=pack.report_of(packed, exercise, self.file), ask=asker(script), say=self.said.append,
            show=terminal.render, page=Page(plain=True), **given,
        )  # fmt: skip

    def grade(self) -> Report:
        request = Request(exercise=small.NAME, root=self.root, submission=self.file, seed=3)
        return flow.grade(request, fakes.FakeSession(otherwise=mending.behaves))

    def writes(self, source: str):
        return lambda: self.file.write_text(source)

    def waits(self, **span: float):
        return lambda: self.clock.move(**span)

    @property
    def text(self) -> str:
        return " ".join("\n".join(self.said).split())


SOLUTION = small.FILES["reference/90_total/total.py"]
OTHERWISE_WRONG = SOLUTION.replace("raise TypeError", "return TypeError")


@pytest.fixture
def person(root: Path, store: Store, tmp_path: Path) -> Person:
    return Person(root=root, folder=tmp_path, store=store)


def test_a_program_is_mended_and_then_the_mistake_is_told(person):
    started: list[str] = []
    over = person.session(
        person.waits(seconds=20), "", person.writes(OTHERWISE_WRONG), "g", person.writes(SOLUTION),
        person.waits(seconds=60), "", begun=lambda: started.append(person.text),
    ).hold()  # fmt: skip
    assert (over.status, over.seconds, over.grades) == ("mended", 80.0, (("refuses",), ()))
    assert person.store.mends() == (over,)
    assert "✗ All ranks get the sum" in started[0] and "Find it and mend it in" in started[0]
    assert "is as it was drawn" in person.text, "and that costs no grade"
    assert "Not yet: 1 check fails, 1 of them not before. 11:40 left." in person.text
    assert "1:20 of 12:00, 2 grades, no hint. The mistake: Every rank keeps its own value." in person.text
    assert "+ dist.all_reduce(result)" in person.text and "Why it matters, of “All ranks get the sum”" in person.text
    assert "The mistake" not in started[0] and "You go on" not in started[0]


def test_hints_say_more_each_time_and_the_last_says_the_line(person):
    over = person.session("h", "h", "h", "h", "h", "x", "no", "x", "yes").hold()
    assert (over.status, over.hints) == ("given up", 4)
    hints = [text for text in person.said if text.startswith("Hint")]
    assert [hint.partition(": ")[2] for hint in hints[:3]] == ["idea", "The mistake is in total.", "code"]
    assert hints[3] == hints[4] and "line 9: return result" in hints[3]
    assert "0:00 of 12:00, no grade, 4 hints." in person.text


def test_when_the_time_is_up_what_was_saved_counts(person):
    late = person.session(person.waits(minutes=13), "").hold()
    assert (late.status, late.seconds, late.grades) == ("late", 720.0, ())
    assert "Not mended in time" in person.text
    mended = person.session(person.writes(SOLUTION), TimeUp).hold()
    assert mended.status == "mended" and mended.grades == ((),)


@pytest.mark.parametrize("ends", ["q", EOFError, KeyboardInterrupt])
def test_who_leaves_goes_on_where_they_were(person, ends):
    left = person.session(person.waits(minutes=5), "h", ends).hold()
    assert left.open and left.seconds == 300.0 and person.store.mends() == (left,)
    assert "Kept, with 7:00 left. make mend goes on." in person.text
    person.clock.move(hours=20)
    over = person.session("t", person.writes(SOLUTION), "", kept=left).hold()
    assert (over.status, over.seconds, over.hints) == ("mended", 300.0, 1)
    assert "You go on with 7:00 left." in person.text and "7:00 left." in person.said


def test_a_grade_that_is_interrupted_or_impossible_loses_nothing(person):
    def stopped() -> Report:
        person.clock.move(seconds=30)
        raise KeyboardInterrupt

    def impossible() -> Report:
        raise RunError("No rank could be started.")

    left = person.session(person.writes(SOLUTION), "", grade=stopped).hold()
    assert left.open and left.seconds == 30.0 and left.grades == ()
    over = person.session("", "q", kept=left, grade=impossible).hold()
    assert over.open and "grader: No rank could be started." in person.said


def test_while_nothing_is_typed_the_clock_is_kept(person):
    session = person.session()
    person.clock.move(seconds=20)
    assert session.left() == 700.0 and person.store.mends() == ()
    person.clock.move(seconds=20)
    assert session.left() == 680.0 and person.store.mends()[0].seconds == 40.0


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
def test_the_command_shows_the_page_grades_on_ranks_and_tells_the_mistake(root, store, tmp_path, monkeypatch):
    """From the drawn program to the mended one, as it is typed. The solution is put in its place meanwhile."""
    copy = small.build(tmp_path / "course")
    first, _ = mending.packed(copy)
    pack.save(pack.place(small.NAME, copy), small.NAME, (first,))
    monkeypatch.setenv("RANKLINGS_DATA", str(tmp_path))
    words = [sys.executable, "-m", "grader", "mend", "90", "--spoil", "--plain", "--html", "page.html"]
    left = subprocess.run(words, cwd=copy, input="", capture_output=True, text=True, check=False)
    assert left.returncode == 0 and "Kept, with " in left.stdout, left.stderr
    assert "got" in (copy / "page.html").read_text() and not store.mends()[0].grades
    (copy / "mends/90_total/1/total.py").write_text(SOLUTION)
    over = subprocess.run(words, cwd=copy, input="\n", capture_output=True, text=True, check=False)
    assert over.returncode == 0 and "You go on with" in over.stdout, over.stderr
    assert store.mends()[0].status == "mended", over.stdout + over.stderr
    assert "The mistake: Every rank keeps its own value." in over.stdout
