"""Slots on a Ray cluster: an actor each, which starts the same worker as everywhere and passes work on to it.

Ray is the extra `ray` of this project and is imported when it is asked for. Ray repeats nothing: no actor is
restarted and no call made again, for the driver decides that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from grader.batch.seam import Event, Lost, Work
from grader.batch.slots.cluster import actor_class, first_line, imported, started
from grader.batch.slots.local import BARREN, next_name, words_of
from grader.batch.slots.process import PROJECT, answer_of
from grader.grading.request import Machine
from grader.model.errors import UsageError

UP_SECONDS = 120.0
"""How long a slot may take until its worker is up: Ray starts a process, and that one another, which imports torch."""
FETCH_SECONDS = 60.0
"""How long a result may take to come from its node."""
LOOK_SECONDS = 0.2
"""How often the calls that were made meanwhile join those that are waited for."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Slot:
    """An actor, and the calls that it has not answered, in order, with their units. `barren` counts its predecessors
    that gave up, one after the other; `instead` is the loss of the slot whose place it is to take."""

    name: str
    actor: Any
    calls: dict[Any, str] = dataclasses.field(default_factory=dict)
    barren: int = 0
    instead: Lost | None = None
    until: float = 0.0


class RayEngine:
    """Slots that are actors (`seam.Engine`) of `widest` CPUs each, on the cluster at `address`; without one on a
    cluster that Ray finds by itself, or else on one that it starts here. `ray` is Ray's module, or a fake."""

    depth = 2

    def __init__(self, root: Path, machine: Machine, widest: int, address: str = "", *, ray: Any = None) -> None:
        self._root, self._widest, self._address, self._ray = root, widest, address, ray
        self._machine = dataclasses.replace(machine, sandbox="require")  # anybody who reaches Ray's ports runs code
        self._lock = threading.Lock()
        self._slots: dict[str, Slot] = {}
        self._rising: dict[Any, Slot] = {}
        """Slots whose workers come up, by the call that waits for it."""
        self._untold: list[Lost] = []
        """Slots that are gone while no other is up."""
        self._connected = self._own = self._closed = False
        self._waiting: threading.Thread | None = None

    def room(self) -> int:
        """How many slots the cluster has room for; 0 where Ray is still to be started here. Raises UsageError where Ray
        is missing or not to be reached, or no node is large enough."""
        self._connect()
        if self._own:
            return 0
        if not (room := self._room()):
            raise UsageError(
                f"No node of the Ray cluster has {self._widest} CPUs, as many as the widest case has ranks. "
                "Add larger nodes, or grade with --engine local."
            )
        return room

    def open(self, slots: int, events: SimpleQueue[Event]) -> tuple[str, ...]:
        """Start so many actors, and wait until their workers are up. Raises UsageError where none comes up, or there is
        no room for them."""
        if (room := self.room()) and slots > room:
            raise UsageError(f"The Ray cluster has room for {room} slots of {self._widest} CPUs; {slots} are too many.")
        if self._own:
            self._start_ray(address="local", num_cpus=slots * self._widest, include_dashboard=False)
        cores = max(1, self._machine.cores // slots) if self._own else self._widest
        self._words, self._events = words_of(self._root, self._machine, cores), events
        self._class = actor_class(self._ray)
        starting = [self._begun(f"ray-{number + 1}") for number in range(slots)]
        calls = [slot.actor.up.remote() for slot in starting]
        self._ray.wait(calls, num_returns=len(calls), timeout=UP_SECONDS)
        answers = [self._said(call, seconds=0) for call in calls]
        for slot, answer in zip(starting, answers, strict=True):
            if answer["event"] == "up":
                self._slots[slot.name] = slot
            else:
                self._kill(slot)
        if not self._slots:
            self.close()
            raise UsageError(f"No slot came up on the Ray cluster. {answers[0]['sentence']}")
        self._waiting = threading.Thread(target=self._wait, daemon=True)
        self._waiting.start()
        return tuple(self._slots)

    def send(self, slot: str, work: Work) -> None:
        with self._lock:
            if (one := self._slots.get(slot)) is not None:
                one.calls[one.actor.grade.remote(work)] = work.unit
                return
        self._events.put(Lost(slot=slot, units=(work.unit,), sentence="The slot had ended before.", log=b""))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            slots, self._slots, self._rising = [*self._slots.values(), *self._rising.values()], {}, {}
        for slot in slots:
            self._kill(slot)
        if self._waiting is not None:  # every call is over now, so it is not kept; it must not ask Ray any more
            self._waiting.join(timeout=FETCH_SECONDS)
        if self._connected and self._ray.is_initialized():
            self._ray.shutdown()
        self._connected = False

    # ── Ray ──

    def _connect(self) -> None:
        if self._connected or self._own:
            return
        self._ray = self._ray or imported()
        try:
            self._start_ray(address=self._address or "auto")
        except UsageError as error:
            if self._address or os.environ.get("RAY_ADDRESS") or not isinstance(error.__cause__, ConnectionError):
                raise
            self._own = True

    def _start_ray(self, **options: Any) -> None:
        started(self._ray, **options)
        self._connected = True

    def _room(self) -> int:
        nodes = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        return sum(int(cpus // self._widest) for cpus in nodes)

    def _begun(self, name: str, **facts: Any) -> Slot:
        options = {"num_cpus": self._widest, "num_gpus": 1 if self._machine.device == "cuda" else 0}
        policy = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": 1, "scheduling_strategy": "SPREAD"}
        actor = self._class.options(**options, **policy).remote(str(PROJECT), self._words)
        return Slot(name=name, actor=actor, until=time.monotonic() + UP_SECONDS, **facts)

    def _kill(self, slot: Slot) -> None:
        """End the actor's process; its worker sees that its input is closed."""
        with contextlib.suppress(Exception):
            self._ray.kill(slot.actor, no_restart=True)

    def _said(self, call: Any, seconds: float = FETCH_SECONDS) -> dict[str, Any]:
        """What a call came to; that the slot has ended, where Ray has no answer."""
        try:
            return dict(self._ray.get(call, timeout=seconds))
        except Exception as error:
            sentence = f"The actor of this slot is gone ({first_line(error)})."
            return {"event": "ended", "sentence": sentence, "log": b"", "gave_up": False}

    # ── the thread that waits ──

    def _wait(self) -> None:
        while not self._closed:
            with self._lock:
                calls = [*self._rising, *(call for slot in self._slots.values() for call in slot.calls)]
            for call in self._done(calls):
                self._heard(call)
            for call, slot in list(self._rising.items()):
                if time.monotonic() > slot.until:
                    self._risen(call, {"event": "ended"})

    def _done(self, calls: Sequence[Any]) -> Sequence[Any]:
        if not calls:
            time.sleep(LOOK_SECONDS)
            return ()
        try:
            if not self._ray.wait(calls, num_returns=1, timeout=LOOK_SECONDS)[0]:
                return ()
            found: Sequence[Any] = self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]
        except Exception:  # Ray itself is gone: each call then says so
            return calls
        return found

    def _heard(self, call: Any) -> None:
        if call in self._rising:
            self._risen(call, self._said(call))
            return
        slot = next((slot for slot in list(self._slots.values()) if call in slot.calls), None)
        if slot is None:
            return  # a call of a slot that has ended before
        said = self._said(call)
        answer = answer_of(slot.name, said)
        with self._lock:
            if self._closed:
                return
            if answer is not None:
                del slot.calls[call]
                slot.barren = 0
                self._events.put(answer)
                return
            del self._slots[slot.name]
        self._kill(slot)
        self._replace(slot, said)

    def _replace(self, slot: Slot, said: dict[str, Any]) -> None:
        """Let another slot come up, if there is room for one, and tell that this one is lost."""
        lost = Lost(slot=slot.name, units=tuple(slot.calls.values()), sentence=said["sentence"], log=said["log"])
        barren = slot.barren + 1 if said["gave_up"] else 0
        try:
            has_room = self._own or self._room() > len(self._slots) + len(self._rising)
            if barren < BARREN and has_room:
                successor = self._begun(next_name(slot.name), barren=barren, instead=lost)
                with self._lock:
                    self._rising[successor.actor.up.remote()] = successor
        except Exception as error:
            lost = dataclasses.replace(lost, sentence=f"{lost.sentence} Ray does not answer: {first_line(error)}")
        with self._lock:
            self._untold.append(lost)
        self._tell_lost()

    def _tell_lost(self) -> None:
        """Tell of slots that are lost where another one is up, or none will be. What they held must not wait for their
        successors: Ray takes a node for one with room for a while after it is gone."""
        with self._lock:
            if self._slots or not self._rising:
                untold, self._untold = self._untold, []
                for lost in untold:
                    self._events.put(lost)

    def _risen(self, call: Any, said: dict[str, Any]) -> None:
        """A successor is up, or will never be."""
        with self._lock:
            slot = self._rising.pop(call, None)
            if slot is None or slot.instead is None or self._closed:
                return
            if is_up := said["event"] == "up":
                self._slots[slot.name] = slot
                self._events.put(self._succeeded(slot.instead, slot.name))
        if not is_up:
            self._kill(slot)
        self._tell_lost()

    def _succeeded(self, lost: Lost, successor: str) -> Lost:
        """What tells of a successor: the loss itself where nobody has heard of it, else the same without units."""
        if lost in self._untold:
            self._untold.remove(lost)
            return dataclasses.replace(lost, successor=successor)
        return dataclasses.replace(lost, units=(), successor=successor)
