"""Where events, the State and orders meet: the part that both faces of watch mode share."""

from __future__ import annotations

from collections.abc import Callable

from grader.model import Report
from grader.model.errors import GraderError
from grader.practice.watch.hands import Hands
from grader.practice.watch.nouns import Event, Order, State, Told
from grader.practice.watch.state import advance

OnReport = Callable[[Report], None]


class Desk:
    """Keeps the State and has its orders carried out. `on_report` hears each complete report once."""

    def __init__(self, state: State, hands: Hands, on_report: OnReport) -> None:
        self.state, self._hands, self._on_report = state, hands, on_report
        self._carry_out(state.orders)

    def handle(self, event: Event) -> State:
        """The State before the event; the one after it is `state`."""
        before = self.state
        self.state = advance(before, event)
        orders = self.state.orders
        if self.state.attempts > before.attempts and self.state.report:
            self._keep(self.state.report)
        self._carry_out(orders)
        return before

    def _keep(self, report: Report) -> None:
        """What keeps the progress may fail; that ends nothing."""
        try:
            self._on_report(report)
        except (GraderError, OSError) as error:
            self.state = advance(self.state, Told(text=f"This attempt was not kept: {error}"))

    def _carry_out(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            self._hands.carry_out(order)
