"""Judges the recorded runs of `train_ddp`.

Every step is judged from what the ranks really had and saw before it: their parameters and their batches. So a wrong
shard never fails the arithmetic, nor a wrong learning rate the shards. Two things are measured on one rank alone, where
no other rank can disturb them, and used by the other checks: the learning rate and the number of epochs.
"""

import io
import ipaddress
import math
import pickle
import re
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
    return [{name: states[name][step] for name in states} for step in range(len(rank["batches"]))] + [rank["final"]]


def used_gradients(rank, rate):
    """For each step what the rank took off its parameters, divided by the learning rate."""
    names = [name for name in rank["final"] if name != "scale"]
    return [{name: (before[name] - after[name]) / rate for name in names} for before, after in pairwise(history(rank))]


def batch_gradients(probe, run, rank):
    """For each step the gradient of the mean cross-entropy over this rank's batch, at this rank's parameters."""
    data = probe.NumberedData(run.parameters["samples"], run.seed)
    steps = zip(history(rank), rank["batches"], strict=False)
    return [gradient(probe, state, data.inputs[numbers], data.targets[numbers]) for state, numbers in steps]


def gradient(probe, state, inputs, targets):
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items() if name != "scale"}
    loss = cross_entropy(probe.logits({**state, **leaves}, inputs), targets)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def combined(gradients, weights):
    """The weighted sum of several gradients."""
    pairs = list(zip(gradients, weights, strict=True))
    return {name: sum(weight * one[name] for one, weight in pairs) for name in gradients[0]}


def dot(left, right):
    return sum(float((left[name] * right[name]).sum()) for name in left)


def measured_rate(gradients, rank):
    """The learning rate that explains each step of a run on one rank; None where no single one does."""
    changes = used_gradients(rank, 1.0)
    rate = dot(changes[0], gradients[0]) / dot(gradients[0], gradients[0])
    for change, own in zip(changes, gradients, strict=True):
        rest = combined([change, own], [1, -rate])
        if not dot(rest, rest) <= 1e-20 * dot(change, change):
            return None
    return rate or None


def drawn(rank):
    return [number for batch in rank["batches"] for number in batch]


def epochs_made(run):
    """How many epochs a run on one rank made: how often most samples were used."""
    counts = Counter(Counter(drawn(run[0])).values())
    return counts.most_common(1)[0][0]


def epochs_of(run, rank, epochs):
    """The numbers of the samples that a rank drew, one list an epoch. An epoch is an equal part of its batches."""
    batches = rank["batches"]
    size, rest = divmod(len(batches), epochs)
    wanted, seen = f"equally many in each of {epochs} epochs", f"{len(batches)} batches"
    run.expect(size and not rest, "the batches", expected=wanted, actual=seen, ranks=[rank.rank])
    parts = [batches[start : start + size] for start in range(0, len(batches), size)]
    return [[number for batch in part for number in batch] for part in parts]


def listed(items):
    return ", ".join(map(str, items[:SHOWN])) + (", …" if len(items) > SHOWN else "")


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
    wanted = "forward and backward passes of the model"
    run.expect(rank["batches"], "the training", expected=wanted, actual="none", ranks=ranks)
    run.expect(all(rank["batches"]), "the batches", expected="samples in each", actual="an empty one", ranks=ranks)
    known = all(0 <= number < samples for number in drawn(rank))
    run.expect(known, "the inputs", expected="the data set's x, unchanged", actual="other values", ranks=ranks)
    kinds = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in rank["final"].items()}
    own = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in probe.Classifier().tensors().items()}
    run.expect_equal(kinds, own, "shape and dtype of the trained parameters", ranks=ranks)
    moved = any(change.any() for change in used_gradients(rank, 1.0)[0].values())
    run.expect(moved, "the parameters", expected="changed by step 1", actual="as at the start", ranks=ranks)


def test_rendezvous(runs):
    """The ranks meet at MASTER_ADDR and MASTER_PORT, or at a default where these are missing"""
    for run in runs("train"):
        for rank in run:
            wanted, seen = rank["given"], rank["group"]["meeting"]
            subject, same = "MASTER_ADDR:MASTER_PORT of the group", seen in (wanted, None)
            run.expect(same, subject, expected=f"{wanted}, as in the environment", actual=seen, ranks=[rank.rank])
    expect_default_place(*runs("alone"))


def expect_default_place(run):
    """Without MASTER_ADDR and MASTER_PORT training works, and the group meets at some port of this machine."""
    subject, wanted = "the group where MASTER_ADDR and MASTER_PORT are missing", "localhost and a default port"
    call = run[0]["unplaced"]
    if call["raised"]:
        error = f"{call['raised'][0]}: {call['message']}"
        run.fail(subject, expected=wanted, actual=error, ranks=[0], line=call["line"])
    for host, port in run[0]["asked"]:
        right = is_loopback(host, run[0]["host"]) and 1 <= port <= 65535
        run.expect(right, subject, expected=wanted, actual=f"{host}:{port}", ranks=[0])


def is_loopback(host, own_name):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in ("localhost", own_name.lower())


# The arithmetic


def test_plain_sgd(runs, probe):
    """On one rank every step is plain SGD on the mean cross-entropy"""
    run = runs("train")[0]
    rank, states = run[0], history(run[0])
    gradients = batch_gradients(probe, run, rank)
    used = used_gradients(rank, measured_rate(gradients, rank) or run.parameters["options"]["lr"])
    for step, own in enumerate(gradients):
        what_if = mistakes_on_one_rank(run, gradients[: step + 1], used[step], states[step])
        expect_step(run, rank, step, used[step], own, what_if)


def mistakes_on_one_rank(run, gradients, used, state):
    """What the step after `gradients` would have used, had the student made a well-known mistake."""
    steps, batches, own = len(gradients), run[0]["batches"], gradients[-1]
    size, parameters = len(batches[steps - 1]), {name: state[name] for name in own}
    decay = dot(combined([used, own], [1, -1]), parameters) / dot(parameters, parameters)
    return {
        "the sum over the batch, not the mean": combined([own], [size]),
        "divided by batch_size, though this batch is shorter": combined([own], [size / len(batches[0])]),
        "the gradients of earlier steps are still in it": combined(gradients, [1] * steps),
        "this step has momentum": combined(gradients, [0.9 ** (steps - 1 - step) for step in range(steps)]),
        "this step has weight decay": combined([own, parameters], [1, decay]),
    }


def expect_step(run, rank, step, used, wanted, what_if):
    subject = f"the gradient applied in step {step + 1} of {len(rank['batches'])} to"
    run.expect_close(used, wanted, subject, ranks=[rank.rank], terms=TERMS, alternatives=what_if, budget=2)


def test_starts_from_rank_0(runs):
    """All replicas start from rank 0's model, buffers included"""
    for run in runs("train"):
        wanted = initial_state(run, history(run[0])[0])
        for rank in run:
            what_if = {"this rank's own initial values": rank["built"][-1] if rank.rank and rank["built"] else None}
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
    rate = measured_rate(batch_gradients(probe, alone, alone[0]), alone[0]) or alone.parameters["options"]["lr"]
    for run in together:
        gradients = [batch_gradients(probe, run, rank) for rank in run]
        used = [used_gradients(rank, rate) for rank in run]
        for step, ours in enumerate(zip(*gradients, strict=False)):
            mean = combined(ours, [1 / run.world_size] * run.world_size)
            for rank in reversed(list(run)):  # rank 0's own gradient is the least telling
                expect_step(run, rank, step, used[rank.rank][step], mean, mistakes_together(rank, ours))


def mistakes_together(rank, gradients):
    return {
        "the gradient of this rank's own batch, not the mean over the ranks": gradients[rank.rank],
        "the gradient of rank 0's batch alone": gradients[0],
    }


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
    options, epochs = train[0].parameters["options"], train[0].parameters["epochs"]
    train[0].expect_equal(epochs_made(train[0]), epochs, "the number of epochs", ranks=[0])
    expect_rate(probe, train[0], options["lr"], "the learning rate")
    expect_rate(probe, defaults, 0.1, "the learning rate where none is given")
    for run in train:
        expect_batches(run, epochs, options["batch_size"], "the batch sizes")
    expect_batches(defaults, defaults.parameters["epochs"], 32, "the batch sizes where batch_size is not given")


def expect_rate(probe, run, wanted, subject):
    """Where no single rate explains the steps, `plain_sgd` says so."""
    run.expect(run[0]["batches"], subject, expected=wanted, actual="no training steps", ranks=[0])
    rate = measured_rate(batch_gradients(probe, run, run[0]), run[0])
    if rate is not None:
        run.expect_close(rate, wanted, subject, ranks=[0], terms=TERMS, world_size=None)


def expect_batches(run, epochs, batch_size, subject):
    """No batch is larger than `batch_size`, and at most one an epoch is smaller."""
    for rank in run:
        sizes = [len(batch) for batch in rank["batches"]]
        right = max(sizes) <= batch_size and sum(size < batch_size for size in sizes) <= epochs
        wanted = f"{batch_size} apart from the last of an epoch"
        run.expect(right, subject, expected=wanted, actual=listed(sizes), ranks=[rank.rank])


def test_every_sample(runs):
    """Every epoch uses every sample, the short last batch included"""
    alone, *_ = train = runs("train")
    for run in train:
        everything = set(range(run.parameters["samples"]))
        by_rank = [epochs_of(run, rank, epochs_made(alone)) for rank in run]
        for epoch, parts in enumerate(zip(*by_rank, strict=True)):
            left_out = sorted(everything.difference(*parts))
            wanted, seen = f"all {len(everything)} samples", f"{len(left_out)} left out (number {listed(left_out)})"
            run.expect(not left_out, f"the union of the shards in epoch {epoch + 1}", expected=wanted, actual=seen)


def test_shards(runs):
    """Every rank draws its equal share, with as little repetition as possible"""
    alone, *together = runs("train")
    for run in together:
        expect_shares(run, epochs_made(alone))
    (tiny,) = runs("tiny")
    batches = tiny[0]["batches"]  # one sample fits into one batch
    tiny.expect(batches, "the batches", expected="one an epoch, with the only sample", actual="none", ranks=[0])
    expect_shares(tiny, len(batches))


def expect_shares(run, epochs):
    samples = run.parameters["samples"]
    share = math.ceil(samples / run.world_size)
    wanted = f"ceil({samples}/{run.world_size}) = {share}"
    for rank in run:
        for epoch, numbers in enumerate(epochs_of(run, rank, epochs)):
            right, subject = len(numbers) == share, f"how many samples were drawn in epoch {epoch + 1}"
            run.expect(right, subject, expected=wanted, actual=len(numbers), ranks=[rank.rank])


def test_reshuffles(runs):
    """The whole data set is reshuffled in every epoch"""
    alone, *_ = train = runs("train")
    epochs = epochs_made(alone)
    for epoch, order in enumerate(epochs_of(alone, alone[0], epochs)):
        subject, seen = f"the samples of epoch {epoch + 1}", "in the data set's order"
        alone.expect(order != sorted(order), subject, expected="shuffled", actual=seen, ranks=[0])
    for run in train:
        for rank in run:
            expect_new_samples(run, rank, epochs_of(run, rank, epochs))


def expect_new_samples(run, rank, orders):
    order, times = Counter(map(tuple, orders)).most_common(1)[0]
    seen = f"{times} epochs begin {listed(order)}"
    run.expect(times == 1, "the order", expected="another one in every epoch", actual=seen, ranks=[rank.rank])
    sets = {frozenset(order) for order in orders}
    changes = len(sets) > 1 or len(orders) == 1 or len(set(order)) == run.parameters["samples"]
    wanted, seen = "others in every epoch", "always the same ones, in another order"
    run.expect(changes, "a rank's samples", expected=wanted, actual=seen, ranks=[rank.rank])


# What comes out


def test_returns_model(runs):
    """Every rank returns the trained model itself"""
    subject = "what train_ddp returned"
    for run in runs("train"):
        for rank in run:
            returned, wanted = rank["returned"], "a Classifier, as model_class() makes it"
            run.expect(returned["exact"], subject, expected=wanted, actual=returned["type"], ranks=[rank.rank])
            wanted, seen = "the model that was trained", "another object of its class"
            run.expect(returned["trained"], subject, expected=wanted, actual=seen, ranks=[rank.rank])


def test_checkpoint(runs):
    """The checkpoint loads into a bare model and holds the trained values"""
    for run in runs("train"):
        content = loaded(run, run[0]["checkpoint"])
        wanted, start = dict(sorted(run[0]["final"].items())), history(run[0])[0]
        run.expect_close(content, wanted, "the checkpoint's entry", ranks=[0], stale=start, budget=3)


def loaded(run, data):
    """The state dict in the checkpoint's bytes, sorted by name."""
    subject = "rank 0's checkpoint"
    run.expect(data is not None, subject, expected="a file at checkpoint_path", actual="there is none", ranks=[0])
    try:
        content = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, AttributeError) as error:
        refused = re.search(r"GLOBAL (\S+)", str(error))
        seen = f"it holds an object of {refused[1]}" if refused else str(error).partition("\n")[0]
        run.fail(subject, expected="a state dict that loads with weights_only=True", actual=seen, ranks=[0])
    kind = type(content).__name__
    run.expect(isinstance(content, dict), subject, expected="a state dict", actual=f"a {kind}", ranks=[0])
    return {name: content[name] for name in sorted(content, key=str)}


def test_rank_0_alone(runs, probe):
    """Rank 0 alone writes the checkpoint, and only when asked"""
    for run in (*runs("train"), *runs("defaults")):
        for rank in run:
            wanted = [probe.CHECKPOINT] if run.parameters["checkpoint"] and rank.rank == 0 else []
            found = rank["files"] + rank["strays"]
            texts = {"expected": listed(wanted) or "none", "actual": listed(found) or "none"}
            run.expect(found == wanted, "the checkpoint files", ranks=[rank.rank], **texts)


def test_leaves_group(runs):
    """The group is gone when the function returns"""
    for run in runs("train"):
        for rank in run:
            expect_left(run, rank, rank["left"], "after training")


def expect_left(run, rank, left, when):
    wanted, seen = "no process group", "it is still there"
    run.expect(left, f"the group {when}", expected=wanted, actual=seen, ranks=[rank.rank])


def test_errors(runs):
    """Exceptions reach the caller, and the group is left then too"""
    (alone,), (together,) = runs("alone"), runs("stumble")
    expect_passed_on(alone, alone[0], "building", "this model cannot be built", "after model_class() raised")
    for rank in together:
        expect_passed_on(together, rank, "step", "the second step stumbles", "after the model raised in step 2")
        again = rank["again"]
        seen = f"{again['raised'][0]}: {again['message']}" if again["raised"] else "no training steps"
        worked, subject = not again["raised"] and again["steps"], "another call in the same process"
        together.expect(worked, subject, expected="training as usual", actual=seen, ranks=[rank.rank])


def expect_passed_on(run, rank, call, message, when):
    outcome, subject = rank[call], f"the exception {when}"
    run.expect_raised(outcome, "Stumble", subject, ranks=[rank.rank])
    same = outcome["raised"][0] == "Stumble" and message in outcome["message"]
    run.expect(same, subject, expected=f"Stumble: {message}", actual=outcome["message"], ranks=[rank.rank])
    expect_left(run, rank, outcome["left"], when)


def test_no_epochs(runs):
    """epochs=0 gives rank 0's initial model and saves it"""
    for run in runs("no_epochs"):
        wanted = initial_state(run, run[0]["final"])
        for rank in run:
            run.expect_close(rank["final"], wanted, "the model after 0 epochs:", ranks=[rank.rank], budget=2)
        saved, seen = run[0]["checkpoint"] is not None, "there is none"
        subject, wanted = "rank 0's checkpoint after 0 epochs", "a file at checkpoint_path"
        run.expect(saved, subject, expected=wanted, actual=seen, ranks=[0])
