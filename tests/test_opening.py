"""Files that ranks wrote: opened by a process without student code, whatever they hold."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from typing import Any

import pytest
import torch

from grader.model import MIB, Killed, OpenedFile, RankRecord, TimedOut
from grader.model.run import digest_of
from grader.ranks import opening
from grader.ranks.inside.opener import NO_MEMORY, Room, opened, plain
from grader.records import wire

ROOM = 24 * MIB


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def compressed(data: bytes) -> bytes:
    """The same file with its parts deflated, as torch never writes them."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return file.getvalue()


def look(data: bytes, seconds: float = 5.0, room: int = ROOM) -> tuple[Any, str]:
    return opened(data, seconds, Room(room))


def problem(data: bytes, **limits: Any) -> str:
    content, said = look(data, **limits)
    assert content is None and said and "\n" not in said
    return said


def test_a_checkpoint_comes_out_as_it_went_in() -> None:
    """Values, names, order, dtypes; what is no plain type comes out as the plain type that it stands for."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "size": torch.Size([2, 3])}
    content, said = look(saved(whole))
    assert not said and list(content) == ["model", "optimizer", "epoch", "size"] and content["size"] == [2, 3]
    assert type(content["model"]) is dict and torch.equal(content["model"]["weight"], model.weight)
    assert type(content["model"]["weight"]) is torch.Tensor and content["optimizer"] == optimizer.state_dict() | {
        "param_groups": [{**optimizer.state_dict()["param_groups"][0], "betas": [0.9, 0.999]}]
    }
    assert wire.cost(wire.encode(content)) < ROOM


def test_views_come_out_contiguous_and_parameters_as_tensors() -> None:
    """The wire takes nothing else."""
    content, _ = look(saved([torch.arange(6).reshape(2, 3).T, torch.nn.Parameter(torch.ones(2))]))
    assert content[0].is_contiguous() and content[0].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert type(content[1]) is torch.Tensor


def test_a_little_file_that_unpacks_to_much_does_not_fit() -> None:
    """A tensor expanded from one element, a storage that is referred to a thousand times, zeros that were deflated."""
    assert "more than the 24 MiB" in problem(saved(torch.zeros(1).expand(2**40)))
    assert "more than the 24 MiB" in problem(saved([torch.zeros(2**16).view(2**16) for _ in [0]] * 1000))
    bomb = compressed(saved(torch.zeros(32 * MIB, dtype=torch.uint8)))
    assert len(bomb) < MIB and "more than the 24 MiB" in problem(bomb)


def test_containers_within_containers_do_not_fit_or_nest_too_deeply() -> None:
    """What doubles at each level, what contains itself, and what is nested by the thousand."""
    doubled: list[Any] = []
    for _ in range(40):
        doubled = [doubled, doubled]
    assert "more than the 24 MiB" in problem(saved(doubled))
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    assert "nested too deeply" in problem(saved(deep))
    assert "nested too deeply" in problem(pickled(b"]q\x00h\x00a."))  # a list that is its own entry


def pickled(program: bytes) -> bytes:
    """A file of torch.save whose pickle is this program (protocol 2)."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(0))) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"\x80\x02" + program if name.endswith("data.pkl") else old.read(name))
    return file.getvalue()


def test_a_pickle_of_millions_of_steps_runs_out_of_time() -> None:
    """Its time is up in the midst of torch.load."""
    assert "to open" in problem(pickled(b"]q\x00" + b"h\x00" * 3_000_000 + b"."), seconds=0.3)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"epoch,loss\n", saved({"a": 1})[:-100], b"\x80\x02" + b"(" * 99])
def test_what_is_no_file_of_torchs_has_a_reason(data: bytes) -> None:
    """In one line."""
    problem(data)


def test_code_in_a_file_is_named() -> None:
    """And not run."""
    assert problem(saved(pickle.Pickler)) == "it holds an object of pickle.Pickler"


def test_an_error_that_nobody_listed_is_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever torch.load raises."""

    def load(*_: Any, **__: Any) -> None:
        raise struct.error("odd") if load_raises == "odd" else RuntimeError(f"x: {NO_MEMORY[0]}")

    monkeypatch.setattr(torch, "load", load)
    load_raises = "odd"
    assert problem(b"x") == "odd"
    load_raises = "memory"
    assert problem(b"x") == "it takes too much memory to open"


def test_odd_keys_are_left_out_and_odd_values_named() -> None:
    """Nothing that may not cross does."""
    value = {("a", 1): 1, 2**60: 2, "dtype": torch.float32, "big": 1 << 5000, "set": {1}, "c": OrderedDict(a=1)}
    content = plain(value, Room(ROOM))
    assert content == {"dtype": "a dtype", "big": "a int", "set": [1], "c": {"a": 1}}
    wire.encode(content)


def test_a_tensor_of_another_kind_is_named() -> None:
    """Its elements may be in other processes, as a DTensor's are."""

    class Elsewhere(torch.Tensor):
        pass

    assert plain({"weight": torch.ones(2).as_subclass(Elsewhere)}, Room(ROOM)) == {"weight": "a Elsewhere"}


def test_one_file_that_does_not_fit_leaves_its_room_to_the_next() -> None:
    """Each is told apart."""
    room = Room(ROOM)
    assert opened(saved(torch.zeros(1).expand(2**40)), 5, room)[1] and room.left == ROOM
    assert opened(saved({"a": 1}), 5, room)[1] == "" and room.left < ROOM


# --- what is asked for, and what comes back ---------------------------------------------------------------------------


def rank(number: int, **observations: Any) -> RankRecord:
    return RankRecord(rank=number, ending=TimedOut(), observations=observations)


def test_every_file_is_asked_for_once() -> None:
    """At any depth, whichever ranks recorded it."""
    found = opening.files_of([rank(0, a=b"one", b={"file": b"two", "n": 1}), rank(1, a=[[b"one"], None])])
    assert found == {digest_of(data): data for data in (b"one", b"two")}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (rank(0), "it takes too long to open"),
        (RankRecord(rank=0, ending=Killed(signal="SIGSEGV")), "opening it ended Python by SIGSEGV"),
        (RankRecord(rank=0, ending=Killed(signal="SIGKILL", limit="memory: 1")), "reached a limit (memory: 1)"),
        (rank(0, x={"content": 1}), "too long"),
    ],
)
def test_a_file_that_ends_its_opener_has_that_as_its_problem(record: RankRecord, said: str) -> None:
    """Whatever the opener says, there is an answer for each file."""
    (file,) = opening.opened({"x": b""}, record)
    assert file.digest == "x" and said in file.problem and file.content is None
    (file,) = opening.opened({"y": b""}, rank(0, y={"content": 1, "problem": ""}))
    assert file == OpenedFile(digest="y", content=1)
