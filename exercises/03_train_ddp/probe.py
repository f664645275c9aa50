"""Runs in every rank: hands a spy model and numbered samples to `train_ddp` and records what happened to them.

The first column of the input is the sample's number, so that the spy's forward knows which samples a rank trains on.
Two things are each rank's own, from its secret: the values that a model begins with, and how its inputs are shifted,
as augmentation does. So neither rank 0's model nor another rank's gradients can be had but from that rank.
Nothing here knows an expected value.
"""

import os
import socket
import traceback
import weakref
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from grader.kit import groups, machine, meeting, processes, spies, stores, values

FEATURES, HIDDEN, CLASSES = 3, 4, 3
WAVES = 1024
"""The output's bias goes through so steep a sine. So gradients are large and the loss goes up and down, yet no sample
is ever learnt so well that its gradient vanishes: to clip gradients or to keep the best model shows."""
SHAPE = {"features": FEATURES, "classes": CLASSES}
ROWS = 128
"""So many samples are shifted each in its own way, as many as any case has."""
CHECKPOINT = "final $MASTER_PORT.state"
"""No usual suffix, and a `$`: the name is the caller's."""
BARE_NAME = "~"
"""No suffix and no folder, and not the home folder either."""
BEYOND = 2**60 + 1
"""Odd numbers of this size do not fit into a float64."""
FILE_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x80\x05")
"""How files begin that torch.save or pickle wrote."""
MISLEADING = {"RANK": "1", "WORLD_SIZE": "2"}
"""What the environment of a rank that is alone says."""
OTHER_ADDRESS = "127.0.0.3"
"""Is this machine, and nobody's default."""
NO_FOLDER = "no-folder-é"
"""A file of this name stands where the checkpoint's folder should be, so that nothing can be written there. Torch has
a RuntimeError for that, but leaves a name that is not ASCII to open(), whose error is an OSError."""
RAISED, OVER, WAITED = "reading.raised", "reading.over", "reading.waited"
"""Files that say that one rank's sample has raised, that its call is over, and that it was not over although the others
gave it LIMIT seconds, in which they sent nothing."""
LOOKS, LOOK, LIMIT = 10, 0.002, 10.0
"""Looks in a row that must find the others asleep before a rank that has failed hangs up, the seconds between two, and
those after which it no longer waits for that; nothing is judged by them."""
ALONE = {"building": 1, "counting": 0, "reading": 1, "saving": 0, "pressing": 1}
"""Where one rank alone stumbles, before, between and after the collectives, and which one: in model_class(), in
len(data), over a sample of its second batch, over the checkpoint, and because somebody presses Ctrl-C in its second
step."""
STAGED = [(1, 2), (2, 2), (3, 2), (1, 1)]
"""(GPUs, ranks) of the machines that are staged."""


def data_of(seed, samples):
    """The data set of a run."""
    return spies.NumberedData(samples, seed, **SHAPE)


def initial_values(secret, number, like):
    """What the model that a rank builds as its `number`th begins with, under the names of `like`."""
    drawn = {name: values.normal(like[name].shape, secret, "initial values", number, name) for name in like}
    drawn = {name: 2 * (1000 * one).long() + BEYOND if name == "passes" else one for name, one in drawn.items()}
    return {name: one.to(like[name].dtype) for name, one in drawn.items()}


def older_state(secret, like):
    """What a file holds that lies at the checkpoint's path before the training."""
    return initial_values(secret, "older", like)


def shifts(secret, inputs):
    """What a rank adds to inputs, by the numbers of their samples. That of the numbers themselves goes unused."""
    table = 0.5 * values.normal((ROWS, 1 + FEATURES), secret, "shifts")
    return table[inputs[:, 0].detach().cpu().round().long() % ROWS]


class Classifier(spies.FunctionalModel):
    """The spy: two linear layers, one of which happens to be called `module`, and a buffer.

    Its values and its shifts are the rank's own, so seeding torch does not make the ranks' models equal.
    """

    notes = None

    def __init__(self):
        super().__init__()
        self.module = nn.Linear(FEATURES, HIDDEN, dtype=torch.float64)
        self.head = nn.Linear(HIDDEN, CLASSES, dtype=torch.float64)
        self.register_buffer("scale", torch.ones(FEATURES, dtype=torch.float64))
        self.add_more()
        if self.notes is not None:
            self.notes.constructed(self)

    def add_more(self):
        """What a subclass has besides."""

    @staticmethod
    def compute(tensors, inputs):
        """The logits, shape (batch, CLASSES)."""
        features = inputs[:, 1:] * tensors["scale"]
        hidden = torch.tanh(nn.functional.linear(features, tensors["module.weight"], tensors["module.bias"]))
        return nn.functional.linear(hidden, tensors["head.weight"], torch.sin(WAVES * tensors["head.bias"]))

    def forward(self, inputs):
        outputs = super().forward(inputs if self.notes is None else inputs + self.notes.shifts(inputs).to(inputs))
        if self.notes is not None:
            self.notes.listen(self, inputs, outputs)
        return outputs


class PartlyFrozen(Classifier):
    """Has a frozen parameter, of another dtype, and a buffer of whole numbers, which belong to its state like all the
    rest, and a buffer that its state dict leaves out, whose values are always the same."""

    def add_more(self):
        self.frozen = nn.Parameter(torch.ones(HIDDEN, dtype=torch.float32), requires_grad=False)
        self.register_buffer("passes", torch.zeros(2, dtype=torch.int64))
        self.register_buffer("mask", torch.ones(HIDDEN, dtype=torch.float32), persistent=False)

    def tensors(self):
        return {name: tensor for name, tensor in super().tensors().items() if name != "mask"}


class Stumble(Exception):
    """What the models and the data below raise."""


class Stumbler(Classifier):
    """Raises in its second training forward."""

    forwards = 0

    def forward(self, inputs):
        if torch.is_grad_enabled():
            self.forwards += 1
            if self.forwards == 2:
                self.stumble()
        return super().forward(inputs)

    def stumble(self):
        raise self.notes.raising(Stumble("the second step stumbles"))


class Interrupted(Stumbler):
    """Somebody presses Ctrl-C there."""

    def stumble(self):
        self.notes.pressed = True
        raise KeyboardInterrupt


class Pressed(Exception):
    """What stands for a KeyboardInterrupt that came out of a call: that is no Exception."""


class Unbuildable(Classifier):
    """Cannot be constructed."""

    def __init__(self):
        raise self.notes.raising(Stumble("this model cannot be built"))


class UnbuildableInside(Classifier):
    """Cannot be constructed by a rank that has joined."""

    def __init__(self):
        if dist.is_initialized():
            raise Stumble("this rank has joined")
        super().__init__()


class Uncountable(spies.NumberedData):
    """Cannot tell how many samples there are."""

    def __len__(self):
        raise Stumble("these samples cannot be counted")


class Unreadable(spies.NumberedData):
    """Raises when the second batch is read."""

    reads = 0

    def __init__(self, samples, seed, folder):
        super().__init__(samples, seed, **SHAPE)
        self.folder = folder

    def __getitem__(self, index):
        self.reads += 1
        if self.reads == 4:
            self.at_second_batch()
        return super().__getitem__(index)

    def at_second_batch(self):
        (self.folder / RAISED).touch()
        raise Stumble("this sample cannot be read")


class Slow(Unreadable):
    """Has the second batch only when the rank that cannot read its own is over and done with."""

    def at_second_batch(self):
        over = meeting.wait_until((self.folder / OVER).exists, LIMIT, LOOK)
        if not over and (self.folder / RAISED).exists():
            (self.folder / WAITED).touch()


class Notes(spies.StepNotes):
    """What one call of `train_ddp` did with the spy in this process: its steps, the models built and their first
    values, the group during the first step (`seen`), the learning rates of torch's optimizers, and what the model has
    raised (weakly: its traceback keeps the student's local variables alive)."""

    def __init__(self, rank, before=0):
        super().__init__(at_first=groups.default_group)
        self.secret, self.before = rank.secret, before
        self.models, self.built, self.rates = [], [], set()
        self.pressed, self.raised = False, lambda: None

    def raising(self, error):
        self.raised = weakref.ref(error)
        return error

    def constructed(self, model):
        """Gives a new model its values. One on the meta device has none; what it is filled with later is another
        model's."""
        tensors = model.tensors()
        if any(tensor.is_meta for tensor in tensors.values()):
            return
        for name, value in initial_values(self.secret, self.before + len(self.models), tensors).items():
            tensors[name].data.copy_(value)
        self.models.append(model)
        self.built.append(model.state())

    def shifts(self, inputs):
        return shifts(self.secret, inputs)

    def stepping(self, optimizer, *_):
        """Hears of every step of one of torch's optimizers."""
        self.rates.update(float(group["lr"]) for group in optimizer.param_groups if "lr" in group)


def model_class_of(parameters):
    """The class of the models of a run."""
    return PartlyFrozen if parameters.get("frozen") else Classifier


def watch(rank, before=0):
    """Fresh notes for the next call, which begins with the models after the first `before`; every rank's random numbers
    differ."""
    values.seed_generators(values.seed_for(rank.secret, "torch", before))
    Classifier.notes = Notes(rank, before)
    return Classifier.notes


def train(rank, data=None):
    """One whole call of `train_ddp`."""
    parameters = rank.parameters
    folder = rank.scratch / "checkpoints"
    folder.mkdir()
    name, options = BARE_NAME if parameters.get("bare") else CHECKPOINT, dict(parameters["options"])
    if parameters["checkpoint"]:
        options["checkpoint_path"] = folder / name
    if parameters.get("bare"):
        os.chdir(folder)
        options["checkpoint_path"] = name
    if parameters.get("older") and rank.rank == 0:
        torch.save(older_state(rank.secret, Classifier().tensors()), folder / CHECKPOINT)
    data = data_of(rank.seed, parameters["samples"]) if data is None else data
    function, notes = rank.student.train_ddp, watch(rank, parameters.get("before", 0))
    model_class = model_class_of(parameters)
    register_optimizer_step_pre_hook(notes.stepping)
    rank.record("given", f"{os.environ.get('MASTER_ADDR')}:{os.environ['MASTER_PORT']}")
    returned = function(rank.rank, rank.world_size, model_class, data, parameters["epochs"], **options)
    rank.record("left", not dist.is_initialized())
    record_training(rank, notes, returned)
    record_files(rank, folder, name)
    if type(returned) is model_class and not dist.is_initialized():
        rank.record("trained on", rank.attempt(train_on, returned, data).described())


def train_on(model, data):
    """A forward and a backward pass as somebody makes who is alone, and has no group."""
    Classifier.notes = None
    inputs = data.inputs[:1].to(next(model.parameters()).device)
    model(inputs).sum().backward()


def record_training(rank, notes, returned):
    """`history` ends with the state of the model that was trained, else of the returned one, else of the last one
    built; {} where there is none."""
    exact = type(returned) is model_class_of(rank.parameters)
    model = notes.trained or (returned if exact else notes.models[-1] if notes.models else None)
    rank.record("group", notes.seen)
    rank.record("batches", notes.batches)
    rank.record("history", [*notes.states, model.state() if model is not None else {}])
    rank.record("built", notes.built)
    rank.record("rates", sorted(notes.rates))
    rank.record("returned", {"type": type(returned).__name__, "exact": exact, "trained": returned is notes.trained})


def record_files(rank, folder, name):
    """The checkpoint's bytes, the names beside it, and the strays."""
    path = folder / name
    rank.record("files", sorted(str(file.relative_to(folder)) for file in folder.rglob("*")))
    rank.record("checkpoint", path.read_bytes() if path.is_file() else None)
    rank.record("strays", sorted(str(file.relative_to(rank.scratch)) for file in strays(rank.scratch, folder)))


def strays(scratch, folder):
    """Files elsewhere that look like checkpoints."""
    for file in scratch.rglob("*"):
        if file.is_file() and not file.is_relative_to(folder):
            with file.open("rb") as stream:
                if stream.read(4).startswith(FILE_MAGIC):
                    yield file


def stumble(rank):
    """Several calls in one process: of a model that raises in its second step on every rank alike; of one that works,
    while no port is given, after each rank has trained by itself, rank 1 at its second try; and calls in which one rank
    alone stumbles while the others go on."""
    joined, unplaced, pids = [], {}, meeting.tell_all(rank, "pids", os.getpid())
    others = [pid for number, pid in pids.items() if number != rank.rank]
    stores.stand_in_for_stores(lambda options: joined.append(options) or unplaced)
    for call, model_class in {"step": Stumbler, "again": Classifier}.items():
        if call == "again":
            unplaced.update(host_name="localhost", port=0)
            if rank.rank == 1:
                attempt(rank, "apart, in vain", Stumbler, place=(0, 1))
            attempt(rank, "apart", data=data_of(rank.seed, 1), place=(0, 1))
            unplaced.clear()
            leave(rank, "apart")  # whichever default ports the ranks ask for now, they meet at the run's
            unplaced["port"] = int(os.environ.pop("MASTER_PORT"))
        joined.clear()
        attempt(rank, call, model_class)
        unplaced.clear()
        leave(rank, call)
    rank.record("asked", [stores.asked_place(options) for options in joined])
    for call, culprit in ALONE.items():
        joined.clear()
        raised = attempt(rank, call, **staged_for(rank, call, rank.rank == culprit))
        if call == "reading":
            record_reading(rank, culprit)
        if raised and not joined:  # the others still wait for it, so it is started again, as a launcher would
            raised = attempt(rank, f"{call}_again")
        if raised or (call == "saving" and rank.rank):
            if call in ("building", "counting"):  # the others may still be joining, and would be cut off by chance
                meeting.wait_until(processes.asleep_for(LOOKS, others), LIMIT, LOOK)
            groups.hang_up()  # as if the process had ended; the group itself is let go of when all have come back
        leave(rank, call)


def record_reading(rank, culprit):
    """Whether the rank whose sample raised came back only when the others went on."""
    if rank.rank == culprit:
        (rank.shared / OVER).touch()
    else:
        rank.record("waited", (rank.shared / WAITED).exists())


def staged_for(rank, call, stumbles):
    """What a rank is handed, the one that stumbles and the others."""
    samples = rank.parameters["samples"]
    if call == "building":
        return {"model_class": Unbuildable} if stumbles else {}
    if call == "counting":
        return {"data": Uncountable(samples, rank.seed, **SHAPE)} if stumbles else {}
    if call == "pressing":
        return {"model_class": Interrupted} if stumbles else {}
    if call == "reading":  # over NCCL a rank may have to wait for what the others have begun to send
        kind = Unreadable if stumbles else Slow if rank.device.type == "cpu" else None
        return {"data": kind(samples, rank.seed, rank.shared)} if kind else {}
    (rank.scratch / NO_FOLDER).touch()
    return {"checkpoint_path": rank.scratch / NO_FOLDER / CHECKPOINT}


def any_port(rank, asked, sizes, options):
    """A port that the system assigns, which is right for a rank that is alone. Notes the place that was asked for, and
    for how many ranks."""
    asked.append(stores.asked_place(options))
    size = options.get("world_size") if options.get("wait_for_workers", True) else None
    sizes.append(size or rank.world_size)
    if sizes[-1] > rank.world_size:
        raise meeting.NeverMeet(f"the group waits for {size} ranks, and there is {rank.world_size}")
    if not options.get("is_master"):
        raise meeting.NeverMeet("the only rank waits for another one, which is to be rank 0")
    return {"host_name": "localhost", "port": 0}


def alone(rank):
    """Four calls in one process, on one rank: one that is told no meeting place and trains for many epochs at rate 0,
    one that is interrupted and told a port alone, one of a model that cannot be built (where several ranks let rank 0
    build for all, the others would wait for it) and that is told an address alone, and a whole one with another model
    and other options, which must owe nothing to those before it. Its data were another call's, and hold something else
    now; its address is what is left of the one that the call before was told."""
    asked, sizes, long = [], [], rank.parameters["long"]
    stores.stand_in_for_stores(partial(any_port, rank, asked, sizes))
    rank.record("host", socket.gethostname())
    data = data_of(rank.seed + 1, long["samples"])
    first = rank.scratch / "first.pt"
    os.environ.update(MISLEADING)
    attempt(rank, "unplaced", data=data, epochs=long["epochs"], checkpoint_path=first, **long["options"])
    first.unlink(missing_ok=True)
    trained = Classifier.notes.trained
    rank.record("long batches", Classifier.notes.batches)
    rank.record("without a rate", [*Classifier.notes.states, trained.state()] if trained else [])
    for name in MISLEADING:
        os.environ.pop(name, None)
    rank.record("asked", list(asked))
    rank.record("sizes", list(sizes))
    leave(rank, "unplaced")
    os.environ.pop("MASTER_ADDR", None)
    rank.record("given port", int(os.environ["MASTER_PORT"]))
    asked.clear()
    data = data_of(rank.seed + 2, rank.parameters["samples"])
    interrupted(rank, data)
    rank.record("asked with a port", list(asked))
    leave(rank, "interrupted")
    os.environ["MASTER_ADDR"] = OTHER_ADDRESS
    os.environ.pop("MASTER_PORT")
    asked.clear()
    attempt(rank, "unbuildable", Unbuildable)
    rank.record("asked with an address", list(asked))
    leave(rank, "unbuildable")
    asked.clear()
    vars(data).update(vars(data_of(rank.seed, rank.parameters["samples"])))
    train(rank, data)
    rank.record("asked at last", list(asked))


def interrupted(rank, data):
    """A call in which Ctrl-C is pressed. That is no Exception, so it is caught here."""
    function, notes = rank.student.train_ddp, watch(rank)

    def until_interrupted(*args, **options):
        try:
            function(*args, **options)
        except KeyboardInterrupt:
            return True
        return False

    arguments = (rank.rank, rank.world_size, Interrupted, data, rank.parameters["epochs"])
    outcome = rank.attempt(until_interrupted, *arguments, **rank.parameters["options"])
    told = {"pressed": notes.pressed, "heard": bool(outcome.value), "left": not dist.is_initialized()}
    rank.record("interrupted", {**outcome.described(), **told, "steps": len(notes.batches)})
    if dist.is_initialized():
        dist.destroy_process_group()


def attempt(rank, call, model_class=Classifier, data=None, epochs=None, place=None, **options):
    """One call of `train_ddp` that may raise, by this rank of the run or as another `place` says. Whether it did."""
    data = data_of(rank.seed, rank.parameters["samples"]) if data is None else data
    function, notes = rank.student.train_ddp, watch(rank)
    place = place or (rank.rank, rank.world_size)
    arguments = (*place, model_class, data, epochs or rank.parameters["epochs"])
    outcome = rank.attempt(pressed_on(function), *arguments, **(rank.parameters["options"] | options))
    if call == "again":
        record_training(rank, notes, outcome.value)
    raised = outcome.error is not None
    told = {"left": not dist.is_initialized(), "steps": len(notes.batches)}
    told |= {"itself": raised and outcome.error is notes.raised(), "replaces": replaced_by(outcome.error)}
    rank.record(call, {**outcome.described(), **told})
    if dist.is_initialized():
        dist.destroy_process_group()
    if raised:
        forget_variables(outcome.error)
    del outcome
    return raised


def forget_variables(error):
    """Let go of the local variables that its traceback keeps alive. Torch itself keeps in one what a worker of a
    DataLoader has raised. A DataLoader that is freed with such a circle cannot tell its workers to go, and torch waits
    five seconds for each."""
    traceback.clear_frames(error.__traceback__)


def pressed_on(function):
    """The function, out of which Ctrl-C comes as an Exception."""

    def called(*args, **options):
        try:
            return function(*args, **options)
        except KeyboardInterrupt:
            pass
        raise Pressed("KeyboardInterrupt")

    return called


def replaced_by(error):
    """The name of the OSError in whose place this error of another kind was raised, or None."""
    if error is None or isinstance(error, OSError):
        return None
    earlier = error
    while (earlier := earlier.__cause__ or earlier.__context__) is not None:
        if isinstance(earlier, OSError):
            return type(earlier).__name__
    return None


def device_rule(rank):
    """Every rank of every staged machine joins in turn, and cannot build its model: which backend it asks for is all
    that can be seen where the GPUs are not there."""
    staged, rows, data = machine.StagedMachine(), [], data_of(rank.seed, rank.parameters["samples"])
    for gpus, size in STAGED:
        for number in range(size):
            with staged.with_gpus(gpus):
                watch(rank)
                function = machine.fresh(rank.student).train_ddp
                outcome = rank.attempt(function, number, size, UnbuildableInside, data, 0).described()
                rows.append({**outcome, "rank": number, "world_size": size, **staged.seen()})
    rank.record("decisions", rows)


def leave(rank, call):
    """Make ready for the next call, even where the student's function did not leave the group.

    That call meets at another port: something that still holds the old group keeps its store alive, old keys included.
    """
    meeting.meet(rank, f"{call}-returned")
    rank.release_group()
    port = stores.reserved_port() if rank.rank == 0 else None
    os.environ["MASTER_PORT"] = str(meeting.tell_all(rank, f"{call}-left", port)[0])
