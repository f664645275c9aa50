"""What the page of a class report shows, where a picture could mislead or much of the same would bury the rest."""

from __future__ import annotations

import gc

import pytest

from grader.batch.report import page
from grader.batch.report.build import class_report
from tests.classes import finding, report, row


def test_a_fifth_in_which_nobody_was_judged_looks_unlike_one_in_which_nobody_passed():
    """Where many have the same mark they are one fifth, and others are empty."""
    rows = [row(f"a{number}", report("PPPP"), unit=f"a{number}") for number in range(8)]
    rows += [row(f"b{number}", report("PPPF"), unit=f"b{number}") for number in range(2)]
    shown = page.render(class_report(rows))
    fifths = shown.partition('class="fifths"')[2].partition("</svg>")[0]
    empty = fifths.count('class="nobody"')
    assert empty > 0 and fifths.count('class="ground"') == 5 - empty


def test_the_largest_groups_are_open_and_the_others_folded():
    kinds = [f"kind {'x' * number}" for number in range(page.OPEN_GROUPS + 3)]
    rows = [row(kind, report("PPFP", {"overlaps": [finding(kind)]}), unit=kind) for kind in kinds]
    shown = page.render(class_report(rows))
    assert shown.count('<li class="group">') == len(kinds) and "3 smaller groups" in shown
    few = page.render(class_report(rows[:3]))
    assert few.count('<li class="group">') == 3 and "smaller groups" not in few


def test_who_handed_in_nothing_is_told_beside_quartiles_that_count_them():
    rows = [row("ada", report("PPPP")), row("bob", report("FFFF"), unit="none", source_file="")]
    assert "2 with a mark, 1 of them 0 for want of a hand-in" in page.render(class_report(rows))


def test_a_report_leaves_the_collector_as_it_was():
    """Also where reading a row fails."""
    assert gc.isenabled()
    class_report([row("ada", report("PPPP"))])
    assert gc.isenabled()
    with pytest.raises(AttributeError):
        class_report(each for each in [None])  # type: ignore[misc]
    assert gc.isenabled()
