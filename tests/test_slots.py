"""Slots of this machine: what a worker does to its slot, with one that only pretends, and the real one once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from grader import catalog
from grader.batch import worker
from grader.batch.seam import Event, Graded, Lost, Refused, Work
from grader.batch.slots import local
from grader.batch.slots.local import LocalEngine, slots_for
from grader.batch.slots.process import answer_of
from grader.grading.request import Machine
from grader.model.errors import UsageError
from grader.records import reading, recording
from tests import small

PATIENCE = 60.0
PRETENDER = """\
import base64, json, os, signal, sys

mode, starts = sys.argv[1:3]
with open(starts, "a") as file:
    file.write("started\\n")
if mode == "broken":
    sys.exit("no torch here")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def say(**event):
    print(json.dumps(event), flush=True)


print("this is no event", flush=True)
say(event="ready")
for line in sys.stdin:
    command = json.loads(line)
    unit, log = command["unit"], "worked on " + command["unit"]
    print(log, file=sys.stderr, flush=True)
    match command["exercise"]:
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "gives_up":
            say(event="refused", unit=unit, sentence="no rank came up", log=log)
            sys.exit(3)
        case "refuses":
            say(event="refused", unit=unit, sentence="not today", log=log)
        case _:
            say(event="graded", unit="nobody's", report="", runs="", log="", seconds=0, busy=0, cpu=0)
            content = base64.b64decode(command["files"][0][1])
            say(event="graded", unit=unit, report=f"{content!r} {command['seed']}", seconds=2, busy=1, cpu=0.5,
                runs=base64.b64encode(b"runs").decode(), log=log)
if mode == "stubborn":
    signal.pause()
"""
Opened = Callable[..., tuple[LocalEngine, SimpleQueue[Event], tuple[str, ...]]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens an engine whose workers pretend, in a mode: none, "broken" (they never come up) or "stubborn"."""
    engines = []

    def make(mode: str = "", slots: int = 1) -> tuple[LocalEngine, SimpleQueue[Event], tuple[str, ...]]:
        script = tmp_path / "pretender.py"
        script.write_text(PRETENDER)
        program = (sys.executable, "-I", "-S", str(script), mode, str(tmp_path / "starts"))
        engine, events = LocalEngine(tmp_path, Machine(cores=2, sandbox="off"), program), SimpleQueue[Event]()
        engines.append(engine)
        return engine, events, engine.open(slots, events)

    yield make
    for engine in engines:
        engine.close()


def children() -> set[psutil.Process]:
    """All that is below this process; other tests have warm sessions of theirs."""
    return set(psutil.Process().children(recursive=True))


def work(unit: str, exercise: str = "grades") -> Work:
    return Work(unit=unit, exercise=exercise, files=(("a.py", b"\x00\xff"),), seed=7)


def test_each_slot_gives_back_the_units_that_it_was_sent(opened: Opened) -> None:
    """And nothing that nobody asked for, nor lines that are no event."""
    engine, events, (first, second) = opened(slots=2)
    engine.send(first, work("a"))
    engine.send(second, work("b", "refuses"))
    got = sorted((events.get(timeout=PATIENCE) for _ in range(2)), key=lambda event: event.slot)
    assert got == [
        Graded(slot=first, unit="a", report=b"b'\\x00\\xff' 7", runs=b"runs", log=b"worked on a",
               seconds=2.0, busy=1.0, cpu=0.5),
        Refused(slot=second, unit="b", sentence="not today", log=b"worked on b"),
    ]  # fmt: skip
    assert events.empty()


@pytest.mark.parametrize("how", ["dies", "stops"])
def test_a_worker_that_dies_loses_its_unit_and_has_a_successor(opened: Opened, how: str) -> None:
    """One that was stopped by a signal would never answer, so it is ended."""
    engine, events, (slot,) = opened()
    engine.send(slot, work("a", how))
    lost = events.get(timeout=PATIENCE)
    assert isinstance(lost, Lost) and (lost.slot, lost.units, lost.successor) == (slot, ("a",), "local-1.2")
    assert "signal 9" in lost.sentence and b"worked on a" in lost.log
    engine.send(lost.successor, work("a"))
    assert isinstance(graded := events.get(timeout=PATIENCE), Graded) and graded.slot == lost.successor


def test_what_is_sent_to_a_slot_that_is_gone_is_lost_as_well(opened: Opened) -> None:
    engine, events, (slot,) = opened()
    engine.send(slot, work("a", "dies"))
    events.get(timeout=PATIENCE)
    engine.send(slot, work("b"))
    late = events.get(timeout=PATIENCE)
    assert isinstance(late, Lost) and (late.units, late.successor) == (("b",), "")


def test_a_machine_on_which_no_worker_comes_up_loses_no_unit(opened: Opened, tmp_path: Path) -> None:
    """It was never sent: it is refused, and the slot ends without a successor."""
    engine, events, (slot,) = opened("broken")
    engine.send(slot, work("a"))
    told = [events.get(timeout=PATIENCE) for _ in range(2)]
    if isinstance(told[0], Lost):  # it had ended before anything was sent
        told.reverse()
    else:
        assert isinstance(told[0], Refused) and "no torch here" in told[0].sentence
    assert isinstance(told[1], Lost) and not told[1].successor
    assert (tmp_path / "starts").read_text().count("started") == local.BARREN


def test_a_slot_whose_workers_give_up_again_and_again_has_an_end(opened: Opened) -> None:
    """Else it would eat up one unit after the other."""
    engine, events, (slot,) = opened()
    for number in range(local.BARREN):
        engine.send(slot, work(str(number), "gives_up"))
        assert isinstance(events.get(timeout=PATIENCE), Refused)
        lost = events.get(timeout=PATIENCE)
        assert isinstance(lost, Lost) and not lost.units
        slot = lost.successor
    assert not slot


def test_closing_ends_every_worker_and_says_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that does not want to."""
    monkeypatch.setattr(local, "LEAVING_SECONDS", 0.1)
    before = children()
    engine, events, names = opened("stubborn", slots=2)
    for name in names:
        engine.send(name, work(name))
        events.get(timeout=PATIENCE)
    mine = children() - before
    assert len(mine) == 2
    engine.close()
    engine.close()
    assert not any(child.is_running() for child in mine) and events.empty()


def test_isolation_that_cannot_be_had_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.ranks.sandbox.obstacle", lambda: "bubblewrap is not installed")
    with pytest.raises(UsageError, match="bubblewrap is not installed"):
        LocalEngine(Path(), Machine(cores=2, sandbox="require")).open(1, SimpleQueue())


@pytest.mark.parametrize(
    "event", [{}, {"event": "ready"}, {"event": "graded", "log": ""}, {"event": "refused", "log": 3, "unit": "a"}]
)
def test_an_event_that_tells_of_no_unit_is_none(event: dict[str, object]) -> None:
    assert answer_of("local-1", event) is None


@pytest.mark.parametrize(
    "command", [{}, {"do": "quit"}, {"do": "grade"}, {"do": "grade", "unit": "a", "files": [["a.py", "%"]]}]
)
def test_a_command_that_asks_for_no_grade_is_none(command: dict[str, object]) -> None:
    assert worker.work_of(command) is None


def test_two_cores_have_two_slots_and_many_have_some_for_each_wide_case() -> None:
    assert [slots_for(cores, 4) for cores in (1, 2, 4, 16, 64)] == [1, 2, 2, 8, 32]


# ── the real one ──


def test_the_worker_grades_one_unit_after_another_and_leaves_nothing(tmp_path: Path) -> None:
    """A right file, a wrong one, none, and an exercise that is not there."""
    root = small.build(tmp_path)
    right = (root / "reference" / small.NAME / "total.py").read_bytes()
    wrong = right.replace(b"    dist.all_reduce(result)\n", b"")
    engine, events, before = LocalEngine(root, Machine(cores=2)), SimpleQueue[Event](), children()
    (slot,) = engine.open(1, events)
    works = [
        Work(unit=unit, exercise=exercise, files=files, seed=7)
        for unit, exercise, files in [
            ("right", small.NAME, (("total.py", right),)),
            ("wrong", small.NAME, ((f"{small.NAME}/total.py", wrong),)),
            ("none", small.NAME, (("other.py", right),)),
            ("unknown", "91_nothing", (("total.py", right),)),
            ("again", small.NAME, (("total.py", right),)),
        ]
    ]
    got = {}
    try:
        for one in works:
            engine.send(slot, one)
            got[one.unit] = events.get(timeout=2 * PATIENCE)
        below = children() - before
    finally:
        engine.close()
    assert below and not [one for one in below if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    refused = got.pop("unknown")
    assert isinstance(refused, Refused) and "91_nothing" in refused.sentence
    graded = {unit: event for unit, event in got.items() if isinstance(event, Graded)}
    assert len(graded) == 4
    outcomes = {unit: [c["status"] for c in json.loads(event.report)["checks"]] for unit, event in graded.items()}
    assert outcomes == {
        "right": ["passed"] * 3,
        "wrong": ["failed", "blocked", "passed"],
        "none": ["failed", "blocked", "blocked"],
        "again": ["passed"] * 3,
    }
    _check_kept(graded["right"], root, tmp_path)
    report = reading.report_of(json.loads(graded["none"].report))
    assert report.submission.problem and report.submission.problem.actual == "What was handed in holds no total.py."


def _check_kept(graded: Graded, root: Path, folder: Path) -> None:
    path = folder / "runs.gz"
    path.write_bytes(graded.runs)
    seed, runs = recording.load(path, exercise := catalog.load(small.NAME, root))
    assert seed == 7 and [run.case.id for run in runs][1:] == [*(case.id for case in exercise.cases)]
    assert graded.busy == pytest.approx(sum(run.seconds for run in runs)) and graded.seconds > 0 and graded.cpu > 0
    assert graded.log.startswith(b"unit right: 90_total, seed 7")
    for damaged in (graded.runs[:-9], graded.runs[:20] + b"\xff" * 9 + graded.runs[29:]):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match="cut short or damaged"):
            recording.load(path, exercise)
