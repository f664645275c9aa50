"""Runs in every rank: trains a small model, saves and loads it with the student's functions, and disturbs the writer.

A rank's batches, and the values that its models begin with, are its own, from its secret: what another rank has saved
can be had from the file alone. Nothing here knows an expected value.
"""

import os
import pickle
import threading
import warnings
from contextlib import contextmanager, nullcontext, suppress

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear, mse_loss

from grader.kit import disturb, files, groups, meeting, processes, spies, values

FEATURES, HIDDEN, OUTPUTS, BALLAST, BATCH = 3, 4, 2, 4096, 5
BEFORE, STEPS = 2, 4
"""Training steps before the checkpoint, and in all."""
DECAY = 0.8
"""What the learning rates are multiplied by after each step, as a scheduler does."""
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.99), "eps": 1e-8}),
}
GROUPS = {
    "sgd": ({"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.05, "weight_decay": 0.0}),
    "adamw": ({"lr": 0.02, "weight_decay": 0.1}, {"lr": 0.01, "weight_decay": 0.0}),
}
LIMIT = 20.0
"""Seconds after which a wait for another rank is given up; nothing is judged by it."""
LOOKS = 30
"""Looks in a row that must find all other ranks asleep before a slow writer goes on."""
FILE, KEYS = "checkpoint.pt", ("model", "optimizer", "epoch")


# The model and its training


class Layers(nn.Module):
    """Two layers, one of which is called `module`, a frozen parameter, and buffers of several dtypes. `forwards` counts
    the forward passes in training mode, as BatchNorm does."""

    def __init__(self):
        super().__init__()
        self.module = nn.Linear(FEATURES, HIDDEN, dtype=torch.float64)
        self.head = nn.Linear(HIDDEN, OUTPUTS, dtype=torch.float64)
        self.offset = nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64), requires_grad=False)
        self.register_buffer("scale", torch.ones(FEATURES, dtype=torch.float64))
        self.register_buffer("ballast", torch.zeros(BALLAST, dtype=torch.float32))
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))


class Net(spies.FunctionalModel):
    """A bare model whose keys all begin with "module.", for that is what its only submodule is called. Its values are
    those of a place (see grader.kit.values)."""

    def __init__(self, secret, *place):
        super().__init__()
        self.module = Layers()
        for name, value in self.tensors().items():
            if value.is_floating_point():
                value.data = values.normal(value.shape, secret, "net", *place, name, dtype=value.dtype)

    @staticmethod
    def compute(tensors, inputs):
        """The outputs, float64 of shape (batch, OUTPUTS)."""
        own = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        hidden = linear(inputs * own["scale"], own["module.weight"], own["module.bias"])
        return linear(torch.tanh(hidden + own["offset"]), own["head.weight"], own["head.bias"])

    def forward(self, inputs):
        if self.training:
            self.module.forwards += 1
        return super().forward(inputs)


def batch(secret, step):
    """(inputs, targets) of one rank in one step, float64 of shapes (BATCH, FEATURES) and (BATCH, OUTPUTS)."""
    return values.normal((BATCH, FEATURES + OUTPUTS), secret, "batch", step).split([FEATURES, OUTPUTS], dim=1)


def group_of(name):
    """Which parameter group a name belongs to: weights decay, the rest does not."""
    return 0 if name.endswith("weight") else 1


class Trainee:
    """A model from a place, bare or wrapped, with its optimizer. `handed` is what the student's functions get. All
    ranks of the group begin with rank 0's values; a bare model that is to be `own` with this rank's."""

    def __init__(self, rank, kind, *place, wrapped, own=False):
        self.rank, self.model, self.wrapped = rank, Net(rank.secret, *place).to(rank.device), wrapped
        self.handed = groups.wrapped(rank, self.model) if wrapped else self.model
        if not wrapped and not own:
            groups.share_state(self.model)
        parameters = [{"params": [], **options} for options in GROUPS[kind]]
        for name, parameter in self.model.named_parameters():
            parameters[group_of(name)]["params"].append(parameter)
        optimizer_class, options = OPTIMIZERS[kind]
        self.optimizer = optimizer_class(parameters, **options)

    def train(self, steps):
        """Steps of data-parallel training. A bare model's gradients are averaged by hand."""
        for step in steps:
            inputs, targets = (part.to(self.rank.device) for part in batch(self.rank.secret, step))
            self.optimizer.zero_grad()
            mse_loss(self.handed(inputs), targets).backward()
            if not self.wrapped:
                groups.average_gradients(self.model)
            self.optimizer.step()
            for group in self.optimizer.param_groups:
                group["lr"] *= DECAY
        return self

    def save(self, path, epoch):
        return self.rank.attempt(self.rank.student.save_checkpoint, path, self.handed, self.optimizer, epoch)

    def load(self, path):
        return self.rank.attempt(self.rank.student.load_checkpoint, path, self.handed, self.optimizer)

    def load_and_train(self, path, name, steps):
        """One call of load_checkpoint: what it returned or raised, and the model's values and device after it. Where
        it worked on all ranks, also the values after more steps. Every rank of the group must call it."""
        outcome = self.load(path)
        devices = {str(value.device) for value in self.model.state_dict().values()}
        loaded = {
            **outcome.described(),
            "returned": values.short(outcome.value),
            "epoch": outcome.value if type(outcome.value) is int else None,
            "state": self.model.state(),
            "stayed": devices == {str(self.rank.device)},
        }
        self.rank.record(name, loaded)
        if groups.all_agree(outcome.error is None):
            self.rank.record(f"{name}_resumed", self.train(steps).model.state())


# Saving, loading, going on


def resume(rank):
    """Train, save over an older file, train on; load into fresh models, wrapped and bare, and train these on too.

    A single rank also loads a file that seems to come from a GPU.
    """
    spy, noted, folder = disturb.WriteSpy(), [], files.shared_folder(rank, "checkpoints")
    paths = {"sgd": "sgd.pt", "adamw": folder / "adamw.pt"}
    for kind, epoch in epochs(rank.seed).items():
        other = Trainee(rank, kind, "other", wrapped=False).train([0])
        trainee = Trainee(rank, kind, wrapped=kind == "sgd").train(range(BEFORE))
        with spy.telling(disturb.note_writes(noted, rank.shared, rank.scratch)):
            first = other.save(paths[kind], epoch + 1)
            saved = trainee.save(paths[kind], epoch)
        rank.record(f"{kind}_saved", (first if first.error else saved).described())
        if not (both_saved := groups.all_agree(not first.error and not saved.error)):
            break
        rank.record(f"{kind}_file", files.content(paths[kind]))
        rank.record(f"{kind}_trained_on", trainee.train(range(BEFORE, STEPS)).model.state())
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
        fresh = Trainee(rank, kind, "fresh", wrapped=wrapped, own=True).train([0] if wrapped else [])
        fresh.load_and_train(path, f"{kind}_{'wrapped' if wrapped else 'bare'}", range(BEFORE, STEPS))


def load_from_gpu(rank, path):
    """Load a copy of the student's file that says its tensors lay on cuda:0. They are the same otherwise."""
    copy = path.with_name("gpu.pt")
    with suppress(Exception):  # what torch does not load in this way is no checkpoint, and is judged by its content
        files.save_as_from("cuda:0", torch.load(path, weights_only=True, map_location="cpu"), copy)
    Trainee(rank, "adamw", "fresh", wrapped=False).load_and_train(copy, "from_gpu", [BEFORE])


def resize(rank):
    """Two ranks save together, the third alone. All three load both files, and save one that a single rank loads."""
    folder, me = files.shared_folder(rank, "checkpoints"), rank.rank
    members = [0, 1] if me < 2 else [2]
    groups.join(rank, f"first-{members[0]}", members)
    trainee = Trainee(rank, "adamw", len(members), wrapped=True).train(range(BEFORE))
    rank.record("saved_apart", trainee.save(folder / f"from-{len(members)}.pt", 10 * len(members)).described())
    del trainee
    dist.destroy_process_group()
    groups.join(rank, "second", [0, 1, 2])
    load_elsewhere(rank, folder / "from-1.pt", "three_from_one")
    trainee = load_elsewhere(rank, folder / "from-2.pt", "three_from_two")
    rank.record("saved_together", trainee.save(folder / "from-3.pt", 30).described())
    del trainee
    dist.barrier()
    dist.destroy_process_group()
    if me == 1:
        groups.join(rank, "third", [1])
        load_elsewhere(rank, folder / "from-3.pt", "one_from_three")


def load_elsewhere(rank, path, name):
    """Load into a fresh model of this group, and take one step."""
    trainee = Trainee(rank, "adamw", "fresh", wrapped=True)
    trainee.load_and_train(path, name, [BEFORE])
    return trainee


# Saving that is slow, fails, or is cut short


def slow(rank):
    """Save over an older file while rank 0's writing is held up until another rank returns, or all of them wait."""
    spy, path = disturb.WriteSpy(), files.shared_folder(rank, "checkpoints") / FILE
    disturb.shorten_sleeps()
    trainee = Trainee(rank, "sgd", wrapped=True).train([0])
    rank.record("first", trainee.save(path, 1).described())
    trainee.train([1])
    pids = meeting.tell_all(rank, "pids", os.getpid())
    with spy.telling(hold_up(rank, pids)) if rank.rank == 0 else nullcontext():
        outcome = trainee.save(path, 2)
    rank.record("file", files.content(path))
    (rank.shared / f"returned{rank.rank}").touch()
    rank.record("saved", outcome.described())


def hold_up(rank, pids):
    """A handler that keeps rank 0 from writing on until some rank has returned or all others have slept for a while."""
    returned = [rank.shared / f"returned{other}" for other in pids]

    def hold(_):
        asleep = processes.asleep_for(LOOKS, (pid for other, pid in pids.items() if other != rank.rank))
        meeting.wait_until(lambda: any(path.exists() for path in returned) or asleep(), LIMIT)

    return hold


def failing(rank):
    """Saves that must fail on rank 0, after one that works and before another one."""
    folder = files.shared_folder(rank, "checkpoints")
    trainee = Trainee(rank, "sgd", wrapped=True).train([0])
    rank.record("first", trainee.save(folder / FILE, 1).described())
    dist.barrier()
    rank.record("before", files.content(folder / FILE))
    trainee.train([1])
    if rank.rank == 0:
        (folder / "note.txt").write_text("a file, not a folder")
        (folder / "folder.pt").mkdir()
        (folder / "folder.pt" / "note.txt").write_text("a folder that is not empty")
    dist.barrier()
    targets = {"middle": FILE, "folder": f"note.txt/{FILE}", "target": "folder.pt", "state": FILE}
    for obstacle, target in targets.items():
        with disturbed(rank, obstacle, trainee, folder / FILE):
            outcome = trainee.save(folder / target, 2)
        rank.record(obstacle, {**outcome.described(), "file": files.content(folder / FILE)})
        dist.barrier()
    rank.record("last", trainee.save(folder / FILE, 3).described())
    rank.record("after", files.content(folder / FILE))


class NoState(Exception):
    """What a state dict raises on rank 0."""


def no_state(*_):
    raise NoState("rank 0 has no state today")


@contextmanager
def disturbed(rank, obstacle, trainee, path):
    """On rank 0 alone: no file grows beyond half a checkpoint, or there is no state dict to be had."""
    if (rank.rank, obstacle) == (0, "middle"):
        disturb.limit_files(len(files.content(path) or b"") // 2)
        yield
        disturb.limit_files(None)
    elif (rank.rank, obstacle) == (0, "state"):
        handles = [owner.register_state_dict_pre_hook(no_state) for owner in (trainee.model, trainee.optimizer)]
        yield
        for handle in handles:
            handle.remove()
    else:
        yield


def crash(rank):
    """Rank 0 dies while it saves over an older file, and rank 1 looks at what is left."""
    spy, path = disturb.WriteSpy(), files.shared_folder(rank, "checkpoints") / FILE
    trainee = Trainee(rank, "sgd", wrapped=True).train([0])
    rank.record("first", trainee.save(path, 1).described())
    pids = meeting.tell_all(rank, "pids", os.getpid())
    rank.record("before", files.content(path))
    trainee.train([1])
    if rank.rank == 0:
        with spy.telling(disturb.die_at(path)):
            outcome = trainee.save(path, 2)
        disturb.limit_files(None)
        rank.record("survived", outcome.described())
        (rank.shared / "survived").touch()
    else:
        outlive(rank, pids[0], trainee, path)


def outlive(rank, pid, trainee, path):
    """Save with rank 0. A second thread looks at the file when that one, of this pid, has died or survived: the first
    thread may wait for a dead rank forever."""

    def look_after():
        meeting.wait_until(lambda: processes.has_ended(pid) or (rank.shared / "survived").exists(), LIMIT)
        rank.record("after", files.content(path))

    watcher = threading.Thread(target=look_after, daemon=True)
    watcher.start()
    trainee.save(path, 2)
    watcher.join()


# Files that are no checkpoints


def bad_files(rank):
    """Loads of one bad file after another, and then of a good one."""
    folder, traps = files.shared_folder(rank, "checkpoints"), rank.shared / "traps"
    trainee = Trainee(rank, "adamw", wrapped=False).train(range(BEFORE))
    rank.record("saved", trainee.save(folder / FILE, 9).described())
    dist.barrier()
    if rank.rank == 0:
        traps.mkdir()
        make_bad_files(rank, folder, traps)
    dist.barrier()
    fresh = Trainee(rank, "adamw", "fresh", wrapped=False, own=True)
    warnings.simplefilter("ignore")  # what torch says about files of old versions
    for name in rank.parameters["files"]:
        rank.record(name, fresh.load(folder / f"{name}.pt").described())
        dist.barrier()
    rank.record("sprung", sorted(path.name for path in traps.iterdir()))
    rank.record("good", fresh.load(folder / FILE).described())


def make_bad_files(rank, folder, traps):
    """Files that cannot be read, and files of torch's that hold something else: no dict, no such keys, another model,
    code. `missing.pt` is made by nobody."""
    for name, data in files.unreadable(files.content(folder / FILE), rank.seed).items():
        (folder / f"{name}.pt").write_bytes(data)
    whole = torch.load(folder / FILE, weights_only=True, map_location="cpu")
    for name, content in foreign(whole, traps).items():
        torch.save(content, folder / f"{name}.pt")
    (folder / "code_in_pickle.pt").write_bytes(pickle.dumps({**whole, "epoch": files.Trap(traps / "pickle")}))
    (folder / "a_folder.pt").mkdir()


def foreign(whole, traps):
    """By name: what is no checkpoint, made from a whole one."""
    other, model = nn.Linear(2, 2).state_dict(), whole["model"]
    smaller = {name: value[..., :-1] if value.dim() else value for name, value in model.items()}
    return {
        "a_list": list(whole.values()),
        "a_tensor": torch.arange(5),
        "a_state_dict": other,
        **{f"without_{key}": {name: whole[name] for name in whole if name != key} for key in KEYS},
        "another_model": {**whole, "model": other},
        "another_shape": {**whole, "model": smaller},
        "code_in_zip": {**whole, "epoch": files.Trap(traps / "zip")},
    }
