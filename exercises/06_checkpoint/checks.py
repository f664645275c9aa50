"""Judges the recorded runs of `save_checkpoint` and `load_checkpoint`.

What a checkpoint must hold, and where training resumed from it must arrive, is computed here: `Training` repeats the
training in one process, for any list of ranks.
"""

import copy

from torch.nn.functional import mse_loss

from grader.checks import Attempt, CheckFailed, Tensors, error_text, replay

STEPS = 4
"""Steps of training whose rounding is allowed for everywhere; after fewer of them that is a little more than needed."""


class Loaded(Attempt):
    """One call of load_checkpoint: what it returned, `epoch` if it was an int; the model's values after it, and whether
    they are still on the device where they were."""

    returned: str
    epoch: int | None
    state: Tensors
    stayed: bool


class Disturbed(Attempt):
    """One call of save_checkpoint with something in its way, and the bytes of the file at path after it."""

    file: bytes | None


# What training computes


class Training:
    """Data-parallel training in one process, from the model that rank `first` has of a place. `state` holds the model's
    values by name, bare keys, all buffers included."""

    def __init__(self, probe, run, kind, *place, first=0):
        net, (optimizer_class, self.options) = probe.Net(run[first].secret, *place), probe.OPTIMIZERS[kind]
        self.probe, self.run, self.kind, self.decays = probe, run, kind, 0
        self.trained = [name for name, parameter in net.named_parameters() if parameter.requires_grad]
        self.optimizer = replay.Optimizer(replay.RULES[optimizer_class.__name__], net.state())

    @property
    def state(self):
        return self.optimizer.values

    def train(self, ranks, steps):
        for step in steps:
            gradients = [self.gradient(rank, step) for rank in ranks]
            self.optimizer.step(replay.mean(gradients), self.options_of)
            self.state["module.forwards"] = self.state["module.forwards"] + 1
            self.decays += 1
        return self

    def gradient(self, rank, step):
        """The gradient of one rank's mean loss."""
        inputs, targets = self.probe.batch(self.run[rank].secret, step)
        return replay.gradient(
            lambda tensors: mse_loss(self.probe.Net.compute(tensors, inputs), targets), self.state, self.trained
        )

    def options_of(self, name):
        """The options of now for a parameter."""
        options = self.probe.GROUPS[self.kind][self.probe.group_of(name)]
        return {**self.options, **options, "lr": options["lr"] * self.probe.DECAY**self.decays}

    def without(self, what):
        """The same as of now, but the optimizer has forgotten something: "state" or "rates"."""
        other = copy.copy(self)
        other.optimizer = copy.deepcopy(self.optimizer)
        if what == "state":
            other.optimizer.memory.clear()
        else:
            other.decays = 0
        return other


def everyone(run):
    return range(run.world_size)


def saved_training(probe, run, kind):
    """Training up to the checkpoint of the case `resume`."""
    return Training(probe, run, kind).train(everyone(run), range(probe.BEFORE))


def kinds(probe, run):
    """(kind, how the saved model was handed in, the other way, epoch) for both optimizers of the case `resume`."""
    how = {"sgd": ("wrapped", "bare"), "adamw": ("bare", "wrapped")}
    return [(kind, *how[kind], epoch) for kind, epoch in probe.epochs(run.seed).items()]


# What the ranks recorded


def expect_success(rank, name, subject):
    """What the rank recorded under `name` is no exception."""
    rank.expect_success(rank.read(name, Attempt), subject)


def expect_loaded(rank, name, state, epoch, what):
    """The rank loaded without an exception, and has the epoch and the model's values now."""
    loaded = rank.read(name, Loaded)
    rank.expect_success(loaded, f"loading {what}")
    right, subject = loaded["epoch"] == epoch, f"what load_checkpoint returned, {what}"
    rank.expect(right, subject, f"the int {epoch}", loaded["returned"])
    rank.expect_close(loaded["state"], state, f"the model after loading, {what}:", steps=STEPS, budget=2)
    subject = f"the parameters' device after loading, {what}"
    rank.expect(loaded["stayed"], subject, "the same as before", "another one")


def expect_state(rank, name, state, subject, **how):
    """The model's values that the rank recorded under `name`."""
    rank.expect_close(rank.read(name, Tensors), state, subject, steps=STEPS, budget=2, **how)


def holds(rank, data, epoch):
    """Whether a file's bytes are a whole checkpoint of that epoch."""
    try:
        content = rank.expect_loads(data, "the file")
        return rank.expect_kind(content.get("epoch"), int, "the epoch") == epoch
    except CheckFailed:
        return False


def condition(rank, data, old):
    """What has become of a file, in words."""
    if data is None:
        return "there is no file"
    if data == old:
        return "the old file"
    return "a whole new file" if holds(rank, data, 2) else f"a file of {len(data)} bytes that does not load"


# The basic path, and who writes


def test_saves_and_loads(runs, probe):
    """What one rank saves, it can load: model, epoch, and no exception"""
    alone, *_ = runs("resume")
    for kind, *_ in kinds(probe, alone):
        expect_success(alone[0], f"{kind}_saved", f"saving with {kind}")
    (kind, _, _, epoch), *_ = kinds(probe, alone)
    state = saved_training(probe, alone, kind).state
    expect_loaded(alone[0], f"{kind}_wrapped", state, epoch, "on one rank")


def test_rank_0_alone(runs):
    """Rank 0 alone writes, and leaves one file and nothing else"""
    for run in runs("resume", finished=False):
        for rank in run:
            written = rank.read("writes", list[str]) if "writes" in rank else []
            rank.expect(rank.rank == 0 or not written, "the rank", "no file written", ", ".join(written))
        run.require_finished()
        for rank in run:
            expect_success(rank, "sgd_saved", "saving with sgd")
            expect_success(rank, "adamw_saved", "saving with adamw")
        found = run[0].read("files", list[str])
        run[0].expect_equal(found, ["adamw.pt", "sgd.pt"], "the files after saving adamw.pt and sgd.pt")


def test_file_content(runs, probe):
    """The file holds model, optimizer and epoch, with the bare model's keys"""
    for run in runs("resume"):
        for kind, how, _, epoch in kinds(probe, run):
            what, state = f"saved from a {how} model", saved_training(probe, run, kind).state
            expect_content(run[0], run[0].read(f"{kind}_file", bytes | None), epoch, state, what, probe.KEYS)


def expect_content(rank, data, epoch, state, what, keys):
    """The file's bytes hold these keys, the epoch, and the model's values under their names."""
    content = rank.expect_loads(data, f"the file {what}", wanted="a dict", missing="a file at path")
    subject, wanted = f"the keys of the file {what}", ", ".join(map(repr, keys))
    found = [key for key in content if isinstance(key, str)]
    rank.expect(set(keys) <= set(found), subject, wanted, ", ".join(map(repr, found)))
    rank.expect_kind(content["epoch"], int, f'"epoch" in the file {what}')
    rank.expect_equal(content["epoch"], epoch, f'"epoch" in the file {what}')
    values = rank.expect_kind(content["model"], Tensors, f'"model" in the file {what}')
    rank.expect_equal(sorted(values), sorted(state), f'the keys of "model" in the file {what}')
    rank.expect_close(values, state, f'"model" in the file {what}:', steps=STEPS, budget=2)


# Loading


def test_every_rank_restored(runs, probe):
    """Every rank gets the epoch and the model's values"""
    for run in runs("resume"):
        for kind, how, _, epoch in kinds(probe, run):
            state = saved_training(probe, run, kind).state
            for rank in reversed(list(run)):
                expect_loaded(rank, f"{kind}_{how}", state, epoch, f"saved and loaded {how}")


def test_wrapped_or_bare(runs, probe):
    """A wrapped model's file loads into a bare model, and a bare one's into a wrapped model"""
    for run in runs("resume"):
        for kind, how, other, epoch in kinds(probe, run):
            state = saved_training(probe, run, kind).state
            for rank in run:
                expect_loaded(rank, f"{kind}_{other}", state, epoch, f"saved {how}, loaded {other}")


def test_resumes(runs, probe):
    """Resumed training equals training that never stopped, with momentum and with AdamW"""
    for run in runs("resume"):
        for kind, how, *_ in kinds(probe, run):
            subject = f"after {probe.STEPS - probe.BEFORE} more steps of {kind} from the checkpoint:"
            expect_trained_on(probe, run, kind, f"{kind}_{how}_resumed", subject)


def expect_trained_on(probe, run, kind, name, subject):
    """The model's values are those of training that went on to the end."""
    training, more = saved_training(probe, run, kind), range(probe.BEFORE, probe.STEPS)
    forgetful = {"the optimizer's state was not restored": "state", "the learning rates were not restored": "rates"}
    what_if = {clause: training.without(what).train(everyone(run), more).state for clause, what in forgetful.items()}
    wanted = training.train(everyone(run), more).state
    for rank in reversed(list(run)):
        expect_state(rank, name, wanted, subject, alternatives=what_if)


def test_leaves_training_alone(runs, probe):
    """Saving changes nothing: training goes on as without it"""
    for run in runs("resume"):
        for kind, *_ in kinds(probe, run):
            subject = f"the model that was saved, after more steps of {kind}:"
            expect_trained_on(probe, run, kind, f"{kind}_trained_on", subject)


def test_any_world_size(runs, probe):
    """A file of 2 ranks, or of 1, loads on 3, and a file of 3 on 1"""
    (run,) = runs("resize")
    from_one, from_two = (Training(probe, run, "adamw", size, first=first) for size, first in ((1, 2), (2, 0)))
    from_one.train([2], range(probe.BEFORE))
    from_two.train([0, 1], range(probe.BEFORE))
    for rank in run:
        expect_success(rank, "saved_apart", "saving")
    expect_step(run, everyone(run), "three_from_one", from_one, 10, "saved by 1 rank, loaded by 3")
    expect_step(run, everyone(run), "three_from_two", from_two, 20, "saved by 2 ranks, loaded by 3")
    for rank in run:
        expect_success(rank, "saved_together", "saving")
    expect_step(run, [1], "one_from_three", from_two, 30, "saved by 3 ranks, loaded by 1")


def expect_step(run, members, name, training, epoch, what):
    """These ranks loaded what `training` has now, and one step together led them to where it leads `training`."""
    for rank in members:
        expect_loaded(run[rank], name, training.state, epoch, what)
    training.train(members, [training.probe.BEFORE])
    for rank in members:
        expect_state(run[rank], f"{name}_resumed", training.state, f"one step later, {what}:")


def test_other_device(runs, probe):
    """A file written from a GPU loads where there is none"""
    alone, *_ = runs("resume")
    training, epoch = saved_training(probe, alone, "adamw"), probe.epochs(alone.seed)["adamw"]
    expect_step(alone, [0], "from_gpu", training, epoch, "saved from cuda:0")


# Saving that is slow, fails, or is cut short


def test_complete_on_return(runs):
    """When save_checkpoint returns on any rank, the file is complete"""
    for run in runs("slow"):
        for rank in reversed(list(run)):
            expect_success(rank, "first", "saving")
            expect_success(rank, "saved", "saving again while rank 0's disk is slow")
            data = rank.read("file", bytes | None)
            seen = "the old file" if holds(rank, data, 1) else condition(rank, data, b"")
            subject = "the file at the moment when this rank returned"
            rank.expect(holds(rank, data, 2), subject, "the whole new file", seen)


def test_previous_survives(runs):
    """A save that fails or dies in the middle leaves the previous file as it was"""
    for run in runs("failing", finished=False):
        expect_success(run[0], "first", "saving")
        expect_survived(run[0], run[0].read("middle", Disturbed)["file"], "after a write failed in its middle")
    for run in runs("crash", finished=False):
        expect_outlived(run, "after rank 0 was killed while it saved")


def expect_survived(rank, after, when):
    """The file that the rank saw before is there, unchanged."""
    before = rank.read("before", bytes | None)
    rank.expect(before is not None, "the first checkpoint", "a file", "there is none")
    wanted, seen = "the old file, unchanged", condition(rank, after, before)
    rank.expect(after == before, f"the previous checkpoint {when}", wanted, seen)


def expect_outlived(run, when):
    """The old file outlived rank 0; or rank 0 was never caught writing, and the new file is whole."""
    writer, witness = run
    expect_success(witness, "first", "saving")
    after = witness.read("after", bytes | None)
    if "survived" not in writer:
        expect_survived(witness, after, when)
        return
    subject = "saving where the folder for temporary files is another file system"
    writer.expect_success(writer.read("survived", Attempt), subject, expected="it works")
    seen = condition(witness, after, witness.read("before", bytes | None))
    witness.expect(holds(witness, after, 2), "the file after saving", "a whole new file", seen)


OBSTACLES = {
    "middle": "the disk is full in the middle of writing",
    "folder": "path lies in something that is no folder",
    "target": "there is a folder at path",
    "state": "a state dict raises on rank 0",
}


def test_every_rank_raises(runs):
    """When saving raises on rank 0 it raises on every rank, and none hangs"""
    for run in runs("failing"):
        for rank in run:
            expect_success(rank, "first", "saving")
        for obstacle, what in OBSTACLES.items():
            attempts = [rank.read(obstacle, Disturbed) for rank in run]
            if obstacle == "state" and not attempts[0]["raised"]:
                continue  # it took the values without asking for a state dict
            for rank, attempt in zip(run, attempts, strict=True):
                rank.expect(attempt["raised"], f"saving where {what}", "an exception", error_text(attempt))
        for rank in run:
            expect_success(rank, "last", "saving after the saves that failed")
            before, after = (rank.read(when, bytes | None) for when in ("before", "after"))
            seen = condition(rank, after, before)
            run.expect(holds(rank, after, 3), "the file", "that of the last save", seen)


# Files that are no checkpoints


def test_missing_or_broken(runs):
    """A missing or truncated file raises an error that names it, on every rank"""
    for run in runs("bad_files"):
        for name, what in {
            "missing": "a file that does not exist",
            "empty": "an empty file",
            "half": "a checkpoint cut in half",
            "nearly": "a checkpoint without its last byte",
            "a_folder": "a folder",
        }.items():
            expect_refused(run, name, what)
        expect_still_loads(run)


def test_foreign_file(runs):
    """A foreign file raises a clear error on every rank, and code in it is never run"""
    for run in runs("bad_files"):
        for name, what in {
            "text": "a text file",
            "noise": "a file of random bytes",
            "a_list": "a list",
            "a_tensor": "a tensor",
            "a_state_dict": "a bare state dict",
            "without_model": "a dict without 'model'",
            "without_optimizer": "a dict without 'optimizer'",
            "without_epoch": "a dict without 'epoch'",
        }.items():
            expect_refused(run, name, what)
        expect_refused(run, "another_model", "the checkpoint of another model", named=False)
        expect_refused(run, "another_shape", "a checkpoint of other shapes", named=False)
        expect_refused(run, "code_in_zip", "a file with code in it", named=False)
        expect_refused(run, "code_in_pickle", "a pickle with code in it", named=False)
        for rank in run:
            sprung = rank.read("sprung", list[str])
            rank.expect(not sprung, "code in a file", "not run", f"run by loading ({', '.join(sprung)})")
        expect_still_loads(run)


def expect_refused(run, name, what, named=True):
    """Loading raised on every rank, and the error names the file where that is asked for."""
    for rank in run:
        attempt, file = rank.read(name, Attempt), f"{name}.pt"
        rank.expect(attempt["raised"], f"loading {what}", "an exception", error_text(attempt))
        tells, subject = file in attempt["said"] or not named, f"the error about {what}"
        rank.expect(tells, subject, f"it names {file}", error_text(attempt), line=attempt["line"])


def expect_still_loads(run):
    for rank in run:
        expect_success(rank, "good", "loading a good file after the bad ones")
