"""A staged machine: any number of GPUs for one process alone, so that device rules can be judged on every machine.

The code is told of GPUs that are not there. What it decides is noted; what it then puts on a GPU lives on the CPU, and
the groups that it makes talk to nobody.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from grader.kit.lone_groups import LoneGroups
from grader.kit.stores import replace_everywhere

CAPABILITY, MEMORY = (9, 0), 2**36
"""Of each staged GPU; the memory in bytes."""
PROPERTIES = {"name": "staged", "total_memory": MEMORY, "multi_processor_count": 132, "major": 9, "minor": 0}
SILENT = (
    *("init", "synchronize", "empty_cache", "ipc_collect", "manual_seed", "manual_seed_all"),
    *("reset_peak_memory_stats", "reset_max_memory_allocated", "set_per_process_memory_fraction"),
)
"""Functions of torch.cuda that have nothing to do on a staged GPU."""
EMPTY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


class StagedMachine:
    """What the code is told about the machine from now on, and what it then does. One for a process. `used`: the
    numbers of the GPUs on which it has put something, where it named them."""

    def __init__(self) -> None:
        self._lone = LoneGroups(self._index_of)
        self._set(0)
        for module, names in self._staged().items():
            replace_everywhere([(getattr(module, name), new) for name, new in names.items()])
        torch.set_default_device = _nothing
        if not hasattr(dist, "ProcessGroupNCCL"):
            dist.ProcessGroupNCCL = SimpleNamespace(Options=SimpleNamespace)  # type: ignore[misc,assignment]

    @contextmanager
    def with_gpus(self, gpus: int, environment: Mapping[str, str] | None = None, *, current: int = 0) -> Iterator[None]:
        """A machine with so many GPUs, of which `current` was selected before, and with these variables in the
        environment. After it there is no group, and the environment is as before."""
        before = dict(os.environ)
        self._set(gpus, current)
        os.environ.update(environment or {})
        try:
            with _OnTheCPU(self.used):
                yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            os.environ.clear()
            os.environ.update(before)

    def seen(self) -> dict[str, Any]:
        """What the code did, as grader.checks.machines reads it. `groups`: the backend asked for, rank, world size and
        the GPU that the group is bound to. `selected`: the current GPU, if one was chosen, by now or before. `refused`:
        GPUs that it asked for and that there are not."""
        selected = self.current if self.selected or self.current else None
        return {"gpus": self.gpus, "groups": [*self._lone.joined], "selected": selected, "refused": [*self.refused]}

    def _set(self, gpus: int, current: int = 0) -> None:
        self.gpus, self.current, self.selected = gpus, current, False
        self.refused, self.used = list[int](), set[int]()
        self._lone.begin(gpus)

    def _staged(self) -> dict[Any, dict[str, Any]]:
        """What stands in for functions of torch.cuda, torch.accelerator and torch.distributed."""
        return {
            torch.cuda: {
                "is_available": lambda: self.gpus > 0,
                "device_count": lambda: self.gpus,
                "current_device": lambda: self.current,
                "set_device": self._select,
                "device": self._scope,
                "get_device_name": lambda *_, **__: "staged",
                "get_device_properties": lambda *_, **__: SimpleNamespace(**PROPERTIES),
                "get_device_capability": lambda *_, **__: CAPABILITY,
                "is_bf16_supported": lambda *_, **__: self.gpus > 0,
                "is_initialized": lambda: self.gpus > 0,
                "mem_get_info": lambda *_, **__: (MEMORY, MEMORY),
                **dict.fromkeys(EMPTY, lambda *_, **__: 0),
                **dict.fromkeys(SILENT, _nothing),
            },
            torch.cuda.nccl: {"version": lambda: (2, 0, 0)},
            torch.accelerator: {
                "current_accelerator": lambda check_available=False: torch.device("cuda") if self.gpus else None,
                **dict.fromkeys(("set_device_index", "set_device_idx"), self._select),
                **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: self.current),
                "device_index": self._scope,
                "synchronize": _nothing,
            },
            **self._lone.staged(),
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

    def _select(self, device: Any) -> None:
        """torch.cuda.set_device. Like the real one it ignores a negative index."""
        index = self._index_of(device)
        if index >= 0:
            self.current, self.selected = index, True

    @contextmanager
    def _scope(self, device: Any) -> Iterator[None]:
        """torch.cuda.device: a GPU that is current inside a with block and no longer after it."""
        outer = self.current, self.selected
        self._select(device)
        try:
            yield
        finally:
            self.current, self.selected = outer


def fresh(module: ModuleType) -> ModuleType:
    """The same file once more, without what earlier calls have left in it."""
    try:
        spec: Any = importlib.util.spec_from_file_location(module.__name__, module.__file__)
        again = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(again)
    except Exception:  # some things can be done only once in a process; then the first copy has to serve
        return module
    return again


class _OnTheCPU(TorchFunctionMode):
    """What the code puts on a staged GPU lives on the CPU. The number of the GPU goes into `used`."""

    def __init__(self, used: set[int]) -> None:
        super().__init__()
        self._used = used

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func("cuda", *args) if len(args) == 1 and type(args[0]) is int else func(*args, **kwargs)
        to_device = func in (torch.Tensor.to, torch.Tensor.cuda)
        moved = {name: self._on_cpu(value, name == "device") for name, value in kwargs.items()}
        places = [self._on_cpu(value, to_device) for value in args]
        return args[0] if func is torch.Tensor.cuda else func(*places, **moved)

    def _on_cpu(self, value: Any, is_device: bool) -> Any:
        if is_device and type(value) is int:
            value = torch.device("cuda", value)
        kind = value.type if isinstance(value, torch.device) else value if isinstance(value, str) else ""
        if not kind.startswith("cuda"):
            return value
        number = torch.device(value).index if kind == value else value.index
        if number is not None:
            self._used.add(number)
        return torch.device("cpu")


def _nothing(*_: Any, **__: Any) -> None:
    """Synchronising and the like: nothing to do on a staged GPU."""
