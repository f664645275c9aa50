"""The dialogue, with scripted people. No terminal, no clock, no database."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from grader.quiz import page, session
from grader.quiz.banks import load_banks
from grader.quiz.questions import CardQuestion
from grader.quiz.session import Summary
from tests.quizzes import START, Clock, Memory, Person, bank, card, choice, number

ROOT = Path(__file__).resolve().parents[1]


def held(known, *script, store=None, **options) -> tuple[Summary, Person, Memory]:
    store, person = store if store is not None else Memory(), Person(*script)
    usual = {"now": Clock(), "limit": 10, "topic": None, "plain": True, "seed": 7}
    summary = session.run(known, store, ask=person.ask, say=person.say, **{**usual, **options})
    return summary, person, store


def letter_of(text: str):
    """A person who finds the option with this text and types its letter."""
    return lambda shown: re.findall(rf"([a-e])\) {text}", shown)[-1]


RIGHT, WRONG = letter_of("ring answer one"), letter_of("ring answer two")


def test_a_right_letter_is_told_explained_and_kept():
    summary, person, store = held([bank(choice())], RIGHT)
    assert (summary.asked, summary.right, summary.finished) == (1, 1, True)
    assert "Right." in person.page and "right neighbour" in person.page
    assert json.loads(store.log[0])["right"] is True
    assert summary.by_topic == {"all_reduce": (1, 1)} and summary.next_due > START


def test_a_wrong_letter_says_what_is_wrong_about_it_and_comes_once_more():
    summary, person, store = held([bank(choice())], WRONG, RIGHT)
    assert (summary.asked, summary.right) == (1, 0)
    assert "Not right." in person.page and "ring answer two is not it" in person.page
    assert "once more, 1 of 1" in person.page
    assert [json.loads(review)["right"] for review in store.log] == [False, True]


def test_what_is_missed_twice_is_left_for_another_day():
    summary, person, store = held([bank(choice())], WRONG, WRONG)
    assert len(store.log) == 2 and summary.asked == 1 and person.script == [] and summary.finished


def test_options_stand_in_an_order_that_the_seed_decides():
    def shown(seed):
        return re.findall(r"[a-d]\) (.*)", held([bank(choice())], seed=seed)[1].page)

    assert shown(3) == shown(3) and len({tuple(shown(seed)) for seed in range(12)}) > 6
    assert sorted(shown(3)) == sorted(option.text for option in choice().options)


def test_a_number_is_judged_with_its_unit_and_its_calculation_is_shown():
    _, person, _ = held([bank(number())], "about 0.096 GB")
    assert "Your answer, in MB" in person.page and "Right." in person.page
    assert "Calculation: 96 MB = 96 MB" in person.page


def test_a_calculation_is_shown_in_numbers_as_one_writes_them():
    asked = number(calculation="2 * (8 - 1) / 8 * 2 * GB / (100 * Gbit / s)", formula="all_reduce_seconds(1 * B, 8)")
    _, person, _ = held([bank(asked)], "96")
    assert "Calculation: 2 × (8 - 1) / 8 × 2 GB / (100 Gbit/s) = 96 MB" in person.page
    assert "all_reduce_seconds" not in person.page


def test_a_wrong_unit_is_asked_again_and_a_slip_of_scale_is_told():
    summary, person, _ = held([bank(number())], "96 ms", "96 MB")
    assert "ms is a time" in person.page and (summary.asked, summary.right) == (1, 1)
    assert "1 GB is 1000 times 1 MB" in held([bank(number())], "96 GB")[1].page


def test_what_cannot_be_read_is_asked_again_and_costs_nothing():
    summary, person, _ = held([bank(choice())], "x", "", "maybe", RIGHT)
    assert (summary.asked, summary.right) == (1, 1) and person.page.count("Type a letter from a to d") == 3


def test_a_hint_rules_out_a_wrong_option_and_makes_the_answer_count_less():
    summary, person, store = held([bank(choice())], "?", RIGHT)
    assert summary.right == 1 and re.search(r"Hint: not [a-d]\); ring answer (two|six|ten) is not it", person.page)
    assert json.loads(store.log[0])["rating"] == 2


def test_a_questions_own_hint_goes_first_and_a_number_tells_what_is_given():
    assert "Hint: think" in held([bank(choice(hint="think"))], "?", RIGHT)[1].page
    calculated = number(formula="all_reduce_seconds(2 * GB, 16, 100 * Gbit / s, latency=5 * us) + 0 * s")
    assert "Hint: what is given is 2 GB, 16, 100 Gbit/s, 5 us." in held([bank(calculated)], "?", "96")[1].page
    assert "Hint: write down each quantity with its unit." in held([bank(number())], "?", "96")[1].page


def test_a_hint_names_the_formulas_only_where_the_exercise_is_that_asks_for_them():
    asked = number(formula="all_reduce_bytes(96 * MB, 2)")
    there, elsewhere = (held([bank(asked.placed(numbers))], "?", "96")[1].page for numbers in (["19"], ["03"]))
    assert "Hint: all_reduce_bytes of exercise 19." in there
    assert "Hint: what is given is 96 MB, 2." in elsewhere and "exercise" not in elsewhere
    own = number(formula="all_reduce_bytes(96 * MB, 2)", hint="think").placed(["19"])
    assert "Hint: think" in held([bank(own)], "?", "96")[1].page


@pytest.mark.parametrize("question", [choice(exercise="08"), number(exercise="08"), card(exercise="08")])
def test_a_question_names_its_exercise_only_where_the_course_has_it(question):
    assert question.placed({"08"}).exercise == "08" and question.placed({"03"}).exercise is None


@pytest.mark.parametrize("asked", [choice(), number(unit="replicas"), card()])
def test_every_question_can_be_skipped_which_shows_the_answer_and_counts_as_a_miss(asked):
    summary, person, store = held([bank(asked)], "skip", "q")
    assert (summary.asked, summary.right) == (1, 0) and json.loads(store.log[0])["rating"] == 1
    assert "Skipped. Here is the answer." in person.page and asked.solution[0] in " ".join(person.page.split())
    assert "Not right" not in person.page and re.search(r"Your answer, .*\[.*skip", person.page)


def test_what_cannot_be_read_is_told_the_way_out():
    _, person, _ = held([bank(number())], "I do not know", "skip", "q")
    assert "Or skip, which shows the answer." in " ".join(person.page.split())
    assert "? again or skip shows the answer" in " ".join(person.page.split())


def test_a_second_question_mark_shows_the_answer_and_counts_as_a_miss():
    summary, person, store = held([bank(choice())], "?", "?", RIGHT)
    assert (summary.asked, summary.right) == (1, 0) and "Here is the answer." in person.page
    assert json.loads(store.log[0])["rating"] == 1


@pytest.mark.parametrize("typed, rating, right", [("1", 1, False), ("2", 2, True), ("3", 3, True), ("4", 4, True)])
def test_an_open_card_is_rated_by_the_learner(typed, rating, right):
    summary, person, store = held([bank(card())], "", "what?", typed, "", "3")
    assert json.loads(store.log[0])["rating"] == rating and bool(summary.right) == right
    assert person.page.index("A good answer:") < person.page.index("How well did you know it?")
    assert "Type 1, 2, 3 or 4." in person.page


def test_an_open_card_with_a_hint_is_hard_at_most():
    _, person, store = held([bank(card(hint="late layers"))], "?", "", "4")
    assert "late layers" in person.page and json.loads(store.log[0])["rating"] == 2


@pytest.mark.parametrize("end", ["q", "Quit", EOFError, KeyboardInterrupt])
def test_an_end_at_any_prompt_loses_nothing_that_was_answered(end):
    known = [bank(choice("ring"), choice("tree"), card())]
    everything = ["a", "b", "", "3"]
    for count in range(len(everything)):
        store = Memory()
        summary, person, _ = held(known, *everything[:count], end, store=store)
        assert not summary.finished and summary.asked == len(store.log) == min(count, 2)
        assert "Summary" in person.page


def test_an_interrupt_while_the_explanation_is_shown_loses_nothing():
    store, person = Memory(), Person(RIGHT)

    def say(text):
        person.say(text)
        if "Right." in text:
            raise KeyboardInterrupt

    summary = session.run(
        [bank(choice())], store, now=Clock(), ask=person.ask, say=say, limit=1, topic=None, plain=True, seed=7
    )
    assert len(store.log) == 1 and summary.asked == 1 and not summary.finished


def test_an_interrupt_in_the_second_round_keeps_the_first():
    summary, _, store = held([bank(choice())], WRONG, KeyboardInterrupt)
    assert (summary.asked, summary.right, summary.finished) == (1, 0, False) and len(store.log) == 1


def test_a_store_that_fails_is_not_hidden():
    class Full(Memory):
        def keep(self, id, card_json, review_json):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        held([bank(choice())], RIGHT, store=Full())


def test_the_summary_tells_topics_the_next_day_and_how_much_was_met():
    known = [bank(choice()), bank(choice(topic="overlap"), topic="overlap", order=2)]
    _, person, _ = held(known, RIGHT, RIGHT)
    assert (
        "2 asked, 2 right." in person.page and "All reduce: 1 of 1" in person.page and "Overlap: 1 of 1" in person.page
    )
    assert re.search(r"Next: 2 questions due in 2 days. Met so far: 2 of 2.", person.page)


def test_when_nothing_is_due_it_says_so():
    store = Memory()
    held([bank(choice())], RIGHT, store=store)
    summary, person, _ = held([bank(choice())], store=store)
    assert (summary.asked, summary.finished) == (0, True) and "Nothing is due now" in person.page


def test_a_topic_and_a_limit_are_kept_to():
    known = [bank(choice()), bank(choice(topic="overlap"), topic="overlap", order=2)]
    assert set(held(known, RIGHT, topic="overlap")[0].by_topic) == {"overlap"}
    assert held(known, RIGHT, RIGHT, limit=1)[0].asked == 1


def test_a_slow_answer_is_good_and_a_quick_one_easy():
    slow = held([bank(number())], "96", now=Clock(tick=timedelta(minutes=2)))[2]
    quick = held([bank(number())], "96", now=Clock(tick=timedelta(seconds=1)))[2]
    assert [json.loads(store.log[0])["rating"] for store in (slow, quick)] == [3, 4]


# -- how it looks -----------------------------------------------------------------------------------------------------


def test_plain_pages_draw_nothing_and_use_no_colour():
    _, person, _ = held([bank(choice(source="A paper"))], WRONG, RIGHT, plain=True, color=True)
    assert not re.search(r"[\x1b─━│✓✗]", person.page)


def test_colour_repeats_what_words_and_signs_say():
    _, person, _ = held([bank(choice())], WRONG, RIGHT, plain=False, color=True)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", person.page)
    assert "\x1b[" in person.page and "✗ Not right." in bare and "✓ Right." in bare
    _, uncoloured, _ = held([bank(choice())], WRONG, RIGHT, plain=False, color=False)
    assert "\x1b" not in uncoloured.page


@pytest.mark.parametrize("width", [20, 80])
def test_every_real_question_fits_the_width(width):
    for known in load_banks(ROOT):
        for question in (question for item in known.questions for question in item.asked("seed")):
            look = page.Page(plain=False, width=width)
            text = look.question(question, f"{known.title} · 1 of 9") + "\n" + look.answer(question)
            assert max(map(len, text.splitlines())) <= max(width, 24)
            prose = " ".join(text.split())
            assert all(word in prose for word in question.explanation.split() if len(word) < 12)


def test_a_page_follows_a_terminal_that_is_resized_and_no_heading_is_cut():
    columns = [80, 44]
    look = page.Page(width=lambda: columns[0])
    words = "Communication that overlaps backward · 1 of 3 · difficulty 1 of 3"
    assert len(look.heading(words).strip().splitlines()) == 1 and "─" in look.heading(words)
    del columns[0]
    assert " ".join(look.heading(words).split()) == words
    assert max(map(len, look.heading(words).splitlines())) <= 44 >= max(map(len, look.prose(words).splitlines()))


def test_every_real_question_can_be_asked_and_answered_in_one_sitting():
    known = load_banks(ROOT)
    everything = {question.id: question for topic in known for question in topic.questions}

    def typed(shown):
        return "3" if shown.endswith(session._RATE) else ""

    for topic in known:
        cards = sum(isinstance(question, CardQuestion) for question in topic.questions)
        script = ["a", "96 MB", "?", "?"] * 40 + [typed] * cards
        summary, person, store = held([topic], *script, limit=99, topic=topic.topic)
        assert summary.asked <= len(topic.questions) and set(store.kept) <= set(everything)
        assert "Calculation:" in person.page or not summary.asked
