"""What runs inside a rank, without one: what an attempt tells of an error."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from grader.ranks.inside.exceptions import MAX_SAID, tell_caught
from grader.ranks.inside.rank import Attempt


def failing() -> Exception:
    try:
        try:
            raise KeyError("epoch")
        except KeyError as error:
            error.add_note("while reading the file")
            raise ValueError("no checkpoint") from error
    except ValueError as error:
        error.add_note("rank 1")
        return error


def test_an_attempt_tells_all_that_its_error_says() -> None:
    """Its own text and notes, then those of the errors behind it."""
    told = Attempt(error=failing(), line=3).described()
    assert told == {
        "raised": ["ValueError", "Exception", "BaseException"],
        "message": "no checkpoint",
        "line": 3,
        "said": "no checkpoint\nrank 1\nKeyError: 'epoch'\nwhile reading the file",
    }
    assert Attempt(value=1).described() == {"raised": [], "message": "", "line": None, "said": ""}


def test_the_members_of_a_group_are_told() -> None:
    group = ExceptionGroup("two", [ValueError("one"), failing()])
    assert Attempt(error=group).described()["said"].splitlines()[1:4] == [
        "ValueError: one",
        "ValueError: no checkpoint",
        "rank 1",
    ]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd(Exception):
    __notes__: Any = 5


def noted(note: Any) -> Exception:
    error = ValueError("x")
    error.__notes__ = [note]  # add_note would refuse it
    return error


@pytest.mark.parametrize("error", [Mute(), Odd("x"), ValueError("x" * 90_000), noted(Mute()), noted("n" * 90_000)])
def test_an_odd_error_is_told_all_the_same(error: Exception) -> None:
    """A student's exception may be anything; what is told is short."""
    error.__context__ = Mute()
    error.__context__.__context__ = error
    told = Attempt(error=error).described()
    assert 0 < len(told["message"]) <= 4000 and 0 < len(told["said"]) <= MAX_SAID + len(" … ")


@pytest.mark.parametrize("place", ["own", "cause", "note"])
def test_the_end_of_a_long_traceback_of_another_process_is_told(place: str) -> None:
    """That is where its message stands, and a launcher's error may hold nothing else."""
    words = "Traceback (most recent call last):\n" + "  File x\n" * 5000 + "KeyError: fault 1f2e"
    error = RuntimeError(words if place == "own" else "a rank failed")
    if place == "cause":
        error.__cause__ = RuntimeError(words)
    if place == "note":
        error.add_note(words)
    assert Attempt(error=error).described()["said"].endswith("KeyError: fault 1f2e")


def test_a_rank_brings_no_other_process_along() -> None:
    """What a spawned rank imports of ours is the inside, and what values cross in."""
    code = "import sys, grader.ranks.inside.rank; print(*sorted(m for m in sys.modules if m.count('.') == 2))"
    done = subprocess.run(
        [sys.executable, "-c", code + "; print('psutil' in sys.modules)"], capture_output=True, text=True, check=True
    )
    ours = [name for name in done.stdout.split() if name.startswith("grader.ranks.")]
    assert ours == ["grader.ranks.inside"] and done.stdout.endswith("False\n"), done.stdout + done.stderr


REJOINS = """
from datetime import timedelta
import torch.distributed as dist
from grader.ranks.inside.rank import _forget_failed_join
class Refuses(dist.HashStore):
    def set(self, key, value): raise RuntimeError("the other rank has gone")
try:
    dist.init_process_group("gloo", store=Refuses(), rank=0, world_size=2, timeout=timedelta(seconds=1))
except RuntimeError:
    pass
print(dist.is_initialized(), dist.distributed_c10d._world.group_count)
_forget_failed_join()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
print(dist.group.WORLD.group_name)
"""


def test_a_rank_whose_joining_failed_names_its_next_group_as_the_others_do() -> None:
    """torch goes on counting there (which this shows for the torch that is installed), and the names of groups are part
    of their keys in the store."""
    ran = subprocess.run([sys.executable, "-c", REJOINS], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "1", "0"]


NAMES_ITS_GROUPS = """
import torch.distributed as dist
from pathlib import Path
from grader import catalog
from grader.judge import load_probe
probe = load_probe(catalog.load("12_fully_shard", Path.cwd()))
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
before = probe.group_names()
dist.new_group([0])
print(len(before), len(probe.group_names()))
"""


def test_a_process_can_name_its_groups() -> None:
    """12's probe takes them from a table that torch keeps to itself (which this shows for the torch that is installed);
    without one it names none, and two groups of one name are not told."""
    ran = subprocess.run([sys.executable, "-c", NAMES_ITS_GROUPS], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "2"]


@pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")
def test_a_process_knows_whether_orphans_come_to_it() -> None:
    """Else the end of one session would end every host of the machine that was started with the same HOME."""
    code = "from grader.kit import prctl as p; print(p.is_subreaper(), p.become_subreaper(), p.is_subreaper())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


@pytest.mark.parametrize(
    ("caught", "told"),
    [
        (["IndexError: no", 13], 1),
        (["RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error", 13], 0),
        (["ValueError: again", 13], 0),
        (None, 0),
    ],
)
def test_what_was_caught_is_told_unless_it_is_the_error_itself_or_came_of_a_peer(caught: Any, told: int) -> None:
    """What a gone neighbour did to this rank explains nothing."""
    recorded: list[Any] = []
    tell_caught(lambda name, value: recorded.append(value), caught, ValueError("again"))
    assert recorded == [caught] * told
