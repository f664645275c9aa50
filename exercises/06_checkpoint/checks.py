"""Judges the recorded runs of `save_checkpoint` and `load_checkpoint`.

What a checkpoint must hold, and where training resumed from it must arrive, is computed here: `Replay` repeats the
training in one process, with the optimizers' formulas written out, for any list of ranks.
"""

import io
import pickle

import torch

TERMS = 64
"""Room for the rounding of some steps of training."""


# What training computes


class Replay:
    """Data-parallel training in one process. `state` holds the model's values by name, bare keys, all buffers included.

    SGD and AdamW as in the formulas of the PyTorch pages "SGD" and "AdamW".
    """

    def __init__(self, probe, kind, seed, shift=0):
        self.probe, self.kind, self.seed = probe, kind, seed
        net = probe.Net(seed + shift)
        self.state = {name: value.detach().clone() for name, value in net.state_dict().items()}
        self.trained = [name for name, value in net.named_parameters() if value.requires_grad]
        self.rates = [options["lr"] for options in probe.GROUPS[kind]]
        self.moments, self.count = {}, 0

    def train(self, ranks, steps):
        for step in steps:
            gradients = [self.gradient(rank, step) for rank in ranks]
            self.count += 1
            for name in self.trained:
                mean = sum(gradient[name] for gradient in gradients) / len(gradients)
                getattr(self, self.kind)(name, mean)
            self.rates = [rate * self.probe.DECAY for rate in self.rates]
            self.state["module.forwards"] = self.state["module.forwards"] + 1
        return self

    def gradient(self, rank, step):
        """The gradient of one rank's mean loss by name."""
        leaves = {name: self.state[name].clone().requires_grad_() for name in self.trained}
        inputs, targets = self.probe.batch(self.seed, rank, step)
        outputs = self.probe.outputs({**self.state, **leaves}, inputs)
        loss = self.probe.mean_squared_error(outputs, targets)
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    def options(self, name):
        """The learning rate of now and the weight decay of a parameter."""
        group = self.probe.group_of(name)
        return self.rates[group], self.probe.GROUPS[self.kind][group]["weight_decay"]

    def sgd(self, name, gradient):
        rate, decay = self.options(name)
        moment = gradient + decay * self.state[name]
        if name in self.moments:
            moment = self.probe.MOMENTUM * self.moments[name] + moment
        self.moments[name] = moment
        self.state[name] = self.state[name] - rate * moment

    def adamw(self, name, gradient):
        rate, decay = self.options(name)
        (first, second), epsilon = self.probe.ADAMW["betas"], self.probe.ADAMW["eps"]
        mean, square = self.moments.get(name, (0.0, 0.0))
        mean = first * mean + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        self.moments[name] = mean, square
        root = (square / (1 - second**self.count)).sqrt() + epsilon
        self.state[name] = self.state[name] * (1 - rate * decay) - rate * mean / (1 - first**self.count) / root

    def without(self, what):
        """The same as of now, but the optimizer has forgotten something: "state" or "rates"."""
        other = Replay(self.probe, self.kind, self.seed)
        other.state, other.moments, other.count, other.rates = dict(self.state), self.moments, self.count, self.rates
        fresh = Replay(self.probe, self.kind, self.seed)
        if what == "state":
            other.moments, other.count = {}, 0
        else:
            other.moments, other.rates = dict(self.moments), fresh.rates
        return other


def everyone(run):
    return list(range(run.world_size))


def saved_state(probe, run, kind):
    """The replay up to the checkpoint of the case `resume`."""
    return Replay(probe, kind, run.seed).train(everyone(run), range(probe.BEFORE))


def kinds(probe, run):
    """(kind, whether the saved model was wrapped, epoch) for both optimizers of the case `resume`."""
    return [(kind, kind == "sgd", epoch) for kind, epoch in probe.epochs(run.seed).items()]


# What the ranks told


def told_of(outcome):
    return f"{outcome['raised'][0]}: {outcome['message']}"[:300] if outcome["raised"] else "no exception"


def expect_success(run, rank, name, subject):
    """The outcome that a rank recorded under `name`, which must not be an exception."""
    outcome = rank[name]
    fields = {"expected": "no exception", "actual": told_of(outcome), "line": outcome["line"], "ranks": [rank.rank]}
    run.expect(not outcome["raised"], subject, **fields)
    return outcome


def expect_loaded(run, rank, name, state, epoch, what):
    """The rank loaded without an exception, and has the epoch and the model's values now."""
    ranks, outcome = [rank.rank], expect_success(run, rank, name, f"loading {what}")
    wanted, seen = f"the int {epoch}", outcome["epoch"] if outcome["type"] == "int" else f"a {outcome['type']}"
    right = outcome["type"] == "int" and outcome["epoch"] == epoch
    run.expect(right, f"what load_checkpoint returned, {what}", expected=wanted, actual=seen, ranks=ranks)
    subject = f"the model after loading, {what}:"
    run.expect_close(dict(outcome["state"]), state, subject, ranks=ranks, terms=TERMS, budget=2)
    fields = {"expected": "the same as before", "actual": "another one", "ranks": ranks}
    run.expect(outcome["stayed"], f"the parameters' device after loading, {what}", **fields)


def opened(run, data, ranks, subject="the file"):
    """The checkpoint in a file's bytes."""
    run.expect(data is not None, subject, expected="a file at path", actual="there is none", ranks=ranks)
    wanted = "a dict that loads with weights_only=True"
    try:
        content = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, AttributeError) as error:
        run.fail(subject, expected=wanted, actual=str(error).partition("\n")[0], ranks=ranks)
    run.expect(isinstance(content, dict), subject, expected=wanted, actual=f"a {type(content).__name__}", ranks=ranks)
    return content


def holds(data, epoch):
    """Whether a file's bytes are a whole checkpoint of that epoch."""
    try:
        return torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")["epoch"] == epoch
    except Exception:  # whatever is wrong with it
        return False


def condition(data, old):
    """What has become of a file, in words."""
    if data is None:
        return "there is no file"
    if data == old:
        return "the old file"
    return "a whole new file" if holds(data, 2) else f"a file of {len(data)} bytes that does not load"


# The basic path, and who writes


def test_saves_and_loads(runs, probe):
    """What one rank saves, it can load: model, epoch, and no exception"""
    alone, *_ = runs("resume")
    for kind, _, _ in kinds(probe, alone):
        expect_success(alone, alone[0], f"{kind}_saved", f"saving with {kind}")
    (kind, _, epoch), *_ = kinds(probe, alone)
    state = saved_state(probe, alone, kind).state
    expect_loaded(alone, alone[0], f"{kind}_wrapped", state, epoch, "on one rank")


def test_rank_0_alone(runs):
    """Rank 0 alone writes, and leaves one file and nothing else"""
    for run in runs("resume", finished=False):
        for rank in run:
            written = rank.get("writes", [])
            wanted, seen = "no file written", ", ".join(written)
            run.expect(rank.rank == 0 or not written, "the rank", expected=wanted, actual=seen, ranks=[rank.rank])
        run.require_finished()
        for rank in run:
            expect_success(run, rank, "sgd_saved", "saving with sgd")
            expect_success(run, rank, "adamw_saved", "saving with adamw")
        wanted = ["adamw.pt", "sgd.pt"]
        run.expect_equal(run[0]["files"], wanted, "the files after saving adamw.pt and sgd.pt", ranks=[0])


def test_file_content(runs, probe):
    """The file holds model, optimizer and epoch, with the bare model's keys"""
    for run in runs("resume"):
        for kind, wrapped, epoch in kinds(probe, run):
            what = f"saved from a {'wrapped' if wrapped else 'bare'} model"
            content = opened(run, run[0][f"{kind}_file"], [0], f"the file {what}")
            lacking = [key for key in ("model", "optimizer", "epoch") if key not in content]
            seen = ", ".join(map(repr, content))
            subject, wanted = f"the keys of the file {what}", "'model', 'optimizer', 'epoch'"
            run.expect(not lacking, subject, expected=wanted, actual=seen, ranks=[0])
            run.expect_equal(content["epoch"], epoch, f'"epoch" in the file {what}', ranks=[0])
            expect_model(run, content["model"], saved_state(probe, run, kind).state, f'"model" in the file {what}')


def expect_model(run, values, state, subject):
    kind = type(values).__name__
    run.expect(isinstance(values, dict), subject, expected="a state dict", actual=f"a {kind}", ranks=[0])
    wanted = dict(sorted(state.items()))
    found = {name: values[name] for name in sorted(values, key=str)}
    run.expect_equal(list(found), list(wanted), f"the keys of {subject}", ranks=[0])
    run.expect_close(found, wanted, f"{subject}:", ranks=[0], terms=TERMS, budget=2)


# Loading


def test_every_rank_restored(runs, probe):
    """Every rank gets the epoch and the model's values"""
    for run in runs("resume"):
        for kind, wrapped, epoch in kinds(probe, run):
            name, state = f"{kind}_{'wrapped' if wrapped else 'bare'}", saved_state(probe, run, kind).state
            for rank in reversed(list(run)):
                expect_loaded(run, rank, name, state, epoch, f"saved and loaded {name.partition('_')[2]}")


def test_wrapped_or_bare(runs, probe):
    """A wrapped model's file loads into a bare model, and a bare one's into a wrapped model"""
    for run in runs("resume"):
        for kind, wrapped, epoch in kinds(probe, run):
            how, state = "bare" if wrapped else "wrapped", saved_state(probe, run, kind).state
            what = f"saved {'wrapped' if wrapped else 'bare'}, loaded {how}"
            for rank in run:
                expect_loaded(run, rank, f"{kind}_{how}", state, epoch, what)


def test_resumes(runs, probe):
    """Resumed training equals training that never stopped, with momentum and with AdamW"""
    for run in runs("resume"):
        for kind, wrapped, _ in kinds(probe, run):
            name = f"{kind}_{'wrapped' if wrapped else 'bare'}_resumed"
            for rank in reversed(list(run)):
                subject = f"after {probe.STEPS - probe.BEFORE} more steps of {kind} from the checkpoint:"
                expect_trained_on(run, rank[name], saved_state(probe, run, kind), subject, rank.rank)


def expect_trained_on(run, actual, replay, subject, rank):
    """The model's values are those of the replay after the rest of the steps."""
    more = range(replay.probe.BEFORE, replay.probe.STEPS)
    forgetful = {"the optimizer's state was not restored": "state", "the learning rates were not restored": "rates"}
    what_if = {clause: replay.without(what).train(everyone(run), more).state for clause, what in forgetful.items()}
    wanted = replay.train(everyone(run), more).state
    run.expect_close(actual, wanted, subject, ranks=[rank], terms=TERMS, alternatives=what_if, budget=2)


def test_leaves_training_alone(runs, probe):
    """Saving changes nothing: training goes on as without it"""
    for run in runs("resume"):
        for kind, _, _ in kinds(probe, run):
            for rank in run:
                subject = f"the model that was saved, after more steps of {kind}:"
                expect_trained_on(run, rank[f"{kind}_trained_on"], saved_state(probe, run, kind), subject, rank.rank)


def test_any_world_size(runs, probe):
    """A file of 2 ranks, or of 1, loads on 3, and a file of 3 on 1"""
    (run,) = runs("resize")
    replays = {
        "three_from_one": Replay(probe, "adamw", run.seed, 2).train([2], range(probe.BEFORE)),
        "three_from_two": Replay(probe, "adamw", run.seed, 0).train([0, 1], range(probe.BEFORE)),
    }
    for name, epoch, what in (
        ("three_from_one", 10, "saved by 1 rank, loaded by 3"),
        ("three_from_two", 20, "saved by 2 ranks, loaded by 3"),
    ):
        for rank in run:
            expect_success(run, rank, "saved_apart", "saving")
            expect_loaded(run, rank, name, replays[name].state, epoch, what)
        replays[name].train(everyone(run), [probe.BEFORE])
        for rank in run:
            expect_step(run, rank, f"{name}_resumed", replays[name].state, what)
    expect_three_on_one(run, replays["three_from_two"], probe)


def expect_three_on_one(run, replay, probe):
    what = "saved by 3 ranks, loaded by 1"
    for rank in run:
        expect_success(run, rank, "saved_together", "saving")
    expect_loaded(run, run[1], "one_from_three", replay.state, 30, what)
    replay.train([1], [probe.BEFORE])
    expect_step(run, run[1], "one_from_three_resumed", replay.state, what)


def expect_step(run, rank, name, state, what):
    run.expect_close(rank[name], state, f"one step later, {what}:", ranks=[rank.rank], terms=TERMS, budget=2)


def test_other_device(runs, probe):
    """A file written from a GPU loads where there is none"""
    alone, *_ = runs("resume")
    replay = saved_state(probe, alone, "adamw")
    expect_loaded(alone, alone[0], "from_gpu", replay.state, probe.epochs(alone.seed)["adamw"], "saved from cuda:0")
    replay.train(everyone(alone), [probe.BEFORE])
    expect_step(alone, alone[0], "from_gpu_resumed", replay.state, "saved from cuda:0")


# Saving that is slow, fails, or is cut short


def test_complete_on_return(runs):
    """When save_checkpoint returns on any rank, the file is complete"""
    for run in runs("slow"):
        for rank in reversed(list(run)):
            expect_success(run, rank, "first", "saving")
            expect_success(run, rank, "saved", "saving again while rank 0's disk is slow")
            seen = "the old file" if holds(rank["file"], 1) else condition(rank["file"], None)
            subject = "the file at the moment when this rank returned"
            whole = holds(rank["file"], 2)
            run.expect(whole, subject, expected="the whole new file", actual=seen, ranks=[rank.rank])


def test_previous_survives(runs):
    """A save that fails or dies in the middle leaves the previous file as it was"""
    for run in runs("failing", finished=False):
        expect_success(run, run[0], "first", "saving")
        expect_survived(run, 0, run[0]["before"], run[0]["middle"]["file"], "after a write failed in its middle")
    for run in runs("crash", finished=False):
        expect_outlived(run, "after rank 0 was killed while it saved")


def expect_survived(run, rank, before, after, when):
    """The file from before is there, unchanged."""
    subject, wanted = f"the previous checkpoint {when}", "the old file, unchanged"
    run.expect(before is not None, "the first checkpoint", expected="a file", actual="there is none", ranks=[rank])
    run.expect(after == before, subject, expected=wanted, actual=condition(after, before), ranks=[rank])


def expect_outlived(run, when):
    """The old file outlived rank 0; or rank 0 was never caught writing, and the new file is whole."""
    expect_success(run, run[1], "first", "saving")
    survivor = run[0].get("survived")
    if survivor is None:
        expect_survived(run, 1, run[1]["before"], run[1]["after"], when)
        return
    fields = {"expected": "it works", "actual": told_of(survivor), "line": survivor["line"], "ranks": [0]}
    run.expect(not survivor["raised"], "saving where the folder for temporary files is another file system", **fields)
    seen = condition(run[1]["after"], run[1]["before"])
    run.expect(holds(run[1]["after"], 2), "the file after saving", expected="a whole new file", actual=seen, ranks=[1])


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
            expect_success(run, rank, "first", "saving")
        for obstacle, what in OBSTACLES.items():
            if obstacle == "state" and not run[0]["state"]["raised"]:
                continue  # it took the values without asking for a state dict
            for rank in run:
                outcome, fields = rank[obstacle], {"expected": "an exception", "ranks": [rank.rank]}
                run.expect(outcome["raised"], f"saving where {what}", actual="no exception", **fields)
        for rank in run:
            expect_success(run, rank, "last", "saving after the saves that failed")
            seen = condition(rank["after"], rank["before"])
            run.expect(holds(rank["after"], 3), "the file", expected="that of the last save", actual=seen)


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
            wanted, seen = "not run", f"run by loading ({', '.join(rank['sprung'])})"
            run.expect(not rank["sprung"], "code in a file", expected=wanted, actual=seen, ranks=[rank.rank])
        expect_still_loads(run)


def expect_refused(run, name, what, named=True):
    """Loading raised on every rank, and the message names the file where that is asked for."""
    for rank in run:
        outcome, fields = rank[name], {"ranks": [rank.rank]}
        run.expect(outcome["raised"], f"loading {what}", expected="an exception", actual="no exception", **fields)
        file, fields["line"] = f"{name}.pt", outcome["line"]
        seen, tells = told_of(outcome), file in outcome["told"] or not named
        run.expect(tells, f"the error about {what}", expected=f"it names {file}", actual=seen, **fields)


def expect_still_loads(run):
    for rank in run:
        expect_success(run, rank, "good", "loading a good file after the bad ones")
