"""`batch report` on a batch's folder: what it writes, and what it says to bad input. No rank is started."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from grader.batch.report import pages
from grader.batch.row import Standing
from grader.cli import cli
from grader.render import json as as_json
from tests import classes
from tests.batches import FakeEngine, a_class, batch, graded
from tests.reports import partial

GOOD, BAD = "def total(value):\n    return 1\n", "def total(value):\n    return 2\n"


def answer(slot, work):
    """Whoever returns 2 has made one mistake."""
    wrong = b"return 2" in work.files[0][1]
    report = classes.report("PFPP", {"accumulates": [classes.TWICE]}) if wrong else classes.report("PPPP")
    return graded(slot, work, json.dumps({**report, "exercise": work.exercise}).encode())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = a_class(tmp_path, **{"Ada Lovelace": GOOD, "bob": BAD, "eve": BAD})
    monkeypatch.chdir(made)
    batch(made, FakeEngine(otherwise=answer))
    return made


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["batch", *words])


def test_report_writes_a_page_and_data_and_names_nobody(folder):
    done = run("report", "out", "--html", "c.html", "--json", "c.json", "--csv", "c.csv")
    assert done.exit_code == 0 and "3 of 3 hand-ins of 3 people graded." in done.output
    found = json.loads((folder / "c.json").read_text())
    (exercise,) = found["exercises"]
    assert found["header"]["title"] == "Homework" and exercise["clusters"][0]["size"] == 2
    assert "Lovelace" not in (folder / "c.html").read_text() + (folder / "c.csv").read_text()


def test_report_goes_into_the_batch_s_folder_unless_told_otherwise_and_names_whom_it_is_told_to(folder):
    assert run("report", "out", "--names").exit_code == 0
    assert "bob, eve" in (folder / "out/class.html").read_text()


def test_report_says_in_one_sentence_what_is_wrong(folder):
    for words, told in ((["hand_ins"], "holds no batch"), (["out", "--html", "no/such/c.html"], "cannot be written")):
        done = run("report", *words)
        assert done.exit_code == 2 and told in done.output and done.output.count("\n") == 1


def test_pages_are_of_what_each_may_see_and_have_no_mark_where_something_is_not_graded(tmp_path, folder):
    data = json.loads(as_json.render(partial()))
    rows = [classes.row("Ada Lovelace", data), classes.row("../eve", data), classes.row("eve", data)]
    rows += [replace(rows[2], exercise="90_total", standing=Standing.BROKEN, report_file="", data=None)]
    assert pages.write(rows, tmp_path / "pages", folder, "Homework") == 3
    texts = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert len(texts) == 3 and {"eve@uni.html"} < set(texts) and all("Homework" in text for text in texts.values())
    assert "no mark" in texts["eve@uni.html"] and pages.WAITS in texts["eve@uni.html"]


def test_people_never_share_a_file():
    names = ["a b", "a_b", "a/b", "A", "..", "é"]
    made = [pages.file_name(name) for name in names]
    assert len(set(made)) == len(names) and made[3] == "A" and all("/" not in name for name in made)
