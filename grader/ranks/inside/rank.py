"""The inside of a rank process: set it up, call the probe, send what it recorded.

Messages to the supervisor are `b"O" + wire frame` (an observation) or `b"J" + JSON` (everything else).
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import importlib
import json
import os
import threading
import types
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from grader.ranks.inside import flight_recorder, setup, waits
from grader.ranks.inside.contract import check_contract
from grader.ranks.inside.exceptions import described, frames_of, said, tell_caught, text_of
from grader.ranks.inside.scene import Scene
from grader.records import wire

SECRET, SEEN = b"secret ", b"seen"
Told = TypeVar("Told")


class Attempt:
    """What came of calling student code that may raise: `value` or `error`."""

    def __init__(self, value: Any = None, error: Exception | None = None, line: int | None = None) -> None:
        self.value, self.error, self.line = value, error, line

    def described(self) -> dict[str, Any]:
        """JSON-able: the error's class names from its own type upwards ([] if none), its message, its line, and all
        that it and the errors behind it say (`said`)."""
        if self.error is None:
            return {"raised": [], "message": "", "line": None, "said": ""}
        names = [kind.__name__ for kind in type(self.error).__mro__ if kind is not object]
        return {"raised": names, "message": text_of(self.error), "line": self.line, "said": said(self.error)}


class Rank:
    """What a probe is handed: who it is, the student's module, and where to record."""

    def __init__(self, scene: Scene, rank: int, send: Callable[[bytes], None]) -> None:
        self.rank = rank
        self.world_size: int = scene.world_size
        self._gpus = scene.gpus
        self.seed: int = scene.seed
        self.parameters: Mapping[str, Any] = scene.parameters
        self.scratch = Path.cwd()
        self.shared = Path(scene.shared)
        self.file = Path(scene.student_file)
        """The student's file, for a probe that runs it as a script and may not import it."""
        self._module: str = self.file.stem
        self.send = send
        self._recorded: set[str] = set()
        self._held: list[Any] = []
        self.importing = False
        self.caught: list[Any] | None = None
        """What the student's last call raised, with its line; None where it raised nothing."""
        self._imported = False
        self.drawn: Future[int] = Future()
        """This rank's secret, once the supervisor has told it."""
        self._looked_at: Future[None] = Future()
        self.tracer: Any = None
        self.began: int = scene.began

    @property
    def student(self) -> types.ModuleType:
        """The student's module. It is imported when first asked for."""
        self.importing = True
        module = importlib.import_module(self._module)
        self.importing = False
        if not self._imported:
            self._imported = True
            _tell(self.send, {"imported": True})
        return module

    @property
    def secret(self) -> int:
        """What this rank is told and no other: inputs are drawn from it that others can have by communication only. It
        comes once the student's file was imported on every rank, so every rank's probe has to ask for `student` or for
        this before it waits for others."""
        if self.importing:
            raise RuntimeError("the student's file is still being imported")
        if not self._imported:
            _ = self.student
        return self.waiting("the import on all ranks", self.drawn.result)

    @property
    def device(self) -> Any:
        """The device of this rank by the device rule: cuda:rank if each rank can have a GPU, else cpu."""
        import torch

        return torch.device("cuda", self.rank) if self._gpus >= self.world_size else torch.device("cpu")

    def record(self, name: str, value: Any) -> None:
        """Send one observation. Each name once; raises WireError for a type that may not cross."""
        if name in self._recorded:
            raise ValueError(f"observation {name!r} was recorded twice")
        self._recorded.add(name)
        self.send(b"O" + wire.encode({"name": name, "value": value}))

    def region(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Mark a stretch of this rank's time, for checks that judge the communication in it. Where the case asks for
        no trace it does nothing."""
        return self.tracer.span("region", name) if self.tracer else contextlib.nullcontext()

    def step(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Mark a step inside a region, such as "forward 3": the page draws the steps of a region as a row for each
        rank, with what is idle between them. Judged by nothing. Where the case asks for no trace it does nothing."""
        return self.tracer.span("step", name) if self.tracer else contextlib.nullcontext()

    def tell_trace(self) -> None:
        """Tell what was communicated so far, where the case asks for a trace. A rank that crashes later tells no more;
        one that comes to its end tells all by itself. Ten times at most, since a rank may not tell much unasked."""
        if self.tracer:
            _tell_trace(self)

    def be_seen(self, name: str) -> None:
        """Let the supervisor look at this rank from outside, now: its memory, the processes below it, and the files in
        its folders. The judge is told under this name, and the rank is not. Each name once."""
        self._looked_at = Future()
        _tell(self.send, {"see": name})
        self.waiting("the grader's look at this rank", self._looked_at.result)

    def looked_at(self) -> None:
        """The supervisor has looked."""
        if not self._looked_at.done():
            self._looked_at.set_result(None)

    def traced(self) -> contextlib.AbstractContextManager[Any]:
        """Trace from here on, if the case asks for it."""
        return self.tracer.active() if self.tracer else contextlib.nullcontext()

    def waiting(self, operation: str, function: Callable[[], Told]) -> Told:
        """What `function` returns. Meanwhile this rank waits for others, as in communication, and a page calls that by
        the name of this `operation`."""
        return waits.waiting(operation, function)

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Attempt:
        """Call student code and catch what it raises."""
        self.caught = None
        try:
            return Attempt(value=function(*args, **kwargs))
        except Exception as error:
            line = next((f[1] for f in reversed(frames_of(error, self.student.__file__ or "")) if f[3]), None)
            self.caught = [f"{type(error).__qualname__}: {text_of(error)}", line]
            return Attempt(error=error, line=line)

    def hold_group(self) -> None:
        """Keep one reference to every group that is made from now on. A collective-free precaution: in torch 2.13 a
        DDP model that is the last owner of a destroyed group can deadlock in its destructor. And the connections of a
        group that is left at once stay until the witness has seen whose they are."""
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        join, make = c10d.init_process_group, c10d.new_group

        @functools.wraps(join)
        def init_process_group(*args: Any, **kwargs: Any) -> None:
            join(*args, **kwargs)
            self._held.append(dist.group.WORLD)

        @functools.wraps(make)
        def new_group(*args: Any, **kwargs: Any) -> Any:
            self._held.append(made := make(*args, **kwargs))
            return made

        c10d.init_process_group = dist.init_process_group = init_process_group
        c10d.new_group = dist.new_group = new_group

    def release_group(self) -> None:
        """Let go of held groups, after student code has returned; the port becomes free again."""
        gc.collect()
        self._held.clear()
        gc.collect()
        _forget_failed_join()


def _forget_failed_join() -> None:
    """Let the next default group have the name of a first one. torch numbers its groups, and begins anew only when a
    default group is left: on a rank whose joining failed half-way, as it may when another rank has gone already, the
    next group would have another name than on the others, and all would wait for one another in the store."""
    import torch.distributed as dist

    world: Any = getattr(dist.distributed_c10d, "_world", None)
    if not dist.is_initialized() and hasattr(world, "group_count"):
        world.group_count = 0


def main(index: int, scene: Scene, ends: list[tuple[Any, Any]]) -> None:
    """Entry point of a rank process. Never returns."""
    channel, output = ends[index]
    setup.close_others(scene.inherited, channel, output)
    setup.set_up(index, scene, output)
    lock = threading.Lock()

    def send(message: bytes) -> None:
        with lock:
            channel.send_bytes(message)

    try:
        _serve(index, scene, channel, send)
    finally:
        os._exit(0)


def _serve(index: int, scene: Scene, channel: Any, send: Callable[[bytes], None]) -> None:
    heard: SimpleQueue[int] = SimpleQueue()  # of the second thread: its number, and at last that the rank may leave
    file, rank = scene.student_file, Rank(scene, index, send)
    if scene.trace:
        rank.tracer = _tracer(file, rank.began)
    _thread.start_new_thread(_answer, (channel, rank, heard, file))
    _tell(send, {"hello": os.getpid(), "own": [heard.get()], "device": rank.device.type})
    ending = _call(rank, scene, file)
    setup.flush()
    _tell_trace(rank)
    _tell(send, {"ending": ending})
    heard.get()
    os._exit(0)  # while `rank` is still alive: the destructor of a group that it holds may wait for ever


def _tracer(file: str, began: int) -> Any:
    from grader.ranks.inside.tracer import Tracer

    return Tracer(file, began)


def _answer(channel: Any, rank: Rank, heard: SimpleQueue[int], file: str) -> None:
    """Tells what the rank waits in. `threading` does not know of its thread: nobody counts it, or waits for its end."""
    heard.put(threading.get_native_id())
    main_thread = threading.main_thread().ident or 0
    own = {threading.get_ident()}
    with contextlib.suppress(EOFError, OSError):
        while (request := channel.recv_bytes(64)) != b"release":
            if request.startswith(SECRET):
                rank.drawn.set_result(int(request.removeprefix(SECRET)))
                continue
            if request == SEEN:
                rank.looked_at()
                continue
            _tell_trace(rank)
            snapshot = {**waits.snapshot(main_thread, own, file), "caught": rank.caught}
            _tell(rank.send, {"snapshot": snapshot, "request": request.decode()})
    heard.put(0)


def _tell_trace(rank: Rank) -> None:
    """What was communicated so far. A rank that is stuck or killed later tells no more than this; without a trace it
    tells what PyTorch's own recorder has of it."""
    trace = rank.tracer.plain() if rank.tracer else flight_recorder.history(rank.began, rank.world_size)
    if trace is not None:
        _tell(rank.send, {"trace": trace})


def _tell(send: Callable[[bytes], None], message: Mapping[str, Any]) -> None:
    send(b"J" + json.dumps(message, default=str).encode())


def _call(rank: Rank, scene: Scene, file: str) -> dict[str, Any]:
    """Run the probe and say how it ended."""
    try:
        waits.install()
        if scene.hold_group:
            rank.hold_group()
        if not scene.script and (scene.requires or scene.process_group or not scene.probe):
            # Before there is a group, as in any real job. Without one the probe says when: what it puts in the place of
            # torch's own has to be there before a file takes it by name.
            check_contract(rank.student, scene.requires, scene.file)
        if scene.process_group:
            _join_group(rank)
        with rank.traced():
            if scene.probe:
                getattr(importlib.import_module("probe"), scene.probe)(rank)
    except SystemExit as error:
        return {"kind": "exited", "code": str(error.code), "how": "sys.exit", "stack": frames_of(error, file)}
    except BaseException as error:
        tell_caught(rank.record, rank.caught, error)
        return described(error, file, rank.importing)
    return {"kind": "finished"}


def _join_group(rank: Rank) -> None:
    import torch
    import torch.distributed as dist

    device = rank.device
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = dist.FileStore(str(rank.shared / "rendezvous"), rank.world_size)  # type: ignore[attr-defined]
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank.rank, world_size=rank.world_size)
