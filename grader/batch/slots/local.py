"""Slots on this machine: a worker process each, a thread that hears it and one that speaks to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from grader.batch.seam import Event, Graded, Lost, Refused, Work
from grader.batch.slots.process import LEAVING_SECONDS, WorkerProcess, answer_of
from grader.grading.request import Machine
from grader.model.errors import RunError, UsageError
from grader.ranks.sandbox import level_for

BARREN = 3
"""So many workers of a slot, one after the other, may fail to come up; then it has no successor."""
GONE = "The process that grades had ended before."
Starting = Callable[[], WorkerProcess]


def slots_for(cores: int, widest: int) -> int:
    """How many slots a machine takes: the ranks of two of its widest cases share a core each, for ranks mostly wait
    for one another, and what a slot does between its runs is the others' time."""
    return max(1, 2 * cores // max(2, widest), min(2, cores))


def words_of(root: Path, machine: Machine, cores: int) -> list[str]:
    """The arguments of a worker that may use so many cores."""
    chosen = {
        "--root": str(root.absolute()),
        "--cores": str(max(1, cores)),
        "--device": machine.device,
        "--sandbox": machine.sandbox,
        "--start-method": machine.start_method,
        **({"--rank-user": machine.rank_user} if machine.rank_user else {}),
    }
    return [word for pair in chosen.items() for word in pair]


class LocalEngine:
    """Slots that are processes of this machine (`seam.Engine`). `program` starts another worker than ours."""

    depth = 1

    def __init__(self, root: Path, machine: Machine, program: Sequence[str] = ()) -> None:
        self._root, self._machine, self._program = root, machine, program
        self._slots: dict[str, Slot] = {}
        self._lock = threading.Lock()
        self._closed = False

    def open(self, slots: int, events: SimpleQueue[Event]) -> tuple[str, ...]:
        """Start so many slots. Raises UsageError where the isolation that was asked for cannot be had."""
        try:
            level_for(self._machine.sandbox)
        except RunError as error:
            raise UsageError(str(error)) from None
        words = words_of(self._root, self._machine, self._machine.cores // slots)

        def start() -> WorkerProcess:
            return WorkerProcess(words, self._program)

        names = tuple(f"local-{number + 1}" for number in range(slots))
        for name in names:
            self._begin(Slot(name, start, events, self._begin))
        return names

    def send(self, slot: str, work: Work) -> None:
        self._slots[slot].send(work)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        slots = list(self._slots.values())
        for slot in slots:
            slot.hang_up()
        until = time.monotonic() + LEAVING_SECONDS
        for slot in slots:
            slot.close(until - time.monotonic())

    def _begin(self, slot: Slot) -> bool:
        """Start a slot and keep it, unless no more are wanted."""
        with self._lock:
            if not self._closed:
                self._slots[slot.name] = slot
                slot.start()
            return not self._closed


class Slot:
    """A worker, and what it is sent: that is kept here until the worker is ready. One that ends before is started anew;
    the end of one that was ready is the slot's, and `begin` is given the next slot."""

    def __init__(
        self, name: str, starting: Starting, events: SimpleQueue[Event], begin: Callable[[Slot], bool], barren: int = 0
    ) -> None:
        self.name = name
        self._starting, self._events, self._begin, self._barren = starting, events, begin, barren
        self._lock = threading.Lock()
        """Held where units come, go or are lost."""
        self._units: list[str] = []
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._ready = threading.Event()
        self._left = self._over = False

    def start(self) -> None:
        self._worker = self._starting()
        for do in (self._hear, self._speak):
            threading.Thread(target=do, daemon=True).start()

    def send(self, work: Work) -> None:
        """Returns at once. One that comes too late is lost as well, in an event of its own."""
        with self._lock:
            if not self._over:
                self._units.append(work.unit)
                self._works.put(work)
                return
        self._events.put(Lost(slot=self.name, units=(work.unit,), sentence=GONE, log=b""))

    def hang_up(self) -> None:
        """Let the worker end; nothing that it still says is told."""
        with self._lock:
            self._left = True
            self._worker.hang_up()

    def close(self, seconds: float) -> None:
        self._worker.close(seconds)
        self._works.put(None)
        self._ready.set()

    # ── a thread that speaks ──

    def _speak(self) -> None:
        self._ready.wait()
        while work := self._works.get():
            self._worker.ask(work)

    # ── a thread that hears ──

    def _hear(self) -> None:
        for event in self._worker.events():
            if event.get("event") == "ready":
                self._ready.set()
            elif answer := answer_of(self.name, event):
                self._tell(answer)
        sentence, log = self._worker.last_words()
        if not self._ready.is_set() and self._started_again():
            self._hear()
        elif not self._left:
            self._end(sentence, log)

    def _tell(self, answer: Graded | Refused) -> None:
        with self._lock:
            if answer.unit not in self._units or self._left:
                return  # nobody asked for that
            self._units.remove(answer.unit)
            if isinstance(answer, Graded):
                self._barren = 0
            self._events.put(answer)

    def _started_again(self) -> bool:
        """Another worker in the place of one that never was ready. False where there have been enough of them."""
        with self._lock:
            self._barren += 1
            if self._left or self._barren >= BARREN:
                return False
            self._worker = self._starting()
            return True

    def _end(self, sentence: str, log: bytes) -> None:
        """Tell that the worker is gone. What it was never sent it cannot have lost by it, so that is refused; nor is it
        lost by a unit that the worker gave up for a fault of the machine."""
        with self._lock:
            self._over, units, self._units = True, tuple(self._units), []
        was_ready = self._ready.is_set()
        barren = self._barren + self._worker.gave_up if was_ready else BARREN
        successor = "" if barren >= BARREN else next_name(self.name)
        if not was_ready:
            for unit in units:
                self._events.put(Refused(slot=self.name, unit=unit, sentence=sentence, log=log))
        if not was_ready or self._worker.gave_up:
            units = ()
        if successor and not self._begin(Slot(successor, self._starting, self._events, self._begin, barren)):
            return  # all are about to be closed
        self._works.put(None)
        self._events.put(Lost(slot=self.name, units=units, sentence=sentence, log=log, successor=successor))


def next_name(name: str) -> str:
    """The name of a slot's successor: local-1, local-1.2, local-1.3."""
    first, _, number = name.partition(".")
    return f"{first}.{int(number or 1) + 1}"
