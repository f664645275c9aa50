"""The HTML page, held to recorded pages and to the rules of its format."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from grader.model import Finding, alone
from grader.render import html
from tests.goldens import assert_golden
from tests.html.parsed import BUILDERS, PAGES, Page, page_of, without_assets
from tests.pages import assignment, markup, timelines
from tests.reports import broken, hostile, partial, stub

RECORDED = ("passed", "partial", "deadlock", "hostile", "broken")


@pytest.mark.parametrize("name", [*RECORDED, "timelines", "two"])
def test_a_page_is_as_recorded(name):
    assert_golden(f"{name}.html", without_assets(PAGES[name]))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_every_link_leads_somewhere(name):
    page = Page(PAGES[name])
    assert page.open == []
    ids = Counter(page.values("id"))
    assert set(ids.values()) == {1}
    links = [value for tag, attributes in page.elements if tag == "a" and (value := attributes["href"])]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    named = " ".join(page.values("aria-labelledby")).split()
    assert set(named) <= set(ids)


@pytest.mark.parametrize("name", PAGES)
def test_headings_are_in_order(name):
    levels = [int(tag[1]) for tag, _ in Page(PAGES[name]).elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fetches_nothing_and_runs_nothing_but_its_own(name):
    """No attribute that fetches or executes, and a policy that names the one style and the one script by hash."""
    page = Page(PAGES[name])
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "action", "data", "xlink:href"} & set(attributes)
        assert not [attribute for attribute in attributes if attribute.startswith("on")]
        assert tag not in {"img", "iframe", "object", "embed", "link", "base", "form", "image", "use", "foreignobject"}
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGES[name], flags=re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"url\((?!#)|@import|https?:", PAGES[name].split("</style>")[0])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_same_each_time_and_can_be_written(name):
    build = BUILDERS.get(name)
    assert html.render(alone(build()) if build else assignment()) == PAGES[name]
    assert PAGES[name].endswith("</html>\n") and PAGES[name].startswith("<!DOCTYPE html>")
    PAGES[name].encode("utf-8")
    assert all(char.isprintable() or char in "\n\t" for char in PAGES[name])


# -- hostile text ------------------------------------------------------------------------------------------------------


def test_hostile_text_is_text():
    """Markup of a student gives the same elements and attributes as words would."""

    def shape(report):
        return {(tag, *sorted(attributes)) for tag, attributes in page_of(report).elements}

    assert shape(markup()) <= shape(timelines()) | shape(partial()) | shape(broken()) | shape(stub()) | {
        ("p", "class"),
        ("span", "class"),
        ("g", "aria-label", "class", "data-call", "role", "tabindex"),
    }
    text = Page(PAGES["markup"]).text
    assert "<script>window.owned = 1</script>" in text and "{{ 7 * 7 }}" in text
    assert "49" not in re.sub(r"[^{}\d ]", "", text).split()


def test_classes_come_from_a_list_of_ours():
    classes = {name for value in Page(PAGES["markup"]).values("class") for name in value.split()}
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]*", name) for name in classes)
    assert "owned" not in " ".join(classes)


def test_a_huge_message_is_cut():
    finding = Finding(subject="s" * 100_000, actual="<" * 100_000)
    verdicts = (replace(partial().verdicts[1], findings=(finding,) * 500),)
    text = html.render(alone(replace(partial(), verdicts=verdicts)))
    assert len(text) < 200_000 and "more characters" in text and "… and 488 more" in text


def test_hostile_reports_stay_short():
    assert len(html.render(alone(hostile()))) < 60_000
