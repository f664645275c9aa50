"""A slot that takes another's place when that one has been told of already, as on Ray."""

from __future__ import annotations

from grader.batch.ledger import Ledger
from grader.batch.seam import Lost
from tests.batches import FakeEngine, a_class, batch, some


def test_a_successor_that_is_told_of_later_joins_in(tmp_path):
    """The unit went to the other slot at once, and has lost one worker, not two."""
    a_class(tmp_path, **some(6))
    engine = FakeEngine()

    def gone(slot, work):
        return Lost(slot=slot, units=(work.unit,), sentence="The node is gone.", log=b"")

    def late(slot, work):
        """Says so before it answers."""
        engine.events.put(Lost(slot="slot-0", units=(), sentence="", log=b"", successor="slot-0.2"))
        return engine.otherwise(slot, work)

    engine.answers = [gone, late]
    progress = batch(tmp_path, engine)
    assert progress.graded == 6 and progress.lost == 1 and progress.slots == 2
    assert {"slot-0", "slot-1", "slot-0.2"} == {slot for slot, _ in engine.sent}
    with Ledger(tmp_path / "out") as ledger:
        assert sorted(row["losses"] for row in ledger.all("SELECT losses FROM units")) == [0, 0, 0, 0, 0, 1]
