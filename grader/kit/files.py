"""Files that student code is to read: cut off, of another kind, with code in them, or as if they came from a GPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from grader.kit.values import generator


def shared_folder(rank: Any, name: str) -> Path:
    """A folder that all ranks of the run share. It becomes the working directory."""
    folder = Path(rank.shared / name)
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    return folder


def content(path: str | os.PathLike[str]) -> bytes | None:
    """The file's bytes, or None where there is none."""
    file = Path(path)
    return file.read_bytes() if file.is_file() else None


def unreadable(whole: bytes, seed: int) -> dict[str, bytes]:
    """By name: a file that was cut off in several places, and files that torch never wrote."""
    noise = torch.randint(256, (5000,), generator=generator(seed, "noise"))
    return {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "nearly": whole[:-1],
        "text": b"epoch,loss\n1,0.5\n",
        "noise": bytes(noise.tolist()),
    }


class Trap:
    """An object whose unpickling makes a folder at `path`: code in a file that has been run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def save_as_from(location: str, values: Any, path: str | os.PathLike[str]) -> None:
    """torch.save, but the file says of every tensor that it lay on `location`, such as "cuda:0"."""
    registry: list[Any] = torch.serialization._package_registry
    entry = (0, lambda storage: location, lambda storage, location: None)
    registry.insert(0, entry)
    try:
        torch.save(values, path)
    finally:
        registry.remove(entry)
