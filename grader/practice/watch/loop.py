"""Where events, the State and effects meet: the part that both faces of watch mode share."""

from __future__ import annotations

from collections.abc import Callable

from grader.model import Report
from grader.model.errors import GraderError
from grader.practice.watch.effects import Effects
from grader.practice.watch.nouns import Effect, Event, Notice, State
from grader.practice.watch.state import advance

OnReport = Callable[[Report], None]


class Loop:
    """Keeps the State and has its effects carried out. `on_report` hears each complete report once."""

    def __init__(self, state: State, effects: Effects, on_report: OnReport) -> None:
        self.state, self._effects, self._on_report = state, effects, on_report
        self._carry_out(state.effects)

    def handle(self, event: Event) -> State:
        """The State before the event; the one after it is `state`."""
        before = self.state
        self.state = advance(before, event)
        effects = self.state.effects
        if self.state.attempts > before.attempts and self.state.report:
            self._keep(self.state.report)
        self._carry_out(effects)
        return before

    def _keep(self, report: Report) -> None:
        """What keeps the progress may fail; that ends nothing."""
        try:
            self._on_report(report)
        except (GraderError, OSError) as error:
            self.state = advance(self.state, Notice(text=f"This attempt was not kept: {error}"))

    def _carry_out(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if event := self._effects.carry_out(effect):
                self.handle(event)
