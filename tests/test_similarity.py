"""Hand-ins that resemble one another: planted copies are found, and people who worked apart are not."""

from __future__ import annotations

import ast
import builtins
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.batch.similarity import behaviour, code, export, find
from grader.batch.similarity.pairs import clusters, pairs
from grader.cli import cli
from grader.model.errors import UsageError
from tests import classes
from tests.batches import FakeEngine, a_class, batch, graded

ROOT = Path(__file__).resolve().parent.parent
EXERCISE = "05_no_sync"
STUB = (ROOT / "exercises" / EXERCISE / "no_sync.py").read_text()
APART = {path.stem: path.read_text() for path in (ROOT / "reference" / EXERCISE / "variants").glob("[!._]*.py")}
SOLUTION = (ROOT / "reference" / EXERCISE / "no_sync.py").read_text()


# ── what has what in common ──


def test_what_more_than_half_have_says_nothing_and_what_is_rare_says_more():
    things = {
        "a": frozenset({"all", "rare", "x"}),
        "b": frozenset({"all", "rare", "y"}),
        "c": frozenset({"all", "often", "z"}),
        "d": frozenset({"all", "often"}),
        "e": frozenset({"all", "own"}),
    }
    found = pairs(things, least=0.0, shared=1)
    assert [(pair.first, pair.second, pair.common) for pair in found] == [("c", "d", ("often",)), ("a", "b", ("rare",))]
    assert found[0].share == 1.0 and 0 < found[1].share < 0.5


def test_a_copy_that_was_added_to_is_one_all_the_same():
    things = {f"n{each}": frozenset({each, -each}) for each in range(1, 5)}
    things |= {"small": frozenset(range(10, 20)), "large": frozenset(range(10, 60))}
    (pair,) = pairs(things, least=0.9, shared=5)
    assert {pair.first, pair.second} == {"small", "large"} and pair.share == 1.0


def test_a_crowd_makes_no_pairs_but_counts_in_those_that_there_are():
    crowd = {f"c{number}": frozenset({"crowd", number}) for number in range(80)}
    others = {f"o{number}": frozenset({-1 - number}) for number in range(100)}
    twins = {"t1": frozenset({"crowd", "twin"}), "t2": frozenset({"crowd", "twin"})}
    (pair,) = pairs(crowd | others | twins, least=0.0, shared=1)
    assert pair.common == ("twin", "crowd") and pair.share == pytest.approx(1.0)


def test_groups_hang_together_by_pairs():
    things = {name: frozenset({*name, name}) for name in ("ab", "bc", "cd", "x", "y", "z", "vw", "wu")}
    assert clusters(pairs(things, least=0.0, shared=1)) == [("ab", "bc", "cd"), ("vw", "wu")]


# ── what hand-ins did ──


def trace(*operations: str) -> dict:
    steps = [{"operation": name, "bytes": 8, "group": [0, 1]} for name in operations]
    rank = {"rank": 0, "ending": "finished", "at": None, "facts": {}, "trace": {"communications": steps}}
    return {"case": "train[2]", "world_size": 2, "diagnosis": None, "ranks": [rank]}


def test_the_same_unusual_sequence_and_the_same_wrong_numbers_are_traits():
    odd = classes.report("PFPP", {"accumulates": [classes.TWICE]}, [trace("broadcast", "barrier", "barrier")])
    usual = classes.report("PPPP", {}, [trace("all_reduce")])
    late = classes.report("PPFP", {"overlaps": [classes.LATE]}, [trace("all_reduce")])
    found = behaviour.rare({"a": behaviour.features(odd), "b": behaviour.features(odd)})
    assert sorted(map(behaviour.told, found["a"])) == [
        "in train[2] rank 0 calls broadcast, 2 × barrier",
        f"the gradient: {classes.TWICE['actual']}",
    ]
    many = {f"u{number}": behaviour.features(usual) for number in range(5)} | {"late": behaviour.features(late)}
    assert not any(behaviour.rare(many).values())


# ── a batch ──


def answer(slot, work):
    odd = b"return 7" in work.files[0][1]
    runs = [trace("broadcast", "barrier"), {**trace("reduce", "send"), "case": "other[2]"}] if odd else []
    return graded(slot, work, json.dumps({**classes.report("PPPP", {}, runs), "exercise": work.exercise}).encode())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    sources = {"ada": "x = 1\n", "bob": "x = 1\n", "cy": "def f():\n    return 7\n", "di": "def g(y):\n    return 7\n"}
    made = a_class(tmp_path, **sources, **{f"n{number}": f"y = {number}\n" for number in range(4)})
    monkeypatch.chdir(made)
    batch(made, FakeEngine(otherwise=answer))
    return made


def run(*words: str):
    return CliRunner().invoke(cli, ["batch", "similarity", *words])


@pytest.mark.parametrize("kind", export.KINDS)
def test_export_writes_what_other_tools_read(folder, kind):
    done = run("out", "--names", "--export", kind, "given to others")
    assert done.exit_code == 0 and kind in done.output and "'given to others/90_total" in done.output
    own = folder / "given to others/90_total"
    assert (own / "submissions/cy/total.py").read_text() == "def f():\n    return 7\n"
    assert (own / "template/total.py").read_text().startswith("def total(value)")
    lines = (own / "info.csv").read_text().splitlines()
    assert lines[0] == "filename,full_name,created_at" and len(lines) == 9
    assert lines[1].startswith("submissions/ada/total.py,ada,")
    again = run("out", "--export", kind, "given to others")
    assert again.exit_code == 2 and "is not empty" in again.output


def test_without_names_an_export_calls_files_by_their_units_and_has_each_once(folder):
    assert run("out", "--export", "dolos", "x").exit_code == 0
    called = [path.name for path in (folder / "x/90_total/submissions").iterdir()]
    assert len(called) == 7 and not {"ada", "bob", "cy"} & set(called)


def test_where_copydetect_is_missing_one_sentence_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    done = run("out")
    assert done.exit_code == 2 and f"{sys.executable} -m pip install 'ranklings[similarity]'" in done.output
    with pytest.raises(UsageError):
        find.resemblances([], str)


# ── with copydetect ──


def renamed(tree: ast.Module) -> ast.Module:
    """Every name that the file itself gives is another."""
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own -= set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg in own:
            node.arg = f"my_{node.arg[::-1]}"
        elif isinstance(node, ast.Name) and node.id in own:
            node.id = f"my_{node.id[::-1]}"
    return tree


def reordered(tree: ast.Module) -> ast.Module:
    """Functions come in the opposite order, below everything else."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    tree.body = [node for node in tree.body if node not in functions] + functions[::-1]
    return tree


def commented(source: str) -> str:
    """Comments of one's own, and blank lines."""
    lines = ast.unparse(ast.parse(source)).split("\n")
    return "\n\n".join(f"{line}  # this is mine" if line.strip() else line for line in lines)


PLANTED = {
    "renamed": lambda source: ast.unparse(renamed(ast.parse(source))),
    "reordered": lambda source: ast.unparse(reordered(ast.parse(source))),
    "commented": commented,
    "all of it": lambda source: commented(ast.unparse(reordered(renamed(ast.parse(source))))),
}


@pytest.mark.parametrize("how", PLANTED)
@pytest.mark.parametrize("victim", ["parameter_hooks", "closure"])
def test_a_planted_copy_is_found_among_people_who_worked_apart(how, victim):
    pytest.importorskip("copydetect", reason="copydetect is not installed")
    files = {**APART, "solution": SOLUTION, "copy": PLANTED[how](APART[victim])}
    prints = {name: code.fingerprints(source, STUB) for name, source in files.items()}
    (pair,) = pairs(prints, least=0.4, shared=find.SHARED)
    assert {pair.first, pair.second} == {"copy", victim}


def test_an_untouched_stub_has_nothing_of_its_own():
    pytest.importorskip("copydetect", reason="copydetect is not installed")
    assert not code.fingerprints(STUB, STUB) and not code.fingerprints("", STUB)


def test_the_command_tells_of_code_bytes_and_behaviour_and_gives_no_verdict(folder):
    pytest.importorskip("copydetect", reason="copydetect is not installed")
    done = run("out", "--names", "--json", "s.json")
    assert done.exit_code == 0, done.output
    assert "the same bytes: ada, bob" in done.output
    assert any(f"did the same: {pair}" in done.output for pair in ("cy and di", "di and cy"))  # units have no order
    assert "none of it is a verdict" in done.output
    (exercise,) = json.loads((folder / "s.json").read_text())["exercises"]
    assert exercise["files"] == 7 and exercise["behaviour"][0]["common"] == 2
