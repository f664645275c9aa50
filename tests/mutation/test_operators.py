"""Automatic mutants: what the operators make of a source, and how mutants are called."""

from __future__ import annotations

import ast

import pytest

from grader import catalog
from grader.authoring.lab import solution_of
from grader.authoring.mutation.distributed import SCOPED
from grader.authoring.mutation.generate import AutoMutant, diff, mutants
from tests.solutions import ROOT


def plain(source: str) -> list[AutoMutant]:
    """The mutants of all operators but those that know distributed code (test_mutation_distributed.py)."""
    scoped = {name for name, _, _ in SCOPED}
    return [mutant for mutant in mutants(source) if mutant.operator not in scoped]


def made(source: str, operator: str) -> list[str]:
    """The sources that an operator makes, without the line ends at their end."""
    return [mutant.source.rstrip("\n") for mutant in mutants(source) if mutant.operator == operator]


@pytest.mark.parametrize(
    ("operator", "source", "wanted"),
    [
        ("drop-statement", "f(); x = 1", ["pass; x = 1", "f(); pass"]),
        ("drop-statement", "x: int\ny: int = f()", ["x: int\npass"]),
        ("drop-statement", "raise E", ["pass"]),
        ("return-none", "def f(): return x", ["def f(): return None"]),
        ("return-none", "def f(): return", []),
        ("swap-break", "while x: break", ["while x: continue"]),
        ("unwrap-with", "with a:\n    b()\n    c()", ["b()\nc()"]),
        ("unwrap-with", "with a as b: c()", ["b = a.__enter__()\nc()"]),
        ("unwrap-with", "with a, b:\n    c()", ["with b:\n    c()", "with a:\n    c()"]),
        ("unwrap-with", "with a as b, c as d:\n    e()", ["b = a.__enter__()\nwith c as d:\n    e()"]),
        ("unwrap-try", "try:\n    a()\nfinally:\n    b()", ["a()\nb()"]),
        ("unwrap-try", "try:\n    a()\nexcept E:\n    b()", ["a()"]),
        ("negate", "if a:\n    b()", ["if not a:\n    b()"]),
        ("negate", "if not a:\n    b()", ["if a:\n    b()"]),
        ("negate", "while(a < b):\n    c()", ["while not (a < b):\n    c()"]),
        ("negate", "x = a if b and c else d", ["x = a if not (b and c) else d"]),
        ("negate", "x = [a for a in b if a]", ["x = [a for a in b if not a]"]),
        ("negate", "assert a, b", ["assert not a, b"]),
        ("negate", "if a == b:\n    c()", []),
        ("and-or", "x = a and b", ["x = (a or b)", "x = (a)", "x = (b)"]),
        ("comparison", "x = 0 <= a < b", ["x = 0 < a < b", "x = 0 <= a <= b"]),
        ("comparison", "x = a is not None", ["x = a is None"]),
        ("comparison", "x = a in b", ["x = a not in b"]),
        ("drop-unary", "x = -a", ["x = (a)"]),
        ("constant", "x = 1", ["x = 2", "x = 0"]),
        ("constant", "x = 0", ["x = 1", "x = -1"]),
        ("constant", "x = 0.5", ["x = 1.0"]),
        ("constant", "x = True", ["x = False"]),
        ("constant", "f(None)", ["f(0)"]),
        ("constant", "x = a is None", []),
        ("constant", "x = b'a'", ["x = b'XXa'"]),
        ("arithmetic", "x = (a + b - 1) // c", ["x = (a + b - 1) / c", "x = (a + b + 1) // c", "x = (a - b - 1) // c"]),
        ("arithmetic", "x *= a", ["x /= a"]),
        ("shift-index", "x = a[i]", ["x = a[i + 1]"]),
        ("shift-index", "x = a[i - 1:, j]", ["x = a[(i - 1) + 1:, j]", "x = a[i - 1:, j + 1]"]),
        ("shift-index", "x = a[0]", []),
        ("swap-arguments", "f(a, b, *c, d=e)", ["f(b, a, *c, d=e)"]),
        ("drop-keyword", "f(a, b=c, d=e)", ["f(a, d=e)", "f(a, b=c)"]),
        ("drop-default", "def f(a, *, b=1): g()", ["def f(a, *, b): g()"]),
        ("drop-decorator", "@a\n@b\ndef f(): g()", ["@b\ndef f(): g()", "@a\ndef f(): g()"]),
    ],
)
def test_an_operator_makes_exactly_these(operator: str, source: str, wanted: list[str]) -> None:
    """One small fault each, in the author's own layout."""
    assert made(source, operator) == wanted


SOURCE = '''\
"""A module."""
import os
from typing import Optional


class Sampler(Base[int]):
    """A class."""

    size: Optional[int]

    def __len__(self) -> "int":
        """A method."""
        return self.size  # it is 3

    def check(self, rank: int) -> None:
        if rank < 0:
            raise ValueError("rank must not be negative" f"{rank}")
        ...
'''


def test_what_is_no_code_is_left_alone() -> None:
    """Docstrings, comments, annotations, imports, base classes and the wording of what is raised."""
    assert sorted(mutant.identity for mutant in plain(SOURCE)) == [
        "comparison | Sampler.check | if rank < 0: | rank < 0 -> rank <= 0",
        "constant | Sampler.check | if rank < 0: | 0 -> -1",
        "constant | Sampler.check | if rank < 0: | 0 -> 1",
        "drop-statement | Sampler.__len__ | return self.size",
        'drop-statement | Sampler.check | raise ValueError("rank must not be negative" f"{rank}")',
        "negate | Sampler.check | if rank < 0: | rank < 0 -> not (rank < 0)",
        "return-none | Sampler.__len__ | return self.size",
    ]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", catalog.all_names(ROOT))
def test_every_mutant_of_a_solution_is_another_program_with_a_name_of_its_own(name: str) -> None:
    """It compiles, no two are the same program or are called alike, and none is the solution."""
    path = solution_of(catalog.load(name, ROOT), ROOT)
    found = mutants(path.read_text())
    programs = {ast.dump(ast.parse(source)) for source in (path.read_text(), *(m.source for m in found))}
    assert len(programs) == len(found) + 1 > 20
    assert len({mutant.identity for mutant in found}) == len(found)


def test_a_name_lives_through_edits_elsewhere() -> None:
    """Lines may be added, comments changed, other functions mended."""
    edited = SOURCE.replace("import os\n", "import os\nimport sys\n").replace("it is 3", "it was 2")
    before, after = mutants(SOURCE), mutants(edited + "\n\ndef more():\n    return 1\n")
    assert [mutant.identity for mutant in after[: len(before)]] == [mutant.identity for mutant in before]
    assert after[0].line == before[0].line + 1


def test_equal_names_are_numbered() -> None:
    """The second of two equal statements of one function is #2."""
    found = [mutant.identity for mutant in plain("def f():\n    g()\n    g()\n")]
    assert found == ["drop-statement | f | g()", "drop-statement | f | g() | #2"]


def test_a_mutant_tells_what_it_does() -> None:
    """To a reader in a sentence, and as the lines of a diff."""
    source = "def f(sampler, epoch):\n    sampler.set_epoch(epoch)  # anew\n"
    (mutant,) = plain(source)
    assert mutant.description == "drops `sampler.set_epoch(epoch)` in f, line 2"
    lines = ["@@ -2 +2 @@", "-    sampler.set_epoch(epoch)  # anew", "+    pass  # anew"]
    assert diff(mutant).splitlines() == lines
