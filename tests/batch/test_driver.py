"""The driver of a batch over an engine that starts nothing: what is recorded, what is done again, what is given up."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.batch import recording
from grader.batch.ledger import Ledger
from grader.batch.plan import make
from grader.batch.room import Room
from grader.batch.seam import Lost
from grader.model.errors import RunError
from tests.batches import (
    FakeEngine,
    Killed,
    a_class,
    asked,
    batch,
    driven,
    graded,
    lost,
    marks,
    refused,
    report,
    right,
    some,
)


def units(folder):
    with Ledger(folder / "out") as ledger:
        return [dict(row) for row in ledger.all("SELECT * FROM units ORDER BY unit")]


def attempts(folder):
    with Ledger(folder / "out") as ledger:
        return [dict(row) for row in ledger.all("SELECT * FROM attempts ORDER BY id")]


def test_every_hand_in_is_graded_once_and_a_second_round_does_nothing(tmp_path):
    """Report, runs and log of each lie in the store under the keys that the ledger has."""
    a_class(tmp_path, **some(5))
    engine = FakeEngine()
    assert batch(tmp_path, engine).graded == 5 and len(engine.sent) == 5
    assert {standing for standing, _ in marks(tmp_path).values()} == {"final"}
    with Ledger(tmp_path / "out") as ledger:
        for row in ledger.rows():
            assert row.report()["seed"] == 7 and row.source_path.read_text().startswith("def total")
            assert ledger.store.path(attempts(tmp_path)[0]["log"]).is_file() and row.runs_path.is_file()
    second = FakeEngine()
    assert batch(tmp_path, second).tasks == 0 and not second.sent


def test_identical_files_run_once_and_count_for_all(tmp_path):
    """Two people, one unit; somebody who handed in nothing is graded too."""
    a_class(tmp_path, ada="x = 1\n", bob="x = 1\n", eve="x = 2\n")
    (tmp_path / "hand_ins/zoe").mkdir()
    engine = FakeEngine()
    batch(tmp_path, engine)
    assert len(engine.sent) == 3 and sorted(work.files == () for _, work in engine.sent) == [False, False, True]
    found = marks(tmp_path)
    assert found["ada"] == found["bob"] and len(found) == 4


def test_a_lost_slot_costs_its_unit_a_second_try_with_the_same_seed_elsewhere(tmp_path):
    a_class(tmp_path, ada="x = 1\n")
    engine = FakeEngine([lost])
    assert batch(tmp_path, engine, slots=1).graded == 1
    (first, work), (second, again) = engine.sent
    assert first != second and work == again
    assert [one["outcome"] for one in attempts(tmp_path)] == ["lost", "graded"]


def test_a_unit_that_loses_two_workers_is_quarantined_and_never_a_zero(tmp_path):
    """It has no mark, the next round leaves it alone, and --again broken tries it."""
    a_class(tmp_path, ada="x = 1\n", bob="x = 2\n")
    bad = b"x = 1\n"

    def poison(slot, work):
        return lost(slot, work) if work.files[0][1] == bad else right(slot, work)

    progress = batch(tmp_path, FakeEngine(otherwise=poison))
    assert (progress.graded, progress.quarantined, progress.units) == (1, 1, 2)
    assert marks(tmp_path)["ada"] == ("quarantined", None)
    assert batch(tmp_path).tasks == 0
    assert batch(tmp_path, again="broken").graded == 1


def test_a_loss_counts_also_where_the_driver_was_killed_between_two(tmp_path):
    a_class(tmp_path, ada="x = 1\n")

    def kill(progress):
        if progress.lost:
            raise Killed

    with pytest.raises(Killed):
        batch(tmp_path, FakeEngine([lost]), watch=kill)
    assert batch(tmp_path, FakeEngine([lost])).quarantined == 1


def test_a_worker_that_ends_for_no_unit_of_its_own_is_charged_to_none(tmp_path):
    """As where no host comes up on a machine: what the slot had goes to others, as often as it takes."""
    a_class(tmp_path, ada="x = 1\n")

    def gave_up(slot, work):
        return Lost(slot=slot, units=(), sentence="No host came up.", log=b"", successor=f"{slot}'")

    assert batch(tmp_path, FakeEngine([gave_up] * 3), slots=1).graded == 1
    assert [one["outcome"] for one in attempts(tmp_path)] == ["graded"]


def test_only_the_unit_that_a_lost_slot_was_grading_is_charged(tmp_path):
    """The one that waited there is as it was."""
    room = Room(depth=2)
    room.add("a")
    for unit in ("first", "second"):
        assert room.take(9) == "a"
        room.give("a", unit)
    assert room.take(9) is None
    assert room.lose("a") == ["first", "second"] and room.take(9) is None


def test_towards_the_end_no_slot_gets_a_second_unit(tmp_path):
    room = Room(depth=2)
    for slot in ("a", "b"):
        room.add(slot)
    room.give(room.take(3), "1")
    room.give(room.take(2), "2")
    assert room.take(1) is None
    room.release("b", "2")
    assert room.take(1) == "b"


def test_what_is_broken_has_no_mark_and_is_tried_again_by_the_next_round_alone(tmp_path):
    a_class(tmp_path, ada="x = 1\n", bob="x = 2\n", eve="x = 3\n")

    def unjudged(slot, work):
        return graded(slot, work, report(work, status="error"))

    progress = batch(tmp_path, FakeEngine([unjudged, refused]))
    assert (progress.graded, progress.broken) == (1, 2)
    assert [mark for standing, mark in marks(tmp_path).values() if standing == "broken"] == [None, None]
    engine = FakeEngine()
    assert batch(tmp_path, engine).graded == 2 and len(engine.sent) == 2


def test_a_late_duplicate_with_another_verdict_marks_the_unit_unstable(tmp_path):
    """The first verdict stays."""
    a_class(tmp_path, ada="x = 1\n")

    def twice(slot, work):
        engine.events.put(graded(slot, work, report(work)))
        return graded("lost long ago", work, report(work, "same"))

    engine = FakeEngine([twice])
    assert batch(tmp_path, engine).unstable == 1
    with Ledger(tmp_path / "out") as ledger:
        (row,) = ledger.rows()
        assert row.unstable and row.flipped == ("same",) and row.report()["score"] == 100.0
    assert [one["outcome"] for one in attempts(tmp_path)] == ["graded", "late"]


def test_again_failed_grades_what_failed_and_keeps_the_old_verdict_until_there_is_a_new_one(tmp_path):
    a_class(tmp_path, ada="x = 1\n", bob="x = 2\n")
    batch(tmp_path, FakeEngine([lambda s, w: graded(s, w, report(w, "sums")), lambda s, w: graded(s, w, report(w))]))
    before = marks(tmp_path)
    with pytest.raises(Killed):
        batch(tmp_path, FakeEngine([_dead]), again="failed")
    assert marks(tmp_path) == before
    engine = FakeEngine([lambda s, w: graded(s, w, report(w))])
    batch(tmp_path, engine, again="failed")
    assert len(engine.sent) == 1 and sorted(mark for _, mark in marks(tmp_path).values()) == [100.0, 100.0]
    assert sum(row["unstable"] for row in units(tmp_path)) == 1


def _dead(slot, work):
    raise Killed


def test_many_faults_without_a_grade_stop_the_round_and_quarantine_few(tmp_path):
    """A machine that cannot grade at all is not taken for twenty bad hand-ins."""
    a_class(tmp_path, **some(20))
    with pytest.raises(RunError, match="faults in a row without a grade"):
        batch(tmp_path, FakeEngine(otherwise=refused))
    assert sum(row["standing"] == "expected" for row in units(tmp_path)) >= 10
    assert batch(tmp_path).graded == 20


def test_a_round_without_slots_ends_with_a_sentence(tmp_path):
    a_class(tmp_path, ada="x = 1\n")

    def gone(slot, work):
        return Lost(slot=slot, units=(work.unit,), sentence="The node is gone.", log=b"")

    with pytest.raises(RunError, match="No slot is left"):
        batch(tmp_path, FakeEngine(otherwise=gone), slots=1)


def test_a_full_disk_ends_the_round_and_keeps_what_was_recorded(tmp_path, monkeypatch):
    a_class(tmp_path, **some(6))
    real, calls = recording.write, []

    def full(ledger, settled, *facts):
        calls.append(settled)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(ledger, settled, *facts)

    monkeypatch.setattr(recording, "write", full)
    with pytest.raises(RunError, match="No space left on device"):
        batch(tmp_path)
    monkeypatch.undo()
    assert sum(row["standing"] == "final" for row in units(tmp_path)) == 2
    assert batch(tmp_path).graded == 4


def test_a_key_is_told_only_when_its_file_is_whole(tmp_path):
    """A driver that is killed before it flushes leaves neither a key nor half a file under one."""
    a_class(tmp_path, ada="x = 1\n")
    batch(tmp_path)
    with Ledger(tmp_path / "out") as ledger:
        key = ledger.store.put(b"later", ".log")
        assert not ledger.store.path(key).exists()
        ledger.store.flush()
        assert ledger.store.read(key) == b"later"


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), slots=st.integers(1, 4), depth=st.integers(1, 2))
def test_a_driver_killed_at_any_moment_and_resumed_ends_with_the_same_marks(tmp_path_factory, seed, slots, depth):
    """Workers die, refuse and answer twice by a drawn schedule; the driver is killed before or after a drawn commit,
    up to four times. Nothing is lost, and nothing that was recorded changes."""
    folder, draw = a_class(tmp_path_factory.mktemp("class"), **some(9)), random.Random(seed)
    with Ledger(folder / "out", new=True) as ledger:
        planned = make(ledger, asked(folder), lambda: 1.0)
    real = recording.write

    def answer(slot, work):
        kind = draw.choice(["right"] * 6 + ["refused", "twice"])
        if kind == "twice":
            engine.events.put(right(slot, work))
        return refused(slot, work) if kind == "refused" else right(slot, work)

    recorded: dict[str, object] = {}
    for _ in range(4):
        engine, left = FakeEngine(otherwise=answer, depth=depth), draw.randrange(1, 6)
        before_it = draw.random() < 0.5

        def write(ledger, settled, before_it=before_it):
            nonlocal left
            left -= 1
            if left == 0 and before_it:
                raise Killed
            real(ledger, settled)
            if left == 0:
                raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recording, "write", write)
            with contextlib.suppress(Killed), Ledger(folder / "out") as ledger:
                driven(ledger, planned, engine, slots)
        now = {who: mark for who, (standing, mark) in marks(folder).items() if standing == "final"}
        assert recorded.items() <= now.items()
        recorded = now
    with Ledger(folder / "out") as ledger:
        driven(ledger, planned, FakeEngine(), slots)
    assert all(standing == "final" for standing, _ in marks(folder).values())
    undisturbed = a_class(tmp_path_factory.mktemp("undisturbed"), **some(9))
    batch(undisturbed)
    assert marks(folder) == marks(undisturbed)
    for row in units(folder):
        assert json.loads(row["checks"]) and not row["unstable"]


def test_a_reader_sees_whole_commits_while_the_driver_works(tmp_path):
    """`batch status` from another shell."""
    a_class(tmp_path, **some(6))
    seen = []

    def look(progress):
        with sqlite3.connect(tmp_path / "out/ledger.sqlite3") as other:
            seen.append(other.execute("SELECT COUNT(*) FROM units WHERE standing = 'final'").fetchone()[0])

    batch(tmp_path, watch=look)
    assert seen[-1] == 6 and seen == sorted(seen)
