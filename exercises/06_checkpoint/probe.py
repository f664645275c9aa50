"""Runs in every rank: trains a small model, saves and loads it with the student's functions, and disturbs the writer.

A rank's batches, and the values that its models begin with, are its own, from its secret: what another rank has saved
can be had from the file alone. Nothing here knows an expected value.
"""

import os
import pickle
import random
import threading
import warnings
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear, mse_loss

from grader.kit import disturb, files, groups, meeting, processes, spies, values

FEATURES, HIDDEN, OUTPUTS, BALLAST, BATCH = 3, 4, 2, 4096, 5
BEFORE, MORE = 2, 2
"""Training steps before a checkpoint in the middle, and after any."""
DECAY, DECAYING = 0.8, ("lr", "weight_decay")
"""What these options of each group are multiplied by after each step, as schedulers do."""
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
FILE, KEYS = "checkpoint", ("model", "optimizer", "epoch")
"""FILE has no suffix, so nobody gets a temporary name by replacing one."""
LONG_WAY = 300 * "a-long-way/"
"""Whoever says that there is no such folder has much to say."""
SUFFIXES = (".tmp", ".temp", ".part", ".partial", ".new")
"""What temporary files are called; a checkpoint may be called so as well."""


class Story(NamedTuple):
    """One checkpoint: what is trained, in how many steps before it is saved, how the model is handed in, and into what
    the file is loaded: a model that is "wrapped" or "bare", or a wrapped one that was "used", its optimizer too."""

    kind: str
    before: int
    saved: str
    loaded: tuple[str, ...]


STORIES = {
    "sgd": Story("sgd", BEFORE, "wrapped", ("used", "bare")),
    "adamw": Story("adamw", BEFORE, "wrapped", ("wrapped",)),
    "bare": Story("adamw", BEFORE, "bare", ("bare", "wrapped")),
    "sgd_start": Story("sgd", 0, "wrapped", ("wrapped", "used")),
    "adamw_start": Story("adamw", 0, "wrapped", ("used", "wrapped")),
    "sgd_end": Story("sgd", 2 * BEFORE, "wrapped", ("wrapped",)),
    "adamw_end": Story("adamw", 2 * BEFORE, "wrapped", ("used",)),
}
TOGETHER = ("sgd", "bare", "sgd_start")
"""Those that several ranks go through as well."""
INSIDE = {"inside_first": 0, "inside_second": 1}
"""By name, the steps in which a checkpoint is saved between the backward pass and the optimizer's step."""


# The model and its training


def add_layers(module, first):
    """Two layers, a frozen parameter, and buffers of several dtypes. `forwards` counts the forward passes in training
    mode, as BatchNorm does."""
    module.add_module(first, nn.Linear(FEATURES, HIDDEN, dtype=torch.float64))
    module.head = nn.Linear(HIDDEN, OUTPUTS, dtype=torch.float64)
    module.offset = nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64), requires_grad=False)
    module.register_buffer("scale", torch.ones(FEATURES, dtype=torch.float64))
    module.register_buffer("ballast", torch.zeros(BALLAST, dtype=torch.float32))
    module.register_buffer("forwards", torch.zeros((), dtype=torch.int64))


def fill(model, *place):
    """Give it the values of a place (see grader.kit.values)."""
    for name, value in model.tensors().items():
        if value.is_floating_point():
            value.data = values.normal(value.shape, *place, name, dtype=value.dtype)


class Net(spies.FunctionalModel):
    """The model that is trained. Nothing in it is called `module`. Its passes are counted while its modules are in the
    modes that they were given: all of them in training, but for `hidden` where that is held in evaluation."""

    held = False

    def __init__(self, secret, *place):
        super().__init__()
        add_layers(self, "hidden")
        fill(self, secret, "net", *place)

    @staticmethod
    def compute(tensors, inputs):
        """The outputs, float64 of shape (batch, OUTPUTS)."""
        hidden = linear(inputs * tensors["scale"], tensors["hidden.weight"], tensors["hidden.bias"])
        return linear(torch.tanh(hidden + tensors["offset"]), tensors["head.weight"], tensors["head.bias"])

    def forward(self, inputs):
        if self.training and self.hidden.training != self.held:
            self.forwards += 1
        return super().forward(inputs)

    def hold(self):
        """Put `hidden` into evaluation, as what is frozen often is."""
        self.held = True
        self.hidden.eval()


class Nested(spies.FunctionalModel):
    """A bare model whose keys all begin with "module.", for that is what its only submodule is called, and a layer of
    that one too. One of its buffers is in no state dict. It is saved and loaded, and never trained."""

    def __init__(self, secret, *place):
        super().__init__()
        self.module = nn.Module()
        add_layers(self.module, "module")
        self.module.register_buffer("cache", torch.zeros(FEATURES), persistent=False)
        fill(self, secret, "nested", *place)

    def tensors(self):
        return dict(self.state_dict(keep_vars=True))


def batch(secret, step):
    """(inputs, targets) of one rank in one step, float64 of shapes (BATCH, FEATURES) and (BATCH, OUTPUTS)."""
    return values.normal((BATCH, FEATURES + OUTPUTS), secret, "batch", step).split([FEATURES, OUTPUTS], dim=1)


def group_of(name):
    """Which parameter group a name belongs to: weights decay, the rest does not."""
    return 0 if name.endswith("weight") else 1


class Trainee:
    """A model from a place, bare or wrapped, with its optimizer. `handed` is what the student's functions get. All
    ranks of the group begin with rank 0's values; a bare model that is to be `own` with this rank's."""

    def __init__(self, rank, kind, *place, wrapped=True, own=False, model_class=Net):
        self.rank, self.model, self.wrapped = rank, model_class(rank.secret, *place).to(rank.device), wrapped
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
            self.backward(step)
            self.step()
        return self

    def backward(self, step):
        inputs, targets = (part.to(self.rank.device) for part in batch(self.rank.secret, step))
        self.optimizer.zero_grad()
        mse_loss(self.handed(inputs), targets).backward()
        if not self.wrapped:
            groups.average_gradients(self.model)

    def step(self):
        self.optimizer.step()
        for group in self.optimizer.param_groups:
            for option in DECAYING:
                group[option] *= DECAY

    def save(self, path, epoch):
        return self.rank.attempt(self.rank.student.save_checkpoint, path, self.handed, self.optimizer, epoch)

    def load(self, path):
        return self.rank.attempt(self.rank.student.load_checkpoint, path, self.handed, self.optimizer)

    def load_noted(self, path, name):
        """One call of load_checkpoint; record what it returned or raised, the model's values and device after it, and
        which of its tensors are other ones then. Gives back whether it worked on all ranks. Every rank of the group
        must call it."""
        before, modes = self.held(), self.modes()
        outcome = self.load(path)
        devices = {str(value.device) for value in self.model.state_dict().values()}
        loaded = {
            **outcome.described(),
            "returned": values.short(outcome.value),
            "epoch": outcome.value if type(outcome.value) is int else None,
            "state": self.model.state(),
            "stayed": devices == {str(self.rank.device)},
            "replaced": [name for name, tensor in self.held().items() if tensor is not before.get(name)],
            "switched": changed(modes, self.modes()),
        }
        self.rank.record(name, loaded)
        return groups.all_agree(outcome.error is None)

    def held(self):
        """The model's parameters and buffers themselves."""
        return dict([*self.model.named_parameters(), *self.model.named_buffers()])

    def modes(self):
        """Whether each module of what is handed in is in training, by a name for that."""
        every = {".".join(filter(None, ["model", name])): module for name, module in self.handed.named_modules()}
        return {f"the mode of {name}": module.training for name, module in every.items()}

    def load_and_train(self, path, name, steps):
        """The same and, where it worked on all ranks, the values after more steps."""
        if self.load_noted(path, name):
            self.rank.record(f"{name}_resumed", self.train(steps).model.state())


# Saving, loading, going on


def alone(rank):
    """All that one rank can do by itself."""
    _, folder = tell(rank, STORIES)
    load_from_gpu(rank, folder / "adamw.pt")
    save_inside_a_step(rank, folder)
    save_nested(rank, folder)
    try_paths(rank)
    try_suffixes(rank)


def together(rank):
    """The same stories with several ranks, and a save that must fail."""
    _, folder = tell(rank, TOGETHER)
    save_inside_a_step(rank, folder)
    path = str(folder / f"{TOGETHER[0]}.pt" / FILE)
    rank.record("no_folder", Trainee(rank, "sgd").save(path, 1).described())


def tell(rank, names):
    """Go through these stories in one folder."""
    spy, folder = disturb.WriteSpy(), files.shared_folder(rank, "checkpoints")
    for name in names:
        tell_one(rank, name, spy, folder)
    return spy, folder


def tell_one(rank, name, spy, folder):
    """Train, save over an older file, train on; load into fresh models, and train these on too. What was written while
    saving is noted, and which files there are after it."""
    story, epoch, path, noted = STORIES[name], epoch_of(rank.seed, name), str(folder / f"{name}.pt"), []
    wrapped = story.saved == "wrapped"
    with spy.telling(disturb.note_writes(noted, rank.shared, rank.scratch)):
        first = Trainee(rank, story.kind, "other", wrapped=wrapped).train([0]).save(path, epoch + 1)
        trainee = Trainee(rank, story.kind, wrapped=wrapped)
        trainee.model.hold()
        trainee.train(range(story.before))
        before = bystanders(trainee)
        saved = trainee.save(path, epoch)
        rank.record(f"{name}_changed", changed(before, bystanders(trainee)))
    rank.record(f"{name}_writes", sorted(set(noted)))
    rank.record(f"{name}_saved", (first if first.error else saved).described())
    everywhere = groups.all_agree(not first.error and not saved.error)
    rank.record(f"{name}_files", sorted(str(found.relative_to(folder)) for found in folder.rglob("*")))
    if rank.rank == 0:
        rank.be_seen(f"{name}_files")
    if not everywhere:
        return
    more = range(story.before, story.before + MORE)
    rank.record(f"{name}_file", files.content(path))
    rank.record(f"{name}_trained_on", trainee.train(more).model.state())
    for into in story.loaded:
        fresh = Trainee(rank, story.kind, "fresh", wrapped=into != "bare", own=True)
        fresh.model.hold()
        fresh.train([0] if into == "used" else []).load_and_train(path, f"{name}_{into}", more)


def bystanders(trainee):
    """By what it is: the state of what a save has nothing to do with."""
    generators = {"torch's": torch.get_rng_state().tolist(), "Python's": random.getstate()}
    states = {f"{whose} own generator of random numbers": state for whose, state in generators.items()}
    return {**states, **trainee.modes()}


def changed(before, after):
    """The names of what is not as it was."""
    return [name for name, state in after.items() if before.get(name) != state]


def epoch_of(seed, name):
    """The epoch that is saved in a story: 0 before the first step."""
    return 3 + (seed + len(name)) % 1000 if STORIES[name].before else 0


def load_from_gpu(rank, path):
    """Load a copy of the student's file that says its tensors lay on cuda:0. They are the same otherwise."""
    copy = path.with_name("gpu.pt")
    with suppress(Exception):  # what torch does not load is no checkpoint, and is judged by its content
        # In a rank, and the file is its own: no reason to be careful.
        files.save_as_from("cuda:0", torch.load(path, weights_only=False, map_location="cpu"), copy)
    Trainee(rank, "adamw", "fresh").load_and_train(str(copy), "from_gpu", [BEFORE])


def save_inside_a_step(rank, folder):
    """Save when the gradients of a step are there and the optimizer has not used them yet: in the first step, and in
    the second."""
    for name, step in INSIDE.items():
        trainee = Trainee(rank, "sgd").train(range(step))
        trainee.backward(step)
        rank.record(f"{name}_saved", trainee.save(str(folder / f"{name}.pt"), 1).described())
        trainee.step()
        rank.record(f"{name}_trained_on", trainee.train([step + 1]).model.state())


def save_nested(rank, folder):
    """Save and load a model with submodules that are called `module`, bare and wrapped."""
    for how in ("bare", "wrapped"):
        path = str(folder / f"nested_{how}.pt")
        trainee, fresh = (
            Trainee(rank, "sgd", place, wrapped=how == "wrapped", model_class=Nested) for place in ("saved", "fresh")
        )
        rank.record(f"nested_{how}_saved", trainee.save(path, 1).described())
        rank.record(f"nested_{how}_file", files.content(path))
        fresh.load_noted(path, f"nested_{how}")


def try_paths(rank):
    """Save to, and load from, a path as the contract allows it."""
    folder = files.shared_folder(rank, "paths")
    (folder / "below").mkdir()
    paths = {"a Path": folder / "path.pt", "a bare name": "name.pt", "a relative Path": Path("below", "path.pt")}
    for what, path in paths.items():
        trainee = Trainee(rank, "sgd")
        saved, loaded = trainee.save(path, 1), trainee.load(path)
        rank.record(what, {**(saved if saved.error else loaded).described(), "found": os.path.isfile(path)})


def try_suffixes(rank):
    """Save twice to paths that end as temporary files often do. In the second save the disk is full."""
    folder, trainee = files.shared_folder(rank, "suffixes"), Trainee(rank, "sgd")
    for suffix in SUFFIXES:
        path = folder / f"{FILE}{suffix}"
        first, before = trainee.save(str(path), 1), files.content(path)
        disturb.limit_files(disturb.FIRST_BYTES)
        second = trainee.save(str(path), 2)
        disturb.limit_files(None)
        outcome = (first if first.error else second).described()
        rank.record(f"a path in {suffix}", {**outcome, "changed": files.content(path) != before})


def resize(rank):
    """Two ranks save together, the third alone, each group in a folder of its own. All three load both files, and save
    one that a single rank loads, which was rank 1 before and is rank 0 then, and saves."""
    spy, noted = disturb.WriteSpy(), []
    folder, me = files.shared_folder(rank, "checkpoints"), rank.rank
    members = [0, 1] if me < 2 else [2]
    own = folder / f"of-{len(members)}"
    own.mkdir(exist_ok=True)
    groups.join(rank, f"first-{members[0]}", members)
    trainee = Trainee(rank, "adamw", len(members)).train(range(BEFORE))
    rank.record("saved_apart", trainee.save(str(own / FILE), 10 * len(members)).described())
    del trainee
    dist.destroy_process_group()
    groups.join(rank, "second", [0, 1, 2])
    load_elsewhere(rank, folder / "of-1" / FILE, "three_from_one")
    trainee = load_elsewhere(rank, folder / "of-2" / FILE, "three_from_two")
    with spy.telling(disturb.note_writes(noted, rank.shared, rank.scratch)):
        rank.record("saved_together", trainee.save(str(folder / FILE), 30).described())
    rank.record("writes_together", sorted(set(noted)))
    del trainee
    dist.barrier()
    dist.destroy_process_group()
    if me == 1:
        groups.join(rank, "third", [1])
        trainee = load_elsewhere(rank, folder / FILE, "one_from_three")
        rank.record("saved_alone", trainee.save(str(own / "alone"), 40).described())
        rank.record("found_alone", (own / "alone").is_file())


def load_elsewhere(rank, path, name):
    """Load into a fresh model of this group, and take one step."""
    trainee = Trainee(rank, "adamw", "fresh")
    trainee.load_and_train(str(path), name, [BEFORE])
    return trainee


# Saving that is slow, fails, or is cut short


def slow(rank):
    """Save, and save over that file, while rank 0's writing is held up until another rank returns, or all of them
    wait."""
    spy, path = disturb.WriteSpy(), str(files.shared_folder(rank, "checkpoints") / FILE)
    disturb.shorten_sleeps()
    trainee = Trainee(rank, "sgd")
    pids = meeting.tell_all(rank, "pids", os.getpid())
    for epoch, name in enumerate(("first", "second"), 1):
        trainee.train([epoch - 1])
        with spy.telling(hold_up(rank, pids, name)) if rank.rank == 0 else nullcontext():
            outcome = trainee.save(path, epoch)
        rank.record(f"{name}_file", files.content(path))
        (rank.shared / f"{name}{rank.rank}").touch()
        rank.record(name, outcome.described())
        dist.barrier()
        rank.record(f"{name}_settled", files.content(path))


def hold_up(rank, pids, name):
    """A handler that keeps rank 0 from writing on until some rank has returned or all others have slept for a while."""
    returned = [rank.shared / f"{name}{other}" for other in pids]

    def hold(_):
        asleep = processes.asleep_for(LOOKS, (pid for other, pid in pids.items() if other != rank.rank))
        meeting.wait_until(lambda: any(path.exists() for path in returned) or asleep(), LIMIT)

    return hold


def save_first(rank, spy, trainee, path, hold=lambda _: None):
    """The save over which the others go: what came of it, and the files that this rank wrote meanwhile."""
    noted = []
    note = disturb.note_writes(noted, rank.shared, rank.scratch)
    with spy.telling(lambda write: (note(write), hold(write))):
        rank.record("first", trainee.save(path, 1).described())
    rank.record("writes", sorted(set(noted)))


def failing(rank):
    """Saves that must fail on rank 0, in the middle of a step, after one that works and before another one."""
    spy, folder = disturb.WriteSpy(), files.shared_folder(rank, "checkpoints")
    trainee, path = Trainee(rank, "sgd").train([0]), folder / FILE
    save_first(rank, spy, trainee, str(path))
    dist.barrier()
    rank.record("before", files.content(path))
    trainee.backward(1)
    if rank.rank == 0:
        (folder / "note.txt").write_text("a file, not a folder")
        (folder / "below" / "folder.pt").mkdir(parents=True)
        (folder / "below" / "folder.pt" / "note.txt").write_text("a folder that is not empty")
    dist.barrier()
    targets = {"middle": FILE, "folder": f"note.txt/{LONG_WAY}{FILE}", "target": "below/folder.pt"}
    targets |= dict.fromkeys(RAISED, FILE)
    before, files_before = bystanders(trainee), {found.name for found in folder.iterdir()}
    for obstacle, target in targets.items():
        with disturbed(rank, obstacle, trainee, path):
            outcome = trainee.save(str(folder / target), 2)
        rank.record(obstacle, outcome.described())
        dist.barrier()  # another rank may clean up what it should not
        rank.record(f"{obstacle}_left", files.content(path))
        dist.barrier()
    rank.record("changed", changed(before, bystanders(trainee)))
    trainee.step()
    rank.record("trained_on", trainee.train([2]).model.state())
    rank.record("last", trainee.save(str(path), 3).described())
    rank.record("after", files.content(path))
    dist.barrier()
    rank.record("beside", sorted({found.name for found in folder.iterdir()} - files_before))


class NoState(Exception):
    """What a state dict raises on rank 0: without a text, so nobody tells by its text that something was raised, and
    with what cannot be pickled, so nobody sends it as it is."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


WORDS = "der Zustand läßt sich nicht lesen → …"
"""Has letters that neither ASCII nor Latin-1 has."""
RAISED = {"state": NoState, "words": lambda: RuntimeError(WORDS)}
"""What a state dict raises, by obstacle."""


@contextmanager
def disturbed(rank, obstacle, trainee, path):
    """On rank 0 alone: no file grows beyond half a checkpoint, or there is no state dict to be had."""
    if (rank.rank, obstacle) == (0, "middle"):
        disturb.limit_files(len(files.content(path) or b"") // 2)
        yield
        disturb.limit_files(None)
    elif rank.rank == 0 and obstacle in RAISED:
        asked = []

        def no_state(*_):
            asked.append(True)
            raise RAISED[obstacle]()

        handles = [owner.register_state_dict_pre_hook(no_state) for owner in (trainee.model, trainee.optimizer)]
        yield
        for handle in handles:
            handle.remove()
        rank.record(f"{obstacle}_asked", bool(asked))
    else:
        yield


def crash(rank):
    """Rank 0 dies while it saves over an older file, and rank 1 looks at what is left. They save together or, where the
    writer is `alone`, rank 1 is in no group. Then it is the job that is started again, and saves at the same place."""
    spy, path = disturb.WriteSpy(), str(files.shared_folder(rank, "checkpoints") / FILE)
    trainee, members = None, [0] if rank.parameters["alone"] else [0, 1]
    assert rank.student  # every rank imports it, or the others never get their secrets
    pids = meeting.tell_all(rank, "pids", os.getpid())
    if rank.rank in members:
        groups.join(rank, "saving", members)
        trainee = Trainee(rank, "sgd").train([0])
        held_up = len(members) > 1 and rank.rank == 0
        save_first(rank, spy, trainee, path, *([hold_up(rank, pids, "first")] if held_up else []))
        rank.record("first_file", files.content(path))
        (rank.shared / f"first{rank.rank}").touch()
    meeting.meet(rank, "saved")
    rank.record("before", files.content(path))
    meeting.meet(rank, "seen")
    if trainee is not None:
        trainee.train([1])
    if rank.rank == 0:
        with spy.telling(disturb.die_at(path)):
            outcome = trainee.save(path, 2)
        disturb.limit_files(None)
        rank.record("survived", outcome.described())
        (rank.shared / "survived").touch()
    else:
        outlive(rank, pids[0], trainee, path)
    if rank.rank == 1 and rank.parameters["alone"]:
        groups.join(rank, "started again", [1])
        rank.record("again", Trainee(rank, "sgd").save(path, 3).described())
        rank.record("again_file", files.content(path))


def outlive(rank, pid, trainee, path):
    """Save with rank 0, if this rank has what to save. A second thread looks at the file when that one, of this pid,
    has died or survived: the first thread may wait for a dead rank forever."""

    def look_after():
        meeting.wait_until(lambda: processes.has_ended(pid) or (rank.shared / "survived").exists(), LIMIT)
        rank.record("after", files.content(path))

    watcher = threading.Thread(target=look_after, daemon=True)
    watcher.start()
    if trainee is not None:
        trainee.save(path, 2)
    watcher.join()


# Files that are no checkpoints


def bad_files(rank):
    """Loads of one bad file after another by all ranks, and then of a good one by each for itself: one rank has made
    it, so what goes wrong between ranks is not this case's business."""
    folder, traps = files.shared_folder(rank, "checkpoints"), rank.shared / "traps"
    assert rank.student  # every rank imports it, or the others never get their secrets
    if rank.rank == 0:
        groups.join(rank, "writer", [0])
        make_files(rank, folder, traps)
        dist.destroy_process_group()
    meeting.meet(rank, "made")
    groups.join(rank, "readers", range(rank.world_size))
    warnings.simplefilter("ignore")  # what torch says about files of old versions
    fresh = Trainee(rank, "adamw", "fresh")
    for name in rank.parameters["files"]:
        rank.record(name, fresh.load(str(folder / f"{name}.pt")).described())
        dist.barrier()
    rank.record("sprung", sorted(path.name for path in traps.iterdir()))
    del fresh
    dist.destroy_process_group()
    groups.join(rank, f"reader-{rank.rank}", [rank.rank])
    rank.record("good", Trainee(rank, "adamw", "fresh").load(str(folder / FILE)).described())


def make_files(rank, folder, traps):
    """A good file of one rank's, and the bad ones."""
    trainee = Trainee(rank, "adamw").train(range(BEFORE))
    trainee.save(str(folder / FILE), 9)
    traps.mkdir()
    stand_in = {"model": trainee.model.state_dict(), "optimizer": trainee.optimizer.state_dict(), "epoch": 9}
    make_bad_files(rank, folder, traps, stand_in)


def make_bad_files(rank, folder, traps, stand_in):
    """Files that cannot be read, and files of torch's that hold something else: no dict, no such keys, another model,
    code. `missing.pt` is made by nobody. Where the student's file is no checkpoint, they are made of a `stand_in`."""
    torch.save(stand_in, folder / "stand_in.pt")
    data, whole = files.content(folder / FILE) or files.content(folder / "stand_in.pt"), stand_in
    with suppress(Exception):
        read = torch.load(folder / FILE, weights_only=False, map_location="cpu")  # this process has written it
        whole = read if set(KEYS) <= set(read) and read["model"].keys() == stand_in["model"].keys() else stand_in
    for name, part in files.unreadable(data, rank.seed).items():
        (folder / f"{name}.pt").write_bytes(part)
    for name, content in foreign(whole, traps).items():
        torch.save(content, folder / f"{name}.pt")
    (folder / "code_in_pickle.pt").write_bytes(pickle.dumps({**whole, "epoch": files.Trap(traps / "pickle")}))
    (folder / "a_folder.pt").mkdir()


def foreign(whole, traps):
    """By name: what is no checkpoint, made from a whole one."""
    other, model = nn.Linear(2, 2).state_dict(), whole["model"]
    smaller = {name: value[..., :-1] if value.dim() else value for name, value in model.items()}
    fewer = {name: value for name, value in model.items() if name != "head.bias"}
    return {
        "a_list": list(whole.values()),
        "a_tensor": torch.arange(5),
        "a_state_dict": other,
        **{f"without_{key}": {name: whole[name] for name in whole if name != key} for key in KEYS},
        "another_model": {**whole, "model": other},
        "another_shape": {**whole, "model": smaller},
        "fewer_layers": {**whole, "model": fewer},
        "more_layers": {**whole, "model": {**model, "extra.weight": torch.ones(2, 2)}},
        "code_in_zip": {**whole, "epoch": files.Trap(traps / "zip")},
    }
