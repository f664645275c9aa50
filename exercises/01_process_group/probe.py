"""Runs in every rank: calls setup_ddp and cleanup_ddp in many settings and records what they did.

Two instruments watch the student's code without reading it. `Meetings` notes where the code asks to meet and
then meets at the port that was reserved for this run, so that no default port is ever really used. `Stage` shows a
machine with any number of GPUs for one process alone, so that the device rule can be judged on every machine. Nothing
here knows what is right.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

ADDRESSES = ["127.0.0.2", "127.0.0.3"]
"""What MASTER_ADDR says, in the first and the second set-up of a process: loopback, but no usual default."""

BAD = [(-1, 2), (-2, 2), (2, 2), (5, 2), (1, 1), (-3, 1), (3, 3), (0, 0), (1, 0), (0, -1), (-1, -1), (-2, -1)]
"""(rank, world_size), none of which can join."""

ENOUGH, TOO_FEW = [(1, 1), (2, 2), (3, 2)], [(1, 2), (2, 3), (0, 2)]
"""(GPUs, world size) of the machines that are staged."""

MISLEADING = [{"RANK": "1", "WORLD_SIZE": "3"}, {"RANK": "0", "WORLD_SIZE": "3"}]
"""What the environment says to rank 0 and to rank 1 of a group of two."""

LAUNCHER = {"RANK": "0", "WORLD_SIZE": "2"}
"""What the environment says while bad arguments are handed in. Torch reads RANK where it is given the rank -1."""

PATIENCE = timedelta(seconds=30)
"""How long a rank waits at a meeting point for the others, whatever the code says. Only wrong code waits that long."""

PATCHED = ("torch.distributed", "torch.cuda", "torch.accelerator", "torch._C._distributed_c10d")
STORE_OPTIONS = (
    *("host_name", "port", "world_size", "is_master", "timeout"),
    *("wait_for_workers", "multi_tenant", "master_listen_fd", "use_libuv"),
)
"""What TCPStore takes, in this order."""


def token(seed: int, number: int) -> float:
    """What rank `number` of a group contributes to its collectives, a whole number."""
    return float(random.Random(f"{seed}/{number}").randrange(1, 2**20))


# -- the cases ------------------------------------------------------------------------------------------------------


def join(rank: Any) -> None:
    """clean up, set up, talk, clean up twice; MASTER_ADDR appears only after the student's file was imported"""
    meetings = Meetings(rank)
    rank.record("environment", environment())
    student = rank.student
    os.environ["MASTER_ADDR"] = ADDRESSES[0]
    before = rank.attempt(student.cleanup_ddp).described()
    student.setup_ddp(rank.rank, rank.world_size)
    rank.record("group", talk(rank, rank.rank, rank.world_size))
    rank.record("asked", meetings.asked)
    outcome = rank.attempt(student.cleanup_ddp).described()
    rank.record("cleanup", {**outcome, "initialized": dist.is_initialized()})
    rank.record("without_group", [before, rank.attempt(student.cleanup_ddp).described()])


def default_place(rank: Any) -> None:
    """set up where the environment lacks MASTER_ADDR, MASTER_PORT or both"""
    meetings = Meetings(rank)
    rank.record("environment", environment())
    rank.record("host", socket.gethostname())
    rank.student.setup_ddp(rank.rank, rank.world_size)
    rank.record("group", talk(rank, rank.rank, rank.world_size))
    rank.record("asked", meetings.asked)


def again(rank: Any) -> None:
    """set up → clean up → set up as another rank at another address → clean up → rank 0 sets up alone"""
    meetings = Meetings(rank)
    rank.record("environment", environment())
    student = rank.student
    student.setup_ddp(rank.rank, rank.world_size)
    rank.record("first", talk(rank, rank.rank, rank.world_size))
    student.cleanup_ddp()
    all_say(rank, "left first", None, rank.world_size)
    meetings.asked.clear()
    os.environ["MASTER_ADDR"] = ADDRESSES[1]
    number = (rank.rank + 1) % rank.world_size
    student.setup_ddp(number, rank.world_size)
    rank.record("second", talk(rank, number, rank.world_size))
    rank.record("asked", list(meetings.asked))
    student.cleanup_ddp()
    all_say(rank, "left second", None, rank.world_size)
    if rank.rank == 0:
        meetings.members = 1
        student.setup_ddp(0, 1)
        rank.record("third", talk(rank, 0, 1))
        student.cleanup_ddp()


def bad_arguments(rank: Any) -> None:
    """alone: one bad call after the other, in an environment as torchrun leaves it, then a good one without that"""
    meetings = Meetings(rank)
    meetings.members = 0
    student = rank.student
    os.environ |= LAUNCHER
    rows = []
    for number, world_size in BAD:
        meetings.asked.clear()
        outcome = rank.attempt(student.setup_ddp, number, world_size).described()
        rows.append({**outcome, "communicated": len(meetings.asked), "initialized": dist.is_initialized()})
        if dist.is_initialized():
            dist.destroy_process_group()
    rank.record("bad", rows)
    for name in LAUNCHER:
        os.environ.pop(name, None)
    meetings.members = 1
    student.setup_ddp(0, 1)
    rank.record("good", talk(rank, 0, 1))


def device_rule(rank: Any) -> None:
    """alone: every rank of every staged machine in turn, then the ranks of a misleading environment"""
    stage = Stage()
    rows = [decide(rank, stage, gpus, number, size) for gpus, size in ENOUGH + TOO_FEW for number in range(size)]
    rank.record("decisions", rows)
    rank.record("misled", [decide(rank, stage, 0, number, 2, extra) for number, extra in enumerate(MISLEADING)])


def decide(rank: Any, stage: Stage, gpus: int, number: int, size: int, extra: Mapping[str, str] | None = None) -> Any:
    """What a fresh copy of the student's code does as one rank of a staged machine."""
    before = dict(os.environ)
    stage.set(gpus)
    os.environ.update(extra or {})
    with OnTheCPU():
        student = fresh(rank.student)
        outcome = rank.attempt(student.setup_ddp, number, size)
        seen = stage.seen()
        rank.attempt(student.cleanup_ddp)
    if dist.is_initialized():
        dist.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)
    return {**outcome.described(), "gpus": gpus, "rank": number, "world_size": size, **seen}


def fresh(module: ModuleType) -> ModuleType:
    """The same file once more, without what earlier calls have left in it."""
    try:
        spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
        again = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(again)
    except Exception:  # some things can be done only once in a process; then the first copy has to serve
        return module
    return again


# -- what is observed -----------------------------------------------------------------------------------------------


def environment() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")}


def talk(rank: Any, number: int, world_size: int) -> dict[str, Any]:
    """The group as this process sees it, and what came of an all-gather and an all-reduce in it."""
    seen: dict[str, Any] = {"initialized": dist.is_initialized()}
    if not dist.is_initialized():
        (rank.shared / f"outside.{rank.rank}").touch()
        return seen
    seen |= {"rank": dist.get_rank(), "world_size": dist.get_world_size()}
    if seen["world_size"] == world_size:
        mine = torch.tensor([token(rank.seed, number)], dtype=torch.float64, device=device(number, world_size))
        gathered = [torch.zeros_like(mine) for _ in range(world_size)]
        dist.all_gather(gathered, mine)
        dist.all_reduce(mine)
        seen |= {"gathered": [one.item() for one in gathered], "total": mine.item()}
    return seen


def device(number: int, world_size: int) -> torch.device:
    """Where tensors of rank `number` live on the machine as it really is."""
    return torch.device("cuda", number) if torch.cuda.device_count() >= world_size else torch.device("cpu")


def all_say(rank: Any, topic: str, word: Any, members: int) -> dict[int, Any]:
    """What each of the first `members` ranks says on a topic, once all have said it. Needs no process group."""
    written = rank.shared / f"{topic}.{rank.rank}.written"
    written.write_text(json.dumps(word))
    written.rename(rank.shared / f"{topic}.{rank.rank}")
    files = {number: rank.shared / f"{topic}.{number}" for number in range(members)}
    until = time.monotonic() + PATIENCE.total_seconds()
    while silent := [number for number, file in files.items() if not file.exists()]:
        if time.monotonic() > until or any((rank.shared / f"outside.{number}").exists() for number in silent):
            raise NeverMeet(f"the processes {silent} do not come to meet the others")
        time.sleep(0.002)
    return {number: json.loads(file.read_text()) for number, file in files.items()}


# -- where the code asks to meet ------------------------------------------------------------------------------------


class NeverMeet(RuntimeError):
    """The ranks would wait for one another for ever, or they must not look for one another at all."""


class Meetings:
    """Stands in for TCPStore from now on. `asked` holds [host, port] of each meeting that this rank asked for."""

    def __init__(self, rank: Any) -> None:
        self.rank, self.asked, self.round = rank, list[list[Any]](), 0
        self.members, self.port = rank.world_size, int(os.environ["RANKLINGS_PORT"])
        replace_all([(dist.TCPStore, recording_store(self))])

    def arrive(self, options: Mapping[str, Any]) -> None:
        """Note what is asked for. Returns once all members have come, if what they ask for lets them meet at all."""
        self.asked.append([str(options.get("host_name")), options.get("port")])
        if not self.members:
            raise NeverMeet("setup_ddp began to look for other ranks")
        self.round += 1
        wanted = options.get("world_size") if options.get("wait_for_workers", True) else None
        role = {"serves": bool(options.get("is_master")), "wanted": wanted or self.members}
        said = all_say(self.rank, f"meeting{self.round}", role, self.members)
        servers = [number for number, one in said.items() if one["serves"]]
        if len(servers) != 1:
            who = f"the processes {servers} all call themselves rank 0" if servers else "no process calls itself rank 0"
            raise NeverMeet(f"rank 0 opens the meeting place, and {who}")
        if said[servers[0]]["wanted"] > self.members:
            raise NeverMeet(f"rank 0 waits for {said[servers[0]]['wanted']} ranks, and there are {self.members}")


def recording_store(meetings: Meetings) -> type:
    """A TCPStore that waits for its ranks and then meets at the port that is reserved for this run."""

    class TCPStore(dist.TCPStore):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            options = dict(zip(STORE_OPTIONS, args, strict=False)) | kwargs
            meetings.arrive(options)
            timeout = min(options.get("timeout") or PATIENCE, PATIENCE)
            place = {"host_name": "localhost", "port": meetings.port, "master_listen_fd": None}
            super().__init__(**options | place | {"timeout": timeout})

    return TCPStore


def replace_all(pairs: list[tuple[Any, Any]]) -> None:
    """Put each new object in the place of the old one, under every name that torch has for it."""
    new_for = {id(old): new for old, new in pairs}
    for name, module in list(sys.modules.items()):
        if name.startswith(PATCHED) and isinstance(getattr(module, "__dict__", None), dict):
            for key, value in list(vars(module).items()):
                if id(value) in new_for:
                    setattr(module, key, new_for[id(value)])


# -- a staged machine -----------------------------------------------------------------------------------------------


class Stage:
    """A machine with `gpus` GPUs for this process alone: what the code is told, and what it then does."""

    def __init__(self) -> None:
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend "fake"
        self.join = dist.init_process_group
        self.set(0)
        for module, names in self.staged().items():
            replace_all([(getattr(module, name), new) for name, new in names.items()])
        if not hasattr(dist, "ProcessGroupNCCL"):
            dist.ProcessGroupNCCL = SimpleNamespace(Options=SimpleNamespace)

    def set(self, gpus: int) -> None:
        self.gpus, self.current, self.selected = gpus, 0, False
        self.refused, self.groups = list[int](), list[dict[str, Any]]()

    def seen(self) -> dict[str, Any]:
        """All that the code did. A group: the backend asked for, rank, world size, and the GPU that it is bound to."""
        selected = self.current if self.selected else None
        return {"groups": [*self.groups], "selected": selected, "refused": [*self.refused]}

    def staged(self) -> dict[Any, dict[str, Any]]:
        """What stands in for functions of torch.cuda, torch.accelerator and torch.distributed."""
        return {
            torch.cuda: {
                "is_available": lambda: self.gpus > 0,
                "device_count": lambda: self.gpus,
                "current_device": lambda: self.current,
                "set_device": self.select,
                "device": self.scope,
                "get_device_name": lambda *_: "staged",
                "get_device_properties": lambda *_: SimpleNamespace(name="staged", total_memory=2**36),
                **dict.fromkeys(("init", "synchronize", "empty_cache", "reset_peak_memory_stats"), _nothing),
            },
            torch.accelerator: {
                "current_accelerator": lambda check_available=False: torch.device("cuda") if self.gpus else None,
                **dict.fromkeys(("set_device_index", "set_device_idx"), self.select),
                **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: self.current),
                "device_index": self.scope,
                "synchronize": _nothing,
            },
            dist: {
                "is_nccl_available": lambda: self.gpus > 0,
                "init_process_group": self.init_process_group,
                "get_backend": self.get_backend,
                "TCPStore": LoneStore,
            },
        }

    def index_of(self, where: Any) -> int:
        """The index that torch.cuda reads from an int, a string or a torch.device. An error if it is not there."""
        if isinstance(where, str):
            where = torch.device(where)
        if isinstance(where, torch.device):
            if where.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {where}")
            where = where.index
        index = self.current if where is None else int(where)
        if index >= self.gpus:
            self.refused.append(index)
            raise RuntimeError(f"CUDA error: invalid device ordinal (GPU {index} of {self.gpus})")
        return index

    def select(self, where: Any) -> None:
        """torch.cuda.set_device. Like the real one it ignores a negative index."""
        index = self.index_of(where)
        if index >= 0:
            self.current, self.selected = index, True

    @contextmanager
    def scope(self, where: Any) -> Iterator[None]:
        """torch.cuda.device: a GPU that is current inside a with block and no longer after it."""
        outer = self.current, self.selected
        self.select(where)
        yield
        self.current, self.selected = outer

    def init_process_group(self, *args: Any, **kwargs: Any) -> None:
        """Note what is asked, refuse what the real one would refuse, then make a group that talks to nobody."""
        bound = inspect.signature(self.join).bind(*args, **kwargs)
        bound.apply_defaults()
        asked = bound.arguments
        backend = None if asked["backend"] is None else str(dist.Backend(asked["backend"]))
        if "nccl" in (backend or "") and not self.gpus:
            raise RuntimeError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        refuse_unknown(backend)
        bound_to = asked["device_id"]
        gpu = None if bound_to is None or bound_to == torch.device("cpu") else self.index_of(bound_to)
        store, rank, world_size = asked["store"], asked["rank"], asked["world_size"]
        if store is None:
            store, rank, world_size = next(dist.rendezvous(asked["init_method"] or "env://", rank, world_size))
        self.join("fake", store=store, rank=rank, world_size=world_size)
        self.groups.append({"backend": backend, "rank": rank, "world_size": world_size, "gpu": gpu})

    def get_backend(self, group: Any = None) -> str:
        """What the real one answers for the backend that was asked for."""
        backend = self.groups[-1]["backend"] if self.groups else dist.get_backend_config(group)
        return "undefined" if backend is None or "," in backend else backend


class LoneStore(dist.HashStore):
    """A TCPStore for one process alone."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


class OnTheCPU(TorchFunctionMode):
    """What the code puts on a staged GPU lives on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func("cuda", *args) if len(args) == 1 and type(args[0]) is int else func(*args, **kwargs)
        if func is torch.Tensor.cuda:
            return args[0]
        moved = {name: _on_cpu(value, name == "device") for name, value in kwargs.items()}
        return func(*(_on_cpu(value, func is torch.Tensor.to) for value in args), **moved)


def _on_cpu(value: Any, is_device: bool) -> Any:
    kind = value.type if isinstance(value, torch.device) else value if isinstance(value, str) else ""
    return torch.device("cpu") if kind.startswith("cuda") or (is_device and type(value) is int) else value


def refuse_unknown(backend: str | None) -> None:
    """Raise as the real init_process_group does where torch knows no device or no backend of a name."""
    devices = dist.distributed_c10d.BackendConfig(dist.Backend(backend)).get_device_backend_map() if backend else {}
    for device, name in devices.items():
        torch.device(device)
        if name not in dist.Backend.backend_list:
            raise AssertionError(f"Unknown c10d backend type {name.upper()}")


def _nothing(*_: Any, **__: Any) -> None:
    """Synchronising and the like: nothing to do on a staged GPU."""
