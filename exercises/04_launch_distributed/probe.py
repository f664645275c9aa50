"""Launches functions through the student's launcher and records what came of each launch.

The probe runs in the caller's process. The functions of the first half run in the processes that the student's code
starts, so importing this file must stay cheap: torch, and parts of the kit that take long, are imported where they are
used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path

from grader.kit.meeting import wait_until

CALLER = []
"""The caller's process id, once it runs. A process that finds it here is the caller itself or a bare fork of it."""

PATIENCE, NO_PATIENCE = 28, 8
"""Looks in a row without any movement that make a launch stuck, at first, and once a launch has been stuck."""
STUBBORN_PATIENCE = 136
"""The same, some 34 s, after a SIGTERM that a rank has ignored: mp.spawn waits 30 s before it kills."""
LONGEST, NOT_SO_LONG = 400, 80
"""Looks, 100 and 20 s, after which a launch that moves all the time does not come back: it asks again and again. At
first, or after a SIGTERM that was ignored; and once a launch has been stuck."""
ASLEEP = 5
"""Looks in a row, 10 ms apart, that make a process one that waits."""
APART = 0.9
"""Seconds from a failure to the next one, behind the first rank's end and the caller's: a second in all."""
DEPTH = 20
"""Pairs of calls below which rank 2 raises, as deep as in an ordinary training: its traceback begins with 4,000
characters that do not hold the message."""
REACH = 20
"""Ports that a launch may be above the one before it where they are counted up, and that are taken then."""
ELSEWHERE = "192.0.2.1"
"""The address that the caller's environment names, as on a cluster that of another node. Nobody has it: RFC 5737."""
FAREWELL = signal.SIGUSR1
"""Ends the caller's own processes. No launcher sends it."""


# -- what the started processes run ---------------------------------------------------------------------------------


def enter(folder, rank):
    """Leaves this process's id in the launch's folder. The caller itself may not go on: it must not block or die."""
    if os.getpid() in CALLER:
        raise RuntimeError("fn was called in the caller's own process")
    path = Path(folder)
    note = path / f"{rank}-{os.getpid()}"
    note.write_text(str(os.getpid()))
    note.replace(path / f"started-{rank}")
    return path


def note(folder, **seen):
    """Leaves what this process has seen in the launch's folder: a launcher may lose what fn returns."""
    path = Path(folder) / f"{seen['rank']}-{os.getpid()}-{time.monotonic_ns()}"
    path.write_text(json.dumps(seen))
    path.replace(path.with_name(f"note-{path.name}"))
    return seen


def wait_for(path, seconds=float("inf")):
    """Waits until a file is there, or for so long. Raises once the grader has given the launch up. Looks less and less
    often: on a busy machine a process that looks often always wants a core, so the launch would never count as stuck.
    """
    over, began = path.parent / "over", time.monotonic()
    while not path.exists() and (waited := time.monotonic() - began) < seconds:
        if over.exists():
            raise TimeoutError("the grader has ended this launch")
        time.sleep(min(0.01 + waited / 20, 1.0))


def stay():
    """Waits for ever, and wants no core meanwhile."""
    while True:
        time.sleep(3600)


def wait_for_all(folder, world_size):
    for rank in range(world_size):
        wait_for(folder / f"started-{rank}")


def process_of(folder, rank):
    return int((folder / f"started-{rank}").read_text())


def outlast(folder, rank):
    """Waits until the process of a rank has gone or waits for something: a pool may keep it alive."""
    from grader.kit.processes import asleep_for, has_ended

    pid = process_of(folder, rank)
    idle = asleep_for(ASLEEP, [pid])
    wait_until(lambda: has_ended(pid) or idle(), look=0.01)


def pause(seconds):
    """Not one long sleep: on a busy machine the pause grows with the load."""
    for _ in range(round(seconds / 0.02)):
        time.sleep(0.02)


def outlast_failure(folder, rank, caller):
    """Waits until a rank has ended, the caller has done what that woke it for, and a second has gone by."""
    from grader.kit.processes import asleep_for

    outlast(folder, rank)
    wait_until(asleep_for(ASLEEP, [caller]), 2.0, look=0.01)
    pause(APART)


def part_with(guest):
    """Ends a process of the caller's, whose exit code then waits for the caller."""
    from grader.kit.processes import has_ended

    with suppress(OSError):
        os.kill(guest, FAREWELL)
    wait_until(lambda: has_ended(guest), 3.0, look=0.01)


def report(rank, world_size, *args):
    """What this process was handed. The highest rank ends first, each other one after its right neighbour; one that is
    alone lives on for a moment."""
    folders = [arg for arg in args if isinstance(arg, str) and Path(arg).is_dir()]
    here = {
        "rank": rank, "world_size": world_size, "pid": os.getpid(), "forked": bool(CALLER),
        "address": os.environ.get("MASTER_ADDR"), "port": os.environ.get("MASTER_PORT"),
        "args": describe(["folder" if arg in folders else arg for arg in args]),
    }  # fmt: skip
    if folders:
        note(folders[0], **here)
    if folders and os.getpid() not in CALLER:
        folder = enter(folders[0], rank)
        if 0 <= rank < world_size - 1:
            wait_for(folder / f"done-{rank + 1}")
            outlast(folder, rank + 1)
        (folder / f"done-{rank}").touch()
        if world_size == 1:
            threading.Thread(target=live_on, args=(folder,)).start()
    return here


def join_and_sum(rank, world_size, folder, seed, guest):
    """Meets the others by MASTER_ADDR and MASTER_PORT, and computes with two threads. The highest rank lives on."""
    import torch.distributed as dist

    enter(folder, rank)
    if rank == 0:
        part_with(guest)
    port = os.environ.get("MASTER_PORT")
    if CALLER:  # a fork of a caller with threads would hang in what follows
        return note(folder, rank=rank, forked=True, port=port, sum=None)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    total = contribution(seed, rank)
    dist.all_reduce(total)
    use_threads()
    dist.destroy_process_group()
    if rank == world_size - 1:
        threading.Thread(target=live_on, args=(Path(folder),)).start()
    return note(folder, rank=rank, forked=False, port=port, sum=total.tolist())


def contribution(seed, rank):
    """What a rank adds to the sum: float64 of shape (4,)."""
    from grader.kit import values

    return values.normal((4,), seed, "contribution", rank)


def use_threads():
    """A product on two of torch's threads, a backward on autograd's, and a CUDA context where there is a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.ones(1, device="cuda")
    torch.set_num_threads(2)
    weight = torch.ones(300, 300, requires_grad=True)
    (weight @ weight).sum().backward()
    torch.set_num_threads(1)


def live_on(folder):
    """The process lives on after the function: a thread of its own is at work. Whoever waits for its end has it soon,
    and whoever does not, finds it there."""
    pause(0.4)
    if (folder / "returned").exists():
        stay()


class Late:
    """A result in whose loading rank 0 has the time to end; what waits then is not waited for."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return load_late, (self.folder,)


def load_late(folder):
    """Runs in the caller, or wherever the launcher loads results: a rank may look at its own."""
    from grader.kit.processes import asleep_for, has_ended

    pid = process_of(folder, 0)
    idle = asleep_for(ASLEEP, [pid])
    wait_until(lambda: pid == os.getpid() or has_ended(pid) or idle(), 3.0, look=0.01)
    return "late"


def give(rank, world_size, folder, seed):
    here = enter(folder, rank)
    return [Late(here), *assortment(seed)] if rank == 0 else None


def assortment(seed):
    """Results of all sorts, some larger than any pipe."""
    import torch

    from grader.kit import values

    make = values.generator(seed, "assortment")
    layer = torch.nn.Linear(3, 2, bias=False, dtype=torch.float64)
    torch.nn.init.uniform_(layer.weight, generator=make)
    large = torch.rand(2_000_000, dtype=torch.float64, generator=make)
    leaf = torch.rand(5, generator=make).requires_grad_()
    return [large, b"result" * 500_000, (None, {"nested": (1, 2.5)}), leaf, torch.nn.Sequential(layer)]


class Encounter:
    """An argument that waits, when it is pickled, for the other launch to be as far; for two seconds at most."""

    def __init__(self, mine, other):
        self.mine, self.other = mine, other

    def __reduce__(self):
        (self.mine / "pickling").touch()
        wait_for(self.other / "pickling", 2.0)
        return str, ("met",)


def meet(rank, world_size, mine, other, other_size, encounter, token):
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
    return note(mine, token=token, rank=rank, port=os.environ["MASTER_PORT"], sum=total.item())


def down(calls, error):
    """Raises from below so many calls, of two functions in turn: of one alone a traceback would not tell each."""
    if calls == 0:
        raise error
    further_down(calls - 1, error)


def further_down(calls, error):
    down(calls, error)


def fail_first(rank, world_size, folder, first, later, caller):
    """Rank 2 raises; rank 0 raises a second after its death; rank 1 is fine."""
    here = enter(folder, rank)
    if rank == 2:
        wait_for_all(here, world_size)
        (here / "failed").touch()
        down(DEPTH, Unpicklable(7, first, where=rank))
    if rank == 0:
        wait_for(here / "failed")
        outlast_failure(here, 2, caller)
        raise RuntimeError(later)
    return rank


def fail_beside_collective(rank, world_size, folder, message):
    """Ranks 0 and 1 sit in gloo for ever, in a group of their own; then rank 2 raises."""
    here = enter(folder, rank)
    if rank == 2:
        from grader.kit.processes import asleep_for

        for peer in (0, 1):
            wait_for(here / f"sitting-{peer}")
        wait_until(asleep_for(ASLEEP, [process_of(here, 0), process_of(here, 1)]), look=0.01)
        raise ArithmeticError(message)
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.FileStore(str(here / "store"), 2), rank=rank, world_size=2)
    (here / f"sitting-{rank}").touch()
    dist.recv(torch.zeros(1), 1) if rank == 0 else dist.all_reduce(torch.zeros(1))


def fail_beside_stubborn(rank, world_size, folder, message, guest):
    """Rank 0 takes note of SIGTERM and stays; then rank 1 raises."""
    here = enter(folder, rank)
    if rank == 0:
        signal.signal(signal.SIGTERM, lambda *_: (here / "asked").touch())
        (here / "ready").touch()
        stay()
    wait_for(here / "ready")
    part_with(guest)
    raise LookupError(message)


class Deadly:
    """A result in whose loading rank 1 is killed, as soon as it can send no more: nobody reads meanwhile."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return kill_sender, (self.folder,)


def kill_sender(folder):
    """Runs in the caller. Where there is no pipe to be full, rank 1 has ended or idles, its whole result delivered."""
    from grader.kit.processes import has_ended, kill

    (folder / "loading").touch()
    wait_until((folder / "sending").exists, 3.0, look=0.01)
    outlast(folder, 1)
    kill(process_of(folder, 1))
    wait_until(lambda: has_ended(process_of(folder, 1)), 3.0, look=0.01)


class Torn:
    """A large result of a rank that is killed while the caller is busy loading another one."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        wait_for(self.folder / "loading", 2.0)
        (self.folder / "sending").touch()
        return bytes, (b"x" * 8_000_000,)


def tear(rank, world_size, folder):
    """Rank 1 is killed with half of its result in the pipe, if there is a pipe."""
    here = enter(folder, rank)
    wait_for_all(here, world_size)
    return Torn(here) if rank == 1 else Deadly(here)


class Unpicklable(Exception):
    """Can be pickled and not be loaded again, as exceptions with arguments of their own often are. Its text is not its
    first argument, as with OSError, and goes on for two more lines, as that of load_state_dict does."""

    def __init__(self, code, detail, *, where):
        super().__init__(code, detail)
        self.where = where

    def __str__(self):
        code, detail = self.args
        missing = ", ".join(f'"layers.{number}.weight"' for number in range(DEPTH * 7))
        return f"code {code}: {detail}\n    Missing key(s): {missing}.\n    size mismatch for head.weight"


def end(rank, world_size, folder, how, later="", caller=0):
    """The last rank ends without a result, by a signal the first one; the others wait for ever, or raise `later`."""
    here = enter(folder, rank)
    wait_for_all(here, world_size)
    if rank != (0 if how == "signal" else world_size - 1):
        if later:
            outlast_failure(here, world_size - 1, caller)
            raise RuntimeError(later)
        stay()
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how.startswith("exit"):
        os._exit(int(how[-1]))
    if how == "sys.exit 0":
        sys.exit(0)
    if how == "error":
        raise LookupError
    return lambda: None


def train_digits(rank, world_size, folder, trainer, data, seed):
    """Exercise 03's function, or a stand-in for those who have not written it yet."""
    import torch

    from grader.kit.stores import held_groups

    enter(folder, rank)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    if trainer == "softmax":
        return train_softmax(rank, world_size, data)
    with held_groups():
        import train_ddp  # not earlier: it may import init_process_group by name

        return train_ddp.train_ddp(rank, world_size, digits_model, data, 15, batch_size=32, lr=0.2)


def train_softmax(rank, world_size, data, steps=100):
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


def launches(rank):
    """All launches, in one process, so that what a launcher keeps warm, such as a fork server, is started once."""
    from grader.kit.spawns import quick_spawns

    with quick_spawns(rank.file.parent):
        launch_all(Launcher(rank))


def launch_all(show):
    """Until one of the first two, which all checks need, has not come back."""
    with foreign_port(show, "foreign"):  # a fork server that is started here keeps what it finds for ever
        show.launch("one", 1, report, "folder")
    show.launch("three", 3, report, "folder", 7, ["x", None], {"rate": 0.5})
    if show.stuck:
        return
    show.launch("zero", 0, report, "folder")
    show.launch("negative", -1, report, "folder")
    show.launch("assorted", 2, give, "folder", show.rank.seed)
    train(show)  # before the caller uses threads: what a bare fork does to them is the next launch's matter
    use_threads()
    join(show)
    show.both()
    fail(show)


def train(show):
    """The whole of Part 1: training on handwritten digits through the student's launcher."""
    from torch.utils.data import TensorDataset

    from grader.kit import values

    data = TensorDataset(*digits_rows(show.rank.seed)[:2])
    chosen = "train_ddp" if importlib.util.find_spec("train_ddp") else "softmax"
    models = show.launch("digits", 2, train_digits, "folder", chosen, data, show.rank.seed)
    show.rank.record("trainer", chosen)
    show.rank.record("states", [values.state(model) for model in models or [] if hasattr(model, "state_dict")])


@contextmanager
def foreign_port(show, name):
    """Meanwhile the caller's environment names another node, and a port on which somebody else listens already; that is
    recorded."""
    from grader.kit.stores import taken_port

    with taken_port() as port:
        os.environ.update(MASTER_ADDR=ELSEWHERE, MASTER_PORT=str(port))
        try:
            yield
        finally:
            for variable in ("MASTER_ADDR", "MASTER_PORT"):
                os.environ.pop(variable, None)
    show.rank.record(name, str(port))


@contextmanager
def next_ports(show):
    """Meanwhile somebody listens on the ports that come next, where those of the launches were counted up."""
    one, three = (port_in(show.rank.scratch / name) for name in ("one", "three"))
    with ExitStack() as stack:
        for port in range(three + 1, three + REACH + 1) if 0 < three - one <= REACH else ():
            listener = stack.enter_context(socket.socket())
            with suppress(OSError, OverflowError):  # it is taken, or is no port
                listener.bind(("127.0.0.1", port))
                listener.listen()
        yield


def port_in(folder):
    """The port that the ranks of a launch have found; 0 where they have found none."""
    ports = [note.get("port") or "" for note in notes_in(folder)]
    return next((int(port) for port in ports if port.isascii() and port.isdigit()), 0)


def join(show):
    """Two ranks meet, while the caller's environment names somebody else's address and port."""
    with foreign_port(show, "taken"), next_ports(show):
        show.launch("joined", 2, join_and_sum, "folder", show.rank.seed, "guest")


def fail(show):
    """Launches that should fail; last the one for which a launcher may need the longest."""
    told = messages(show.rank.seed)
    show.launch("first", 3, fail_first, "folder", told[0], told[1], os.getpid())
    show.launch("collective", 3, fail_beside_collective, "folder", told[2])
    show.launch("error", 1, end, "folder", "error")
    for how in ("exit 3", "exit 0", "sys.exit 0", "signal", "lambda"):
        brought = show.launch(how, 1, end, "folder", how)
        if how in BESIDE and not (how == "lambda" and brought):  # who brings a lambda home, may wait for the others
            later = (told[4], os.getpid()) if how == "exit 3" else ()
            show.launch(f"{how} beside", 2, end, "folder", how, *later)
    show.launch("torn", 2, tear, "folder")
    show.launch("stubborn", 2, fail_beside_stubborn, "folder", told[3], "guest")


BESIDE = ("exit 3", "exit 0", "signal", "lambda")
"""Ways to end without a result that are tried beside another rank, too, which waits for ever, but beside "exit 3"
raises later; sys.exit is one more exit."""


def messages(seed):
    """Five messages that nobody can know beforehand."""
    return [f"fault {hashlib.sha256(f'{seed}/{number}'.encode()).hexdigest()[:12]}" for number in range(5)]


def digits_model():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 10))


def digits_rows(seed):
    """Training inputs and targets, then 360 held-out ones, standardised by the training rows' mean and deviation.

    Reads the file behind sklearn.datasets.load_digits, without the second that importing scikit-learn takes.
    """
    import numpy
    import torch

    from grader.kit import values

    home = Path(importlib.util.find_spec("sklearn").submodule_search_locations[0])
    table = torch.from_numpy(numpy.loadtxt(home / "datasets" / "data" / "digits.csv.gz", delimiter=","))
    table = table[torch.randperm(len(table), generator=values.generator(seed, "rows"))]
    inputs, targets = table[:, :-1].float(), table[:, -1].long()
    scale = inputs[360:].std(0).clamp(min=1.0)  # pixels go from 0 to 16, and some hardly ever change
    inputs = (inputs - inputs[360:].mean(0)) / scale
    return [inputs[360:], targets[360:], inputs[:360], targets[:360]]


class DrawnAlike:
    """Meanwhile each thread that calls `begin` draws from a generator of its own by the functions of Python's `random`,
    all with one seed, as processes do that were seeded alike. `module` may have imported them by name."""

    def __init__(self, module, seed):
        self.modules, self.seed, self.own = (random, module), seed, {}
        self.shared = random.random.__self__

    def begin(self):
        self.own[threading.get_ident()] = random.Random(self.seed)

    def drawing(self, name):
        """A method of the shared generator, or in a thread that has begun, of its own one."""
        original = getattr(self.shared, name)

        def draw(*args, **kwargs):
            return getattr(self.own.get(threading.get_ident()), name, original)(*args, **kwargs)

        return draw

    def __enter__(self):
        drawn = {name: self.drawing(name) for name in ("random", "getrandbits", "seed")}  # all others call these
        vars(self.shared).update(drawn)
        self.replaced = [
            (module, key, value)
            for module in self.modules
            for key, value in vars(module).items()
            if getattr(value, "__self__", None) is self.shared and value.__name__ in drawn
        ]
        for module, key, value in self.replaced:
            setattr(module, key, drawn[value.__name__])
        return self

    def __exit__(self, *_):
        for name in ("random", "getrandbits", "seed"):
            delattr(self.shared, name)
        for module, key, value in self.replaced:
            setattr(module, key, value)


class Company:
    """Two processes of the caller's own beside a launch: one that stays, and one that a rank ends meanwhile."""

    def __init__(self):
        self.stays = get_context("fork").Process(target=stay, daemon=True)
        self.stays.start()
        self.guest = subprocess.Popen(["sleep", "7200"])

    def leave(self):
        """The exit codes of both, once they have ended."""
        from grader.kit.processes import has_ended

        for process in (self.stays, self.guest):
            if not has_ended(process.pid):
                os.kill(process.pid, FAREWELL)
        self.stays.join()
        return [self.stays.exitcode, self.guest.wait()]


class Launcher:
    """Calls the student's launcher under watch, and records each launch under its name."""

    def __init__(self, rank):
        CALLER[:] = [os.getpid()]
        self.rank, self.stuck, self.told, self.company = rank, False, set(), None
        self.student = rank.student.launch_distributed
        rank.record("caller", os.getpid())

    def folder(self, name):
        path = self.rank.scratch / name.replace(" ", "")
        path.mkdir()
        return path

    def launch(self, name, world_size, fn, *args):
        """The launch's value if it is a list. In `args`, "folder" stands for its folder, and "guest" for a process of
        the caller's that a rank is to end."""
        folder = self.folder(name)
        args = tuple(str(folder) if isinstance(arg, str) and arg == "folder" else arg for arg in args)
        if args and args[-1] == "guest":
            self.company = Company()
            args = (*args[:-1], self.company.guest.pid)
        [attempt] = self.watched(name, [folder], lambda: [self.attempt(world_size, fn, *args)])
        return attempt.value if isinstance(attempt.value, list) else None

    def both(self):
        """Two launches at the same time, from two threads that draw the same random numbers."""
        folders, sizes = [self.folder("left"), self.folder("right")], [2, 1]
        attempts = [self.nothing(), self.nothing()]

        def one(mine):
            other = 1 - mine
            encounter, token = Encounter(folders[mine], folders[other]), messages(self.rank.seed)[mine]
            args = (str(folders[mine]), str(folders[other]), sizes[other], encounter, token)
            alike.begin()
            attempts[mine] = self.attempt(sizes[mine], meet, *args)

        def run():
            threads = [threading.Thread(target=one, args=(mine,), daemon=True) for mine in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return attempts

        with DrawnAlike(self.rank.student, self.rank.seed) as alike:
            self.watched("at once", folders, run)

    def attempt(self, *args):
        return self.rank.attempt(catchable, self.student, *args)

    def nothing(self):
        """What stands for a launch that never came back."""
        return self.rank.attempt(lambda: None)

    def watched(self, name, folders, call):
        """What came of calling the launcher; that is recorded, with what was seen beside it."""
        from grader.kit.processes import WatchedCall

        def patience():
            asked = any((folder / "asked").exists() for folder in folders)
            return NO_PATIENCE if watch.hung else STUBBORN_PATIENCE if asked else first_patience

        def give_up():
            for folder in folders:
                (folder / "over").touch()

        def abandon():  # nothing can call this launcher back, so its process ends here
            self.tell(name, folders, [self.nothing() for _ in folders], watch)
            for other in sorted({"one", "three"} - self.told):
                self.tell(other, [folders[0]], [self.nothing()], watch)
            os._exit(1)

        def longest():
            asked = any((folder / "asked").exists() for folder in folders)
            return LONGEST if asked else most

        most = NOT_SO_LONG if self.stuck else LONGEST
        first_patience = NO_PATIENCE if self.stuck else PATIENCE
        watch = WatchedCall(self.rank.student.__file__, patience, give_up, abandon, longest)
        attempts = watch.run(call) or [self.nothing() for _ in folders]
        for folder in folders:
            (folder / "returned").touch()
        self.stuck = self.stuck or watch.hung
        self.tell(name, folders, attempts, watch)
        return attempts

    def tell(self, name, folders, attempts, watch):
        """Record a launch, or two at once."""
        from grader.kit.processes import all_gone, left_behind

        started = [int(note.read_text()) for folder in folders for note in sorted(folder.glob("started-*"))]
        all_gone(set(started) - {os.getpid()})
        self.rank.be_seen(name)
        # What waits below a launch that went well may be workers that the launcher keeps: they are left behind, and
        # without them its next launch would break, which is another fault than its own.
        went_well = not watch.hung and not any(attempt.error for attempt in attempts)
        left = left_behind(set(started) - {os.getpid()}, spare=went_well)
        company, self.company = self.company.leave() if self.company else [], None
        seen = {"hung": watch.hung, "moving": watch.moving, "waited_at": watch.line, "left": left, "started": started}
        seen.update(company=company, quiet=watch.quiet)
        found = [
            {**attempt.described(), **returned(attempt), "notes": notes_in(folder)}
            for attempt, folder in zip(attempts, folders, strict=True)
        ]
        self.rank.record(name, {**seen, "both": found} if len(folders) == 2 else {**seen, **found[0]})
        self.told.add(name)


def catchable(function, *args):
    """Calls it; what is no Exception, such as SystemExit, would end the probe."""
    from grader.kit.processes import BrokenOff

    try:
        return function(*args)
    except (Exception, BrokenOff):
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def notes_in(folder):
    """What the processes of a launch have seen."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("note-*"))]


def returned(attempt):
    """What a launch gave back."""
    return {"type": type(attempt.value).__name__, "results": describe(attempt.value)}


def describe(value):
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
