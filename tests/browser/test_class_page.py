"""The class report's page in headless Chromium: accessible, and readable at 360 px, in light and dark."""

from __future__ import annotations

import pytest

from grader.batch.report import page as writing
from grader.batch.report.build import class_report
from grader.batch.report.model import About
from tests import classes
from tests.browser.looking import scrolls_sideways
from tests.test_class_report import SIGNATURES

WORDS = ["a_check_with_a_name_that_never_ends" * 3, "RuntimeError: " + "x" * 200]


@pytest.mark.one_in(2)
def test_axe_finds_no_fault_and_nothing_runs_out_of_a_narrow_window(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    long = classes.report("PFPP", {"accumulates": [classes.finding(WORDS[0], actual=WORDS[1])]})
    again = classes.row("again", classes.report("PFFP"), attempt=1, counts=False)
    rows = [*classes.small_class(), classes.row("long", long), again]
    rows += [classes.row(f"o{number}", classes.report("PPPP"), exercise="06_other") for number in range(3)]
    report = class_report(rows, About(title="Homework"), {classes.EXERCISE: SIGNATURES}, names=True)
    (tmp_path / "class.html").write_text(writing.render(report), encoding="utf-8")
    context = browser.new_context(viewport={"width": 360, "height": 800})
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((tmp_path / "class.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert not scrolls_sideways(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(page).response["violations"]
        faults = [(fault["id"], fault["impact"], [node["target"] for node in fault["nodes"]][:3]) for fault in found]
        assert faults == [], scheme
    page.pdf(path=tmp_path / "class.pdf")
    context.close()
    assert complaints == []
