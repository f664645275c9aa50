"""A Ray that only pretends: actors whose calls a test answers."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

from grader.batch.seam import Work


class Call:
    """What a call of an actor will come to: an event, or an exception."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: dict[str, Any] | Exception = {}

    def say(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.done.set()


class Actor:
    """An actor whose calls wait until the test answers them; `up` is answered as its Ray says."""

    def __init__(self, ray: FakeRay) -> None:
        self._ray = ray
        self.calls: list[tuple[Work, Call]] = []
        self.killed = False
        self.up = self.grade = self

    def remote(self, work: Work | None = None) -> Call:
        call = Call()
        if work is None and self._ray.rising:
            return self._ray.rising.pop(0)
        if work is None:
            call.say(self._ray.answers.pop(0) if self._ray.answers else {"event": "up"})
        else:
            self.calls.append((work, call))
            self._ray.asked.put((self, work, call))
        return call


class FakeRay:
    """The part of Ray's module that the engine uses. `answers` are what the next actors say first, or, where
    `rising` has calls, what these are answered."""

    __version__ = "2.60.0"

    def __init__(self, *cpus: int, unreachable: Exception | None = None) -> None:
        self.cpus, self.unreachable = list(cpus), unreachable
        self.asked: SimpleQueue[tuple[Actor, Work, Call]] = SimpleQueue()
        self.actors: list[Actor] = []
        self.options_given: list[dict[str, Any]] = []
        self.begun: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.rising: list[Call] = []

    def init(self, **options: Any) -> None:
        if self.unreachable and options["address"] != "local":
            raise self.unreachable
        self.begun.append(options)

    def is_initialized(self) -> bool:
        return bool(self.begun)

    def shutdown(self) -> None:
        self.begun.clear()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": cpus > 0, "Resources": {"CPU": float(abs(cpus))}} for cpus in self.cpus]

    def remote(self, cls: type) -> Any:
        ray = self

        class Factory:
            def options(self, **options: Any) -> Factory:
                ray.options_given.append(options)
                return self

            def remote(self, *arguments: Any) -> Actor:
                ray.actors.append(actor := Actor(ray))
                return actor

        return Factory()

    def wait(self, calls: list[Call], num_returns: int, timeout: float) -> tuple[list[Call], list[Call]]:
        if timeout and not any(call.done.is_set() for call in calls):
            calls[0].done.wait(0.01)
        done = [call for call in calls if call.done.is_set()]
        return done, [call for call in calls if call not in done]

    def get(self, call: Call, timeout: float) -> dict[str, Any]:
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def kill(self, actor: Actor, no_restart: bool) -> None:
        actor.killed = no_restart
        for _, call in actor.calls:
            if not call.done.is_set():
                call.say(RuntimeError("The actor died unexpectedly.\nMore than one line."))
