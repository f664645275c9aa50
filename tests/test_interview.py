"""The interview: drawing, the clock, pauses and crashes, what is kept, the debrief. No process is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grader.model import Report
from grader.model.errors import RunError
from grader.practice.store import Store
from grader.quiz.interview import debrief, debrief_page, drawing, state
from grader.quiz.interview.session import InterviewSession, TimeUp
from grader.quiz.interview.state import Interview, clock
from grader.quiz.numbers import NumberQuestion
from grader.quiz.page import Page
from grader.quiz.questions import Bank, CardQuestion, ChoiceQuestion, Option
from grader.render import terminal
from tests.people import asker
from tests.reports import partial, passed
from tests.test_progress import COURSE, NOW, attempt

STATEMENT = """\
# 01 · Join

## What interviewers ask

**Who meets where?** At `MASTER_ADDR`,
on a port.

Prose in between.

**And then?** They part.

## Further reading

**Not this.** No.
"""
CHOICE = ChoiceQuestion(
    id="overlap/why", topic="overlap", text="Why does it overlap?", explanation="Buckets are ready early.",
    difficulty=1, line=1, exercise="01",
    options=(Option(text="Buckets", right=True), Option(text="Magic", right=False, why="No.")),
)  # fmt: skip
NUMBER = NumberQuestion(
    id="amdahl/ten", topic="amdahl", text="Speed-up?", explanation="1/(1-p).", difficulty=2, line=2, value=96.0,
    unit="MB", tolerance=0.05, calculation="48 * 2",
)  # fmt: skip
CARD = CardQuestion(
    id="zero/what", topic="zero", text="What does stage 1 shard?", explanation="Adam's moments.", difficulty=1, line=3,
    answer="The optimizer's state.",
)  # fmt: skip
QUESTIONS = {question.id: question for question in (CHOICE, NUMBER, CARD)}
BANKS = tuple(
    Bank(topic=question.topic, title=question.topic, order=place, questions=(question,), path=Path())
    for place, question in enumerate(QUESTIONS.values())
)


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    time: datetime = NOW

    def __call__(self) -> datetime:
        return self.time

    def move(self, **span: float) -> None:
        self.time += timedelta(**span)


@dataclass
class Person:
    """A person who types what a script says. A callable in the script is called in place of a line."""

    store: Store
    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)
    report: Callable[[], Report] = partial

    def session(self, interview: Interview, *script: Any) -> InterviewSession:
        return InterviewSession(
            interview=interview, exercise=COURSE[0], file=Path("interviews/a/join.py"), questions=QUESTIONS,
            store=self.store, now=self.clock, ask=asker(script), say=self.said.append, grade=lambda only: self.report(),
            show=terminal.render, statement=STATEMENT, page=Page(plain=True),
        )  # fmt: skip

    @property
    def text(self) -> str:
        return "\n".join(self.said)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(store=Store(tmp_path / "progress.sqlite3"))


def begun(minutes: float = 55, questions=(CHOICE, NUMBER, CARD)) -> Interview:
    return state.begin(COURSE[0], questions, minutes, seed=3, now=NOW)


def letter(right: bool) -> str:
    place = begun().shown(CHOICE)[0].right
    return "ab"[place if right else 1 - place]


def kept(person: Person) -> Interview:
    return state.read(person.store.interviews()[-1][1])


def passes(attempts) -> dict[str, datetime]:
    return {attempt.exercise: attempt.at for attempt in attempts if attempt.status == "passed"}


# -- drawing ----------------------------------------------------------------------------------------------------------


def test_an_exercise_that_was_passed_lately_is_not_drawn():
    attempts = [attempt("01_join", "passed", days=3), attempt("02_shard", "passed", days=20)]
    drawn = {drawing.draw_exercise(COURSE, passes(attempts), 55, NOW, seed).name for seed in range(30)}
    assert drawn == {"02_shard"}


def test_an_exercise_fits_the_time_and_comes_after_what_it_builds_on():
    assert {drawing.draw_exercise(COURSE, {}, 90, NOW, seed).name for seed in range(30)} == {"01_join"}
    attempts = [attempt("01_join", "passed", days=30), attempt("02_shard", "passed", days=30)]
    assert {drawing.draw_exercise(COURSE, passes(attempts), 90, NOW, seed).name for seed in range(30)} == {
        e.name for e in COURSE
    }
    assert "03_train" not in {drawing.draw_exercise(COURSE, passes(attempts), 45, NOW, seed).name for seed in range(30)}


def test_where_all_that_fit_were_just_passed_it_is_the_shortest_of_the_others():
    attempts = [attempt("01_join", "passed", days=0), attempt("02_shard", "passed", days=1)]
    shortest = min((each for each in COURSE if each.name not in passes(attempts)), key=lambda each: each.time_box)
    assert drawing.draw_exercise(COURSE, passes(attempts), 1, NOW, 3) == shortest


def test_what_was_passed_in_an_interview_counts_as_passed(person):
    over = begun().graded(partial(), NOW).graded(passed(), NOW + timedelta(minutes=9)).ended("over", NOW)
    assert drawing.passed_in([begun(), over]) == {"01_join": NOW}


def test_where_all_were_passed_lately_it_is_the_one_that_was_longest_ago():
    attempts = [attempt(each.name, "passed", days=days) for days, each in enumerate(COURSE, start=1)]
    assert drawing.draw_exercise(COURSE, passes(attempts), 90, NOW, 1).name == "03_train"


def test_questions_about_the_exercise_come_first_and_known_ones_do_not_come():
    for seed in range(20):
        drawn = drawing.draw_questions(BANKS, set(), COURSE[0], 55, seed)
        assert drawn[0] is CHOICE and len(drawn) == 3
    banks = (replace(BANKS[0], questions=(CHOICE, replace(CHOICE, id="overlap/other"))), *BANKS[1:])
    drawn = drawing.draw_questions(banks, {"overlap/why"}, COURSE[0], 55, 1, count=4)
    assert "overlap/why" not in {question.id for question in drawn}


def test_what_was_answered_right_lately_is_known_until_it_is_missed(person):
    session = person.session(begun(), "q", letter(True), "q", "1 MB", "f")
    session.hold()
    assert drawing.known_lately(person.store, NOW) == {"overlap/why"}
    assert drawing.known_lately(person.store, NOW + timedelta(days=15)) == set()


# -- the clock --------------------------------------------------------------------------------------------------------


def test_time_runs_only_while_the_interview_does():
    interview = begun(minutes=10)
    assert interview.left(NOW + timedelta(minutes=4)) == 360
    interview = interview.paused(NOW + timedelta(minutes=4)).resumed(NOW + timedelta(hours=5))
    assert interview.left(NOW + timedelta(hours=5, minutes=1)) == 300
    assert interview.left(NOW + timedelta(days=1)) == 0


def test_a_crash_costs_no_more_time_than_until_it_was_last_seen():
    interview = begun(minutes=10).seen_at(NOW + timedelta(minutes=2))
    again = state.read(state.as_json(interview)).resumed(NOW + timedelta(days=1))
    assert again.left(NOW + timedelta(days=1)) == 480


@pytest.mark.parametrize("seconds, told", [(0, "0:00"), (61.9, "1:01"), (3300, "55:00"), (36_000, "600:00")])
def test_a_clock_shows_minutes_and_seconds(seconds, told):
    assert clock(seconds) == told


def test_an_interview_comes_back_from_its_text():
    interview = begun().graded(partial(), NOW + timedelta(minutes=3)).paused(NOW + timedelta(minutes=4))
    assert state.read(state.as_json(interview)) == interview


# -- the dialogue -----------------------------------------------------------------------------------------------------


def test_a_whole_interview(person):
    over = person.session(
        begun(), "x", "t", "q", "z", letter(True), "q", lambda: person.clock.move(seconds=40), "about 96e6 bytes", "q",
        "The state", "q", lambda: person.clock.move(minutes=20), "g", "f",
    ).hold()  # fmt: skip
    assert over.status == "over" and [answer.right for answer in over.answers] == [True, True, None]
    assert over.answers[1].seconds == 40 and [grade.score for grade in over.grades] == [40, 40]
    assert "Type a letter from a to b." in person.text and "Those were all the questions" in person.text
    assert "Buckets are ready early" not in person.text, "explanations come in the debrief"
    assert kept(person) == over


def test_a_question_can_be_skipped_and_counts_as_not_known(person):
    over = person.session(begun(), "q", "skip", "f").hold()
    assert (over.answers[0].typed, over.answers[0].right) == ("", False)


def test_no_grade_of_an_interview_shows_a_hint(person):
    person.session(begun(), "g").hold()
    assert "Hint" not in person.text and "✗" in person.text and "That was grade 1." in person.text


def test_ctrl_c_and_the_end_of_the_input_pause(person):
    for how in (KeyboardInterrupt, EOFError):
        over = person.session(begun(), lambda: person.clock.move(minutes=5), how).hold()
        assert over.status == "paused" and kept(person) == over
        assert person.said[-1].endswith(":00 of 55:00 left. make interview goes on.")


def test_going_on_says_what_is_left_and_what_was_done(person):
    paused = person.session(begun(), "q", letter(True), lambda: person.clock.move(minutes=5), "g", "p").hold()
    person.clock.move(hours=2)
    person.session(paused.resumed(person.clock()), "p").hold()
    assert "that was paused: 50:00 of 55:00 left, 1 of 3 questions answered, 1 grade." in " ".join(person.text.split())
    assert "that was paused" not in person.said[0]


def test_the_time_on_a_question_before_a_pause_counts(person):
    def wait() -> None:
        person.clock.move(seconds=70)

    paused = person.session(begun(), "q", "z", wait, KeyboardInterrupt).hold()
    paused = person.session(state.read(state.as_json(paused)).resumed(person.clock()), "q", "z", wait, EOFError).hold()
    over = person.session(paused.resumed(person.clock()), "q", wait, letter(True), "f").hold()
    assert over.answers[0].seconds == 210


def test_a_crash_while_nothing_is_typed_costs_half_a_minute_at_most(person):
    session = person.session(begun())
    for _ in range(10):
        person.clock.move(seconds=20)
        session.tick()
    assert 0 <= (person.clock() - kept(person).seen).total_seconds() <= 30


def test_when_the_time_is_up_the_file_is_graded_a_last_time(person):
    over = person.session(begun(minutes=10), lambda: person.clock.move(minutes=11), "g").hold()
    assert over.status == "over" and len(over.grades) == 1 and over.elapsed(NOW) == 660
    over = person.session(begun(minutes=10), TimeUp).hold()
    assert over.status == "over" and len(over.grades) == 1


def test_giving_up_asks_first(person):
    assert person.session(begun(), "abort", "no").hold().status == "paused"
    assert person.session(begun(), "abort", "yes").hold().status == "aborted"


def test_a_grader_that_fails_ends_no_interview(person):
    def fails() -> Report:
        raise RunError("no room")

    person.report = fails
    over = person.session(begun(), "g", "f").hold()
    assert over.status == "over" and over.grades == () and "grader: no room" in person.text


def test_a_crash_after_an_answer_loses_nothing(person):
    class Crash(BaseException):
        pass

    with pytest.raises(Crash):
        person.session(begun(), "q", letter(False), Crash).hold()
    assert [answer.right for answer in kept(person).answers] == [False]
    again = person.session(kept(person).resumed(person.clock()), "q", "96 MB", "f").hold()
    assert [answer.right for answer in again.answers] == [False, True]


# -- the debrief ------------------------------------------------------------------------------------------------------


def finished(person: Person) -> debrief.Debrief:
    over = person.session(begun(), "g", "q", letter(False), "q", "<b>1</b> MB", "q", "2 GB", "q", "=1+1`", "f").hold()
    return debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT)


def test_a_debrief_says_what_was_missed_what_is_right_and_what_comes_next(person):
    text = debrief_page.text(finished(person))
    assert "40 of 100 points, 2 grades. Questions: 0 of 2 right." in " ".join(text.split())
    assert "not right in 0:00." in text and "You said: Magic" in text and "A good answer: Buckets" in text
    assert "96 MB = 48 × 2" in text and "yours to judge" in text and "Why: Buckets are ready early." in text
    assert max(map(len, text.splitlines())) <= 80
    assert "  - Who meets where?\n    At `MASTER_ADDR`, on a port.\n  - And then?" in text and "Not this" not in text


def test_without_a_grade_every_check_was_missed(person):
    over = begun().ended("over", NOW)
    found = debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT)
    assert [check.id for check in found.missed] == ["runs", "sums"] and "not graded" in debrief_page.text(found)
    assert {asked.word for asked in found.asked} == {"not reached"}


def test_an_exercise_that_was_passed_has_nothing_missed(person):
    person.report = lambda: replace(passed(), exercise=COURSE[0])
    over = person.session(begun(), "f").hold()
    checks = {"runs": "passed", "sums": "passed"}
    over = replace(over, grades=(replace(over.grades[0], checks=checks),))
    assert debrief.debrief(over, COURSE[0], QUESTIONS, STATEMENT).missed == ()


def test_the_page_to_keep_is_self_contained_and_runs_nothing(person):
    page = debrief_page.html(finished(person))
    assert "default-src 'none'" in page and "<script" not in page and "http" not in page.replace("http-equiv", "")
    assert "=1+1`" in page and "<b>1</b>" not in page
    assert "<code>MASTER_ADDR</code>" in page and "Who meets where?" in page
    assert datetime(2026, 11, 21, 20, 0, tzinfo=UTC) == NOW and "21 November 2026, 20:00 UTC" in page


def test_an_interview_holds_mends_and_its_debrief_tells_of_them(person):
    held: list[Interview] = []

    def mend(interview: Interview) -> Interview:
        held.append(interview)
        return replace(interview, mended=(*interview.mended, f"mend-{len(held)}"))

    begin = replace(begun(questions=()), mends=2)
    over = replace(person.session(begin, "m", "m", "f"), mend=mend).hold()
    assert over.mended == ("mend-1", "mend-2") and kept(person).mended == over.mended
    assert "0 questions, 2 mends. No hints." in person.text and "m mend this, q next" in " ".join(person.text.split())
    found = debrief.debrief(over, COURSE[0], {}, STATEMENT, mends=["01 Join: mended; 4:12 of 12:00"])
    assert "What was to be mended:\n  - 01 Join: mended" in debrief_page.text(found)
    assert "<li>01 Join: mended" in debrief_page.html(found)
