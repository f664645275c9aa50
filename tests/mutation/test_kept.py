"""What is kept of a mutation score, and which words of its command are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.authoring.mutation import state
from grader.authoring.mutation.runner import MutantOutcome
from grader.authoring.mutation.score import summary
from grader.cli import cli
from grader.model.errors import UsageError
from tests import small
from tests.mutation.excuses import CLONES, REDUCES, excuse, scored


def test_the_table_keeps_the_rows_of_others(root: Path) -> None:
    """Only the rows of what was tried are new; what stands around the table stays."""
    excuse(root, f"- {{mutant: '{CLONES}', reason: It is.}}\n")
    score = scored(root, {REDUCES: MutantOutcome.SURVIVED, CLONES: MutantOutcome.SURVIVED})
    other = "| 01_process_group | 1 | 1 | 0 | 0 | 0 | 100.0 % |"
    old = f"| exercise |\n|---|\n| 90_total | 0 | 0 | 0 | 0 | 0 | 0 % |\n{other}"
    text = state.tabulated(f"# Page\n{state.BEGIN}\n{old}\n{state.END}\nEnd\n", [score])
    count = score.subject.counts()[""]
    row = f"| 90_total | {count} | {count - 2} | 1 | 0 | 1 | {100 * (count - 2) / (count - 1):.1f} % |"
    assert text.startswith("# Page\n") and text.endswith(f"{other}\n{row}\n{state.END}\nEnd\n")
    assert state.tabulated(text, [score]) == text
    with pytest.raises(UsageError, match="lacks the lines"):
        state.tabulated("no markers", [score])


def test_the_file_keeps_the_fates_of_others(root: Path, tmp_path: Path) -> None:
    """A run of a selection renews what it tried; what the solution does not have any more goes."""
    path = tmp_path / "fates.json"
    assert state.read(path) == {}
    path.write_text(state.merged({small.NAME: {"gone": {}}}, [scored(root, {REDUCES: MutantOutcome.SURVIVED})]))
    assert state.survivors(state.read(path)[small.NAME]) == {REDUCES} and "gone" not in path.read_text()
    score = scored(root, {})
    one = replace(score, results=tuple(r for r in score.results if r.mutant.identity == REDUCES))
    path.write_text(state.merged(state.read(path), [one]))
    content = json.loads(path.read_text())["exercises"][small.NAME]
    assert len(content) == len(score.results) and content[REDUCES]["by"] == "sums"
    path.write_text("[]")
    with pytest.raises(UsageError, match="was not written by"):
        state.read(path)


def test_a_row_may_be_written_of_parts(root: Path, tmp_path: Path) -> None:
    """What the file knows counts beside what was tried now, and there is no row before all have been tried."""
    path = tmp_path / "fates.json"
    whole = scored(root, {REDUCES: MutantOutcome.SURVIVED})
    first, second = replace(whole, results=whole.results[:3]), replace(whole, results=whole.results[3:])
    path.write_text(state.merged({}, [first]))
    known = state.read(path)[small.NAME]
    assert summary(state.completed(second, known)) == summary(whole)
    with pytest.raises(UsageError, match="have not been tried"):
        state.completed(first, known)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--own"], "go with --auto"),
        (["--only", "x"], "go with --auto"),
        (["--auto", "--survivors"], "need --json FILE"),
        (["--auto", "--untried", "--json", "no_such_file.json"], "need --json FILE"),
        (["--auto", "--table", "page.md", "--only", "x"], "wants all mutants"),
        (["--auto", "--table", "no_such_page.md"], "There is no page"),
    ],
)
def test_an_order_that_means_nothing_is_refused(words: list[str], said: str) -> None:
    """Before anything is run."""
    result = CliRunner().invoke(cli, ["verify", *words])
    assert result.exit_code == 2 and said in result.output
