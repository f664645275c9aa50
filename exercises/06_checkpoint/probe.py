"""Runs in every rank: trains a small model, saves and loads it with the student's functions, and disturbs the writer.

The disturbances depend on no API. A limit on the size of files makes any write fail, or kills the process, in its
middle. An audit hook sees files being opened for writing and renamed, in whatever way; `torch.save` to a path, which
opens its file in C++, is announced to it. Nothing here knows an expected value.
"""

import errno
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, OUTPUTS, BALLAST, BATCH = 3, 4, 2, 4096, 5
BEFORE, STEPS = 2, 4
"""Training steps before the checkpoint, and in all."""
DECAY = 0.8
"""What the learning rates are multiplied by after each step, as a scheduler does."""
GROUPS = {"sgd": ({"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.05, "weight_decay": 0.0}),
          "adamw": ({"lr": 0.02, "weight_decay": 0.1}, {"lr": 0.01, "weight_decay": 0.0})}  # fmt: skip
MOMENTUM = 0.9
ADAMW = {"betas": (0.9, 0.99), "eps": 1e-8}
LIMIT = 20.0
"""Seconds after which a wait for another rank is given up; nothing is judged by it."""
PATIENCE = 12
"""Looks in a row, 5 ms apart, that must find all other ranks asleep before a slow writer goes on."""
FILE = "checkpoint.pt"


# The model and its training


class Inner(nn.Module):
    """Two layers, one of which is called `module`, a frozen parameter, and buffers of several dtypes.

    `forwards` counts the forward passes in training mode, as BatchNorm does.
    """

    def __init__(self):
        super().__init__()
        self.module = nn.Linear(FEATURES, HIDDEN, dtype=torch.float64)
        self.head = nn.Linear(HIDDEN, OUTPUTS, dtype=torch.float64)
        self.offset = nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64), requires_grad=False)
        self.register_buffer("scale", torch.ones(FEATURES, dtype=torch.float64))
        self.register_buffer("ballast", torch.zeros(BALLAST, dtype=torch.float32))
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs):
        if self.training:
            self.forwards += 1
        return outputs({f"module.{name}": value for name, value in self.state_dict(keep_vars=True).items()}, inputs)


class Net(nn.Module):
    """A bare model whose keys all begin with "module.", for that is what its only submodule is called."""

    def __init__(self, seed):
        super().__init__()
        self.module = Inner()
        generator = torch.Generator().manual_seed(seed)
        for _, value in sorted(self.state_dict().items()):
            if value.is_floating_point():
                value.normal_(generator=generator)

    def forward(self, inputs):
        return self.module(inputs)


def outputs(values, inputs):
    """The model's outputs, float64 of shape (batch, OUTPUTS), from its named values."""
    hidden = nn.functional.linear(
        inputs * values["module.scale"], values["module.module.weight"], values["module.module.bias"]
    )
    hidden = torch.tanh(hidden + values["module.offset"])
    return nn.functional.linear(hidden, values["module.head.weight"], values["module.head.bias"])


def batch(seed, rank, step):
    """(inputs, targets) of one rank in one step, float64 of shapes (BATCH, FEATURES) and (BATCH, OUTPUTS)."""
    generator = torch.Generator().manual_seed(seed + 1000 * rank + step)
    values = torch.randn(BATCH, FEATURES + OUTPUTS, dtype=torch.float64, generator=generator)
    return values[:, :FEATURES], values[:, FEATURES:]


def mean_squared_error(actual, targets):
    return (actual - targets).square().mean()


def group_of(name):
    """Which parameter group a name belongs to: weights decay, the rest does not."""
    return 0 if name.endswith("weight") else 1


class Trainee:
    """A model, bare or wrapped, with its optimizer. `handed` is what the student's functions get."""

    def __init__(self, rank, kind, wrapped, seed):
        self.rank, self.model = rank, Net(seed).to(rank.device)
        ids = [rank.device.index] if rank.device.type == "cuda" else None
        self.wrapped = wrapped
        self.handed = DistributedDataParallel(self.model, device_ids=ids) if wrapped else self.model
        named = list(self.model.named_parameters())
        groups = [
            {"params": [value for name, value in named if group_of(name) == number], **options}
            for number, options in enumerate(GROUPS[kind])
        ]
        optimizers = {"sgd": (torch.optim.SGD, {"momentum": MOMENTUM}), "adamw": (torch.optim.AdamW, ADAMW)}
        optimizer_class, options = optimizers[kind]
        self.optimizer = optimizer_class(groups, **options)

    def train(self, steps):
        """Steps of data-parallel training. A bare model's gradients are averaged by hand."""
        for step in steps:
            inputs, targets = (part.to(self.rank.device) for part in batch(self.rank.seed, self.rank.rank, step))
            self.optimizer.zero_grad()
            mean_squared_error(self.handed(inputs), targets).backward()
            if not self.wrapped:
                self.average()
            self.optimizer.step()
            for group in self.optimizer.param_groups:
                group["lr"] *= DECAY
        return self

    def average(self):
        trained = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for parameter, part in zip(trained, flat.split([value.numel() for value in trained]), strict=True):
            parameter.grad.copy_(part.view_as(parameter))

    def state(self):
        """Copies of all parameters and buffers, on the CPU."""
        return {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def save(self, path, epoch):
        return self.rank.attempt(self.rank.student.save_checkpoint, path, self.handed, self.optimizer, epoch)

    def load(self, path):
        return self.rank.attempt(self.rank.student.load_checkpoint, path, self.handed, self.optimizer)


def told(outcome):
    """An attempt as JSON. `told` is all that the error says: its own text, its notes and those of its causes."""
    words, error = [], outcome.error
    while error is not None:
        words += [str(error), *map(str, getattr(error, "__notes__", ()))]
        error = error.__cause__ or error.__context__
    return {**outcome.described(), "told": "\n".join(words)[:4000]}


def loaded(trainee, path):
    """One call of load_checkpoint: what it returned or raised, and the model's values and devices after it."""
    outcome = trainee.load(path)
    devices = sorted({str(value.device) for value in trainee.model.state_dict().values()})
    kind, value = type(outcome.value).__name__, outcome.value
    return {
        **told(outcome), "type": kind, "epoch": value if kind == "int" else None,
        "state": trainee.state(), "stayed": devices == [str(trainee.rank.device)],
    }  # fmt: skip


def content(path):
    """The file's bytes, or None where there is none."""
    path = Path(path)
    return path.read_bytes() if path.is_file() else None


def checkpoints(rank):
    """The folder for checkpoint files, shared by all ranks; it becomes the working directory."""
    folder = rank.shared / "checkpoints"
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    return folder


def agreed(succeeded):
    """Whether every rank succeeded."""
    votes = torch.tensor(float(succeeded))
    dist.all_reduce(votes, dist.ReduceOp.MIN)
    return bool(votes)


# Eyes and hands on the writer


class Announcer:
    """Calls `handler(what, path, source)` when this process opens a file to write to ("open") or renames one ("name").

    It must be there before the student's module is imported, for that may import torch.save itself.
    """

    def __init__(self):
        self.handler = None
        sys.addaudithook(self.hear)
        save = torch.save

        def announced_save(obj, f, *args, **kwargs):
            if isinstance(f, str | os.PathLike):
                self.announce("open", f)
            elif self.handler is not None:
                self.handler("write", None, None)
            return save(obj, f, *args, **kwargs)

        torch.save = torch.serialization.save = announced_save

    def hear(self, event, args):
        if self.handler is None:
            return
        if event == "open" and isinstance(args[0], str | bytes | os.PathLike) and writes(args[1], args[2]):
            self.announce("open", args[0])
        elif event in ("os.rename", "os.link", "os.symlink"):
            self.announce("name", args[1], args[0])

    def announce(self, what, path, source=None):
        if self.handler is not None:
            self.handler(what, real(path), real(source) if source is not None else None)

    @contextmanager
    def telling(self, handler):
        self.handler = handler
        try:
            yield
        finally:
            self.handler = None


def writes(mode, flags):
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def real(path):
    return os.path.realpath(os.fsdecode(path))


def note_writes(rank, noted):
    """A handler that notes the files that this rank writes in the shared folder or in its own."""
    folders = tuple(real(folder) + os.sep for folder in (rank.shared, rank.scratch))

    def note(what, path, source):
        if path is not None and path.startswith(folders):
            noted.append(os.path.basename(path))

    return note


def limit_files(size, deadly):
    """From now on writing past `size` bytes in a file fails with an OSError or, `deadly`, kills this process."""
    import resource  # where there is none, on Windows, the other cases still run

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if deadly else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def unlimit_files():
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


# Saving, loading, going on


def resume(rank):
    """Train, save over an older file, train on; load into fresh models, wrapped and bare, and train these on too.

    A single rank also loads a file that seems to come from a GPU.
    """
    announcer, noted = Announcer(), []
    folder = checkpoints(rank)
    paths = {"sgd": "sgd.pt", "adamw": folder / "adamw.pt"}
    for kind, epoch in epochs(rank.seed).items():
        other = Trainee(rank, kind, False, rank.seed + 1).train([0])
        trainee = Trainee(rank, kind, kind == "sgd", rank.seed).train(range(BEFORE))
        with announcer.telling(note_writes(rank, noted)):
            first = other.save(paths[kind], epoch + 1)
            saved = trainee.save(paths[kind], epoch)
        rank.record(f"{kind}_saved", saved.described() if first.error is None else first.described())
        if not (both_saved := agreed(first.error is None and saved.error is None)):
            break
        rank.record(f"{kind}_file", content(paths[kind]))
        rank.record(f"{kind}_trained_on", trainee.train(range(BEFORE, STEPS)).state())
        go_on(rank, kind, paths[kind])
    rank.record("writes", sorted(set(noted)))
    rank.record("files", sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))
    if both_saved and rank.world_size == 1:
        load_from_gpu(rank, paths["adamw"])


def epochs(seed):
    """The epoch saved with each kind of optimizer."""
    return {"sgd": 3 + seed % 1000, "adamw": 0}


def go_on(rank, kind, path):
    """Load into fresh models whose values differ from rank to rank; one of the optimizers has a history already."""
    for wrapped in (True, False):
        name = f"{kind}_{'wrapped' if wrapped else 'bare'}"
        fresh = Trainee(rank, kind, wrapped, rank.seed + 17 * (rank.rank + 1))
        if wrapped:
            fresh.train(range(1))
        outcome = loaded(fresh, path)
        rank.record(name, outcome)
        if agreed(not outcome["raised"]):
            rank.record(f"{name}_resumed", fresh.train(range(BEFORE, STEPS)).state())


def resize(rank):
    """Two ranks save together, the third alone. All three load both files, and save one that a single rank loads."""
    folder, me = checkpoints(rank), rank.rank
    members = [0, 1] if me < 2 else [2]
    join(rank, f"first-{members[0]}", members)
    trainee = Trainee(rank, "adamw", True, rank.seed + members[0]).train(range(BEFORE))
    rank.record("saved_apart", trainee.save(folder / f"from-{len(members)}.pt", 10 * len(members)).described())
    del trainee
    dist.destroy_process_group()
    join(rank, "second", [0, 1, 2])
    trainee = load_elsewhere(rank, folder / "from-1.pt", "three_from_one")
    trainee = load_elsewhere(rank, folder / "from-2.pt", "three_from_two")
    rank.record("saved_together", trainee.save(folder / "from-3.pt", 30).described())
    del trainee
    dist.barrier()
    dist.destroy_process_group()
    if me == 1:
        join(rank, "third", [1])
        load_elsewhere(rank, folder / "from-3.pt", "one_from_three")


def join(rank, name, members):
    """Join a default group of its own for `members`."""
    backend = "cpu:gloo,cuda:nccl" if rank.device.type == "cuda" else "gloo"
    store = dist.FileStore(str(rank.shared / name), len(members))
    dist.init_process_group(backend, store=store, rank=members.index(rank.rank), world_size=len(members))


def load_elsewhere(rank, path, name):
    """Load into a fresh model of this group, take one step, and record both states."""
    trainee = Trainee(rank, "adamw", True, rank.seed + 99 + rank.rank)
    outcome = loaded(trainee, path)
    rank.record(name, outcome)
    if agreed(not outcome["raised"]):
        rank.record(f"{name}_resumed", trainee.train([BEFORE]).state())
    return trainee


def load_from_gpu(rank, path):
    """Load a copy of the student's file that says its tensors lay on cuda:0. They are the same otherwise."""
    copy = path.with_name("gpu.pt")
    with suppress(Exception):  # what torch does not load in this way is no checkpoint, and is judged by its content
        as_if_from_gpu(torch.load(path, weights_only=True, map_location="cpu"), copy)
    fresh = Trainee(rank, "adamw", False, rank.seed + 5)
    outcome = loaded(fresh, copy)
    rank.record("from_gpu", outcome)
    if not outcome["raised"]:
        rank.record("from_gpu_resumed", fresh.train([BEFORE]).state())


def as_if_from_gpu(values, path):
    """torch.save with the location of rank 0's GPU on every tensor."""
    registry = torch.serialization._package_registry
    entry = (0, lambda storage: "cuda:0", lambda storage, location: None)
    registry.insert(0, entry)
    try:
        torch.save(values, path)
    finally:
        registry.remove(entry)


# Saving that is slow, fails, or is cut short


def slow(rank):
    """Save over an older file while rank 0's writing is held up until another rank returns, or all of them wait."""
    announcer, folder = Announcer(), checkpoints(rank)
    hurry()
    trainee = Trainee(rank, "sgd", True, rank.seed).train([0])
    rank.record("first", trainee.save(folder / FILE, 1).described())
    trainee.train([1])
    (rank.shared / f"pid{rank.rank}").write_text(str(os.getpid()))
    dist.barrier()
    with announcer.telling(hold_up(rank) if rank.rank == 0 else None):
        outcome = trainee.save(folder / FILE, 2)
        rank.record("file", content(folder / FILE))
        (rank.shared / f"returned{rank.rank}").mkdir()
    rank.record("saved", outcome.described())


def hurry():
    """Sleeping is no waiting for the writer: it ends at once."""
    sleep = time.sleep
    time.sleep = lambda seconds: sleep(min(seconds, 0.001))


def hold_up(rank):
    """A handler that keeps rank 0 from writing on until some rank has returned or all others have slept for a while.

    The state of their main threads is looked at, not the clock alone: a rank that is about to return but gets no
    processor is not asleep.
    """
    everyone = range(rank.world_size)
    pids = [int((rank.shared / f"pid{other}").read_text()) for other in everyone if other != rank.rank]
    pause = threading.Event()

    def hold(what, path, source):
        end, asleep = time.monotonic() + LIMIT, 0
        while asleep < PATIENCE and time.monotonic() < end:
            if any((rank.shared / f"returned{other}").exists() for other in everyone):
                return
            asleep = asleep + 1 if all(map(sleeps, pids)) else 0
            pause.wait(0.005)

    return hold


def sleeps(pid):
    """Whether the main thread of a process waits for something; where the system does not tell, it is taken to."""
    return condition(pid) not in ("R", "D")


def condition(pid):
    """The letter of a main thread's state as in /proc; "Z" where the process has gone, "S" where there is no /proc."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "Z"
    return "S"


def failing(rank):
    """Saves that must fail on rank 0, after one that works and before another one."""
    folder = checkpoints(rank)
    trainee = Trainee(rank, "sgd", True, rank.seed).train(range(1))
    rank.record("first", trainee.save(folder / FILE, 1).described())
    dist.barrier()
    rank.record("before", content(folder / FILE))
    trainee.train(range(1, 2))
    prepare_obstacles(rank, folder)
    targets = {"middle": FILE, "folder": f"note.txt/{FILE}", "target": "folder.pt", "state": FILE}
    for obstacle, target in targets.items():
        with disturbed(rank, obstacle, trainee, folder):
            outcome = trainee.save(folder / target, 2)
        rank.record(obstacle, {**outcome.described(), "file": content(folder / FILE)})
        dist.barrier()
    rank.record("last", trainee.save(folder / FILE, 3).described())
    rank.record("after", content(folder / FILE))


def prepare_obstacles(rank, folder):
    if rank.rank == 0:
        (folder / "note.txt").write_text("a file, not a folder")
        (folder / "folder.pt").mkdir()
        (folder / "folder.pt" / "note.txt").write_text("a folder that is not empty")
    dist.barrier()


class NoState(Exception):
    """What a state dict raises on rank 0."""


def no_state(*_):
    raise NoState("rank 0 has no state today")


@contextmanager
def disturbed(rank, obstacle, trainee, folder):
    """On rank 0 alone: no file grows beyond half a checkpoint, or there is no state dict to be had."""
    if rank.rank or obstacle not in ("middle", "state"):
        yield
    elif obstacle == "middle":
        limit_files(len(content(folder / FILE) or b"") // 2, deadly=False)
        yield
        unlimit_files()
    else:
        handles = [owner.register_state_dict_pre_hook(no_state) for owner in (trainee.model, trainee.optimizer)]
        yield
        for handle in handles:
            handle.remove()


def crash(rank):
    """Rank 0 dies while it saves over an older file, and rank 1 looks at what is left."""
    announcer, folder = Announcer(), checkpoints(rank)
    path = folder / FILE
    trainee = Trainee(rank, "sgd", True, rank.seed).train(range(1))
    rank.record("first", trainee.save(path, 1).described())
    (rank.shared / f"pid{rank.rank}").write_text(str(os.getpid()))
    dist.barrier()
    rank.record("before", content(path))
    trainee.train(range(1, 2))
    if rank.rank == 0:
        die_saving(rank, announcer, trainee, path)
    else:
        outlive(rank, trainee, path)


def die_saving(rank, announcer, trainee, path):
    with announcer.telling(die_at(real(path))):
        outcome = trainee.save(path, 2)
    unlimit_files()
    rank.record("survived", outcome.described())
    (rank.shared / "survived").touch()


def die_at(target):
    """A handler that lets the process die as soon as the target's content is touched, or just before a finished file
    gets its name. Another folder is another file system, from which nothing can be renamed to here."""

    def handle(what, path, source):
        if path != target:
            return
        if what == "open":
            limit_files(16, deadly=True)
        elif not source.startswith(os.path.dirname(target) + os.sep):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, path)
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    return handle


def outlive(rank, trainee, path):
    """Save with rank 0. A second thread looks at the file, for the first may wait for a dead rank forever."""
    watcher = threading.Thread(target=look_after, args=(rank, path), daemon=True)
    watcher.start()
    trainee.save(path, 2)
    watcher.join()


def look_after(rank, path):
    pid, end = int((rank.shared / "pid0").read_text()), time.monotonic() + LIMIT
    pause = threading.Event()
    while condition(pid) not in ("Z", "X") and not (rank.shared / "survived").exists() and time.monotonic() < end:
        pause.wait(0.002)
    rank.record("after", content(path))


# Files that are no checkpoints


class Trap:
    """An object whose unpickling makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def bad_files(rank):
    """Loads of one bad file after another, and then of a good one."""
    folder, traps = checkpoints(rank), rank.shared / "traps"
    trainee = Trainee(rank, "adamw", False, rank.seed).train(range(BEFORE))
    rank.record("saved", trainee.save(folder / FILE, 9).described())
    dist.barrier()
    if rank.rank == 0:
        traps.mkdir()
        make_broken(folder, content(folder / FILE), rank.seed)
        make_foreign(folder, traps)
    dist.barrier()
    fresh = Trainee(rank, "adamw", False, rank.seed + 3)
    warnings.simplefilter("ignore")  # what torch says about files of old versions
    for name in rank.parameters["files"]:
        rank.record(name, told(fresh.load(folder / f"{name}.pt")))
        dist.barrier()
    rank.record("sprung", sorted(path.name for path in traps.iterdir()))
    rank.record("good", told(fresh.load(folder / FILE)))


def make_broken(folder, whole, seed):
    """Files that were cut off, and files that torch never wrote. `missing.pt` is made by nobody."""
    parts = {"empty": b"", "half": whole[: len(whole) // 2], "nearly": whole[:-1], "text": b"epoch,loss\n1,0.5\n"}
    parts["noise"] = bytes(torch.randint(256, (5000,), generator=torch.Generator().manual_seed(seed)).tolist())
    for name, data in parts.items():
        (folder / f"{name}.pt").write_bytes(data)


def make_foreign(folder, traps):
    """Files of torch's that hold something else: no dict, no such keys, another model, code."""
    values = torch.load(folder / FILE, weights_only=True, map_location="cpu")
    torch.save(list(values.values()), folder / "a_list.pt")
    torch.save(torch.arange(5), folder / "a_tensor.pt")
    torch.save(nn.Linear(2, 2).state_dict(), folder / "a_state_dict.pt")
    for key in ("model", "optimizer", "epoch"):
        torch.save({name: value for name, value in values.items() if name != key}, folder / f"without_{key}.pt")
    torch.save({**values, "model": nn.Linear(2, 2).state_dict()}, folder / "another_model.pt")
    smaller = {name: value[..., :-1] if value.dim() else value for name, value in values["model"].items()}
    torch.save({**values, "model": smaller}, folder / "another_shape.pt")
    torch.save({**values, "epoch": Trap(traps / "zip")}, folder / "code_in_zip.pt")
    (folder / "code_in_pickle.pt").write_bytes(pickle.dumps({**values, "epoch": Trap(traps / "pickle")}))
    (folder / "a_folder.pt").mkdir()
