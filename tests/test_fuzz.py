"""Fuzzing what the judge reads: any bytes give a value or an error of ours, in bounded time and memory.

How to draw more examples: tests/fuzzing.py.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from grader import catalog
from grader.model import Finding, Submission
from grader.model.errors import AuthorError, UsageError, WireError
from grader.records import recording, wire
from grader.submission import begun, receive
from tests import small
from tests.fuzzing import JSON, damaged, fuzz, mutated

MEGABYTE = 2**20
REPOSITORY = catalog.repository_root(Path(__file__).parent)

# -- the wire ---------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(1 - wire.MAX_KEY, wire.MAX_KEY - 1) | st.floats(-1e15, 1e15)
KEYS = st.text(max_size=4) | NUMBERS | st.booleans() | st.none() | st.binary(max_size=3)
DTYPES = st.sampled_from(sorted(wire.DTYPES))
SHAPES = st.lists(st.integers(0, 3), max_size=4)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any dtype, shape and bits, NaN payloads among them."""
    dtype, shape = getattr(torch, draw(DTYPES)), draw(SHAPES)
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return torch.empty(shape, dtype=dtype)
    data = bytearray(draw(st.binary(min_size=size, max_size=size)))
    data = bytearray(byte % 2 for byte in data) if dtype is torch.bool else data
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


ALLOWED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20) | tensors(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
FRAME = wire.encode({"a": [1.5, None, b"xy", torch.ones(2, 3)], 3: "…", "$x": float("nan")})
HEADERS = mutated(
    {
        "value": {"a": [{"$float": "nan"}, {"$bytes": 0}, {"$map": [[1, {"$tensor": [1, "float64", [2, 1]]}]]}]},
        "blobs": [3, 16],
    },
    JSON | st.sampled_from([{"$bytes": 1}, {"$tensor": [1, "bool", [16]]}, {"$map": [[[], 1]]}, [0, 2**62, 2**62]]),
)


def framed(header: object, blobs: bytes = b"", allow_nan: bool = True) -> bytes:
    text = json.dumps(header, allow_nan=allow_nan).encode()
    return struct.pack(">I", len(text)) + text + blobs


def same(left: object, right: object) -> bool:
    """Equal in type, structure and bits; NaN is the same as NaN."""
    if isinstance(left, torch.Tensor):
        raw = [t.reshape(-1).view(torch.uint8) if t.numel() else t for t in (left, right)]
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(*raw)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True) if len(left) == len(right) else ((0, 1),)
        return all(same(list(one), list(other)) for one, other in pairs)
    return left == right or (left != left and right != right)


def decoded(frame: bytes) -> object:
    with contextlib.suppress(WireError):
        return wire.decode(frame)
    return None


@fuzz(200)
@given(ALLOWED)
def test_every_value_that_may_cross_comes_back_the_same(value: object) -> None:
    """Types, order, keys, bits of tensors and NaN payloads."""
    assert same(wire.decode(wire.encode(value)), value)


@fuzz(200)
@given(st.binary(max_size=300) | damaged(FRAME, (b"[" * 50, b'"$bytes"', b"1e999", b"NaN", b"\\ud800")))
def test_bytes_give_a_value_or_a_wire_error(frame: bytes) -> None:
    """What comes out can be sent on: nothing odd is let in."""
    wire.encode(decoded(frame))


@fuzz(300)
@given(HEADERS, st.sampled_from([b"", b"abc" + b"\1" * 16, b"x" * 19]))
@example({"value": {"$tensor": [0, "float64", [0, 2**62, 2**62]]}, "blobs": [0]}, b"")
@example({"value": {"$tensor": [0, "float64", [1] * 5000]}, "blobs": [8]}, b"12345678")
@example({"value": "\ud800", "blobs": []}, b"")
@example({"value": {"\ud800": 1}, "blobs": []}, b"")
@example({"value": 10**400, "blobs": []}, b"")
@example({"value": {"$map": [[{"$tensor": [0, "bool", [1]]}, 1]]}, "blobs": [1]}, b"\1")
@example({"value": float("nan"), "blobs": []}, b"")
def test_forged_headers_give_a_value_or_a_wire_error(header: object, blobs: bytes) -> None:
    """Marks in wrong places, impossible shapes, huge numbers, half a surrogate pair."""
    wire.encode(decoded(framed(header, blobs)))


@pytest.mark.parametrize(
    "header",
    [
        {"value": [{"$bytes": 0}] * 1000, "blobs": [MEGABYTE]},
        {"value": [{"$tensor": [0, "uint8", [MEGABYTE]]}] * 1000, "blobs": [MEGABYTE]},
        {"value": [], "blobs": [MEGABYTE]},
        {"value": [{"$bytes": 1}, {"$bytes": 0}], "blobs": [0, MEGABYTE]},
    ],
    ids=["one blob named often", "one tensor named often", "a blob that is not named", "blobs out of order"],
)
def test_a_frame_cannot_unpack_to_more_than_it_holds(header: object) -> None:
    """One megabyte stays one, though the header names it a thousand times."""
    frame = framed(header, bytes(MEGABYTE))
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            wire.decode(frame)
        assert tracemalloc.get_traced_memory()[1] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_what_is_too_large_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers, frames, dimensions and integers, whoever made them."""
    large, blob = wire.encode("x" * 2000), wire.encode(b"x" * 2000)
    monkeypatch.setattr(wire, "MAX_HEADER", 1000)
    monkeypatch.setattr(wire, "MAX_FRAME", 1500)
    for frame in (large, blob):
        with pytest.raises(WireError, match="may cross"):
            wire.decode(frame)
    for value in ("x" * 2000, b"x" * 2000, torch.ones([1] * 65), torch.ones(1).expand(10**9), 1 << 1001, {(1,): 2}):
        with pytest.raises(WireError, match=r"may (not )?cross"):
            wire.encode(value)
    with pytest.raises(WireError, match="may not cross"):
        wire.encode(torch.empty(3, device="meta"))


# -- manifests --------------------------------------------------------------------------------------------------------

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


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.build(tmp_path_factory.mktemp("fuzzed"))


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


# -- submissions ------------------------------------------------------------------------------------------------------

CODINGS = ["utf-8", "latin-1", "ascii", "cp1252", "utf-7", "utf-16", "utf-32", "utf-8-sig", "idna", "punycode", "rot13"]
CODINGS += ["zlib", "hex", "base64", "undefined", "unicode_escape", "raw_unicode_escape", "hz", "iso2022_jp", "big5"]
CODINGS += ["shift_jis", "gb18030", "mbcs", "oem", "cp65001", "koi8-r", "nonsense"]
PIECES = (
    [b"\0", b"\r", b"\r\n", b"\x0c", b"\xef\xbb\xbf", b"\xff\xfe", b"f'{", b'"""', b"\\N{x}", b"\\", b"#", b"(" * 300]
    + [b"def total(value):\n", b"    raise NotImplementedError\n", b"class A:\n", b"\t", b"\xc3", b"\xe2\x80\xa8"]
    + [f"# coding: {name}\n".encode() for name in CODINGS]
)
SOURCES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), max_size=8).map(b"".join)


@fuzz(400)
@given(SOURCES | damaged(small.FILES["reference/90_total/total.py"].encode(), tuple(PIECES)))
def test_any_bytes_become_a_submission(root: Path, source: bytes) -> None:
    """With a problem or without; the problem is a sentence that can be printed."""
    exercise = catalog.load(small.NAME, root)
    path = root / "exercises" / small.NAME / "total.py"
    path.write_bytes(source)
    received = receive(exercise, path, root)
    assert isinstance(received, Submission) and received.source == source
    if received.problem is not None:
        assert type(received.problem) is Finding and len(received.problem.sentence()) < 2000
        received.problem.sentence().encode("utf-8", "surrogateescape")
    begun(exercise, root)


@pytest.mark.parametrize("coding", CODINGS)
def test_no_encoding_makes_a_large_file_slow(root: Path, coding: str) -> None:
    """A megabyte in any encoding that a first line may name."""
    exercise = catalog.load(small.NAME, root)
    path = root / "slow.py"
    start = time.process_time()
    for piece in (b"a-9b", b"+AGE-", b"a", b"\x1b$B", b"~{"):
        path.write_bytes(f"# coding: {coding}\n#".encode() + piece * (250_000 // len(piece)))
        assert isinstance(receive(exercise, path, root), Submission)
    assert time.process_time() - start < 20


NAMES = st.text(st.characters(), max_size=30) | st.sampled_from(
    [
        "\0",
        "x" * 5000,
        "../" * 2000,
        "/dev/zero",
        "/dev/tty",
        "/proc/self/mem",
        "/proc/self/fd/0",
        "\udcff",
        "",
        ".",
        "~",
    ]
)


@fuzz(150)
@given(NAMES)
def test_any_name_gives_a_usage_error_or_a_submission(root: Path, name: str) -> None:
    """Names that no file can have, devices, folders, and bytes that are no text."""
    exercise = catalog.load(small.NAME, root)
    for path in (Path(name), root / "nowhere" / name.lstrip("/")):
        with contextlib.suppress(UsageError):
            receive(exercise, path, root)


@pytest.mark.parametrize("kind", ["fifo", "loop", "folder"])
def test_a_path_that_is_no_file_is_refused_at_once(root: Path, tmp_path: Path, kind: str) -> None:
    """Nothing waits for a FIFO's writer or follows a loop of links."""
    path = tmp_path / "total.py"
    {"fifo": os.mkfifo, "loop": lambda p: p.symlink_to(p), "folder": Path.mkdir}[kind](path)
    for chosen in (path, tmp_path):
        with pytest.raises(UsageError):
            receive(catalog.load(small.NAME, root), chosen, root)


@pytest.mark.parametrize("where", ["total.py", "90_total/total.py", "exercises"])
def test_a_link_out_of_the_folder_is_refused(root: Path, tmp_path: Path, where: str) -> None:
    """Neither the reference nor another file of this machine can be handed in by a link, of the file or of a folder."""
    outside = tmp_path / "outside"
    (outside / small.NAME).mkdir(parents=True)
    for target in (outside / "total.py", outside / small.NAME / "total.py"):
        target.write_text("secret = 1\n")
    link = tmp_path / "handed in" / where
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / where if where.endswith(".py") else outside)
    with pytest.raises(UsageError, match="link that leads out"):
        receive(catalog.load(small.NAME, root), tmp_path / "handed in", root)


# -- recorded runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(root: Path) -> object:
    """The plain content of a file with two runs, one with a failure."""
    runs = (small.sum_run(2, torch.ones(4), None), small.bad_run("TypeError"))
    recording.save(root / "runs", catalog.load(small.NAME, root), 7, runs)
    return wire.decode((root / "runs").read_bytes())


@fuzz(120)
@given(data=st.data())
def test_a_forged_recording_gives_a_usage_error_or_runs(root: Path, recorded: object, data: st.DataObject) -> None:
    """Runs that are let in have the types that the model declares, so they can be saved again."""
    exercise = catalog.load(small.NAME, root)
    (root / "runs").write_bytes(data.draw(damaged(wire.encode(data.draw(mutated(recorded, ALLOWED))))))
    with contextlib.suppress(UsageError):
        seed, runs = recording.load(root / "runs", exercise)
        recording.save(root / "again", exercise, seed, runs)
        assert recording.load(root / "again", exercise)[0] == seed
