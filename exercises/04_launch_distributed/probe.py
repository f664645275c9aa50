"""Launches functions through the student's launcher and records what came of each launch.

The probe runs in the caller's process. The functions of the first half run in the processes that the student's code
starts, so importing this file must stay cheap: torch is imported where it is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CALLER: list[int] = []
"""The caller's process id, once it runs. A process that finds it here is the caller itself or a bare fork of it."""

LOOK = 0.25
"""Seconds between two looks at a launch."""
PATIENCE, NO_PATIENCE = 28, 8
"""Looks in a row without any movement that make a launch stuck, at first, and once a launch has been stuck."""
STUBBORN_PATIENCE = 180
"""The same after a SIGTERM that a rank has ignored: mp.spawn waits 30 s before it kills."""


# -- what the started processes run ---------------------------------------------------------------------------------


def enter(folder: str, rank: int) -> Path:
    """Leaves this process's id in the launch's folder. The caller itself may not go on: it must not block or die."""
    if os.getpid() in CALLER:
        raise RuntimeError("fn was called in the caller's own process")
    path = Path(folder)
    note = path / f"{rank}-{os.getpid()}"
    note.write_text(str(os.getpid()))
    note.replace(path / f"started-{rank}")
    return path


def wait_for(path: Path, seconds: float = float("inf")) -> bool:
    """Waits until a file is there; False after `seconds`. Raises once the grader has given the launch up."""
    end = time.monotonic() + seconds
    while not path.exists():
        if (path.parent / "over").exists():
            raise TimeoutError("the grader has ended this launch")
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def wait_for_all(folder: Path, world_size: int) -> None:
    for rank in range(world_size):
        wait_for(folder / f"started-{rank}")


def outlast(folder: Path, rank: int, ticks: int) -> None:
    """Waits until the process of a rank has gone, for `ticks` of 20 ms at most: a pool may keep it alive."""
    import psutil

    for _ in range(ticks):
        with suppress(psutil.Error):
            if psutil.Process(int((folder / f"started-{rank}").read_text())).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.02)


def report(rank: int, world_size: int, *args: Any) -> dict[str, Any]:
    """What this process was handed. The highest rank ends first, each other one after its right neighbour."""
    here = {
        "rank": rank, "world_size": world_size, "pid": os.getpid(), "forked": bool(CALLER),
        "address": os.environ.get("MASTER_ADDR"), "port": os.environ.get("MASTER_PORT"),
    }  # fmt: skip
    folders = [arg for arg in args if isinstance(arg, str) and Path(arg).is_dir()]
    here["args"] = describe(["folder" if arg in folders else arg for arg in args])
    if folders and os.getpid() not in CALLER:
        folder = enter(folders[0], rank)
        if 0 <= rank < world_size - 1:
            wait_for(folder / f"done-{rank + 1}")
            outlast(folder, rank + 1, ticks=15)
        (folder / f"done-{rank}").touch()
    return here


def join_and_sum(rank: int, world_size: int, folder: str, seed: int) -> dict[str, Any]:
    """Meets the others by MASTER_ADDR and MASTER_PORT, and computes with two threads."""
    import torch
    import torch.distributed as dist

    enter(folder, rank)
    port = os.environ.get("MASTER_PORT")
    if CALLER:  # a fork of a caller with threads would hang in what follows
        return {"forked": bool(CALLER), "port": port, "sum": None}
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    total = contribution(seed, rank)
    dist.all_reduce(total)
    use_threads()
    dist.destroy_process_group()
    return {"forked": bool(CALLER), "port": port, "sum": total.tolist()}


def contribution(seed: int, rank: int) -> Any:
    import torch

    return torch.rand(4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + rank))


def use_threads() -> None:
    """A product on two of torch's threads, a backward on autograd's, and a CUDA context where there is a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.ones(1, device="cuda")
    torch.set_num_threads(2)
    weight = torch.ones(300, 300, requires_grad=True)
    (weight @ weight).sum().backward()
    torch.set_num_threads(1)


def give(rank: int, world_size: int, folder: str, seed: int) -> Any:
    enter(folder, rank)
    return assortment(seed) if rank == 0 else None


def assortment(seed: int) -> list[Any]:
    """Results of all sorts, some larger than any pipe."""
    import torch

    make = torch.Generator().manual_seed(seed)
    layer = torch.nn.Linear(3, 2, bias=False, dtype=torch.float64)
    torch.nn.init.uniform_(layer.weight, generator=make)
    large = torch.rand(2_000_000, dtype=torch.float64, generator=make)
    leaf = torch.rand(5, generator=make).requires_grad_()
    return [large, b"result" * 500_000, (None, {"nested": (1, 2.5)}), leaf, torch.nn.Sequential(layer)]


class Meeting:
    """An argument that waits, when it is pickled, for the other launch to be as far; for two seconds at most."""

    def __init__(self, mine: Path, other: Path) -> None:
        self.mine, self.other = mine, other

    def __reduce__(self) -> Any:
        (self.mine / "pickling").touch()
        wait_for(self.other / "pickling", 2.0)
        return str, ("met",)


def meet(rank: int, world_size: int, mine: str, other: str, other_size: int, meeting: object, token: str) -> Any:
    """Is in a group of its own while the other launch is in another one."""
    import torch
    import torch.distributed as dist

    folder, others = enter(mine, rank), Path(other)
    for peer in range(other_size):
        wait_for(others / f"started-{peer}", 6.0)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    (folder / "joined").touch()
    wait_for(others / "joined", 6.0)
    total = torch.ones(1)
    dist.all_reduce(total)
    dist.destroy_process_group()
    return {"token": token, "rank": rank, "port": os.environ["MASTER_PORT"], "sum": total.item()}


def fail_first(rank: int, world_size: int, folder: str, first: str, later: str) -> int:
    """Rank 2 raises; rank 0 raises well after its death; rank 1 is fine."""
    here = enter(folder, rank)
    if rank == 2:
        wait_for_all(here, world_size)
        (here / "failed").touch()
        raise KeyError(first)
    if rank == 0:
        wait_for(here / "failed")
        outlast(here, 2, ticks=50)
        for _ in range(100):  # not one long sleep: on a busy machine the pause grows with the load
            time.sleep(0.02)
        raise RuntimeError(later)
    return rank


def fail_beside_collective(rank: int, world_size: int, folder: str, message: str) -> None:
    """Ranks 0 and 1 sit in gloo for ever, in a group of their own; then rank 2 raises."""
    here = enter(folder, rank)
    if rank == 2:
        for peer in (0, 1):
            wait_for(here / f"sitting-{peer}")
        time.sleep(0.2)
        raise ArithmeticError(message)
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.FileStore(str(here / "store"), 2), rank=rank, world_size=2)
    (here / f"sitting-{rank}").touch()
    dist.recv(torch.zeros(1), 1) if rank == 0 else dist.all_reduce(torch.zeros(1))


def fail_beside_stubborn(rank: int, world_size: int, folder: str, message: str) -> None:
    """Rank 0 takes note of SIGTERM and stays; then rank 1 raises."""
    here = enter(folder, rank)
    if rank == 0:
        signal.signal(signal.SIGTERM, lambda *_: (here / "asked").touch())
        (here / "ready").touch()
        wait_for(here / "never")
    wait_for(here / "ready")
    raise LookupError(message)


class Stall:
    """A result that takes its time: when the caller loads it, it waits for rank 1 to go, 3 s at most."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return stall, (self.folder,)


def stall(folder: Path) -> None:
    (folder / "loading").touch()
    outlast(folder, 1, ticks=150)


class Torn:
    """A large result of a rank that is killed while the caller is busy loading another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        wait_for(self.folder / "loading", 2.0)
        threading.Thread(target=kill_soon, daemon=True).start()
        return bytes, (b"x" * 8_000_000,)


def kill_soon() -> None:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


def tear(rank: int, world_size: int, folder: str) -> Any:
    """Rank 1 is killed with half of its result in the pipe, if there is a pipe."""
    here = enter(folder, rank)
    wait_for_all(here, world_size)
    return Torn(here) if rank == 1 else Stall(here)


def linger(rank: int, world_size: int, folder: str) -> int:
    """The process lives for a second longer than the function: a thread of its own is at work."""
    here = enter(folder, rank)
    threading.Thread(target=wait_for, args=(here / "never", 1.0)).start()
    return rank


class Unpicklable(Exception):
    """Can be pickled and not be loaded again, as exceptions with arguments of their own often are."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"code {code}: {detail}")


def end(rank: int, world_size: int, folder: str, how: str, detail: str = "") -> Any:
    """The last rank ends without a result; the others wait for ever."""
    here = enter(folder, rank)
    wait_for_all(here, world_size)
    if rank < world_size - 1:
        wait_for(here / "never")
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how.startswith("exit"):
        os._exit(int(how[-1]))
    if how == "error":
        raise Unpicklable(7, detail)
    return lambda: None


def train_digits(rank: int, world_size: int, folder: str, trainer: str, data: Any, seed: int) -> Any:
    """Exercise 03's function, or a stand-in for those who have not written it yet."""
    import torch

    enter(folder, rank)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    if trainer == "softmax":
        return train_softmax(rank, world_size, data)
    with held_groups():
        import train_ddp  # not earlier: it may import init_process_group by name

        return train_ddp.train_ddp(rank, world_size, digits_model, data, 15, batch_size=32, lr=0.2)


@contextmanager
def held_groups() -> Any:
    """Keeps each default group alive until the student's function has returned: in torch 2.13 a DDP model that is
    the last owner of a destroyed group can deadlock."""
    import torch.distributed as dist

    original, held = dist.init_process_group, []

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        held.append(dist.distributed_c10d._get_default_group())

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_process_group
    yield
    dist.init_process_group = dist.distributed_c10d.init_process_group = original


def train_softmax(rank: int, world_size: int, data: Any, steps: int = 100) -> Any:
    """Softmax regression on whole batches; the sum of the gradients is one all-reduce a step."""
    import torch
    import torch.distributed as dist

    inputs, targets = (tensor[rank::world_size] for tensor in data.tensors)
    wanted = torch.nn.functional.one_hot(targets, 10).to(inputs)
    model = digits_model()
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    with torch.no_grad():
        for _ in range(steps):
            error = model(inputs).softmax(1) - wanted
            gradient = torch.cat([error.T @ inputs, error.sum(0)[:, None]], 1)
            dist.all_reduce(gradient)
            gradient /= len(data)
            model[0].weight -= gradient[:, :-1]
            model[0].bias -= gradient[:, -1]
    dist.destroy_process_group()
    return model


# -- what the caller does -------------------------------------------------------------------------------------------


def launches(rank: Any) -> None:
    """Launches that should succeed."""
    show = Launcher(rank)
    show.launch("one", 1, report, "folder")
    show.launch("three", 3, report, "folder", 7, ["x", None], {"rate": 0.5})
    if show.stuck:  # every check needs these two launches
        return
    show.launch("zero", 0, report, "folder")
    show.launch("negative", -1, report, "folder")
    show.launch("assorted", 2, give, "folder", rank.seed)
    show.launch("lingering", 2, linger, "folder")
    use_threads()
    with taken_port() as port:
        show.launch("joined", 2, join_and_sum, "folder", rank.seed)
        rank.record("taken", port)
    show.both()


def failures(rank: Any) -> None:
    """Launches that should fail."""
    show = Launcher(rank)
    show.launch("first", 3, fail_first, "folder", *messages(rank.seed)[:2])
    show.launch("collective", 3, fail_beside_collective, "folder", messages(rank.seed)[2])
    show.launch("stubborn", 2, fail_beside_stubborn, "folder", messages(rank.seed)[3])
    show.launch("exit 3", 2, end, "folder", "exit 3")
    show.launch("exit 0", 1, end, "folder", "exit 0")
    show.launch("signal", 1, end, "folder", "signal")
    show.launch("error", 1, end, "folder", "error", messages(rank.seed)[4])
    show.launch("lambda", 1, end, "folder", "lambda")
    show.launch("torn", 2, tear, "folder")


def digits(rank: Any) -> None:
    """The whole of Part 1: training on handwritten digits through the student's launcher."""
    from torch.utils.data import TensorDataset

    show = Launcher(rank)
    data = TensorDataset(*digits_rows(rank.seed)[:2])
    chosen = "train_ddp" if importlib.util.find_spec("train_ddp") else "softmax"
    models = show.launch("digits", 2, train_digits, "folder", chosen, data, rank.seed)
    rank.record("trainer", chosen)
    states = [model.state_dict() for model in models or [] if hasattr(model, "state_dict")]
    rank.record("states", [{key: value.detach().cpu().clone() for key, value in state.items()} for state in states])


def messages(seed: int) -> list[str]:
    """Five messages that nobody can know beforehand."""
    return [f"fault {hashlib.sha256(f'{seed}/{number}'.encode()).hexdigest()[:12]}" for number in range(5)]


def digits_model() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 10))


def digits_rows(seed: int) -> list[Any]:
    """Training inputs and targets, then 360 held-out ones, standardised by the training rows' mean and deviation.

    Reads the file behind sklearn.datasets.load_digits, without the second that importing scikit-learn takes.
    """
    import numpy
    import torch

    home = Path(importlib.util.find_spec("sklearn").submodule_search_locations[0])  # type: ignore[union-attr, index]
    table = torch.from_numpy(numpy.loadtxt(home / "datasets" / "data" / "digits.csv.gz", delimiter=","))
    table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))]
    inputs, targets = table[:, :-1].float(), table[:, -1].long()
    scale = inputs[360:].std(0).clamp(min=1.0)  # pixels go from 0 to 16, and some hardly ever change
    inputs = (inputs - inputs[360:].mean(0)) / scale
    return [inputs[360:], targets[360:], inputs[:360], targets[:360]]


@contextmanager
def taken_port() -> Any:
    """The caller's environment names a port on which somebody else listens already."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        yield port
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)


class Launcher:
    """Calls the student's launcher under watch, and records each launch under its name."""

    def __init__(self, rank: Any) -> None:
        CALLER[:] = [os.getpid()]
        self.rank, self.stuck = rank, False
        self.student = rank.student.launch_distributed
        rank.record("caller", os.getpid())

    def folder(self, name: str) -> Path:
        path = self.rank.scratch / name.replace(" ", "")
        path.mkdir()
        return path

    def launch(self, name: str, world_size: int, fn: Callable[..., Any], *args: Any) -> Any:
        """The launch's value; in `args`, "folder" stands for its folder."""
        folder = self.folder(name)
        args = tuple(str(folder) if isinstance(arg, str) and arg == "folder" else arg for arg in args)
        return self.watched(name, [folder], lambda: outcome(self.student, world_size, fn, *args))

    def both(self) -> None:
        """Two launches at the same time, from two threads."""
        folders, sizes = [self.folder("left"), self.folder("right")], [2, 1]
        found: list[dict[str, Any]] = [{}, {}]

        def one(mine: int) -> None:
            other = 1 - mine
            meeting = Meeting(folders[mine], folders[other])
            args = (str(folders[mine]), str(folders[other]), sizes[other], meeting, messages(self.rank.seed)[mine])
            found[mine] = outcome(self.student, sizes[mine], meet, *args)

        def run() -> dict[str, Any]:
            threads = [threading.Thread(target=one, args=(mine,), daemon=True) for mine in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return {"both": [dict(item, value=describe(item["value"])) for item in found], "value": None}

        self.watched("at once", folders, run)

    def watched(self, name: str, folders: list[Path], call: Callable[[], dict[str, Any]]) -> Any:
        watch = Watch(self.rank.student.__file__, folders, NO_PATIENCE if self.stuck else PATIENCE)
        found = watch.run_here(call)
        self.stuck = self.stuck or found["hung"]
        value = found.pop("value", None)
        kind = type(value).__name__
        seen = {"results": describe(value), "type": kind, "left": left_behind(folders), "started": started(folders)}
        self.rank.record(name, {**found, **seen})
        return value if kind == "list" else None


def outcome(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What came of a call: `value`, or `raised` (class names upwards), all the `text` that the error carries, and the
    `line` of the student's file that it passed last."""
    try:
        return {"value": function(*args), "raised": [], "text": ""}
    except Stuck:
        raise
    except BaseException as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        line = line_in(sys.modules[function.__module__].__file__ or "", traceback.walk_tb(error.__traceback__))
        return {"value": None, "raised": names, "text": text_of(error)[-20000:], "line": line}


def line_in(file: str, frames: Iterable[tuple[Any, int]]) -> int | None:
    """The line of the last of some frames that belongs to a file."""
    return next((line for frame, line in reversed(list(frames)) if frame.f_code.co_filename == file), None)


def text_of(error: BaseException | None, depth: int = 0) -> str:
    """The error's message, with its notes, its causes and its members."""
    if error is None or depth > 8:
        return ""
    more = [*getattr(error, "__notes__", []), *error.args]
    chain = [error.__cause__ or error.__context__, *getattr(error, "exceptions", [])]
    return "\n".join(
        [f"{type(error).__name__}: {error}", *map(str, more), *(text_of(link, depth + 1) for link in chain)]
    )


def describe(value: Any) -> Any:
    """A value in words that may cross to the judge; large ones as a digest."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return {"tuple": [describe(item) for item in value]}
    if isinstance(value, bytes):
        return {"bytes": len(value), "digest": hashlib.sha256(value).hexdigest()}
    if hasattr(value, "state_dict"):
        return {"module": repr(value), "state": describe(dict(value.state_dict()))}
    if hasattr(value, "detach"):
        content = value.detach().cpu().contiguous().numpy().tobytes()
        shape = [str(value.dtype), *value.shape, value.requires_grad]
        return {"tensor": shape, "digest": hashlib.sha256(content).hexdigest()}
    return {"object": type(value).__name__}


def started(folders: list[Path]) -> list[int]:
    """The process ids that ranks have left."""
    return [int(note.read_text()) for folder in folders for note in sorted(folder.glob("started-*"))]


def left_behind(folders: list[Path]) -> list[str]:
    """The states of rank processes that still exist half a second after the launch has come back. Ends them."""
    import psutil

    def states() -> dict[int, str]:
        found = {}
        for pid in set(started(folders)) - {os.getpid()}:
            with suppress(psutil.Error):
                found[pid] = psutil.Process(pid).status()
        return found

    end = time.monotonic() + 0.5
    while states() and time.monotonic() < end:
        time.sleep(0.02)
    remaining = states()
    for pid in remaining:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return sorted(remaining.values())


class Stuck(BaseException):
    """Raised in the caller to leave a launch in which nothing moves any more."""


class Watch(threading.Thread):
    """Looks after a call that runs in the main thread, and breaks it once it is stuck.

    Stuck is a matter of evidence: no process of the tree has started, ended, waited for a core or used one.
    """

    def __init__(self, file: str, folders: list[Path], patience: int) -> None:
        super().__init__(daemon=True)
        self.file, self.folders, self.limit = file, folders, patience
        self.over = threading.Event()
        self.hung = False
        self.line: int | None = None

    def run_here(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {"raised": [], "text": "", "line": None}
        signal.signal(signal.SIGALRM, self.leave)
        self.start()
        with suppress(Stuck):
            found = call()
            self.over.set()
        self.over.set()
        self.join()
        return {**found, "hung": self.hung, "line": self.line or found.get("line")}

    def leave(self, *_: Any) -> None:
        if not self.over.is_set():
            raise Stuck

    def run(self) -> None:
        before, quiet = self.look(), 0
        while not self.over.wait(LOOK):  # looks are counted, not seconds: a machine that was paused is not stuck
            now = self.look()
            quiet = 0 if moved(before, now) else quiet + 1
            before = now
            if quiet > self.patience():
                self.line = self.line or self.where()
                self.hung, self.limit = True, NO_PATIENCE
                self.end_all()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def where(self) -> int | None:
        """The line of the student's file at which the main thread waits."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        return line_in(self.file, reversed(list(traceback.walk_stack(frame))))

    def patience(self) -> int:
        asked = any((folder / "asked").exists() for folder in self.folders)
        return STUBBORN_PATIENCE if asked and not self.hung else self.limit

    def look(self) -> dict[int, tuple[bool, float]]:
        """For the caller and each process below it: does it want a core, and how many seconds has it used?"""
        import psutil

        found, me = {}, psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            with suppress(psutil.Error), process.oneshot():
                if (status := process.status()) != psutil.STATUS_ZOMBIE:
                    times = process.cpu_times()
                    busy = status in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
                    found[process.pid] = busy, times.user + times.system
        return found

    def end_all(self) -> None:
        """Ends the ranks; a helper of the standard library may stay, for the next launch needs it."""
        import psutil

        for folder in self.folders:
            (folder / "over").touch()
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if not helper(process) or helper(process.parent()):
                    process.kill()


def helper(process: Any) -> bool:
    """True for the fork server, what it has forked, and the resource tracker."""
    words = " ".join(process.cmdline())
    return "multiprocessing.forkserver" in words or "multiprocessing.resource_tracker" in words


def moved(before: dict[int, tuple[bool, float]], now: dict[int, tuple[bool, float]]) -> bool:
    """True if a process came or went, wanted a core at both looks, or used one for an eighth of the time."""
    if before.keys() != now.keys():
        return True
    return any((before[pid][0] and now[pid][0]) or now[pid][1] - before[pid][1] > 0.03 for pid in now)
