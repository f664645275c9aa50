"""Runs in every rank: hands a spy model and numbered samples to `train_ddp` and records what happened to them.

The first column of the input is the sample's number, so that the spy's forward knows which samples a rank trains on.
A forward counts as a step only when a gradient flows back through its output; evaluation passes do not.
Nothing here knows an expected value.
"""

import os
import random
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset

FEATURES, HIDDEN, CLASSES = 3, 4, 3
CHECKPOINT = "checkpoint.pt"
KEPT = []
"""Sockets that reserve a port."""
FILE_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x80\x05")
"""How files begin that torch.save or pickle wrote."""


class NumberedData(Dataset):
    """Pairs (x, y): x, float64 of shape (1 + FEATURES,), begins with the sample's number; y is int64 of shape ()."""

    def __init__(self, samples, seed):
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.arange(samples, dtype=torch.float64).unsqueeze(1)
        features = torch.randn(samples, FEATURES, dtype=torch.float64, generator=generator)
        self.inputs = torch.cat([numbers, features], dim=1)
        self.targets = torch.randint(CLASSES, (samples,), generator=generator)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def logits(tensors, inputs):
    """The spy's outputs, shape (batch, CLASSES), from its named parameters and buffers."""
    features = inputs[:, 1:] * tensors["scale"]
    hidden = torch.tanh(nn.functional.linear(features, tensors["module.weight"], tensors["module.bias"]))
    return nn.functional.linear(hidden, tensors["head.weight"], tensors["head.bias"])


class Classifier(nn.Module):
    """The spy: two linear layers, one of which happens to be called `module`, and a buffer.

    Its values come from a generator of the rank's own, so seeding torch's does not make the ranks' models equal.
    """

    notes = None

    def __init__(self):
        super().__init__()
        self.module = nn.Linear(FEATURES, HIDDEN, dtype=torch.float64)
        self.head = nn.Linear(HIDDEN, CLASSES, dtype=torch.float64)
        self.register_buffer("scale", torch.ones(FEATURES, dtype=torch.float64))
        if self.notes is not None:
            self.notes.constructed(self)

    def tensors(self):
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def forward(self, inputs):
        outputs = logits(self.tensors(), inputs)
        if outputs.requires_grad and self.notes is not None:
            self.notes.listen(self, inputs, outputs)
        return outputs


class Stumble(Exception):
    """What the two models below raise."""


class Stumbler(Classifier):
    """Raises in its second training forward."""

    forwards = 0

    def forward(self, inputs):
        if torch.is_grad_enabled():
            self.forwards += 1
            if self.forwards == 2:
                raise Stumble("the second step stumbles")
        return super().forward(inputs)


class Unbuildable(Classifier):
    """Cannot be constructed."""

    def __init__(self):
        raise Stumble("this model cannot be built")


class Notes:
    """What one call of `train_ddp` did with the spy in this process. `states[k]` is as of before step k."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.models, self.built = [], []
        self.batches, self.states = [], []
        self.trained = self.group = None

    def constructed(self, model):
        for tensor in model.tensors().values():
            tensor.data.normal_(generator=self.generator)
        self.models.append(model)
        self.built.append(snapshot(model))

    def listen(self, model, inputs, outputs):
        """Note the batch and the state now, and keep them once a gradient reaches the outputs."""
        numbers = [round(number) for number in inputs[:, 0].tolist()]
        state, group, kept = snapshot(model), described_group(), []

        def keep(_):
            if not kept:
                kept.append(True)
                self.batches.append(numbers)
                self.states.append(state)
                self.trained, self.group = model, self.group or group

        outputs.register_hook(keep)


def snapshot(model):
    """Copies of all parameters and buffers, on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in model.tensors().items()}


def stacked(states):
    """Many states as one tensor a name, the first dimension counting the states; {} if there are none."""
    return {name: torch.stack([state[name] for state in states]) for name in states[0]} if states else {}


def described_group():
    """The default group as this rank sees it, or None. `meeting` is None where its store tells no address and port."""
    if not dist.is_initialized():
        return None
    store = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    meeting = f"{store.host}:{store.port}" if hasattr(store, "port") else None
    return {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "meeting": meeting}


def watch(rank):
    """Fresh notes for the next call; every rank's random numbers differ."""
    own_seed = (rank.seed + 7919 * (rank.rank + 1)) % 2**31
    torch.manual_seed(own_seed)
    random.seed(own_seed)
    Classifier.notes = Notes(own_seed)
    return Classifier.notes


def train(rank):
    """One whole call of `train_ddp`."""
    parameters = rank.parameters
    folder = rank.scratch / "checkpoints"
    folder.mkdir()
    options = dict(parameters["options"])
    if parameters["checkpoint"]:
        options["checkpoint_path"] = folder / CHECKPOINT
    data = NumberedData(parameters["samples"], rank.seed)
    function, notes = rank.student.train_ddp, watch(rank)
    rank.record("given", f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}")
    returned = function(rank.rank, rank.world_size, Classifier, data, parameters["epochs"], **options)
    rank.record("left", not dist.is_initialized())
    record_steps(rank, notes)
    record_model(rank, notes, returned)
    record_files(rank, folder)


def record_steps(rank, notes):
    rank.record("group", notes.group)
    rank.record("batches", notes.batches)
    rank.record("states", stacked(notes.states))
    rank.record("built", notes.built)


def record_model(rank, notes, returned):
    """`final` is the state of the model that was trained, else of the returned one, else of the last one built."""
    exact = type(returned) is Classifier
    model = notes.trained or (returned if exact else notes.models[-1] if notes.models else None)
    rank.record("final", snapshot(model) if model is not None else {})
    rank.record("returned", {"type": type(returned).__name__, "exact": exact, "trained": returned is notes.trained})


def record_files(rank, folder):
    """The checkpoint's bytes, the names beside it, and files elsewhere that look like checkpoints."""
    path = folder / CHECKPOINT
    rank.record("files", sorted(str(file.relative_to(folder)) for file in folder.rglob("*")))
    rank.record("checkpoint", path.read_bytes() if path.is_file() else None)
    rank.record("strays", sorted(str(file.relative_to(rank.scratch)) for file in strays(rank.scratch, folder)))


def strays(scratch, folder):
    for file in scratch.rglob("*"):
        if file.is_file() and not file.is_relative_to(folder) and beginning(file).startswith(FILE_MAGIC):
            yield file


def beginning(file):
    with file.open("rb") as stream:
        return stream.read(4)


def stumble(rank):
    """Two calls in one process: first of a model that raises in its second step, on every rank alike, and then of one
    that works."""
    for call, model_class in {"step": Stumbler, "again": Classifier}.items():
        attempt(rank, call, model_class)


def alone(rank):
    """Two calls in one process, on one rank: first one that is told no meeting place, and then one of a model that
    cannot be built. (Where several ranks let rank 0 build for all, the others would wait for it.)"""
    asked = stand_in_for_stores()
    rank.record("host", socket.gethostname())
    attempt(rank, "unplaced", Classifier)
    rank.record("asked", asked)
    os.environ.setdefault("MASTER_ADDR", "localhost")
    attempt(rank, "building", Unbuildable)


def attempt(rank, call, model_class):
    """One call of `train_ddp` that may raise; all is made ready for the next."""
    function, data = rank.student.train_ddp, NumberedData(rank.parameters["samples"], rank.seed)
    notes = watch(rank)
    arguments = (rank.rank, rank.world_size, model_class, data, rank.parameters["epochs"])
    outcome = rank.attempt(function, *arguments, **rank.parameters["options"])
    left = not dist.is_initialized()
    rank.record(call, {**outcome.described(), "left": left, "steps": len(notes.batches), "group": notes.group})
    del outcome  # its traceback keeps the student's local variables alive
    leave(rank, call)


def stand_in_for_stores():
    """From now on a TCPStore takes a port that the system assigns, so that no default port is ever really used. Right
    for a rank that is alone. Returns a list that gets [host, port] as they were asked for."""
    asked, original = [], dist.TCPStore

    class TCPStore(original):
        def __init__(self, host_name, port, *args, **kwargs):
            asked.append([host_name, port])
            super().__init__("localhost", 0, *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and vars(module).get("TCPStore") is original:
            module.TCPStore = TCPStore
    return asked


def leave(rank, call):
    """Make ready for the next call, even where the student's function did not leave the group.

    That call meets at another port: something that still holds the old group keeps its store alive, old keys included.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    meet(rank, f"{call}-returned")
    rank.release_group()
    port = rank.shared / f"{call}-port"
    if rank.rank == 0:
        port.write_text(str(reserved_port()))
    meet(rank, f"{call}-left")
    os.environ["MASTER_PORT"] = port.read_text()


def reserved_port():
    """A free port. Its socket stays bound but never listens, so that only who asks for this very port gets it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    KEPT.append(holder)
    return holder.getsockname()[1]


def meet(rank, name):
    """Wait until every rank has come here. By files, for there is no group now."""
    (rank.shared / f"{name}-{rank.rank}").touch()
    while not all((rank.shared / f"{name}-{other}").exists() for other in range(rank.world_size)):
        time.sleep(0.001)
