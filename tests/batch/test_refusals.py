"""What `batch` refuses: one sentence, exit code 2, and the folder as it was."""

from __future__ import annotations

import sqlite3

import pytest

from grader.batch.folder import driving
from grader.batch.ledger import Ledger
from tests.batches import (
    call,
    contents,
    grade,
    refusal,
)


def test_a_folder_without_hand_ins_is_refused(root, engine, tmp_path):
    (tmp_path / "empty").mkdir()
    told = refusal(call("empty", "--assignment", "assignment.yaml", "--out", "out"))
    assert "empty holds no hand-ins" in told
    assert "There is no folder nowhere" in refusal(call("nowhere", "--assignment", "assignment.yaml", "--out", "out"))


def test_hand_ins_without_any_file_of_the_assignment_are_refused(root, engine, tmp_path):
    """As where somebody names the folder above: all of them would have no points."""
    (tmp_path / "above").mkdir()
    (root / "hand_ins").rename(tmp_path / "above/hand_ins")
    (tmp_path / "above/other").mkdir()
    told = refusal(call("above", "--assignment", "assignment.yaml", "--out", "out"))
    assert "No hand-in in above has a file of the assignment, neither total.py nor 90_total/total.py" in told


def test_an_archive_of_a_folder_is_found_as_it_unpacks(root, engine):
    """With one folder more, and with what a Mac puts beside it."""
    (root / "hand_ins/eve/total.py").rename(root / "total.py")
    for name in ("homework/90_total", "__MACOSX"):
        (root / "hand_ins/eve" / name).mkdir(parents=True)
    (root / "total.py").rename(root / "hand_ins/eve/homework/90_total/total.py")
    assert grade().exit_code == 0 and len(engine.sent) == 2
    assert all(work.files for _, work in engine.sent)


def test_two_hand_ins_of_one_person_are_refused_unless_it_is_said_which_counts(root, engine):
    """--best grades both, and the better one counts."""
    (root / "people.csv").write_text("hand_in,student\nada,ada\neve,Ada\n")
    told = refusal(grade("--people", "people.csv"))
    assert "has 2 hand-ins (ada, eve)" in told and "--latest or --best" in told
    assert "Which hand-in of" in refusal(grade("--people", "people.csv", "--latest"))
    assert grade("--people", "people.csv", "--best").exit_code == 0
    with Ledger(root / "out") as ledger:
        found = [(row.who, row.attempt, row.counts, row.report()["score"]) for row in ledger.rows()]
    own = {counts: score for who, _, counts, score in found if who == "Ada"}
    assert len(found) == 3 and own[True] > own[False]


@pytest.mark.parametrize("words", [("--latest", "--best"), ("--best", "--dry-run", "--latest")])
def test_the_latest_and_the_best_are_not_both_to_count(root, engine, words):
    """Whichever is named last."""
    assert "either the --latest or the --best counts, not both" in refusal(grade(*words))
    assert not (root / "out").exists()


def test_the_latest_hand_in_counts_and_late_rules_hold_for_it(root, engine):
    (root / "assignment.yaml").write_text(
        "title: Homework\ndue: 2026-10-12T12:00:00+00:00\nlate: {percent_per_day: 10}\n"
        "exercises:\n  90_total: {weight: 10}\n"
    )
    (root / "people.csv").write_text(
        "hand_in,student,submitted_at,due\nada,ada,2026-10-12T11:00:00+00:00,\neve,ada,2026-10-13T11:00:00+00:00,\n"
        "bob,bob,2026-10-13T11:00:00+00:00,2026-10-14T12:00:00+00:00\n"
    )
    assert grade("--people", "people.csv", "--latest").exit_code == 0
    with Ledger(root / "out") as ledger:
        ada, bob = ledger.rows()
    assert (ada.kept, bob.kept) == (0.9, 1.0) and "late" in ada.late and ada.source_path.read_text() == "x = 2\n"


def test_names_that_need_quoting_work_and_names_that_cannot_be_printed_are_refused(root, engine):
    quoted = 'o\'brien "q"; $(x) ü,\u00e9'
    (root / "hand_ins" / quoted).mkdir()
    assert grade().exit_code == 0
    with Ledger(root / "out") as ledger:
        assert quoted in {row.who for row in ledger.rows()}
    (root / "hand_ins/two\nlines").mkdir()
    told = refusal(grade())
    assert r"two\nlines' names nobody" in told and "PosixPath" not in told


def test_links_out_of_a_hand_in_are_refused(root, engine):
    (root / "secret.py").write_text("x = 3\n")
    (root / "hand_ins/mal").mkdir()
    link = root / "hand_ins/mal/total.py"
    link.symlink_to(root / "secret.py")
    assert "mal/total.py is a link that leads out of the hand-in" in refusal(grade())
    link.unlink()
    (root / "hand_ins/mal").rmdir()
    (root / "hand_ins/mal").symlink_to(root / "reference")
    assert "hand_ins/mal is a link that leads out of hand_ins" in refusal(grade())


def test_a_folder_of_another_assignment_is_refused_and_stays_as_it_is(root, engine):
    grade()
    before = contents(root / "out")
    path = root / "assignment.yaml"
    path.write_text(path.read_text().replace("Homework", "Exam"))
    assert "holds the batch of another assignment, 'Homework'" in refusal(grade())
    assert contents(root / "out") == before


def test_a_folder_of_other_things_is_refused(root, engine):
    told = refusal(call("hand_ins", "--assignment", "assignment.yaml", "--out", "reference"))
    assert "reference holds 90_total and no batch" in told
    told = refusal(call("hand_ins", "--assignment", "assignment.yaml", "--out", "hand_ins/out"))
    assert "lies among the hand-ins" in told


def test_a_ledger_of_a_newer_version_is_refused(root, engine):
    grade()
    with sqlite3.connect(root / "out/ledger.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 99")
    for result in (grade(), call("status", "out")):
        assert "newer version of the grader; update this one" in refusal(result)


def test_a_second_driver_on_the_same_folder_is_refused(root, engine):
    grade()
    with Ledger(root / "out") as ledger, driving(ledger):
        assert "Another command is at work" in refusal(grade())
        assert "A driver is at work" in call("status", "out").stdout


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0"])
def test_a_shard_out_of_range_is_refused(root, engine, shard):
    assert f"--shard {shard} is no part of a whole" in refusal(grade("--shard", shard))


def test_an_engine_that_is_none_is_refused(root):
    assert "say local, ray, or ray=ADDRESS" in refusal(grade("--engine", "slurm"))
    assert "under bubblewrap alone" in refusal(grade("--engine", "ray", "--sandbox", "off"))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("name\nada\n", "must have the column hand_in"),
        ("hand_in,student\nxyz,x\n", "no hand-in of that name"),
        ("hand_in,submitted_at\nada,yesterday\n", "is no time with a time zone"),
        ("hand_in,student\nada,x\nada,y\n", "1 hand-in twice"),
    ],
)
def test_a_table_of_people_that_says_nothing_clear_is_refused(root, engine, table, told):
    (root / "people.csv").write_text(table)
    assert told in refusal(grade("--people", "people.csv"))


def test_another_seed_than_the_folders_is_refused(root, engine):
    """Nothing of what is recorded would be known any more, and the folder is said to keep its seed."""
    assert grade("--seed", 1).exit_code == 0
    before, sent = contents(root / "out"), len(engine.sent)
    for words in (("--seed", 2), ("--seed", 2, "--dry-run")):
        assert "out keeps the seed it was begun with, 1; name another folder by --out for 2" in refusal(grade(*words))
    assert contents(root / "out") == before and len(engine.sent) == sent
    assert grade("--seed", 1).exit_code == 0 and len(engine.sent) == sent


@pytest.mark.parametrize(
    "words",
    [("diff",), ("gradebook", "--out", "m.csv"), ("merge",), ("report",), ("report", "--html", "nowhere/x.html"),
     ("similarity",), ("status",)],
)  # fmt: skip
def test_a_folder_that_is_no_batch_is_named_by_every_command_alike(root, words):
    name, *options = words
    assert "nowhere holds no batch (ledger.sqlite3 is missing)" in refusal(call(name, "nowhere", *options))


def test_shards_that_are_not_joined_yet_are_told_from_no_batch(root, engine):
    grade("--shard", "1/2")
    for words in (("diff",), ("gradebook", "--out", "m.csv"), ("report",)):
        assert "`batch merge out` joins them" in refusal(call(words[0], "out", *words[1:]))


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_faults_in_what_the_course_wrote_itself_are_the_callers(root, engine, words):
    """Exit code 2, not that of the grader's own faults: an assignment, and checks beside it."""
    path = root / "assignment.yaml"
    path.write_text(path.read_text() + "checks: hidden\n")
    assert "assignment.yaml:4: there is no folder hidden" in refusal(grade(*words))
    (root / "hidden/90_total").mkdir(parents=True)
    assert "hidden/90_total/exercise.yaml: the file is missing" in refusal(grade(*words))
