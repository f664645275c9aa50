"""Where ranks meet: ports, a stand-in for TCPStore that says where the code asks to meet, groups that are held."""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from grader.kit import ports

PATCHED = ("torch.distributed", "torch.cuda", "torch.accelerator", "torch._C._distributed_c10d")
"""The modules in which `replace_everywhere` looks."""
STORE_OPTIONS = (
    *("host_name", "port", "world_size", "is_master", "timeout"),
    *("wait_for_workers", "multi_tenant", "master_listen_fd", "use_libuv"),
)
"""What TCPStore takes, in this order."""
_RESERVED: list[socket.socket] = []


def reserved_port() -> int:
    """A free port on loopback, reserved until this process ends."""
    holder = ports.bound_socket()
    _RESERVED.append(holder)
    return int(holder.getsockname()[1])


@contextmanager
def taken_port() -> Iterator[int]:
    """A port of 127.0.0.1 on which somebody listens already."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield int(taken.getsockname()[1])


def replace_everywhere(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Put each new object in the place of the old one, under every name that torch has for it."""
    new_for = {id(old): new for old, new in pairs}
    for name, module in list(sys.modules.items()):
        if name.startswith(PATCHED) and isinstance(getattr(module, "__dict__", None), dict):
            for key, value in list(vars(module).items()):
                if id(value) in new_for:
                    setattr(module, key, new_for[id(value)])


def stand_in_for_stores(place: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """From now on each TCPStore is first told to `place`: it gets the options asked for, and gives back those to be
    changed, so that no default port is ever really used. What it raises, the code gets."""
    original: Any = dist.TCPStore  # type: ignore[attr-defined]

    class TCPStore(original):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            options = dict(zip(STORE_OPTIONS, args, strict=False)) | kwargs
            super().__init__(**options | dict(place(options)))

    replace_everywhere([(original, TCPStore)])


def asked_place(options: Mapping[str, Any]) -> dict[str, Any]:
    """Where the options of a TCPStore say to meet, for the record (grader.checks.places reads it)."""
    port = options.get("port")
    return {"host": str(options.get("host_name")), "port": port if type(port) is int else None}


@contextmanager
def held_groups() -> Iterator[list[Any]]:
    """Keep each default group that is made inside alive until the end: in torch 2.13 a DDP model that is the last owner
    of a destroyed group can deadlock in its destructor."""
    original, held = distributed_c10d.init_process_group, list[Any]()

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        held.append(dist.group.WORLD)

    replace_everywhere([(original, init_process_group)])
    try:
        yield held
    finally:
        replace_everywhere([(init_process_group, original)])
