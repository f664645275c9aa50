"""Judges the recorded runs of `save_checkpoint` and `load_checkpoint`.

What a checkpoint must hold, and where training resumed from it must arrive, is computed here: `Training` repeats the
training in one process, for any list of ranks.
"""

import copy

from torch.nn.functional import mse_loss

from grader.checks import Attempt, CheckFailed, Tensors, error_text, holds, once, rank_list, replay

STEPS = 6
"""Steps of training whose rounding is allowed for everywhere; after fewer of them that is a little more than needed."""


class Loaded(Attempt):
    """One call of load_checkpoint: what it returned, `epoch` if it was an int; the model's values after it, whether
    they are still on the device where they were, which tensors are no longer those that the model had, and which modes
    of its modules have changed."""

    returned: str
    epoch: int | None
    state: Tensors
    stayed: bool
    replaced: list[str]
    switched: list[str]


class Found(Attempt):
    """A save and a load, and whether there was a file at path after them."""

    found: bool


class Overwritten(Attempt):
    """A save over an older file, and whether there is something else in its place now."""

    changed: bool


# What training computes


class Training:
    """Data-parallel training in one process, from the model that rank `first` has of a place. `state` holds the model's
    values by name, bare keys, all buffers included."""

    def __init__(self, probe, run, kind, *place, first=0):
        net, (optimizer_class, self.options) = probe.Net(run[first].secret, *place), probe.OPTIMIZERS[kind]
        self.probe, self.run, self.kind, self.decays = probe, run, kind, dict.fromkeys(probe.DECAYING, 0)
        self.trained = [name for name, parameter in net.named_parameters() if parameter.requires_grad]
        self.optimizer = replay.Optimizer(replay.RULES[optimizer_class.__name__], net.state())

    @property
    def state(self):
        return self.optimizer.values

    def train(self, ranks, steps):
        for step in steps:
            gradients = [self.gradient(rank, step) for rank in ranks]
            self.optimizer.step(replay.mean(gradients), self.options_of)
            self.state["forwards"] = self.state["forwards"] + 1
            self.decays = {option: count + 1 for option, count in self.decays.items()}
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
        decayed = {option: options[option] * self.probe.DECAY**count for option, count in self.decays.items()}
        return {**self.options, **options, **decayed}

    def loaded_into(self, fresh, without):
        """The same as of now, but the optimizer has some things from a `fresh` training: its "state", or how an option
        has decayed."""
        other = copy.copy(self)
        other.optimizer = copy.deepcopy(self.optimizer)
        if "state" in without:
            other.optimizer.memory = copy.deepcopy(fresh.optimizer.memory)
        other.decays = {option: (fresh if option in without else self).decays[option] for option in self.decays}
        return other


def everyone(run):
    return range(run.world_size)


def training_of(probe, run, name):
    """Training up to the checkpoint of a story."""
    story = probe.STORIES[name]
    return Training(probe, run, story.kind).train(everyone(run), range(story.before))


@once
def resumed(probe, run, name):
    """The values to which the story's training leads when it never stops."""
    before = probe.STORIES[name].before
    return training_of(probe, run, name).train(everyone(run), range(before, before + probe.MORE)).state


def told(probe, name, into=None):
    """A story in words."""
    story = probe.STORIES[name]
    when = f"after {story.before} steps of {story.kind}" if story.before else f"before the first step of {story.kind}"
    ways = {"used": ", loaded where another training has begun"}
    return f"saved {story.saved} {when}{ways.get(into, f', loaded {into}') if into else ''}"


# What the ranks recorded


def expect_success(rank, name, subject):
    """What the rank recorded under `name` is no exception."""
    rank.expect_success(rank.read(name, Attempt), subject)


def expect_saved(run, probe, name):
    """Saving in a story raised nothing."""
    for rank in run:
        expect_success(rank, f"{name}_saved", f"saving: the model is {told(probe, name)}")


def lone_writer(run, record="writes"):
    """Whether rank 0 alone wrote files. Where others did, it is chance what a file holds; that has its own check."""
    return all(holds(rank.expect_equal, rank.get(record), [], "") for rank in list(run)[1:])


def well_saved(runs, probe):
    """(run, story) for one rank, and for several ranks where rank 0 alone wrote and no rank's save raised."""
    (one,) = runs("alone")
    yield from ((one, name) for name in probe.STORIES)
    for run in runs("together", finished=False):
        for name in probe.TOGETHER:
            if lone_writer(run, f"{name}_writes") and all(
                holds(expect_success, rank, f"{name}_saved", "") for rank in run
            ):
                yield run, name


def file_values(rank, name, state):
    """The model's values that the file of a story holds; those that are right, `state`, where it holds others."""
    try:
        content = rank.expect_loads(rank.read(f"{name}_file", bytes | None), "")
        found = rank.expect_kind(content.get("model"), Tensors, "")
    except CheckFailed:
        return state
    fitting = all(key in state and found[key].shape == state[key].shape for key in found)
    if not found or not fitting or any(value.is_complex() for value in found.values()):
        return state
    return {key: value.to(state[key].dtype) for key, value in found.items()}


def expect_loaded(rank, name, state, what):
    """The rank loaded without an exception, and the model has these values now, on the device where it was."""
    loaded = rank.read(name, Loaded)
    rank.expect_success(loaded, f"loading, {what}")
    rank.expect(set(state) <= set(loaded["state"]), f"the model's names after loading, {what}", "the same as before")
    actual, subject = {key: loaded["state"][key] for key in state}, f"the model after loading, {what}:"
    rank.expect_close(actual, state, subject, steps=STEPS, budget=2)
    rank.expect(loaded["stayed"], f"the parameters' device after loading, {what}", "the same as before", "another one")


def expect_state(rank, name, state, subject, **how):
    """The model's values that the rank recorded under `name`."""
    rank.expect_close(rank.read(name, Tensors), state, subject, steps=STEPS, budget=2, **how)


def condition(rank, data, old):
    """What has become of a file, in words."""
    if data is None:
        return "there is no file"
    if data == old:
        return "the old file"
    whole = holds(rank.expect_loads, data, "the file")
    return "a whole new file" if whole else f"a file of {len(data)} bytes that does not load"


def expect_everywhere(run, name, subject):
    """All ranks came back from the call that they recorded under `name`: none waits for one that has raised."""
    silent = [rank.rank for rank in run if name not in rank]
    raised = {rank.rank: rank.read(name, Attempt) for rank in run if name in rank}
    first = next(((number, attempt) for number, attempt in raised.items() if attempt["raised"]), None)
    if silent and first is not None:
        number, attempt = first
        waiting = f"{rank_list(silent)} never came back: rank {number} had raised {error_text(attempt)}"
        run.fail(subject, expected="an exception on every rank", actual=waiting, line=attempt["line"], ranks=silent)
    if silent:
        run.require_finished()


# One rank


def test_saves_and_loads(runs, probe):
    """One rank saves and loads again without an exception"""
    (run,) = runs("alone", recorded=["sgd_saved"])
    expect_saved(run, probe, "sgd")
    run[0].expect_success(run[0].read("sgd_used", Loaded), f"loading, {told(probe, 'sgd')}")


def test_any_path(runs):
    """The path may be a str or a Path, absolute or relative"""
    (run,) = runs("alone")
    for what in ("a Path", "a bare name", "a relative Path"):
        tried = run[0].read(what, Found)
        run[0].expect_success(tried, f"saving to, and loading from, {what}")
        run[0].expect(tried["found"], f"what is at path after saving to {what}", "a file", "nothing")


def test_returns_epoch(runs, probe):
    """load_checkpoint returns the epoch that was saved, also when that is 0"""
    (run,) = runs("alone")
    for name, story in probe.STORIES.items():
        for into in story.loaded:
            if name == "sgd" or f"{name}_{into}" in run[0]:  # others may have failed, which has checks of its own
                loaded, epoch = run[0].read(f"{name}_{into}", Loaded), probe.epoch_of(run.seed, name)
                right = loaded["raised"] or loaded["epoch"] == epoch
                subject = f"what load_checkpoint returned, {told(probe, name, into)}"
                run[0].expect(right, subject, f"the int {epoch}", loaded["returned"])


def test_restores_model(runs, probe):
    """Loading gives the model the values that the file holds"""
    (run,) = runs("alone")
    for name, into in ways(probe, "wrapped"):
        expect_saved(run, probe, name)
        wanted = file_values(run[0], name, training_of(probe, run, name).state)
        expect_loaded(run[0], f"{name}_{into}", wanted, told(probe, name, into))


def ways(probe, how):
    """(name, into what) for the stories whose model was saved and is loaded wrapped; or for those where it was not."""
    every = [(name, into) for name, story in probe.STORIES.items() for into in story.loaded]
    bare = [(name, into) for name, into in every if "bare" in (probe.STORIES[name].saved, into)]
    return bare if how == "bare" else [way for way in every if way not in bare]


def test_file_content(runs, probe):
    """The file holds model, optimizer and epoch, with the bare model's keys"""
    for run, name in well_saved(runs, probe):
        if probe.STORIES[name].saved == "wrapped":
            expect_saved(run, probe, name)
            expect_content(run[0], probe, name, training_of(probe, run, name).state)


def expect_content(rank, probe, name, state):
    """The file's bytes hold the keys, the epoch, and the model's values under their names."""
    data, what, keys = rank.read(f"{name}_file", bytes | None), told(probe, name), probe.KEYS
    content = rank.expect_loads(data, f"the file {what}", wanted="a dict", missing="a file at path")
    subject, wanted = f"the keys of the file {what}", ", ".join(map(repr, keys))
    found = [key for key in content if isinstance(key, str)]
    rank.expect(set(keys) <= set(found), subject, wanted, ", ".join(map(repr, found)))
    rank.expect_kind(content["epoch"], int, f'"epoch" in the file {what}')
    rank.expect_equal(content["epoch"], probe.epoch_of(rank.seed, name), f'"epoch" in the file {what}')
    expect_model(rank, content, state, what)


def expect_model(rank, content, state, what):
    """The file holds the model's values under their names."""
    values = rank.expect_kind(content.get("model"), Tensors, f'"model" in the file {what}')
    rank.expect_equal(sorted(values), sorted(state), f'the keys of "model" in the file {what}')
    rank.expect_close(values, state, f'"model" in the file {what}:', steps=STEPS, budget=2)


def test_wrapped_or_bare(runs, probe):
    """A bare model is saved and loaded too, and either's file loads into the other"""
    for run, name in well_saved(runs, probe):
        for other, into in ways(probe, "bare"):
            if other == name:
                expect_saved(run, probe, name)
                wanted = file_values(run[0], name, training_of(probe, run, name).state)
                expect_loaded(run[0], f"{name}_{into}", wanted, told(probe, name, into))


def test_submodule_called_module(runs, probe):
    """A model keeps the names of its state dict, and may have submodules that are called `module`"""
    (run,) = runs("alone")
    for how in ("bare", "wrapped"):
        name, what = f"nested_{how}", f"of a {how} model with submodules called `module`"
        state = probe.Nested(run[0].secret, "saved").state()
        expect_success(run[0], f"{name}_saved", f"saving, {what}")
        if how == "bare":
            expect_own_keys(run[0], name, state, f'the keys of "model" in the file {what}')
        expect_loaded(run[0], name, file_values(run[0], name, state), what)


def expect_own_keys(rank, name, state, subject):
    """Where a file has a model's values, their keys are the model's; that all of them are there is another's check."""
    data = rank.read(f"{name}_file", bytes | None)
    if data is not None and holds(rank.expect_loads, data, ""):
        keys = rank.expect_kind(rank.expect_loads(data, "").get("model"), Tensors, subject).keys()
        rank.expect(keys <= state.keys(), subject, "the model's own", ", ".join(sorted(map(repr, keys - state.keys()))))


def test_resumes(runs, probe):
    """Resumed training equals training that never stopped, from a file of any moment, with momentum and with AdamW"""
    (run,) = runs("alone")
    bare = ways(probe, "bare") if holds(test_wrapped_or_bare, runs, probe) else []
    for name, into in (*ways(probe, "wrapped"), *bare):
        which = "" if into == probe.STORIES[name].loaded[0] else ", as the second load of the file"
        subject = f"{probe.MORE} steps later, {told(probe, name, into)}{which}:"
        loaded = run[0].read(f"{name}_{into}", Loaded)
        expect_unchanged(run[0], loaded["switched"], f"loading, {told(probe, name, into)}")
        expect_resumed(probe, run, name, f"{name}_{into}_resumed", subject, into)
        others, subject = loaded["replaced"], "the model's parameters and buffers"
        seen = f"others in place of {', '.join(others)}: whoever has the old ones does not see what was loaded"
        run[0].expect(not others, f"{subject} after loading, {told(probe, name, into)}", "the same tensors", seen)


def expect_unchanged(rank, changed, what):
    """A call has changed nothing of what it has nothing to do with."""
    rank.expect(not changed, f"side effects of {what}", "none", f"a change of {', '.join(changed)}")


def expect_resumed(probe, run, name, record, subject, into=None):
    """The model's values are those of training that went on to the end."""
    more = range(probe.STORIES[name].before, probe.STORIES[name].before + probe.MORE)
    forgetful = {
        "the optimizer's state was not restored": ["state"],
        "the learning rates were not restored": ["lr"],
        "the weight decay was not restored": ["weight_decay"],
        "neither the learning rates nor the weight decay were restored": ["lr", "weight_decay"],
    }
    training, wanted = training_of(probe, run, name), resumed(probe, run, name)
    for rank in reversed(list(run)):
        if not holds(expect_state, rank, record, wanted, subject):  # to explain takes longer than to compare
            fresh = Training(probe, run, probe.STORIES[name].kind, "fresh")
            fresh.train(everyone(run), [0] if into == "used" else [])
            what_if = {
                clause: training.loaded_into(fresh, without=what).train(everyone(run), more).state
                for clause, what in forgetful.items()
            }
            expect_state(rank, record, wanted, subject, alternatives=what_if)


def test_leaves_training_alone(runs, probe):
    """Saving changes nothing, before the first step, inside a step or later, nor where it fails"""
    for run, name in well_saved(runs, probe):
        if probe.STORIES[name].saved == "wrapped":
            expect_saved(run, probe, name)
            subject = f"the model that was {told(probe, name)}, {probe.MORE} more steps later:"
            for rank in run:
                expect_unchanged(rank, rank.read(f"{name}_changed", list[str]), "a save")
            expect_resumed(probe, run, name, f"{name}_trained_on", subject)
    for name in probe.INSIDE:
        several = [run for run in runs("together", finished=False) if run.came_to([f"{name}_trained_on"])]
        for run in (*runs("alone"), *(run for run in several if lone_writer(run, "sgd_writes"))):
            expect_step_finished(probe, run, name)
    for run in runs("failing", finished=False):
        if run.came_to(["trained_on"]):
            wanted = Training(probe, run, "sgd").train(everyone(run), range(3)).state
            for rank in reversed(list(run)):
                expect_unchanged(rank, rank.read("changed", list[str]), "saves that failed")
                expect_state(rank, "trained_on", wanted, "the model that four saves in a step have failed to save:")


def expect_step_finished(probe, run, name):
    """What was saved inside a step has finished that step, and another, as if nothing had been saved."""
    wanted = Training(probe, run, "sgd").train(everyone(run), range(probe.INSIDE[name] + 2)).state
    subject = "the model that was saved between a backward pass and the optimizer's step, after that and another:"
    for rank in reversed(list(run)):
        expect_success(rank, f"{name}_saved", "saving inside a step")
        expect_state(rank, f"{name}_trained_on", wanted, subject)


def test_other_device(runs, probe):
    """A file written from a GPU loads where there is none"""
    (run,) = runs("alone")
    training = training_of(probe, run, "adamw")
    expect_step(run, [0], "from_gpu", training, "saved from cuda:0")


# Several ranks


def test_rank_0_alone(runs, probe):
    """On any number of ranks rank 0 alone writes, and leaves one file and nothing else"""
    for family, names in (("alone", probe.STORIES), ("together", probe.TOGETHER)):
        for run in runs(family, finished=False):
            for rank in list(run)[1:]:
                for name in [name for name in names if f"{name}_writes" in rank]:
                    written = rank.read(f"{name}_writes", list[str])
                    rank.expect(not written, "the rank", "no file written", ", ".join(written))
            if any("sgd_files" not in rank for rank in run):
                run.require_finished()
            for rank in run:
                expect_success(rank, "sgd_saved", "saving")
            expect_files(run, names)
    for run in runs("resize", finished=False):
        expect_rank_0_of_now(run)
    for run in runs("failing", finished=False):
        if "beside" in run[0] and lone_writer(run) and not run[0].read("last", Attempt)["raised"]:
            expect_no_leftovers(run[0])


def expect_rank_0_of_now(run):
    """In a later group of the same processes that one writes which is rank 0 there: the third alone has been in a group
    of its own before, and the second writes alone where the first did before."""
    for rank in run:
        if rank.rank and "writes_together" in rank:
            written, subject = rank.read("writes_together", list[str]), "saving in a second group"
            seen = f"{', '.join(written)}, written by rank {rank.rank} of it"
            rank.expect(not written, subject, "no file written but by rank 0", seen)
    if "found_alone" in run[1]:
        subject = "saving in a group of one, by what was rank 1 of others before"
        expect_success(run[1], "saved_alone", subject)
        run[1].expect(run[1].read("found_alone", bool), subject, "a file at path", "there is none")


def expect_no_leftovers(rank):
    """After saves that failed, and one that worked, there is no other file than before them."""
    beside, subject = rank.read("beside", list[str]), "new files after saves that failed and then one that worked"
    rank.expect(not beside, subject, "none", ", ".join(beside))


FOLDER = "shared/checkpoints/"


def expect_files(run, names):
    """After each story there is a file of it and of those before it, and nothing else; up to one whose save raised."""
    made = []
    for name in names:
        if f"{name}_file" not in run[0]:
            return
        made.append(f"{name}.pt")
        found = run[0].read(f"{name}_files", list[str])
        run[0].expect_equal(found, sorted(made), f"the files after saving {', '.join(made)}")
        if seen := run[0].seen(f"{name}_files"):
            found = [file.removeprefix(FOLDER) for file in seen.files if file.startswith(FOLDER)]
            run[0].expect_equal(sorted(found), sorted(made), f"the files after saving {', '.join(made)}, from outside")


def test_every_rank_restored(runs, probe):
    """On several ranks every rank gets the file's values and the same epoch"""
    for run in runs("together", recorded=["sgd_used"]):
        state = file_values(run[0], "sgd", training_of(probe, run, "sgd").state)
        first = run[0].read("sgd_used", Loaded)
        for rank in reversed(list(run)):
            expect_loaded(rank, "sgd_used", state, told(probe, "sgd", "used"))
            seen = rank.read("sgd_used", Loaded)
            same, subject = seen["epoch"] == first["epoch"], "what load_checkpoint returned"
            rank.expect(same, subject, f"{first['returned']}, as on rank 0", seen["returned"])


def test_any_world_size(runs, probe):
    """Training resumes on as many ranks as before, or on others: a file of 2 or of 1 on 3, a file of 3 on 1"""
    for run in runs("together", recorded=["sgd_used_resumed"]):
        subject = f"{probe.MORE} steps later, {told(probe, 'sgd', 'used')}:"
        expect_resumed(probe, run, "sgd", "sgd_used_resumed", subject, "used")
    (run,) = runs("resize")
    from_one, from_two = (Training(probe, run, "adamw", size, first=first) for size, first in ((1, 2), (2, 0)))
    from_one.train([2], range(probe.BEFORE))
    from_two.train([0, 1], range(probe.BEFORE))
    for rank in run:
        expect_success(rank, "saved_apart", "saving")
    expect_step(run, everyone(run), "three_from_one", from_one, "saved by 1 rank, loaded by 3")
    expect_step(run, everyone(run), "three_from_two", from_two, "saved by 2 ranks, loaded by 3")
    if lone_writer(run, "writes_together"):
        for rank in run:
            expect_success(rank, "saved_together", "saving")
        expect_step(run, [1], "one_from_three", from_two, "saved by 3 ranks, loaded by 1")


def expect_step(run, members, name, training, what):
    """These ranks loaded what `training` has now, and one step together led them to where it leads `training`."""
    for rank in members:
        expect_loaded(run[rank], name, training.state, what)
    training.train(members, [training.probe.BEFORE])
    for rank in members:
        expect_state(run[rank], f"{name}_resumed", training.state, f"one step later, {what}:")


# Saving that is slow, fails, or is cut short


def test_complete_on_return(runs):
    """When save_checkpoint returns on any rank, the file is complete"""
    for run in runs("slow"):
        first, second = (run[0].read(f"{name}_settled", bytes | None) for name in ("first", "second"))
        for rank in reversed(list(run)):
            expect_success(rank, "first", "saving while rank 0's disk is slow")
            expect_whole(rank, "first_file", first, None)
            expect_success(rank, "second", "saving again while rank 0's disk is slow")
            expect_whole(rank, "second_file", second, first)
    for run in runs("crash", recorded=["first_file", "before"]):
        for rank in reversed(list(run)):
            expect_success(rank, "first", "saving while rank 0's disk is slow")
            expect_whole(rank, "first_file", run[0].read("before", bytes | None), None)


def expect_whole(rank, name, settled, before):
    """What this rank found under the path when it returned is what was there when all had returned, and is new."""
    data, subject = rank.read(name, bytes | None), "the file at the moment when this rank returned"
    new = settled is not None and data == settled and data != before
    rank.expect(new, subject, "the whole new file", condition(rank, data, before))


def test_previous_survives(runs, probe):
    """A save that fails or dies in the middle leaves the previous file as it was, and another job can save there"""
    for run in runs("failing", finished=False):
        if len(run) == 1 or ("middle_left" in run[0] and lone_writer(run)):
            expect_success(run[0], "first", "saving")
            left = run[0].read("middle_left", bytes | None)
            expect_survived(run[0], left, "after a write failed in its middle")
    for family in ("crash_alone", "crash"):
        for run in runs(family, finished=False):
            if family == "crash_alone" or lone_writer(run):
                expect_outlived(run, "after rank 0 was killed while it saved")
    (run,) = runs("crash_alone", finished=False)
    expect_saves_again(run[1])
    for run in runs("alone", finished=False):
        for suffix in probe.SUFFIXES:
            expect_not_written_to(run[0], f"a path in {suffix}")


def expect_not_written_to(rank, path):
    """The old file is there after a save that failed in its first bytes."""
    if path in rank:
        saved, subject = rank.read(path, Overwritten), f"the previous checkpoint, at {path}, after a write failed"
        harmed = saved["raised"] and saved["changed"]
        rank.expect(not harmed, subject, "the old file, unchanged", "something else", line=saved["line"])


def expect_saves_again(witness):
    """A job that is started again after one that died while it saved can save at the same place."""
    expect_success(witness, "again", "saving in a job that is started again after one that was killed while it saved")
    data, before = (witness.read(name, bytes | None) for name in ("again_file", "after"))
    seen = condition(witness, data, before)
    witness.expect(data not in (None, before), "the file after saving in a new job", "a new file", seen)


def expect_survived(rank, after, when):
    """The file that the rank saw before is there, unchanged."""
    before = rank.read("before", bytes | None)
    rank.expect(before is not None, "the first checkpoint", "a file", "there is none")
    wanted, seen = "the old file, unchanged", condition(rank, after, before)
    rank.expect(after == before, f"the previous checkpoint {when}", wanted, seen)


def expect_outlived(run, when):
    """The old file outlived rank 0; or rank 0 was never caught writing, and the new file is whole."""
    writer, witness = run
    expect_success(writer, "first", "saving")
    after = witness.read("after", bytes | None)
    if "survived" not in writer:
        expect_survived(witness, after, when)
        return
    subject = "saving where the folder for temporary files is another file system"
    writer.expect_success(writer.read("survived", Attempt), subject, expected="it works")
    seen = condition(witness, after, witness.read("before", bytes | None))
    witness.expect(seen == "a whole new file", "the file after saving", "a whole new file", seen)


NO_FOLDER = "path lies in something that is no folder"
OBSTACLES = {
    "middle": "the disk is full in the middle of writing",
    "folder": f"{NO_FOLDER}, and is long",
    "target": "there is a folder at path",
    "state": "a state dict raises on rank 0",
    "words": "a state dict raises on rank 0, with a text that is not ASCII",
}


def test_every_rank_raises(runs, probe):
    """When saving raises on rank 0 it raises on every rank, and none hangs"""
    for run in runs("together", finished=False):
        if run.came_to([f"{name}_trained_on" for name in probe.INSIDE]):
            expect_everywhere(run, "no_folder", f"saving where {NO_FOLDER}")
            for rank in run:
                attempt = rank.read("no_folder", Attempt)
                rank.expect(attempt["raised"], f"saving where {NO_FOLDER}", "an exception", error_text(attempt))
    for run in runs("failing", finished=False):
        for rank in run:
            expect_success(rank, "first", "saving")
        for obstacle, what in OBSTACLES.items():
            expect_everywhere(run, obstacle, f"saving where {what}")
            attempts = [rank.read(obstacle, Attempt) for rank in run]
            if obstacle in probe.RAISED and not run[0].read(f"{obstacle}_asked", bool):
                continue  # it took the values without asking for a state dict
            for rank, attempt in zip(run, attempts, strict=True):
                rank.expect(attempt["raised"], f"saving where {what}", "an exception", error_text(attempt))
        run.require_finished()
        for rank in run:
            expect_success(rank, "last", "saving after the saves that failed")
            after, before = rank.read("after", bytes | None), rank.read("before", bytes | None)
            new = after not in (None, before, *(rank.read(f"{obstacle}_left", bytes | None) for obstacle in OBSTACLES))
            run.expect(new, "the file", "that of the last save", condition(rank, after, before))


# Files that are no checkpoints


def test_missing_or_broken(runs):
    """A missing or truncated file raises an error that names it, on every rank"""
    (run,) = runs("bad_files", finished=False)
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
    (run,) = runs("bad_files", finished=False)
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
    expect_refused(run, "fewer_layers", "the checkpoint of a model with fewer parameters", named=False)
    expect_refused(run, "more_layers", "the checkpoint of a model with more parameters", named=False)
    expect_refused(run, "code_in_zip", "a file with code in it", named=False)
    expect_refused(run, "code_in_pickle", "a pickle with code in it", named=False)
    for rank in run:
        sprung = rank.read("sprung", list[str])
        rank.expect(not sprung, "code in a file", "not run", f"run by loading ({', '.join(sprung)})")
    expect_still_loads(run)


def expect_refused(run, name, what, named=True):
    """Loading raised on every rank, and the error names the file where that is asked for."""
    expect_everywhere(run, name, f"loading {what}")
    for rank in run:
        attempt, file = rank.read(name, Attempt), f"{name}.pt"
        rank.expect(attempt["raised"], f"loading {what}", "an exception", error_text(attempt))
        tells, subject = file in attempt["said"] or not named, f"the error about {what}"
        rank.expect(tells, subject, f"it names {file}", error_text(attempt), line=attempt["line"])


def expect_still_loads(run):
    """After all of them each rank, for itself, loads a file that one rank has saved."""
    run.require_finished()
    for rank in run:
        expect_success(rank, "good", "loading a good file after the bad ones")
