"""What an operation of c10d is handed: its arguments by name, its payload, and how that lies in memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

PAYLOAD = {
    "all_gather": "out",
    "scatter": "out",
    "reduce_scatter": "input",
    "all_to_all": "input",
    "gather": "input",
}
"""Where an operation has an output and an input: which of them Communication.bytes counts."""
LAYOUTS = ((None, torch.contiguous_format), (4, torch.channels_last), (5, torch.channels_last_3d))
"""Orders of memory that NCCL takes, and of how many dimensions."""


def arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def payload(name: str, arguments: dict[str, Any]) -> list[torch.Tensor]:
    if name == "barrier":
        return []
    wanted = PAYLOAD.get(name, "")
    found = [list(tensors(value)) for key, value in arguments.items() if wanted in key]
    return next((some for some in found if some), []) or [
        tensor for value in arguments.values() for tensor in tensors(value)
    ]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def contiguous(arguments: dict[str, Any]) -> bool:
    """Whether NCCL would take the tensors as they lie in memory (check_gpu_single_tensor in torch's
    ProcessGroupNCCL.cpp). What a call has for each rank in a list is copied or is not looked at."""
    ours = [tensor for value in arguments.values() for tensor in _own(value)]
    return all(any(_lies_as(tensor, form) for form in LAYOUTS) for tensor in ours if tensor.layout is torch.strided)


def _own(value: Any) -> Iterator[torch.Tensor]:
    """Tensors that stand for themselves: c10d has those of one for each rank in lists of lists."""
    for one in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(one, torch.Tensor):
            yield one


def _lies_as(tensor: torch.Tensor, form: tuple[int | None, torch.memory_format]) -> bool:
    dimensions, layout = form
    return dimensions in (None, tensor.dim()) and tensor.is_contiguous(memory_format=layout)
