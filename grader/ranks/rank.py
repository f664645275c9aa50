"""The inside of a rank process: set the scene, call the probe, send what it recorded.

This is the only module of ours that shares a process with student code. It knows no expected value.
Messages to the supervisor are `b"O" + wire frame` (an observation) or `b"J" + JSON` (everything else).
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import importlib
import inspect
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grader import wire
from grader.ranks import reaper, recorder

MAX_TEXT = 4000
MAX_CAUSES = 5
STACK_SIGNAL = getattr(signal, "SIGUSR2", None)


class ContractError(Exception):
    """The student's module lacks a name, or a function cannot be called as the contract calls it."""


class Attempt:
    """What came of calling student code that may raise: `value` or `error`."""

    def __init__(self, value: Any = None, error: Exception | None = None, line: int | None = None) -> None:
        self.value, self.error, self.line = value, error, line

    def described(self) -> dict[str, Any]:
        """JSON-able: the error's class names from its own type upwards ([] if none), its message and line."""
        if self.error is None:
            return {"raised": [], "message": "", "line": None}
        names = [kind.__name__ for kind in type(self.error).__mro__ if kind is not object]
        return {"raised": names, "message": str(self.error)[:MAX_TEXT], "line": self.line}


class Rank:
    """What a probe is handed: who it is, the student's module, and where to record."""

    def __init__(self, spec: Mapping[str, Any], rank: int, send: Callable[[bytes], None]) -> None:
        self.rank = rank
        self.world_size: int = spec["world_size"]
        self.seed: int = spec["seed"]
        self.parameters: Mapping[str, Any] = spec["parameters"]
        self.scratch = Path.cwd()
        self.shared = Path(spec["shared"])
        self._module: str = Path(spec["file"]).stem
        self._send = send
        self._recorded: set[str] = set()
        self._held: list[Any] = []
        self.importing = False

    @property
    def student(self) -> types.ModuleType:
        """The student's module. It is imported when first asked for."""
        self.importing = True
        module = importlib.import_module(self._module)
        self.importing = False
        return module

    @property
    def device(self) -> Any:
        """The device of this rank by the device rule: cuda:rank if each rank can have a GPU, else cpu."""
        import torch

        enough = torch.cuda.is_available() and torch.cuda.device_count() >= self.world_size
        return torch.device("cuda", self.rank) if enough else torch.device("cpu")

    def record(self, name: str, value: Any) -> None:
        """Send one observation. Each name once; raises WireError for a type that may not cross."""
        if name in self._recorded:
            raise ValueError(f"observation {name!r} was recorded twice")
        self._recorded.add(name)
        self._send(b"O" + wire.encode({"name": name, "value": value}))

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Attempt:
        """Call student code and catch what it raises."""
        try:
            return Attempt(value=function(*args, **kwargs))
        except Exception as error:
            line = next((f[1] for f in reversed(_frames(error, self.student.__file__ or "")) if f[3]), None)
            return Attempt(error=error, line=line)

    def hold_group(self) -> None:
        """Keep one reference to every default group that is made from now on. A collective-free precaution:
        in torch 2.13 a DDP model that is the last owner of a destroyed group can deadlock in its destructor."""
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        original = c10d.init_process_group

        @functools.wraps(original)
        def init_process_group(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            self._held.append(dist.group.WORLD)

        c10d.init_process_group = init_process_group
        dist.init_process_group = init_process_group

    def release_group(self) -> None:
        """Let go of held groups, after student code has returned; the port becomes free again."""
        gc.collect()
        self._held.clear()
        gc.collect()


def main(index: int, spec: Mapping[str, Any], ends: list[tuple[Any, Any]]) -> None:
    """Entry point of a rank process. Never returns."""
    channel, output = ends[index]
    _close_others(ends, index)
    _set_scene(index, spec, output)
    lock = threading.Lock()

    def send(message: bytes) -> None:
        with lock:
            channel.send_bytes(message)

    try:
        _serve(index, spec, channel, send)
    finally:
        os._exit(0)


def _serve(index: int, spec: Mapping[str, Any], channel: Any, send: Callable[[bytes], None]) -> None:
    released = threading.Event()
    file = str(Path(spec["code"]) / spec["file"])
    monitor = threading.Thread(target=_answer, args=(channel, send, released, file), daemon=True)
    monitor.start()
    rank = Rank(spec, index, send)
    _tell(send, {"hello": os.getpid(), "own": [monitor.native_id]})
    ending = _call(rank, spec, file)
    _flush()
    _tell(send, {"ending": ending})
    released.wait()
    os._exit(0)  # while `rank` is still alive: the destructor of a group that it holds may wait for ever


def _answer(channel: Any, send: Callable[[bytes], None], released: threading.Event, file: str) -> None:
    """The second thread: tells what the rank waits in whenever the supervisor asks."""
    main_thread = threading.main_thread().ident or 0
    own = {threading.get_ident()}
    with contextlib.suppress(EOFError, OSError):
        while (request := channel.recv_bytes(64)) != b"release":
            _tell(send, {"snapshot": recorder.snapshot(main_thread, own, file), "request": request.decode()})
    released.set()


def _tell(send: Callable[[bytes], None], message: Mapping[str, Any]) -> None:
    send(b"J" + json.dumps(message, default=str).encode())


def _call(rank: Rank, spec: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Run the probe and say how it ended."""
    try:
        recorder.install()
        if spec["hold_group"]:
            rank.hold_group()
        if spec["process_group"]:
            _join_group(rank, spec)
        _probe(rank, spec)
    except SystemExit as error:
        return {"kind": "exited", "code": str(error.code), "how": "sys.exit", "stack": _frames(error, file)}
    except BaseException as error:
        return _raised(error, file, rank.importing)
    return {"kind": "finished"}


def _probe(rank: Rank, spec: Mapping[str, Any]) -> None:
    if not spec["probe"]:
        _check_contract(rank.student, spec["requires"], spec["file"])
        return
    getattr(importlib.import_module("probe"), spec["probe"])(rank)


def _join_group(rank: Rank, spec: Mapping[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    device = rank.device
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = dist.FileStore(str(rank.shared / "rendezvous"), rank.world_size)  # type: ignore[attr-defined]
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank.rank, world_size=rank.world_size)


def _check_contract(module: types.ModuleType, requires: list[list[Any]], file: str) -> None:
    for name, signature in requires:
        target: Any = module
        for part in name.split("."):
            if not hasattr(target, part):
                raise ContractError(f"{file} does not define {name}")
            target = getattr(target, part)
        if signature is not None:
            _check_signature(target, name, signature)


def _check_signature(target: Any, name: str, signature: str) -> None:
    if not callable(target):
        raise ContractError(f"{name} must be callable as {name}{signature}; it is a {type(target).__name__}")
    namespace: dict[str, Any] = {}
    exec(f"def contract{signature}: ...", namespace)  # the text is the manifest's, not the student's
    wanted = inspect.signature(namespace["contract"]).parameters.values()
    positional = [p for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = [p for p in wanted if p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    try:
        actual = inspect.signature(target)
    except (TypeError, ValueError):
        return  # a callable without a signature is tried out by the cases
    required = [p for p in positional if p.default is p.empty]
    extra = [1, 2] if any(p.kind is p.VAR_POSITIONAL for p in wanted) else []
    try:
        actual.bind(*([0] * len(required)), *extra, **({} if extra else {p.name: p.default for p in keywords}))
        actual.bind(*([0] * len(required)), *extra)
    except TypeError as error:
        raise ContractError(
            f"{name} must be callable as {name}{signature}, but {error}: it is {name}{actual}"
        ) from None


def _raised(error: BaseException, file: str, importing: bool) -> dict[str, Any]:
    frames = _frames(error, file)
    return {
        "kind": "raised",
        "type": type(error).__qualname__,
        "message": _text(error),
        "stack": frames,
        "causes": _causes(error),
        "importing": importing,
        "communication": _is_transport(error) or (bool(frames) and recorder.DISTRIBUTED in frames[-1][0]),
    }


def _is_transport(error: BaseException) -> bool:
    """Gloo and NCCL say so when a peer has gone; C++ raises some of it as a plain RuntimeError."""
    named = type(error).__name__ in ("DistBackendError", "DistNetworkError", "DistStoreError", "DistError")
    text = _text(error)
    return named or any(
        mark in text for mark in ("gloo/transport", "onnection closed by peer", "onnection reset by peer")
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception:  # a student's __str__ may raise; the type still tells something
        return "(its message could not be read)"


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    while len(found) < MAX_CAUSES:
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            break
        found.append(f"{type(following).__qualname__}: {_text(following)}")
        error = following
    return found


def _frames(error: BaseException, file: str) -> list[list[Any]]:
    rows = [
        [frame.f_code.co_filename, line, frame.f_code.co_qualname, frame.f_code.co_filename == file]
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename == file:
        rows.append([file, error.lineno or 1, "<module>", True])
    return rows[-recorder.MAX_FRAMES :]


def _close_others(ends: list[tuple[Any, Any]], index: int) -> None:
    for other, pair in enumerate(ends):
        if other != index:
            for end in pair:
                end.close()


def _set_scene(index: int, spec: Mapping[str, Any], output: Any) -> None:
    """A private folder, captured output, no input, one thread, a `__main__` that is not ours."""
    reaper.die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scratch = Path(spec["scratch"]) / f"rank{index}"
    os.chdir(scratch)
    for name in ("HOME", "TMPDIR"):
        os.environ[name] = str(scratch)
    _apply_environment(spec)
    _redirect(output)
    _limit()
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=_stack_file(scratch), all_threads=True, chain=False)
    multiprocessing.set_start_method(None, force=True)  # undecided, as in an interpreter of the student's own
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["rank"]
    sys.path[:] = [spec["code"], *[entry for entry in sys.path if entry and entry != str(Path.cwd())]]
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(spec["seed"] + index)
    random.seed(spec["seed"] + index)


def _stack_file(scratch: Path) -> Any:
    return (scratch.parent / f"stack{scratch.name.removeprefix('rank')}").open("w")


def _apply_environment(spec: Mapping[str, Any]) -> None:
    port = str(spec["port"])
    given = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANKLINGS_PORT": port, **spec["environment"]}
    for name, value in given.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


def _redirect(output: Any) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for target in (1, 2):
        os.dup2(output.fileno(), target)
    output.close()
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
