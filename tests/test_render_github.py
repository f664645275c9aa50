"""Annotations, job summary and guarded output of GitHub Actions, read as its runner reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from grader.model import Finding, Outcome, Report, Result, alone
from grader.model.errors import UsageError
from grader.render.github import SUMMARY_BYTES, annotations, command, guarded, summary
from grader.wording.marks import NO_MARK
from tests.goldens import assert_golden
from tests.reports import KINDS, broken, deadlock, hostile, partial, passed, stub, syntax_error
from tests.results import commanding, no_mark_for_one_of_two, two_exercises, with_hidden

RESULTS = {**{kind: lambda kind=kind: alone(KINDS[kind]()) for kind in KINDS}, "two_exercises": two_exercises}
RESULTS |= {"with_hidden": lambda: alone(with_hidden()), "commanding": lambda: alone(commanding())}
NAMES = {"error", "warning", "notice", "debug", "group", "endgroup", "add-mask", "stop-commands", "echo"}
TOKEN = "0123456789abcdef0123456789abcdef"


@dataclass
class Command:
    name: str
    properties: dict[str, str]
    message: str


def parsed(line: str) -> Command | None:
    """A line as the documented grammar has it: `::name key=value,key=value::message`, percent-encoded."""
    found = re.fullmatch(r"\s*::([A-Za-z-]+)(?: ([^\n]*?))?::([^\n]*)", line)
    if not found:
        return None
    pairs = [pair.partition("=") for pair in (found[2] or "").split(",") if pair]
    return Command(found[1], {key: unescaped(value, True) for key, _, value in pairs}, unescaped(found[3], False))


def unescaped(text: str, is_property: bool) -> str:
    marks = {"%0D": "\r", "%0A": "\n", **({"%3A": ":", "%2C": ","} if is_property else {})}
    for mark, char in marks.items():
        text = text.replace(mark, char)
    return text.replace("%25", "%")


def commands(result: Result | Report) -> list[Command]:
    text = annotations(alone(result) if isinstance(result, Report) else result, lambda path: f"handed/{path.name}")
    assert text == "" or text.endswith("\n")
    found = [parsed(line) for line in text.split("\n")[:-1]]
    assert all(found)
    return found


# ── annotations ──


@pytest.mark.parametrize("kind", [*KINDS, "two_exercises"])
def test_every_annotation_and_summary_is_as_recorded(kind):
    result = RESULTS[kind]()
    assert_golden(f"{kind}.annotations.txt", annotations(result, lambda path: path.name))
    assert_golden(f"{kind}.summary.md", summary(result))


@pytest.mark.parametrize("kind", RESULTS)
def test_no_step_has_more_than_github_shows(kind):
    names = [each.name for each in commands(RESULTS[kind]())]
    assert set(names) <= {"error", "warning", "notice"}
    assert all(names.count(name) <= 10 for name in set(names))


def test_a_fault_stands_on_the_students_own_line():
    first, *_ = commands(partial())
    assert first.properties == {
        "file": "handed/no_mean.py",
        "line": "41",
        "title": "The result equals training in one process",
    }
    assert first.message.startswith("parameter layer.weight after step 1 · all 3 ranks · line 41\n  expected")
    assert first.message.endswith("Hint: DDP averages gradients. What does your loss average over?")


def test_a_file_that_does_not_compile_is_one_annotation():
    (only,) = commands(syntax_error())
    assert only.properties["line"] == "31"
    assert "nesterov=True)\n" in only.message


def test_a_fault_that_two_checks_share_is_told_once():
    found = commands(deadlock())
    assert [each.properties["line"] for each in found] == ["38", "42"]
    assert found[0].properties["title"] == "Every rank finishes (and 1 more)"


def test_nothing_is_said_where_all_passed():
    assert commands(passed()) == []


def test_what_is_broken_is_a_warning_about_us():
    ours, no_mark = commands(broken())
    assert (ours.name, ours.properties["title"]) == ("warning", "Not judged")
    assert (no_mark.name, no_mark.message) == ("warning", NO_MARK)


@pytest.mark.parametrize("result", [alone(broken()), no_mark_for_one_of_two()], ids=["alone", "one of two"])
def test_without_a_mark_the_summary_has_no_sum(result):
    told = summary(result)
    assert told.splitlines()[0].endswith(": no mark") and NO_MARK in told


def faults(count: int, check: int = 1) -> Report:
    """A report in which one check found faults in so many lines, and the first check was diagnosed in line 999."""
    report = stub()
    cause = Finding(subject="the cause", ranks=(0,), line=999, case="equal_shards[2]")
    many = tuple(Finding(subject=f"fault {line}", line=line) for line in range(1, count + 1))
    diagnosis = replace(report.runs[0].diagnosis, findings=(cause,))
    verdicts = [replace(v, outcome=Outcome.PASSED, findings=()) for v in report.verdicts]
    verdicts[check] = replace(verdicts[check], outcome=Outcome.FAILED, findings=many)
    verdicts[4] = replace(verdicts[4], outcome=Outcome.FAILED, findings=(cause,))
    return replace(report, verdicts=tuple(verdicts), runs=(replace(report.runs[0], diagnosis=diagnosis),))


def test_the_cause_comes_first_and_what_is_cut_is_counted():
    found = commands(faults(25))
    assert [each.name for each in found] == ["error"] * 10 + ["notice"]
    assert found[0].properties["line"] == "999"
    assert found[-1].message == "16 more findings are not shown here, in 16 more places. The summary has more."


def test_ten_places_are_shown_and_nothing_is_said_to_be_cut():
    assert [each.name for each in commands(faults(9))] == ["error"] * 10


def test_what_holds_back_most_checks_comes_before_the_rest():
    report = faults(1)
    first = replace(report.verdicts[0], outcome=Outcome.FAILED, findings=(Finding(subject="all wait", line=500),))
    found = commands(replace(report, verdicts=(first, *report.verdicts[1:])))
    assert [each.properties["line"] for each in found] == ["999", "500", "1"]


def test_faults_of_one_line_are_one_annotation():
    report = faults(3)
    same = tuple(replace(finding, line=7) for finding in report.verdicts[1].findings)
    verdicts = (report.verdicts[0], replace(report.verdicts[1], findings=same), *report.verdicts[2:])
    found = commands(replace(report, verdicts=verdicts))
    assert [each.properties["line"] for each in found] == ["999", "7"]
    assert all(f"fault {number}" in found[1].message for number in (1, 2, 3))


def test_hidden_checks_show_nowhere():
    result = alone(with_hidden())
    for text in (annotations(result, lambda path: path.name), summary(result)):
        assert not re.search("secret|later", text, re.IGNORECASE)
    assert "2 checks of your course are judged too" in summary(result)


@given(st.text(st.characters(), max_size=100), st.text(st.characters(), max_size=200))
def test_any_command_is_read_back_as_it_was_meant(name, message):
    line = command("error", message, file=name, title=name)
    assert not set("\r\n") & set(line)
    read = parsed(line)
    assert read.message == message
    assert read.properties == ({"file": name, "title": name} if name else {})


@pytest.mark.parametrize("make", [hostile, commanding])
def test_students_can_give_no_command(make):
    found = commands(make())
    assert all(each.properties["file"].startswith("handed/") for each in found)
    assert all(set(each.properties) == {"file", "line", "title"} for each in found)
    text = annotations(alone(make()), str)
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert not re.search(r"##\[|##vso\[|##teamcity\[", text)


# ── the summary ──


@pytest.mark.parametrize("kind", RESULTS)
def test_nothing_that_a_student_writes_acts_in_the_summary(kind):
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(summary(RESULTS[kind]()))
    inline = [child for token in tokens for child in token.children or []]
    assert {token.type for token in inline} <= {
        "text",
        "code_inline",
        "softbreak",
        "strong_open",
        "strong_close",
        "text_special",
    }
    assert not any(token.type in ("html_block", "code_block", "blockquote_open", "list_item_open") for token in tokens)
    assert not any("owned" in child.content or "@everyone" in child.content for child in inline if child.type == "text")


@given(st.text(st.characters(), max_size=300))
def test_no_text_closes_its_fence(text):
    report = stub()
    finding = Finding(subject=text, expected=text, actual=text, line=1, ranks=(0,), hint=text)
    verdicts = (replace(report.verdicts[0], findings=(finding,)), *report.verdicts[1:])
    run = replace(report.runs[0], ranks=tuple(replace(rank, output=text) for rank in report.runs[0].ranks))
    page = summary(alone(replace(report, verdicts=verdicts, runs=(run,))))
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(page)
    kinds = [token.type for token in tokens if token.level == 0 and not token.type.endswith("_close")]
    assert set(kinds) <= {"heading_open", "table_open", "fence", "paragraph_open"}
    assert tokens[-1].type == "fence" and tokens[-1].content.startswith("make grade")


def test_a_deadlock_is_a_table():
    page = summary(alone(deadlock()))
    assert "| 0 | `all_reduce` | 38 |\n| 1 | `barrier` | 42 |\n| 2 | `all_reduce` | 38 |" in page
    assert page.count("Deadlock") == 1


def test_the_replay_command_is_there():
    assert 'make grade EX=03 ARGS="--seed 123"' in summary(alone(passed()))


def test_several_exercises_have_their_headings_and_what_is_late_is_said():
    page = summary(two_exercises())
    assert "## Assignment 1: data parallel: 12.8 of 100 points" in page
    assert page.index("### 03\\_train\\_ddp") < page.index("### 04\\_digits")
    assert "Handed in 2 days late: 20 % off." in page


def test_the_summary_fits_and_says_where_it_was_cut():
    report = partial()
    long = replace(report.verdicts[1].findings[0], actual="\U0001f600" * 600)
    verdicts = tuple(
        replace(v, outcome=Outcome.FAILED, findings=(replace(long, line=index),))
        for index, v in enumerate(report.verdicts * 300)
    )
    page = summary(alone(replace(report, verdicts=verdicts)))
    assert SUMMARY_BYTES - 20_000 < len(page.encode()) <= SUMMARY_BYTES < 2**20
    assert page.endswith("*This page was cut here, as it would have grown too long.*\n")
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(page)
    assert tokens[-2].content.startswith("*This page was cut")


# ── the log ──


def run_log(text: str) -> list[Command]:
    """The commands that a runner would carry out: none between stop-commands and its token, whatever its case."""
    stopped, found = "", []
    for line in re.split(r"\r\n|\r|\n", text):
        read = parsed(line)
        if stopped:
            stopped = "" if read and read.name.lower() == stopped.lower() else stopped
        elif read and read.name == "stop-commands":
            stopped = read.message
        elif read and read.name in NAMES:
            found.append(read)
    assert not stopped, "commands were never resumed"
    return found


@given(
    st.lists(
        st.sampled_from(["::error::x", "::stop-commands::y", f"::{'a' * 32}::", f"::{'A' * 32}::", "\r", "a", "##[x]"])
    )
)
def test_no_printed_line_is_a_command(lines):
    assert run_log(guarded("\n".join(lines), "a" * 32)) == []


@given(st.text(st.characters(), max_size=300))
def test_any_output_is_shown_whole_between_the_guards(text):
    shown = guarded(text, TOKEN)
    assert shown.startswith(f"::stop-commands::{TOKEN}\n") and shown.endswith(f"\n::{TOKEN}::\n")
    assert text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") in shown


@pytest.mark.parametrize("token", ["", "short", "pause-logging", "x" * 15, "a b" * 10, "::" * 10])
def test_a_token_that_could_be_guessed_is_refused(token):
    with pytest.raises(UsageError, match="drawn at random"):
        guarded("x", token)


def test_a_path_is_asked_for_once_an_exercise():
    asked: list[Path] = []
    annotations(two_exercises(), lambda path: asked.append(path) or str(path))
    assert [path.name for path in asked] == ["train_ddp.py", "no_mean.py"]
