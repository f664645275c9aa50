"""The interview: the clock, the dialogue, pauses and crashes, what is kept. No process is started."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from grader.model import Report
from grader.model.errors import RunError
from grader.practice.store import Store
from grader.quiz.interview import state
from grader.quiz.interview.session import TimeUp
from grader.quiz.interview.state import clock
from tests.attempts import NOW
from tests.interviewing import CARD, Clock, Person, begun, kept, letter
from tests.reports import partial


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(store=Store(tmp_path / "progress.sqlite3"))


# -- the clock ---------------------------------------------------------------------------------------------------------


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


# -- the dialogue ------------------------------------------------------------------------------------------------------


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


def test_the_last_grade_is_within_the_time_however_long_it_takes(person):
    def slow():
        person.clock.move(seconds=9)
        return partial()

    person.report = slow
    over = person.session(begun(minutes=10), lambda: person.clock.move(minutes=10), TimeUp).hold()
    assert [grade.at for grade in over.grades] == [600]


def test_the_clock_stands_while_a_person_who_has_finished_gets_the_last_grade(person):
    def slow():
        person.clock.move(seconds=9)
        return partial()

    person.report = slow
    over = person.session(begun(), lambda: person.clock.move(minutes=10), "f").hold()
    assert [grade.at for grade in over.grades] == [over.elapsed(person.clock())] == [600]


def test_the_key_for_a_hint_is_no_answer(person):
    paused = person.session(begun(questions=(CARD,)), "q", "?", "The moments.", "p").hold()
    assert [answer.typed for answer in paused.answers] == ["The moments."]
    told = "No hints for questions. Or skip, which goes on without an answer, or later, which comes back to it."
    assert told in " ".join(person.text.split())


def test_it_begins_with_all_of_its_time(person):
    class Ticking(Clock):
        def __call__(self):
            self.move(microseconds=300)
            return self.time

    person.clock = Ticking()
    person.session(begun(), "p").hold()
    assert "55:00 for exercise 01" in " ".join(person.text.split())


def test_what_it_takes_to_begin_and_to_go_on_costs_no_time(person):
    person.clock.move(seconds=20)
    paused = person.session(begun(), lambda: person.clock.move(minutes=5), "p").hold()
    assert paused.elapsed(person.clock()) == 300
    again = paused.resumed(person.clock())
    person.clock.move(seconds=20)
    assert person.session(again, "p").hold().elapsed(person.clock()) == 300


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
