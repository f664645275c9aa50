"""What the kernel counted is what was moved, whatever the ranks say of it; and what checks make of it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from grader.checks import RunView
from grader.checks.witness import UNHEARD
from grader.model import Case, Finished, RankRecord, Run
from grader.model.errors import CheckFailed
from grader.model.trace import Communication, Trace
from grader.model.witness import Link, Witness
from grader.ranks.inside import sockets
from grader.ranks.inside.sockets import Socket
from grader.ranks.watch.witness import Watcher
from tests.conftest import LEVELS, RunIt

SIZE = 2**20
HEAD = """\
import os, socket, threading, time
import torch, torch.distributed as dist

TENSOR = torch.ones(2**18)

"""
HONEST = HEAD + "def work(rank):\n    dist.all_reduce(TENSOR)\n"
CLOSED = HONEST + "    dist.destroy_process_group()\n"
SILENT = HEAD + "def work(rank):\n    pass\n"
FORGED = (
    HEAD
    + """\
def work(rank):
    for _ in range(3):
        rank.tracer.communications.append({
            "operation": "all_reduce", "bytes": 2**20, "dtype": "float32", "group": [0, 1], "peer": None,
            "start": rank.tracer.seconds(), "end": None, "line": 1, "backward": None, "computed": 0,
        })
"""
)
BESIDE = (
    HEAD
    + """\
def work(rank):
    place = rank.shared / "port"
    if rank.rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as server:
            (rank.shared / "new").write_text(str(server.getsockname()[1]))
            os.replace(rank.shared / "new", place)
            with server.accept()[0] as peer:
                while peer.recv(2**20):
                    pass
    else:
        while not place.exists():
            time.sleep(0.01)
        with socket.create_connection(("127.0.0.1", int(place.read_text()))) as peer:
            peer.sendall(bytes(3 * 2**20))
            time.sleep(0.5)
    dist.barrier()
"""
)
STORED = HEAD + "def work(rank):\n    dist.distributed_c10d._get_default_store().set(f'{rank.rank}', 'x' * 2**20)\n"


@pytest.mark.parametrize("level", LEVELS)
def test_every_byte_between_ranks_is_counted(run_on_ranks: RunIt, level: str) -> None:
    """An all-reduce of b bytes on two ranks moves 2 b at ring cost, and gloo next to nothing beside; on three, 4 b."""
    for ranks in (2, 3):
        witness = run_on_ranks("work", source=HONEST, world_size=ranks).witness
        assert witness is not None and witness.complete
        ring = 2 * (ranks - 1) * SIZE
        assert ring <= witness.peer_bytes <= 1.01 * ring
        assert [link.ranks for link in witness.links] == [(a, b) for a in range(ranks) for b in range(a + 1, ranks)]


@pytest.mark.parametrize("level", LEVELS)
def test_connections_that_were_closed_are_counted(run_on_ranks: RunIt, level: str) -> None:
    """The kernel has a last word about each, also about one that lived for a moment."""
    witness = run_on_ranks("work", source=CLOSED).witness
    assert witness is not None and witness.peer_bytes + witness.unclaimed.bytes >= 2 * SIZE


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (HONEST, ""),
        (CLOSED, ""),
        (SILENT, ""),
        (FORGED, "processes exchanged: expected at least"),
        (BESIDE, "processes exchanged: expected at most"),
        (STORED, "went through a store: expected at most"),
    ],
    ids=["honest", "closed", "silent", "forged", "beside", "stored"],
)
def test_a_trace_is_held_against_the_kernel(run_on_ranks: RunIt, level: str, source: str, told: str) -> None:
    """Claims without bytes, bytes without a trace, and values that went through the store are findings."""
    run = run_on_ranks("work", source=source, trace=True)
    assert run.diagnosis is None and run.witness is not None
    if not told:
        RunView(run).expect_confirmed()
        return
    with pytest.raises(CheckFailed) as failed:
        RunView(run).expect_confirmed()
    assert told in failed.value.findings[0].sentence()


# -- what checks make of it -------------------------------------------------------------------------------------------


def made(
    witness: Witness | None, *, ranks: int = 3, sizes: tuple[int, ...] = (), trace: bool = True, held: bool = True,
    operation: str = "all_reduce",
) -> RunView:  # fmt: skip
    """A run of finished ranks that have launched operations of these sizes; their groups are `held` to the end."""
    group = tuple(range(ranks))
    launched = tuple(
        Communication(operation=operation, bytes=size, dtype="float32", group=group, start=0.0) for size in sizes
    )
    told = Trace(communications=launched) if trace else None
    records = tuple(RankRecord(rank=rank, ending=Finished(), trace=told) for rank in range(ranks))
    case = Case(name="work", probe="work", world_size=ranks, hold_group=held)
    return RunView(Run(case=case, ranks=records, seconds=1.0, witness=witness))


def links(*pairs: tuple[int, ...], size: int = 0) -> Witness:
    return Witness(links=tuple(Link(ranks=pair, connections=1, bytes=size) for pair in pairs))


@pytest.mark.parametrize(
    ("witness", "least"),
    [
        (Witness(), 0),
        (links((0, 1), size=10**9), 0),
        (links((0, 1), (1, 2), size=10), 21),
        (links((0,), (1,), (2,), size=10**9), 0),
        (replace(links((0, 1), size=10**9), unclaimed=Link(ranks=(), connections=0, bytes=10**9)), 0),
        (replace(links((0, 1), (1, 2), size=10), unclaimed=Link(ranks=(), connections=1, bytes=10**9)), 21),
    ],
    ids=["nothing", "one alone", "too little", "each with itself", "bytes of no connection", "of other programs"],
)
def test_ranks_that_are_not_connected_or_move_too_little_are_found(witness: Witness, least: float) -> None:
    with pytest.raises(CheckFailed):
        made(witness).expect_moved(least)


@pytest.mark.parametrize("witness", [Witness(), links((0, 1), (1, 2), size=10)], ids=["nothing", "too little"])
def test_too_little_that_moved_has_a_hint_of_its_own(witness: Witness) -> None:
    """The check's hints are about values. A check may give another."""
    for given, hint in (({}, UNHEARD), ({"hint": "Count."}, "Count.")):
        with pytest.raises(CheckFailed) as failed:
            made(witness).expect_moved(10**6, **given)
        assert [finding.hint for finding in failed.value.findings] == [hint]


def test_what_nobody_could_claim_counts_for_the_run() -> None:
    """And a machine without the witness fails nobody; nor does a rank that is alone."""
    unclaimed = Link(ranks=(), connections=1, bytes=100)
    made(replace(links((0, 1), size=10), unclaimed=unclaimed)).expect_moved(110)
    made(replace(links((0, 1), (1, 2), size=10), unclaimed=unclaimed), held=False).expect_moved(120)
    made(None).expect_moved(10**9)
    made(Witness(), ranks=1).expect_moved(10**9)


def test_without_its_traces_nothing_is_confirmed() -> None:
    with pytest.raises(CheckFailed):
        made(links((0, 1), (1, 2)), trace=False).expect_confirmed()
    made(links((0, 1), (1, 2), size=300), sizes=(100,)).expect_confirmed()


def test_more_connections_than_can_be_counted_confirm_nothing() -> None:
    """Else whoever opens twenty thousand sockets could communicate unseen in the next."""
    with pytest.raises(CheckFailed, match="more than can be counted"):
        made(replace(links((0, 1), (1, 2), size=300), complete=False), sizes=(100,)).expect_confirmed()


def test_a_store_may_move_what_groups_need_to_find_one_another() -> None:
    """More groups, more connections, and more that went through the store: 26,901 bytes where each of 12's units had a
    group of its own on three ranks. Connections without end excuse nothing more."""
    pairs = ((0, 1), (0, 2), (1, 2))

    def met(connections: int, stored: int) -> None:
        joined = tuple(Link(ranks=pair, connections=connections, bytes=0) for pair in pairs)
        made(Witness(links=joined, store_bytes=stored)).expect_confirmed()

    met(37, 26_901)
    met(1, 24_576)
    for connections, stored in ((1, 26_901), (37, 2**20), (10_000, 2**20)):
        with pytest.raises(CheckFailed):
            met(connections, stored)


@pytest.mark.parametrize(
    ("operation", "most"),
    [("send", 1.25), ("all_reduce", 1.25), ("all_gather", 1.25), ("reduce_scatter", 2.5), ("reduce", 1.875)],
)
def test_operations_explain_no_more_than_they_carry(operation: str, most: float) -> None:
    """Nor a collective more than gloo moves for it, and a quarter."""
    carried = {"send": 2, "all_reduce": 2}.get(operation, 1) * 10**7
    for much in (0.9, 1.0, most):
        made(links((0, 1), size=int(much * carried)), ranks=2, sizes=(10**7,), operation=operation).expect_confirmed()
    with pytest.raises(CheckFailed):
        moved = links((0, 1), size=int((most + 0.1) * carried))
        made(moved, ranks=2, sizes=(10**7,), operation=operation).expect_confirmed()


# -- whose a connection is --------------------------------------------------------------------------------------------

HERE = b"\x7f\x00\x00\x01"
FIRST, SECOND = (HERE, 1000), (HERE, 2000)


class FakeSockets:
    """Two ends of a connection that no process of the run has open, as often as they are looked at."""

    def __init__(self) -> None:
        self.ends = [Socket(1, FIRST, SECOND, 11, 100), Socket(2, SECOND, FIRST, 12, 0)]
        self.gone = False

    def now(self) -> list[Socket]:
        return [] if self.gone else self.ends

    def destroyed(self) -> list[Socket]:
        return [one._replace(inode=0) for one in self.ends] if self.gone else []


@pytest.mark.parametrize(("looks", "connections"), [(0, 1), (1, 1), (2, 0)])
def test_what_was_closed_while_it_was_looked_at_is_nobody_elses(tmp_path: Path, looks: int, connections: int) -> None:
    """A rank may close a socket between the kernel's list and the look into the ranks. Only what stays is a stranger's,
    or a right solution would be charged for a moment's chance."""
    watcher, sockets = Watcher(1, tmp_path / "none"), FakeSockets()
    watcher._sockets = sockets  # type: ignore[assignment]
    for _ in range(looks):
        watcher.look({}, now=True)
    sockets.gone = True
    assert watcher.told().unclaimed.connections == connections


def test_both_questions_to_the_kernel_get_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one is the cheaper, and a kernel may refuse it: then the newer is asked."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("::1", 0), family=socket.AF_INET6) as two:
        ports = {one.getsockname()[1], two.getsockname()[1]}
        older = sockets.Sockets()
        monkeypatch.setattr(sockets, "OF_ANY_FAMILY", (sockets.question_of(19, bytes(56)),))
        monkeypatch.setattr(sockets, "understood", sockets.understood.__wrapped__)
        newer = sockets.Sockets()
        assert newer._asks == sockets.BY_FAMILY
        assert listening(older, ports) == listening(newer, ports) and len(listening(older, ports)) == 2


def listening(kernel: sockets.Sockets, ports: set[int]) -> list[Socket]:
    return sorted(one for one in kernel.now() if one.local[1] in ports)
