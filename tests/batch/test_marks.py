"""What becomes of a batch's marks: what changed and why, several batches as one, and gradebooks."""

from __future__ import annotations

import shutil
from pathlib import Path

from grader.batch import diff
from grader.batch.ledger import Ledger
from grader.render.json import render
from tests import reports
from tests.batches import (
    CHECKS,
    call,
    grade,
    graded,
    refusal,
    refused,
    report,
)


def change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def mend(folder: Path) -> None:
    """A check is mended: all is judged again."""
    change(folder, "exercises/90_total/checks.py", "the total", "the sum")


def failing(*failed: str):
    return lambda slot, work: graded(slot, work, report(work, *failed))


def whole(slot, work):
    """With a report as a grade writes it."""
    return graded(slot, work, render(reports.passed()).encode())


def changed(folder: Path) -> dict[str, diff.Change]:
    with Ledger(folder) as ledger:
        return {one.who: one for one in diff.changes(ledger, diff.since(ledger))}


# --- what changed -----------------------------------------------------------------------------------------------------


def test_a_mended_check_shows_whose_marks_change_and_which_check_flipped(root, engine):
    """Only those whose marks are other; identical hand-ins change together."""
    engine.otherwise = failing("same")
    grade()
    assert "nothing to compare with yet" in call("diff", "out").stdout
    mend(root)
    engine.otherwise = lambda slot, work: graded(
        slot, work, report(work, *(CHECKS[1:2] if b"2" in work.files[0][1] else ()))
    )
    grade()
    found = changed(root / "out")
    assert found.keys() == {"ada", "bob"}
    assert (found["ada"].before, found["ada"].after) == (7.0, 10.0)
    assert found["ada"].reasons == ("its checks.py changed",) and found["ada"].checks == ("same: failed → passed",)
    told = call("diff", "out").stdout
    assert "ada  90_total  7 → 10  its checks.py changed" in told and "2 marks are other" in told


def test_each_reason_for_another_mark_is_told(root, engine):
    """Another file, lateness, weight, a person who is new or gone."""
    (root / "hand_ins/tim").mkdir()
    engine.otherwise = failing("same")
    grade()
    (root / "hand_ins/ada/total.py").write_text("x = 99\n")
    shutil.rmtree(root / "hand_ins/eve")
    shutil.copytree(root / "hand_ins/bob", root / "hand_ins/zoe")
    change(root, "assignment.yaml", "weight: 10", "weight: 20")
    engine.otherwise = failing()
    grade()
    found = {who: one.reasons for who, one in changed(root / "out").items()}
    assert found["ada"] == ("another file was handed in", "its weight was 10 and is 20")
    assert found["bob"] == ("its weight was 10 and is 20",)
    assert found["eve"] == ("no longer among the hand-ins",) and found["zoe"] == ("handed in since",)


def test_marks_are_held_against_those_that_were_written_out(root, engine):
    """Also where only the standing has changed: what was broken has a mark now."""
    engine.answers, engine.otherwise = [refused], whole
    grade("--slots", 1)
    assert call("gradebook", "out", "--out", "marks.csv").exit_code == 3
    grade()
    found = changed(root / "out")
    assert {one.before for one in found.values()} == {None}
    assert {one.reasons for one in found.values()} == {("graded since",)}
    call("gradebook", "out", "--out", "marks.csv")
    assert "0 marks are other than in the marks that were written out last" in call("diff", "out").stdout


def test_two_batches_are_compared(root, engine):
    grade("--seed", 1)
    engine.otherwise = failing(*CHECKS)
    call("hand_ins", "--assignment", "assignment.yaml", "--out", "other", "--seed", 1)
    assert "3 marks are other than in the marks of other" in call("diff", "out", "other").stdout


# --- several become one -----------------------------------------------------------------------------------------------


def test_merged_shards_are_what_one_batch_would_have_been(root, engine):
    """And merging again adds nothing."""
    grade("--seed", 4)
    for number in (1, 2):
        call("hand_ins", "--assignment", "assignment.yaml", "--out", "parts", "--seed", 4, "--shard", f"{number}/2")
    for _ in range(2):
        assert "3 hand-ins (2 different ones): 2 graded" in call("merge", "parts").stdout
    with Ledger(root / "out") as whole, Ledger(root / "parts") as joined:
        told = [
            [(row.who, row.unit, row.standing, row.report()) for row in ledger.rows()] for ledger in (whole, joined)
        ]
        assert told[0] == told[1]
        assert joined.number("SELECT COUNT(*) FROM attempts") == 2
        assert joined.number("SELECT COUNT(*) FROM plans") == 1


def test_a_shard_that_planned_nothing_yet_is_named_and_the_others_are_joined(root, engine):
    """As one that was refused or killed at its very beginning."""
    Ledger(root / "out", shard="1-of-3", new=True).close()
    assert "holds no hand-ins yet" in refusal(call("merge", "out"))
    grade("--shard", "2/3", "--seed", 4)
    done = call("merge", "out")
    assert done.exit_code == 0 and "Not here yet: 1-of-3, 3-of-3. Without" in done.stderr
    with Ledger(root / "out") as joined, Ledger(root / "out", shard="2-of-3") as part:
        assert [row.unit for row in joined.rows()] == [row.unit for row in part.rows()]
    for number in (1, 3):
        grade("--shard", f"{number}/3")
    done = call("merge", "out")
    assert "Not here yet" not in done.stderr and "3 hand-ins (2 different ones): 2 graded" in done.stdout


def test_batches_of_other_machines_are_joined_with_their_files(root, engine):
    """The other folder may then go."""
    (root / "people.csv").write_text("hand_in,due\n")
    grade("--seed", 4, "--people", "people.csv")
    shutil.rmtree(root / "hand_ins/ada")
    (root / "hand_ins/zoe").mkdir()
    (root / "hand_ins/zoe/total.py").write_text("x = 5\n")
    engine.otherwise = failing("refuses")
    call("hand_ins", "--assignment", "assignment.yaml", "--out", "other", "--seed", 4)
    assert call("merge", "out", "other").exit_code == 0
    assert call("merge", "new", "out").exit_code == 0
    assert (root / "new/people.csv").read_text() == (root / "people.csv").read_text()
    shutil.rmtree(root / "other")
    with Ledger(root / "out") as ledger:
        rows = {row.who: row for row in ledger.rows()}
        assert rows.keys() == {"ada", "bob", "eve", "zoe"}
        assert rows["zoe"].report()["score"] == 70.0 and rows["zoe"].source_path.read_text() == "x = 5\n"
        assert rows["eve"].unstable and rows["eve"].flipped  # the other machine judged it otherwise


def test_what_cannot_be_joined_is_refused(root, engine):
    grade("--seed", 4)
    assert "holds no shards" in refusal(call("merge", "out"))
    call("hand_ins", "--assignment", "assignment.yaml", "--out", "seeded", "--seed", 5)
    assert "have different seeds: 4 and 5" in refusal(call("merge", "out", "seeded"))
    (root / "hand_ins/ada/total.py").write_text("x = 99\n")
    call("hand_ins", "--assignment", "assignment.yaml", "--out", "other", "--seed", 4)
    assert "ada handed in 90_total in two of these batches" in refusal(call("merge", "out", "other"))


# --- gradebooks -------------------------------------------------------------------------------------------------------


def test_a_gradebook_has_everybody_with_late_rules_and_leaves_out_who_has_no_mark(root, engine):
    """From real reports, as `grade --assignment` gives them."""
    engine.otherwise = whole
    grade()
    (root / "canvas.csv").write_text("Student,ID,SIS Login ID\nAda,1,ada\nBob,2,bob\n")
    done = call("gradebook", "out", "--format", "canvas", "--roster", "canvas.csv", "--out", "marks.csv")
    assert done.exit_code == 0 and "eve" in done.stderr
    rows = (root / "marks.csv").read_text().splitlines()
    assert rows[0].endswith("Homework") and rows[-1].startswith("Bob,2,bob,")
