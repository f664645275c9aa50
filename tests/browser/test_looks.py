"""The HTML page in a real browser: in both colours, narrow, on paper, with hostile text, and to who cannot see it."""

from __future__ import annotations

import pytest

from tests.browser.looking import RESULTS, scrolls_sideways


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


# -- hostile text ------------------------------------------------------------------------------------------------------


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


# -- axe ---------------------------------------------------------------------------------------------------------------


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
