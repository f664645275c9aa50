"""Hints tied to checks, one more each time, and explanations."""

from __future__ import annotations

import pytest

from grader.model.errors import UsageError
from grader.practice import coach
from tests.attempts import CHECKS, COURSE, NOW, attempt


def test_each_hint_for_a_failing_check_says_more_and_the_third_is_the_last(store):
    levels = []
    for _ in range(4):
        hint = coach.next_hint(COURSE[0], attempt(runs="failed", sums="failed"), store, level=None)
        coach.take(hint, store, NOW)
        levels.append((hint.check.id, hint.level, hint.text, hint.others))
    assert levels == [("runs", 1, "look", 1), ("runs", 2, "think", 1), *[("runs", 3, "write `this`", 1)] * 2]


def test_hints_of_the_next_check_begin_anew(store):
    coach.take(coach.next_hint(COURSE[0], attempt(runs="failed"), store, level=2), store, NOW)
    assert coach.next_hint(COURSE[0], attempt(runs="passed", sums="failed"), store, level=None).level == 1


def test_a_blocked_check_is_not_hinted_at(store):
    assert coach.failing(COURSE[0], attempt(runs="failed", sums="blocked")) == (CHECKS[0],)


def test_before_anything_is_graded_the_hint_is_for_the_whole(store):
    hint = coach.next_hint(COURSE[0], None, store, level=None)
    assert hint.check is None and "01_join as a whole" in coach.hint_page(hint, 80)


def test_a_hint_page_says_how_to_go_on(store):
    failed = attempt(runs="failed", sums="failed")
    assert "make hint EX=01" in coach.hint_page(coach.next_hint(COURSE[0], failed, store, level=1), 80)
    last = coach.hint_page(coach.next_hint(COURSE[0], failed, store, level=3), 80)
    assert "That was the last" in last and "1 other check fails" in last


def test_where_everything_passes_there_is_nothing_to_hint_at(store):
    assert coach.next_hint(COURSE[0], attempt(status="passed"), store, level=None) is None


def test_a_check_that_is_not_there_is_answered_with_those_that_are(store):
    with pytest.raises(UsageError, match="has no check 'rnus'; there are runs, sums"):
        coach.next_hint(COURSE[0], None, store, level=None, wanted="rnus")


def test_an_explanation_says_why_and_where_to_read_on():
    page = coach.explanation_page(COURSE[0], CHECKS[:1], color=False, width=80)
    assert "A job that ends early wastes all ranks." in page
    assert "Read “The idea” in exercises/01_join/README.md." in page
