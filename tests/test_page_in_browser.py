"""The HTML page in a real browser: headless Chromium with a mouse, a keyboard, a narrow window and a printer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.model import alone
from grader.render import html
from tests.pages import assignment, markup, timelines
from tests.reports import broken, deadlock, hostile, partial

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
RESULTS = {
    "timelines": lambda: alone(timelines()),
    "deadlock": lambda: alone(deadlock()),
    "partial": lambda: alone(partial()),
    "broken": lambda: alone(replace(broken(), notes=("A note.",))),
    "hostile": lambda: alone(hostile()),
    "markup": lambda: alone(markup()),
    "two": assignment,
}
Page = Any

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, build in RESULTS.items():
        (folder / f"{name}.html").write_text(html.render(build()), encoding="utf-8")
    return folder


@pytest.fixture
def visit(browser, folder) -> Iterator[Any]:
    """Opens a page. Whatever it does, it must fetch nothing and have nothing to complain of."""
    contexts, complaints = [], []

    def visit(name: str, width: int = 1280, scheme: str = "light", **more: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: request.url.startswith(folder.as_uri()) or complaints.append(request.url))
        page.goto((folder / f"{name}.html").as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


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


def scrolls_sideways(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


# ── reading ──


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


# ── the keyboard ──


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


# ── light and dark, narrow, paper ──


@pytest.mark.parametrize("scheme, other", [("light", "dark"), ("dark", "light")])
def test_colours_follow_the_system_until_the_reader_says_otherwise(visit, scheme, other):
    page = visit("timelines", scheme=scheme)

    def shade() -> int:
        return sum(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))

    before = shade()
    assert (before > 400) == (scheme == "light")
    page.locator("#theme").click()
    assert (shade() > 400) == (other == "light")
    page.locator("#theme").click()
    assert shade() == before


def test_a_narrow_window_never_scrolls_sideways(visit, folder):
    """At 360 pixels, with everything unfolded, whatever is on the page."""
    page = visit("timelines", width=360)
    wide = []
    for name in RESULTS:
        page.goto((folder / f"{name}.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        wide += [name] if scrolls_sideways(page) else []
    assert wide == []


def test_in_a_narrow_window_a_drawing_begins_with_its_end(visit):
    """Where the bars stop is in view without scrolling to the side."""
    page = visit("timelines", width=360)
    box = page.locator("#e0-r1 .bar.stuck").first.bounding_box()
    assert 0 < box["x"] + box["width"] <= 360


def test_the_page_prints(visit):
    """What went wrong is unfolded, whatever was closed, on white, and no drawing is cut."""
    page = visit("timelines", scheme="dark")
    page.locator("#e0-r1 > summary").click()
    assert page.pdf(format="A4", print_background=True).startswith(b"%PDF-")
    assert not page.evaluate("document.querySelector('#e0-r1').open")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    box = page.locator("#e0-r1 svg.timeline").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 720
    assert page.evaluate("[...document.querySelectorAll('.source')].every(e => e.scrollHeight <= e.clientHeight + 2)")


def test_nothing_of_a_drawing_overlaps(visit):
    """Labels stay inside their bars, and no two words of a band's rows touch."""
    page = visit("timelines")
    page.locator("#e0-r0 > summary").click()
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg.timeline .bar')].filter(bar => {
            const text = bar.querySelector('text')?.getBoundingClientRect();
            const shape = bar.firstElementChild.getBoundingClientRect();
            return text && (text.left < shape.left - 1 || text.right > shape.right + 1);
        }).map(bar => bar.getAttribute('aria-label'))"""
    )
    assert outside == []
    touching = page.evaluate(
        """() => [...document.querySelectorAll('svg.timeline')].flatMap(svg => {
            const boxes = [...svg.querySelectorAll('.rank, .lane, .flag text, .axis text, .breaks text')]
                .map(text => [text.textContent, text.getBoundingClientRect()]);
            return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
                p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom
            ).map(([b]) => `${a} / ${b}`));
        })"""
    )
    assert touching == []


# ── hostile text ──


@pytest.mark.parametrize("name", ["hostile", "markup"])
def test_hostile_text_executes_nothing(visit, name):
    page = visit(name)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    for place in page.locator("svg.timeline .bar").all()[:6]:
        place.hover(force=True)
    page.wait_for_load_state("load")
    assert page.evaluate("window.owned") is None
    assert page.locator("script").count() == 1 and page.locator("img, iframe, object").count() == 0
    assert page.title().count("Train") + page.title().count("code") == 1


def test_a_script_that_slipped_in_would_not_run(visit, folder):
    """The policy is a second lock: even with the escaping gone, nothing but the page's own script runs."""
    text = (folder / "timelines.html").read_text(encoding="utf-8")
    evil = "<script>window.owned = 1</script><p onclick='window.owned = 1' id='evil'>x</p>"
    (folder / "slipped.html").write_text(text.replace("<main", f"{evil}<main", 1), encoding="utf-8")
    page = visit("timelines")
    complaints: list[str] = []
    other = page.context.new_page()
    other.on("console", lambda message: complaints.append(message.text))
    other.goto((folder / "slipped.html").as_uri())
    other.locator("#evil").click()
    assert other.evaluate("window.owned") is None
    assert len(complaints) == 2 and all("Content Security Policy" in text for text in complaints)


# ── axe ──


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["timelines", "broken", "two"])
def test_axe_finds_no_fault_in_light_or_dark(visit, name):
    """axe-core's rules, contrast included, with everything unfolded."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = visit(name)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(page).response["violations"]
        faults = [(fault["id"], fault["impact"], [node["target"] for node in fault["nodes"]][:3]) for fault in found]
        assert faults == [], scheme
