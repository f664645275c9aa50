"""Judges the recorded runs of `train_ddp`.

Every step is judged from what the ranks really had and saw before it: their parameters and their batches. So a wrong
shard never fails the arithmetic, nor a wrong learning rate the shards. Two things are measured on one rank alone, where
no other rank can disturb them, and used by the other checks: the learning rate and the number of epochs.
"""

import io
import math
import pickle
from collections import Counter
from itertools import pairwise

import torch
from torch.nn.functional import cross_entropy

TERMS = 64
"""A step's gradient is recovered as (before - after) / lr: room for the rounding of both parameters."""
SHOWN = 5


# What the ranks did


def history(rank):
    """The trained model's tensors before each step and at the end: a list of dicts by name."""
    states = rank["states"]
    steps = len(rank["batches"])
    return [{name: values[step] for name, values in states.items()} for step in range(steps)] + [rank["final"]]


def trained_names(rank):
    return [name for name in rank["final"] if name != "scale"]


def batch_gradients(probe, run, rank):
    """For each step the gradient of the mean cross-entropy over this rank's batch, at this rank's parameters."""
    data = probe.NumberedData(run.parameters["samples"], run.seed)
    pairs = zip(history(rank), rank["batches"], strict=False)
    return [gradient(probe, state, data.inputs[numbers], data.targets[numbers]) for state, numbers in pairs]


def gradient(probe, state, inputs, targets):
    leaves = {name: tensor.clone().requires_grad_(name != "scale") for name, tensor in state.items()}
    names = [name for name, leaf in leaves.items() if leaf.requires_grad]
    loss = cross_entropy(probe.logits(leaves, inputs), targets)
    return dict(zip(names, torch.autograd.grad(loss, [leaves[name] for name in names]), strict=True))


def used_gradients(rank, rate):
    """For each step what the rank took off its parameters, divided by the learning rate."""
    states = history(rank)
    return [
        {name: (before[name] - after[name]) / rate for name in trained_names(rank)}
        for before, after in pairwise(states)
    ]


def dot(left, right):
    return sum(float((left[name] * right[name]).sum()) for name in left)


def combined(gradients, weights):
    """The weighted sum of several gradients."""
    return {
        name: sum(weight * one[name] for one, weight in zip(gradients, weights, strict=True)) for name in gradients[0]
    }


def measured_rate(probe, run):
    """The learning rate that explains each step of a run on one rank; None where no single one does."""
    gradients, changes = batch_gradients(probe, run, run[0]), used_gradients(run[0], 1.0)
    rate = dot(changes[0], gradients[0]) / dot(gradients[0], gradients[0])
    for change, own in zip(changes, gradients, strict=True):
        rest = combined([change, own], [1, -rate])
        if not dot(rest, rest) <= 1e-20 * dot(change, change):
            return None
    return rate or None


def epochs_made(run):
    """How many epochs a run on one rank made: how often most samples were used."""
    counts = Counter(Counter(drawn(run[0])).values())
    return counts.most_common(1)[0][0]


def drawn(rank):
    return [number for batch in rank["batches"] for number in batch]


def epochs_of(run, rank, epochs):
    """The numbers of the samples that a rank drew, one list an epoch. An epoch is an equal part of its batches."""
    batches = rank["batches"]
    size, rest = divmod(len(batches), epochs)
    if rest or not size:
        seen = f"{len(batches)} batches"
        run.fail("the batches", expected=f"equally many in each of {epochs} epochs", actual=seen, ranks=[rank.rank])
    parts = [batches[start : start + size] for start in range(0, len(batches), size)]
    return [[number for batch in part for number in batch] for part in parts]


def shown(numbers):
    rest = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, sorted(numbers)[:SHOWN])) + rest


# The basic path


def test_trains(runs, probe):
    """Every rank joins the group and trains"""
    for run in runs("train"):
        for rank in run:
            expect_steps(run, rank, probe)
            group = rank["group"]
            seen = f"rank {group['rank']} of {group['world_size']}" if group else "no process group"
            wanted = f"rank {rank.rank} of {run.world_size}"
            run.expect(seen == wanted, "the group while training", expected=wanted, actual=seen, ranks=[rank.rank])


def expect_steps(run, rank, probe):
    """Training steps on samples of the data set, with a float64 model that changes."""
    ranks, samples = [rank.rank], run.parameters["samples"]
    steps = len(rank["batches"])
    run.expect(steps, "the training", expected="forward and backward passes of the model", actual="none", ranks=ranks)
    strange = [number for number in drawn(rank) if not 0 <= number < samples]
    run.expect(not strange, "the inputs", expected="the data set's x, unchanged", actual="other values", ranks=ranks)
    kinds = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in rank["final"].items()}
    own = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in probe.Classifier().tensors().items()}
    run.expect_equal(kinds, own, "shape and dtype of the trained parameters", ranks=ranks)
    moved = any(not rank["final"][name].equal(rank["states"][name][0]) for name in trained_names(rank))
    run.expect(moved, "the parameters", expected="changed by training", actual="as at the start", ranks=ranks)


def test_rendezvous(runs):
    """The ranks meet at MASTER_ADDR and MASTER_PORT"""
    for run in runs("train"):
        for rank in run:
            wanted, seen = rank["port"], rank["group"]["port"]
            same = seen is None or str(seen) == wanted
            run.expect(same, "the port", expected=f"MASTER_PORT, {wanted}", actual=seen, ranks=[rank.rank])


# The arithmetic


def test_plain_sgd(runs, probe):
    """On one rank every step is plain SGD on the mean cross-entropy"""
    run = runs("train")[0]
    rank = run[0]
    rate = measured_rate(probe, run) or run.parameters["options"]["lr"]
    gradients, used = batch_gradients(probe, run, rank), used_gradients(rank, rate)
    for step in range(len(gradients)):
        what_if = mistakes_on_one_rank(rank, gradients, used, step)
        expect_step(run, rank, step, used[step], gradients[step], what_if)


def mistakes_on_one_rank(rank, gradients, used, step):
    """What step `step` would have used, had the student made a well-known mistake."""
    past = gradients[: step + 1]
    state = {name: history(rank)[step][name] for name in trained_names(rank)}
    decay = dot(combined([used[step], gradients[step]], [1, -1]), state) / dot(state, state)
    momentum = [0.9 ** (step - earlier) for earlier in range(step + 1)]
    return {
        "the sum over the batch, not the mean": combined([gradients[step]], [len(rank["batches"][step])]),
        "the gradients of earlier steps are still in it": combined(past, [1] * len(past)),
        "this step has momentum": combined(past, momentum),
        "this step has weight decay": combined([gradients[step], state], [1, decay]),
    }


def expect_step(run, rank, step, used, wanted, what_if):
    steps = len(rank["batches"])
    subject = f"the gradient applied in step {step + 1} of {steps} to"
    run.expect_close(used, wanted, subject, ranks=[rank.rank], terms=TERMS, alternatives=what_if, budget=2)


def test_starts_from_rank_0(runs):
    """All replicas start from rank 0's model, buffers included"""
    for run in runs("train"):
        wanted = initial_state(run, history(run[0])[0])
        for rank in run:
            own = rank["built"][-1] if rank.rank and rank["built"] else None
            what_if = {"this rank's own initial values": own}
            subject = "the state before the first step:"
            run.expect_close(history(rank)[0], wanted, subject, ranks=[rank.rank], alternatives=what_if, budget=2)


def initial_state(run, used):
    """The state of rank 0's model after construction. Where it built several, the one that it uses."""
    built = run[0]["built"]
    run.expect(built, "the models built", expected="at least one", actual="none", ranks=[0])
    return next((state for state in built if all(state[name].equal(used[name]) for name in state)), built[-1])


def test_same_as_one_process(runs, probe):
    """Every step is the step of one process on all ranks' batches"""
    alone, *together = runs("train")
    rate = measured_rate(probe, alone) or alone.parameters["options"]["lr"]
    for run in together:
        own = [batch_gradients(probe, run, rank) for rank in run]
        used = [used_gradients(rank, rate) for rank in run]
        for step in range(min(map(len, own))):
            here = [gradients[step] for gradients in own]
            mean = combined(here, [1 / run.world_size] * run.world_size)
            for rank in run:
                what_if = mistakes_together(run, rank, here)
                expect_step(run, rank, step, used[rank.rank][step], mean, what_if)


def mistakes_together(run, rank, gradients):
    first = {} if rank.rank == 0 else {"the gradient of rank 0's batch alone": gradients[0]}
    return {"the gradient of this rank's own batch, not the mean over the ranks": gradients[rank.rank], **first}


def test_replicas_identical(runs):
    """The replicas are bit-identical before every step and at the end"""
    for run in runs("train")[1:]:
        histories = [history(rank) for rank in run]
        for step, states in enumerate(zip(*histories, strict=False)):
            when = f"before step {step + 1}" if step + 1 < len(histories[0]) else "at the end"
            run.expect_identical(dict(enumerate(states)), f"the replicas {when}:")


# The arguments and the data


def test_arguments(runs, probe):
    """epochs, batch_size and lr are honoured, and so are their defaults"""
    train, (defaults,) = runs("train"), runs("defaults")
    expect_rate(probe, train[0], train[0].parameters["options"]["lr"], "the learning rate")
    expect_rate(probe, defaults, 0.1, "the learning rate where none is given")
    for run in train:
        expect_batches(run, epochs_made(train[0]), run.parameters["options"]["batch_size"], "the batch sizes")
    subject = "the batch sizes where batch_size is not given"
    expect_batches(defaults, defaults.parameters["epochs"], 32, subject)
    epochs = train[0].parameters["epochs"]
    train[0].expect_equal(epochs_made(train[0]), epochs, "the number of epochs", ranks=[0])


def expect_rate(probe, run, wanted, subject):
    """Where no single rate explains the steps, `plain_sgd` says so."""
    run.expect(run[0]["batches"], subject, expected=wanted, actual="no training steps", ranks=[0])
    rate = measured_rate(probe, run)
    if rate is not None:
        run.expect_close(rate, wanted, subject, ranks=[0], terms=TERMS, world_size=None)


def expect_batches(run, epochs, batch_size, subject):
    """No batch is larger than `batch_size`, and at most one an epoch is smaller."""
    for rank in run:
        sizes = [len(batch) for batch in rank["batches"]]
        right = max(sizes) <= batch_size and sum(size < batch_size for size in sizes) <= epochs
        wanted, seen = f"{batch_size} apart from the last of an epoch", shown_sizes(sizes)
        run.expect(right, subject, expected=wanted, actual=seen, ranks=[rank.rank])


def shown_sizes(sizes):
    return ", ".join(map(str, sizes[:SHOWN])) + (", …" if len(sizes) > SHOWN else "")


def test_every_sample(runs):
    """Every epoch uses every sample, the short last batch included"""
    alone, *_ = train = runs("train")
    epochs = epochs_made(alone)
    for run in train:
        by_rank = [epochs_of(run, rank, epochs) for rank in run]
        for epoch, parts in enumerate(zip(*by_rank, strict=True)):
            missing = set(range(run.parameters["samples"])).difference(*parts)
            run.expect(
                not missing,
                f"epoch {epoch + 1} on {run.world_size} rank{'s' if run.world_size > 1 else ''}",
                expected=f"all {run.parameters['samples']} samples",
                actual=f"{len(missing)} left out (number {shown(missing)})",
            )


def test_shards(runs):
    """Every rank draws its equal share, with as little repetition as possible"""
    alone, *together = runs("train")
    for run in together:
        expect_shares(run, epochs_made(alone))
    (tiny,) = runs("tiny")
    subject, epochs = "the batches", len(tiny[0]["batches"])  # one sample fits into one batch
    tiny.expect(epochs, subject, expected="one an epoch, with the only sample", actual="none", ranks=[0])
    expect_shares(tiny, epochs)


def expect_shares(run, epochs):
    samples = run.parameters["samples"]
    share = math.ceil(samples / run.world_size)
    wanted = f"ceil({samples}/{run.world_size}) = {share}"
    for rank in run:
        for epoch, numbers in enumerate(epochs_of(run, rank, epochs)):
            subject = f"the samples drawn in epoch {epoch + 1}"
            right = len(numbers) == share
            run.expect(right, subject, expected=wanted, actual=len(numbers), ranks=[rank.rank])


def test_reshuffles(runs):
    """The whole data set is reshuffled in every epoch"""
    alone, *together = runs("train")
    epochs = epochs_made(alone)
    orders = epochs_of(alone, alone[0], epochs)
    in_order = next((epoch for epoch, order in enumerate(orders) if order == sorted(order)), None)
    subject = f"the samples in epoch {(in_order or 0) + 1}"
    alone.expect(in_order is None, subject, expected="shuffled", actual="in the data set's order", ranks=[0])
    for run in (alone, *together):
        for rank in run:
            expect_new_order(run, rank, epochs_of(run, rank, epochs))


def expect_new_order(run, rank, orders):
    first = Counter(map(tuple, orders)).most_common(1)[0]
    seen = f"one order {first[1]} times: {shown_sizes(first[0])}"
    run.expect(first[1] == 1, "the order", expected="another one every epoch", actual=seen, ranks=[rank.rank])
    sets = {frozenset(order) for order in orders}
    whole = len(next(iter(sets))) == run.parameters["samples"]
    changes = len(sets) > 1 or whole or len(orders) == 1
    run.expect(
        changes,
        "a rank's samples",
        expected="others every epoch, since the whole data set is shuffled",
        actual="the same ones in every epoch, in another order",
        ranks=[rank.rank],
    )


# The way out


def test_returns_model(runs):
    """Every rank returns the trained model itself"""
    for run in runs("train"):
        for rank in run:
            returned, wanted = rank["returned"], "a Classifier, made by model_class()"
            subject = "what train_ddp returned"
            run.expect(returned["exact"], subject, expected=wanted, actual=returned["type"], ranks=[rank.rank])
            wanted, seen = "the model that was trained", "another object of its class"
            run.expect(returned["trained"], subject, expected=wanted, actual=seen, ranks=[rank.rank])


def test_checkpoint(runs):
    """The checkpoint loads into a bare model and holds the trained values"""
    for run in runs("train"):
        content = loaded(run, run[0]["checkpoint"])
        run.expect_close(content, run[0]["final"], "the checkpoint's entry", ranks=[0], stale=stale(run), budget=3)


def stale(run):
    return history(run[0])[0]


def loaded(run, data):
    """The state dict in the checkpoint's bytes."""
    subject = "rank 0's checkpoint"
    run.expect(data is not None, subject, expected="a file at checkpoint_path", actual="there is none", ranks=[0])
    try:
        content = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, AttributeError) as error:
        reason = str(error).partition("\n")[0][:80]
        run.fail(subject, expected="a state dict that loads with weights_only=True", actual=reason, ranks=[0])
    kind = type(content).__name__
    run.expect(isinstance(content, dict), subject, expected="a state dict", actual=f"a {kind}", ranks=[0])
    return dict(content)


def test_rank_0_alone(runs, probe):
    """Rank 0 alone writes the checkpoint, and nobody writes one that was not asked for"""
    for run in (*runs("train"), *runs("defaults")):
        for rank in run:
            asked = run.parameters["checkpoint"] and rank.rank == 0
            found = rank["files"] + rank["strays"]
            wanted = f"only {probe.CHECKPOINT}" if asked else "none"
            right = found == ([probe.CHECKPOINT] if asked else [])
            seen = ", ".join(found[:SHOWN]) or "none"
            run.expect(right, "the checkpoint files", expected=wanted, actual=seen, ranks=[rank.rank])


def test_leaves_group(runs):
    """The group is gone when the function returns"""
    for run in runs("train"):
        for rank in run:
            wanted, seen = "no process group", "it is still there"
            run.expect(rank["left"], "the group after training", expected=wanted, actual=seen, ranks=[rank.rank])


def test_errors(runs):
    """An exception reaches the caller, the group is gone then too, and another call works"""
    alone, together = runs("stumble")
    expect_passed_on(alone, alone[0], "building", "this model cannot be built", "after model_class() raised")
    for rank in together:
        expect_passed_on(together, rank, "step", "the second step stumbles", "after the model raised in step 2")
        again = rank["again"]
        seen = f"{again['raised'][0]}: {again['message']}" if again["raised"] else "no training steps"
        worked = not again["raised"] and again["steps"]
        subject = "another call in the same process"
        together.expect(worked, subject, expected="training as usual", actual=seen, ranks=[rank.rank])


def expect_passed_on(run, rank, call, message, when):
    outcome = rank[call]
    subject = f"the exception {when}"
    run.expect_raised(outcome, "Stumble", subject, ranks=[rank.rank])
    same = outcome["raised"][0] == "Stumble" and message in outcome["message"]
    run.expect(same, subject, expected=f"Stumble: {message}", actual=outcome["message"][:80], ranks=[rank.rank])
    seen = "it is still there"
    run.expect(outcome["left"], f"the group {when}", expected="no process group", actual=seen, ranks=[rank.rank])


def test_no_epochs(runs):
    """epochs=0 gives rank 0's initial model and saves it"""
    for run in runs("no_epochs"):
        wanted = initial_state(run, run[0]["final"])
        for rank in run:
            run.expect_close(rank["final"], wanted, "the model after 0 epochs:", ranks=[rank.rank], budget=2)
        wanted, seen = "a file at checkpoint_path", "there is none"
        saved = run[0]["checkpoint"] is not None
        run.expect(saved, "rank 0's checkpoint after 0 epochs", expected=wanted, actual=seen, ranks=[0])
