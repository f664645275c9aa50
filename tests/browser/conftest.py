"""Headless Chromium for each file of tests, and the pages that they open in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.render import html
from tests.browser.looking import RESULTS, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Not for all files together: while it is open, its driver's event loop runs in the thread of the tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
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
