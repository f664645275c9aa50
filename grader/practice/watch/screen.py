"""Watch mode on a whole screen, with textual. It paints the State and hands keys on; it decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import threading
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from grader import leaving
from grader.practice.watch import details, pages
from grader.practice.watch.loop import Loop
from grader.practice.watch.nouns import Chosen, Copy, Event, Key, Overlay, Quit, State

PRESSED = {
    "up": "up",
    "k": "up",
    "down": "down",
    "j": "down",
    "h": "hint",
    "n": "next",
    "p": "previous",
    "l": "list",
    "r": "rerun",
    "R": "replay",
    "x": "reset",
    "o": "report",
    "t": "trace",
    "e": "place",
    "question_mark": "help",
    "q": "quit",
    "y": "yes",
    "enter": "enter",
    "escape": "escape",
}
"""Keys by textual's names, and what the State knows them as."""


Queue = queue.SimpleQueue[Event | None]


class Happened(Message):
    """An event for the State, from whichever thread."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event


class Checks(Static):
    """The list of checks. A click selects one."""

    def on_click(self, click: events.Click) -> None:
        app = self.app
        assert isinstance(app, Screen)
        app.choose(click.y)


class Screen(App[None]):
    """The whole screen: a header, the checks, what is to be said of the selected one, and a line of keys."""

    CSS = """
    #header, #footer { height: auto; padding: 0 1; }
    #list { height: auto; max-height: 50%; margin: 1 0 0 0; padding: 0 1; }
    #details { height: 1fr; margin: 1 0 0 0; padding: 0 1; }
    #overlay { height: 1fr; padding: 0 1; margin: 1 0 0 0; display: none; }
    .short #list, .short #details, .short #overlay { margin: 0; }
    .short #list { max-height: 4; }
    .covered #list, .covered #details { display: none; }
    .covered #overlay { display: block; }
    VerticalScroll { scrollbar-size-vertical: 1; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
        Binding("pagedown,space", "scroll(1)", show=False, priority=True),
    ]
    SHORT = 18
    """Rows below which no line is left empty."""

    def __init__(self, loop: Loop, events: Queue) -> None:
        super().__init__()
        self.theme = "ansi-dark"  # the terminal's own colours, light or dark
        self.loop, self._events = loop, events
        self._shown: State | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="header", markup=False)
        with VerticalScroll(id="list", can_focus=False):
            yield Checks(id="checks", markup=False)
        with VerticalScroll(id="details", can_focus=False):
            yield Static(id="told", markup=False)
        with VerticalScroll(id="overlay", can_focus=False):
            yield Static(id="over", markup=False)
        yield Static(id="footer", markup=False)

    def on_mount(self) -> None:
        with contextlib.suppress(NotImplementedError, ValueError, AttributeError):  # not on Windows, not in a thread
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        threading.Thread(target=self._listen, daemon=True).start()
        self.paint()

    def _end(self, number: int) -> None:
        leaving.leave_soon(128 + number)  # a terminal that is gone may keep an orderly end waiting
        self.exit()

    def on_unmount(self) -> None:
        self._events.put(None)

    # ── what comes in ──

    def _listen(self) -> None:
        """Bring events from other threads here, in their order."""
        while (event := self._events.get()) is not None:
            self.post_message(Happened(event))

    def on_happened(self, message: Happened) -> None:
        self._handle(message.event)

    def on_key(self, key: events.Key) -> None:
        """Every key is the State's; one that it does not know may still close what lies over the rest."""
        self._handle(Key(name=PRESSED.get(key.key) or PRESSED.get(key.character or "", "other")))

    def choose(self, row: int) -> None:
        """Select the check in a row of the list."""
        rows = self.loop.state.ordered
        if 0 <= row < len(rows):
            self._handle(Chosen(check=rows[row].id))

    def on_resize(self) -> None:
        self._shown = None  # what is selected has to come into sight again
        self.call_after_refresh(self.paint)

    def action_leave(self) -> None:
        self.exit()

    def action_scroll(self, pages_down: int) -> None:
        over = self.loop.state.overlay is not Overlay.NONE
        area = self.query_one("#overlay" if over else "#details", VerticalScroll)
        area.scroll_relative(y=pages_down * max(1, area.size.height - 1), animate=False)

    def _handle(self, event: Event) -> None:
        self.loop.handle(event)
        for effect in self.loop.state.effects:
            if isinstance(effect, Copy):
                self.copy_to_clipboard(effect.text)
            if isinstance(effect, Quit):
                self.exit()
        self.paint()

    # ── what goes out ──

    def paint(self) -> None:
        """Show the State. What was scrolled stays where it was, unless another check was selected."""
        state, before = self.loop.state, self._shown
        self._shown = state
        wide = max(self.size.width - 2, 8)
        short = self.size.height < self.SHORT
        self.screen.set_class(short, "short")
        self.screen.set_class(state.overlay is not Overlay.NONE, "covered")
        self._write("#header", pages.header(state, wide, 1 if short else 2))
        self._write("#footer", pages.footer(state, wide))
        self._write("#checks", pages.checks(state, wide - 1))
        told = details.details(state, wide - 1)
        self._write("#told", told)
        self._write("#over", pages.overlay(state, wide - 1))
        self._follow(state, before, details.newest_hint(told))

    def _write(self, name: str, lines: list[Text]) -> None:
        self.query_one(name, Static).update(Text("\n").join(lines))

    def _follow(self, state: State, before: State | None, hint: int) -> None:
        """Bring what is selected, or a new hint, into sight; otherwise nothing is scrolled."""
        if before is None or _chosen(state) != _chosen(before):
            self.query_one("#details", VerticalScroll).scroll_home(animate=False)
        elif state.hints != before.hints:
            _show_row(self.query_one("#details", VerticalScroll), hint)
        if before is None or _index(state) != _index(before):
            _show_row(self.query_one("#list", VerticalScroll), _index(state))
        if state.overlay is Overlay.LIST and (
            before is None or state.cursor != before.cursor or not before.overlay.value
        ):
            _show_row(self.query_one("#overlay", VerticalScroll), state.cursor)


def _chosen(state: State) -> str:
    return state.selected.id if state.selected else ""


def _index(state: State) -> int:
    """The row of the selected check."""
    return state.ordered.index(state.selected) if state.selected else 0


def _show_row(area: VerticalScroll, row: int) -> None:
    """Scroll as little as it takes to have a row in sight, once it is there."""

    def scroll() -> None:
        top, high = round(area.scroll_y), area.scrollable_content_region.height
        if row < top:
            area.scroll_to(y=row, animate=False)
        elif high and row >= top + high:
            area.scroll_to(y=row - high + 1, animate=False)

    area.call_after_refresh(scroll)
