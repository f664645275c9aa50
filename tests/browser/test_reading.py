"""The HTML page in a real browser: read and walked with a mouse and a keyboard."""

from __future__ import annotations

from typing import Any

from tests.browser.looking import Page


def focused(page: Page) -> str:
    """The id or the label of what has the focus."""
    return page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')")


def in_view(page: Page, selector: str) -> bool:
    """Whether an element is wholly visible, also within what scrolls around it."""
    return page.evaluate(
        """selector => {
            const element = document.querySelector(selector), box = element.getBoundingClientRect();
            const top = document.elementFromPoint(box.left + 60, box.top + box.height / 2);
            return box.top >= 0 && box.bottom <= innerHeight && element.contains(top);
        }""",
        selector,
    )


def bar(page: Page, words: str) -> Any:
    return page.locator(f"svg.timeline .bar[aria-label*='{words}']").first


def test_what_went_wrong_is_open_and_the_rest_opens_by_a_click(visit):
    page = visit("timelines")
    assert bar(page, "barrier").is_visible() and not bar(page, "send").is_visible()
    page.locator("#e0-r0 > summary").click()
    assert bar(page, "send").is_visible()


def test_hovering_over_a_bar_tells_what_it_is(visit):
    page = visit("timelines")
    tip = page.locator("#tip")
    assert not tip.is_visible()
    page.locator("#e0-r1").scroll_into_view_if_needed()
    bar(page, "all_reduce · 4,096 bytes").hover()
    for words in ("all_reduce", "4,096 bytes float32", "all ranks", "line 15", "from 104.0 ms", "for 3 ms"):
        assert words in tip.inner_text()
    page.mouse.move(2, 2)
    assert not tip.is_visible()


def test_the_same_call_on_other_ranks_is_shown_with_a_bar(visit):
    page = visit("timelines")
    bar(page, "all_reduce · 4,096 bytes").hover()
    assert page.locator("#e0-r1 .bar.same").count() == 2


def test_a_tip_stays_inside_the_window(visit):
    page = visit("timelines", width=400)
    page.locator("#e0-r1 .bar.stuck").first.focus()
    box = page.locator("#tip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 400 and box["y"] >= 0


def test_a_line_of_a_finding_leads_to_the_source(visit):
    page = visit("timelines")
    page.locator("#e0-c0-f0 a.at", has_text="line 17").click()
    assert focused(page) == "e0-L17"
    page.wait_for_function("document.querySelector('#e0-L17').getBoundingClientRect().top > 0")
    assert in_view(page, "#e0-L17")


def test_a_marked_line_leads_back_to_its_finding(visit):
    page = visit("timelines")
    page.locator(".mark a", has_text="Deadlock").click()
    assert focused(page) == "e0-c0-f0" and in_view(page, "#e0-c0-f0 .subject")


def test_a_bar_leads_to_its_line(visit):
    page = visit("timelines", reduced_motion="reduce")
    page.locator("#e0-r1 .bar.stuck").first.click()
    assert focused(page) == "e0-L17" and in_view(page, "#e0-L17")
    page.go_back()
    assert "#e0-L17" not in page.url


def test_an_address_with_a_run_opens_it(visit):
    page = visit("timelines")
    page.evaluate("location.hash = '#e0-r0'")
    page.wait_for_function("document.querySelector('#e0-r0').open")


# -- the keyboard ------------------------------------------------------------------------------------------------------


def test_the_page_can_be_walked_by_keyboard(visit):
    """Skip link, navigation, theme, findings, source, then each timeline as one stop whose bars arrow keys reach."""
    page = visit("timelines", reduced_motion="reduce")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    assert focused(page) == "main"
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
        if "bar" in page.evaluate("document.activeElement.getAttribute('class') || ''"):
            break
    assert "never ended" in focused(page)
    assert page.locator("#tip").is_visible()
    assert len(seen) < 25, seen


def test_arrow_keys_go_from_bar_to_bar(visit):
    page = visit("timelines", reduced_motion="reduce")
    page.locator("#e0-r1 .bar.stuck").first.focus()
    assert focused(page).startswith("barrier")
    page.keyboard.press("ArrowLeft")
    assert focused(page).startswith("all_reduce")
    page.keyboard.press("ArrowUp")
    assert focused(page).startswith(("backward", "forward"))
    page.keyboard.press("End")
    assert focused(page).startswith("all_reduce") and "never ended" in focused(page)
    assert page.locator("#e0-r1 .bar[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert focused(page) == "e0-L15"


def test_focus_is_visible(visit):
    page = visit("timelines")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_escape_hides_the_tip(visit):
    page = visit("timelines")
    page.locator("#e0-r1 .bar.stuck").first.focus()
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
