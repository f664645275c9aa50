"""Judges the recorded runs of `shard_model` and `save_full_checkpoint`.

`Training` trains the bare model in one process, with the gradients that the ranks ought to have, or those that a common
mistake leads to. Training is compared by the model's outputs, which hang on every parameter, however it is stored;
traffic by what was launched; memory by what the process has more than before.
"""

import contextlib
import io
import zipfile

import torch
from torch.nn.functional import cross_entropy

from grader.checks import (
    Attempt,
    CheckFailed,
    NotJudged,
    Tensor,
    Tensors,
    TypedDict,
    amount,
    holds,
    line_of,
    listed,
    memory,
    once,
    replay,
)

SMALL = 1024
"""Bytes. What is smaller may be a barrier or a flag, and no unit is."""
LARGE = 2**20
"""Bytes. Files have a fiftieth of it; the names in a larger one are not looked at here, for there may be millions."""
WHOLE, SEVERAL = ("alone", "pair", "three"), ("pair", "three")
"""The families in which all ranks are in one mesh; those of more than one rank."""
RANDOM = "torch's random numbers after a save"
DROPOUT = "Which masks would dropout draw in the step after a save, and which in the step after the next save?"


class Returned(TypedDict):
    module: bool
    type: str


class Trained(Attempt):
    """A model's training: the outputs of each forward pass, and what shard_model returned."""

    outputs: list[Tensor]
    returned: Returned


class Saved(Attempt):
    """A save while the model trains, and whether it left torch's random numbers as they were."""

    same_draws: bool


class HeldUp(TypedDict):
    """The file as a rank found it when its save returned: whether it was there, the older one, the one that stayed."""

    older: bool
    settled: bool
    there: bool


# What training computes


class Training:
    """Some ranks' training, in one process: a bare model for each of them, and the gradients that `combine` makes of
    theirs, by name. It has the ranks' gradients by name, in a list, and which of them is asked for."""

    def __init__(self, probe, layout, ranks, seed, combine=None):
        self.probe, self.ranks, self.combine = probe, ranks, combine or averaged
        self.models = [probe.build(layout, seed) for _ in ranks]
        self.options, self.memories = probe.options_of(layout), [{} for _ in ranks]
        self.outputs, self.gradients = [], []

    def forward(self, number):
        """The ranks' outputs on their batches, which are noted, and their targets."""
        batches = [self.probe.batch(rank.secret, number) for rank in self.ranks]
        outputs = [model(tokens) for model, (tokens, _) in zip(self.models, batches, strict=True)]
        self.outputs.append([output.detach() for output in outputs])
        return zip(outputs, (targets for _, targets in batches), strict=True)

    def step(self, number):
        self.backward(number)
        self.update()

    def backward(self, number):
        losses = [cross_entropy(output, target) for output, target in self.forward(number)]
        self.gradients = [gradients_of(loss, model) for loss, model in zip(losses, self.models, strict=True)]

    def update(self):
        for place, (model, memories) in enumerate(zip(self.models, self.memories, strict=True)):
            for name, gradient in self.combine(self.gradients, place).items():
                parameter = model.get_parameter(name)
                parameter.data = replay.sgd(parameter.data, gradient, memories.setdefault(name, {}), **self.options)

    def evaluate(self, number):
        with contextlib.ExitStack() as stack:
            for model in self.models:
                stack.enter_context(self.probe.evaluating(model))
            self.forward(number)

    def state(self):
        """Copies of the first rank's state dict."""
        return {name: value.clone() for name, value in self.models[0].state_dict().items()}


def gradients_of(loss, model):
    names, parameters = zip(*((n, p) for n, p in model.named_parameters() if p.requires_grad), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def averaged(gradients, place):
    return replay.mean(gradients)


def of_blocks(name):
    return name.startswith("blocks.")


MISTAKES = {
    "the ranks' gradients are not averaged: each trains on its own": lambda g, place: g[place],
    "the gradients are added up, so they are as many times too large as there are ranks": lambda g, _: replay.total(*g),
    "the mean gradients are divided by the number of ranks once more": lambda g, _: replay.combined(
        g, [len(g) ** -2.0] * len(g)
    ),
    "the gradients of what lies outside of the blocks are not averaged": lambda g, place: {
        name: mean if of_blocks(name) else g[place][name] for name, mean in replay.mean(g).items()
    },
    "the gradients of the blocks are not averaged": lambda g, place: {
        name: g[place][name] if of_blocks(name) else mean for name, mean in replay.mean(g).items()
    },
    "the gradients are never used": lambda g, _: {},
}


def trained(probe, layout, ranks, seed, combine=None):
    """The training of the probe's `train`."""
    training = Training(probe, layout, ranks, seed, combine)
    for number in range(probe.steps_of(layout)):
        training.step(number)
    training.evaluate(probe.steps_of(layout))
    return training


def expect_training(probe, run, name, layout, ranks=None, seed=None):
    """These ranks' training, recorded under `name`, raised nothing and gave the outputs of one process that averages
    their gradients."""
    ranks, seed, what = list(run) if ranks is None else ranks, run.seed if seed is None else seed, probe.LAYOUTS[layout]
    wanted = trained(probe, layout, ranks, seed).outputs
    for place, rank in enumerate(ranks):
        record = rank.read(name, Trained)
        rank.expect_success(record, f"training a model with {what}")
        rank.expect(len(record["outputs"]) == len(wanted), f"forward passes with {what}", len(wanted))
        for number, (seen, right) in enumerate(zip(record["outputs"], wanted, strict=True)):
            expect_outputs(rank, seen, right[place], f"the outputs after {number} steps with {what}", (
                lambda number=number, place=place: mistaken(probe, layout, ranks, seed, number, place)
            ))  # fmt: skip


def expect_outputs(rank, seen, right, subject, explained=dict):
    rank.expect_like({"outputs": seen}, {"outputs": right}, subject)
    if not holds(rank.expect_close, seen, right, subject, steps=8):  # to explain takes longer than to compare
        alternatives = {clause: wrong for clause, wrong in explained().items() if not wrong.equal(right)}
        rank.expect_close(seen, right, subject, steps=8, alternatives=alternatives, budget=2)


def mistaken(probe, layout, ranks, seed, number, place):
    """Outputs that common mistakes lead to, by a clause that names the mistake."""
    return {
        clause: trained(probe, layout, ranks, seed, combine).outputs[number][place]
        for clause, combine in MISTAKES.items()
    }


# Training


def test_shards(runs, probe):
    """One rank shards a model and trains it without an exception"""
    (run,) = runs("alone", recorded=["list"])
    run[0].expect_success(run[0].read("list", Trained), f"training a model with {probe.LAYOUTS['list']}")


def test_returns_model(runs):
    """shard_model returns the model"""
    for run in runs(*WHOLE, recorded=["list"]):
        for rank in run:
            returned = rank.read("list", Trained)["returned"]
            if returned["type"] == "nothing":
                raise NotJudged("shard_model raises")
            rank.expect(returned["module"], "what shard_model returned", "the model", f"a {returned['type']}")


def test_trains_alone(runs, probe):
    """On one rank, training is that of the bare model"""
    (run,) = runs("alone", recorded=["list"])
    expect_training(probe, run, "list", "list")


def test_same_training(runs, probe):
    """On several ranks every step is that of one process on all ranks' batches"""
    for run in runs(*SEVERAL, "submesh", recorded=["list"]):
        expect_training(probe, run, "list", "list")


def test_other_models(runs, probe):
    """Models with one block, with none, or with no parameter outside of the blocks train the same way"""
    (run,) = runs("three", recorded=["one", "none", "inside"])
    for layout in ("one", "none", "inside"):
        expect_training(probe, run, layout, layout)


def test_ties(runs, probe):
    """Tied parameters stay tied, frozen ones as they are, and modules in training or evaluation"""
    (run,) = runs("three", recorded=["tied"])
    expect_training(probe, run, "tied", "tied")


def test_mesh(runs, probe):
    """Only the ranks of the mesh share a model"""
    (run,) = runs("submesh", recorded=["column", "groups"])
    names = [rank.read("groups", list[str]) for rank in list(run)[:2]]  # of either column
    common = sorted({*names[0]} & {*names[1]})
    subject = "groups that shard_model makes in two meshes at once, under one name, so that they take the other's ranks"
    run.expect(not common, subject, "none", listed(common))
    for column in (0, 1):
        ranks = [rank for rank in run if probe.column_of(rank.rank) == column]
        seed = probe.values.seed_for(run.seed, column)
        expect_training(probe, run, "column", "one", ranks, seed)
        for rank in ranks:
            members = [other.rank for other in ranks]
            for what, where in (
                ("while a model is sharded", f"sharding {probe.LAYOUTS['one']}"),
                ("in a step", region(probe, "one", 0)),
            ):
                part = rank.during(where)
                strangers = {one for communication in part for one in communication.group} - {*members}
                wanted, seen = f"the ranks {listed(members)}", f"also {listed(sorted(strangers))}"
                subject = f"the ranks that communicate {what}, in a mesh of two of four"
                rank.expect(not strangers, subject, wanted, seen, line=line_of(part))


# Traffic


def region(probe, layout, step):
    return f"step {step} with {probe.LAYOUTS[layout]}"


def steps_in(runs, probe, *layouts):
    """(run, region, blocks) for every training step with these models on several ranks."""
    for layout in layouts:
        families = (*SEVERAL, "submesh") if layout == "list" else ("three",)
        for run in runs(*families, recorded=[layout]):
            for step in range(probe.steps_of(layout)):
                yield run, region(probe, layout, step), probe.BLOCKS[layout]


def expect_gathers(run, where, blocks):
    run.expect_count(where, "all_gather", (2 * blocks + 1, 2 * blocks + 2))


def expect_scatters(run, where, blocks):
    run.expect_count(where, "reduce_scatter", blocks + 1)


def test_all_gathers(runs, probe):
    """A training step costs 2·blocks+1 or 2·blocks+2 all-gathers"""
    for run, where, blocks in steps_in(runs, probe, "list"):
        expect_gathers(run, where, blocks)


def test_reduce_scatters(runs, probe):
    """A training step costs blocks+1 reduce-scatters"""
    for run, where, blocks in steps_in(runs, probe, "list"):
        expect_scatters(run, where, blocks)


def test_nothing_else(runs, probe):
    """A training step sends nothing else"""
    for run, where, _ in steps_in(runs, probe, "list"):
        for rank in run:
            others = {one.operation for one in rank.during(where).at_least(SMALL)} - {"all_gather", "reduce_scatter"}
            rank.expect_none(where, *sorted(others), at_least=SMALL)
    for run in runs(*SEVERAL, finished=False):
        if run.finished:  # else not all that it communicated may be known
            run.expect_confirmed()


def test_every_block(runs, probe):
    """Every block is a unit, wherever it stands, of a subclass as well; without blocks there is the root alone"""
    for run, where, blocks in steps_in(runs, probe, "nested", "subclass", "one", "none"):
        expect_gathers(run, where, blocks)
        expect_scatters(run, where, blocks)


# Memory


def kept(rank, when, name="large"):
    """Bytes that a process has more than before the large model was built."""
    return memory.kept(rank, name, when)


def test_at_rest(runs, probe):
    """Between steps a rank keeps its share of the parameters"""
    whole, block = probe.sizes()
    (run,) = runs("pair", recorded=["large: after a step"])
    # What is no parameter: a process group for each unit, which nothing forbids, has 0.1 MB.
    looks = [("large", "at rest", 0.6 * block), ("large", "after a step", 0.6 * block)]
    if run.came_to(["saved: after saving"]) and all(holds(expect_saved, rank, "large_saved") for rank in run):
        looks.append(("saved", "after saving", 1.8 * block))  # what was sent may leave something behind
    for rank in run:
        for name, when, more in looks:
            most, seen = whole / run.world_size + more, kept(rank, when, name)
            wanted = f"at most {amount(most)}, for the whole model has {amount(whole)}"
            rank.expect(seen <= most, f"what a rank keeps {when}", wanted, amount(seen))
    expect_computed(runs, probe, run)


def expect_computed(runs, probe, run):
    """What was measured has also computed and trained: the outputs before a step and after it. Where training goes
    wrong anyhow, other checks say so."""
    if not holds(test_same_training, runs, probe):
        return
    model = probe.large(probe.SIDE, run.seed)
    inputs = [probe.large_inputs(rank.secret, "large") for rank in run]
    outputs = [[model(one) for one in inputs]]
    sum(one.square().mean() for one in outputs[0]).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=probe.LARGE_RATE / run.world_size)
        outputs.append([model(one) for one in inputs])
    for rank in run:
        seen = rank.read("large: outputs", list[Tensor])
        wanted = [one[rank.rank].detach() for one in outputs]
        rank.expect_close(seen, wanted, "the outputs where memory is measured, before and after a step,", steps=4)


def expect_saved(rank, name):
    rank.expect_success(rank.read(name, Attempt), "saving")


def test_not_gathered(runs, probe):
    """Blocks do not stay gathered after forward"""
    _, block = probe.sizes()
    (run,) = runs("pair", recorded=["large: after an evaluation"])
    looks = {
        "after forward": ("between forward and backward", "at rest"),
        "after an evaluation": ("after an evaluation", "after a step"),
    }
    for rank in run:
        for when, (words, before) in looks.items():
            # The root, half as large as a block, may stay; the rest is for activations and other small things.
            more, most = kept(rank, when) - kept(rank, before), 0.8 * block
            wanted = f"at most {amount(most)}: a block has {amount(block)}, and the root, which may stay, half of it"
            rank.expect(more <= most, f"what a rank has more {words} than {before}", wanted, amount(more))
    expect_computed(runs, probe, run)
    for other, where, _ in steps_in(runs, probe, "list"):
        for rank in other:
            for one in rank.during(where).of("all_gather").at_least(SMALL):
                # Of N ranks that have 1/N of a unit it takes all to make it whole, and of fewer that keep more fewer.
                subject, wanted = f"ranks that make a unit whole in {where}", f"{other.world_size}, each with its share"
                rank.expect(len(one.group) == other.world_size, subject, wanted, len(one.group), line=one.line)


# Checkpoints


def saved(run, what):
    """What rank 0 wrote, in a save that raised on no rank."""
    for rank in run:
        rank.expect_success(rank.read(f"{what}_saved", Attempt), "saving")
    return run[0].read(f"{what}_file", bytes | None)


@once
def content_of(run, what):
    """The tensors in the file."""
    wanted = "a state dict of plain tensors"
    content = run[0].expect_loads(saved(run, what), "the checkpoint", wanted=wanted, missing="a file at path")
    for name, value in content.items():
        run[0].expect(not isinstance(value, str), f"{name!r} in the checkpoint", "a plain tensor", value)
    return run[0].expect_kind(content, Tensors, "the checkpoint")


def checkpoints(runs):
    """The runs in which the first checkpoint was written."""
    return runs(*WHOLE, recorded=["first_saved"])


STORY = (("step", 0), ("backward", 1), ("update",), ("evaluate", 2), ("step", 3), ("evaluate", 4))
"""What the probe does around saving: the first checkpoint is written after one of these, the one inside of a step after
two, and the second one at the first's path after four."""


@once
def story_of(probe, run, acts, combine=None):
    """Training in which so many things of the story were done."""
    training = Training(probe, "tied", list(run), run.seed, combine)
    for act, *number in STORY[:acts]:
        getattr(training, act)(*number)
    return training


@once
def state_after(probe, run, acts):
    """The bare model's state dict at that time. Where training goes wrong in a way that is known, which other checks
    tell, it is the state to which that has led."""
    seen = run[0].get("outputs")
    seen = seen if isinstance(seen, list) else []
    for combine in (None, *MISTAKES.values()):
        outputs = [by_rank[0] for by_rank in story_of(probe, run, acts + 1, combine).outputs]
        if holds(run[0].expect_close, seen, [*outputs, *seen[len(outputs) :]], "", steps=8):
            return story_of(probe, run, acts, combine).state()
    return story_of(probe, run, acts).state()


def test_loads(runs):
    """The file loads with weights_only=True and is a dict of plain tensors"""
    for run in checkpoints(runs):
        content_of(run, "first")
        made = holds_parameters(run[0].read("first_file", bytes | None))
        run[0].expect(not made, "what the checkpoint holds", "plain tensors", "torch.nn.Parameter")


def holds_parameters(data):
    """Whether a file that torch.save wrote makes parameters when it is loaded."""
    if not data or len(data) > LARGE:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            pickles = [file.read(one) for one in file.infolist() if one.filename.endswith("data.pkl")]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
    return any(b"_rebuild_parameter" in one for one in pickles)


def test_keys(runs, probe):
    """The keys are those of the bare model's state dict: buffers, tied and frozen parameters included"""
    for run in checkpoints(runs):
        wanted, found = set(probe.build("tied", 0).state_dict()), set(content_of(run, "first"))
        for subject, names in (("missing from", wanted - found), ("too many in", found - wanted)):
            run[0].expect(not names, f"keys {subject} the checkpoint", "none", listed(sorted(names)))


def expect_state(run, probe, what, acts, subject, older):
    """What is in the file under the bare model's keys has the values of now, and not those of `older` acts."""
    content, wanted = content_of(run, what), state_after(probe, run, acts)
    found = {name: content[name] for name in wanted if name in content}
    shapes = {name: list(value.shape) for name, value in found.items()}
    run[0].expect_equal(shapes, {name: list(wanted[name].shape) for name in found}, f"the shapes of {subject}")
    found = {name: value.to(wanted[name].dtype) for name, value in found.items()}
    right = {name: wanted[name] for name in found}
    run[0].expect_close(found, right, f"{subject}:", steps=8, budget=2, stale=state_after(probe, run, older))


def test_values(runs, probe):
    """The file holds the full tensors, as they are when it is saved"""
    for run in checkpoints(runs):
        expect_state(run, probe, "first", 1, "the checkpoint after one step", older=0)


def expect_later_state(run, probe, what, acts, subject):
    """Every key of the first checkpoint is in this one, with the values of now."""
    missing = content_of(run, "first").keys() - content_of(run, what).keys()
    run[0].expect(not missing, f"keys missing from {subject}", "none", listed(sorted(missing)))
    expect_state(run, probe, what, acts, subject, older=1)


def test_overwrites(runs, probe):
    """Later saves, over an older file or inside a step, hold the whole model as it is then"""
    for run in runs(*WHOLE, recorded=["second_saved"]):
        expect_later_state(run, probe, "second", 4, "the second checkpoint at one path")
        if all(holds(expect_saved, rank, "inside_saved") for rank in run):
            expect_later_state(run, probe, "inside", 2, "the checkpoint between backward and the optimizer's step")


def test_dtypes(runs, probe):
    """Every tensor has the dtype that it has in the model"""
    (run,) = runs("three", recorded=[f"{name}_saved" for name in probe.DTYPES])
    for name, dtype in probe.DTYPES.items():
        content, wanted = content_of(run, name), probe.build("list", run.seed, dtype).state_dict()
        for key in wanted.keys() & content.keys():
            subject, seen = f"{key!r} in the checkpoint of a {name} model", content[key]
            run[0].expect_equal(str(seen.dtype), str(wanted[key].dtype), f"the dtype of {subject}")
            run[0].expect(seen.equal(wanted[key]), subject, "bit for bit what was sharded", "other values")


def test_own_storage(runs):
    """No tensor in the file is a view of something larger"""
    for run in checkpoints(runs):
        content, sizes = content_of(run, "first"), storages(run[0].read("first_file", bytes | None))
        known = {value.nbytes for value in content.values()}
        larger = sorted(size for size in sizes if size not in known)
        subject, wanted = "the storages in the checkpoint", "each of the size of a tensor"
        run[0].expect(not larger, subject, wanted, f"{listed(map(amount, larger[:3]))}, which no tensor has")


def storages(data):
    """The sizes of the storages in a file that torch.save wrote, in bytes. [] for one in the format before 1.6; of one
    that is far too large its own size."""
    if data and len(data) > LARGE:
        return [len(data)]
    try:
        with zipfile.ZipFile(io.BytesIO(data or b"")) as file:
            return [one.file_size for one in file.infolist() if "/data/" in one.filename]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return []


def test_rank_0_alone(runs):
    """Rank 0 alone writes"""
    for run in runs(*WHOLE, recorded=["writes"]):
        for rank in run:
            written = rank.read("writes", list[str])
            if rank.rank:
                rank.expect(not written, "the rank", "no file written", ", ".join(written))


def test_complete_on_return(runs):
    """When save_full_checkpoint returns on any rank, the file is complete"""
    (run,) = runs("three", recorded=["slow_held_up"])
    for what in ("first", "slow"):
        for rank in reversed(list(run)):
            expect_complete(rank, what)


def expect_complete(rank, what):
    """A rank that returned from this save found the file that was there in the end, and a new one."""
    for saved in ("older", "slow") if what == "slow" else (what,):
        rank.expect_success(rank.read(f"{saved}_saved", Attempt), "saving while rank 0's disk is slow")
    found = rank.read(f"{what}_held_up", HeldUp)
    seen = "the older file" if found["older"] else "a part of it" if found["there"] else "there is no file"
    right = found["there"] and found["settled"] and not found["older"]
    which = "its first save" if what == "first" else "a later save"
    rank.expect(right, f"the file at the moment when this rank returned from {which}", "the whole new file", seen)


def expect_gathers_again(rank, probe):
    """After saving a step gathers as often as before; but an evaluation may have left the root gathered."""
    first, last = (f"step {number} with {probe.SAVED}" for number in (0, 3))
    before = len(rank.during(first).of("all_gather"))
    rank.expect_count(last, "all_gather", (max(before - 1, 0), before), subject="all_gather in a step after saving")


def test_training_goes_on(runs, probe):
    """Training goes on after saving as if nothing had been saved, inside a step too"""
    for run in runs(*WHOLE, recorded=["outputs"]):
        training = story_of(probe, run, len(STORY))
        for place, rank in enumerate(run):
            for what in ("first", "inside", "second"):
                attempt = rank.read(f"{what}_saved", Saved)
                rank.expect_success(attempt, "saving")
                rank.expect(attempt["same_draws"], RANDOM, "as before the save", "changed", hint=DROPOUT)
            seen = rank.read("outputs", list[Tensor])
            rank.expect(len(seen) == len(training.outputs), "forward passes around saving", len(training.outputs))
            for number, (output, right) in enumerate(zip(seen, training.outputs, strict=True)):
                expect_outputs(rank, output, right[place], f"the outputs of forward pass {number} around saving")
            expect_gathers_again(rank, probe)
