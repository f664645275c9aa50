"""Runs the student's script as a program, again and again: alone, under torchrun, by two agents, stopped and started
again, and with what it has to refuse.

The script trains a workload that is written here. Its model notes in each step which samples the process trains on and
the values before the step, and it kills or stops its own process at a step that the launch names. The first values of a
model are drawn for each rank and attempt anew. This file is imported by the workload as well, and knows no expected
value.
"""

import atexit
import errno
import functools
import importlib
import importlib.util
import json
import math
import os
import signal
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import torch
from torch import nn

from grader.kit import disturb, files, gpus, machine, ports, processes, scripts, spies, stores, values

SAMPLES, EPOCHS, BATCH, FEATURES, HIDDEN, CLASSES = 21, 3, 4, 3, 4, 3
MANY = 70
"""So many samples show what is done where no batch size is given."""
HALF = 0.5
"""Of the learning rate has a job that goes on with another one."""
STEP = 4
"""So many steps rank 1 makes before it dies or stops: on two ranks it is in the middle of the second epoch."""
HALF_AN_EPOCH = 3
"""So many steps, where one rank trains on all samples."""
NAME = "model"
"""Of the checkpoint: without a suffix, so nobody gets a temporary name by replacing one."""
TEMPORARY = ".tmp"
"""What its name ends in in one launch, if the temporary files of the script end in nothing else: nobody gets such a
name by putting this suffix in the place of another."""
WORKLOAD_FILE, OTHER_WORKLOAD_FILE = "workload.py", "workload.v2.py"
"""What the workload's file is called, and in one launch, so that nobody has it by `import`."""
PATIENCE, NO_PATIENCE = 40, 10
"""Looks in a row without any movement that make a job stuck, at first, and once one has been stuck."""
SECONDS, NOT_SO_MANY = 60.0, 10.0
"""Seconds of a core after which a job that moves all the time is ended, likewise. Right ones used 9 at most."""
AT_ONCE = 3
WORKERS = "--nproc-per-node"
LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "TORCHELASTIC", "RANKLINGS_")
"""How variables begin that a launcher has set."""
GPUS = 2
FOURTH_WORKER = {
    **{"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
    **{"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
}
"""What the last worker of a job on two machines is told, each of which has so many GPUs, beside a port on which nobody
is."""
RANKS = []
"""The rank of this process as its launcher says, where it is a fork of the probe: the script may say something else."""
STAGED = []
"""What ends this process at its first step, where only its choice of a GPU is looked at."""
SPIES = []
"""The one that hears of what this process writes, where it is a fork of the probe."""
ENTERED = ExitStack()
"""What holds to the end of such a process."""


# -- the workload, in the processes that run the script ----------------------------------------------------------------


def lr_of(seed, times=1):
    """The learning rate that is asked for, or a multiple of it, to four digits."""
    return round(times * (0.15 + 0.1 * (seed % 7) / 7), 4)


def data_of(seed, samples):
    return spies.NumberedData(samples, seed, features=FEATURES, classes=CLASSES)


def initial_values(seed, rank, attempt, number):
    """What the model that a rank builds as its `number`th in an attempt begins with."""
    return {
        name: values.normal(tensor.shape, seed, "initial", rank, attempt, number, name)
        for name, tensor in Classifier().tensors().items()
    }


def shifted(inputs, seed, rank):
    """Inputs as a rank's model takes them: each rank augments its samples in a way of its own, so its gradients are not
    for others to compute."""
    shift = values.normal((FEATURES,), seed, "shift", rank).to(inputs)
    return torch.cat([inputs[:, :1], inputs[:, 1:] + shift], dim=1)


class Classifier(spies.FunctionalModel):
    """Two linear layers, one of which happens to be called `module`, and a buffer. In evaluation it gives half of its
    logits, as layers that know the two modes compute something else in each."""

    notes = None

    def __init__(self):
        super().__init__()
        self.module = nn.Linear(FEATURES, HIDDEN, dtype=torch.float64)
        self.head = nn.Linear(HIDDEN, CLASSES, dtype=torch.float64)
        self.register_buffer("scale", torch.ones(FEATURES, dtype=torch.float64))

    @staticmethod
    def compute(tensors, inputs):
        """The logits, shape (batch, CLASSES)."""
        features = inputs[:, 1:] * tensors["scale"]
        hidden = torch.tanh(nn.functional.linear(features, tensors["module.weight"], tensors["module.bias"]))
        return nn.functional.linear(hidden, tensors["head.weight"], tensors["head.bias"])

    def forward(self, inputs):
        outputs = super().forward(inputs if self.notes is None else self.notes.shifted(inputs))
        outputs = outputs if self.training else outputs / 2
        if self.notes is not None and outputs.requires_grad:
            self.notes.forward(self, inputs, outputs)
        return outputs


def flat(tensors):
    """All values in one list, in the order of the names."""
    return [number for name in sorted(tensors) for number in tensors[name].detach().flatten().tolist()]


class Notes:
    """What this process does in a launch, in a file of its own in the launch's folder: a line for each step."""

    def __init__(self, folder):
        self.folder, self.plan = Path(folder), json.loads((Path(folder) / "plan.json").read_text())
        self.rank = RANKS[0] if RANKS else rank_by_launcher()
        self.attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        self.path = Path(self.plan["path"])
        self.steps, self.built, self.held, self.seen, self.opened = 0, 0, [], None, set()
        self.name = f"{self.rank}-{self.attempt}-{os.getpid()}-{time.monotonic_ns()}"
        self.note(
            rank=self.rank, attempt=self.attempt, world_size=int(os.environ.get("WORLD_SIZE", "1")), pid=os.getpid()
        )

    def note(self, **what):
        with (self.folder / f"note-{self.name}").open("a") as file:
            file.write(json.dumps(what) + "\n")

    def __deepcopy__(self, memo):
        """Who copies a model copies no notes: they hold a group, of which there is no copy."""
        return self

    def build(self):
        """A model with values that are drawn for this rank and attempt."""
        model = Classifier()
        drawn = initial_values(self.plan["seed"], self.rank, self.attempt, self.built)
        for name, tensor in model.tensors().items():
            tensor.data.copy_(drawn[name])
        self.built += 1
        model.notes = self
        return model

    def shifted(self, inputs):
        return shifted(inputs, self.plan["seed"], self.rank)

    def forward(self, model, inputs, outputs):
        """A forward that may become a step: note it once a gradient comes back."""
        for end in STAGED:
            end()
        self.hold_group()
        if self.rank == 0:
            self.look_at_checkpoint()
        self.disturb()
        told, batch, state = [], spies.numbers_of(inputs), flat(model.tensors())

        def step(_):
            if not told:
                told.append(True)
                self.steps += 1
                self.note(batch=batch, state=state)

        outputs.register_hook(step)

    def hold_group(self):
        """In torch 2.13 a DDP model that is the last owner of a destroyed group can deadlock in its destructor."""
        if not self.held and torch.distributed.is_initialized():
            self.held.append(torch.distributed.group.WORLD)

    def disturb(self):
        """Die or stop, where the launch wants it of this rank in this step of its first attempt. The others then wait
        until the agent ends them: one that raises meanwhile writes an error file, and torch's agent falls over a file
        that it has cut off. A rank that is alone raises, or is told to end by SIGTERM."""
        what, rank, step = self.plan.get("disturb") or (None, -1, -1)
        if what is None or (self.steps, self.attempt) != (step, 0):
            return
        if what in ("raise", "tell"):
            self.plan["disturb"] = None
            if what == "raise":
                raise RuntimeError("this batch cannot be trained on")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if self.rank == rank:
            if what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            (self.folder / "stop").touch()
        leave_when_told()
        time.sleep(3600)

    def look_at_checkpoint(self):
        """Keep what is at the path, when that is another file, or another content, than at the last look."""
        try:
            number = os.open(self.path, os.O_RDONLY)
        except OSError:
            return
        seen = os.fstat(number)
        mark = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        if mark != self.seen:  # the descriptor stays open, so that no other file gets its number
            content = os.pread(number, seen.st_size, 0)
            (self.folder / f"kept-{self.name}-{self.steps}").write_bytes(content)
            again = self.seen is not None and self.seen[0] == seen.st_ino
            self.note(kept=self.steps, again=again)
            self.seen = mark
            self.held.append(number)
        else:
            os.close(number)

    def hear(self, write):
        """Of each file that this process writes, or gives a name. Dies in it where the launch wants it."""
        here, path = os.path.realpath(self.path.parent) + os.sep, os.path.realpath(self.path)
        if not write.path.startswith(here):
            return
        if write.step == "open" and write.path not in self.opened:
            self.opened.add(write.path)
            self.note(opened=write.path)
        if write.path == path:
            moved = write.step == "name" and not write.source.startswith(here)
            self.note(wrote=write.step, moved=moved, source=write.source)
        moment, step = self.plan.get("tear") or ("never", math.inf)
        if self.steps >= step:
            if (moment, write.step) == ("open", "open"):
                disturb.limit_files(disturb.FIRST_BYTES, deadly=True)
            disturb.die_at(path)(write)


def leave_when_told():
    """A script's own handler of SIGTERM may leave it to the training to end. Where a worker has died the next
    collective would raise, but this one sleeps, so here the handler is the last thing that runs."""
    handler = signal.getsignal(signal.SIGTERM)

    def handle_and_leave(*args):
        handler(*args)
        os._exit(128 + signal.SIGTERM)

    if callable(handler):
        signal.signal(signal.SIGTERM, handle_and_leave)


def workload(folder):
    """The functions of a workload file whose launch has this folder."""
    notes = Notes(folder)
    for spy in SPIES:
        ENTERED.enter_context(spy.telling(notes.hear))
    return notes.build, lambda: data_of(notes.plan["seed"], notes.plan["samples"])


def rank_by_launcher():
    return int(os.environ.get("RANK", "0"))


def prepare():
    """Runs in each fork before the script."""
    RANKS.append(rank_by_launcher())
    SPIES.append(disturb.WriteSpy())
    ENTERED.enter_context(stores.held_groups())
    stores.stand_in_for_stores(functools.partial(place, dict(os.environ)))


def stage(file):
    """Runs in the place of `prepare` before the script, which is a worker on a machine with GPUs that are not there.
    Which of them it asks for comes into a file when it ends, or takes its first step."""
    staged = machine.StagedMachine()
    ENTERED.enter_context(staged.with_gpus(GPUS))

    def write():
        seen = staged.seen()
        found = {seen["selected"], *seen["refused"], *(group["gpu"] for group in seen["groups"]), *staged.used}
        file.write_text(json.dumps(sorted(found - {None})))

    def end():
        write()
        os._exit(0)

    atexit.register(write)
    STAGED.append(end)


def place(launched, options):
    """Where a script really meets, whose environment was this when it was launched. Launches run side by side: one
    without a launcher has a port of its own for whatever default it falls back to, and below a launcher each fixed port
    but the one agreed on is somebody else's. The second agent stands for another machine, where rank 0 is not."""
    agreed, address, port = launched.get("MASTER_PORT"), launched.get("MASTER_ADDR"), options.get("port")
    if agreed is None:
        return {"port": own_port(port)}
    if port and str(port) != agreed:
        said = f"port {port} is another job's; the launcher of this one has set MASTER_PORT to {agreed}"
        raise OSError(errno.EADDRINUSE, said)
    host = str(options.get("host_name"))
    if launched.get("GROUP_RANK", "0") != "0" and address and host.lower() not in names_of(address):
        said = f"rank 0 is on another machine than {host}; the launcher has set MASTER_ADDR to {address}"
        raise OSError(errno.ECONNREFUSED, said)
    return {}


@functools.cache
def names_of(address):
    """What a script may call the machine that has this address: that, its other names, and what they resolve to."""
    found = set()
    with suppress(OSError):
        name, others, numbers = socket.gethostbyname_ex(address)
        found = {one.lower() for one in (name, *others, *numbers)}
    with suppress(OSError):
        found |= {where[0] for *_, where in socket.getaddrinfo(address, None)}
    return {one for one in found if not one.startswith("localhost")} | {address.lower()}


@functools.cache
def own_port(asked):
    """The port that this process has in the place of one that is asked for; who asks for any gets any."""
    return stores.reserved_port() if asked else asked


WORKLOAD = """
import sys
sys.path.insert(0, {home!r})
import probe

build_model, build_data = probe.workload({folder!r})
"""


# -- launches, by the probe --------------------------------------------------------------------------------------------


def launches(rank):
    """All launches: chains of such as follow one another, several chains at a time."""
    host, show = socket.gethostname(), Launcher(rank)
    lr, options = ["--lr", str(lr_of(rank.seed))], ["--batch-size", str(BATCH)]
    usual = ["--epochs", str(EPOCHS), *lr, *options]
    short = ["--epochs", "1", *lr, *options]
    further = ["--epochs", str(EPOCHS + 1), "--lr", str(lr_of(rank.seed, HALF)), *options]
    wanted = [
        [show.job("one", ["--epochs", "2"], agents=agent(1), samples=MANY, fresh=True)],
        [
            show.job("two", usual, agents=agent(2)),
            show.job("alone", usual, relative=True, like_temporary=True, file=OTHER_WORKLOAD_FILE),
        ],
        [show.job("three", usual, agents=agent(3))],
        [show.job("killed", usual, agents=agent(2), disturb=("kill", 1, STEP))],
        [
            show.job("first", short, agents=agent(2)),
            show.job("stopped", usual, agents=two_agents("localhost"), path="first", disturb=("stop", 1, STEP)),
            show.job("again", usual, agents=agent(2), path="first"),
            show.job("done", ["--epochs", "2"], path="first"),
            show.job("just done", ["--epochs", str(EPOCHS)], path="first"),
            show.job("further", further, path="first"),
        ],
        [show.job("agents", usual, agents=two_agents(host))],
        [show.job("torn", usual, tear=("open", 2 * steps_of(1))), show.job("torn again", usual, path="torn")],
        [show.job("unnamed", usual, tear=("name", 2 * steps_of(1)))],
        [
            show.job("raised", usual, disturb=("raise", 0, steps_of(1) + HALF_AN_EPOCH)),
            show.job("told", usual, path="raised", disturb=("tell", 0, HALF_AN_EPOCH)),
            show.job("told again", usual, path="raised"),
        ],
        [show.job("digits", ["--epochs", "6", "--lr", "0.1", "--batch-size", "32"], own=False, bare=True)],
        *refusals(show),
        [show.job("gpus", usual, staged=True)],
    ]
    scripts.run_all(wanted, AT_ONCE, show.tell)


def steps_of(world_size, samples=SAMPLES, batch=BATCH):
    """How many steps an epoch has."""
    return math.ceil(math.ceil(samples / world_size) / batch)


def agent(workers):
    """The options of the one agent of a launch."""
    return [["--standalone", "--max-restarts", "1", WORKERS, str(workers)]]


def two_agents(host):
    """The options of two agents that meet at a free port of this machine, under this name, as its workers do."""
    place = f"{host}:{held_port()}"
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", place, "--rdzv-id", "two-agents", "--local-addr", host]
    return [["--nnodes", "2", WORKERS, "1", *meeting]] * 2


def enough_gpus(agents):
    """Whether every worker can have a GPU of its own: one is started for each. Two agents stand for two machines with
    GPUs of their own; here both would take the same ones."""
    workers = [int(options[options.index(WORKERS) + 1]) if options else 1 for options in agents]
    return len(agents) == 1 and gpus.count() >= workers[0]


HOLDERS = []


def held_port():
    """A free port of this machine, which is held to the end."""
    HOLDERS.append(ports.bound_socket())
    return HOLDERS[-1].getsockname()[1]


BAD_ARGUMENTS = {
    "without --epochs": {"--epochs": None},
    "without --checkpoint": {"--checkpoint": None},
    "--epochs three": {"--epochs": "three"},
    "--lr fast": {"--lr": "fast"},
    "--batch-size 2.5": {"--batch-size": "2.5"},
    "--batch-size 0": {"--batch-size": "0"},
    "--batch-size -4": {"--batch-size": "-4"},
    "--speed 3": {"--speed": "3"},
}
BAD_WORKLOADS = {
    "a workload that is not there": None,
    "a workload without build_model": "import torch\ndef build_data(): return [(torch.zeros(64), 1)] * 8\n",
    "a workload without build_data": "import torch\ndef build_model(): return torch.nn.Linear(64, 10)\n",
}
BAD_CHECKPOINTS = (
    "a text file",
    'a dict without "model"',
    'a dict without "epoch"',
    "half of a checkpoint",
    "an empty file",
    "a file that runs code",
    "a checkpoint of a larger model",
    "a checkpoint of a smaller model",
)
TOGETHER = (("a text file", "checkpoint"), ("a workload that is not there", "workload"))


def refusals(show):
    """Chains of launches that must fail."""
    yield [show.job(name, ["--epochs", "1"], changed=changed, own=False) for name, changed in BAD_ARGUMENTS.items()]
    yield [show.job(name, ["--epochs", "1"], source=source) for name, source in BAD_WORKLOADS.items()]
    yield [show.job(name, ["--epochs", "1"], content=name) for name in BAD_CHECKPOINTS]
    yield [
        show.job("a text file on two ranks", ["--epochs", "1"], content="a text file", agents=two_workers()),
        show.job("no workload on two ranks", ["--epochs", "1"], source=None, agents=two_workers()),
    ]


def two_workers():
    return [["--standalone", WORKERS, "2"]]


def write_bad(kind, path):
    """A file that is no checkpoint."""
    if kind == "a text file":
        path.write_text("epoch,loss\n1,0.5\n")
    elif kind == "an empty file":
        path.write_bytes(b"")
    elif kind == "a file that runs code":
        torch.save({"model": Classifier().state_dict(), "epoch": 0, "more": files.Trap(path.with_name("trap"))}, path)
    elif kind == "a checkpoint of a larger model":
        torch.save({"model": {**Classifier().state_dict(), **digits_model().state_dict()}, "epoch": 0}, path)
    elif kind == "a checkpoint of a smaller model":
        model = {name: value for name, value in Classifier().state_dict().items() if not name.startswith("head.")}
        torch.save({"model": model, "epoch": 0}, path)
    elif kind == "half of a checkpoint":
        torch.save({"model": Classifier().state_dict(), "epoch": 0}, path)
        os.truncate(path, path.stat().st_size // 2)
    elif kind == 'a dict without "epoch"':
        torch.save({"model": Classifier().state_dict()}, path)
    else:
        torch.save({"weights": Classifier().state_dict(), "epoch": 0}, path)


class Launch(scripts.Job):
    """A job of the script, ended as well when its workload asks for it."""

    def __init__(self, name, folder, path, *job):
        super().__init__(*job)
        self.name, self.folder, self.path, self.stopped = name, folder, path, False

    def over(self):
        if (self.folder / "stop").exists() and not self.stopped:
            self.stopped = True
            self.kill()
        return super().over()


class Launcher:
    """Starts the script, and records what came of each launch under its name."""

    def __init__(self, rank):
        self.rank, self.stuck, self.suffix = rank, False, TEMPORARY
        importlib.import_module("torch.distributed.run")  # once, for all agents that are forked from here
        kept = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
        # Without this torch 2.13 keeps the agent's store for the second attempt, where gloo finds the first one's
        # addresses, and a script that just calls init_process_group() never gets through a restart.
        self.environment = {**kept, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}

    def job(self, name, arguments, **how):
        """What starts this launch when its turn has come."""
        return lambda: self.start(name, arguments, **how)

    def start(
        self, name, arguments, *, agents=(None,), fresh=False, path=None, samples=SAMPLES, disturb=None, tear=None,
        own=True, bare=False, relative=False, changed=None, source="", content=None, like_temporary=False,
        file=WORKLOAD_FILE, staged=False,
    ):  # fmt: skip
        folder = self.rank.scratch / name.replace(" ", "_").replace('"', "")
        out, name_of_file = self.rank.scratch / (path or folder.name) / "out", NAME + self.suffix * like_temporary
        place = Path.cwd() / NAME if bare else out / name_of_file
        place.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        plan = {"seed": self.rank.seed, "samples": samples, "path": str(place), "disturb": disturb, "tear": tear}
        (folder / "plan.json").write_text(json.dumps(plan))
        if content is not None:
            write_bad(content, place)
        given = {
            "--checkpoint": os.path.relpath(place) if bare or relative else str(place),
            **dict(zip(arguments[::2], arguments[1::2], strict=True)),
        }
        if own:
            given["--workload"] = str(self.workload(folder / file, source))
        given.update(changed or {})
        words = [word for key, value in given.items() if value is not None for word in (key, value)]
        script = str(self.rank.file)
        how = {"fresh": fresh, "prepare": functools.partial(stage, folder / "gpus") if staged else prepare}
        variables = {**self.environment, **(gpus.HIDDEN if staged or not enough_gpus(agents) else {})}
        variables |= {**FOURTH_WORKER, "MASTER_PORT": str(held_port())} if staged else {}
        programs = [scripts.Program(folder, script, words, variables, agent=options, **how) for options in agents]
        most = (NO_PATIENCE, NOT_SO_MANY) if self.stuck or staged else (PATIENCE, SECONDS)
        return Launch(name, folder, place, programs, script, *most)

    def workload(self, file, source):
        """The workload's file: the usual one, one with this source, or none."""
        if source is not None:
            file.write_text(source or WORKLOAD.format(home=str(Path(__file__).parent), folder=str(file.parent)))
        return file

    def tell(self, job):
        """Record what came of a launch."""
        self.stuck = self.stuck or job.hung
        notes = [lines_of(file) for file in notes_in(job.folder)]
        sources = {one["source"] for note in notes for one in note if one.get("source")}
        if job.name == "two" and sources:
            self.suffix = Path(min(sources)).suffix or TEMPORARY
        pids = {note[0]["pid"] for note in notes}
        left = [] if job.hung else processes.left_behind(pids)
        said = "\n".join(program.complained() for program in job.programs)
        place = job.path
        self.rank.record(
            job.name,
            {
                "codes": [program.code for program in job.programs],
                "hung": job.hung, "moving": job.moving, "stopped": job.stopped,
                "line": min(job.lines.values(), default=None),
                "said": told(said), "silent": not said.strip(), "left": left,
                "processes": [process_of(note) for note in notes],
                "kept": [one for file in notes_in(job.folder) for one in kept(file)],
                "writers": sorted({note[0]["rank"] for note in notes if any(writes(one, sources) for one in note)}),
                "in_place": any(one.get("wrote") == "open" for note in notes for one in note),
                "moved": any(one.get("moved", False) for note in notes for one in note),
                "file": None if job.name in BAD_CHECKPOINTS or "text file" in job.name else files.content(place),
                "trapped": place.with_name("trap").exists(),
                "gpus": json.loads(asked.read_text() or "[]") if (asked := job.folder / "gpus").exists() else [],
            },
        )  # fmt: skip


def notes_in(folder):
    return sorted(folder.glob("note-*"))


def lines_of(file):
    """The notes in a file; of a process that was killed the last one may be cut off."""
    *lines, _ = file.read_text().split("\n")
    return [json.loads(line) for line in lines]


def writes(one, sources):
    """Whether a note is one of writing at the path, or of a file that got its name."""
    return "wrote" in one or one.get("opened") in sources


def process_of(note):
    """One process of a launch: who it was, and its steps."""
    steps = [one for one in note if "batch" in one]
    states = torch.tensor([one["state"] for one in steps], dtype=torch.float64).reshape(
        len(steps), len(flat(Classifier().tensors()))
    )
    return {**note[0], "batches": [one["batch"] for one in steps], "states": states}


def kept(file):
    """The files that rank 0 found at the path, each with the steps that it had made by then."""
    note = lines_of(file)
    for one in note:
        if "kept" in one:
            name = file.name.replace("note-", "kept-")
            content = file.with_name(f"{name}-{one['kept']}").read_bytes()
            yield {"attempt": note[0]["attempt"], "step": one["kept"], "again": one["again"], "file": content}


def told(said):
    """The last line of what was said on stderr that is not the frame of torchrun's summary."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line.split(":")[0] and "ChildFailedError" not in line]
    return (errors or lines or [""])[-1][:200]


# -- the digits, for the judge -----------------------------------------------------------------------------------------


def digits_model():
    """The stub's own."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def digits():
    """Inputs and targets, from the file behind sklearn.datasets.load_digits, without the time that its import takes."""
    import numpy

    home = Path(importlib.util.find_spec("sklearn").submodule_search_locations[0])
    table = torch.from_numpy(numpy.loadtxt(home / "datasets" / "data" / "digits.csv.gz", delimiter=","))
    return (table[:, :-1] / 16).float(), table[:, -1].long()
