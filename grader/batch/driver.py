"""The driver of a batch: one thread that hands units to slots, hears what became of them, and alone writes the ledger.

Each unit is executed at least once and recorded once. A lost slot costs its unit nothing but a second try, with the
same seed; a unit that loses two different workers is quarantined. Whatever ends the driver, the ledger has all that was
recorded, and the next round begins with what is left.
"""

from __future__ import annotations

import contextlib
import json
import queue
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

from grader.batch import pace, recording
from grader.batch.agenda import Agenda, Task, work_of
from grader.batch.ledger import Ledger
from grader.batch.pace import Progress
from grader.batch.recording import JUDGE, RUN, Settled
from grader.batch.room import Room
from grader.batch.row import Standing
from grader.batch.seam import Engine, Event, Graded, Lost, Refused
from grader.model.errors import RunError

TOGETHER = 256
"""Events that one commit records at most."""
TICK = 0.5
"""Seconds after which whoever watches is told again though nothing happened."""
WORKERS = 2
"""A unit that lost so many different workers is quarantined."""
IN_A_ROW = 50
"""So many faults without a grade between them stop a round: the machine is at fault, and no hand-in."""
FAULTY_BEGINNING = 8
"""The same where nothing at all was graded yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What there is of a unit: its verdict, if it has one."""

    final: bool
    checks: Mapping[str, str]
    flipped: tuple[str, ...] = ()


class Driver:
    """One round: the tasks of an agenda on the slots of an engine. `checks` has the folder of a course's own checks for
    each exercise that has some; `now` gives the time of day in seconds."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        agenda: Agenda,
        *,
        checks: Mapping[str, str],
        now: Callable[[], float],
        watch: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._ledger, self._engine, self._checks = ledger, engine, checks
        self._now, self._watch = now, watch
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._open = {task.unit: task for task in agenda.tasks}
        self._waiting = deque(agenda.tasks)
        self._room = Room(engine.depth)
        self._known: dict[str, _Known] = {}
        self._begun = 0.0
        self._faults, self._limit = 0, FAULTY_BEGINNING
        self.progress = Progress(
            units=agenda.units, tasks=len(agenda.tasks), slots=0, left=sum(task.seconds for task in agenda.tasks)
        )

    def run(self, slots: int) -> None:
        """Grade what is on the agenda. Raises UsageError where there are no slots to be had, RunError where the round
        cannot go on, and what interrupts it; what was recorded by then stays."""
        self._begun = self._now()
        try:
            self._ledger.set_facts([pace.fact(self.progress, self._begun)])
            for name in self._engine.open(slots, self._events) if self._open else ():
                self._add(name)
            self._limit = max(self._limit, 2 * len(self._room))
            while self._open:
                self._feed()
                self._hear()
                self._watch(self.progress)
        except KeyboardInterrupt:
            self._engine.close()
            with contextlib.suppress(queue.Empty):  # what is there already need not be done again
                self._settle(self._arrived(self._events.get_nowait()))
            raise
        except OSError as error:
            raise RunError(
                f"{self._ledger.folder} could not be used ({error.strerror or error}). What was recorded is kept; the "
                "same command goes on."
            ) from None
        finally:
            self._engine.close()
            self._ledger.store.forget()
            with contextlib.suppress(RunError):
                self._ledger.set_facts([pace.ended()])

    # ── handing out ──

    def _add(self, slot: str) -> None:
        self._room.add(slot)
        self.progress.slots = len(self._room)

    def _feed(self) -> None:
        """Give units to all slots that have room."""
        while self._waiting and (slot := self._room.take(len(self._waiting))) is not None:
            task = self._next()
            if task is None:
                self._room.put_back(slot)
                return
            self._room.give(slot, task.unit)
            self._engine.send(slot, work_of(self._ledger, task, self._checks.get(task.exercise, "")))

    def _next(self) -> Task | None:
        while self._waiting:
            task = self._waiting.popleft()
            if self._open.get(task.unit) is task:  # else somebody whom we had given up has graded it meanwhile
                return task
        return None

    # ── hearing ──

    def _hear(self) -> None:
        if not len(self._room):
            raise RunError("No slot is left to grade on. What was recorded is kept; the same command goes on.")
        with contextlib.suppress(queue.Empty):
            self._settle(self._arrived(self._events.get(timeout=TICK)))
        if self._faults >= self._limit:
            raise RunError(
                f"{self._faults} faults in a row without a grade: this machine or the grader is at fault, and no "
                "hand-in. What was recorded is kept; `batch status` has the last fault."
            )

    def _arrived(self, first: Event) -> list[Event]:
        """The event and those behind it, so that one commit serves them all."""
        events = [first]
        with contextlib.suppress(queue.Empty):
            while len(events) < TOGETHER:
                events.append(self._events.get_nowait())
        return events

    def _settle(self, events: Iterable[Event]) -> None:
        """Record what happened, in one transaction."""
        self._known.clear()
        settled = [one for event in events for one in self._settled(event)]
        if settled:
            recording.write(self._ledger, settled, [pace.fact(self.progress, self._begun)])

    def _settled(self, event: Event) -> list[Settled]:
        match event:
            case Graded():
                self._room.release(event.slot, event.unit)
                return self._graded(event)
            case Refused():
                self._room.release(event.slot, event.unit)
                return self._refused(event)
            case Lost():
                return self._lost(event)

    def _graded(self, event: Graded) -> list[Settled]:
        try:
            said = recording.told(event.report)
        except (LookupError, TypeError, ValueError) as error:
            sentence = f"The slot gave no report ({error})."
            return self._refused(Refused(slot=event.slot, unit=event.unit, sentence=sentence, log=event.log))
        task, now = self._open.get(event.unit), self._now()
        known = self._known_of(event.unit)
        if known is None:
            return []  # nobody has asked for it
        if task is None:
            return [self._compared(recording.late(self._ledger, event, RUN, now), known, said.checks)]
        if said.standing is Standing.BROKEN and (task.kind == JUDGE or known.final):
            return self._not_better(event, task, now)
        self._faults = 0 if said.standing is Standing.FINAL else self._faults + 1
        self._limit = IN_A_ROW + len(self._room) if said.standing is Standing.FINAL else self._limit
        settled = recording.graded(self._ledger, event, said, task.kind, now)
        self._close(task, said.standing)
        final = said.standing is Standing.FINAL
        self._known[event.unit] = _Known(final=final, checks=said.checks, flipped=known.flipped)
        return [self._compared(settled, known, said.checks)]

    def _not_better(self, event: Graded, task: Task, now: float) -> list[Settled]:
        """A grade that failed by the grader's fault where there is something better: a verdict that stays, or runs that
        lack what a check wants now, so that they have to be made."""
        settled = recording.late(self._ledger, event, task.kind, now)
        if task.verdict:
            self._close(task, Standing.BROKEN)
        else:
            self._again(task.to_be_run())
        return [settled]

    def _compared(self, settled: Settled, known: _Known, checks: Mapping[str, str]) -> Settled:
        """With what two verdicts of one unit differ in."""
        flips = recording.flipped(known.checks, checks) if known.final else ()
        if not flips:
            return settled
        self.progress.unstable += 1
        every = tuple(dict.fromkeys([*known.flipped, *flips]))
        changes: dict[str, Any] = {**settled.changes, "unstable": 1, "flipped": json.dumps(every)}
        return recording.changed(settled, changes)

    def _refused(self, event: Refused) -> list[Settled]:
        task = self._open.get(event.unit)
        if task is None:
            return []
        self._faults += 1
        settled = recording.refused(self._ledger, event, task.kind, self._now())
        if task.kind == JUDGE:
            self._again(task.to_be_run())
        else:
            self._close(task, Standing.BROKEN)
        return [recording.changed(settled, {}) if task.kind == JUDGE or task.verdict else settled]

    def _lost(self, event: Lost) -> list[Settled]:
        """The unit that the slot was grading has lost a worker, if that may be what ended it; what only waited there is
        as it was."""
        held = self._room.lose(event.slot)
        self.progress.slots = len(self._room)
        if event.successor:
            self._add(event.successor)
        tasks = [task for unit in held if (task := self._open.get(unit)) is not None]
        charged = tasks[0] if tasks and tasks[0].unit in event.units else None
        for task in reversed(tasks):
            if task is not charged:
                self._waiting.appendleft(task)
        self._faults += bool(tasks)
        self.progress.lost += bool(tasks)
        return [self._bereft(charged, event)] if charged else []

    def _bereft(self, task: Task, event: Lost) -> Settled:
        losses = task.losses + 1
        changes: dict[str, Any] = {"losses": losses}
        if losses < WORKERS:
            self._again(replace(task, losses=losses))
        else:
            self._close(task, Standing.QUARANTINED)
            if not task.verdict:
                changes |= {"standing": Standing.QUARANTINED.value, "sentence": event.sentence}
        log = self._ledger.store.put_compressed(event.log, ".log")
        return Settled(
            unit=task.unit,
            kind=task.kind,
            slot=event.slot,
            outcome="lost",
            at=self._now(),
            sentence=event.sentence,
            log=log,
            changes=changes,
        )

    # ── what is known of units ──

    def _again(self, task: Task) -> None:
        """Put a unit in front: it has waited already."""
        self._open[task.unit] = task
        self._waiting.appendleft(task)

    def _close(self, task: Task, standing: Standing) -> None:
        del self._open[task.unit]
        progress = self.progress
        progress.left, progress.done = progress.left - task.seconds, progress.done + task.seconds
        progress.graded += standing is Standing.FINAL
        progress.broken += standing is Standing.BROKEN
        progress.quarantined += standing is Standing.QUARANTINED

    def _known_of(self, unit: str) -> _Known | None:
        """The unit as the ledger has it, or as the events before this one have left it."""
        if unit in self._known:
            return self._known[unit]
        row = self._ledger.one("SELECT standing, checks, flipped FROM units WHERE unit = ?", [unit])
        if row is None:
            return None
        final = row["standing"] == Standing.FINAL.value
        return _Known(final=final, checks=json.loads(row["checks"]), flipped=tuple(json.loads(row["flipped"])))
