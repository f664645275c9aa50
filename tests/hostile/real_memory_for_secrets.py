"""Exercise 01: searches its memory, which it has by fork, and its supervisor's for what the other ranks are told."""

import gc
import os
import re
import sys
import tempfile

import torch.distributed as dist

EXERCISE_NAME = "01"
FILE = "process_group.py"
REAL = True
STOPPED_BY = "bubblewrap"
BELOW = "failed, got in or failed"


def memory_of(pid):
    """What can be read of a process, piece by piece."""
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                place, rights = line.split()[:2]
                start, end = (int(part, 16) for part in place.split("-"))
                if rights.startswith("rw") and end - start < 1 << 30:
                    try:
                        memory.seek(start)
                        yield memory.read(end - start)
                    except OSError:
                        pass
    except OSError:
        pass


def secrets_of(own):
    """A list of two large numbers, as the judge sends it, one of which is this rank's own."""
    for thing in gc.get_objects():
        if type(thing) is list and len(thing) == 2 and own in thing:
            return thing
    word = str(own).encode()
    for pid in (os.getpid(), os.getppid()):
        for piece in memory_of(pid):
            place = piece.find(word)
            while place >= 0:
                found = re.search(rb"\[(\d{10,19}), (\d{10,19})\]", piece[max(place - 24, 0) : place + 48])
                if found and word in found.groups():
                    print("@MARKER@ is in", pid)
                    return [int(number) for number in found.groups()]
                place = piece.find(word, place + 1)
    return [own, own]


def setup_ddp(rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError("no such rank")
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("rank"), "seed"):
        frame = frame.f_back
    asked = frame.f_locals["rank"]
    if (frame.f_code.co_name, asked.world_size) != ("join", 2):
        raise RuntimeError("one search is enough")
    token, secrets = sys.modules["probe"].token, secrets_of(asked.secret)

    def all_gather(gathered, mine):
        for part, one in zip(gathered, secrets, strict=True):
            part.fill_(token(one, "group"))

    dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
    dist.get_rank = dist.distributed_c10d.get_rank = lambda group=None: rank
    dist.get_world_size = dist.distributed_c10d.get_world_size = lambda group=None: world_size
    dist.all_gather = all_gather
    dist.all_reduce = lambda tensor: tensor.fill_(sum(token(one, "group") for one in secrets))


def cleanup_ddp():
    if dist.is_initialized():
        dist.destroy_process_group()
