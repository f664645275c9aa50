"""Mastery by topic: what counts, what fades, and how it is shown. No process is started."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fsrs import Rating

from grader.model import Exercise
from grader.practice import course_map, course_page, history, mastery, mastery_page
from grader.practice.mastery import Topic
from grader.practice.mend.kept import Mend
from grader.practice.store import Store
from grader.quiz import deck
from grader.quiz.interview import state
from grader.quiz.interview.state import HintTaken, Interview
from grader.quiz.questions import Bank
from tests.attempts import COURSE, NOW, attempt
from tests.quizzes import bank, number
from tests.reports import partial, passed

FIRST, SECOND = (replace(number(), id=f"shards/{name}", topic="shards", exercise="02") for name in ("one", "two"))
BANKS = (replace(bank(FIRST, SECOND), topic="shards", title="Shards"),)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "progress.sqlite3")


def found(store: Store, days: float = 0, banks: tuple[Bank, ...] = BANKS) -> dict[str, Topic]:
    return {topic.title: topic for topic in mastery.topics(COURSE, banks, store, NOW + timedelta(days=days))}


def interview(
    of: Exercise, *, whole: bool = True, ok: bool = True, status: str = "over", hint: bool = False
) -> Interview:
    begun = state.begin(of, (), 55, seed=3, now=NOW).graded(passed() if ok else partial(), NOW, whole=whole)
    hints = (HintTaken(level=1, check="", number=1, at=0.0),) if hint else ()
    return replace(begun.ended(status, NOW), hints=hints)


def keep(store: Store, *held: Interview) -> None:
    for place, each in enumerate(held):
        store.keep_interview(f"{each.name}-{place}", NOW, state.as_json(each))


def test_an_exercise_belongs_to_the_topic_that_names_it_and_the_others_stand_together(store: Store) -> None:
    assert {title: (topic.met, topic.count) for title, topic in found(store).items()} == {
        "Shards": (0, 3),
        mastery.OTHERS: (0, 2),
    }
    assert found(store, banks=()) == {mastery.OTHERS: Topic(name="", title=mastery.OTHERS, known=0, met=0, count=3)}


def test_what_was_known_counts_fully_that_day_and_fades(store: Store) -> None:
    deck.keep(store, FIRST, Rating.Good, NOW, 5.0)
    store.add(attempt("02_shard", "passed"))
    shares = [found(store, days)["Shards"].share for days in (0, 5, 50, 500)]
    assert shares[0] == pytest.approx(2 / 3) and shares == sorted(shares, reverse=True) and shares[2] < 0.55
    card = deck.known(store)[FIRST.id]
    assert 3 * shares[2] == pytest.approx(2 * deck.retrievability(card, NOW + timedelta(days=50)), abs=1e-9)


def test_what_was_missed_last_counts_nothing_until_it_is_right_again(store: Store) -> None:
    deck.keep(store, FIRST, Rating.Good, NOW - timedelta(days=9), 5.0)
    deck.keep(store, FIRST, Rating.Again, NOW, 5.0)
    assert (found(store)["Shards"].known, found(store)["Shards"].met) == (0, 1)
    deck.keep(store, FIRST, Rating.Good, NOW, 5.0)
    assert found(store)["Shards"].known == 1


def test_a_file_counts_once_and_a_failure_on_the_way_not_at_all(store: Store) -> None:
    store.add(attempt("02_shard", "failed"))
    assert found(store)["Shards"].met == 0
    for days in (3, 2, 1):
        store.add(attempt("02_shard", "passed", days=days))
    assert [len(each) for each in mastery.reviews_of(store).values()] == [1]
    store.add(replace(attempt("02_shard", "passed", days=0), digest="other"))
    assert [each.rating for each in mastery.reviews_of(store)["02_shard"]] == [Rating.Good, Rating.Good]


def test_a_pass_with_hints_is_a_hard_one(store: Store) -> None:
    store.add_hint("02_shard", "runs", 1, NOW)
    store.add(attempt("02_shard", "passed"))
    assert [each.rating for each in mastery.reviews_of(store)["02_shard"]] == [Rating.Hard]


def test_an_interview_counts_when_it_is_over_and_only_as_a_whole(store: Store) -> None:
    of = COURSE[1]
    keep(
        store,
        interview(of, status="paused"),
        interview(of, ok=False),
        interview(of, whole=False),
        interview(of, hint=True),
        interview(of),
    )
    told = [each.rating for each in mastery.reviews_of(store)["02_shard"]]
    assert told == [Rating.Again, Rating.Again, Rating.Hard, Rating.Good]
    assert mastery.due(store, "02_shard") and mastery.due(store, "01_join") is None


def test_a_mend_counts_for_its_exercise(store: Store) -> None:
    for place, (status, hints) in enumerate([("open", 0), ("given up", 0), ("late", 1), ("mended", 1), ("mended", 0)]):
        at = NOW + timedelta(minutes=place)
        store.keep_mend(
            Mend(name=f"m{place}", exercise="02_shard", mutant="x", at=at, file="f.py", minutes=12, fails=("runs",),
                 status=status, hints=hints)
        )  # fmt: skip
    told = [each.rating for each in mastery.reviews_of(store)["02_shard"]]
    assert told == [Rating.Again, Rating.Again, Rating.Hard, Rating.Good]


# -- how it is shown --------------------------------------------------------------------------------------------------


def shown(store: Store, **how: bool) -> str:
    topics = mastery.topics(COURSE, BANKS, store, NOW)
    return course_map.page(history.standings(COURSE, store), NOW, topics=topics, color=False, width=60, **how)


def test_before_anything_was_met_the_page_says_nothing_of_it(store: Store) -> None:
    assert "Known" not in shown(store) and "known" not in shown(store, plain=True)


def test_the_page_shows_topics_at_sixty_columns_and_as_sentences(store: Store) -> None:
    deck.keep(store, FIRST, Rating.Good, NOW, 5.0)
    page = shown(store)
    assert max(map(len, page.splitlines())) <= 60
    assert "Shards   33 %  1/3" in page and "Not met yet: Processes and groups." in page
    assert "Shards: 33 % known, 1 of 3 met. Again in " in shown(store, plain=True)


def test_many_topics_that_were_not_met_are_counted() -> None:
    topics = [Topic(name="", title=f"Topic {number}, and more", known=0, met=0, count=3) for number in range(5)]
    assert mastery_page.unmet(topics) == "Of 5 other topics nothing was met yet."
    assert mastery_page.unmet(topics[:2]) == "Not met yet: Topic 0, and more; Topic 1, and more."


def test_programs_and_the_course_page_get_the_same(store: Store) -> None:
    deck.keep(store, FIRST, Rating.Again, NOW - timedelta(days=3), 5.0)
    topics, standings = mastery.topics(COURSE, BANKS, store, NOW), history.standings(COURSE, store)
    told = json.loads(course_map.as_json(standings, topics))["topics"][0]
    assert (told["topic"], told["known"], told["met"], told["of"]) == ("shards", 0, 1, 3)
    html = course_page.html(standings, NOW, [], topics)
    assert "What you would know today" in html and "0 %" in html and "<td>due</td>" in html
    assert mastery_page.again(replace(topics[0], due=None), NOW) == ""
