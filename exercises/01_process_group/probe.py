"""Runs in every rank: calls setup_ddp and cleanup_ddp in many settings and records what they did.

Two instruments watch the student's code without reading it. `Meetings` notes where the code asks to meet and then meets
at the port that was reserved for this run, so that no default port is ever really used. A staged machine shows any
number of GPUs, so that the device rule can be judged on every machine. Nothing here knows what is right.
"""

import builtins
import os
import socket
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from grader.kit import machine, meeting, stores, values

ADDRESSES = ["127.0.0.2", "127.0.0.3"]
"""What MASTER_ADDR says, in the first and the second set-up of a process: loopback, but no usual default."""
BAD = [(-1, 2), (-2, 2), (2, 2), (5, 2), (1, 1), (-3, 1), (3, 3), (0, 0), (1, 0), (0, -1), (-1, -1), (-2, -1)]
"""(rank, world_size), none of which can join."""
ENOUGH, TOO_FEW = [(1, 1), (2, 2), (3, 2)], [(1, 2), (2, 3), (0, 2)]
"""(GPUs, world size) of the machines that are staged."""
TURNS = [(1, 2), (0, 1), (2, 3), (0, 2)]
"""(rank, world size) that one process is in turn, on a machine with two GPUs."""
MISLEADING = [{"RANK": "1", "WORLD_SIZE": "3"}, {"RANK": "0", "WORLD_SIZE": "3"}]
"""What the environment says to rank 0 and to rank 1 of a group of two."""
MISLEADING_LOCALLY = [
    {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "3"},
    {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "3"},
]
"""The same where there is a GPU for each of them."""
LAUNCHER = {"RANK": "0", "WORLD_SIZE": "2"}
"""What the environment says while bad arguments are handed in. Torch reads RANK where it is given the rank -1."""
PATIENCE = timedelta(seconds=meeting.PATIENCE)
"""How long a rank waits at a meeting point for the others, whatever the code says. Only wrong code waits that long."""


def token(secret, group):
    """What the process with this secret contributes to the collectives of a group, a whole number that no other process
    can know before."""
    return float(values.token(secret, "group", group))


# -- the cases --------------------------------------------------------------------------------------------------------


def join(rank):
    """clean up, set up, talk, clean up twice; what the environment says of the place appears only after the student's
    file was imported"""
    meetings, port = Meetings(rank), os.environ.pop("MASTER_PORT")
    student = rank.student
    os.environ |= {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": port}
    rank.record("cleanup before any setup_ddp", rank.attempt(student.cleanup_ddp).described())
    set_up(rank, student, meetings)
    outcome = rank.attempt(student.cleanup_ddp).described()
    rank.record("cleanup", {**outcome, "initialized": dist.is_initialized()})
    rank.record("cleanup for the second time", rank.attempt(student.cleanup_ddp).described())


def default_place(rank):
    """set up where MASTER_ADDR, MASTER_PORT or both are missing, each rank as if from a terminal of its own. Where
    the port alone is missing they are asked once more where to meet, when rank 0 has been in a group of its own"""
    meetings, port_alone = Meetings(rank), "MASTER_ADDR" in os.environ and "MASTER_PORT" not in os.environ
    own_terminal(rank)
    rank.record("host", socket.gethostname())
    student = rank.student
    set_up(rank, student, meetings)
    if port_alone:
        student.cleanup_ddp()
        meetings.meet("left")
        if rank.rank == 0:
            meetings.members = 1
            student.setup_ddp(0, 1)
            student.cleanup_ddp()
        meetings.members, meetings.asked = 0, []
        rank.attempt(student.setup_ddp, rank.rank, rank.world_size)
        rank.record("asked again", meetings.asked)


def own_terminal(rank):
    """Another parent, and for the student's code another salt for the hashes of texts, as in an interpreter that was
    started by itself."""
    parent, hashed = os.getppid(), builtins.hash

    def salted(thing):
        asks = sys._getframe(1).f_globals.get("__name__")
        return hashed((rank.rank, thing) if asks == rank.file.stem and isinstance(thing, str | bytes) else thing)

    os.getppid, builtins.hash = lambda: parent + rank.rank, salted


def set_up(rank, student, meetings):
    """Where the ranks were to meet is recorded also where they then did not."""
    try:
        student.setup_ddp(rank.rank, rank.world_size)
    finally:
        rank.record("asked", meetings.asked)
    rank.record("group", talk(rank, "group", rank.rank, rank.world_size))


def again(rank):
    """set up → clean up → set up as another rank at another address → clean up → rank 0 sets up alone"""
    meetings, student = Meetings(rank), rank.student
    student.setup_ddp(rank.rank, rank.world_size)
    talk(rank, "first", rank.rank, rank.world_size)
    os.environ |= {"MASTER_ADDR": ADDRESSES[1], "MASTER_PORT": another(os.environ["MASTER_PORT"])}
    rank.record("second port", os.environ["MASTER_PORT"])
    student.cleanup_ddp()
    meetings.meet("left first")
    meetings.asked.clear()
    number = (rank.rank + 1) % rank.world_size
    student.setup_ddp(number, rank.world_size)
    rank.record("second", talk(rank, "second", number, rank.world_size))
    rank.record("asked", meetings.asked)
    student.cleanup_ddp()
    meetings.meet("left second")
    if rank.rank == 0:
        meetings.members = 1
        student.setup_ddp(0, 1)
        rank.record("third", talk(rank, "third", 0, 1))
        student.cleanup_ddp()


def another(port):
    """Another port. Nobody opens it."""
    return str(int(port) - 1 or 2)


def bad_arguments(rank):
    """alone: one bad call after the other, in an environment as torchrun leaves it, then a good one without that; and
    the grader makes a group which the student's code is to leave, and leaves one which that has made"""
    meetings, student, rows = Meetings(rank), rank.student, []
    meetings.members = 0
    os.environ.update(LAUNCHER)
    for number, world_size in BAD:
        meetings.asked.clear()
        outcome = rank.attempt(student.setup_ddp, number, world_size).described()
        rows.append({**outcome, "communicated": bool(meetings.asked), "initialized": dist.is_initialized()})
        leave()
    rank.record("bad", rows)
    for name in LAUNCHER:
        os.environ.pop(name, None)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    outcome = rank.attempt(student.cleanup_ddp).described()
    rank.record("cleanup of the grader's group", {**outcome, "initialized": dist.is_initialized()})
    leave()
    meetings.members = 1
    student.setup_ddp(0, 1)
    rank.record("good", talk(rank, "good", 0, 1))
    if leave():
        outcome = rank.attempt(student.cleanup_ddp).described()
        outcome["initialized"] = dist.is_initialized()
        rank.record("cleanup of a group that the grader has destroyed", outcome)
        meetings.port = 0  # whoever holds the first meeting's store still has its port
        outcome = rank.attempt(student.setup_ddp, 0, 1).described()
        rank.record("joined anew", {**outcome, "initialized": dist.is_initialized()})


def leave():
    """Destroy the default group, and tell whether there was one."""
    if there := dist.is_initialized():
        dist.destroy_process_group()
    return there


def device_rule(rank):
    """alone: every rank of every staged machine in turn, then the ranks of a misleading environment, then one process
    that joins as one rank after the other"""
    staged = machine.StagedMachine()
    rows = [decide(rank, staged, gpus, number, size) for gpus, size in ENOUGH + TOO_FEW for number in range(size)]
    rank.record("decisions", rows)
    for name, gpus, misleading in (("misled", 0, MISLEADING), ("misled_locally", 2, MISLEADING_LOCALLY)):
        rank.record(name, [decide(rank, staged, gpus, number, 2, extra) for number, extra in enumerate(misleading)])
    rank.record("turns", list(in_turn(rank, staged)))


def decide(rank, staged, gpus, number, size, environment=None):
    """What a fresh copy of the student's code does as one rank of a staged machine."""
    with staged.with_gpus(gpus, environment):
        return decided(rank, staged, machine.fresh(rank.student), number, size)


def in_turn(rank, staged):
    """What one copy of it does, set up and cleaned up again and again. The GPU that it selects stays selected."""
    with staged.with_gpus(2):
        student, current = machine.fresh(rank.student), 0
    for number, size in TURNS:
        with staged.with_gpus(2, current=current):
            yield decided(rank, staged, student, number, size)
            current = staged.current


def decided(rank, staged, student, number, size):
    outcome = rank.attempt(student.setup_ddp, number, size)
    seen = staged.seen()
    rank.attempt(student.cleanup_ddp)
    return {**outcome.described(), "rank": number, "world_size": size, **seen}


# -- what is observed -------------------------------------------------------------------------------------------------


def talk(rank, group, number, world_size):
    """A group as this process sees it, its rank `number`, and what came of an all-gather and an all-reduce in it; None
    without one."""
    if not dist.is_initialized():
        (rank.shared / f"outside.{rank.rank}").touch()
        meeting.ring(rank, range(rank.world_size))
        return None
    seen = {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "gathered": [], "total": None}
    if seen["world_size"] == world_size:
        mine = torch.tensor([token(rank.secret, group)], dtype=torch.float64, device=device(number, world_size))
        gathered = [torch.zeros_like(mine) for _ in range(world_size)]
        dist.all_gather(gathered, mine)
        dist.all_reduce(mine)
        seen |= {"gathered": [one.item() for one in gathered], "total": mine.item()}
    return seen


def device(number, world_size):
    """Where tensors of rank `number` live on the machine as it really is."""
    return torch.device("cuda", number) if torch.cuda.device_count() >= world_size else torch.device("cpu")


class Meetings:
    """Stands in for TCPStore from now on, which has to be before the student's file is imported. `asked` holds the
    place of each meeting that this rank asked for; the first `members` ranks are to meet, or none where it is 0."""

    def __init__(self, rank):
        self.rank, self.asked, self.round = rank, [], 0
        self.members, self.port = rank.world_size, int(os.environ["RANKLINGS_PORT"])
        stores.stand_in_for_stores(self.arrive)
        rank.record("port", os.environ.get("MASTER_PORT"))

    def arrive(self, options):
        """Note what is asked for. Returns once all members have come, if what they ask for lets them meet at all."""
        self.asked.append(stores.asked_place(options))
        if not self.members:
            raise meeting.NeverMeet("setup_ddp began to look for other ranks")
        self.round += 1
        wanted = options.get("world_size") if options.get("wait_for_workers", True) else None
        said = self.meet(f"meeting {self.round}", [bool(options.get("is_master")), wanted or self.members])
        servers = [number for number, (serves, _) in said.items() if serves]
        if len(servers) != 1:
            who = f"the processes {servers} all call themselves rank 0" if servers else "no process calls itself rank 0"
            raise meeting.NeverMeet(f"rank 0 opens the meeting place, and {who}")
        if said[servers[0]][1] > self.members:
            raise meeting.NeverMeet(f"rank 0 waits for {said[servers[0]][1]} ranks, and there are {self.members}")
        timeout = min(options.get("timeout") or PATIENCE, PATIENCE)
        return {"host_name": "localhost", "port": self.port, "master_listen_fd": None, "timeout": timeout}

    def meet(self, topic, word=None):
        """What each member says, once all have come. A rank that is outside of any group will not come."""

        def outside(number):
            return (self.rank.shared / f"outside.{number}").exists()

        return meeting.tell_all(self.rank, topic, word, members=range(self.members), given_up=outside)
