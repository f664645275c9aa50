"""grader.ranks.inside: what a thread is seen to wait in, and which of torch's instruments are in use."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import torch.distributed as dist

from grader.ranks.inside import flight_recorder, waits


def test_the_flight_recorder_in_use_is_told(record_property: Any) -> None:
    """The name of the private function that this torch has. Without one, waits in C++ are not seen."""
    dump = flight_recorder.flight_recorder_dump()
    record_property("flight_recorder", getattr(dump, "__name__", "none"))
    assert dump is not None, "this torch has no Flight Recorder that we know: deadlocks in backward will time out"
    assert isinstance(flight_recorder.flight_recorder(), list)


@pytest.mark.parametrize("name", ["Work", "Store", "ProcessGroup"])
def test_the_classes_that_are_wrapped_are_public(name: str) -> None:
    """torch.distributed exports them."""
    assert isinstance(getattr(dist, name), type)


def test_a_torch_without_the_recorder_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entries, no error."""
    monkeypatch.setattr(flight_recorder, "flight_recorder_dump", lambda: None)
    assert flight_recorder.pending_collectives() == []


@pytest.mark.parametrize("answer", [TypeError("signature"), RuntimeError("empty")])
def test_a_recorder_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch, answer: Exception) -> None:
    """A private function may change its signature."""

    def dump(*_: object) -> bytes:
        raise answer

    monkeypatch.setattr(flight_recorder, "flight_recorder_dump", lambda: dump)
    assert flight_recorder.pending_collectives() == []


def test_only_unfinished_collectives_are_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo marks a finished one as retired, NCCL as completed; messages between two ranks are told elsewhere."""
    entry = {"profiling_name": "gloo:all_reduce", "process_group": ("1", "undefined"), "collective_seq_id": 4}
    entries = [
        {**entry, "retired": True},
        {**entry, "state": "completed"},
        {**entry, "is_p2p": True},
        {**entry, "state": "scheduled", "input_sizes": [[2]], "input_dtypes": ["Float"]},
    ]
    monkeypatch.setattr(flight_recorder, "flight_recorder", lambda: entries)
    (pending,) = flight_recorder.pending_collectives()
    assert (pending["operation"], pending["group"], pending["sequence"]) == ("all_reduce", "group 1", 4)


class Thread:
    """A thread that runs `body` until the block ends, as the recorder sees it."""

    def __init__(self, body: Any) -> None:
        self.go = threading.Event()
        self._thread = threading.Thread(target=body, args=(self,))

    def __enter__(self) -> Thread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self._thread.join()

    def state(self) -> str:
        own = {ident for ident in sys._current_frames() if ident != self._thread.ident}
        (only,) = waits.snapshot(self._thread.ident or 0, own, __file__)["threads"]
        return str(only["state"])


def test_a_thread_that_waits_for_an_event_without_end_is_passive() -> None:
    """It moves only if another thread does."""
    with Thread(lambda thread: thread.go.wait()) as thread:
        while thread.state() != "passive":
            pass


def test_a_thread_that_waits_with_a_limit_is_busy() -> None:
    """It will go on by itself."""
    with Thread(lambda thread: thread.go.wait(timeout=600)) as thread:
        while thread.state() != "busy":
            pass


def test_a_thread_that_computes_is_busy() -> None:
    """So its rank is never called deadlocked."""
    stop: list[bool] = []

    def compute(_: Thread) -> None:
        while not stop:
            pass

    with Thread(compute) as thread:
        while thread.state() != "busy":
            pass
        stop.append(True)


ODD = [{}, {"time_created_ns": "soon"}, {"time_created_ns": 1, "input_sizes": [["x"]]}, None]


@pytest.mark.parametrize("entry", ODD)
def test_a_recorder_that_tells_other_things_costs_no_rank_its_ending(entry, monkeypatch):
    """Its format is private to torch: then there is no history, and nothing is raised where every rank comes by."""
    monkeypatch.setattr(flight_recorder, "_recorded", lambda: {"entries": [entry], "pg_config": {"": {"ranks": "[0]"}}})
    assert flight_recorder.history(0, 1) is None


def test_without_a_recorder_the_history_is_empty(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_recorded", lambda: {})
    assert flight_recorder.history(0, 1) == {"communications": [], "spans": [], "complete": True}


@pytest.mark.parametrize(
    ("name", "description", "told"),
    [("0", "default_pg", "default"), ("1", "undefined", "group 1"), ("1", "", "group 1"), ("1", "tp", "tp")],
)
def test_a_group_is_called_by_its_description_where_it_has_one(name: str, description: str, told: str) -> None:
    assert flight_recorder.group_called(name, description) == told
