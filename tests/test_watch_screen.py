"""Watch mode's screen in textual's own pilot, with a fake worker: keys, narrow screens, verdicts that stream in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot

from grader.practice.watch.nouns import Overlay
from grader.practice.watch.screen import Screen
from grader.practice.watch.state import Phase, State
from tests import reports, small
from tests.watching import STUCK, FakeWorker, Office, file_of

PATIENCE = 20.0
CHECKS = [
    {"id": "sums", "title": "All ranks get the sum", "points": 50.0},
    {"id": "same", "title": "All ranks agree bit for bit", "points": 30.0},
    {"id": "refuses", "title": "A value that is no tensor raises TypeError", "points": 20.0},
]


@dataclass
class View:
    """The screen under test."""

    office: Office
    app: Screen
    pilot: Pilot[None]

    @property
    def state(self) -> State:
        return self.office.loop.state

    @property
    def worker(self) -> FakeWorker:
        return self.office.worker

    @property
    def text(self) -> str:
        """What stands on the screen, row by row."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait for something to come true; events come from other threads."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not holds():
            assert asyncio.get_running_loop().time() < end, self.text
            await self.pilot.pause(0.01)
        await self.pilot.pause()

    async def sees(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text for text in texts))

    async def began(self) -> None:
        self.worker.say("ready")
        self.worker.say("began", seed=7, checks=CHECKS, cases=["sum[1]", "sum[2]", "bad[1]"])
        await self.sees("running 3 cases")

    async def verdict(self, check: str, outcome: str, message: str = "") -> None:
        self.worker.say("verdict", check=check, outcome=outcome, score=0.0, message=message)
        await self.until(lambda: any(row.id == check and row.outcome == outcome for row in self.state.rows))


@asynccontextmanager
async def viewed(root: Path, size: tuple[int, int] = (100, 30)) -> AsyncIterator[View]:
    office = Office(root)
    app = Screen(office.loop, office.events)
    try:
        async with app.run_test(size=size) as pilot:
            view = View(office, app, pilot)
            await view.sees("starting")
            yield view
    finally:
        office.effects.close()


def check_of(root: Path, test: Callable[[View], Any], size: tuple[int, int] = (100, 30)) -> None:
    async def run() -> None:
        async with viewed(root, size) as view:
            await test(view)

    asyncio.run(run())


def test_verdicts_stream_in_and_what_fails_goes_to_the_top(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        await view.verdict("sums", "passed")
        await view.verdict("refuses", "failed", "expected TypeError, got None")
        await view.sees("✗ A value that is no tensor", "expected TypeError, got None", "50/100 points")
        rows = [line for line in view.text.splitlines() if "0/" in line or "✓" in line]
        assert view.text.index("✗ A value") < view.text.index("✓ All ranks get"), rows

    check_of(tmp_path, test)


def test_a_save_during_a_grade_calls_it_off(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        file_of(tmp_path).write_text("def total(value):\n    return value\n")
        await view.until(lambda: view.worker.commands[-1] == {"do": "cancel"})
        await view.sees("saved again")
        view.worker.say("cancelled")
        await view.until(lambda: view.worker.grade == 2)

    check_of(tmp_path, test)


def test_ranks_that_stand_still_are_seen_on_a_narrow_screen(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        view.worker.say("live", case="sum[2]", ranks=STUCK)
        await view.sees("sum[2] stands still:", "rank 1  all_reduce  line 9")
        assert len(view.text.splitlines()) <= 12

    check_of(tmp_path, test, (40, 12))


def test_keys_lead_to_hints_help_the_list_and_the_line(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        view.worker.say("report", reports.partial(), first=0.1, seconds=0.2)
        await view.sees("failed")
        assert len(view.office.reports) == 1
        await view.press("question_mark")
        await view.sees("a hint for the selected check")
        await view.press("escape", "l")
        await view.sees("› 90 The total", "91 The total")
        await view.press("escape", "e")
        await view.until(lambda: "total.py:41" in "".join(view.text.split()))  # a long path is wrapped
        assert view.app.clipboard.endswith("total.py:41")

    check_of(tmp_path, test)


def test_a_small_screen_says_how_to_quit_and_has_room_for_all_keys(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        view.worker.say("report", reports.partial(), first=0.1, seconds=0.2)
        await view.sees("failed", "q quit", "? all keys")
        await view.press("question_mark")
        await view.sees("next exercise; previous exercise", "put the stub back", "PgUp PgDn", "Any other key")

    check_of(tmp_path, test, (60, 20))


def test_a_hint_comes_into_sight_on_a_small_screen(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        await view.verdict("sums", "failed", "\n".join(f"line {number}" for number in range(30)))
        assert "Hint" not in view.text
        await view.press("h")
        await view.sees("Hint 1 of 3  where")
        await view.press("h")
        await view.sees("Hint 2 of 3  idea")

    check_of(tmp_path, test, (40, 12))


def test_reset_asks_and_a_no_changes_nothing(tmp_path):
    async def test(view: View) -> None:
        before = file_of(tmp_path).read_text()
        await view.press("x")
        await view.sees("Put the stub of 90_total back?")
        await view.press("n")
        await view.sees("Nothing was reset.")
        await view.press("x", "y")
        await view.sees("git has no untouched stub")
        assert file_of(tmp_path).read_text() == before

    check_of(tmp_path, test)


def test_the_next_exercise_gets_a_worker_of_its_own(tmp_path):
    async def test(view: View) -> None:
        await view.press("n")
        await view.until(lambda: len(view.office.workers) == 2)
        first, second = view.office.workers
        assert not first.open and second.words[0] == "91_total" and second.grade == 1
        await view.sees("91_total  The total")
        await view.press("n")
        await view.sees("This is the last exercise.")

    check_of(tmp_path, test)


def test_a_dead_worker_is_told_of_and_replaced_by_a_key(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        view.worker.die()
        await view.sees("stopped", "signal 9")
        await view.press("r")
        await view.until(lambda: len(view.office.workers) == 2 and view.worker.grade == 1)

    check_of(tmp_path, test)


def test_a_page_is_written_where_it_can_be_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")

    async def test(view: View) -> None:
        await view.began()
        view.worker.say("report", reports.partial(), first=0.1, seconds=0.2)
        await view.sees("failed")
        await view.press("o")
        await view.sees("The report is")
        assert "<html" in (tmp_path / "cache/ranklings/03_train_ddp.html").read_text()

    check_of(tmp_path, test, (200, 30))


def test_the_screen_can_be_resized_down_to_nothing_and_back(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        await view.verdict("sums", "failed", "x" * 300)
        for size in ((40, 12), (20, 5), (3, 2), (1, 1), (120, 40)):
            await view.pilot.resize_terminal(*size)
            await view.pilot.pause()
        await view.sees("90_total  The total", "✗ All ranks get the sum")

    check_of(tmp_path, test)


def test_the_selection_and_what_was_scrolled_stay_while_verdicts_come(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        await view.verdict("sums", "failed", "\n".join(f"line {number}" for number in range(60)))
        await view.sees("line 1")
        await view.press("pagedown")
        area = view.app.query_one("#details", VerticalScroll)
        await view.until(lambda: area.scroll_y > 0)
        there = area.scroll_y
        await view.verdict("refuses", "failed", "no")
        await view.verdict("same", "blocked", "needs: sums")
        assert area.scroll_y == there and view.state.selected and view.state.selected.id == "sums"
        await view.press("j")
        await view.until(lambda: area.scroll_y == 0)
        assert view.state.selected and view.state.selected.id == "refuses"

    check_of(tmp_path, test, (60, 16))


def test_a_click_selects_a_check(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        await view.pilot.click("#checks", offset=(5, 2))
        await view.until(lambda: view.state.chosen == "refuses")

    check_of(tmp_path, test)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_it_can_be_left(tmp_path, key):
    async def test(view: View) -> None:
        await view.press(key)
        await view.until(lambda: view.app.return_code == 0)

    check_of(tmp_path, test)


def test_hostile_text_is_no_markup(tmp_path):
    async def test(view: View) -> None:
        await view.began()
        await view.verdict("sums", "failed", "[bold red]big[/] [@click=app.bell]x[/]")
        await view.sees("[bold red]big[/] [@click=app.bell]x[/]")
        assert view.state.phase is Phase.RUNNING and view.state.overlay is Overlay.NONE
        assert small.NAME in view.text

    check_of(tmp_path, test)
