"""Exercise 01: asks the supervisor twice, and for the secrets of other ranks, in every way that there might be."""

import json
import sys
import tempfile
import time

import torch.distributed as dist

EXERCISE_NAME = "01"
FILE = "process_group.py"
REAL = True
TELLS = "one number from each rank"
WISHES = [{"imported": True}, {"imported": True, "rank": 0}, {"imported": 1}, {"imported": [0, 1, 2], "secret": 1}]


def setup_ddp(rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError("no such rank")
    frame = sys._getframe()
    while not hasattr(frame.f_locals.get("rank"), "seed"):
        frame = frame.f_back
    asked, told = frame.f_locals["rank"], []
    own = asked.secret
    type(asked.drawn).set_result = lambda future, secret: told.append(secret)  # what comes a second time
    for wish in WISHES:
        asked.send(b"J" + json.dumps(wish).encode())
    time.sleep(0.2)
    token, secrets = sys.modules["probe"].token, ([*told, own] * world_size)[:world_size]

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
