"""Gradebooks for Canvas and Moodle and a plain one, read back as those platforms and spreadsheets read them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.course import gradebook
from grader.course.gradebook import canvas, feedback, moodle, plain
from grader.course.roster import ACTIVE, defused, read, write
from grader.model import Result, alone
from grader.model.errors import UsageError
from tests.goldens import assert_golden
from tests.reports import broken, deadlock, partial, passed
from tests.results import no_mark_for_one_of_two, two_exercises, with_hidden

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Exercise 03 (4711),Quiz (12),Current Score
,,,,,Manual Posting,,
    Points Possible,,,,,100.00,10,(read only)
"Curie, Marie",101,S-1,mcurie,Section A,,9.5,95
"Noether, Emmy",102,S-2,enoether,Section A,12,,
"Hopper, Grace",103,S-3,ghopper@navy.example,Section B,33,8,80
"""
MOODLE = """\
First name,Last name,ID number,Institution,Department,Email address,Exercise 03 (Real),Last downloaded from this course
Marie,Curie,7001,,Physics,Marie.Curie@uni.example,-,1780000000
Emmy,Noether,7002,,Maths,emmy@uni.example,-,1780000000
Grace,Hopper,7003,,Navy,grace@navy.example,55.00,1780000000
"""
ITEM = "Exercise 03"
HANDED = [("mcurie", alone(passed())), ("S-2", alone(partial())), ("ghopper@navy.example", alone(deadlock()))]


def table(text: str, delimiter: str = ",") -> list[list[str]]:
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    assert len({len(row) for row in rows}) == 1, "the rows are not equally wide"
    return rows


def records(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    header, *rows = table(text, delimiter)
    return [dict(zip(header, row, strict=True)) for row in rows]


# ── Canvas ──


def test_the_files_are_as_recorded():
    assert_golden("gradebook.canvas.csv", canvas(HANDED, CANVAS, ITEM).text)
    by_mail = [
        ("marie.curie@uni.example", HANDED[0][1]),
        ("7002", HANDED[1][1]),
        ("grace@navy.example", two_exercises()),
    ]
    assert_golden("gradebook.moodle.csv", moodle(by_mail[:2], MOODLE, ITEM).text)
    assert_golden(
        "gradebook.plain.csv", plain([*by_mail, ("ada", alone(with_hidden())), ("bob", alone(broken()))]).text
    )


def test_canvas_gets_its_own_file_with_one_column_filled():
    rows = table(canvas(HANDED, CANVAS, ITEM).text)
    before = table(CANVAS)
    assert [row[5] for row in rows] == ["Exercise 03 (4711)", "Manual Posting", "100.00", "100", "40", "0"]
    assert [row[:5] + row[6:] for row in rows] == [row[:5] + row[6:] for row in before]


def test_a_new_column_stands_at_the_end_with_its_points():
    rows = table(canvas(HANDED, CANVAS, "Exercise 03b").text)
    assert [row[-1] for row in rows] == ["Exercise 03b", "", "100", "100", "40", "0"]


def test_the_row_of_points_is_made_where_it_is_missing():
    roster = "Student,ID,SIS Login ID,Section\nA,1,a,s\n"
    assert table(canvas([("a", alone(passed()))], roster, "New").text)[1] == ["    Points Possible", "", "", "", "100"]


def test_canvas_refuses_points_that_are_not_the_same():
    with pytest.raises(UsageError, match=r"'Quiz' has '10' as its points in Canvas, and is worth 100 here"):
        canvas(HANDED, CANVAS, "Quiz")
    with pytest.raises(UsageError, match="read only"):
        canvas(HANDED, CANVAS, "Current Score")
    with pytest.raises(UsageError, match="worth 100 and 50 points"):
        half = replace(alone(passed()), entries=(replace(alone(passed()).entries[0], weight=50),))
        canvas([HANDED[0], ("enoether", half)], CANVAS, "New")


def test_semicolons_and_a_byte_order_mark_are_understood():
    roster = "\ufeff" + CANVAS.replace('"', "").replace(", ", " ").replace(",", ";")
    text = canvas(HANDED, roster, ITEM).text
    assert [row[5] for row in table(text, ";")][3:] == ["100", "40", "0"]
    assert table(text, ";")[0][0] == "Student"


# ── who is who ──


@pytest.mark.parametrize("key", ["101", "S-1", "mcurie", " MCurie ", "Curie, Marie"])
def test_a_student_is_found_by_whatever_column_holds_the_key(key):
    made = canvas([(key, alone(passed()))], CANVAS, ITEM)
    assert made.unknown == ()
    assert table(made.text)[3][5] == "100"


def test_who_is_missing_and_who_is_unknown_is_told():
    made = canvas([*HANDED[:1], ("stranger", alone(passed()))], CANVAS, ITEM)
    assert made.unknown == ("stranger",)
    assert made.missing == ("Noether, Emmy", "Hopper, Grace")
    assert "stranger" not in made.text
    assert [row[5] for row in table(made.text)][4:] == ["12", "33"]


@pytest.mark.parametrize("keys", [("mcurie", "MCURIE"), ("mcurie", "101")])
def test_two_results_of_one_student_are_refused(keys):
    with pytest.raises(UsageError, match=r"two results for|the same student"):
        canvas([(key, alone(passed())) for key in keys], CANVAS, ITEM)


def test_a_key_of_two_students_is_refused():
    roster = CANVAS.replace("enoether", "mcurie")
    with pytest.raises(UsageError, match="'mcurie' is the key of 2 students"):
        canvas([("mcurie", alone(passed()))], roster, ITEM)


@pytest.mark.parametrize(
    "make, roster, told",
    [
        (canvas, MOODLE, "no export of Canvas"),
        (moodle, CANVAS, "no export of Moodle"),
        (canvas, "", "The roster is empty"),
        (moodle, 'a,"b\n', "no CSV"),
        (canvas, "Student,ID\nA,1,2\n", "Row 2 of the roster has 3 cells"),
    ],
)
def test_a_roster_that_is_none_is_refused_with_a_reason(make, roster, told):
    with pytest.raises(UsageError, match=told):
        make(HANDED, roster, ITEM)


def test_a_plain_roster_needs_a_column_that_tells_who_is_who():
    with pytest.raises(UsageError, match="has no column that tells who a student is"):
        plain(HANDED, "grade,remark\n1,2\n")


# ── our fault ──


@pytest.mark.parametrize("ours", [alone(broken()), no_mark_for_one_of_two()], ids=["alone", "one of two"])
def test_a_result_that_is_our_fault_is_no_grade_and_told(ours):
    handed = [("mcurie", ours), HANDED[1]]
    made = canvas(handed, CANVAS, ITEM)
    assert made.ungraded == ("mcurie",)
    assert [row[5] for row in table(made.text)][3:5] == ["", "40"]
    plainly = plain(handed)
    assert plainly.ungraded == ("mcurie",)
    rows = [(row["total"], row["status"]) for row in records(plainly.text)]
    assert rows[-2:] == [("", "error"), ("40", "failed")]


def test_moodle_is_not_given_empty_cells_which_would_clear_grades():
    made = moodle([("7001", alone(broken())), ("7002", alone(partial()))], MOODLE, ITEM)
    assert made.ungraded == ("7001",)
    assert made.missing == ("Grace",)
    assert [row["ID number"] for row in records(made.text)] == ["7002"]


# ── Moodle ──


def test_moodle_gets_who_the_student_is_the_grade_and_feedback():
    (row,) = records(moodle([("emmy@uni.example", alone(partial()))], MOODLE, ITEM).text)
    assert list(row) == [
        *("First name", "Last name", "ID number", "Institution", "Department", "Email address"),
        *("Exercise 03", "Feedback comments", "Last downloaded from this course"),
    ]
    assert (row["Email address"], row["Exercise 03"]) == ("emmy@uni.example", "40")
    assert row["Feedback comments"].startswith("passed: Every rank finishes, Rank 0 alone")
    assert "failed: The result equals training in one process, The data" in row["Feedback comments"]


def test_feedback_tells_lateness_and_nothing_of_hidden_checks():
    assert "Handed in 2 days late: 20 % off." in feedback(two_exercises())
    assert not re.search("secret|later", feedback(alone(with_hidden())), re.IGNORECASE)


def test_a_moodle_in_german_is_understood():
    roster = "Vorname;Nachname;ID-Nummer;E-Mail-Adresse\nEmmy;Noether;7002;emmy@uni.example\n"
    made = moodle([("Emmy@uni.example", alone(partial()))], roster, ITEM)
    (row,) = records(made.text, ";")
    assert (row["ID-Nummer"], row["E-Mail-Adresse"], row[ITEM]) == ("7002", "emmy@uni.example", "40")


def test_moodle_students_are_known_by_the_full_name_of_their_downloads():
    """Unless two have it; and by the identifier of the grading worksheet."""
    (row,) = records(moodle([("emmy Noether", alone(partial()))], MOODLE, ITEM).text)
    assert row["ID number"] == "7002"
    with pytest.raises(UsageError, match="'Emmy Noether' is the key of 2 students"):
        moodle([("Emmy Noether", alone(partial()))], MOODLE + "Emmy,Noether,7004,,,e@uni.example,-,1\n", ITEM)
    (row,) = records(
        moodle([("Participant 12", alone(partial()))], "Identifier,Email address\nParticipant 12,a@b.c\n", ITEM).text
    )
    assert row["Email address"] == "a@b.c"


# ── plain ──


def test_the_plain_file_has_a_row_a_student_and_exercise():
    rows = records(plain([("ada", two_exercises()), ("bob", alone(broken()))]).text)
    assert [(row["student"], row["exercise"]) for row in rows] == [
        ("ada", "03_train_ddp"),
        ("ada", "04_digits"),
        ("bob", "03_train_ddp"),
    ]
    assert (rows[1]["runs"], rows[1]["total"], rows[1]["max"]) == ("8", "12.8", "40")
    assert rows[1]["late"] == "Handed in 2 days late: 20 % off."
    assert rows[2]["reshuffles"] == "" and rows[0]["digest"] == "ab" * 32


def test_no_column_of_the_plain_file_stands_twice_whatever_a_check_is_called():
    """`records` would keep the last of two. Exercise 00 has a check `total`."""
    names = ["student", "exercise", "total", "max", "late", "status", "digest"]
    report = passed()
    verdicts = [replace(v, check=replace(v.check, id=id)) for v, id in zip(report.verdicts, names, strict=False)]
    header, row = table(plain([("ada", alone(replace(report, verdicts=tuple(verdicts))))]).text)
    taken = names[: len(verdicts)]
    assert header == [*names[:2], *(f"check.{name}" for name in taken), *names[2:]]
    assert (row[header.index("check.total")], row[header.index("total")]) == ("20", "100")


def test_the_plain_file_follows_a_roster_and_keeps_the_unknown():
    roster = "name,github,remark\nZoe,zoe9,\nAda,ada1,x\nNobody,none0,\n"
    made = plain([("ada1", alone(passed())), ("x", alone(passed())), ("zoe9", alone(passed()))], roster)
    assert [row["student"] for row in records(made.text)] == ["zoe9", "ada1", "x"]
    assert (made.unknown, made.missing) == (("x",), ("Nobody",))


def test_the_plain_file_names_who_has_no_mark_whether_the_roster_knows_him_or_not():
    found = [("ada", alone(broken())), ("zed", alone(broken()))]
    assert plain(found, "login\nada\n").ungraded == ("ada", "zed")


# ── formulas ──


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "=", "＝1", "--", "\n=1"]
)
def test_what_a_spreadsheet_would_carry_out_is_defused(cell):
    assert defused(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["-1", "+1.5", "-12,5", "1e3", "-3 %", "", "-", "a=b", "12.50", "0", "    Points Possible"]
)
def test_numbers_and_words_stay_as_they_are(cell):
    assert defused(cell) == cell


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=2), min_size=1))
def test_any_table_comes_back_from_a_parser_with_no_formula_in_it(rows):
    for delimiter in ",;\t":
        shown = table(write(rows, delimiter), delimiter)
        assert shown == [[defused(cell) for cell in row] for row in rows]
        for cell in (cell for row in shown for cell in row):
            assert not cell.lstrip(" ").startswith(ACTIVE) or re.fullmatch(r"[\s+\-\d.,eE%]+", cell)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_any_roster_is_read_or_refused_with_a_sentence(text):
    for make in (canvas, moodle, plain):
        for start in ("", "Student,ID,Section\n", "First name,Email address\n"):
            try:
                make(HANDED, start + text, ITEM) if make is not plain else make(HANDED, start + text)
            except UsageError as error:
                assert str(error).endswith((".", "'TITLE (1234)'."))


def test_a_formula_in_a_name_does_not_reach_the_file():
    roster = CANVAS.replace('"Curie, Marie"', "=HYPERLINK(1)")
    text = canvas(HANDED, roster, ITEM).text
    assert "\r\n'=HYPERLINK(1),101," in text
    assert read(text).rows[2][5] == "100"


def test_results_of_nothing_make_an_empty_gradebook():
    assert canvas([], CANVAS, ITEM).missing == ("Curie, Marie", "Noether, Emmy", "Hopper, Grace")
    assert table(plain([]).text) == [["student", "exercise", "total", "max", "late", "status", "digest"]]
    assert not gradebook.is_grade(Result(title="", entries=()))
