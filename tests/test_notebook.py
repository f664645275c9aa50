"""Notebooks: a real kernel grades a cell, shows the page below it, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

import grader
from grader import notebook
from grader.model import alone
from grader.render.html import fragment
from tests import small
from tests.reports import KINDS, hostile, partial

SOLUTION = small.FILES["reference/90_total/total.py"]
HANGS = SOLUTION.replace("dist.all_reduce(result)", "import time; time.sleep(600)")


class Shell:
    """What an extension needs of IPython: a place for magics, and one to publish to."""

    def __init__(self) -> None:
        self.magics: dict[str, Any] = {}
        self.shown: list[dict[str, Any]] = []
        self.display_pub = self

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        assert kind == "cell"
        self.magics[name] = function

    def publish(self, data: dict[str, Any], *, transient: object, update: bool) -> None:
        self.shown.append(data)


class Interrupting(NotebookClient):  # type: ignore[misc]
    """Interrupts the kernel, as the button does, when the cell that hangs says that its ranks run."""

    hanging = -1

    def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
        if cell_index == self.hanging and "sum[" in str(message["content"].get("data", "")):
            self.hanging = -1
            self.interrupting = asyncio.ensure_future(self.km.interrupt_kernel())
        return super().process_message(message, cell, cell_index)


def html_of(cell: Any) -> str:
    (found,) = [output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})]
    return str(found)


@pytest.mark.one_in(2)
def test_a_notebook_grades_its_cells(tmp_path):
    """One kernel: a wrong cell, a right one on the same warm session, one that hangs and is interrupted, and a right
    one again. No torch in the kernel, and no process left when it has ended."""
    root = small.build(tmp_path)
    wrong = SOLUTION.replace("    dist.all_reduce(result)\n", "")
    sources = ["%load_ext grader", *(f"%%grade 90\n{text}" for text in (wrong, SOLUTION, HANGS, SOLUTION))]
    sources.append("import sys; print('torch' in sys.modules)")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in sources])
    client = Interrupting(book, timeout=100, resources={"metadata": {"path": str(root)}})
    client.hanging = 3
    client.create_kernel_manager()
    client.km.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    before = set(psutil.pids())
    with client.setup_kernel():
        for index, cell in enumerate(book.cells):
            client.execute_cell(cell, index)
        ours = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert len(ours) > 2, "the kernel, the worker and the ranks' host"
    failed, passed, hanging, again, last = book.cells[1:]
    assert "✗ not all checks passed" in html_of(failed) and "The total" in html_of(failed)
    assert "✓ every check passed" in html_of(passed) and "✓ every check passed" in html_of(again)
    assert notebook.INTERRUPTED in str(hanging.outputs) and "text/html" not in str(hanging.outputs)
    assert last.outputs[0]["text"] == "False\n"
    _gone, left = psutil.wait_procs(ours, timeout=20)
    assert not left


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("90 --sed 1", "No such option '--sed'"),
        ("90 --seed x", "'x' is not a valid integer"),
        ("nothing", "There is no exercise 'nothing'"),
        ("90 'unclosed", "cannot be read"),
    ],
)
def test_a_wrong_magic_is_one_sentence(line, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(small.build(tmp_path))
    shell = Shell()
    grader.load_ipython_extension(shell)
    shell.magics["grade"](line, SOLUTION)
    said = capsys.readouterr().err
    assert told in said and said.count("\n") == 1 and not shell.shown
    grader.unload_ipython_extension(shell)


def test_a_magic_without_words_says_what_it_takes(capsys):
    shell = Shell()
    grader.load_ipython_extension(shell)
    shell.magics["grade"]("", "")
    assert "%%grade [OPTIONS] EX" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_below_a_cell_has_no_script_and_ids_of_its_own(kind):
    report = KINDS[kind]()
    page = fragment.render(alone(report), command="%%grade 03 --seed 1", prefix="n1-")
    assert "<script" not in page and "%%grade 03 --seed 1" in page
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    assert all(name.startswith(("n1-", "p-")) or name == "arrow" for name in ids)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids


def test_a_hostile_cell_reaches_no_notebook_as_html():
    page = fragment.render(alone(hostile()), command="x", prefix="n1-")
    assert "<script>" not in page and "<img" not in page and "\x1b" not in page


def test_the_style_of_a_piece_reaches_nothing_around_it():
    """Every rule stands within .ranklings, or names it."""
    style = fragment.scoped()
    depth, outside = 0, ""
    for char in style:
        outside += char if depth == 0 else ""
        depth += (char == "{") - (char == "}")
    assert depth == 0 and ":root" not in style and ".check .body {" in style
    assert all(".ranklings" in line for line in outside.replace("}", "\n").splitlines() if line.strip())


def test_a_notebooks_text_fits_and_replays_in_a_notebook():
    from grader.render.terminal import render

    page = render(partial(), command=["%%grade 03 --seed 1"], width=60)
    assert "replay with" in page and "%%grade 03 --seed 1" in page and "make" not in page.partition("Seed")[2]
