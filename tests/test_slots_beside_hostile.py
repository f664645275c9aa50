"""Whoever is graded beside, before and after a hostile file gets the report that they would have got alone."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from grader.batch.seam import Event, Graded, Work
from grader.batch.slots.local import LocalEngine
from grader.grading.request import Machine
from tests import small

PATIENCE = 120.0
HOSTILE = {
    "floods": "while True:\n    print('x' * 100_000)\n",
    "forks": "import os, time\nfor _ in range(40):\n    if not os.fork():\n        time.sleep(os.setsid() or 900)\n",
    "fills": "with open('large', 'wb') as file:\n    while True:\n        file.write(bytes(2**20))\n",
    "kills": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "stops": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\n",
    "aborts": "import os\nos.abort()\n",
    "exits": "import os\nos._exit(0)\n",
}
MEASURED = ("seconds", "at_seconds", "witness")
"""What is measured or drawn in each run: times, and what the kernel counted, with the port that the run was given."""


def graded(
    engine: LocalEngine, slots: Sequence[str], events: SimpleQueue[Event], sources: Mapping[str, bytes]
) -> dict[str, Any]:
    """The reports of all sources in their order, as many at a time as there are slots."""
    waiting, found = deque(sources.items()), dict[str, Any]()

    def feed(slot: str) -> None:
        if waiting:
            unit, source = waiting.popleft()
            engine.send(slot, Work(unit=unit, exercise=small.NAME, files=(("total.py", source),), seed=7))

    for slot in slots:
        feed(slot)
    while len(found) < len(sources):
        event = events.get(timeout=PATIENCE)
        assert isinstance(event, Graded), event
        found[event.unit] = comparable(json.loads(event.report))
        feed(event.slot)
    return found


def comparable(value: Any) -> Any:
    """A report without what is measured."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in MEASURED}
    return [comparable(item) for item in value] if isinstance(value, list) else value


@pytest.mark.one_in(6)
def test_neighbours_of_hostile_files_get_the_reports_that_they_get_alone(tmp_path: Path) -> None:
    root = small.build(tmp_path)
    right = (root / "reference" / small.NAME / "total.py").read_bytes()
    mine = {"right": right, "wrong": right.replace(b"    dist.all_reduce(result)\n", b""), "empty": b""}
    beside: dict[str, bytes] = {}
    for name, source in HOSTILE.items():
        beside |= {name: source.encode(), **{f"{unit} beside {name}": mine[unit] for unit in ("right", "wrong")}}
    engine, events = LocalEngine(root, Machine(cores=2)), SimpleQueue[Event]()
    try:
        slots = engine.open(2, events)
        alone = graded(engine, slots[:1], events, mine)
        found = graded(engine, slots, events, beside)
    finally:
        engine.close()
    for unit, report in found.items():
        kind = unit.partition(" ")[0]
        if kind in mine:
            assert report == alone[kind], unit
        else:
            assert report["score"] == 0, unit
