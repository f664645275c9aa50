"""Judges the recorded runs of `train_ddp`.

Every step is judged from what the ranks really had and saw before it: their parameters and their batches. So a wrong
shard never fails the arithmetic, nor a wrong learning rate the shards. Two things are measured on one rank alone, where
no other rank can disturb them, and used by the other checks: the learning rate and the number of epochs. What options
that are left out come to is judged last, by the same expectations.
"""

import math
from collections import Counter
from functools import cached_property, partial
from itertools import chain, pairwise

from torch.nn.functional import cross_entropy

from grader.checks import Attempt, CheckFailed, Tensors, TypedDict, holds, listed, machines, once, places, replay

DEFAULTS = {"batch_size": 32, "lr": 0.1}
STEPS = 4
"""A step's gradient is recovered as (before - after) / lr. So many dependent steps have room for the rounding of both
parameters."""
DEVICE_RULE = "How many GPUs have to be there so that every rank can have one of its own? Below that, all use the CPU."


class Returned(TypedDict):
    """What `train_ddp` returned: whether it is a Classifier, and whether the very one that was trained."""

    type: str
    exact: bool
    trained: bool


class Call(Attempt):
    """A call that may raise: whether the group was left after it, and how many training steps were made."""

    left: bool
    steps: int


class StagedCall(Call):
    """A call of a model that raises: whether what came out is the very exception, and the name of an OSError in whose
    place it was raised."""

    itself: bool
    replaces: str | None


class Interruption(Call):
    """A call in which KeyboardInterrupt is raised: whether it was, and whether it came out again."""

    pressed: bool
    heard: bool


# What the ranks did


class Training:
    """A rank's steps on samples of the data set: the numbers of the samples in each batch, the model's tensors before
    each step, and those at the end (`states` has one more than `batches`)."""

    def __init__(self, rank, probe):
        self.rank, self.probe, samples = rank, probe, rank.parameters["samples"]
        self.options = DEFAULTS | rank.parameters["options"]
        self.batches = rank.read("batches", list[list[int]])
        rank.expect(self.batches, "the training", "forward and backward passes of the model", "none")
        rank.expect(all(self.batches), "the batches", "samples in each", "an empty one")
        self.drawn = list(chain(*self.batches))
        known = all(0 <= number < samples for number in self.drawn)
        rank.expect(known, "the inputs", "the data set's x, unchanged", "other values")
        self.states = states_of(rank, probe, "history")
        wanted, subject = len(self.batches) + 1, "states of the model, before each step and after all"
        rank.expect_equal(len(self.states), wanted, subject)

    def used(self, rate=1.0):
        """For each step what the rank took off its parameters, divided by the learning rate."""
        pairs, names = pairwise(self.states), [name for name in self.states[0] if name != "scale"]
        return [{name: (before[name] - after[name]) / rate for name in names} for before, after in pairs]

    def but_rounding(self, step, used, wanted, rate=1.0):
        """What a step used, with what is wanted in its place where the states' rounding hides the difference."""
        return replay.but_rounding(used, wanted, *self.states[step : step + 2], rate)

    @cached_property
    def gradients(self):
        """For each step the gradient of the mean cross-entropy over this rank's batch, at this rank's parameters."""
        data, logits = (
            self.probe.data_of(self.rank.seed, self.rank.parameters["samples"]),
            self.probe.Classifier.compute,
        )

        def gradient(state, numbers):
            inputs, targets = data.inputs[numbers], data.targets[numbers]
            inputs = inputs + self.probe.shifts(self.rank.secret, inputs)
            names = [name for name in state if name != "scale"]
            return replay.gradient(lambda tensors: cross_entropy(logits(tensors, inputs), targets), state, names)

        return [gradient(*step) for step in zip(self.states, self.batches, strict=False)]

    @cached_property
    def rate(self):
        """Of a rank that is alone: the learning rate that explains each of its steps; None where no single one does."""
        changes, gradients = self.used(), self.gradients
        rate = replay.projection(changes[0], gradients[0])
        wanted = [replay.combined([own], [rate]) for own in gradients]
        changes = [self.but_rounding(step, *pair) for step, pair in enumerate(zip(changes, wanted, strict=False))]
        explains = holds(self.rank.expect_close, changes, wanted, "the steps", steps=STEPS)
        return rate if rate and math.isfinite(rate) and explains else None

    def epochs_made(self):
        """Of a rank that is alone: how many epochs it made, which is how often most samples were used."""
        return Counter(Counter(self.drawn).values()).most_common(1)[0][0]

    def epochs(self, number):
        """The numbers of the samples that were drawn, one list an epoch. An epoch is an equal part of the batches."""
        size, rest = divmod(len(self.batches), number)
        wanted = f"equally many in each of {number} epochs"
        self.rank.expect(size and not rest, "the batches", wanted, f"{len(self.batches)} batches")
        return [list(chain(*self.batches[start : start + size])) for start in range(0, len(self.batches), size)]


def states_of(rank, probe, name):
    """The states of a Classifier under this name."""
    states, like = rank.read(name, list[Tensors]), probe.model_class_of(rank.parameters)().tensors()
    return [rank.expect_like(state, like, "shape and dtype of the trained parameters") for state in states]


@once
def alone(runs, probe, family="train_alone"):
    """The training of a rank that is alone."""
    return Training(runs(family)[0][0], probe)


@once
def together(runs, probe, family="train"):
    """The training of each rank, by run of several ranks."""
    return [[Training(rank, probe) for rank in run] for run in runs(family)]


@once
def tiny(runs, probe):
    """The training of each rank, of which there are more than samples."""
    return [Training(rank, probe) for rank in runs("tiny")[0]]


def every_training(runs, probe):
    return [alone(runs, probe), *chain(*together(runs, probe))]


def every_rank(runs, families=("train_alone", "train")):
    return chain(*(run for family in families for run in runs(family)))


# The basic path


def test_trains_alone(runs, probe):
    """One rank alone comes to its end, with training steps"""
    alone(runs, probe)


def test_trains(runs, probe):
    """Several ranks come to their end, with training steps on each"""
    together(runs, probe)


def test_joins(runs):
    """Every rank is in the process group while it trains"""
    for rank in every_rank(runs):
        group, wanted = rank.read("group", places.Group | None), f"rank {rank.rank} of {rank.world_size}"
        seen = f"rank {group['rank']} of {group['world_size']}" if group else "no process group"
        rank.expect(seen == wanted, "the group while training", wanted, seen)
    expect_backends(runs)


def expect_backends(runs):
    """On staged machines a rank that joins asks for NCCL where each can have a GPU of its own, else for gloo. Nothing
    is charged to one that does not come so far for another reason than a GPU that there is not."""
    for run in (run for run in runs("device_rule", finished=False) if run.came_to(["decisions"])):
        for one in run[0].read("decisions", list[machines.Decision]):
            if one["groups"] or one["refused"]:
                expect_backend(run, one)


def expect_backend(run, decision):
    device, wanted = ("cuda", "nccl") if decision["gpus"] >= decision["world_size"] else ("cpu", "gloo")
    if decision["groups"]:  # to have asked for a GPU that there is not, and then to take another way, is allowed
        decision = {**decision, "refused": []}
    subject = f"{machines.in_words(decision['gpus'], decision['world_size'])}: the backend of rank {decision['rank']}"
    right, seen = machines.backends_of(run, decision).get(device), machines.backend_in_words(run, decision)
    run.expect(right == wanted, subject, f"{wanted} for {device} tensors", seen, hint=DEVICE_RULE)


def test_rendezvous(runs, probe):
    """The ranks meet at MASTER_ADDR and MASTER_PORT, or at a default where these are missing"""
    for rank in every_rank(runs):
        wanted, group = rank.read("given", str), rank.read("group", places.Group | None)
        seen, subject = group and group["meeting"], "MASTER_ADDR:MASTER_PORT of the group"
        right = seen == wanted or (seen is None and rank.world_size == 1)  # who is alone need not meet anywhere
        rank.expect(right, subject, f"{wanted}, as in the environment", seen or "no address and port")
    for rank in chain(*runs("alone", recorded=["host", "unplaced", "asked", "sizes"])):
        told = " and ".join(f"{name}={value}" for name, value in probe.MISLEADING.items())
        subject = f"how many ranks the group waits for, with {told} in the environment"
        for size in rank.read("sizes", list[int]):
            rank.expect(size == 1, subject, "1, the argument", size)
        expect_default_place(rank)
    expect_half_a_place(runs, probe)


def expect_default_place(rank):
    """Without MASTER_ADDR and MASTER_PORT training works, and the group meets at some port of this machine."""
    subject, wanted = "the group where MASTER_ADDR and MASTER_PORT are missing", "localhost and a default port"
    rank.expect_success(rank.read("unplaced", Call), subject, expected=wanted)
    own_name = rank.read("host", str)
    for place in rank.read("asked", list[places.Place]):
        right = places.is_loopback(place["host"], own_name) and places.is_port(place["port"])
        rank.expect(right, subject, wanted, f"{place['host']}:{place['port']}")


def expect_half_a_place(runs, probe):
    """Where one of the two is missing the other one is used, and all ranks have one default port."""
    for rank in chain(*runs("alone", recorded=["asked with an address"])):
        for place in rank.read("asked with an address", list[places.Place]):
            seen, subject = place["host"], "the address of the group where MASTER_PORT alone is missing"
            rank.expect(seen == probe.OTHER_ADDRESS, subject, probe.OTHER_ADDRESS, seen)
    for rank in chain(*runs("alone", recorded=["given port", "asked with a port"])):
        given, subject = rank.read("given port", int), "the port of the group where MASTER_ADDR alone is missing"
        for place in rank.read("asked with a port", list[places.Place]):
            rank.expect_equal(place["port"], given, subject)
    for run in (run for run in runs("stumble", finished=False) if run.came_to(["asked"])):  # else `errors` tells why
        ports = {place["port"] for rank in run for place in rank.read("asked", list[places.Place])}
        subject = "the ranks' default ports where MASTER_PORT is missing"
        run.expect(len(ports) <= 1, subject, "one, the same on all ranks", listed(sorted(map(str, ports))))


# The arithmetic


def test_plain_sgd(runs, probe):
    """On one rank every step is plain SGD on the mean cross-entropy"""
    expect_plain_steps(alone(runs, probe))


def expect_plain_steps(training):
    """Each step of a rank that is alone, at whatever rate explains them all, else at that which was asked for."""
    rate = training.rate or training.options["lr"]
    gradients, used = training.gradients, training.used(rate)
    for step, own in enumerate(gradients):
        explain = partial(mistakes_on_one_rank, training, gradients[: step + 1], used[step])
        expect_step(training, step, training.but_rounding(step, used[step], own, rate), own, explain)


def mistakes_on_one_rank(training, gradients, used):
    """What the step after `gradients` would have used, had the student made a well-known mistake."""
    steps, own = len(gradients), gradients[-1]
    size, full = len(training.batches[steps - 1]), len(training.batches[0])
    parameters = {name: training.states[steps - 1][name] for name in own}
    decay = replay.projection(replay.combined([used, own], [1, -1]), parameters)
    share = replay.projection(used, own)
    return {
        "the sum over the batch, not the mean": replay.combined([own], [size]),
        "divided by batch_size, though this batch is shorter": replay.combined([own], [size / full]),
        "the gradients of earlier steps are still in it": replay.total(*gradients),
        "this step has momentum": replay.combined(gradients, [0.9 ** (steps - 1 - step) for step in range(steps)]),
        "this step has weight decay": replay.combined([own, parameters], [1, decay]),
        **({"this gradient, but clipped or at another rate": replay.combined([own], [share])} if share > 1e-6 else {}),
    }


def expect_step(training, step, used, wanted, explain):
    subject = f"the gradient applied in step {step + 1} of {len(training.batches)} to"
    close = partial(training.rank.expect_close, used, wanted, subject, steps=STEPS, budget=2)
    if not holds(close):  # to explain takes longer than to compare, so only what is wrong is explained
        close(alternatives=explain())


def test_starts_from_rank_0(runs, probe):
    """All replicas start from rank 0's model, buffers included"""
    for run in [[alone(runs, probe)], *together(runs, probe)]:
        wanted = initial_state(run[0].rank, run[0].states[0], probe)
        for training in run:
            rank, built = training.rank, states_of(training.rank, probe, "built")
            what_if = {"this rank's own initial values": built[-1]} if rank.rank and built else {}
            what_if |= older(run[0].rank, probe)
            subject = "the state before the first step:"
            rank.expect_close(training.states[0], wanted, subject, alternatives=what_if, budget=2)


def older(rank, probe):
    """The state in the file that lay at the checkpoint's path, by a clause that names it; {} where there was none."""
    state = probe.older_state(rank.secret, probe.Classifier().tensors()) if rank.parameters.get("older") else None
    return {"what an older file at checkpoint_path held": state} if state else {}


def initial_state(rank, used, probe):
    """The state of rank 0's model after construction. Where it built several, the one that it uses."""
    built = states_of(rank, probe, "built")
    rank.expect(built, "the models built", "at least one", "none")
    for number, state in enumerate(built, rank.parameters.get("before", 0)):
        own = probe.initial_values(rank.secret, number, state)
        rank.expect_equal(state, own, "the values that model_class() gave the model")
    return next((state for state in built if all(state[name].equal(used[name]) for name in state)), built[-1])


def test_same_as_one_process(runs, probe):
    """Every step is the step of one process on all ranks' batches"""
    one, several = alone(runs, probe), together(runs, probe)
    for trainings in several:
        expect_mean_steps(trainings, one)
    for run, (training, *_) in zip(runs("train"), several, strict=True):
        expect_exchange(run, training)


def expect_mean_steps(run, one):
    """Each step of several ranks, at the rate that the rank alone has used."""
    rate = one.rate or one.options["lr"]
    used = [training.used(rate) for training in run]
    for step, ours in enumerate(zip(*(training.gradients for training in run), strict=False)):
        mean = replay.mean(ours)
        for number in reversed(range(len(run))):  # rank 0's own gradient is the least telling
            explain = partial(mistakes_together, run[number].rank, ours[number], ours[0], mean, rate)
            seen = run[number].but_rounding(step, used[number][step], mean, rate)
            expect_step(run[number], step, seen, mean, explain)


def expect_exchange(run, training):
    """A gradient's bytes, at a quarter of their accuracy, have gone to every other rank in each step."""
    size = sum(tensor.nbytes for tensor in training.gradients[0].values())
    run.expect_moved(len(training.batches) * (run.world_size - 1) * size / 4)


def mistakes_together(rank, own, of_rank_0, mean, rate):
    """What would have been applied, had the student made a well-known mistake. Times as much is a sum or another rate:
    the optimizer's own rate tells which, where it is one of torch's."""
    told, times = rank.read("rates", list[float]), rank.world_size
    as_sum = f"world_size ({times}) times the mean: the gradients' sum, or lr times world_size"
    factors = {as_sum: times} if not told else {}
    for lr in told:
        if math.isfinite(lr / rate) and abs(lr / rate - 1) > 1e-6:
            why = ", which is lr times world_size" if abs(lr / rate - times) < 1e-6 else ""
            factors[f"the mean, but at a learning rate of {lr:g} and not {rate:g}{why}"] = lr / rate
    return {
        "the gradient of this rank's own batch, not the mean over the ranks": own,
        "the gradient of rank 0's batch alone": of_rank_0,
        **{text: replay.combined([mean], [factor]) for text, factor in factors.items()},
    }


def test_replicas_identical(runs, probe):
    """The replicas are bit-identical before every step and at the end"""
    for run, trainings in zip(runs("train"), together(runs, probe), strict=True):
        expect_replicas(run, trainings)


def expect_replicas(run, trainings):
    histories = [training.states for training in trainings]
    for step, states in enumerate(zip(*histories, strict=False)):
        when = f"before step {step + 1}" if step + 1 < len(histories[0]) else "at the end"
        run.expect_identical(dict(enumerate(states)), f"the replicas {when}:")


# The arguments and the data


def test_arguments(runs, probe):
    """epochs and batch_size are honoured"""
    expect_epochs(alone(runs, probe))
    if holds(test_shards, runs, probe):
        for training in tiny(runs, probe):  # many epochs, after which the model knows its only sample by heart
            rank = training.rank
            rank.expect_equal(len(training.batches), rank.parameters["epochs"], "the number of epochs of one sample")
    for training in every_training(runs, probe):
        expect_batches(training)


def test_learning_rate(runs, probe):
    """lr is the learning rate"""
    expect_rate(alone(runs, probe))
    if holds(tiny, runs, probe):
        expect_steady_rate(tiny(runs, probe))
    for rank in chain(*runs("alone", finished=False)):
        if "without a rate" in rank:
            for state in (states := states_of(rank, probe, "without a rate"))[1:]:
                rank.expect_close(state, states[0], "the state after a step at lr=0.0:", budget=2)


def expect_epochs(training):
    epochs = training.rank.parameters["epochs"]
    training.rank.expect_equal(training.epochs_made(), epochs, "the number of epochs")


def expect_rate(training):
    """Of a rank that is alone."""
    rate, wanted = training.rate, training.options["lr"]
    training.rank.expect(rate is not None, "the learning rate", wanted, "none that explains the steps")
    training.rank.expect_close(rate, wanted, "the learning rate", steps=STEPS, world_size=None)


def expect_steady_rate(run):
    """A rate that explains the first two steps, by the mean gradient or by a rank's own, explains all. The states after
    the steps are compared: what was taken off is their difference, of which rounding leaves little where a gradient has
    become small."""
    means = [replay.mean(ours) for ours in zip(*(training.gradients for training in run), strict=False)]
    for training in run:
        seen, used = training.states[1:], training.used()
        for gradients in (means, training.gradients):
            rate = replay.projection(used[0], gradients[0])
            steps = zip(training.states, gradients, strict=False)
            wanted = [before | replay.combined([own, before], [-rate, 1]) for before, own in steps]
            if not holds(training.rank.expect_close, seen[:2], wanted[:2], "the first steps", steps=STEPS):
                continue
            for step, (after, right) in enumerate(zip(seen, wanted, strict=False), 1):
                if not holds(training.rank.expect_close, after, right, f"step {step}", steps=STEPS):
                    now = f"{replay.projection(used[step - 1], gradients[step - 1]):.4g}"
                    training.rank.fail(
                        f"the learning rate in epoch {step}", expected=f"{rate:.4g}, as before", actual=now
                    )


def expect_batches(training):
    """No batch is larger than `batch_size`, and at most one an epoch is smaller."""
    rank, sizes = training.rank, [len(batch) for batch in training.batches]
    batch_size = training.options["batch_size"]
    right = max(sizes) <= batch_size and sum(size < batch_size for size in sizes) <= rank.parameters["epochs"]
    rank.expect(right, "the batch sizes", f"{batch_size} apart from the last of an epoch", listed(sizes))


def test_every_sample(runs, probe):
    """Every epoch uses every sample, the short last batch included"""
    epochs = alone(runs, probe).epochs_made()
    for trainings in [[alone(runs, probe)], *together(runs, probe)]:
        expect_all_used(trainings, epochs)


def expect_all_used(trainings, epochs):
    first = trainings[0].rank
    everything = set(range(first.parameters["samples"]))
    by_rank = [training.epochs(epochs) for training in trainings]
    for epoch, parts in enumerate(zip(*by_rank, strict=True)):
        missed = sorted(everything.difference(*parts))
        wanted, seen = f"all {len(everything)} samples", f"{len(missed)} left out (number {listed(missed)})"
        subject, ranks = f"the union of the shards in epoch {epoch + 1}", range(len(trainings))
        first.expect(not missed, subject, wanted, seen, ranks=ranks if len(trainings) > 1 else None)


def test_shards(runs, probe):
    """Every rank draws its equal share, with as little repetition as possible"""
    epochs = alone(runs, probe).epochs_made()
    for training in chain(*together(runs, probe)):
        expect_shares(training, epochs)
    small = tiny(runs, probe)
    for training in small:
        expect_shares(training, len(small[0].batches))  # one sample fits into one batch


def expect_shares(training, epochs):
    rank, samples, size = training.rank, training.rank.parameters["samples"], training.rank.world_size
    share = math.ceil(samples / size)
    for epoch, numbers in enumerate(training.epochs(epochs)):
        wanted, subject = f"ceil({samples}/{size}) = {share}", f"how many samples were drawn in epoch {epoch + 1}"
        rank.expect(len(numbers) == share, subject, wanted, len(numbers))


def test_reshuffles(runs, probe):
    """The whole data set is reshuffled in every epoch"""
    epochs = alone(runs, probe).epochs_made()
    expect_shuffled(alone(runs, probe), epochs)
    for training in every_training(runs, probe):
        expect_new_samples(training.rank, training.epochs(epochs))
    for run, trainings in zip(runs("train"), together(runs, probe), strict=True):
        expect_new_company(run, trainings, epochs)
    for rank in chain(*runs("alone", recorded=["long batches"])):
        orders, whole = rank.read("long batches", list[list[int]]), rank.parameters["long"]["samples"]
        expect_new_orders(rank, [order for order in orders if len(order) == whole])  # one batch is an epoch


def expect_shuffled(training, epochs):
    for epoch, order in enumerate(training.epochs(epochs)):
        subject, seen = f"the samples of epoch {epoch + 1}", "in the data set's order"
        training.rank.expect(order != sorted(order), subject, "shuffled", seen)


def expect_new_orders(rank, orders):
    for order, times in Counter(map(tuple, orders)).most_common(1):
        rank.expect(times == 1, "the order", "another one in every epoch", f"{times} epochs begin {listed(order)}")


def expect_new_samples(rank, orders):
    expect_new_orders(rank, orders)
    sets = {frozenset(order) for order in orders}
    changes = len(sets) > 1 or len(orders) == 1 or len(set(orders[0])) == rank.parameters["samples"]
    rank.expect(changes, "a rank's samples", "others in every epoch", "always the same ones, in another order")


def expect_new_company(run, trainings, epochs):
    """Not the same groups of samples in all epochs, whichever rank has which. Three random orders of 19 samples deal
    them to two ranks alike with a probability of less than 1e-9."""
    dealt = {frozenset(map(frozenset, parts)) for parts in zip(*(one.epochs(epochs) for one in trainings), strict=True)}
    wanted, seen = "others together on a rank in other epochs", "the same groups in every epoch"
    run.expect(len(dealt) > 1 or epochs == 1, "the samples that ranks draw together", wanted, seen)


# What comes out


def test_returns_model(runs):
    """Every rank returns the trained model itself"""
    for rank in every_rank(runs):
        expect_model(rank)


def expect_model(rank):
    returned, subject = rank.read("returned", Returned), "what train_ddp returned"
    rank.expect(returned["exact"], subject, "a Classifier, as model_class() makes it", returned["type"])
    rank.expect(returned["trained"], subject, "the model that was trained", "another object of its class")
    if "trained on" in rank:  # the group was left
        hint = "What of the training still hangs on the model that you return?"
        subject, wanted = "a backward pass of the returned model where there is no group", "its gradients"
        rank.expect_success(rank.read("trained on", Attempt), subject, expected=wanted, hint=hint)


def test_checkpoint(runs, probe):
    """The checkpoint loads into a bare model and holds the trained values"""
    every = [alone(runs, probe), *(run[0] for run in together(runs, probe))]
    if holds(tiny, runs, probe):
        every.append(tiny(runs, probe)[0])
    for training in every:
        expect_saved(training, probe)


def expect_saved(training, probe):
    """Rank 0's file holds what it has trained."""
    rank, start, final = training.rank, training.states[0], training.states[-1]
    data, missing = rank.read("checkpoint", bytes | None), "a file at checkpoint_path"
    content = rank.expect_loads(data, "rank 0's checkpoint", missing=missing)
    what_if = {clause: by_name(state) for clause, state in older(rank, probe).items()}
    subject = "the checkpoint's entry"
    rank.expect_close(by_name(content), by_name(final), subject, alternatives=what_if, stale=start, budget=3)


def by_name(state):
    return {name: state[name] for name in sorted(state, key=str)}


def test_rank_0_alone(runs, probe):
    """Rank 0 alone writes the checkpoint, where it is asked to"""
    for rank in every_rank(runs):
        expect_files(rank, [probe.CHECKPOINT] if rank.rank == 0 else [])


def expect_files(rank, wanted):
    found = rank.read("files", list[str]) + rank.read("strays", list[str])
    rank.expect(found == wanted, "the checkpoint files", listed(wanted) or "none", listed(found) or "none")


def test_leaves_group(runs):
    """The group is gone when the function returns"""
    for rank in every_rank(runs):
        expect_left(rank, rank.read("left", bool), "after training")


def expect_left(rank, left, when):
    rank.expect(left, f"the group {when}", "no process group", "it is still there")


# Errors


def test_errors(runs, probe):
    """Exceptions reach the caller, and the group is left then too"""
    for rank in chain(*runs("stumble", recorded=["step"])):
        expect_passed_on(rank, "step", "the second step stumbles", "after the model raised in step 2")
    if not holds(test_rendezvous, runs, probe):  # in the other calls half of the place is missing
        return
    for rank in chain(*runs("alone", recorded=["unbuildable"])):
        expect_passed_on(rank, "unbuildable", "this model cannot be built", "after model_class() raised")
    for rank in chain(*runs("alone", recorded=["interrupted"])):
        expect_interrupted(rank)
    for rank in chain(*runs("stumble", recorded=["again"])):
        again, subject, wanted = rank.read("again", Call), "another call in the same process", "training as usual"
        rank.expect_success(again, subject, expected=wanted)
        rank.expect(again["steps"], subject, wanted, "no training steps")


def expect_interrupted(rank):
    """Ctrl-C is an exception like any other. It is not pressed where another model than this call's was trained."""
    call, when = rank.read("interrupted", Interruption), "after KeyboardInterrupt in step 2"
    subject = f"the exception {when}"
    rank.expect_success(call, subject, expected="KeyboardInterrupt")
    rank.expect(call["heard"] or not call["pressed"], subject, "KeyboardInterrupt", "no exception")
    expect_left(rank, call["left"], when)


def expect_passed_on(rank, name, message, when):
    call, subject = rank.read(name, StagedCall), f"the exception {when}"
    rank.expect_raised(call, "Stumble", subject)
    same = call["raised"][0] == "Stumble" and message in call["message"]
    rank.expect(same, subject, f"Stumble: {message}", call["message"])
    rank.expect(call["itself"], subject, "the very one that was raised", "another one like it")
    expect_left(rank, call["left"], when)


def test_calls_again(runs, probe):
    """A later call in the same process trains anew, on its own model and data, and saves its own file"""
    again = alone(runs, probe, "alone")
    rank = again.rank
    wanted, subject = initial_state(rank, again.states[0], probe), "the state before the first step of another call:"
    rank.expect_close(again.states[0], wanted, subject, budget=2)
    expect_epochs(again)
    expect_batches(again)
    expect_plain_steps(again)
    expect_rate(again)
    expect_all_used([again], rank.parameters["epochs"])
    expect_shuffled(again, rank.parameters["epochs"])
    expect_model(rank)
    expect_saved(again, probe)
    expect_files(rank, [probe.CHECKPOINT])
    expect_left(rank, rank.read("left", bool), "after another call")
    if not holds(test_rendezvous, runs, probe):
        return
    for place in rank.read("asked at last", list[places.Place]):
        seen, subject = place["host"], "the address of another call's group, MASTER_ADDR being the same as before"
        rank.expect(seen == probe.OTHER_ADDRESS, subject, probe.OTHER_ADDRESS, seen)
    if holds(test_same_as_one_process, runs, probe):
        expect_together_again(runs, probe, again)


def expect_together_again(runs, probe, one):
    """Ranks that have trained by themselves before, and have made different numbers of calls, train as others do."""
    for run in runs("stumble", recorded=["returned"]):
        trainings = [Training(rank, probe) for rank in run]
        expect_all_used(trainings, trainings[0].rank.parameters["epochs"])
        expect_mean_steps(trainings, one)


PLACES = {
    "building": ("model_class() raised", "this model cannot be built"),
    "counting": ("len(data) raised", "these samples cannot be counted"),
    "reading": ("a sample of the second batch raised", "this sample cannot be read"),
    "saving": ("checkpoint_path could not be written to", ""),
    "pressing": ("somebody pressed Ctrl-C in the second step", "KeyboardInterrupt"),
}
"""Where one rank alone stumbles, and what it hears there."""


def test_one_rank_fails(runs, probe):
    """Where one rank alone fails it waits for no other, and gets its own exception"""
    for run in runs("stumble", finished=False):
        for name, culprit in probe.ALONE.items():
            where, message = PLACES[name]
            when = f"where {where} on rank {culprit} alone"
            expect_over(run, name, when)
            expect_own(run[culprit], name, message, when)
            if name == "reading":
                expect_at_once(run, culprit, when)
            for rank in run:
                expect_left(rank, rank.read(name, Call)["left"], when)
        run.require_finished()


def expect_over(run, name, when):
    """Each rank has come back from this call. The others may have heard of a lost connection, or of nothing."""
    if all(name in rank for rank in run):
        return
    try:
        run.require_finished()
    except CheckFailed as stuck:
        hint = "The others do not know that a rank failed: they are in the collectives of their next step."
        wanted, told = "that rank's exception, without waiting for others", "no return"
        staged = f"train_ddp {when}"
        try:
            run.fail(staged, expected=wanted, actual=told, hint=hint)
        except CheckFailed as failed:
            raise CheckFailed((*failed.findings, *stuck.findings)) from None


def expect_at_once(run, culprit, when):
    """The others sent nothing until the rank that failed had come back, or had been given long enough."""
    for rank in run:
        if rank.rank != culprit and rank.read("waited", bool):
            wanted, told = "its exception at once", "it came only when the others had gone on"
            if not run[culprit].read("reading", Call)["raised"]:
                hint = "The sample raised, and nobody heard of it. Where is an exception of the data caught?"
                run[culprit].fail(f"train_ddp {when}", expected=wanted, actual="no exception", hint=hint)
            run[culprit].fail(f"train_ddp {when}", expected=wanted, actual=told)


def expect_own(rank, name, message, when):
    """What was raised is the rank's own exception. It may not have come to the staged fault, if others did the work."""
    call, subject = rank.read(name, StagedCall), f"the exception {when}"
    if name == "saving":  # by whichever call it is written
        raised, replaced = call["raised"], call["replaces"]
        told = f"{(raised or ['none'])[0]}: {call['message']}"[:200]
        own = "no-folder" in call["message"] or (raised and "RuntimeError" not in raised)
        rank.expect(own, subject, "what writing raises", told)
        hint = "Where is the error of writing caught, and what is raised there?"
        rank.expect(not replaced, subject, f"the {replaced} itself, as writing raised it", told, hint=hint)
    elif name == "pressing":  # where another model than this call's was trained nobody pressed anything
        rank.expect(not call["raised"] or call["raised"][0] == "Pressed", subject, message, call["message"][:200])
    elif call["raised"] or not call["steps"]:
        rank.expect_raised(call, "Stumble", subject)
        rank.expect(message in call["message"], subject, f"Stumble: {message}", call["message"][:200])


def test_no_epochs(runs, probe):
    """epochs=0 gives rank 0's initial model and saves it"""
    for run in runs("no_epochs"):
        finals = [states[-1] for states in (states_of(rank, probe, "history") for rank in run) if states]
        run.expect_equal(len(finals), run.world_size, "ranks with a model after 0 epochs")
        wanted = initial_state(run[0], finals[0], probe)
        for rank in run:
            rank.expect_close(finals[rank.rank], wanted, "the model after 0 epochs:", budget=2)
        saved, subject = run[0].read("checkpoint", bytes | None) is not None, "rank 0's checkpoint after 0 epochs"
        run[0].expect(saved, subject, "a file at checkpoint_path", "there is none")
        if holds(test_checkpoint, runs, probe):  # what it may not hold beside is told of a model that has such a thing
            content = run[0].expect_loads(run[0].read("checkpoint", bytes | None), subject)
            run[0].expect_close(by_name(content), by_name(finals[0]), f"{subject}, its entry", budget=3)


# What options that are left out come to


def test_defaults(runs, probe):
    """Left out, batch_size is 32, lr 0.1 and checkpoint_path None, and all of the above holds"""
    one, run = alone(runs, probe, "defaults_alone"), runs("defaults")[0]
    (several,) = together(runs, probe, "defaults")
    expect_epochs(one)
    for training in (one, *several):
        expect_batches(training)
    expect_plain_steps(one)
    expect_rate(one)
    expect_mean_steps(several, one)
    expect_replicas(run, several)
    epochs = one.rank.parameters["epochs"]
    expect_shuffled(one, epochs)
    for trainings in ([one], several):
        expect_all_used(trainings, epochs)
        for training in trainings:
            expect_shares(training, epochs)
            expect_new_samples(training.rank, training.epochs(epochs))
    for rank in every_rank(runs, ("defaults_alone", "defaults")):
        expect_files(rank, [])
        expect_model(rank)
        expect_left(rank, rank.read("left", bool), "after training")
