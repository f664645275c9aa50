"""Opens the files that ranks wrote, in a process of its own without student code, and records what they hold as plain
data. The probe of the runs that `ranks.opening` asks for.

A small file may hold anything: gigabytes that are compressed, one storage a thousand times, a loop of millions of
steps. So time and room are limited here for each file, memory by the kernel for the process, and time for the process
by its supervisor.
"""

from __future__ import annotations

import contextlib
import io
import re
import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

import torch

from grader.records import wire

WEIGHT, TENSOR = 512, 2048
"""About how many bytes of the judge's memory any value takes, and a tensor beside its elements."""
KINDS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
NO_MEMORY = ("can't allocate memory", "std::bad_alloc", "[Errno 12]", "Cannot allocate memory", "not enough memory")


class TooMuch(Exception):
    """A file holds more than may cross. Its text says what."""


class TooSlow(BaseException):
    """A file takes too long to open. No handler of torch's takes it for an error of the file's."""


class Room:
    """How many bytes of memory plain data may still take."""

    def __init__(self, size: int) -> None:
        self.left, self._most = size, size

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TooMuch(f"it holds more than the {self._most >> 20} MiB that a run's files may")


def open_files(rank: Any) -> None:
    """Record what each file holds, by its name. `parameters`: files, their bytes by name; seconds and room, for all."""
    warnings.simplefilter("ignore")  # what torch says of files of old versions
    files: Mapping[str, bytes] = rank.parameters["files"]
    until, room = time.monotonic() + rank.parameters["seconds"], Room(rank.parameters["room"])
    for number, (name, data) in enumerate(files.items()):
        share = (until - time.monotonic()) / (len(files) - number)
        content, problem = opened(data, max(share, 0.1), room)
        rank.record(name, {"content": content, "problem": problem})


def opened(data: bytes, seconds: float, room: Room) -> tuple[Any, str]:
    """What the bytes of a file that torch.save wrote hold, as plain data, or why they cannot be opened, in one line."""
    before = room.left
    try:
        with alarm(seconds):
            content = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
            return plain(content, room), ""
    except TooSlow:
        problem = f"it takes more than {seconds:.1f} s to open"
    except TooMuch as error:
        problem = str(error)
    except MemoryError:
        problem = "it takes too much memory to open"
    except Exception as error:
        problem = refusal(error)
    room.left = before
    return None, problem


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the midst of what is done here, should it take longer."""

    def ring(number: int, frame: FrameType | None) -> NoReturn:
        raise TooSlow

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)  # again, where a destructor has swallowed the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def refusal(error: Exception) -> str:
    """Why torch.load refused."""
    said = str(error)
    if any(sign in said for sign in NO_MEMORY):
        return "it takes too much memory to open"
    refused = re.search(r"GLOBAL (\S{1,200})", said)
    return f"it holds an object of {refused[1]}" if refused else said.partition("\n")[0][:300] or type(error).__name__


def plain(value: Any, room: Room, depth: int = 0) -> Any:
    """The value as data that may cross: dicts, lists, scalars and contiguous tensors, each as often as it is referred
    to. Of anything else, such as a dtype, its type's name. Keys that may not cross are left out. Raises TooMuch."""
    room.take(WEIGHT)
    if depth > wire.MAX_DEPTH - 8:
        raise TooMuch("it is nested too deeply")
    if value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= wire.MAX_BITS):
        return value
    if type(value) in (str, bytes):
        room.take(16 * len(value))
        return value
    if isinstance(value, dict):
        return {plain(key, room): plain(part, room, depth + 1) for key, part in value.items() if _is_key(key)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part, room, depth + 1) for part in value]
    if isinstance(value, torch.Tensor) and _is_plain(value):
        room.take(TENSOR + value.numel() * value.element_size())
        return torch.Tensor.detach(value).as_subclass(torch.Tensor).contiguous()
    return f"a {type(value).__name__}"


def _is_key(key: Any) -> bool:
    if type(key) in (int, float):
        return bool(abs(key) < wire.MAX_KEY)
    return key is None or type(key) in (str, bool, bytes)


def _is_plain(tensor: torch.Tensor) -> bool:
    """A tensor of torch's own kind: what another kind holds, a DTensor say, may be elsewhere or nowhere."""
    known = str(tensor.dtype).removeprefix("torch.") in wire.DTYPES and type(tensor) in KINDS
    return known and tensor.layout is torch.strided and not tensor.is_meta and tensor.dim() <= wire.MAX_DIMENSIONS
