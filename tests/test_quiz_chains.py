"""Chains: numbers drawn anew, each question on what came out before, one card for the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.quiz_lint import lint
from grader.model.errors import AuthorError
from grader.quiz import deck, session
from grader.quiz.banks import load_bank, load_banks
from grader.quiz.chains import Chain, Step
from grader.quiz.interview.drawing import draw_questions
from tests.quizzes import Clock, Memory, Person, bank, number

ROOT = Path(__file__).resolve().parents[1]
LONG = "This says why it is so, in a sentence of more than eight words."
CHAIN = """\
title: All-reduce
order: 2
questions:
  - id: step
    kind: chain
    difficulty: 2
    question: A model of {millions} million parameters, a link of {link}.
    draw: {millions: [100, 250], link: ["100 * Gbit / s", "25 * Gbit / s"]}
    steps:
      - {name: size, question: "How many MB?", unit: MB, tolerance: 0.02, calculation: "{millions} * 1e6 * 4 * B",
         explanation: "It has four bytes for each of its parameters, {size}."}
      - {name: time, question: "How long for {size}?", unit: ms, tolerance: 0.02, calculation: "{size} / {link}",
         explanation: "What is sent over what a link carries in a second, not more."}
      - {name: share, question: "Of 1 s, in percent?", unit: "%", tolerance: 0.02, calculation: "{time} / (1 * s)",
         explanation: "The time over a second, as a share of it, in percent."}
      - {name: steps, question: "How many steps?", unit: steps, tolerance: 0, calculation: "floor(1 / {share})",
         explanation: "As many as fit into it as a whole, and no more than that."}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "all_reduce.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    found = load_bank(written(tmp_path, CHAIN)).questions[0]
    assert isinstance(found, Chain)
    return found


def answers(chain: Chain, **drawn: str) -> list[str]:
    return [question.shown for question in chain.with_values(drawn)]


def test_later_numbers_rest_on_earlier_ones(chain: Chain) -> None:
    assert answers(chain, millions="100", link="100 * Gbit / s") == ["400 MB", "32 ms", "3.2 %", "31 steps"]
    assert answers(chain, millions="250", link="25 * Gbit / s") == ["1,000 MB", "320 ms", "32 %", "3 steps"]
    asked = chain.with_values({"millions": "250", "link": "25 * Gbit / s"})
    assert asked[0].text == "A model of 250 million parameters, a link of 25 Gbit/s.\n\nHow many MB?"
    assert asked[1].text == "How long for 1,000 MB?" and "parameters, 1,000 MB." in asked[0].explanation
    assert asked[1].solution[1] == "Calculation: (1000 MB) / (25 Gbit/s) = 320 ms"


def test_numbers_are_drawn_anew_by_the_seed(chain: Chain) -> None:
    drawn = {chain.asked(f"{seed}")[0].text for seed in range(40)}
    assert len(drawn) == len(list(chain.draws())) == 4
    assert chain.asked("3") == chain.asked("3")


def held(chain: Chain, *script: str, seed: int = 7) -> tuple[session.Summary, Person, Memory]:
    store, person = Memory(), Person(*script)
    summary = session.run([bank(chain)], store, now=Clock(), ask=person.ask, say=person.say, plain=True, seed=seed)
    return summary, person, store


def right(chain: Chain, seed: int = 7, label: str = "") -> list[str]:
    return [question.shown for question in chain.asked(f"{seed} {chain.id} {label}")]  # type: ignore[attr-defined]


def test_a_chain_is_one_card_for_all_its_parts(chain: Chain) -> None:
    summary, person, store = held(chain, *right(chain))
    assert (summary.asked, summary.right, summary.finished) == (1, 1, True)
    assert "1 of 1 · part 4 of 4" in person.page and list(store.kept) == [chain.id] and len(store.log) == 1
    assert person.page.count("Right.") == 4 and person.page.count("Calculation:") == 4


def test_a_part_that_was_missed_is_kept_at_once_and_the_chain_goes_on_from_the_right_number(chain: Chain) -> None:
    first, _, *others = right(chain)
    summary, person, store = held(chain, first, "999 ms", *others)
    assert (summary.asked, summary.right) == (1, 0) and person.page.count("Right.") == 3
    assert [json.loads(review)["right"] for review in store.log] == [False]  # it began once more and was left
    assert "once more, 1 of 1" in person.page
    again = right(chain, label="once more, ")
    assert len(held(chain, first, "999 ms", *others, *again)[2].log) == 2


@pytest.mark.parametrize(("script", "kept"), [(["5 MB", "q"], 1), (["q"], 0)])
def test_who_leaves_in_the_middle_has_missed_what_was_missed(chain: Chain, script: list[str], kept: int) -> None:
    summary, _, store = held(chain, *script)
    assert not summary.finished and (summary.asked, len(store.log)) == (kept, kept)


def test_a_hint_makes_the_whole_count_less(chain: Chain) -> None:
    first, *others = right(chain)
    assert json.loads(held(chain, "?", first, *others)[2].log[0])["rating"] == 2


def test_an_interview_with_time_for_it_ends_with_a_chain(chain: Chain) -> None:
    exercise, banks = catalog.load(catalog.all_names(ROOT)[0], ROOT), [bank(chain, number())]
    assert [each.id for each in draw_questions(banks, (), exercise, 60, 1)] == [number().id, chain.id]
    assert [each.id for each in draw_questions(banks, (), exercise, 60, 1, count=1)] == [number().id]


FAULTS = {
    '"{size} / {link}"': ('"{sise} / {link}"', "'sise' is none of them"),
    "unit: ms,": ("unit: MB,", "gives no MB"),
    '"{millions} * 1e6 * 4 * B"': ('"open({millions})"', "there is no formula 'open'"),
    "unit: steps,": ("unit: furlongs,", "'furlongs' is not known"),
    "[100, 250]": ("[100]", "draw"),
    "[100, 250],": (f"{list(range(1, 600))},", "more than 1000 draws"),
    '{time} / (1 * s)"': ('{time} / (0 * s)"', "cannot be calculated"),
    'How long for {size}?"': ('How long for {}?"', "millions 100"),
}


@pytest.mark.parametrize("before", FAULTS)
def test_a_chain_that_cannot_be_asked_is_told_with_its_line(tmp_path: Path, before: str) -> None:
    after, told = FAULTS[before]
    assert before in CHAIN
    with pytest.raises(AuthorError, match=r"all_reduce\.yaml:\d+: ") as caught:
        load_bank(written(tmp_path, CHAIN.replace(before, after)))
    assert told in str(caught.value)


def rules(chain: Chain) -> set[str]:
    return {fault.rule for fault in lint([bank(chain)], at_least=0, covered=())}


def with_step(chain: Chain, place: int, **changes: object) -> Chain:
    steps: list[Step] = list(chain.steps)
    steps[place] = replace(steps[place], **changes)  # type: ignore[arg-type]
    return replace(chain, steps=tuple(steps))


def test_the_lint_holds_chains_to_their_links(chain: Chain) -> None:
    assert rules(chain) == set()
    assert rules(with_step(chain, 1, calculation="400 * MB / {link}")) == {"chain"}
    assert rules(replace(chain, drawn={**chain.drawn, "unused": ("1", "2")})) == {"chain"}
    assert rules(with_step(chain, 1, tolerance=0.0)) == {"tolerance"}
    assert rules(with_step(chain, 2, explanation="So it is.")) == {"explanation"}


def test_the_real_chains_cover_what_a_plan_is_made_of() -> None:
    found = [item for each in load_banks(ROOT) for item in each.questions if isinstance(item, Chain)]
    assert {"zero_memory", "all_reduce", "pipeline", "overlap", "choosing_a_strategy"} <= {one.topic for one in found}
    for one in found:
        assert len(list(one.draws())) >= 8 and 3 <= len(one.steps) <= 5
        for values in one.draws():
            assert all(question.value > 0 for question in one.numbers(values))


def test_a_day_has_room_for_a_chain(chain: Chain) -> None:
    assert deck.choose([bank(chain)], Memory(), Clock()(), limit=3) == (chain,)
