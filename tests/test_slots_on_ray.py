"""Slots on Ray, with a Ray that only pretends; what Ray itself does is tried where it is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pytest

from grader.batch.seam import Event, Graded, Lost, Work
from grader.batch.slots import cluster
from grader.batch.slots.local import LocalEngine
from grader.batch.slots.ray import RayEngine
from grader.cli.batch.engines import engine_of, slots_for
from grader.grading.request import Machine
from grader.model.errors import UsageError
from tests.pretended_ray import Call, FakeRay

PATIENCE = 60.0
WIDEST = 4
ENDED = {"event": "ended", "sentence": "The process that grades has ended.", "log": b"its log", "gave_up": False}


def graded(unit: str) -> dict[str, Any]:
    return {"event": "graded", "unit": unit, "report": "{}", "runs": "", "log": "", "seconds": 2, "busy": 1, "cpu": 1}


def work(unit: str) -> Work:
    return Work(unit=unit, exercise="03_train_ddp", files=(), seed=1)


@pytest.fixture(autouse=True)
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody answers at every address."""
    monkeypatch.setattr(cluster, "check_answers", lambda address: None)


Opened = Callable[..., tuple[RayEngine, SimpleQueue[Event], tuple[str, ...]]]


@pytest.fixture
def opened() -> Iterator[Opened]:
    engines = []

    def make(ray: FakeRay, slots: int = 1) -> tuple[RayEngine, SimpleQueue[Event], tuple[str, ...]]:
        engine, events = RayEngine(Path(), Machine(cores=8), WIDEST, "head:6379", ray=ray), SimpleQueue[Event]()
        engines.append(engine)
        return engine, events, engine.open(slots, events)

    yield make
    for engine in engines:
        engine.close()


def test_an_actor_takes_the_widest_case_and_ray_repeats_nothing(opened: Opened) -> None:
    ray = FakeRay(8, 4)
    engine, events, names = opened(ray, slots=3)
    assert names == ("ray-1", "ray-2", "ray-3") and engine.room() == 3
    for options in ray.options_given:
        assert options["num_cpus"] == WIDEST and options["max_concurrency"] == 1
        assert options["max_restarts"] == options["max_task_retries"] == 0
    for unit in ("a", "b"):
        engine.send("ray-2", work(unit))
    for unit in ("a", "b"):
        ray.asked.get()[2].say(graded(unit))
        event = events.get(timeout=PATIENCE)
        assert isinstance(event, Graded) and (event.slot, event.unit) == ("ray-2", unit)


@pytest.mark.parametrize("how", [ENDED, RuntimeError("The actor died unexpectedly.\nMore than one line.")])
def test_a_slot_that_is_gone_is_lost_with_all_that_it_held(opened: Opened, how: Any) -> None:
    """The one that it graded comes first. Where there is no other slot, its successor is up before anybody hears of
    it."""
    ray = FakeRay(8)
    engine, events, (slot,) = opened(ray, slots=1)
    for unit in ("a", "b"):
        engine.send(slot, work(unit))
    actor, _, call = ray.asked.get()
    call.say(how)
    lost = events.get(timeout=PATIENCE)
    assert isinstance(lost, Lost) and (lost.slot, lost.units, lost.successor) == (slot, ("a", "b"), "ray-1.2")
    assert "ended" in lost.sentence or "died unexpectedly" in lost.sentence
    assert "\n" not in lost.sentence and actor.killed
    engine.send(slot, work("c"))
    assert isinstance(late := events.get(timeout=PATIENCE), Lost) and (late.units, late.successor) == (("c",), "")
    engine.send(lost.successor, work("a"))
    ray.asked.get()  # b, which the first actor never came to
    ray.asked.get()[2].say(graded("a"))
    assert isinstance(events.get(timeout=PATIENCE), Graded)


def test_what_a_lost_slot_held_does_not_wait_for_its_successor(opened: Opened) -> None:
    """A node that is gone has room in Ray's eyes for a while, and so a successor that does not come up; others are
    there to grade. Once it is up, it is told of without units."""
    ray = FakeRay(8)
    engine, events, (slot, _) = opened(ray, slots=2)
    ray.rising = [rising := Call()]
    engine.send(slot, work("a"))
    ray.asked.get()[2].say(RuntimeError("The node died."))
    lost = events.get(timeout=PATIENCE)
    assert isinstance(lost, Lost) and (lost.slot, lost.units, lost.successor) == (slot, ("a",), "")
    rising.say({"event": "up"})
    later = events.get(timeout=PATIENCE)
    assert isinstance(later, Lost) and (later.slot, later.units, later.successor) == (slot, (), "ray-1.2")


def test_the_last_slot_is_told_of_once_another_is_up(opened: Opened) -> None:
    """A driver without any slot would give up, so it is never left without one."""
    ray = FakeRay(8)
    engine, events, names = opened(ray, slots=2)
    ray.rising = [first, second] = [Call(), Call()]
    there, units = set(names), []
    for name, unit in zip(names, "ab", strict=True):
        engine.send(name, work(unit))
    for _ in names:
        ray.asked.get()[2].say(RuntimeError("The node died."))
    for call in (None, first, second):
        if call:
            call.say({"event": "up"})
        while len(units) < 2 if call is second else not units:
            lost = events.get(timeout=PATIENCE)
            assert isinstance(lost, Lost)
            there = there - {lost.slot} | ({lost.successor} - {""})
            units += lost.units
            assert there
    assert sorted(units) == ["a", "b"]


def test_where_a_node_is_gone_its_slot_has_no_successor(opened: Opened) -> None:
    """Nobody is to wait for an actor for which there is no room."""
    ray = FakeRay(4, 4)
    engine, events, (slot, _) = opened(ray, slots=2)
    engine.send(slot, work("a"))
    ray.cpus[0] = -4
    ray.asked.get()[2].say(RuntimeError("The node died."))
    lost = events.get(timeout=PATIENCE)
    assert isinstance(lost, Lost) and (lost.units, lost.successor) == (("a",), "") and len(ray.actors) == 2


def test_a_successor_that_does_not_come_up_is_none(opened: Opened) -> None:
    ray = FakeRay(8)
    engine, events, (slot,) = opened(ray)
    ray.answers.append(ENDED)
    engine.send(slot, work("a"))
    ray.asked.get()[2].say(ENDED)
    assert isinstance(lost := events.get(timeout=PATIENCE), Lost) and not lost.successor


def test_workers_that_give_up_again_and_again_have_an_end(opened: Opened) -> None:
    ray = FakeRay(8)
    engine, events, (slot,) = opened(ray)
    names = []
    while slot:
        names.append(slot)
        engine.send(slot, work("a"))
        ray.asked.get()[2].say({**ENDED, "gave_up": True})
        lost = events.get(timeout=PATIENCE)
        assert isinstance(lost, Lost)
        slot = lost.successor
    assert names == ["ray-1", "ray-1.2", "ray-1.3"]


def test_closing_kills_every_actor_and_nothing_more_is_said(opened: Opened) -> None:
    ray = FakeRay(8)
    engine, events, names = opened(ray, slots=2)
    engine.send(names[0], work("a"))
    engine.close()
    engine.close()
    assert all(actor.killed for actor in ray.actors) and not ray.is_initialized() and events.empty()


def test_without_a_cluster_one_is_started_here_with_room_for_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = FakeRay(unreachable=ConnectionError("no cluster"))
    engine = RayEngine(Path(), Machine(cores=2), WIDEST, ray=ray)
    assert engine.room() == 0
    engine.open(2, SimpleQueue())
    assert ray.begun[0]["address"] == "local" and ray.begun[0]["num_cpus"] == 2 * WIDEST
    engine.close()


@pytest.mark.parametrize("address", ["head:6379", ""])
def test_a_cluster_that_is_not_to_be_reached_is_one_sentence(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    engine = RayEngine(
        Path(), Machine(), WIDEST, address, ray=FakeRay(unreachable=ConnectionError("Could not\nconnect"))
    )
    with pytest.raises(UsageError, match=r"cannot be used \(Could not\)\. `ray status --address=") as raised:
        engine.room()
    assert "\n" not in str(raised.value)


def test_nodes_that_are_too_small_are_told() -> None:
    with pytest.raises(UsageError, match="No node of the Ray cluster has 4 CPUs"):
        RayEngine(Path(), Machine(), WIDEST, ray=FakeRay(2, 3)).room()


def test_where_no_slot_comes_up_the_first_says_why() -> None:
    ray = FakeRay(8)
    ray.answers = [{**ENDED, "sentence": "grader: bubblewrap is not installed."}] * 2
    with pytest.raises(UsageError, match="bubblewrap is not installed"):
        RayEngine(Path(), Machine(), WIDEST, ray=ray).open(2, SimpleQueue())
    assert all(actor.killed for actor in ray.actors) and not ray.is_initialized()


@pytest.mark.parametrize("found", [None, ModuleType("ray")])
def test_without_ray_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, found: ModuleType | None) -> None:
    """Python takes any folder of that name for a module, which has nothing in it."""
    monkeypatch.setitem(sys.modules, "ray", found)
    with pytest.raises(UsageError, match=r"pip install 'ranklings\[ray\]'"):
        slots_for(engine_of("ray", Path(), Machine(), WIDEST), None, Machine(), WIDEST)


def test_an_old_ray_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    old = FakeRay(8)
    monkeypatch.setattr(old, "__version__", "2.9.3", raising=False)
    monkeypatch.setitem(sys.modules, "ray", old)
    with pytest.raises(UsageError, match=r"2\.60 or newer; here is 2\.9\.3"):
        slots_for(engine_of("ray=head:6379", Path(), Machine(), WIDEST), None, Machine(), WIDEST)


def test_words_name_an_engine_and_its_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(cores=16)
    engine = engine_of("local", Path(), machine, WIDEST)
    assert isinstance(engine, LocalEngine) and slots_for(engine, None, machine, WIDEST) == 8
    monkeypatch.setitem(sys.modules, "ray", FakeRay(8, 5))
    engine = engine_of("ray=head:6379", Path(), machine, WIDEST)
    assert isinstance(engine, RayEngine) and slots_for(engine, None, machine, WIDEST) == 3
    assert slots_for(engine, 2, machine, WIDEST) == 2
    with pytest.raises(UsageError, match="room for 3 slots of 4 CPUs; 5 are too many"):
        engine.open(5, SimpleQueue())


def test_what_an_actor_imports_is_light() -> None:
    """No torch, no pytest and nothing that judges, in Ray's processes."""
    heavy = "{'torch', 'pytest', 'numpy', 'pydantic', 'grader.grading', 'grader.ranks', 'grader.model'}"
    code = f"import sys, grader.batch.slots.actor; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.one_in(4)
@pytest.mark.skipif(not getattr(importlib.util.find_spec("ray"), "origin", None), reason="Ray is not installed")
def test_on_ray_itself_a_killed_worker_is_replaced_and_nothing_is_left(tmp_path: Path) -> None:
    import psutil

    from tests import small

    root = small.build(tmp_path)
    source = (root / "reference" / small.NAME / "total.py").read_bytes()
    engine, events = RayEngine(root, Machine(cores=2), 2), SimpleQueue[Event]()
    one = Work(unit="a", exercise=small.NAME, files=(("total.py", source),), seed=1)
    try:
        (slot,) = engine.open(1, events)
        below = psutil.Process().children(recursive=True)
        next(each for each in below if "grader.batch.worker" in each.cmdline()).kill()
        engine.send(slot, one)
        lost = events.get(timeout=2 * PATIENCE)
        assert isinstance(lost, Lost)
        engine.send(lost.successor, one)
        assert isinstance(events.get(timeout=PATIENCE), Graded)
        below = psutil.Process().children(recursive=True)
    finally:
        engine.close()
    _, alive = psutil.wait_procs(below, timeout=PATIENCE)
    assert not alive
