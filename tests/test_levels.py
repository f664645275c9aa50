"""Levels: what a manifest may say of them, and an interview that is asked for level by level. No process is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from grader import catalog
from grader.model import Case, Check, Diagnosis, Exercise, Finding, Level, Outcome, Report, Run, Verdict, number_of
from grader.model.errors import AuthorError
from grader.practice.store import Store
from grader.quiz.interview import debrief, debrief_page, drawing, state
from grader.quiz.interview.session import InterviewSession
from grader.quiz.interview.state import Interview
from grader.quiz.page import Page
from grader.render import terminal
from tests.attempts import HINTS, NOW, exercise
from tests.house import MANIFEST, House
from tests.interviewing import CHOICE, STATEMENT, Clock
from tests.reports import passed

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ("02", "03", "05", "07", "08", "09", "13", "14")
LEVELS = """\
levels:
  - says: Make it run.
    checks: [runs]
  - says: Now the result is that of one process.
    checks: [same_result]
"""
SEEN = MANIFEST.replace("    visibility: hidden\n", "")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


# -- the manifest -----------------------------------------------------------------------------------------------------


def test_levels_order_the_checks(house: House) -> None:
    found = house.load(manifest=SEEN + LEVELS)
    assert found.levels == (
        Level(says="Make it run.", checks=("runs",)),
        Level(says="Now the result is that of one process.", checks=("same_result",)),
    )
    assert house.load(manifest=SEEN).levels == ()


def levels(*checks: str, says: str = "Go on.") -> str:
    return "levels:\n" + "".join(f"  - says: {says}\n    checks: [{names}]\n" for names in checks)


FAULTS = {
    "an unknown check": (levels("runs", "same_resul"), 27, "level 2 asks for 'same_resul', which is no check"),
    "a check in two levels": (levels("runs", "same_result, runs"), 27, "'runs' is in level 1 and in level 2"),
    "twice in one": (levels("runs", "same_result, same_result"), 27, "must not name anything twice"),
    "no check": (levels("runs", ""), 27, "at least 1"),
    "no sentence": (levels("runs", "same_result", says="''"), 24, "must not be empty"),
    "a later need": (levels("same_result", "runs"), 25, "level 1 needs 'runs', which is in level 2"),
    "a need in no level": (levels("same_result"), 25, "level 1 needs 'runs', which is in no level"),
    "a single level": (levels("runs"), 23, "there is a single level"),
    "an unknown key": (levels("runs").replace("says", "say"), 24, "unknown key 'say'. Did you mean 'says'?"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_levels_is_told_with_its_line(house: House, name: str) -> None:
    text, line, said = FAULTS[name]
    with pytest.raises(AuthorError) as caught:
        house.load(manifest=SEEN + text)
    assert said in str(caught.value) and f":{line}: " in str(caught.value)


def test_a_check_that_students_do_not_see_is_in_no_level(house: House) -> None:
    with pytest.raises(AuthorError, match="which students do not see"):
        house.load(manifest=MANIFEST + LEVELS)


def test_eight_exercises_have_four_to_six_levels() -> None:
    names = [name for name in catalog.all_names(ROOT) if number_of(name) in NUMBERS]
    for found in (catalog.load(name, ROOT) for name in names):
        assert 4 <= len(found.levels) <= 6, found.name
        asked = sum(len(level.checks) for level in found.levels)
        assert asked >= 0.8 * len(found.checks), f"{found.name}: levels ask for {asked} of {len(found.checks)} checks"


# -- the interview ----------------------------------------------------------------------------------------------------

CHECKS = tuple(
    Check(id=name, title=f"It {name}", points=25, hints=HINTS) for name in ("runs", "sums", "views", "groups")
)
EXERCISE = replace(
    exercise("08_ring"),
    checks=CHECKS,
    levels=(
        Level(says="Sum it.", checks=("runs", "sums")),
        Level(says="Now the tensor may be a view.", checks=("views",)),
    ),
)


STUCK = Run(
    case=Case(name="ring", world_size=2, probe="ring"),
    ranks=(),
    seconds=0.1,
    diagnosis=Diagnosis(kind="deadlocked", ranks=(0, 1), findings=()),
)


def report(asked: tuple[str, ...], **outcomes: str) -> Report:
    """What a grade of these checks gives, all of them where none is named; what is not told passes. Where something
    fails, a run was stuck."""
    checks = [check for check in CHECKS if not asked or check.id in asked]
    verdicts = tuple(Verdict(check=check, outcome=Outcome(outcomes.get(check.id, "passed"))) for check in checks)
    return replace(passed(), exercise=EXERCISE, verdicts=verdicts, runs=(STUCK,) if outcomes else ())


class Talk:
    """An interview on EXERCISE whose grades come to what `outcomes` say, one after the other; `asked` are the checks
    that each was asked for."""

    def __init__(self, store: Store, *outcomes: dict[str, str]) -> None:
        self.store, self.clock, self.said = store, Clock(), list[str]()
        self.outcomes, self.asked = list(outcomes), list[tuple[str, ...]]()

    def hold(self, interview: Interview, *script: str | float, of: Exercise = EXERCISE) -> Interview:
        """Type what a script says; a number lets so many minutes go by."""
        lines: Iterator[Any] = iter(script)

        def ask(prompt: str) -> str:
            for line in lines:
                if isinstance(line, str):
                    return line
                self.clock.move(minutes=line)
            raise EOFError

        def grade(only: tuple[str, ...]) -> Report:
            self.asked.append(only)
            return report(only, **(self.outcomes.pop(0) if self.outcomes else {}))

        self.said = []
        return InterviewSession(
            interview=interview, exercise=of, file=Path("ring.py"), questions={CHOICE.id: CHOICE}, store=self.store,
            now=self.clock, ask=ask, say=self.said.append, grade=grade, show=terminal.render, statement=STATEMENT,
            page=Page(plain=True, width=60),
        ).hold()  # fmt: skip

    @property
    def text(self) -> str:
        return " ".join("\n".join(self.said).split())


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Talk]:
    return lambda *outcomes: Talk(Store(tmp_path / "progress.sqlite3"), *outcomes)


def begun(levels: bool = True) -> Interview:
    return state.begin(EXERCISE, (CHOICE,), 55, seed=3, now=NOW, levels=levels)


def test_the_next_level_appears_when_one_passes(talk) -> None:
    held = talk({"sums": "failed"}, {}, {"views": "failed"}, {})
    over = held.hold(begun(), 4, "g", 3, "g", 5, "g", 2, "g", 1, "g", "f")
    first = ("runs", "sums")
    assert held.asked == [first, first, (*first, "views"), (*first, "views"), (), ()]
    assert [(level.begun, level.passed) for level in over.levels] == [(0, 420), (420, 840)]
    assert [(grade.level, grade.whole) for grade in over.grades][1:5] == [(1, False), (2, False), (2, False), (2, True)]
    told = held.text
    assert told.index("Level 1 of 2. Sum it.") < told.index("Level 1 passed, in 7:00. Level 2 of 2. Now the tensor")
    assert "That was the last of 2 levels. g grades the exercise as a whole." in told


def test_a_check_that_was_skipped_holds_up_no_level_and_one_that_is_broken_does(talk) -> None:
    assert len(talk({"sums": "skipped"}).hold(begun(), "g").levels) == 2
    assert len(talk({"sums": "broken"}).hold(begun(), "g").levels) == 1


def test_without_levels_everything_is_asked_for_at_once_and_there_are_no_hints(talk) -> None:
    held = talk()
    held.hold(begun(levels=False), "h", "l", "g")
    assert held.asked == [()] and "Level" not in held.text and "Hint" not in held.text


def test_a_hint_is_for_the_check_in_the_way_and_is_noted(talk) -> None:
    held = talk({"sums": "failed"})
    over = held.hold(begun(), "h", 2, "g", "h", "h", "h", "h")
    assert [(hint.check, hint.number, hint.level, hint.at) for hint in over.hints] == [
        ("runs", 1, 1, 0), ("sums", 1, 1, 120), ("sums", 2, 1, 120), ("sums", 3, 1, 120),
    ]  # fmt: skip
    assert "Hint 3 of 3 for “It sums”; it is noted." in held.text and "There is no further hint." in held.text


def test_a_hint_begins_with_what_was_seen_in_the_run(talk) -> None:
    held, stuck = talk(), report(("runs", "sums"), sums="failed")
    finding = Finding(subject="a deadlock", hint="A blocking send waits\nfor its recv.")
    verdicts = (stuck.verdicts[0], replace(stuck.verdicts[1], findings=(finding,)))
    held.hold(begun().graded(replace(stuck, verdicts=verdicts), NOW, whole=False), "h")
    assert "Seen in the run: A blocking send waits for its recv. Hint 1 of 3 for “It sums”" in held.text


def test_levels_survive_a_pause_and_a_crash(talk) -> None:
    held = talk({}, {"views": "failed"})
    paused = held.hold(begun(), 3, "g", "h", "p")
    again = state.read(held.store.interviews()[-1][1])
    assert again == paused
    over = held.hold(again.resumed(held.clock()), "g", "f")
    assert "Level 2 of 2. Now the tensor may be a view." in held.text and len(over.levels) == 2


def test_a_level_is_no_pass_of_the_exercise(talk) -> None:
    first = talk().hold(begun(), "g", "p")
    assert first.grades[0].status == "passed" and drawing.passed_in([first]) == {}
    assert drawing.passed_in([talk().hold(begun(), "g", "g", "g", "p")]) == {EXERCISE.name: NOW}


def test_what_passes_at_the_end_counts_and_nothing_new_is_asked(talk) -> None:
    held = talk()
    over = held.hold(begun(), 5, "f")
    assert [level.passed for level in over.levels] == [300] and "Level 2 of 2" not in held.text


# -- the debrief ------------------------------------------------------------------------------------------------------


def found(talk, *, width: int = 60) -> tuple[debrief.Debrief, str]:
    held = talk({"sums": "failed"}, {}, {"sums": "failed", "views": "failed"}, {"views": "failed"})
    over = held.hold(begun(), 4, "g", 3, "g", 5, "g", "h", 2, "f")
    due = {CHOICE.id: NOW + timedelta(days=3), EXERCISE.name: NOW + timedelta(days=1)}
    made = debrief.debrief(over, EXERCISE, {CHOICE.id: CHOICE}, STATEMENT, due=due, now=NOW)
    return made, debrief_page.text(made, width)


def test_a_debrief_says_how_far_how_long_and_with_which_hint(talk) -> None:
    made, text = found(talk)
    flat = " ".join(text.split())
    assert "1 of 2 levels passed." in flat and "1. passed in 7:00: Sum it." in flat
    assert "2. not passed, 7:00 on it: Now the tensor may be a view. Took hint 1 for “It sums” at 12:00." in flat
    assert "First run at 4:00. First check passed at 4:00. First level passed at 7:00. Exercise passed not yet." in flat
    assert "It sums: failed twice, after it had passed." in flat.replace("2 times", "twice")
    assert "a deadlock, in 3 runs" in flat
    assert [check.id for check in made.missed] == ["views"], "what was never asked for is not missed"
    assert "exercise 08 Ring: in 1 day" in flat and "“Why does it overlap?”: in 3 days" in flat
    assert max(map(len, text.splitlines())) <= 60


def test_the_page_has_the_same(talk) -> None:
    page = debrief_page.html(found(talk)[0])
    for words in ("1 of 2 levels passed", "Took hint 1", "Wrong turns", "What to repeat", "in 3 days"):
        assert words in page, words
    assert "<script" not in page


# -- interviews of before ---------------------------------------------------------------------------------------------

BEFORE = {
    "name": "20261101-190000", "exercise": "01_join", "minutes": 55.0, "questions": ["overlap/why"], "seed": 3,
    "spans": [["2026-11-01T19:00:00+00:00", "2026-11-01T19:20:00+00:00"]], "seen": "2026-11-01T19:20:00+00:00",
    "grades": [{"at": 60.0, "status": "passed", "score": 100, "max_score": 100, "checks": {"runs": "passed"}}],
    "answers": [{"question": "overlap/why", "typed": "a", "right": True, "seconds": 12.0}],
    "status": "paused", "spent": {},
}  # fmt: skip


def test_an_interview_of_an_earlier_version_can_be_gone_on_with() -> None:
    old = state.read(json.dumps(BEFORE))
    assert old.open and old.levels == () and drawing.passed_in([old]) == {"01_join": old.seen}
    assert old.next_question({CHOICE.id: CHOICE}) is None
    assert state.read(state.as_json(old)) == old


def test_an_interview_of_a_later_version_is_passed_over() -> None:
    with pytest.raises(ValueError, match="newer"):
        state.read(json.dumps({**BEFORE, "version": state.VERSION + 1}))
