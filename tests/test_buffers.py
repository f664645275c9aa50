"""What a rank keeps in the kernel's buffers and beside its files is seen where its probe asks for a look."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from grader.model import MIB, Finished, Killed, Limits
from grader.ranks.watch.buffers import UNKNOWN
from tests.conftest import LEVELS, RunIt

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's own account of sockets")

SIZE = 8 * MIB
HEAD = f"""\
import array, ctypes, fcntl, os, pty, socket, threading

SIZE = {SIZE}

def fill(write, kept):
    while kept < SIZE:
        try:
            kept += write(b'x' * min(65536, SIZE - kept))
        except (BlockingIOError, OSError):
            break
    return kept

def work(rank):
    _ = rank.secret  # else its 25 bytes may wait in a pipe at the first look, and not at the second
    rank.be_seen('before')
"""
IN_STREAMS = """\
    kept, ends = 0, []
    while kept < SIZE:
        one, other = {pair}
        one.setblocking(False)
        kept, before = fill(one.send, kept), kept
        ends += [one, other]
        assert kept > before
"""
TCP = """\
    listener = socket.create_server(('127.0.0.1', 0))
    def connected():
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]
"""
WAYS = {
    "pipes": """\
    kept, ends = 0, []
    while kept < SIZE:
        read, write = os.pipe()
        os.set_blocking(write, False)
        kept = fill(lambda data: os.write(write, data), kept)
        ends += [read, write]
""",
    "pairs of Unix sockets": IN_STREAMS.format(pair="socket.socketpair()"),
    "TCP": TCP + IN_STREAMS.format(pair="connected()"),
    "connections that nobody accepts": """\
    listener, kept = socket.create_server(('127.0.0.1', 0), backlog=256), 0
    while kept < SIZE:
        one = socket.create_connection(listener.getsockname())
        one.sendall(b'x' * 65536)
        kept += 65536
        one.close()
""",
    "TCP whose sender was closed": TCP
    + IN_STREAMS.format(pair="connected()")
    + """\
    for one in ends[::2]:
        one.close()
""",
    "datagrams that are held back": """\
    kept, ends = 0, []
    while kept < SIZE:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.IPPROTO_UDP, 1, 1)
        one.connect(('127.0.0.1', 9))
        kept += one.send(b'x' * 60_000)
        ends.append(one)
""",
    "files beside those of the ranks": """\
    for place in (os.path.dirname(os.path.abspath(rank.file)), os.path.dirname(rank.shared)):
        with open(os.path.join(place, 'kept'), 'wb') as file:
            fill(file.write, SIZE // 2)
""",
    "names of files": """\
    for number in range(SIZE // 250):
        open(f"{number:06}" + "x" * 244, "w").close()
""",
    "links to nowhere": """\
    for number in range(SIZE // 4000):
        os.symlink("x" * 4000, f"link{number}")
""",
    "the table of a thread": """\
    descriptor = os.memfd_create('x')
    os.write(descriptor, b'x' * SIZE)
    done, stay = threading.Event(), threading.Event()
    def keep():
        ctypes.CDLL(None).syscall(436, ctypes.c_uint(9000), ctypes.c_uint(9001), ctypes.c_uint(2))
        done.set()
        stay.wait()
    threading.Thread(target=keep, daemon=True).start()
    done.wait()
    os.close(descriptor)
""",
}
UNSEEN = {
    "descriptors under way": """\
    one, other = socket.socketpair()
    descriptor = os.memfd_create('x')
    socket.send_fds(one, [b'x'], [descriptor])
    os.close(descriptor)
""",
    "datagrams": """\
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.send(b'x')
    one.close()
""",
    "a queue of connections": """\
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('place')
    listener.listen()
    one = socket.socket(socket.AF_UNIX)
    one.connect('place')
""",
}


def growth(run: Any) -> int:
    assert isinstance(run.ranks[0].ending, Finished), run.ranks[0].ending
    seen = {one.name: one for one in run.witness.seen}
    return (seen["after"].memory or 0) - (seen["before"].memory or 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
def test_what_waits_there_is_kept(run_on_ranks: RunIt, level: str, way: str) -> None:
    """Each way of keeping 8 MiB is seen, and once."""
    source = HEAD + WAYS[way] + "    rank.be_seen('after')\n"
    grown = growth(run_on_ranks("work", source=source, world_size=1, process_group=False))
    assert 0.95 * SIZE < grown < SIZE + 1.5 * MIB


@pytest.mark.parametrize("way", UNSEEN)
def test_what_nobody_can_measure_counts_for_much(run_on_ranks: RunIt, way: str) -> None:
    """It may be as large as one likes."""
    source = HEAD + UNSEEN[way] + "    rank.be_seen('after')\n"
    grown = growth(run_on_ranks("work", source=source, world_size=1, process_group=False))
    assert UNKNOWN <= grown < UNKNOWN + 1.5 * MIB


def test_what_programs_have_open_is_not_kept(run_on_ranks: RunIt) -> None:
    """A pipe and sockets that were read to the end, output that nobody has taken in, a listener, workers of a
    DataLoader whose tensors come through sockets."""
    source = """\
import os, socket
import torch
from torch.utils.data import DataLoader

def work(rank):
    loader = DataLoader([torch.zeros(9)] * 8, batch_size=2, num_workers=1, multiprocessing_context="fork")
    rank.be_seen('before')
    for batch in loader:
        assert batch.shape == (2, 9)
    read, write = os.pipe()
    os.write(write, b'x' * 1000)
    os.read(read, 1000)
    listener = socket.create_server(('127.0.0.1', 0))
    pair = socket.socketpair()
    print('x' * 100_000, flush=True)
    rank.be_seen('after')
"""
    assert abs(growth(run_on_ranks("work", source=source, world_size=1, process_group=False))) < 1.5 * MIB


def test_what_sockets_hold_counts_for_the_run(run_on_ranks: RunIt) -> None:
    """It is the kernel's memory, of no process."""
    source = """\
import socket, time

def work(rank):
    ends = []
    for _ in range(400):
        one, other = socket.socketpair()
        one.setblocking(False)
        ends += [one, other]
        try:
            while True:
                one.send(b'x' * 65536)
        except BlockingIOError:
            pass
    time.sleep(25)
"""
    limits = Limits(memory=48 * MIB)
    run = run_on_ranks("work", source=source, world_size=1, process_group=False, limits=limits, deadline=30)
    ending = run.ranks[0].ending
    assert isinstance(ending, Killed) and "in sockets" in ending.limit, ending


@pytest.mark.parametrize("level", LEVELS)
def test_files_that_are_under_way_count_for_the_run(run_on_ranks: RunIt, level: str) -> None:
    """Else a rank could fill the machine's memory with files of which none is anybody's."""
    source = """\
import os, socket, time

def work(rank):
    ends = socket.socketpair()
    for number in range(4):
        descriptor = os.memfd_create(str(number))
        for _ in range(64):
            os.write(descriptor, b'x' * 2**20)
        socket.send_fds(ends[0], [b'x'], [descriptor])
        os.close(descriptor)
    time.sleep(25)
"""
    limits = Limits(disk=64 * MIB)
    run = run_on_ranks("work", source=source, world_size=1, process_group=False, limits=limits, deadline=30)
    ending = run.ranks[0].ending
    assert isinstance(ending, Killed) and (ending.limit or "").startswith("disk"), ending
