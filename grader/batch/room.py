"""Which slots of an engine hold which units, and which of them has room for one more. Pure."""

from __future__ import annotations

from collections import deque


class Room:
    """The slots by name, each with the units that it was given, in order: it grades the first. `depth` is how many it
    may hold."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._held: dict[str, deque[str]] = {}
        self._free: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, slot: str) -> None:
        self._held[slot] = deque()
        self._free.append(slot)

    def lose(self, slot: str) -> list[str]:
        """The slot is gone: what it held."""
        return list(self._held.pop(slot, ()))

    def take(self, waiting: int) -> str | None:
        """A slot that has room while so many units wait, those that hold none first; None where none has. Towards the
        end no slot gets a second unit, for which others would be free sooner."""
        for _ in range(len(self._free)):
            slot = self._free.popleft()
            held = self._held.get(slot)
            if held is not None and (not held or waiting > len(self._held)):
                return slot
        return None

    def put_back(self, slot: str) -> None:
        """The slot that was taken was given nothing."""
        self._free.appendleft(slot)

    def give(self, slot: str, unit: str) -> None:
        held = self._held[slot]
        held.append(unit)
        if len(held) < self._depth:
            self._free.append(slot)

    def release(self, slot: str, unit: str) -> None:
        """The slot is done with a unit."""
        held = self._held.get(slot)
        if held is not None and unit in held:
            held.remove(unit)
            if slot not in self._free:
                self._free.append(slot)
