"""Groups that talk to nobody, for a process that stands for one rank of a staged machine.

All that a set-up may call is staged: the default group, groups beside it, meshes, barriers, objects. Each call notes or
refuses what the real one would, and comes back at once, as if all other ranks had done the same.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

c10d: Any = dist.distributed_c10d


class LoneGroups:
    """Stands in for torch.distributed's functions. `index_of` gives the index of a GPU, or raises where there is none.
    `joined` notes each default group: the backend asked for, rank, world size and the GPU that it is bound to."""

    def __init__(self, index_of: Callable[[Any], int]) -> None:
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend "fake"
        self._index_of, self._join, self._new = index_of, dist.init_process_group, c10d._new_group_with_tag
        self.begin(0)

    def begin(self, gpus: int) -> None:
        """Forget what was, on a machine with so many GPUs."""
        self.gpus, self.joined, self._backends = gpus, list[dict[str, Any]](), dict[Any, str | None]()

    def staged(self) -> dict[Any, dict[str, Any]]:
        """What stands in for which function."""
        return {
            dist: {
                "is_nccl_available": lambda: self.gpus > 0,
                "init_process_group": self.init_process_group,
                "get_backend": self.get_backend,
                "split_group": self.split_group,
                "monitored_barrier": self.monitored_barrier,
                "all_gather_object": _all_gather_object,
                "gather_object": _gather_object,
                "broadcast_object_list": lambda *_, **__: None,
                "scatter_object_list": _scatter_object_list,
                "TCPStore": _LoneStore,
            },
            c10d: {"_new_group_with_tag": self.new_group},
        }

    def init_process_group(self, *args: Any, **kwargs: Any) -> None:
        """Note what is asked, refuse what the real one would refuse, then make a group that talks to nobody."""
        asked = _arguments(self._join, args, kwargs)
        backend = self._accepted(asked["backend"])
        bound_to = asked["device_id"]
        gpu = None if bound_to is None or bound_to == torch.device("cpu") else self._index_of(bound_to)
        store, rank, world_size = asked["store"], asked["rank"], asked["world_size"]
        if store is None:
            store, rank, world_size = next(c10d.rendezvous(asked["init_method"] or "env://", rank, world_size))
        self.joined.append({"backend": backend, "rank": rank, "world_size": world_size, "gpu": gpu})
        self._join("fake", store=store, rank=rank, world_size=world_size)

    def new_group(self, *args: Any, **kwargs: Any) -> Any:
        """A group beside the default one, which new_group, new_subgroups and meshes make."""
        asked = _arguments(self._new, args, kwargs)
        backend = self._accepted(asked["backend"] or self._default)
        made = self._new(**asked | {"backend": "fake", "backend_options": None, "device_id": None, "pg_tag": None})
        self._backends[made] = backend
        return made

    def split_group(self, parent_pg: Any = None, split_ranks: Any = None, *_: Any, **__: Any) -> Any:
        """This rank's part of a group, if it has one."""
        ranks = dist.get_process_group_ranks(parent_pg or dist.group.WORLD)
        parts = [[ranks[one] for one in part] for part in split_ranks or []]
        mine = next((part for part in parts if dist.get_rank() in part), None)
        return None if mine is None else self.new_group(mine)

    def get_backend(self, group: Any = None) -> str:
        """What the real one answers for the backend that was asked for."""
        backend = self._backends.get(group, self._default) if self.joined else dist.get_backend_config(group)
        return "undefined" if backend is None or "," in backend else backend

    def monitored_barrier(self, group: Any = None, *_: Any, **__: Any) -> None:
        """Nobody to wait for; but the real one knows gloo alone."""
        if self.get_backend(group) != "gloo":
            raise ValueError("monitored_barrier is only implemented for GLOO backend.")

    @property
    def _default(self) -> str | None:
        """The backend asked for the default group."""
        backend: str | None = self.joined[-1]["backend"] if self.joined else None
        return backend

    def _accepted(self, asked: Any) -> str | None:
        """A backend as the real one reads it; raises as that does where there is none of the name, or no GPU for it."""
        backend = None if asked is None else str(dist.Backend(asked))
        if "nccl" in (backend or "") and not self.gpus:
            raise RuntimeError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        _refuse_unknown(backend)
        return backend


class _LoneStore(dist.HashStore):  # type: ignore[misc,name-defined]
    """A TCPStore for one process alone."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


def _arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _refuse_unknown(backend: str | None) -> None:
    """Raise as the real init_process_group does where torch knows no device or no backend of a name."""
    devices = c10d.BackendConfig(dist.Backend(backend)).get_device_backend_map() if backend else {}
    for device, name in devices.items():
        torch.device(device)
        if name not in dist.Backend.backend_list:
            raise AssertionError(f"Unknown c10d backend type {name.upper()}")


def _all_gather_object(object_list: list[Any], obj: Any, *_: Any, **__: Any) -> None:
    object_list[:] = [obj] * len(object_list)


def _gather_object(obj: Any, object_gather_list: list[Any] | None = None, *_: Any, **__: Any) -> None:
    if object_gather_list is not None:
        _all_gather_object(object_gather_list, obj)


def _scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, *_: Any, **__: Any
) -> None:
    given = scatter_object_input_list
    scatter_object_output_list[0] = given[dist.get_rank()] if given else None
