"""Spaced repetition: what is due, what is new, and how answers become ratings. The clock is an argument."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta, timezone
from itertools import pairwise

import pytest
from fsrs import Card, Rating
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.quiz import deck
from tests.quizzes import START, Memory, bank, banks, card, choice, number

DAY = timedelta(days=1)
TOPICS = ("samplers", "all_reduce", "amdahl")


def asked(store, questions, now=START, rating=Rating.Good):
    return [deck.keep(store, question, rating, now, 9.0) for question in questions]


def words(questions):
    return [question.id for question in questions]


# -- new questions ----------------------------------------------------------------------------------------------------


def test_new_questions_take_turns_among_topics_in_the_banks_order():
    chosen = deck.choose(banks(TOPICS, 3), Memory(), START, limit=4)
    assert words(chosen) == ["samplers/q00", "all_reduce/q00", "amdahl/q00", "samplers/q01"]


def test_easy_questions_come_before_hard_ones():
    hard, easy = choice("hard", difficulty=3), choice("easy", difficulty=1)
    assert words(deck.choose([bank(hard, easy)], Memory(), START, limit=2)) == [easy.id, hard.id]


def test_questions_of_passed_exercises_come_first_then_those_of_none_then_the_rest():
    ahead, free = choice("ahead", exercise="13"), choice("free")
    done = choice("done", exercise="02", difficulty=3)
    known = [bank(ahead, free, done)]
    assert words(deck.choose(known, Memory(), START, limit=3, passed={"02"})) == [done.id, free.id, ahead.id]
    assert words(deck.choose(known, Memory(), START, limit=3)) == [ahead.id, free.id, done.id]


def test_a_day_brings_few_new_questions():
    store, known = Memory(), banks(TOPICS, 20)
    first = deck.choose(known, store, START, limit=100)
    assert len(first) == deck.NEW_A_DAY
    asked(store, first)
    assert deck.choose(known, store, START + timedelta(hours=1), limit=100) == ()
    tomorrow = deck.choose(known, store, START + DAY, limit=100)
    fresh = [question for question in tomorrow if question not in first]
    assert len(fresh) == deck.NEW_A_DAY


def test_half_of_the_days_new_questions_leave_the_other_half():
    store, known = Memory(), banks(TOPICS, 20)
    asked(store, deck.choose(known, store, START, limit=5))
    assert len(deck.choose(known, store, START + timedelta(hours=1), limit=100)) == deck.NEW_A_DAY - 5


def test_the_day_is_that_of_the_learners_time_zone():
    store, known = Memory(), banks(TOPICS, 20)
    asked(store, deck.choose(known, store, START, limit=100))  # 19:00 UTC
    later = START + timedelta(hours=3)  # 22:00 UTC, which is the next day in Tokyo
    assert deck.introduced(store, later) == deck.NEW_A_DAY
    assert deck.introduced(store, later.astimezone(timezone(timedelta(hours=9)))) == deck.NEW_A_DAY
    assert deck.introduced(store, START.astimezone(timezone(timedelta(hours=9))) - timedelta(hours=5)) == 0


def test_who_names_a_topic_gets_it_beyond_the_days_share():
    store, known = Memory(), banks(TOPICS, 20)
    asked(store, deck.choose(known, store, START, limit=100))
    more = deck.choose(known, store, START + timedelta(hours=1), limit=7, topic="amdahl")
    assert len(more) == 7 and {question.topic for question in more} == {"amdahl"}


# -- due questions ----------------------------------------------------------------------------------------------------


def test_due_questions_come_before_new_ones_and_fill_the_limit_first():
    store, known = Memory(), banks(TOPICS, 4)
    early = deck.choose(known, store, START, limit=4)
    asked(store, early)
    later = deck.choose(known, store, START + 30 * DAY, limit=6)
    assert set(later[:4]) == set(early) and not set(later[4:]) & set(early)
    assert len(deck.choose(known, store, START + 30 * DAY, limit=2)) == 2


def test_no_two_questions_of_one_topic_follow_each_other_where_that_can_be_had():
    store, known = Memory(), banks(TOPICS, 4)
    for one in known:
        asked(store, one.questions)
    topics = [question.topic for question in deck.choose(known, store, START + 30 * DAY, limit=12)]
    assert all(one != other for one, other in pairwise(topics))


def test_what_is_most_likely_forgotten_comes_first():
    store, weak, strong = Memory(), choice("weak"), choice("strong")
    asked(store, [weak], rating=Rating.Again)
    asked(store, [strong], rating=Rating.Good)
    assert words(deck.choose([bank(strong, weak)], store, START + 9 * DAY, limit=2)) == [weak.id, strong.id]


def test_who_comes_an_hour_earlier_than_yesterday_finds_yesterdays_misses():
    store, one = Memory(), choice()
    asked(store, [one], rating=Rating.Again)
    assert deck.choose([bank(one)], store, START + timedelta(minutes=10), limit=9) == ()
    assert deck.choose([bank(one)], store, START + timedelta(hours=23), limit=9) == (one,)


def test_what_is_known_better_waits_longer():
    dues = [asked(Memory(), [choice()], rating=rating)[0] for rating in Rating]
    assert dues == sorted(dues) and dues[0] >= START + DAY and dues[3] > dues[1]


def test_right_answers_stretch_the_interval_and_a_miss_shrinks_it():
    store, one, now, waits = Memory(), choice(), START, []
    for rating in (Rating.Good, Rating.Good, Rating.Good, Rating.Again):
        due = deck.keep(store, one, rating, now, 5.0)
        waits.append(due - now)
        now = due
    assert waits[0] < waits[1] < waits[2] and waits[3] < waits[2]


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_cards_and_reviews_are_json_that_fsrs_reads():
    store = Memory()
    asked(store, [choice()], rating=Rating.Again)
    assert Card.from_json(store.cards()["all_reduce/ring"]).last_review == START
    (review,) = store.reviews()
    assert json.loads(review) == {
        "question": "all_reduce/ring",
        "right": False,
        "card_id": json.loads(store.cards()["all_reduce/ring"])["card_id"],
        "rating": 1,
        "review_datetime": "2026-03-02T19:00:00+00:00",
        "review_duration": 9000,
    }


def test_the_same_answers_give_the_same_cards():
    first, second = Memory(), Memory()
    for store in (first, second):
        asked(store, [choice(), number()])
        asked(store, [choice()], START + 3 * DAY)
    assert first.kept == second.kept and first.log == second.log


def test_a_local_time_zone_gives_the_same_cards():
    here, there = Memory(), Memory()
    asked(here, [choice()])
    asked(there, [choice()], START.astimezone(timezone(timedelta(hours=-7))))
    assert here.kept == there.kept


NAIVE = '{"card_id": 1, "state": 2, "step": 0, "stability": 1, "difficulty": 5, "due": "2026-01-01", "last_review": ""}'
REVIEW = '{"question": "q", "right": true, "review_datetime": "%s"}'
CARDS = ["", "{", "[]", "null", "7", '{"card_id": 1}', '{"card_id": 1, "state": 9, "step": 0}', NAIVE]


@pytest.mark.parametrize("damage", [*CARDS, REVIEW % "soon", REVIEW % "2026-03-02"])
def test_a_damaged_card_is_as_if_its_question_were_new(damage):
    store, one = Memory(), choice()
    store.kept[one.id] = damage
    store.log.append(damage)
    assert deck.choose([bank(one)], store, START, limit=1) == (one,)
    asked(store, [one])
    assert deck.known(store)[one.id].due > START and len(list(deck.reviews(store))) == 1


def test_cards_of_questions_that_are_gone_do_no_harm():
    store = Memory()
    asked(store, [choice("gone")])
    assert words(deck.choose([bank(choice())], store, START + 30 * DAY, limit=9)) == ["all_reduce/ring"]


# -- ratings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question, right, hinted, seconds, first, expected",
    [
        (number(), True, False, 3, False, Rating.Easy),
        (number(), True, False, 300, False, Rating.Good),
        (number(), True, True, 3, False, Rating.Hard),
        (number(), False, False, 3, False, Rating.Again),
        (number(), False, True, 3, False, Rating.Again),
        (number(), True, False, 3, True, Rating.Easy),
        (choice(), True, False, 3, True, Rating.Good),
        (choice(), True, False, 3, False, Rating.Easy),
        (replace(choice(), text="word " * 400), True, False, 90, False, Rating.Easy),
    ],
)
def test_an_answer_is_rated_by_how_it_came(question, right, hinted, seconds, first, expected):
    assert deck.rating(question, right=right, hinted=hinted, seconds=seconds, first=first) is expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(list(Rating)), st.integers(0, 400)), max_size=30))
def test_whatever_was_answered_the_deck_can_go_on(history):
    store, known, now = Memory(), banks(TOPICS, 3), START
    everything = [question for one in known for question in one.questions]
    for place, rating, hours in history:
        now += timedelta(hours=hours)
        assert deck.keep(store, everything[place], rating, now, 1.0) > now
    chosen = deck.choose(known, store, now, limit=5)
    assert len(chosen) <= 5 and len(set(words(chosen))) == len(chosen)


def test_cards_are_rated_by_the_learner_alone():
    store = Memory()
    asked(store, [card()], rating=Rating.Hard)
    assert json.loads(store.log[0])["rating"] == 2
