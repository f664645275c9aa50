"""The page that a student sees, held to recorded pages and to what it promises."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from grader.model import Deadlocked, Finding, Wait
from grader.render.terminal import render
from grader.wording.marks import NO_MARK
from tests.goldens import assert_golden
from tests.reports import (
    KINDS,
    broken,
    deadlock,
    endings,
    failed_run,
    frame,
    hostile,
    partial,
    passed,
    sizes,
    skipped,
    stub,
    submission,
    syntax_error,
)
from tests.reports import report as report_of

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [80, 44])
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_is_as_recorded(kind, width):
    assert_golden(f"{kind}.{width}.txt", render(KINDS[kind](), width=width))


@pytest.mark.parametrize("width", [40, 44, 61, 80, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_colour_changes_nothing_but_the_colour(kind, width):
    coloured = render(KINDS[kind](), color=True, width=width)
    assert "\x1b[" in coloured
    assert ANSI.sub("", coloured) == render(KINDS[kind](), width=width)


@pytest.mark.parametrize("kind", KINDS)
def test_the_environment_has_no_say(kind, monkeypatch):
    plain, coloured = render(KINDS[kind]()), render(KINDS[kind](), color=True)
    for name, value in {"NO_COLOR": "1", "FORCE_COLOR": "1", "COLUMNS": "20", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert (render(KINDS[kind]()), render(KINDS[kind](), color=True)) == (plain, coloured)


@pytest.mark.parametrize("width", range(40, 101, 3))
@pytest.mark.parametrize("kind", KINDS)
def test_no_line_is_wider_than_the_page_or_ends_in_blanks(kind, width):
    for line in render(KINDS[kind](), width=width).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width, used", [(1, 40), (500, 100)])
def test_a_page_is_never_too_narrow_or_too_wide_to_read(width, used):
    assert render(partial(), width=width) == render(partial(), width=used)


def test_a_passed_page_is_short():
    page = render(passed())
    assert "Score 100/100 · every check passed" in page
    assert len(page.splitlines()) <= 12


def test_points_are_right_aligned():
    lines = [line for line in render(partial()).splitlines() if line.startswith((" ✓", " ✗"))]
    assert len(lines) == 5
    assert {len(line) for line in lines} == {80}


def test_a_finding_tells_where_what_was_expected_and_what_came():
    page = render(partial())
    assert "parameter layer.weight after step 1 · all 3 ranks · line 41\n" in page
    assert "the order of samples in epoch 2 · rank 1 of 2\n" in page
    assert "      expected  the same as in one process" in page
    assert "      got       31 of 32 elements" in page


def test_only_the_first_hint_is_given():
    page = render(partial())
    assert "Hint: DDP averages gradients." in page
    assert "Second." not in page


def test_a_findings_own_hint_goes_before_the_checks():
    page = render(endings())
    assert "Hint: A function that is graded returns" in page
    assert "first traceback" not in page


def test_more_findings_than_fit_are_counted():
    report = partial()
    many = tuple(Finding(subject=f"fault {index}") for index in range(9))
    verdicts = (report.verdicts[0], replace(report.verdicts[1], findings=many))
    page = render(replace(report, verdicts=verdicts))
    assert "fault 3" in page and "fault 4" not in page
    assert "… and 5 more" in page


def test_a_blocked_check_takes_one_line():
    line = next(line for line in render(deadlock()).splitlines() if "reshuffled" in line)
    assert re.fullmatch(r" – The data is reshuffled every epoch · needs: Every rank finishes +0/20", line)


def test_nothing_of_what_a_rank_waits_in_is_lost_on_a_narrow_page():
    wait = Wait(operation="broadcast (called by DistributedDataParallel, when it is made)")
    fault = Finding(subject="Deadlock", ranks=(0, 1), case="equal_shards[2]")
    run = failed_run("deadlocked", (fault,), *[Deadlocked(stack=(frame(61),), wait=wait)] * 2)
    page = render(report_of("FBBBB", {"runs": (fault,)}, (run,), submission()), width=60)
    assert page.count("when it is made)") == 2 and page.count("61") == 2 and "…" not in page
    assert max(map(cell_len, page.splitlines())) <= 60


def test_a_reason_on_a_line_of_its_own_is_whole():
    long = "Several ranks come to their end, with training that lasts for some steps"
    report = report_of("FBBBB", {"runs": (Finding(subject="x"),)}, (), submission())
    first = replace(report.verdicts[0], check=replace(report.verdicts[0].check, title=long))
    page = render(replace(report, verdicts=(first, *report.verdicts[1:])), width=60)
    assert f"needs: {long}" in " ".join(page.split())


def test_a_fault_that_two_checks_share_is_told_once():
    page = render(deadlock())
    assert page.count("Deadlock") == 1
    assert "Rank 0 alone writes the checkpoint · as above: Every rank finishes" in page


def test_a_deadlock_is_a_table():
    page = render(deadlock())
    table = ["rank  waits in    line", "0     all_reduce    38", "1     barrier       42", "2     all_reduce    38"]
    assert "    Deadlock: no rank can go on · on 3 ranks\n" + "".join(f"      {row}\n" for row in table) in page
    assert "Meanwhile" not in page


def test_a_finding_beside_a_deadlock_is_shown_under_the_table():
    report = deadlock()
    more = (*report.verdicts[0].findings, Finding(subject="the loss", expected="1.0", actual="2.0"))
    page = render(replace(report, verdicts=(replace(report.verdicts[0], findings=more), *report.verdicts[1:])))
    assert "    the loss\n      expected  1.0\n      got       2.0\n" in page
    assert "waits in    line" in page


def test_a_blocked_check_says_what_the_judge_says():
    report = syntax_error()
    blocked = replace(report.verdicts[1], message="needs: the file compiles")
    page = render(replace(report, verdicts=(report.verdicts[0], blocked)))
    assert "The result equals training in one process · needs: the file compiles" in page


def test_a_file_that_cannot_be_imported_is_no_matter_of_ranks():
    finding = Finding(subject="train_ddp.py could not be imported", ranks=(0,), line=3, case="import[1]")
    report = stub()
    page = render(replace(report, runs=(), verdicts=(replace(report.verdicts[0], findings=(finding,)),)))
    assert "    train_ddp.py could not be imported · line 3\n" in page


def test_a_deadlock_over_sizes_shows_the_bytes():
    page = render(sizes())
    assert "all_reduce of 4,096 bytes" in page
    assert "all_reduce of 8 bytes" in page
    assert "nothing (finished)" in page
    assert "Hint: Every rank of a group must make the same" in page


def test_output_of_one_run_is_shown_and_cut_in_its_middle():
    page = render(partial())
    assert "  rank 0 printed · on 3 ranks\n  │ epoch 0 loss" in page
    assert "  │ … (33 more lines, all with --html FILE)\n" in page
    assert "  ranks 1, 2 printed · on 3 ranks\n  │ ready\n" in page
    assert render(endings()).count(" printed ·") == 1


def test_lines_that_were_left_out_before_are_not_counted_as_if_they_were_there():
    """The supervisor keeps the ends of what a rank prints; no page has the rest."""
    told = [f"line {number}" for number in range(200)]
    told.insert(100, "… 1312000 bytes left out …")
    report = partial()
    runs = tuple(replace(run, ranks=tuple(replace(rank, output="\n".join(told)) for rank in run.ranks))
                 for run in report.runs)  # fmt: skip
    page = render(replace(report, runs=runs))
    assert "… (193 more lines with --html FILE; others are lost)\n" in page


def test_output_is_not_shown_when_all_is_well():
    report = replace(passed(), runs=partial().runs)
    assert "printed" not in render(report)


@pytest.mark.parametrize("width", range(40, 101))
def test_the_caret_of_a_syntax_error_stays_under_its_column(width):
    lines = render(syntax_error(), width=width).splitlines()
    caret = next(index for index, line in enumerate(lines) if line.strip() == "^")
    assert lines[caret - 1][lines[caret].index("^") :].startswith("nesterov")


def test_a_caret_stays_in_place_behind_wide_letters():
    problem = Finding(subject="SyntaxError", actual=f"失敗 = '{'失' * 40}' ! 1\n{' ' * 90}^", line=1)
    lines = render(replace(passed(), submission=submission(problem=problem)), width=60).splitlines()
    caret = next(index for index, line in enumerate(lines) if line.strip() == "^")
    assert cell_len(lines[caret - 1].split("!")[0]) == lines[caret].index("^")


def test_a_broken_check_is_our_fault_and_there_is_no_mark():
    page = " ".join(render(broken()).split())
    assert "The grader or the exercise is at fault here, not your code." in page
    assert NO_MARK in page and "Score" not in page


def test_a_skipped_check_is_not_counted():
    assert "Score 87.5/87.5 · 12.5 points not counted" in render(skipped())


def test_the_command_to_replay_can_be_copied():
    assert 'make grade EX=03 ARGS="--seed 123"\n' in render(passed())
    command = 'make grade EX=03 SUBMISSION=handed_in/no_mean.py ARGS="--seed 123"'
    assert command in render(partial())
    assert command in render(partial(), width=44).replace(" \\\n ", "")
    without_make = "python -m grader grade 03 --submission handed_in/no_mean.py --seed 123"
    assert without_make in render(partial(), by="python -m grader", width=100)
    assert "make grade" not in render(partial(), by="python -m grader")


@pytest.mark.parametrize("path", ["a b.py", "$(id).py", "`id`.py", "x;id.py", "~/x.py", "#.py"])
def test_a_path_that_a_shell_would_read_is_quoted_in_the_command(path):
    assert f"SUBMISSION='{path}'" in render(replace(partial(), submission=submission(path)))


def test_a_path_that_cannot_be_written_leaves_the_seed():
    page = render(replace(partial(), submission=submission("a\nb.py")))
    assert "SUBMISSION" not in page and 'Seed 123 · replay with ARGS="--seed 123" on the same file\n' in page


def test_the_page_says_where_it_ran_and_how_long():
    assert "cpu · torch 2.13.0 · sandbox bubblewrap · 1.9 s\n" in render(passed())


def test_notes_are_shown():
    assert "Note: bubblewrap is not installed.\n" in render(replace(passed(), notes=("bubblewrap is not installed.",)))


def test_hostile_text_cannot_paint():
    page = render(hostile())
    assert all(char.isprintable() or char == "\n" for char in page)
    assert r"\x1b[2J\x1b[31mScore 100/100\x1b[0m\x07" in page
    assert r"\u202eabc\u2066" in page
    assert "[bold red]markup[/] :smile:" in page
    assert len(page.splitlines()) < 70


def test_only_the_grader_speaks_at_the_margin():
    flush = [line for line in render(hostile()).splitlines() if line and not line.startswith(" ")]
    assert [line.split()[0] for line in flush] == ["03_train_ddp", "Score", "Seed", "cpu"]


def test_a_message_of_fifty_megabytes_is_cut():
    huge = Finding(subject="s", actual="y" * 50_000_000)
    page = render(replace(syntax_error(), submission=submission(problem=huge)))
    assert "… (49,999,440 more characters)" in " ".join(page.split())
    assert len(page) < 3_000


def test_a_path_is_made_safe():
    report = replace(stub(), submission=replace(stub().submission, path=Path("in\x1b[1m/x.py")))
    assert r"in\x1b[1m/x.py" in render(report)
