"""What staff read of a class: statistics by hand, groups of wrong answers, suspects, and page, JSON and CSV of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from grader.batch.report import data, page, statistics
from grader.batch.report.build import class_report
from grader.batch.report.facts import Fault, facts_of
from grader.batch.report.model import About, ClassReport
from grader.batch.report.mutants import Likeness, Signature, likeness
from grader.batch.report.shape import compared, shape
from grader.batch.report.summary import facts_in, key_of, summary_of
from grader.batch.row import Standing, Summary
from grader.judge import ODD
from tests.classes import EXERCISE, LATE, OLD, TWICE, finding, report, row, small_class

SCHEMA = Path(__file__).parent.parent / "docs/class-report.schema.json"


def signature(name: str, outcomes: str, found: dict) -> Signature:
    facts = facts_of(report(outcomes, found))
    return Signature(name=name, mistake=f"It {name}.", fails=facts.those("F"), faults=facts.faults)


SIGNATURES = (
    signature("averages_twice", "PFPP", {"accumulates": [TWICE]}),
    signature("keeps_old", "PPPF", {"leftovers": [OLD]}),
)


@pytest.fixture(scope="module")
def made() -> ClassReport:
    return class_report(small_class(), About(title="Homework <2>", versions={"grader": "1.0"}), {EXERCISE: SIGNATURES})


# ── statistics ──


def test_wilson_interval_is_the_published_one():
    """Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for passed, judged, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)):
        assert statistics.wilson(passed, judged) == pytest.approx((low, high), abs=1e-4)
    assert statistics.wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert statistics.wilson(0, 0) == (0, 1)


def test_discrimination_leaves_the_check_itself_and_blocked_hand_ins_out():
    draw = np.random.default_rng(5)
    passed = draw.random((200, 4)) < draw.random((200, 1))
    judged = draw.random((200, 4)) < 0.8
    points = [10.0, 20.0, 30.0, 40.0]
    found = statistics.discrimination(passed & judged, judged, points)
    for column in range(4):
        rest = [p for p in range(4) if p != column]
        chosen = judged[:, column]
        totals = (passed & judged)[np.ix_(chosen, rest)] @ np.array([points[each] for each in rest])
        assert found[column] == pytest.approx(np.corrcoef(passed[chosen, column], totals)[0, 1])
    assert statistics.discrimination(np.ones((50, 2), bool), np.ones((50, 2), bool), [1, 1]) == [None, None]


def test_fifths_keep_equal_marks_together():
    shares = np.array([0.1] * 5 + [1.0] * 5)
    passed = np.array([[False]] * 5 + [[True]] * 5)
    (rates,) = statistics.by_quintile(shares, passed, np.ones_like(passed))
    assert rates == (None, 0.0, None, 1.0, None)


def test_phi_of_flags():
    failed = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    found = statistics.phi(failed)
    assert found[0, 1] == pytest.approx(1) and found[0, 2] == pytest.approx(0)


def test_histogram_and_quartiles():
    shares = np.array([0.0, 0.05, 0.1, 0.99, 1.0])
    assert statistics.histogram(shares) == (2, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    assert statistics.quartiles(shares) == pytest.approx((0.05, 0.1, 0.99))


# ── shapes ──


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("-2.56e-3; all 12 elements differ, by 3.16 at most; all zeros", "#; elements differ; all zeros"),
        ("0.07 at [1, 1]", "# at [#…]"),
        ("localhost:34715", "localhost:#"),
        ("'layers.0.weight' on ranks 0, 2", "'layers.#.weight' on rank #…"),
        ("<C object at 0x7f3a5c0d> in /tmp/run-12/a.py", "<C object at #> in PATH"),
        ("float32 all_reduce", "float32 all_reduce"),
    ],
)
def test_a_shape_has_no_numbers_left(text, left):
    assert shape(text) == left


def test_counts_say_which_way_they_are_off():
    assert [compared("2", actual) for actual in ("0", "1", "5", "x 5")] == ["0", "# (fewer)", "# (more)", "x #"]


# ── the class ──


def test_the_header_counts_every_hand_in(made):
    header = made.header
    assert (header.people, header.expected, header.graded, header.waiting) == (25, 25, 22, 1)
    assert (header.broken, header.quarantined, header.unstable) == (1, 1, 1)
    assert header.expected == header.graded + header.waiting + header.broken + header.quarantined
    assert header.identical == 2 and header.overhead == pytest.approx(1.2) and header.seed == "7"
    assert header.versions == {"torch": "2.13.0", "grader": "1.0"}


def test_two_who_handed_in_nothing_did_not_hand_in_the_same():
    """They share a unit all the same."""
    nothing = report("FBBF", problem=finding("The file is missing"))
    rows = [row(who, nothing, source_file="") for who in ("gone", "away")]
    assert class_report(rows).header.identical == 0
    assert class_report([*rows, row("ada", report("PPPP")), row("bob", report("PPPP"))]).header.identical == 2


def test_what_is_missing_untouched_or_broken_says_nothing_of_checks(made):
    (exercise,) = made.exercises
    numbers = {kind: each.number for kind, each in exercise.lists.items()}
    assert numbers == {
        "missing": 1,
        "untouched": 1,
        "late": 1,
        "uncompilable": 1,
        "broken": 1,
        "quarantined": 1,
        "unstable": 1,
    }
    assert exercise.number == 23 and exercise.tried == 20
    runs = exercise.checks[0]
    assert (runs.judged, runs.passed, runs.blocked) == (20, 18, 0)
    accumulates = exercise.checks[1]
    assert (accumulates.judged, accumulates.blocked) == (18, 2) and accumulates.rate == pytest.approx(13 / 18)
    assert accumulates.cost == pytest.approx(30 * 0.4 * 7)


def test_the_same_mistake_with_other_numbers_is_one_group_that_names_its_mutant(made):
    (exercise,) = made.exercises
    group = exercise.clusters[0]
    assert (group.check, group.size) == ("accumulates", 5)
    assert [(mutant.name, mutant.number) for mutant in group.mutants] == [("averages_twice", 5)]
    old = next(group for group in exercise.clusters if group.check == "leftovers" and group.mutants)
    assert (old.size, old.mutants[0].name, old.mutants[0].number) == (3, "keeps_old", 3)
    assert exercise.known == 7 and exercise.wrong == 10


def test_a_mistake_that_no_mutant_has_is_listed(made):
    (exercise,) = made.exercises
    assert {unknown.checks for unknown in exercise.unknown} == {("overlaps",), ("runs",), ("leftovers", "runs")}


def test_two_mistakes_in_one_hand_in_are_two_mutants():
    both = facts_of(report("PFPF", {"accumulates": [TWICE], "leftovers": [OLD]})).faults
    found = likeness(both, (), SIGNATURES)
    assert found.how == "together" and set(found.mutants) == {"averages_twice", "keeps_old"}


def test_a_mutant_that_was_not_graded_is_known_by_its_checks():
    bare = tuple(replace(each, faults=frozenset()) for each in SIGNATURES)
    faults = facts_of(report("PPPF", {"leftovers": [LATE]})).faults
    assert likeness(faults, (), bare) == Likeness(how="checks", mutants=("keeps_old",))


def test_deadlocks_are_told_by_calls_and_the_smallest_world_size(made):
    (deadlock,) = made.exercises[0].deadlocks
    assert deadlock.calls == ("all_reduce", "barrier") and deadlock.size == 1
    assert deadlock.world_size == 2 and deadlock.lines == (41, 44)
    assert dict(made.exercises[0].endings) == {"deadlocked": 1, "raised ValueError": 1}


def test_suspect_checks_say_why():
    rows = [row(f"a{number}", report("PPFP", {"overlaps": [LATE]}), unit=f"a{number}") for number in range(4)]
    rows += [row(f"b{number}", report("PFPF"), unit=f"b{number}", flipped=("runs",)) for number in range(10)]
    found = {suspect.check: " ".join(suspect.reasons) for suspect in class_report(rows).exercises[0].suspects}
    assert "everybody passes it" in found["runs"] and "flipped when 10 hand-ins" in found["runs"]
    assert "discrimination −1.00" in found["overlaps"]


def test_a_check_that_raises_something_of_its_own_is_suspect():
    fault = {"subject": ODD, "expected": "", "actual": "checks.py:12: ZeroDivisionError: division by zero"}
    rows = [row(name, report("PPPF", {"leftovers": [{**LATE, **fault}]}), unit=name) for name in ("a", "b")]
    (suspect,) = class_report(rows).exercises[0].suspects
    assert suspect.check == "leftovers"
    (reason,) = (reason for reason in suspect.reasons if "its own" in reason)
    assert "for all that failed it" in reason and "checks.py:12: ZeroDivisionError" in reason


def test_someone_with_nearly_all_who_fails_one_check_alone_makes_it_suspect():
    rows = [row("a", report("PPPP"))]
    data = report("FPPP", {"runs": [LATE]})
    for check, points in zip(data["checks"], (5.0, 40.0, 30.0, 25.0), strict=True):
        check["points"] = points
    data["mark"] = 95.0
    (suspect,) = class_report([*rows, row("b", data)]).exercises[0].suspects
    assert suspect.reasons == ("1 hand-in with 90 % or more fails this check alone",)


def test_attempts_until_passed_are_counted_where_people_hand_in_again():
    rows = [row("ada", report("PFPP", {"accumulates": [TWICE]}), attempt=1, counts=False, unit="x")]
    rows += [row("ada", report("PPPP"), attempt=2), row("bob", report("PPPP"))]
    checks = {check.id: check.attempts for check in class_report(rows).exercises[0].checks}
    assert checks["accumulates"] == (1, 1) and checks["runs"] == (2,)
    assert class_report(rows[1:]).exercises[0].checks[0].attempts == ()


# ── what is written ──


def test_nobody_is_named_unless_names_are_asked_for(made):
    for text in (page.render(made), data.as_json(made), data.as_csv(made)):
        assert "@uni" not in text
    named = page.render(class_report(small_class(), names=True))
    assert all(f"<li>{who}@uni" in named for who in ("gone", "stub", "late", "comma"))
    assert "twice0@uni, twice1@uni" in named


def test_the_json_is_as_its_schema_says_it_and_holds_every_field(made):
    jsonschema.validate(json.loads(data.as_json(made)), json.loads(SCHEMA.read_text()))


def test_the_csv_has_a_row_for_each_check(made):
    lines = data.as_csv(made).splitlines()
    assert len(lines) == 5 and lines[2].startswith("05_no_sync,accumulates,It accumulates,30,18,13,5,2,0,0,0.7222,")


def test_the_page_runs_nothing_loads_nothing_and_escapes_what_students_wrote():
    evil = finding("<script>alert(1)</script>", actual="\u202eevil\x1b[0m")
    text = page.render(class_report([row("x", report("FBBP", {"runs": [evil]}))], About(title="<b>")))
    assert "<script" not in text and "&lt;script&gt;" in text and "\u202e" not in text and "\x1b" not in text
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in text
    assert "://" not in text and "style=" not in text


def test_a_class_of_nobody_and_a_report_that_is_none_are_no_fault():
    assert "0<span" in page.render(class_report([]))
    waiting = page.render(class_report([row("waits", None, standing=Standing.EXPECTED)]))
    assert "Nobody has a mark yet." in waiting and "Quartiles" not in waiting
    odd = row("x", {"schema": "else"})
    assert class_report([odd]).header.broken == 1


def test_a_report_is_read_once_for_each_file_however_many_handed_in_the_same():
    """What makes 100,000 rows quick. No time is measured here; docs/courses.md says what was."""
    read = []

    class Counting(type(row("x", report("PPPP")))):
        __slots__ = ()

        def report(self):
            read.append(self.who)
            return self.data

    one = report("PPPP")
    rows = [row(f"p{number}", one) for number in range(50)]
    counting = [Counting(**{name: getattr(each, name) for name in each.__dataclass_fields__}) for each in rows]
    assert class_report(counting).header.graded == 50 and len(read) == 1


def test_every_number_of_the_page_is_finite(made):
    assert not math.isnan(made.marks.mean) and "nan" not in page.render(made)


# ── do the groups name the mistakes that made them? ──


def test_planted_mistakes_are_named_and_others_are_not():
    """Recorded faults of exercise 05: its mutants, and mistakes planted in other right programs or two in one. Of what
    is named nearly all is right, and most is named; docs/courses.md has the numbers for more exercises."""
    recorded = json.loads((Path(__file__).parent / "data/faults_of_05.json").read_text(encoding="utf-8"))
    kinds = [Fault(*fields) for fields in recorded["faults"]]
    faults = {name: frozenset(kinds[place] for place in own) for name, own in recorded["mutants"].items()}
    known = [Signature(name=name, mistake="", fails=frozenset(), faults=own) for name, own in faults.items()]
    right, named, planted = 0, 0, 0
    for true, places, blocked in recorded["planted"]:
        found = likeness(frozenset(kinds[place] for place in places), blocked, known)
        told, meant = {faults[name] for name in found.mutants}, {faults[name] for name in true}
        right, named, planted = right + len(told & meant), named + len(told), planted + len(meant)
    assert right / named > 0.95 and right / planted > 0.75, (right, named, planted)


def test_a_report_in_short_gives_the_same_facts():
    """As the ledger keeps it, so that a class report reads those reports alone that show something new."""
    wrong = report("FBBP", {"runs": [finding("gradients of layer 0", expected="[1.0]", actual="[2.0]")]})
    for told in (wrong, report("PPPP")):
        summary, facts = summary_of(told), facts_of(told)
        assert facts_in(summary) == replace(facts, sentences={})
        assert summary_of({**told, "seed": 8}) == summary and summary.own.startswith(key_of(summary.common))
    assert summary_of({}) == Summary() and facts_in(Summary()) is None
    assert facts_in(Summary('{"form": "older"}')) is None and facts_in(Summary("", '["older", "03"]')) is None


def test_reports_in_short_are_not_read_but_for_an_example_of_each_fault():
    wrong = report("FBBP", {"runs": [finding("gradients of layer 0", expected="[1.0]", actual="[2.0]")]})
    rows = [row(f"p{number}", {**wrong, "seed": number}) for number in range(5)]
    whole = class_report(rows)
    short = [replace(rows[0], summary=summary_of(wrong))]
    short += [replace(each, summary=summary_of(wrong), data=None) for each in rows[1:]]
    assert replace(class_report(short), header=whole.header) == whole
