"""A staged machine: any number of GPUs for one process alone, so that device rules can be judged on every machine.

The code is told of GPUs that are not there. What it decides is noted; what it then puts on a GPU lives on the CPU, and
the groups that it makes talk to nobody.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from grader.kit.stores import replace_everywhere

c10d: Any = dist.distributed_c10d


class StagedMachine:
    """What the code is told about the machine from now on, and what it then does. One for a process."""

    def __init__(self) -> None:
        importlib.import_module("torch.testing._internal.distributed.fake_pg")  # registers the backend "fake"
        self._join = dist.init_process_group
        self._set(0)
        for module, names in self._staged().items():
            replace_everywhere([(getattr(module, name), new) for name, new in names.items()])
        if not hasattr(dist, "ProcessGroupNCCL"):
            dist.ProcessGroupNCCL = SimpleNamespace(Options=SimpleNamespace)  # type: ignore[misc,assignment]

    @contextmanager
    def with_gpus(self, gpus: int, environment: Mapping[str, str] | None = None) -> Iterator[None]:
        """A machine with so many GPUs, and with these variables in the environment. After it there is no group, and
        the environment is as before."""
        before = dict(os.environ)
        self._set(gpus)
        os.environ.update(environment or {})
        try:
            with _OnTheCPU():
                yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            os.environ.clear()
            os.environ.update(before)

    def seen(self) -> dict[str, Any]:
        """What the code did, as grader.checks.machines reads it. `groups`: the backend asked for, rank, world size and
        the GPU that the group is bound to. `selected`: the current GPU, if the code chose one. `refused`: GPUs that it
        asked for and that there are not."""
        selected = self.current if self.selected else None
        return {"gpus": self.gpus, "groups": [*self.groups], "selected": selected, "refused": [*self.refused]}

    def _set(self, gpus: int) -> None:
        self.gpus, self.current, self.selected = gpus, 0, False
        self.refused, self.groups = list[int](), list[dict[str, Any]]()

    def _staged(self) -> dict[Any, dict[str, Any]]:
        """What stands in for functions of torch.cuda, torch.accelerator and torch.distributed."""
        return {
            torch.cuda: {
                "is_available": lambda: self.gpus > 0,
                "device_count": lambda: self.gpus,
                "current_device": lambda: self.current,
                "set_device": self._select,
                "device": self._scope,
                "get_device_name": lambda *_: "staged",
                "get_device_properties": lambda *_: SimpleNamespace(name="staged", total_memory=2**36),
                **dict.fromkeys(("init", "synchronize", "empty_cache", "reset_peak_memory_stats"), _nothing),
            },
            torch.accelerator: {
                "current_accelerator": lambda check_available=False: torch.device("cuda") if self.gpus else None,
                **dict.fromkeys(("set_device_index", "set_device_idx"), self._select),
                **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: self.current),
                "device_index": self._scope,
                "synchronize": _nothing,
            },
            dist: {
                "is_nccl_available": lambda: self.gpus > 0,
                "init_process_group": self._init_process_group,
                "get_backend": self._get_backend,
                "TCPStore": _LoneStore,
            },
        }

    def _index_of(self, where: Any) -> int:
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

    def _select(self, where: Any) -> None:
        """torch.cuda.set_device. Like the real one it ignores a negative index."""
        index = self._index_of(where)
        if index >= 0:
            self.current, self.selected = index, True

    @contextmanager
    def _scope(self, where: Any) -> Iterator[None]:
        """torch.cuda.device: a GPU that is current inside a with block and no longer after it."""
        outer = self.current, self.selected
        self._select(where)
        try:
            yield
        finally:
            self.current, self.selected = outer

    def _init_process_group(self, *args: Any, **kwargs: Any) -> None:
        """Note what is asked, refuse what the real one would refuse, then make a group that talks to nobody."""
        bound = inspect.signature(self._join).bind(*args, **kwargs)
        bound.apply_defaults()
        asked = bound.arguments
        backend = None if asked["backend"] is None else str(dist.Backend(asked["backend"]))
        if "nccl" in (backend or "") and not self.gpus:
            raise RuntimeError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        _refuse_unknown(backend)
        bound_to = asked["device_id"]
        gpu = None if bound_to is None or bound_to == torch.device("cpu") else self._index_of(bound_to)
        store, rank, world_size = asked["store"], asked["rank"], asked["world_size"]
        if store is None:
            store, rank, world_size = next(c10d.rendezvous(asked["init_method"] or "env://", rank, world_size))
        self._join("fake", store=store, rank=rank, world_size=world_size)
        self.groups.append({"backend": backend, "rank": rank, "world_size": world_size, "gpu": gpu})

    def _get_backend(self, group: Any = None) -> str:
        """What the real one answers for the backend that was asked for."""
        backend = self.groups[-1]["backend"] if self.groups else dist.get_backend_config(group)
        return "undefined" if backend is None or "," in backend else backend


def fresh(module: ModuleType) -> ModuleType:
    """The same file once more, without what earlier calls have left in it."""
    try:
        spec: Any = importlib.util.spec_from_file_location(module.__name__, module.__file__)
        again = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(again)
    except Exception:  # some things can be done only once in a process; then the first copy has to serve
        return module
    return again


class _LoneStore(dist.HashStore):  # type: ignore[misc,name-defined]
    """A TCPStore for one process alone."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


class _OnTheCPU(TorchFunctionMode):
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


def _refuse_unknown(backend: str | None) -> None:
    """Raise as the real init_process_group does where torch knows no device or no backend of a name."""
    devices = c10d.BackendConfig(dist.Backend(backend)).get_device_backend_map() if backend else {}
    for device, name in devices.items():
        torch.device(device)
        if name not in dist.Backend.backend_list:
            raise AssertionError(f"Unknown c10d backend type {name.upper()}")


def _nothing(*_: Any, **__: Any) -> None:
    """Synchronising and the like: nothing to do on a staged GPU."""
