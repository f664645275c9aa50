"""What the supervisor sees of a rank when its probe asks for that, and what checks make of it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from grader.checks.memory import kept
from grader.checks.tolerance import MEMORY_IMPORTED, MEMORY_UNSEEN
from grader.checks.views import RankView
from grader.model import MIB, Case, Finished, Raised, RankRecord
from grader.model.errors import CheckFailed
from grader.model.witness import Seen, Witness
from grader.ranks.watch.sight import MOST
from tests.conftest import LEVELS, RunIt

SIZE = 12 * MIB
HEAD = "import subprocess, sys, mmap\n\n\ndef work(rank):\n    rank.be_seen('before')\n"
HOARDS = {
    "bytes": "    hoard = b'x' * SIZE\n",
    "shared memory": "    hoard = mmap.mmap(-1, SIZE)\n    hoard.write(b'x' * SIZE)\n",
    "a file": "    (rank.scratch / 'hoard').write_bytes(b'x' * SIZE)\n",
    "a process below": """\
    command = "hoard = b'x' * SIZE; print(flush=True); input()".replace("SIZE", str(SIZE))
    child = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
""",
    "a process that got away": """\
    import os, time
    read, write = os.pipe()
    if not os.fork():
        if not os.fork():
            os.setsid()
            hoard = b'x' * SIZE
            os.write(write, b'x')
            time.sleep(3600)
        os._exit(0)
    os.wait()
    os.read(read, 1)
""",
}


def seen_by_name(run: Any, rank: int = 0) -> dict[str, Seen]:
    return {one.name: one for one in run.witness.seen if one.rank == rank}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is asked")
@pytest.mark.parametrize("hoard", HOARDS)
def test_what_a_rank_keeps_is_seen_wherever_it_is(run_on_ranks: RunIt, hoard: str) -> None:
    """Each way of keeping 12 MiB is seen, and once; a process below takes some for itself, and one that has left its
    parents a part of what all forks share, the larger the fewer there are."""
    source = HEAD.replace("\n\n", f"\n\nSIZE = {SIZE}\n\n", 1) + HOARDS[hoard] + "    rank.be_seen('after')\n"
    run = run_on_ranks("work", source=source, world_size=1, process_group=False)
    seen = seen_by_name(run)
    assert isinstance(run.ranks[0].ending, Finished), run.ranks[0].ending
    grown = (seen["after"].memory or 0) - (seen["before"].memory or 0)
    room = {"a process below": 12 * MIB, "a process that got away": 256 * MIB}.get(hoard, 1.5 * MIB)
    assert SIZE * 0.95 < grown < SIZE + room
    assert len(seen["after"].processes) == (hoard == "a process below") and not seen["before"].processes
    assert ("rank0/hoard" in seen["after"].files) is (hoard == "a file")


@pytest.mark.parametrize("level", LEVELS)
def test_every_rank_is_seen_by_itself(run_on_ranks: RunIt, level: str) -> None:
    """Under names that may be the same on all ranks; files in the folder of all are seen of each."""
    source = "def work(rank):\n    (rank.shared / 'note').touch()\n    rank.be_seen(f'rank {rank.rank}')\n"
    run = run_on_ranks("work", source=source, world_size=2, process_group=False)
    assert run.witness is not None
    assert sorted((one.rank, one.name) for one in run.witness.seen) == [(0, "rank 0"), (1, "rank 1")]
    assert all("shared/note" in one.files for one in run.witness.seen)


def test_who_asks_twice_under_one_name_has_failed(run_on_ranks: RunIt) -> None:
    """The student's code could ask before the probe does, at a better moment."""
    source = "def work(rank):\n    rank.be_seen('kept')\n    rank.be_seen('kept')\n"
    ending = run_on_ranks("work", source=source, world_size=1, process_group=False).ranks[0].ending
    assert isinstance(ending, Raised) and ending.type == "MalformedMessage" and "for two looks" in ending.message


def test_whatever_a_rank_makes_can_be_looked_at_and_told(run_on_ranks: RunIt) -> None:
    """Files by the thousand with the longest names there are, and a process whose name is no text."""
    source = """\
import ctypes

def work(rank):
    ctypes.CDLL(None).prctl(15, b"\\xff\\xfe", 0, 0, 0)
    for number in range(2000):
        (rank.scratch / (chr(0x1F600) * 60 + str(number))).touch()
    for number in range(30):
        rank.be_seen(chr(0x1F600) * 500 + str(number))
"""
    run = run_on_ranks("work", source=source, world_size=2, process_group=False)
    assert all(isinstance(record.ending, Finished) for record in run.ranks), run.ranks
    assert run.witness is not None and len(run.witness.seen) == 60
    assert sum(len(one.files) for one in run.witness.seen if one.rank == 0) == MOST
    assert all(one.memory is not None for one in run.witness.seen)


# -- what checks make of it -------------------------------------------------------------------------------------------


def view(witness: Witness | None, inside: int = 0) -> RankView:
    growth = {"heap": inside, "shared": 0, "files": 0, "gpu": 0, "storages": 0}
    record = RankRecord(rank=0, ending=Finished(), observations={"Adam: now": growth})
    return RankView(record, Case(name="memory", probe="memory", world_size=1), witness=witness)


def looks(before: int | None, now: int | None) -> Witness:
    return Witness(seen=tuple(Seen(rank=0, name=f"Adam: {w}", memory=m) for w, m in (("before", before), ("now", now))))


@pytest.mark.parametrize(
    ("witness", "inside", "expected"),
    [
        (looks(MIB, 21 * MIB), 5 * MIB, 20 * MIB - MEMORY_UNSEEN),
        (looks(MIB, 21 * MIB), 30 * MIB, 30 * MIB),
        (looks(None, None), 5 * MIB, 5 * MIB),
        (None, 5 * MIB, 5 * MIB),
        (looks(MEMORY_IMPORTED + 9 * MIB, MEMORY_IMPORTED + 9 * MIB), 0, 9 * MIB - MEMORY_UNSEEN),
    ],
    ids=["outside", "inside", "not told", "an old record", "useless things kept until then"],
)
def test_the_instrument_that_shows_most_counts(witness: Witness | None, inside: int, expected: int) -> None:
    """A rank may lie about its own, and what it had before counts up to what importing takes."""
    assert kept(view(witness, inside), "Adam", "now") == expected


def test_a_rank_that_was_not_to_be_seen_fails() -> None:
    """Where there is a witness, the probe has asked for it."""
    with pytest.raises(CheckFailed) as failure:
        kept(view(Witness()), "Adam", "now")
    assert "never came" in failure.value.findings[0].actual
