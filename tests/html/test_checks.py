"""What the HTML page tells of checks."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from grader.model import alone
from grader.render import html
from grader.visibility import for_student
from grader.wording.marks import NO_MARK
from tests.html.parsed import PAGES, Page, page_of
from tests.pages import hidden
from tests.reports import broken, deadlock, endings, partial, skipped, stub, submission, syntax_error
from tests.results import no_mark_for_one_of_two


def test_the_outcome_is_told_in_words():
    page = page_of(
        replace(partial(), verdicts=(*partial().verdicts[:3], *broken().verdicts[2:4], *deadlock().verdicts[1:2]))
    )
    for word in ("✓ passed", "✗ failed", "! broken", "– skipped", "– blocked"):
        assert word in page.text


def test_failing_checks_are_open_and_passed_ones_are_one_line():
    page = page_of(partial())
    checks = [(tag, a) for tag, a in page.elements if a.get("class", "").startswith("check ")]
    assert [(tag, a["class"], "open" in a) for tag, a in checks] == [
        ("div", "check passed", False),
        ("details", "check failed", True),
        ("details", "check failed", True),
        ("div", "check passed", False),
        ("div", "check passed", False),
    ]


def test_a_finding_tells_subject_place_expected_and_got():
    text = page_of(partial()).text
    assert "parameter layer.weight after step 1 all 3 ranks line 41 run equal_shards[3] expected the same as in" in text
    assert "got 31 of 32 elements differ" in text


def test_only_the_first_hint_is_given():
    text = page_of(partial()).text
    assert "Hint: DDP averages gradients." in text and "Second." not in text
    assert "Hint: A function that is graded returns" in page_of(endings()).text


def test_a_fault_that_two_checks_share_is_told_once():
    text = page_of(deadlock()).text
    assert text.count("wait in all_reduce") == 1
    assert "Deadlock: the same fault as above ." in text


def test_a_blocked_check_names_what_it_needs_and_a_skipped_one_why():
    assert "needs: Every rank finishes" in page_of(deadlock()).text
    assert "needs 2 GPUs, this machine has none" in page_of(broken()).text


def test_a_skipped_check_is_not_counted():
    text = page_of(skipped()).text
    assert "12.5 of 100 points are not counted" in text
    assert text.count("not counted") == 2


@pytest.mark.parametrize("result", [alone(broken()), no_mark_for_one_of_two()], ids=["alone", "one of two"])
def test_a_broken_check_is_our_fault_and_there_is_no_mark(result):
    text = html.render(result)
    page = Page(text)
    assert "The grader or the exercise is at fault here, not your code." in page.text
    assert NO_MARK in page.text and "not judged" in page.text
    assert "no mark" in text[: text.index("</title>")]
    assert not re.search(r"(67.5|87.5|100) / 100", page.text)


def test_points_are_those_of_the_result():
    """A check is worth its share of the entry's weight."""
    text = Page(PAGES["two"]).text
    assert "Together 53 / 100" in text
    assert "Every rank finishes 0 / 8" in text
    assert "Late: 2 days late: 10 % a day. 80 % of 60 points are kept: 48." in text


def test_the_score_of_one_exercise_is_that_of_the_terminal():
    assert "40 / 100" in page_of(partial()).text


def test_the_command_that_replays_is_there():
    assert 'make grade EX=03 SUBMISSION=handed_in/no_mean.py ARGS="--seed 123"' in page_of(partial()).text
    assert "SUBMISSION='$(id).py'" in page_of(replace(partial(), submission=submission("$(id).py"))).text
    assert "SUBMISSION" not in page_of(replace(partial(), submission=submission("a\nb.py"))).text


def test_a_path_is_text_in_the_command_that_replays():
    page = page_of(replace(partial(), submission=submission("<b onclick=x>'&amp;.py")))
    assert """SUBMISSION='<b onclick=x>'"'"'&amp;.py'""" in page.text


def test_a_stub_is_told_where_to_start():
    text = page_of(stub()).text
    assert "Where to start: open exercises/03_train_ddp/train_ddp.py" in text and "Hint:" not in text


def test_a_file_that_does_not_compile_is_told_first():
    text = page_of(syntax_error()).text
    assert text.index("The file could not be graded.") < text.index("0 of 5 passed")
    assert (
        text.count("momentum=0.9 nesterov=True") == 1
        and "SyntaxError: invalid syntax: the same fault as above ." in text
    )


def test_hidden_checks_are_marked_and_gone_from_the_students_page():
    assert "For staff: 1 check is not visible to students." in page_of(hidden()).text
    students = page_of(for_student(hidden())).text
    assert "For staff" not in students and "The result equals training" not in students
    assert "Note: 1 check of your course is judged too and not shown here, worth 40 points." in students
