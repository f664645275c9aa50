"""Mutants that are excused, and the score of those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.authoring.mutation.runner import MutantOutcome
from grader.authoring.mutation.score import page, summary
from grader.model.errors import AuthorError
from tests import small
from tests.mutation.excuses import REDUCES, excuse, scored


def equivalents(root: Path) -> tuple[catalog.Equivalent, ...]:
    return catalog.load_equivalents(catalog.load(small.NAME, root), root)


def test_equivalents_are_a_list_with_reasons(root: Path) -> None:
    """No file, no entries; a name may have … for any text, and hold only where there is no GPU."""
    assert equivalents(root) == ()
    excuse(root, "- {mutant: 'a | [b] *', reason: It is.}\n- {mutant: 'c… | d…', reason: It is., where: cuda}\n")
    exact, pattern = equivalents(root)
    assert exact.matches("a | [b] *") and not exact.matches("a | b ") and not exact.needs_gpu
    assert pattern.matches("constant | def | 1") and not pattern.matches("a constant | def") and pattern.needs_gpu
    assert pattern.line == 2


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- mutant: a\n", 1, "the key 'reason' is missing"),
        ("- mutant: a\n  reason:\n", 2, "reason"),
        ("- mutant: a\n  reason: ' '\n", 2, "must not be empty"),
        ("- mutant: a\n  reason: b\n  why: c\n", 3, "unknown key 'why'"),
        ("- mutant: a\n  reason: b\n  where: linux\n", 3, "where"),
        ("- {mutant: a, reason: b}\n- {mutant: a, reason: c}\n", 2, "the mutant stands twice. Line 1"),
        ("mutant: a\n", 1, "list"),
    ],
)
def test_a_fault_in_the_equivalents_is_told_with_its_line(root: Path, text: str, line: int, said: str) -> None:
    """As for mutants.yaml."""
    excuse(root, text)
    with pytest.raises(AuthorError, match=said) as caught:
        equivalents(root)
    assert (caught.value.path.name, caught.value.line) == ("equivalents.yaml", line)


# -- the score ---------------------------------------------------------------------------------------------------------


def test_a_survivor_is_a_breach_and_lowers_the_score(root: Path) -> None:
    """The page shows it as an author needs it: what it is, its diff, and an entry to paste."""
    assert scored(root, {}).breaches() == [] and scored(root, {}).percent == 100
    score = scored(root, {REDUCES: MutantOutcome.SURVIVED})
    number = len(score.results)
    assert score.breaches() == [f"survives: {REDUCES}"]
    assert score.percent == pytest.approx(100 * (number - 1) / number)
    text = page(score)
    assert "-    dist.all_reduce(result)\n+    pass\n" in text and f"- mutant: '{REDUCES}'\n" in text
    assert f"1 survived: {number - 1}/{number} = " in text and text.splitlines()[-1].startswith("✗ 90_total")


def test_an_excused_survivor_does_not_count(root: Path) -> None:
    """Killed / non-equivalent."""
    excuse(root, f"- {{mutant: '{REDUCES}', reason: It is.}}\n")
    score = scored(root, {REDUCES: MutantOutcome.SURVIVED})
    assert score.breaches() == [] and score.percent == 100 and "1 equivalent" in summary(score)


def test_a_false_or_stale_excuse_is_a_breach(root: Path) -> None:
    """The list cannot rot."""
    excuse(root, f"- {{mutant: '{REDUCES}', reason: It is.}}\n- {{mutant: gone, reason: It was.}}\n")
    false, stale = scored(root, {}).breaches()
    assert "equivalents.yaml:1: listed as equivalent, but sums kills it (seed 7)" in false
    assert "equivalents.yaml:2: there is no such mutant any more" in stale


def test_an_excuse_for_want_of_a_gpu_holds_without_one_only(root: Path) -> None:
    """Where there is a GPU the mutant must be killed, and may be."""
    excuse(root, f"- {{mutant: '{REDUCES}', reason: Needs a GPU., where: cuda}}\n")
    assert scored(root, {REDUCES: MutantOutcome.SURVIVED}).breaches() == []
    assert scored(root, {REDUCES: MutantOutcome.SURVIVED}, gpu=True).breaches() == [f"survives: {REDUCES}"]
    assert scored(root, {}, gpu=True).breaches() == []


def test_a_broken_check_is_a_breach_and_no_kill(root: Path) -> None:
    """It is our fault."""
    score = scored(root, {REDUCES: MutantOutcome.BROKEN})
    assert len(score.breaches()) == 1 and "check sums is broken (seed 7) with" in score.breaches()[0]
    assert score.percent < 100
