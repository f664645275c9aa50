"""Where ranks meet: ports, a stand-in for TCPStore that says where the code asks to meet, groups that are held."""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
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
    """A free port, reserved until this process ends."""
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


class Names:
    """Under which names of which of torch's modules its functions and classes are found. What a host has noted before
    it forks, its ranks need not look for: a look at all names copies megabytes in a fresh fork, and takes 15 ms."""

    def __init__(self) -> None:
        self._noted: dict[str, ModuleType] = {}
        self._places: dict[int, set[tuple[str, str]]] = {}
        """By the object's id."""

    def note(self) -> None:
        """Note the names in modules that were imported since the last call."""
        for name, module in list(sys.modules.items()):
            if name.startswith(PATCHED) and self._noted.get(name) is not module:
                self._noted[name] = module
                for key, value in list(getattr(module, "__dict__", {}).items()):
                    if callable(value):
                        self._places.setdefault(id(value), set()).add((name, key))

    def replace(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Put each new object under every name of the old one."""
        if not all(self._is_where_it_was(old) for old, _ in pairs):  # one was put there since, so all is noted anew
            self._noted, self._places = {}, {}
        self.note()
        for old, new in pairs:
            for name, key in (places := self._places.pop(id(old), set())):
                setattr(self._noted[name], key, new)
            self._places.setdefault(id(new), set()).update(places)

    def _is_where_it_was(self, thing: Any) -> bool:
        """Whether it has names, and has them still."""
        places = self._places.get(id(thing), set())
        return bool(places) and all(vars(self._noted[name]).get(key) is thing for name, key in places)


NAMES = Names()


def replace_everywhere(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Put each new function or class in the place of the old one, under every name that torch has for it."""
    NAMES.replace(pairs)


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
