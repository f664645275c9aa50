"""Any manifest gives an exercise or an author's error with its place."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grader import catalog
from grader.model.errors import AuthorError
from tests import small
from tests.fuzzing import damaged, fuzz, mutated

REPOSITORY = catalog.repository_root(Path(__file__).parents[1])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
ODD = PLAIN | st.sampled_from([-1, 0, 10**30, "x: y", "test", [], {}, [1, 1], {"[key]": 1}, "\x85", ".inf", [[[]]]])
YAML = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=4),
    max_leaves=10,
)
SCRAPS = (
    b"&a [*a]",
    b"*a",
    b"<<: *a\n",
    b"!!python/object:os.system {}",
    b"!!binary x",
    b"? [a]\n",
    b"[" * 300,
    b"2024-99-99",
    b"0x",
    b"1_0:90",
    b"\xff",
    b"---\n",
    b"!!set {a}",
    b"!!timestamp x",
    b"!!int x",
    b"\t",
    b"9" * 5000,
)
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
LOADERS = {
    "exercises/90_total/exercise.yaml": lambda root: catalog.load(small.NAME, root),
    "reference/90_total/mutants.yaml": lambda root: catalog.load_mutants(catalog.load(small.NAME, root), root),
    "reference/90_total/equivalents.yaml": lambda root: catalog.load_equivalents(catalog.load(small.NAME, root), root),
}
EQUIVALENTS = "- mutant: 'x | f | y'\n  reason: no fault\n  where: cuda\n"
TEXTS = {**small.FILES, "reference/90_total/equivalents.yaml": EQUIVALENTS}


def read_by_the_catalog(root: Path, name: str, data: bytes) -> None:
    """Loads with one file exchanged; an AuthorError must be one clear sentence that can be printed."""
    path = root / name
    path.write_bytes(data)
    try:
        LOADERS[name](root)
    except AuthorError as error:
        str(error).encode()
        assert len(str(error)) < 2000
    finally:
        path.write_text(TEXTS[name])


@pytest.mark.parametrize("name", LOADERS)
@fuzz(60)
@given(data=st.data())
def test_a_damaged_manifest_gives_an_author_error_or_an_exercise(root: Path, name: str, data: st.DataObject) -> None:
    """The real text with cuts and scraps of YAML's darker corners."""
    read_by_the_catalog(root, name, data.draw(damaged(TEXTS[name].encode(), SCRAPS)))


@pytest.mark.parametrize("name", LOADERS)
@fuzz(80)
@given(data=st.data())
def test_any_yaml_tree_gives_an_author_error_or_an_exercise(root: Path, name: str, data: st.DataObject) -> None:
    """The real tree with parts exchanged for anything that YAML can say."""
    tree = data.draw(mutated(yaml.safe_load(TEXTS[name]), YAML))
    read_by_the_catalog(
        root, name, yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode("utf-8", "replace")
    )


@pytest.mark.parametrize("name", LOADERS)
@fuzz(30)
@given(data=st.text(max_size=200).map(str.encode) | st.binary(max_size=200))
def test_any_text_gives_an_author_error(root: Path, name: str, data: bytes) -> None:
    """Arbitrary text and arbitrary bytes."""
    read_by_the_catalog(root, name, data)


@pytest.mark.parametrize(
    "text",
    [
        *(f"a: !!{tag} x" for tag in ("bool", "int", "float", "timestamp", "binary", "set", "omap")),
        'a: !!int ""',
        BOMB,
        "parameters: " + BOMB[-20:],
        "[" * 900 + "]" * 900,
        "{a: " * 900 + "}" * 900,
        "a: 0x" + "f" * 9000,
    ],
)
def test_a_manifest_that_yaml_trips_over_is_told(root: Path, text: str) -> None:
    """Aliases of aliases, deep nesting, endless numbers and tags that do not fit end in an AuthorError at once."""
    family = small.FILES["exercises/90_total/exercise.yaml"].replace(
        "bad: {world_sizes: [1]}", "bad:\n    world_sizes: [1]\n    parameters:\n" + BOMB.replace("a", "      a")
    )
    start = time.process_time()
    for name in LOADERS:
        read_by_the_catalog(root, name, text.encode())
    read_by_the_catalog(root, "exercises/90_total/exercise.yaml", family.encode())
    assert time.process_time() - start < 20


@pytest.mark.parametrize("name", catalog.all_names(REPOSITORY))
@fuzz(4)
@given(data=st.data())
def test_a_damaged_real_manifest_is_told(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Each exercise's own manifest, damaged."""
    source, copy = REPOSITORY / "exercises" / name, tmp_path_factory.getbasetemp() / "real" / "exercises" / name
    copy.mkdir(parents=True, exist_ok=True)
    for file in ("probe.py", "checks.py"):
        (copy / file).write_bytes((source / file).read_bytes())
    (copy / "exercise.yaml").write_bytes(data.draw(damaged((source / "exercise.yaml").read_bytes(), SCRAPS)))
    with contextlib.suppress(AuthorError):
        catalog.load(name, copy.parents[1])
