"""What a rank has told its supervisor so far, held against `model.budgets`."""

from __future__ import annotations

from collections.abc import Iterable

from grader.model import MIB, budgets
from grader.model.errors import WireError
from grader.records import wire


class OverBudget(Exception):
    """A rank has told more than it may. Its text is that of a limit: "observations: more than 32 MiB, at most …"."""


class Account:
    """One rank. `asked` counts the supervisor's questions; `cost` is what its observations take in memory, in bytes."""

    def __init__(self) -> None:
        self.asked = self.cost = self._observations = self._messages = 0
        self._seen: set[str] = set()

    def observe(self, frame: bytes) -> None:
        """An observation more. Raises OverBudget."""
        self._observations += 1
        self.cost += wire.cost(frame)
        if self._observations > budgets.OBSERVATIONS:
            raise OverBudget(f"observations: more than {budgets.OBSERVATIONS} of one rank")
        if self.cost > budgets.OBSERVED_BY_RANK:
            raise OverBudget(f"observations: more than {budgets.OBSERVED_BY_RANK // MIB} MiB of one rank")

    def see(self, name: str) -> None:
        """The rank asks to be seen once more. Raises OverBudget, WireError for a name that it has given before."""
        if name in self._seen:
            raise WireError(f"the name {name[:40]!r} for two looks at it")
        self._seen.add(name)
        if len(self._seen) > budgets.SEEN:
            raise OverBudget(f"looks from outside: more than {budgets.SEEN} at one rank")

    def answer(self) -> None:
        """A message more that is no observation. Raises OverBudget."""
        self._messages += 1
        if self._messages > budgets.MESSAGES_UNASKED + budgets.MESSAGES_A_QUESTION * self.asked:
            raise OverBudget(f"messages: {self._messages} of one rank, which was asked {self.asked} questions")


def require_affordable(costs: Iterable[int]) -> None:
    """All that the ranks of a run have sent, in bytes of memory. Raises OverBudget."""
    if sum(costs) > budgets.OBSERVED_BY_RUN:
        raise OverBudget(f"observations: more than {budgets.OBSERVED_BY_RUN // MIB} MiB of all ranks")
