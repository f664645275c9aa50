"""`batch` on the command line: what it refuses, what it says, and how it ends. No rank is started but in one test."""

from __future__ import annotations

import pytest

from grader.batch import folder, pace, state
from grader.batch.ledger import Ledger
from tests import hidden, small
from tests.batches import (
    a_class,
    batch,
    call,
    contents,
    grade,
    graded,
    lost,
    refusal,
    refused,
    report,
    some,
)

# --- grading ----------------------------------------------------------------------------------------------------------


def test_a_class_is_graded_and_the_same_command_goes_on(root, engine):
    """Two of three hand-ins are one unit."""
    done = grade("--seed", 5)
    assert done.exit_code == 0 and "3 hand-ins (2 different ones): 2 graded" in done.stdout
    assert {work.seed for _, work in engine.sent} == {5} and engine.closed
    again = grade()
    assert again.exit_code == 0 and "0 units graded by this call" in again.stdout and len(engine.sent) == 2
    assert "`batch gradebook out --out FILE` writes the marks." in again.stdout


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


def test_a_dry_run_says_that_marks_will_change_where_nothing_is_graded(root, engine):
    """Another weight, and lateness by another table; and once it is done nothing is left."""
    engine.otherwise = lambda slot, work: graded(slot, work, report(work))
    late_people(root)
    grade("--people", "people.csv")
    path = root / "assignment.yaml"
    path.write_text(path.read_text().replace("weight: 10", "weight: 20"))
    told = grade("--dry-run").stdout
    assert "90_total: 3 marks would change with nothing graded for it: its weight was 10 and is 20." in told
    assert "Nothing is left to be graded." in told
    grade()
    assert grade("--dry-run").stdout.endswith("Nothing is left to do.\n")
    (root / "people.csv").write_text("hand_in,student\nada,ada@x.edu\neve,eve@x.edu\n")
    assert "90_total: 1 mark would change" in grade("--dry-run", "--people", "people.csv").stdout


def test_judging_again_is_expected_to_take_what_it_took_for_that_exercise(root, engine):
    """Before it was ever done, what grades took beside their cases: half a second each here, and then two."""
    grade()
    checks = root / "exercises/90_total/checks.py"
    for told in ("2 hand-ins would be judged again from the recorded runs (1 s of a slot)", "(4 s of a slot)"):
        checks.write_text(checks.read_text() + "\n")
        assert told in grade("--dry-run").stdout
        grade()


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


def late_people(root) -> None:
    """An assignment with a rule for lateness, and who ada and eve are: eve a day late."""
    path = root / "assignment.yaml"
    path.write_text("due: 2026-10-12T12:00:00+00:00\nlate: {percent_per_day: 10}\n" + path.read_text())
    table = "hand_in,student,submitted_at\nada,ada@x.edu,\neve,eve@x.edu,2026-10-13T11:00:00+00:00\n"
    (root / "people.csv").write_text(table)


def test_it_is_said_where_nobody_can_know_who_is_late(root, engine):
    """When the batch is planned, and when its marks are written; not where nothing is ever due."""
    assert "hand-in time" not in grade().stderr
    late_people(root)
    told = "No hand-in time is known for {} of 3 hand-ins; due dates and late rules are not applied to them (--people)."
    assert told.format(3) in grade("--dry-run").stderr and told.format(3) in grade().stderr
    assert told.format(2) in grade("--people", "people.csv").stderr
    assert told.format(2) in call("gradebook", "out", "--out", "marks.csv").stderr
    table = (root / "people.csv").read_text() + "bob,,2026-10-12T11:00:00+00:00\n"
    (root / "people.csv").write_text(table.replace("x.edu,\n", "x.edu,2026-10-12T11:00:00+00:00\n"))
    assert "hand-in time" not in grade("--people", "people.csv").stderr


def known(root) -> dict[str, float]:
    """Whose hand-ins there are, and what lateness leaves of each."""
    with Ledger(root / "out") as ledger:
        return {row.who: row.kept for row in ledger.rows()}


def test_the_folder_keeps_the_table_of_people_for_whoever_goes_on(root, engine):
    """Names and lateness stay, which is said; nothing changes, and a rehearsal reads the same table."""
    late_people(root)
    assert grade("--people", "people.csv").exit_code == 0
    before = known(root)
    assert before == {"ada@x.edu": 1.0, "bob": 1.0, "eve@x.edu": 0.9}
    (root / "people.csv").unlink()
    for words in ((), ("--dry-run",), ("--only", "eve@x.edu")):
        done = grade(*words)
        assert done.exit_code == 0 and "is as out/people.csv says" in done.stderr and known(root) == before
    assert "nothing to compare with yet" in call("diff", "out").stdout


def test_another_table_of_people_replaces_the_one_that_is_kept(root, engine):
    """Once it is one that can be used; `diff` does not take it for other hand-ins."""
    late_people(root)
    grade("--people", "people.csv")
    kept = (root / "out/people.csv").read_bytes()
    (root / "people.csv").write_text("hand_in,student\nnobody,x\n")
    refusal(grade("--people", "people.csv"))
    (root / "people.csv").write_text("hand_in,student\nada,ada@y.edu\n")
    assert grade("--people", "people.csv", "--dry-run").exit_code == 0
    assert (root / "out/people.csv").read_bytes() == kept
    done = grade("--people", "people.csv")
    assert done.exit_code == 0 and "Another --people" not in done.stderr
    assert known(root) == {"ada@y.edu": 1.0, "bob": 1.0, "eve": 1.0}
    told = call("diff", "out").stdout
    assert "handed in since, or called so by the table" in told and "or called otherwise by the table" in told


def test_checks_that_an_earlier_call_had_and_this_one_has_not_are_named(root, engine):
    """They are no longer judged, which changes marks."""
    hidden.written(root / "hidden")
    assert "--checks names them" not in grade("--checks", "hidden").stderr
    assert "Earlier the checks in hidden were judged too, and now they are not" in grade("--dry-run").stderr


def test_shards_share_a_folder_and_a_seed_and_have_each_unit_once(root, engine):
    """As a Slurm array or a CI matrix calls them."""
    for number in (1, 2, 3):
        done = grade("--shard", f"{number}/3")
        assert done.exit_code == 0 and "`batch merge out` joins the parts." in done.stdout
    assert len(engine.sent) == 2 and len({work.unit for _, work in engine.sent}) == 2
    assert len({work.seed for _, work in engine.sent}) == 1
    assert "together: 3 hand-ins (2 different ones): 2 graded" in call("status", "out").stdout


def test_another_shell_is_told_the_pace_that_the_driver_tells(tmp_path, monkeypatch):
    """By the same numbers, for as long as the round lasts."""
    a_class(tmp_path, **some(4))
    monkeypatch.setattr(folder, "is_driven", lambda ledger: True)
    told = []

    def look(progress):
        with Ledger(tmp_path / "out") as ledger:
            told.append((progress.settled, state.status([ledger], 31.0), pace.told(progress, 30.0)))

    batch(tmp_path, slots=1, watch=look)
    assert [settled for settled, _, _ in told] == [1, 2, 3, 4]
    assert all(f"A driver is at work: {', '.join(own)}." in page for _, page, own in told)
    assert "4 a minute, " in told[1][1]
    with Ledger(tmp_path / "out") as ledger:
        assert pace.known(ledger) is None


def test_a_call_that_lacks_an_option_is_told_the_command_as_it_is_typed(root):
    """`batch FOLDER`, as docs have it, with the options that are needed; also on the help page."""
    for words in (["hand_ins"], ["hand_ins", "--help"], ["run", "--help"]):
        told = " ".join(call(*words).output.split())
        assert " batch --assignment FILE --out DIR [OPTIONS] SUBMISSIONS" in told


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
