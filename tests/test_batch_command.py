"""`batch` on the command line: what it refuses, what it says, and how it ends. No rank is started but in one test."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from grader.batch.folder import driving
from grader.batch.hand_ins import find
from grader.batch.ledger import Ledger
from tests import small
from tests.batches import (
    FakeEngine,
    call,
    class_of_three,
    faked_engine,
    grade,
    graded,
    lost,
    refusal,
    refused,
    report,
    unsynced,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    unsynced(monkeypatch)


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    return class_of_three(tmp_path, monkeypatch)


@pytest.fixture
def engine(monkeypatch) -> FakeEngine:
    return faked_engine(monkeypatch)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- grading ----------------------------------------------------------------------------------------------------------


def test_a_class_is_graded_and_the_same_command_goes_on(root, engine):
    """Two of three hand-ins are one unit."""
    done = grade("--seed", 5)
    assert done.exit_code == 0 and "3 hand-ins (2 different ones): 2 graded" in done.stdout
    assert {work.seed for _, work in engine.sent} == {5} and engine.closed
    again = grade()
    assert again.exit_code == 0 and "0 units graded by this call" in again.stdout and len(engine.sent) == 2


def test_broken_and_quarantined_hand_ins_are_named_with_their_reason(root, engine):
    """And cost exit code 1; the next call tries what is broken."""
    engine.answers = [refused, lost, lost]
    done = grade("--slots", 1)
    assert done.exit_code == 1
    assert "No host could be started." in done.stdout and "The worker died." in done.stdout
    assert "0 graded, 1 broken, 1 quarantined" in call("status", "out").stdout
    assert "1 graded, 0 broken, 1 quarantined" in grade().stdout
    assert grade("--again", "broken").exit_code == 0


def test_an_interruption_says_how_far_it_came_and_loses_nothing(root, engine):
    def interrupted(slot, work):
        raise KeyboardInterrupt

    engine.answers = [lambda slot, work: graded(slot, work, report(work)), interrupted]
    done = grade("--slots", 1)
    assert done.exit_code == 130 and "1 of 2 are graded and recorded" in done.stderr
    engine.answers = []
    assert grade().exit_code == 0 and len(engine.sent) == 3


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(root, engine):
    """Before anything is graded, and after a check was mended: then nothing would be run."""
    first = grade("--dry-run")
    assert "2 hand-ins would be run" in first.stdout and not (root / "out").exists() and not engine.sent
    grade()
    checks = root / "exercises/90_total/checks.py"
    checks.write_text(checks.read_text().replace('"the total", ranks', '"the sum", ranks'))
    before = contents(root / "out")
    told = grade("--dry-run").stdout
    assert "2 hand-ins would be judged again from the recorded runs" in told and "its checks.py changed" in told
    assert contents(root / "out") == before


@pytest.mark.parametrize(
    ("file", "old", "new", "judged"),
    [
        ("checks.py", "the total", "the sum", True),
        ("exercise.yaml", "hints: [where", "hints: [there", True),
        ("exercise.yaml", "title: The total", "title: A sum", True),
        ("exercise.yaml", "deadline: 20", "deadline: 21", False),
        ("probe.py", "rank + 1", "rank + 2", False),
    ],
)
def test_only_a_changed_probe_or_case_is_run_again(root, engine, file, old, new, judged):
    """Checks, points and texts are judged again from the runs, which are sent to a slot instead of a new grade."""
    grade()
    path = root / "exercises/90_total" / file
    path.write_text(path.read_text().replace(old, new))
    engine.sent.clear()
    assert grade().exit_code == 0
    assert [bool(work.runs) for _, work in engine.sent] == [judged, judged]
    with Ledger(root / "out") as ledger:
        assert all(row.runs_path and row.seconds == 2.0 for row in ledger.rows())


def test_runs_that_lack_what_a_check_asks_for_now_are_made_anew(root, engine):
    grade()
    checks = root / "exercises/90_total/checks.py"
    checks.write_text(checks.read_text() + "\n")
    engine.sent.clear()
    engine.answers = [lambda slot, work: graded(slot, work, report(work, status="error"))]
    assert grade("--slots", 1).exit_code == 0
    assert [bool(work.runs) for _, work in engine.sent] == [True, False, True]


def test_a_new_file_of_one_person_is_all_that_is_graded(root, engine):
    grade()
    engine.sent.clear()
    (root / "hand_ins/bob/total.py").write_text("x = 77\n")
    assert grade().exit_code == 0
    assert [work.files for _, work in engine.sent] == [(("total.py", b"x = 77\n"),)]


def test_only_grades_the_people_that_are_named(root, engine):
    assert grade("--only", "EVE").exit_code == 0 and len(engine.sent) == 1
    assert "1 waiting" in call("status", "out").stdout
    assert "Did you mean 'eve'?" in refusal(grade("--only", "evee"))


def test_shards_share_a_folder_and_a_seed_and_have_each_unit_once(root, engine):
    """As a Slurm array or a CI matrix calls them."""
    for number in (1, 2, 3):
        assert grade("--shard", f"{number}/3").exit_code == 0
    assert len(engine.sent) == 2 and len({work.unit for _, work in engine.sent}) == 2
    assert len({work.seed for _, work in engine.sent}) == 1
    assert "together: 3 hand-ins (2 different ones): 2 graded" in call("status", "out").stdout


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_folder_without_hand_ins_is_refused(root, engine, tmp_path):
    (tmp_path / "empty").mkdir()
    told = refusal(call("empty", "--assignment", "assignment.yaml", "--out", "out"))
    assert "empty holds no hand-ins" in told
    assert "There is no folder nowhere" in refusal(call("nowhere", "--assignment", "assignment.yaml", "--out", "out"))


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
    assert "names nobody" in refusal(grade())


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


# --- whose hand-in it is ----------------------------------------------------------------------------------------------


def test_the_exports_of_platforms_are_read_as_they_come(tmp_path):
    """Canvas' flat files by the user's number, Moodle's folders by the name, Gradescope's with its metadata."""
    canvas = tmp_path / "canvas"
    canvas.mkdir()
    for name in ("doejohn_4711_815_total.py", "doejohn_4711_816_total-1.py", "roejane_LATE_12_9_total.py"):
        (canvas / name).write_text(name)
    john, jane = sorted(find(canvas), key=lambda one: one.who, reverse=True)
    assert (john.who, jane.who) == ("4711", "12") and "late" in jane.note
    assert john.files["total.py"].name == "doejohn_4711_816_total-1.py"
    moodle = tmp_path / "moodle"
    (moodle / "Ada Lovelace_4711_assignsubmission_file").mkdir(parents=True)
    assert [one.who for one in find(moodle)] == ["Ada Lovelace"]
    scope = tmp_path / "scope"
    (scope / "submission_1").mkdir(parents=True)
    (scope / "submission_metadata.yml").write_text(
        "submission_1:\n  :submitters:\n  - :name: Ada\n    :sid: '1'\n    :email: ada@x.org\n"
        "  - :name: Bob\n    :sid: '2'\n    :email: bob@x.org\n  :created_at: 2026-10-12 10:00:00.5 Z\n"
    )
    ada, bob = find(scope)
    assert (ada.who, bob.who) == ("ada@x.org", "bob@x.org") and ada.submitted_at.hour == 10
    (scope / "submission_metadata.yml").write_text("submission_1: [1]\n")
    with pytest.raises(Exception, match="not as Gradescope exports it"):
        find(scope)


def test_files_of_one_exercise_may_lie_side_by_side(tmp_path):
    (tmp_path / "ada.py").write_text("x = 1\n")
    assert [one.who for one in find(tmp_path, "total.py")] == ["ada"]


# --- for real ---------------------------------------------------------------------------------------------------------


def test_a_real_class_is_graded_on_slots_and_judged_again_without_running(root):
    """The solution passes all, a mutant does not; then a check is worth more, and both are judged from their runs."""
    (root / "hand_ins/ada/total.py").write_text(small.FILES["reference/90_total/total.py"])
    reference = small.FILES["reference/90_total/total.py"].replace("    dist.all_reduce(result)\n", "")
    (root / "hand_ins/bob/total.py").write_text(reference)
    (root / "hand_ins/eve/total.py").write_text("x = (\n")
    done = grade("--seed", 3, "--slots", 1)
    assert done.exit_code == 0, done.output
    with Ledger(root / "out") as ledger:
        scores = {row.who: row.report()["score"] for row in ledger.rows()}
    assert scores == {"ada": 100.0, "bob": 20.0, "eve": 0.0}
    manifest = root / "exercises/90_total/exercise.yaml"
    manifest.write_text(manifest.read_text().replace("points: 30", "points: 10").replace("points: 20", "points: 40"))
    assert grade("--slots", 1).exit_code == 0
    with Ledger(root / "out") as ledger:
        assert {row.who: row.report()["score"] for row in ledger.rows()} == {"ada": 100.0, "bob": 40.0, "eve": 0.0}
        kinds = [row["kind"] for row in ledger.all("SELECT kind FROM attempts ORDER BY id")]
    assert kinds == ["run"] * 3 + ["judge"] * 3
