"""The mutation operators that know distributed code, on small sources: what each makes, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.authoring.mutation import score
from grader.authoring.mutation.distributed import FIRST, SCOPED, SINGLE, STALE
from grader.authoring.mutation.generate import AutoMutant, diff, mutants
from grader.authoring.mutation.operators import OPERATORS
from tests import small

IMPORTS = "import torch.distributed as dist\n"


def made(operator: str, body: str, head: str = "def f(rank, x):", imports: str = IMPORTS) -> list[AutoMutant]:
    """What the operator makes of a function with this body."""
    return [one for one in mutants(f"{imports}{head}\n{indented(body)}") if one.operator == operator]


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.splitlines())


def bodies(operator: str, body: str, head: str = "def f(rank, x):", imports: str = IMPORTS) -> list[str]:
    """The changed bodies, without their indentation."""
    sources = [one.source.removeprefix(f"{imports}{head}\n") for one in made(operator, body, head, imports)]
    return ["\n".join(line.removeprefix("    ") for line in source.splitlines()) for source in sources]


@pytest.mark.parametrize(
    ("operator", "body", "wanted"),
    [
        ("one-rank", "x.save()", ["if rank == 0:\n    x.save()", "if rank != 1:\n    x.save()"]),
        ("one-rank", "raise E", ["if rank == 0:\n    raise E", "if rank != 1:\n    raise E"]),
        ("one-rank", "x.a = 1", ["if rank == 0:\n    x.a = 1", "if rank != 1:\n    x.a = 1"]),
        ("one-rank", "y = x.a\nreturn y", []),
        ("one-call", "x += 1", [f"if {FIRST} == 0:\n    x += 1", f"if {FIRST} > 0:\n    x += 1"]),
        ("stale", "y = x.grad()\nreturn y", [f"y = {STALE}(x.grad())\nreturn y"]),
        ("stale", "y = 1\nreturn y", []),
        ("float32", "return x / 2", [f"return {SINGLE}(x / 2)"]),
        ("float32", "y = x.clone()\nreturn y", [f"y = {SINGLE}(x.clone())\nreturn y"]),
        ("float32", "y = x.optimizer()\nreturn y", []),
        ("float32", "return x // 2", []),
        ("swap-statements", "a(x)\nb(x)\nreturn x", ["b(x)\na(x)\nreturn x"]),
        ("swap-statements", "y = a(x)\nb(y)", []),
        ("swap-statements", "y = x\nz = x", []),
        ("swap-statements", "'''Does.'''\na(x)", []),
        ("extra-collective", "if x:\n    a()", [
            "if x:\n    a()\ndist.is_initialized() and dist.barrier()",
            'if x:\n    a()\ndist.is_initialized() and dist.all_reduce(__import__("torch").zeros(1))',
            "if x:\n    dist.is_initialized() and dist.barrier()\n    a()",
        ]),
        ("reduce-op", "dist.all_reduce(x)", ["dist.all_reduce(x, op=dist.ReduceOp.MAX)"]),
        ("reduce-op", "dist.all_reduce(x, dist.ReduceOp.AVG)", ["dist.all_reduce(x, dist.ReduceOp.SUM)"]),
        ("reduce-op", "dist.broadcast(x, 0)", []),
        ("async", "dist.broadcast(x, 0)", ["dist.broadcast(x, 0, async_op=True)"]),
        ("async", "w = dist.broadcast(x, 0, async_op=True)", [
            "w = (lambda work: (work.wait(), work)[1])(dist.broadcast(x, 0, async_op=True))"
        ]),
        ("async", "dist.broadcast_object_list(x)", []),
        ("other-size", "return dist.get_world_size(x)", ["return 2", "return dist.get_world_size()"]),
        ("other-size", "return x[rank]", ["return x[0]"]),
        ("other-size", "return dist.get_global_rank(x, 3)", ["return 3"]),
        ("other-group", "dist.broadcast(x, group=x.group)", ["dist.broadcast(x, group=None)"]),
        ("other-group", "dist.broadcast(x, group_src=1)", ["dist.broadcast(x, src=1)"]),
        ("plus-times", "return x * 3", ["return (x + 3)"]),
        ("plus-times", "return x + 3", ["return (x * 3)"]),
        ("drop-option", "f(x, 1, *x)", ["f(x, 1)", "f(x, *x)"]),
        ("drop-option", "f(x, **rank)", ["f(x)"]),
    ],
)  # fmt: skip
def test_an_operator_makes_exactly_these(operator: str, body: str, wanted: list[str]) -> None:
    """One fault each, in the author's own layout."""
    assert bodies(operator, body) == wanted


def test_a_collective_more_stands_where_only_some_come_to() -> None:
    """At the end before `return`, in `finally`, in `except`, in either branch; not where the module has no group."""
    body = "try:\n    a()\nexcept E:\n    b()\nfinally:\n    c()\nif x:\n    d()\nelse:\n    e()\nreturn x"
    labels = [one.identity.rpartition(" | ")[2] for one in made("extra-collective", body)]
    assert labels == [
        "dist.barrier at the end",
        "dist.all_reduce at the end",
        "dist.barrier in except",
        "dist.barrier in finally",
        "dist.barrier in a branch",
        "dist.barrier in a branch",
    ]
    at_end = bodies("extra-collective", body)[0].splitlines()
    assert at_end[-2:] == ["dist.is_initialized() and dist.barrier()", "return x"]
    assert made("extra-collective", body, imports="import torch\n") == []


def test_the_rank_is_the_parameter_or_the_attribute_or_is_asked_for() -> None:
    """Where nobody can know it, nothing is made. Without a group the question is not asked."""
    asked = "(not dist.is_initialized() or dist.get_rank() == 0)"
    assert bodies("one-rank", "x.save()", "def f(x):")[0].splitlines()[0] == f"if {asked}:"
    assert made("one-rank", "x.save()", "def f(x):", imports="import torch\n") == []
    method = "class A:\n    def __init__(self, rank):\n        self.rank = rank\n\n    def f(self):\n        g()\n"
    found = [one for one in mutants(method) if one.operator == "one-rank" and one.function == "A.f"]
    assert ["if self.rank == 0:" in one.source for one in found] == [True, False]


@pytest.mark.parametrize("imports", ["import torch.distributed as dist\n", "from torch import distributed as dist\n"])
def test_torch_distributed_has_the_name_that_the_module_gives_it(imports: str) -> None:
    assert made("reduce-op", "dist.all_reduce(x)", imports=imports)
    other = imports.replace("dist\n", "comm\n")
    assert made("reduce-op", "comm.all_reduce(x)", imports=other) and not made(
        "reduce-op", "dist.all_reduce(x)", imports=other
    )


def test_an_option_may_be_ignored_and_a_default_changed() -> None:
    """Its own default stands where it is used; a default that is no constant becomes None."""
    assert bodies("ignored-option", "return g(x, lr)", "def f(x, lr=0.1):") == ["return g(x, 0.1)"]
    (one,) = made("default", "return x", "def f(x=()):")
    assert "def f(x=None):" in one.source


def test_what_a_message_says_is_free() -> None:
    """A rank that stands in the text of an exception is no rank that anybody uses."""
    assert made("other-size", 'raise ValueError(f"rank {rank}")') == []


def test_a_mutant_says_what_it_does() -> None:
    """To a reader in a sentence, and by a name that edits elsewhere leave as it is."""
    (one, _) = made("one-rank", "x.save()  # all of them")
    assert one.identity == "one-rank | f | x.save() | only rank 0"
    assert one.description == "one-rank, only rank 0: `x.save() # all of them` in f, line 3"
    assert diff(one).splitlines()[1:3] == ["-    x.save()  # all of them", "+    if rank == 0:"]


def test_operators_have_names_of_their_own() -> None:
    """A mutant's name begins with it."""
    names = [name for name, _, _ in (*OPERATORS, *SCOPED)]
    assert len(set(names)) == len(names)


# --- variants --------------------------------------------------------------------------------------------------------


@pytest.fixture
def subject(tmp_path: Path) -> score.Subject:
    return score.load(small.NAME, small.build(tmp_path))


def test_variants_are_mutated_too_and_a_few_of_each_are_drawn(subject: score.Subject) -> None:
    """All of the solution; of a variant a dozen that the exercise's content draws, the same for one tree."""
    counts = subject.counts()
    assert counts.keys() == {"", "gathers"} and counts["gathers"] > score.DRAWN
    drawn = subject.drawn()
    of_variant = [mutant for mutant in subject.mutants if mutant.variant and mutant.identity in drawn]
    assert len(drawn) == counts[""] + score.DRAWN and len(of_variant) == score.DRAWN
    assert all(mutant.identity.startswith("gathers.py | ") and "all_gather" in mutant.base for mutant in of_variant)
    checks = subject.exercise.folder / "checks.py"
    checks.write_text(checks.read_text() + "# changed\n")
    assert subject.drawn() != drawn
