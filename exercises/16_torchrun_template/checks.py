"""Judges the launches of the student's script that the probe recorded.

Every step is judged from what the processes had before it: the values of their models and their batches. What a resumed
run has to come to is what a run of as many ranks came to that nobody disturbed. Ranks in findings are those of the
script's processes.
"""

import math
from itertools import chain

import torch
from torch.nn.functional import cross_entropy, linear

from grader.checks import Tensor, TypedDict, holds, listed, once, replay

STEPS = 20
"""As many dependent steps as a launch makes at most, for tolerances."""
MOST_STEPS = 200
"""More than any launch makes, with one sample a batch too. Each of them is computed again."""
ACCURACY = 0.80
"""Of the digits, after six epochs. The same training in one process reached 0.93 on average and 0.87 at least, over 20
runs."""
WHOLE_EPOCHS = (
    "The next start trains the unfinished epoch from its beginning. What becomes of its samples that these values have "
    "learned from already?"
)
LAUNCHES = {
    "alone": ("python, without a launcher, with workload.v2.py and a relative PATH that has a suffix", 1),
    "one": ("torchrun with 1 worker, without --lr and --batch-size", 1),
    "two": ("torchrun with 2 workers", 2),
    "three": ("torchrun with 3 workers", 3),
    "agents": ("two agents with 1 worker each", 2),
    "killed": ("torchrun with 2 workers and 1 restart, of which rank 1 is killed in the middle of epoch 2", 2),
    "first": ("torchrun with 2 workers and --epochs 1", 2),
    "stopped": ("the same checkpoint with two agents and --epochs 3, stopped in the middle of epoch 3", 2),
    "again": ("the same, started again with one agent", 2),
    "done": ("python with --epochs 2 on a checkpoint of 3 epochs", 1),
    "just done": ("python with --epochs 3 on a checkpoint of 3 epochs", 1),
    "further": ("python with --epochs 4 and half of --lr on a checkpoint of 3 epochs", 1),
    "torn": ("python, killed while it writes a file after epoch 2", 1),
    "unnamed": ("python, killed when a file gets its name after epoch 2", 1),
    "torn again": ("python, started again after it was killed while it wrote", 1),
    "raised": ("python, in which a forward raises in the middle of epoch 2", 1),
    "told": ("python, started again after that, and told to end by SIGTERM in the middle of epoch 2", 1),
    "told again": ("python, started again after it was told to end", 1),
    "gpus": ("RANK 3 with LOCAL_RANK 1, on the second of two machines that have 2 GPUs each", 1),
    "digits": ("python without --workload, with a PATH that names no folder", 1),
}
"""What each launch was, and on how many ranks."""


class Process(TypedDict):
    """A process that trained: the numbers of the samples in each of its batches, and the values before each step."""

    rank: int
    attempt: int
    world_size: int
    pid: int
    batches: list[list[int]]
    states: Tensor


class Kept(TypedDict):
    """What rank 0 found at the path after so many of its steps; whether that was the same file as at its last look."""

    attempt: int
    step: int
    again: bool
    file: bytes


class Launch(TypedDict):
    """What came of a launch: exit codes of its programs, whether it was ended since nothing moved or it moved for ever,
    and at which line it was then; whether it was stopped on purpose; what it said on stderr; its processes, and those
    that were still there afterwards; which ranks wrote the file at the path, and what is there in the end; which GPUs
    it asked for, where some are staged."""

    codes: list[int | None]
    hung: bool
    moving: bool
    stopped: bool
    line: int | None
    said: str
    silent: bool
    left: list[str]
    processes: list[Process]
    kept: list[Kept]
    writers: list[int]
    in_place: bool
    moved: bool
    file: bytes | None
    trapped: bool
    gpus: list[int]


# -- launches ---------------------------------------------------------------------------------------------------------


class Training:
    """One attempt of a launch: the batches and the states of each rank, in rank order."""

    def __init__(self, run, probe, launch, name, attempt=0):
        self.run, self.probe, self.launch, self.name, self.attempt = run, probe, launch, name, attempt
        self.title, self.world_size = LAUNCHES[name]
        found = [one for one in launch["processes"] if one["attempt"] == attempt and one["batches"]]
        ranks = sorted(one["rank"] for one in found)
        wanted, subject = list(range(self.world_size)), f"{self.told}: the ranks that trained"
        seen = f"{listed(ranks)}; {launch['said']}" if ranks else f"none; {launch['said']}"
        run.expect(ranks == wanted, subject, listed(wanted), seen, line=launch["line"])
        self.processes = sorted(found, key=lambda one: one["rank"])
        sizes = {one["world_size"] for one in found}
        run.expect(sizes == {self.world_size}, f"{self.told}: WORLD_SIZE", self.world_size, listed(sorted(sizes)))
        for one in self.processes:
            self.check_batches(one)
        self.steps = min(len(one["batches"]) for one in found)
        self.batches = [one["batches"] for one in self.processes]
        self.states = [self.unpacked(one["states"]) for one in self.processes]

    @property
    def told(self):
        return f"{self.title}, attempt {self.attempt + 1}" if self.attempt else self.title

    def check_batches(self, process):
        """There are samples of the workload in each batch, and a state before each."""
        batches, subject = process["batches"], f"{self.told}: the batches"
        self.run.expect(len(batches) <= MOST_STEPS, f"{self.told}: the steps", f"at most {MOST_STEPS}", len(batches))
        known = all(batch and all(0 <= number < self.samples for number in batch) for batch in batches)
        self.run.expect(known, subject, "samples of the workload", "other inputs", ranks=[process["rank"]])
        states = process["states"]
        self.run.expect(states.shape[:1] == (len(batches),), subject, "a state before each", "more, or fewer")

    def unpacked(self, states):
        """The model's tensors by name before each step, from all values in a row."""
        like = self.probe.Classifier().tensors()
        names = sorted(like)
        sizes = [like[name].numel() for name in names]
        right = states.dtype == torch.float64 and states.ndim == 2 and states.shape[-1] == sum(sizes)
        self.run.expect(right, f"{self.told}: the states", "one of the workload's model before each step", "others")
        parts = [state.split(sizes) for state in states]
        return [{n: p.reshape(like[n].shape) for n, p in zip(names, part, strict=True)} for part in parts]

    def gradient(self, rank, step):
        """The gradient of the mean cross-entropy over a rank's batch, at the rank's own values."""
        state, numbers = self.states[rank][step], self.batches[rank][step]
        data = self.probe.data_of(self.run.seed, self.samples)
        inputs, targets = data.inputs[numbers], data.targets[numbers]
        inputs = self.probe.shifted(inputs, self.run.seed, rank)
        logits, names = self.probe.Classifier.compute, [name for name in state if name != "scale"]
        return replay.gradient(lambda tensors: cross_entropy(logits(tensors, inputs), targets), state, names)

    @property
    def samples(self):
        return self.probe.MANY if self.name == "one" else self.probe.SAMPLES

    def gradients(self, step):
        return [self.gradient(rank, step) for rank in range(self.world_size)]

    def epochs(self, count):
        """For each epoch the batches of each rank, where all of them have as many steps."""
        lengths = sorted({len(batches) for batches in self.batches})
        right = len(lengths) == 1 and lengths[0] % count == 0
        self.run.expect(right, f"{self.told}: steps in {count} epochs", "as many in each", f"{listed(lengths)} in all")
        size = lengths[0] // count
        return [[batches[i * size : (i + 1) * size] for batches in self.batches] for i in range(count)]


def launch_of(runs, name):
    run = runs("launches", recorded=[name])[0]
    return run, run[0].read(name, Launch)


def expect_ended(run, launch, name):
    """It ended by itself, and well."""
    title, line = LAUNCHES[name][0], launch["line"]
    run.expect(not launch["hung"], title, "an end", never(launch), line=line)
    codes = [code for code in launch["codes"] if code != 0]
    seen = f"{codes[0]}; {launch['said']}" if codes else ""
    run.expect(not codes, f"{title}: the exit code", 0, seen, line=line)


def never(launch):
    """How a launch did not end, and what one of its processes may have raised meanwhile."""
    how = "it went on and on" if launch["moving"] else "no process moved any more"
    return f"{how}; {launch['said']}" if "Error" in launch["said"] else how


@once
def training(runs, probe, name, attempt=0):
    """What a launch trained that ended well."""
    run, launch = launch_of(runs, name)
    expect_ended(run, launch, name)
    return Training(run, probe, launch, name, attempt)


def several(runs, probe):
    """The launches of several ranks that nobody disturbed."""
    return [training(runs, probe, name) for name in ("two", "three")]


def all_that_ran(runs, probe, names=("alone", "two", "three")):
    """Those of these launches that trained and ended well: that each of them does is the business of other checks."""
    ran = [training(runs, probe, name) for name in names if holds(training, runs, probe, name)]
    return ran or [training(runs, probe, names[0])]


def steps_of_epoch(runs, probe, name="two"):
    """How many steps an epoch has, from a launch that nobody disturbed."""
    whole = training(runs, probe, name)
    return len(whole.epochs(probe.EPOCHS)[0][0])


def measured(found):
    """The learning rate that explains the first step best."""
    found.run.expect(len(found.batches[0]) > 1, f"{found.told}: its steps", "several", "one")
    mean, (before, after) = replay.mean(found.gradients(0)), found.states[0][:2]
    return replay.projection({name: before[name] - after[name] for name in mean}, mean)


def rate_of(runs, probe):
    """The learning rate of the launch that is alone, if there is one, else that which was asked for."""
    [found] = all_that_ran(runs, probe, ("alone", "two"))[:1]
    return measured(found) if found.name == "alone" else probe.lr_of(found.run.seed)


# -- it runs ----------------------------------------------------------------------------------------------------------


def test_runs_alone(runs, probe):
    """Plain python trains on one rank and ends with exit code 0"""
    training(runs, probe, "alone")


def test_runs_under_torchrun(runs, probe):
    """torchrun trains on 1, 2 and 3 ranks and ends with exit code 0"""
    for name in ("one", "two", "three"):
        found = training(runs, probe, name)
        left = found.launch["left"]
        found.run.expect(not left, f"{found.title}: processes that are left", "none", listed(left))


def test_two_agents(runs, probe):
    """Two agents on one machine train as one job"""
    found = training(runs, probe, "agents")
    expect_shares(found, probe.EPOCHS)
    expect_identical(found)
    expect_own_gpus(runs, probe)


def expect_own_gpus(runs, probe):
    """A worker on the second machine asks for no GPU that is not there. Whether it uses any is left to it."""
    run, launch = launch_of(runs, "gpus")
    others = [gpu for gpu in launch["gpus"] if gpu >= probe.GPUS]
    wanted, subject = "GPU 1, as LOCAL_RANK says", f"{LAUNCHES['gpus'][0]}: what it selects"
    run.expect(not others, subject, wanted, f"GPU {listed(others)}, which is not there")


# -- it trains --------------------------------------------------------------------------------------------------------


def test_starts_from_rank_0(runs, probe):
    """All replicas start from rank 0's model, buffers included, and stay equal"""
    for found in several(runs, probe):
        run, used = found.run, found.states[0][0]
        built = [probe.initial_values(run.seed, 0, 0, number) for number in range(3)]
        wanted = next((state for state in built if all(state[name].equal(used[name]) for name in state)), built[0])
        for rank, states in enumerate(found.states):
            own = {"this rank's own first values": probe.initial_values(run.seed, rank, 0, 0)} if rank else {}
            subject = f"{found.title}, before the first step:"
            run.expect_close(states[0], wanted, subject, alternatives=own, budget=2, ranks=[rank])
        expect_identical(found)


def expect_identical(found):
    for step in range(found.steps):
        for rank, states in enumerate(found.states):
            same = all(states[step][name].equal(value) for name, value in found.states[0][step].items())
            subject = f"{found.told}: the replicas before step {step + 1}"
            found.run.expect(same, subject, "those of rank 0, bit for bit", "other values", ranks=[rank])


def test_shards(runs, probe):
    """In every epoch the ranks share all samples equally, with as little repetition as possible"""
    for found in all_that_ran(runs, probe):
        expect_shares(found, probe.EPOCHS)


def expect_shares(found, epochs):
    samples, size = found.samples, found.world_size
    share = -(-samples // size)
    for epoch, parts in enumerate(found.epochs(epochs), 1):
        drawn = [list(chain(*batches)) for batches in parts]
        for rank, numbers in enumerate(drawn):
            subject = f"{found.told}: samples in epoch {epoch}"
            found.run.expect_equal(len(numbers), share, subject, ranks=[rank])
        missed = sorted(set(range(samples)).difference(*drawn))
        subject, seen = f"{found.told}: the union of the shards in epoch {epoch}", f"without {listed(missed)}"
        found.run.expect(not missed, subject, f"all {samples} samples", seen)


def test_batches(runs, probe):
    """--batch-size is that of a rank, the short last batch is used, and --epochs counts"""
    for found in all_that_ran(runs, probe):
        for rank, batches in enumerate(found.batches):
            expect_batches(found, rank, [len(batch) for batch in batches], probe)


def expect_batches(found, rank, sizes, probe):
    right = max(sizes) <= probe.BATCH and sum(size < probe.BATCH for size in sizes) <= probe.EPOCHS
    wanted = f"{probe.BATCH}, and what is left at the end of an epoch"
    found.run.expect(right, f"{found.told}: the batch sizes", wanted, listed(sizes), ranks=[rank])
    epochs = sum(sizes) / math.ceil(found.samples / found.world_size)
    wanted, subject = probe.EPOCHS, f"{found.told}: how many epochs were trained"
    found.run.expect(wanted - 1 < epochs < wanted + 1, subject, wanted, f"{epochs:.3g}", ranks=[rank])


def test_reshuffles(runs, probe):
    """The whole data set is reshuffled in every epoch"""
    for found in all_that_ran(runs, probe):
        orders = [list(chain(*parts[0])) for parts in found.epochs(probe.EPOCHS)]
        for epoch, order in enumerate(orders, 1):
            subject = f"{found.told}: the samples of epoch {epoch}"
            found.run.expect(order != sorted(order), subject, "shuffled", "in the data set's order", ranks=[0])
        expect_all_different(found, orders)
        if found.world_size > 1:
            expect_all_different(found, [sorted(order) for order in orders])


def expect_all_different(found, orders):
    again = [numbers for number, numbers in enumerate(orders) if numbers in orders[:number]]
    seen = f"the same in several, {listed(again[0])}" if again else ""
    found.run.expect(not again, f"{found.told}: rank 0's samples", "others in every epoch", seen, ranks=[0])


def test_same_as_one_process(runs, probe):
    """Every step is plain SGD on the mean cross-entropy over all ranks' batches"""
    rate = rate_of(runs, probe)
    for found in all_that_ran(runs, probe, ("alone", "two", "three", "agents")):
        expect_steps(found, rate)


def expect_steps(found, rate):
    for step in range(found.steps - 1):
        mean = replay.mean(found.gradients(step))
        for rank in range(found.world_size):
            expect_step(found, step, rank, rate, mean)


def expect_step(found, step, rank, rate, mean):
    """What a rank took off its parameters in a step, divided by the learning rate."""
    before, after = found.states[rank][step : step + 2]
    used = {name: (before[name] - after[name]) / rate for name in mean}
    used = replay.but_rounding(used, mean, before, after, rate)
    subject = f"{found.told}: the gradient applied in step {step + 1} to"
    how = {"steps": STEPS, "budget": 2, "ranks": [rank]}
    if not holds(found.run.expect_close, used, mean, subject, **how):  # to explain takes longer than to compare
        found.run.expect_close(used, mean, subject, alternatives=mistakes(found, step, rank, mean), **how)


def mistakes(found, step, rank, mean):
    """What would have been applied, had the script made a well-known mistake."""
    size, earlier = found.world_size, [replay.mean(found.gradients(number)) for number in range(step + 1)]
    batch = len(found.batches[rank][step])
    known = {
        "the sum over the batch, not the mean": replay.combined([mean], [batch]),
        "the gradients of earlier steps are still in it": replay.total(*earlier),
        "this step has momentum": replay.combined(earlier, [0.9 ** (step - number) for number in range(step + 1)]),
    }
    if size > 1:
        known["the gradient of this rank's own batch, not the mean over the ranks"] = found.gradient(rank, step)
        known[f"world_size ({size}) times the mean, or such a learning rate"] = replay.combined([mean], [size])
        known[f"the mean divided by world_size ({size}) once more"] = replay.combined([mean], [1 / size])
    return known


def test_options(runs, probe):
    """--lr is the learning rate; where they are left out it is 0.1, and a batch has 32 samples"""
    given, without = all_that_ran(runs, probe, ("alone", "two"))[0], training(runs, probe, "one")
    for found, lr in ((given, probe.lr_of(given.run.seed)), (without, 0.1)):
        expect_rate(found, lr)
    sizes = [len(batch) for batch in without.batches[0]]
    without.run.expect_equal(max(sizes), 32, f"{without.title}: the batch size")
    if holds(training, runs, probe, "further"):  # a file that cannot be gone on with is another check's business
        expect_rate(training(runs, probe, "further"), probe.lr_of(given.run.seed, probe.HALF))


def expect_rate(found, lr):
    found.run.expect_close(measured(found), lr, f"{found.title}: the learning rate", steps=STEPS, world_size=None)


# -- the checkpoint ---------------------------------------------------------------------------------------------------


def test_checkpoint(runs, probe):
    """The checkpoint loads with weights_only=True and holds the bare model's values and the epochs that are done"""
    rate = rate_of(runs, probe)
    for found in all_that_ran(runs, probe, ("alone", "two", "three", "agents")):
        before, gradients = found.states[0][-1], found.gradients(found.steps - 1)
        end = before
        if holds(expect_steps, found, rate):  # else it is another check's business what the last step comes to
            end = before | {name: before[name] - rate * value for name, value in replay.mean(gradients).items()}
        expect_checkpoint(found, found.launch["file"], probe.EPOCHS, end, before)


def expect_checkpoint(found, data, epochs, end, older=None, hint=None):
    """A file with this state, after so many epochs; where it is the `older` one, with any that is not."""
    run, subject = found.run, f"{found.told}: the checkpoint"
    content = run.expect_loads(data, subject, wanted="a dict", missing="a file at PATH")
    missing = [key for key in ("model", "epoch") if key not in content]
    run.expect(not missing, subject, '"model" and "epoch" in it', f"no {' and no '.join(missing)}")
    model = run.expect_kind(content["model"], dict[str, Tensor], f'{subject}\'s "model"')
    run.expect_like(model, end, f"{subject}'s entries")
    number = done_of(content)
    run.expect(number == epochs, f'{subject}\'s "epoch"', f"{epochs}, since so many are done", str(number)[:60])
    if end is not older:
        run.expect_close(model, end, f"{subject}'s", stale=older, steps=STEPS, budget=3, hint=hint)
    elif holds(run.expect_close, model, older, subject):
        run.fail(f"{subject}'s values", expected="those after the last step", actual="those before it")


def done_of(content):
    """The number of epochs in a checkpoint: an int, or a tensor of one."""
    done = content.get("epoch")
    if isinstance(done, torch.Tensor):
        return done.item() if done.numel() == 1 else "a tensor of several"
    return done


def test_every_epoch(runs, probe):
    """After every epoch the file is there anew"""
    for found in all_that_ran(runs, probe):
        size = len(found.epochs(probe.EPOCHS)[0][0])
        for epoch in range(1, probe.EPOCHS):
            expect_kept(found, epoch, epoch * size)


def expect_kept(found, epoch, step):
    """What rank 0 has found at the path when it began with the step."""
    files = [one for one in found.launch["kept"] if one["attempt"] == found.attempt and one["step"] <= step]
    subject = f"{found.told}: the file when epoch {epoch + 1} begins"
    found.run.expect(files, subject, f"a checkpoint of epoch {epoch}", "none")
    last = max(files, key=lambda one: one["step"])["file"]
    content = found.run.expect_loads(last, subject, wanted="a dict")
    done = done_of(content)
    found.run.expect(done == epoch, f'{subject}: its "epoch"', epoch, str(done)[:60])
    model = content.get("model")
    same = isinstance(model, dict) and all(
        isinstance(model.get(name), torch.Tensor) and model[name].dtype == value.dtype and model[name].equal(value)
        for name, value in found.states[0][step].items()
    )
    found.run.expect(same, f'{subject}: its "model"', "the values at the end of that epoch", "others")


def test_rank_0_alone(runs, probe):
    """Rank 0 alone writes the file"""
    agents = ["agents"] if holds(training, runs, probe, "agents") else []  # else it is another check's business
    for name in ("three", *agents, "first"):
        run, launch = launch_of(runs, name)
        expect_ended(run, launch, name)
        others = [rank for rank in launch["writers"] if rank]
        run.expect(not others, f"{LAUNCHES[name][0]}: who writes the file", "rank 0", listed(others), ranks=others)


def test_one_step(runs, probe):
    """The file is replaced in one step, so that whoever is killed while saving leaves the older one whole"""
    for found in all_that_ran(runs, probe):
        subject, wanted = f"{found.told}: the file at the end of an epoch", "another file in the place of the old one"
        again = found.launch["in_place"] or any(one["again"] for one in found.launch["kept"])
        found.run.expect(not again, subject, wanted, "the old one, written over")
        wanted, seen = "a name for a file of the same folder", "for one of another folder, which may be another disk"
        found.run.expect(not found.launch["moved"], subject, wanted, seen)
    size = steps_of_epoch(runs, probe, "alone") if holds(training, runs, probe, "alone") else probe.steps_of(1)
    for name in ("torn", "unnamed"):
        run, launch = launch_of(runs, name)
        run.expect(not launch["hung"], LAUNCHES[name][0], "an end", never(launch), line=launch["line"])
        torn = Training(run, probe, launch, name)
        done = torn.steps // size - 1
        run.expect(done > 0, f"{torn.told}: its steps", f"those of {probe.EPOCHS - 1} epochs", torn.steps)
        if 0 not in launch["codes"]:
            expect_checkpoint(torn, launch["file"], done, torn.states[0][done * size])


# -- stopped, and started again ---------------------------------------------------------------------------------------


def test_resumes(runs, probe):
    """A job that was stopped goes on with the epoch after when it is started again, and comes to the same end"""
    whole, size = training(runs, probe, "two"), steps_of_epoch(runs, probe)
    first, again = training(runs, probe, "first"), training(runs, probe, "again")
    run, launch = launch_of(runs, "stopped")
    run.expect(not launch["hung"], LAUNCHES["stopped"][0], "a start", never(launch), line=launch["line"])
    stopped = Training(run, probe, launch, "stopped")
    done = 1 + probe.STEP // size
    expect_goes_on(stopped, whole, 1, size)
    expect_goes_on(again, whole, done, size)
    run.expect(first.steps == size, f"{first.title}: its steps", size, first.steps)
    wanted = (probe.EPOCHS - done) * size
    run.expect(again.steps == wanted, f"{again.title}: its steps", wanted, again.steps)
    expect_same_end(probe, whole, again)
    if holds(training, runs, probe, "alone"):  # else it is another check's business
        expect_whole_epochs(runs, probe)


def expect_whole_epochs(runs, probe):
    """Who fails in the middle of an epoch, or is told to end, leaves a file of whole epochs, from which the next start
    goes on. Told to end, a run may bring its epoch to an end before."""
    whole, size = training(runs, probe, "alone"), steps_of_epoch(runs, probe, "alone")
    done = 0
    for name in ("raised", "told"):
        run, launch = launch_of(runs, name)
        run.expect(not launch["hung"], LAUNCHES[name][0], "an end", never(launch), line=launch["line"])
        found = Training(run, probe, launch, name)
        if name == "told":
            expect_goes_on(found, whole, done, size)
        done = expect_file_of_epochs(probe, found, whole, size)
        if name == "raised":
            right, subject = 0 not in launch["codes"] or done == probe.EPOCHS, f"{found.told}: the exit code"
            run.expect(right, subject, f"another than 0, since {done} of {probe.EPOCHS} epochs are done", 0)
            if done == probe.EPOCHS:
                return  # it has tried once more, and there is nothing more to train
    if done < probe.EPOCHS:
        again = training(runs, probe, "told again")
        expect_goes_on(again, whole, done, size)
        expect_same_end(probe, whole, again)


def expect_file_of_epochs(probe, found, whole, size):
    """The file holds the values that a run which nobody disturbed has after as many epochs as it says; how many."""
    content = found.run.expect_loads(found.launch["file"], f"{found.told}: the checkpoint", wanted="a dict")
    done, subject = done_of(content), f'{found.told}: the checkpoint\'s "epoch"'
    found.run.expect(done in range(1, probe.EPOCHS + 1), subject, f"1 to {probe.EPOCHS}", str(done)[:60])
    if done == probe.EPOCHS:
        expect_same_end(probe, whole, found)
    else:
        expect_checkpoint(found, found.launch["file"], done, whole.states[0][int(done) * size], hint=WHOLE_EPOCHS)
    return int(done)


def expect_goes_on(found, whole, done, size):
    """Its first epoch is the one after so many of a run that nobody disturbed, in its samples and its values."""
    length = min(found.steps, size)
    whole.run.expect(done * size < whole.steps, f"{whole.told}: its steps", f"more than {done * size}", whole.steps)
    own = [batches[:length] for batches in found.batches]
    same = [epoch for epoch in range(whole.steps // size) if own == steps_from(whole, epoch * size, length)]
    seen = f"those of epoch {same[0] + 1}" if same else "none that it has in any epoch"
    subject = f"{found.told}: the samples of its first epoch"
    wanted = f"those that epoch {done + 1} has in a run that nobody disturbed"
    found.run.expect(own == steps_from(whole, done * size, length), subject, wanted, seen)
    state, older = whole.states[0][done * size], {"the values that training begins with": whole.states[0][0]}
    subject = f"{found.told}: before its first step,"
    for rank, states in enumerate(found.states):
        found.run.expect_close(states[0], state, subject, steps=STEPS, alternatives=older, budget=2, ranks=[rank])


def steps_from(whole, first, count):
    """So many batches of each rank."""
    return [batches[first : first + count] for batches in whole.batches]


def expect_same_end(probe, whole, found):
    """The checkpoint in the end is that of a run that nobody disturbed."""
    content = whole.run.expect_loads(whole.launch["file"], f"{whole.told}: the checkpoint", wanted="a dict")
    end = whole.run.expect_kind(content.get("model"), dict[str, Tensor], f'{whole.told}: the checkpoint\'s "model"')
    expect_checkpoint(found, found.launch["file"], probe.EPOCHS, end)


def test_survives_a_torn_save(runs, probe):
    """A run that was killed while it saved is started again and comes to the same end"""
    whole, size = training(runs, probe, "alone"), steps_of_epoch(runs, probe, "alone")
    run, launch = launch_of(runs, "torn")
    torn = Training(run, probe, launch, "torn")
    if 0 in launch["codes"]:  # what writes its files is out of the workload's reach
        expect_same_end(probe, whole, torn)
        return
    again = training(runs, probe, "torn again")
    expect_goes_on(again, whole, torn.steps // size - 1, size)
    expect_same_end(probe, whole, again)


def test_restarts(runs, probe):
    """After a worker was killed in the middle of an epoch, torchrun's restart goes on from the checkpoint"""
    whole, size = training(runs, probe, "two"), steps_of_epoch(runs, probe)
    second = training(runs, probe, "killed", attempt=1)
    done = probe.STEP // size
    if done:  # else it was killed before there was a checkpoint
        expect_goes_on(second, whole, done, size)
        expect_same_end(probe, whole, second)


def test_nothing_more(runs, probe):
    """Where E or more epochs are done nothing is trained, and the exit code is 0"""
    again = training(runs, probe, "again")
    for name in ("done", "just done"):
        run, launch = launch_of(runs, name)
        expect_ended(run, launch, name)
        title, steps = LAUNCHES[name][0], [len(one["batches"]) for one in launch["processes"]]
        run.expect(not any(steps), f"{title}: training steps", "none", max(steps, default=0))
        content = run.expect_loads(launch["file"], f"{title}: the checkpoint", wanted="a dict")
        before = run.expect_loads(again.launch["file"], f"{again.title}: the checkpoint", wanted="a dict")
        models = [run.expect_kind(one.get("model"), dict[str, Tensor], "the model") for one in (content, before)]
        same = done_of(content) == done_of(before) and holds(run.expect_close, *models, "the model")
        run.expect(same, f"{title}: the checkpoint", "as it was", "something else")


# -- what is refused --------------------------------------------------------------------------------------------------


def test_bad_arguments(runs, probe):
    """Bad arguments end with a non-zero exit code and a message on stderr"""
    expect_all_refused(runs, probe, probe.BAD_ARGUMENTS)


def test_bad_workload(runs, probe):
    """So does a workload that is missing or lacks a function"""
    expect_all_refused(runs, probe, [*probe.BAD_WORKLOADS, "no workload on two ranks"])


def test_bad_checkpoint(runs, probe):
    """So does a PATH that holds no checkpoint; and no code in it is run"""
    expect_all_refused(runs, probe, [*probe.BAD_CHECKPOINTS, "a text file on two ranks"])
    run, launch = launch_of(runs, "a file that runs code")
    run.expect(not launch["trapped"], "A file that runs code when it is unpickled", "none of it is run", "it was run")


def expect_all_refused(runs, probe, names):
    """A script that refuses everything refuses nothing: it has to train where all is right."""
    if not holds(training, runs, probe, "one"):
        training(runs, probe, "alone")
    for name in names:
        run, launch = launch_of(runs, name)
        run.expect(not launch["hung"], f"Started with {name}", "an end", never(launch), line=launch["line"])
        run.expect(0 not in launch["codes"], f"Started with {name}: the exit code", "another than 0", 0)
        run.expect(not launch["silent"], f"Started with {name}: stderr", "a message", "nothing")


# -- without a workload -----------------------------------------------------------------------------------------------


def test_digits(runs, probe):
    """Without a workload the stub's model learns scikit-learn's digits"""
    run, launch = launch_of(runs, "digits")
    expect_ended(run, launch, "digits")
    subject = f"{LAUNCHES['digits'][0]}: the checkpoint"
    content = run.expect_loads(launch["file"], subject, wanted="a dict", missing="a file at PATH")
    model = run.expect_kind(content.get("model"), dict[str, Tensor], f'{subject}\'s "model"')
    run.expect_like(model, probe.digits_model().state_dict(), f"{subject}'s entries")
    inputs, targets = probe.digits()
    hidden = linear(inputs, model["0.weight"], model["0.bias"]).relu()
    right = float((linear(hidden, model["2.weight"], model["2.bias"]).argmax(1) == targets).double().mean())
    run.expect(right >= ACCURACY, f"{subject}: digits told right", f"at least {ACCURACY:.0%}", f"{right:.1%}")
