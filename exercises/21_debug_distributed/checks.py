"""Judges the eight programs by what they left behind, each by its own runs, and `find_culprit` by a count of what the
ranks of each dump did.

What an ordinary mistake would give is tried where a result is wrong, and named.
"""

import itertools
from functools import partial

import torch

from grader.checks import Attempt, NotJudged, Tensor, Tensors, TypedDict, replay


class Handed(Attempt):
    """A call with tensors: whether each still needs a gradient, and whether one has other memory than before, other
    strides, or left its graph."""

    graph: list[bool]
    moved: bool


class Mean(Handed):
    """A call of mean_loss: what it returned, as a number and by type, and the loss afterwards."""

    type: str
    mean: float | None
    after: Tensor


class Returned(Handed):
    """A call of exchange or pass_around: the tensors that it returned, None for what is none, and the arguments
    afterwards."""

    returned: list[Tensor | None]
    needs_gradient: bool
    after: list[Tensor]


class Passed(Returned):
    """Of pass_around also whether it returned the argument itself."""

    itself: bool


class InPlace(Handed):
    """A call of broadcast_in_group: the elements in the tensor's memory, and those it has `elsewhere` now."""

    after: Tensor
    elsewhere: Tensor | None


class Model(Attempt):
    """A training: the model's tensors afterwards, the names of those that need a gradient, and whether it is in the
    mode of training."""

    after: Tensors
    learning: list[str]
    mode: bool


class Trained(Model):
    """Also how many batches there are afterwards, and the gradients of a backward pass of this rank alone."""

    left: int
    later: Tensors


class Epochs(Model):
    """Also the numbers of the samples of each step."""

    batches: list[list[int]]


class Found(Attempt):
    """A call of find_culprit: the two numbers that it returned, none where there were not two, and how it looked."""

    value: str
    numbers: list[int]


# What was recorded


def runs_of(runs, probe, program, names, before=()):
    """The runs of a program in which every rank came to all of these calls, and that of one rank. `before` are those
    that come first; where a rank stopped in them, another check says so."""
    recorded, after = recorded_as(program, names), recorded_as(program, before)
    found = [*runs(program, recorded=recorded, after=after)]
    for run in runs("alone", finished=False):
        if not run.came_to(recorded) and run.came_to([*earlier(probe, program), *after]):
            run.require_finished()
        found += [run] * run.came_to(recorded)
    return found


def recorded_as(program, names):
    return [f"{program}: {name}" for name in names]


def earlier(probe, program):
    """What comes before a program in the run of one rank."""
    programs = list(probe.CALLS)
    return [name for other in programs[: programs.index(program)] for name in recorded_as(other, probe.CALLS[other])]


def calls_of(runs, probe, program, given):
    """(run, name, what was given, its ranks) of all calls in the default group."""
    for run in runs_of(runs, probe, program, given):
        for name, one in given.items():
            yield run, name, one, probe.members(name, run.world_size)


def calls_in_groups(runs, probe, program, given, *, after=None):
    """The same of those in other groups. They come `after` others that are judged by then: all in the default group."""
    names = probe.in_groups(given)
    recorded = recorded_as(program, names)
    after = recorded_as(program, given) if after is None else after
    for run in runs(program, finished=False, after=after):
        if run.world_size == probe.WORLD:
            if not run.came_to(recorded):
                run.require_finished()
            for name in names:
                yield run, name, given[name.partition(" among ")[0]], probe.members(name, run.world_size)


def outcome(rank, program, name, kind):
    """What a rank recorded of a call, which raised nothing."""
    seen = rank.read(f"{program}: {name}", kind)
    rank.expect_success(seen, f"{program} with {name}")
    return seen


def expect_same(rank, actual, wanted, subject, wrong=(), hint=None):
    """The same elements in the same shape and dtype; `wrong` names other tensors that they might be."""
    rank.expect(actual is not None, subject, "a tensor", "something else", hint=hint)
    rank.expect_like({"result": actual}, {"result": wanted}, subject, hint=hint)
    if not same(actual, wanted):
        for words, other in dict(wrong).items():
            rank.expect(not same(actual, other), subject, expected="other elements", actual=words, hint=hint)
        rank.expect_close(actual, wanted, subject, hint=hint_of(actual, wanted) or hint)


def hint_of(actual, wanted):
    """What became of elements that came from the right ranks, where they tell it themselves."""
    if actual.isnan().any() and not wanted.isnan().any():
        return "Where does the NaN come from? Another rank has it, and 0 times NaN is NaN: nothing of its must get in."
    if wanted.dtype is torch.int64 and (actual - wanted).abs().max() < 2**20:
        return "Only the last digits differ. Which whole numbers does a floating dtype have no room for?"
    return None


def same(one, other):
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


# The mean of the losses


def expect_means(calls, probe):
    for run, name, given, ranks in calls:
        losses = {one: probe.own_of(given, run[one].secret, name, one == ranks[-1]) for one in ranks}
        for one in ranks:
            seen = outcome(run[one], "mean_loss", name, Mean)
            subject = f"the mean of {name}"
            run[one].expect_type(
                seen["type"], "float", subject, expected="a float", actual=f"an object of type {seen['type']}"
            )
            run[one].expect(seen["mean"] is not None, subject, "a number", "something else")
            expect_mean(run[one], seen["mean"], losses, subject)
            kept = as_it_was(seen["after"], losses[one])
            run[one].expect(kept, f"the loss itself, of {name}", "as it was", "changed")
            expect_graph(run[one], seen, [given], f"the loss itself, of {name}")


def expect_graph(rank, seen, given, subject):
    """What was handed in needs a gradient if it did before."""
    before = [one.graph for one in given]
    words = [
        "in no graph" if not any(graph) else "needing a gradient, as part of a graph"
        for graph in (before, seen["graph"])
    ]
    rank.expect(seen["graph"] == before, subject, *words)
    rank.expect(not seen["moved"], subject, "with its memory, strides and graph", "with others")


def as_it_was(seen, before):
    """The same bits, where NaN is like NaN."""
    alike = seen.shape == before.shape and seen.dtype == before.dtype
    return alike and seen.isnan().equal(before.isnan()) and seen.nan_to_num(0.5).equal(before.nan_to_num(0.5))


def expect_mean(rank, seen, losses, subject):
    own, dtype = losses[rank.rank].reshape(()), losses[rank.rank].dtype
    every = sum(loss.double() for loss in losses.values()).reshape(())
    found, wanted = torch.tensor(seen, dtype=dtype), (every / len(losses)).to(dtype)
    wrong = {
        "this is the rank's own loss": own,
        "this is the sum of the losses": every,
        "this is divided twice": wanted / len(losses),
        "this is divided by the ranks of the world": every / rank.world_size,
    }
    alternatives = {words: one.to(dtype) for words, one in wrong.items() if not one.to(dtype).equal(wanted)}
    if wanted.isfinite():
        rank.expect_close(found, wanted, subject, alternatives=alternatives, terms=len(losses))
    else:
        rank.expect(str(found) == str(wanted), subject, float(wanted), float(found))


def test_mean_loss(runs, probe):
    """mean_loss: every rank gets the mean of all losses"""
    expect_means(calls_of(runs, probe, "mean_loss", probe.LOSSES), probe)


def test_mean_loss_in_groups(runs, probe):
    """mean_loss: in a sub-group it is the mean over its ranks"""
    expect_means(calls_in_groups(runs, probe, "mean_loss", probe.LOSSES), probe)


# Two collectives in one order


NOBODY_WAITS = "The calls were matched. Which ranks' tensors are in this result, where, how often and in which dtype?"


def expect_exchanged(calls, probe):
    for run, name, given, ranks in calls:
        drawn = {one: probe.pair_of(given, run[one].secret, name) for one in ranks}
        firsts, seconds = zip(*drawn.values(), strict=True)
        in_order = torch.stack([drawn[one][1] for one in sorted(ranks)])
        wrong = {"the ranks' tensors in the order of the world, not of the group": in_order}
        for one in ranks:
            seen = outcome(run[one], "exchange", name, Returned)
            both = f"what exchange returns for {name}"
            hint = None if " among " in name else NOBODY_WAITS
            run[one].expect(len(seen["returned"]) == 2, both, "two tensors", f"{len(seen['returned'])}")
            run[one].expect(not seen["needs_gradient"], both, "no gradient needed", "a tensor that needs one")
            total, gathered = seen["returned"]
            expect_total(run[one], total, firsts, drawn[one][0], f"the sum of the first of {name}")
            expect_same(run[one], gathered, torch.stack(seconds), f"all the second of {name}", wrong, hint)
            expect_kept(run[one], seen, drawn[one], given, name)


def expect_kept(rank, seen, before, given, name):
    """The arguments are as they were."""
    kept = len(seen["after"]) == len(before) and all(map(same, seen["after"], before))
    rank.expect(kept, f"what was handed in, {name}", "as it was", "changed, or what was returned shares its memory")
    expect_graph(rank, seen, given, f"what was handed in, {name}")


def expect_total(rank, total, firsts, own, subject):
    wanted = sum(firsts)
    rank.expect(total is not None, subject, "a tensor", "something else", hint=NOBODY_WAITS)
    rank.expect_like({"result": total}, {"result": wanted}, subject, hint=NOBODY_WAITS)
    wrong = {"this is the rank's own": own} if len(firsts) > 1 else {}
    hint = hint_of(total, wanted) or NOBODY_WAITS
    rank.expect_close(total, wanted, subject, terms=len(firsts), alternatives=wrong, hint=hint)


def test_exchange(runs, probe):
    """exchange: every rank gets the sum of the first and all of the second"""
    expect_exchanged(calls_of(runs, probe, "exchange", probe.PAIRS), probe)


def test_exchange_in_groups(runs, probe):
    """exchange: in a sub-group it is over its ranks, in their order"""
    expect_exchanged(calls_in_groups(runs, probe, "exchange", probe.PAIRS), probe)


# A ring of messages


def expect_passed(calls):
    for run, name, given, ranks in calls:
        drawn = {one: given.values(run[one].secret, name) for one in ranks}
        for place, one in enumerate(ranks):
            seen = outcome(run[one], "pass_around", name, Passed)
            subject = f"what comes around, {name}"
            right = {"these are the elements of the next rank": drawn[ranks[(place + 1) % len(ranks)]]}
            wrong = {"these are the rank's own elements": drawn[one], **right}
            run[one].expect(len(seen["returned"]) == 1, subject, "a tensor", "something else")
            expect_same(run[one], seen["returned"][0], drawn[ranks[place - 1]], subject, wrong)
            run[one].expect(not seen["needs_gradient"], subject, "a tensor that needs no gradient", "one that does")
            run[one].expect(not seen["itself"], subject, "a new tensor", "the argument itself")
            expect_kept(run[one], seen, [drawn[one]], [given], name)


def test_pass_around(runs, probe):
    """pass_around: every rank gets the tensor of the rank before it"""
    expect_passed(calls_of(runs, probe, "pass_around", probe.TENSORS))


def test_pass_around_in_groups(runs, probe):
    """pass_around: in a sub-group it is the rank before it there"""
    expect_passed(calls_in_groups(runs, probe, "pass_around", probe.TENSORS))


def test_pass_around_late(runs, probe):
    """pass_around: what was sent arrives, also at a rank that comes late for it"""
    names = [*probe.TENSORS, *probe.in_groups(probe.TENSORS)]
    for run in runs("pass_around", finished=False, after=recorded_as("pass_around", names)):
        if run.world_size == probe.WORLD:
            if not run.came_to(recorded_as("pass_around", [probe.LATE])):
                run.require_finished()
            expect_passed([(run, probe.LATE, probe.TENSORS["a vector"], range(run.world_size))])


# The first rank of a group


def expect_broadcast(calls, probe):
    for run, name, given, ranks in calls:
        drawn = {one: probe.own_of(given, run[one].secret, name, one in ranks[1:][-1:]) for one in ranks}
        others = {f"these are rank {one}'s elements": drawn[one] for one in ranks[1:]}
        for one in ranks:
            seen = outcome(run[one], "broadcast_in_group", name, InPlace)
            expect_filled(run[one], seen, drawn[ranks[0]], f"the tensor afterwards, {name}", others)
            expect_graph(run[one], seen, [given], f"the tensor afterwards, {name}")


def expect_filled(rank, seen, wanted, subject, others):
    """The tensor has these elements in the memory that it had before."""
    elsewhere = seen["elsewhere"] is not None and same(seen["elsewhere"], wanted)
    rank.expect(
        same(seen["after"], wanted) or not elsewhere,
        subject,
        "the elements of the first rank, in place",
        "the right ones in new memory, and in its own what was there before",
        hint="Whoever has a view of the tensor still sees the old elements. Which calls fill a tensor where it is?",
    )
    expect_same(rank, seen["after"], wanted, subject, others)


def test_broadcast_in_group(runs, probe):
    """broadcast_in_group: every rank of the group gets what its first one has"""
    expect_broadcast(calls_in_groups(runs, probe, "broadcast_in_group", probe.TENSORS, after=()), probe)


def test_broadcast_any_tensor(runs, probe):
    """broadcast_in_group: tensors of any layout and dtype are filled in place, in the default group too"""
    expect_broadcast(calls_of(runs, probe, "broadcast_in_group", probe.TENSORS), probe)


# Epochs


def epochs_of(runs, probe):
    """(run, name, samples, rank, what it recorded, its batches by epoch) of all trainings."""
    for run in runs_of(runs, probe, "train_epochs", probe.SAMPLES):
        for name, samples in probe.SAMPLES.items():
            share = -(-samples // run.world_size)
            steps = -(-share // probe.BATCH_SIZE)
            for rank in run:
                seen = outcome(rank, "train_epochs", name, Epochs)
                taken = len(seen["batches"])
                epochs = probe.EPOCHS[name]
                rank.expect_equal(taken, epochs * steps, f"a rank's steps with {name} in {epochs} epochs")
                strange = [number for batch in seen["batches"] for number in batch if not 0 <= number < samples]
                rank.expect(not strange, f"the numbers of the samples, {name}", f"below {samples}", strange[:3])
                by_epoch = [seen["batches"][begin : begin + steps] for begin in range(0, taken, steps)]
                yield run, name, samples, rank, seen, by_epoch


def test_epochs_drawn_anew(runs, probe):
    """train_epochs: every epoch draws anew which samples a rank gets, and in which order"""
    shares = {}
    for run, name, _, rank, _, by_epoch in epochs_of(runs, probe):
        orders = [[number for batch in epoch for number in batch] for epoch in by_epoch]
        for later in range(1, len(orders)):
            for earlier in range(later):
                subject = f"the samples of epochs {earlier} and {later}, {name}"
                repeated = orders[earlier] == orders[later]
                rank.expect(not repeated, subject, "drawn anew", "the same in the same order")
                alike = run.world_size > 1 and set(orders[earlier]) == set(orders[later])
                rank.expect(not alike, subject, "other samples of all", "the same samples in another order")
        for epoch, order in enumerate(orders if run.world_size > 1 else []):
            shares.setdefault((run.world_size, name), []).append((epoch, rank, set(order)))
        in_order = [epoch for epoch, order in enumerate(orders) if order == sorted(order)]
        rank.expect(not in_order, f"the order of the samples, {name}", "a random one", "ascending")
    for (_, name), every in shares.items():
        for (epoch, rank, share), (before, other, its) in itertools.permutations(every, 2):
            subject = f"the samples of epoch {epoch}, {name}"
            passed_on = epoch > before and share == its
            rank.expect(not passed_on, subject, "drawn anew", f"all that rank {other.rank} had in epoch {before}")


def test_epochs_cover(runs, probe):
    """train_epochs: in every epoch the ranks together use all samples"""
    every = {}
    for run, name, samples, rank, _, by_epoch in epochs_of(runs, probe):
        share = -(-samples // run.world_size)
        for epoch, batches in enumerate(by_epoch):
            sizes = [len(batch) for batch in batches]
            full = [probe.BATCH_SIZE] * (share // probe.BATCH_SIZE)
            rest = share % probe.BATCH_SIZE
            rank.expect_equal(sizes, full + [rest] * bool(rest), f"the samples of each step of epoch {epoch}, {name}")
            _, _, used = every.setdefault((run.world_size, name, epoch), (run, samples, set()))
            used.update(number for batch in batches for number in batch)
    for (_, name, epoch), (run, samples, used) in every.items():
        left_out = sorted({*range(samples)} - used)
        subject = f"the samples of all ranks in epoch {epoch}, {name}"
        run.expect(not left_out, subject, "all", f"without {len(left_out)} of them, such as {left_out[:3]}")


def test_epochs_train(runs, probe):
    """train_epochs: each step takes the mean of all ranks' gradients"""
    for run, name, samples, rank, seen, _ in list(epochs_of(runs, probe)):
        data, start = probe.Data(samples, run.seed), probe.initial(run.seed, probe.Straight, name)
        every = [other.read(f"train_epochs: {name}", Epochs)["batches"] for other in run]
        steps = [
            [(data.inputs[numbers], data.targets[numbers]) for numbers in batches]
            for batches in zip(*every, strict=True)
        ]
        wanted = trained(probe, probe.Straight, start, steps)
        expect_trained(rank, seen["after"], wanted, start, steps, probe.Straight, probe, name)
        expect_found(rank, seen, start, probe.Straight, probe, name)


# Training steps


def gradient_of(probe, model, batch, tensors):
    """The gradient of the mean loss over a batch, by name; of parameters that it does not use zero."""
    inputs, targets = batch
    names = sorted({*tensors} - {model.frozen})

    def loss(named):
        return probe.loss_fn(model.compute(named, inputs), targets) + sum(0 * named[name].sum() for name in names)

    return replay.gradient(loss, tensors, names)


def trained(probe, model, start, steps, weigh=replay.mean):
    """The parameters after Adagrad by the mean gradient of each step's batches, of which there is one for each rank
    that has one, or by what else `weigh` makes of their gradients."""
    options = {"lr": probe.LEARNING_RATE, "eps": probe.EPS, "weight_decay": model.decay}
    optimizer = replay.Optimizer(replay.adagrad, start)
    for batches in steps:
        gradients = [gradient_of(probe, model, batch, optimizer.values) for batch in batches]
        optimizer.step(weigh(gradients), lambda _: options)
    return optimizer.values


def expect_trained(rank, after, wanted, start, steps, model, probe, name, left=False):
    """The parameters after training, `wanted` as `trained` has it; gradients were `left` over from before it or not."""
    rank.expect_like(after, start, f"the parameters after training with {name}")
    hint = "What do the gradients hold when the call begins, those of frozen parameters too?" if left else None
    kept = f"the frozen parameter {model.frozen!r} after training with {name}"
    rank.expect(same(after[model.frozen], start[model.frozen]), kept, "as it was", "changed", hint=hint)
    subject = f"after training with {name}, parameter"
    how = {"steps": max(len(steps), 1)}
    if all(torch.allclose(after[one], wanted[one], rtol=1e-9, atol=1e-12) for one in wanted):
        return
    wrong = mistakes(rank, partial(trained, probe, model, start), steps, left)
    rank.expect_close(after, wanted, subject, alternatives=wrong, stale=start, budget=2, hint=hint, **how)


def mistakes(rank, trained, steps, left):
    """What common mistakes lead to, by a clause that names them."""
    ranks, shortest = rank.world_size, [batches for batches in steps if len(batches) == rank.world_size]
    found = {
        "the gradients were added up and never divided": trained(steps, lambda every: replay.total(*every)),
        "the mean was divided by the number of ranks once more": trained(
            steps, lambda every: replay.combined(every, [1 / len(every) / ranks] * len(every))
        ),
        "the sum was divided by all ranks, those without a batch too": trained(
            steps, lambda every: replay.combined(every, [1 / ranks] * len(every))
        ),
        "the steps stop where the first rank has no batch left": trained(shortest),
    }
    if left:
        ones = itertools.chain([1.0], itertools.repeat(0.0))  # by step
        found["the gradients from before the call count in the first step"] = trained(
            steps, lambda every: added(replay.mean(every), next(ones))
        )
    if all(len(batches) == ranks for batches in steps):
        found["the rank trained by its own gradients alone"] = trained(steps, lambda every: every[rank.rank])
    return found


def added(tensors, number):
    return {name: one + number for name, one in tensors.items()}


def expect_all_trained(runs, probe, program, plans, before=()):
    """The parameters after each of these trainings of all ranks."""
    for run in runs_of(runs, probe, program, plans, before):
        for name, plan in plans.items():
            every = [plan.of(rank.secret, name, rank.rank) for rank in run]
            longest = max(map(len, every))
            steps = [[batches[step] for batches in every if step < len(batches)] for step in range(longest)]
            start = probe.initial(run.seed, plan.model, name)
            wanted = trained(probe, plan.model, start, steps)
            for rank in run:
                seen = outcome(rank, program, name, Trained)
                expect_trained(rank, seen["after"], wanted, start, steps, plan.model, probe, name, plan.left)
                expect_found(rank, seen, start, plan.model, probe, name)
                own = len(every[rank.rank])
                rank.expect_equal(seen["left"], own, f"how many batches the list has after training with {name}")
                expect_bare(run, rank, seen, plan.model, probe, name)


def expect_found(rank, seen, start, model, probe, name):
    """The model is as it was but for its elements."""
    subject = f"the parameters that need a gradient after training with {name}"
    rank.expect_equal(sorted(seen["learning"]), sorted({*start} - {model.frozen}), subject)
    rank.expect(
        seen["mode"], f"the model after training with {name}", "in training mode, as before", "in evaluation mode"
    )


def expect_bare(run, rank, seen, model, probe, name):
    """A backward pass of the model after the call is a rank's own: nothing is left on the model."""
    batches = [probe.batch_afterwards(one.secret, name) for one in run]
    every = [gradient_of(probe, model, batch, seen["after"]) for batch in batches]
    rank.expect_close(
        seen["later"],
        every[rank.rank],
        f"after training with {name}, the rank's own gradient in a backward pass of the bare model, of parameter",
        alternatives={"this is the mean of all ranks": replay.mean(every)} if len(every) > 1 else {},
        budget=2,
        hint="The call is over, and something of it is still on the model. How long does a hook stay?",
    )


def test_branches(runs, probe):
    """train_branches: parameters may go unused, on all ranks alike"""
    expect_all_trained(runs, probe, "train_branches", probe.BRANCHES)


def test_branches_by_rank(runs, probe):
    """train_branches: what only some ranks use counts as zero on the others"""
    expect_all_trained(runs, probe, "train_branches", probe.RANKS, before=probe.BRANCHES)


def test_uneven(runs, probe):
    """train_uneven: every step takes the mean over the ranks that still have a batch"""
    expect_all_trained(runs, probe, "train_uneven", probe.UNEVEN)


def test_uneven_without_batches(runs, probe):
    """train_uneven: some ranks may have no batch at all"""
    expect_all_trained(runs, probe, "train_uneven", probe.NONE, before=probe.UNEVEN)


def test_by_hand(runs, probe):
    """train_by_hand: every step takes the mean of all ranks' gradients"""
    expect_all_trained(runs, probe, "train_by_hand", probe.BY_HAND)


# Dumps


def culprit_of(dump):
    """(rank, sequence, what it did, what the others did) by the definition of the statement."""
    numbers = {}
    for rank, entries in dump.items():
        for entry in entries:
            own = numbers.setdefault(entry["group"], {}).setdefault(rank, {})
            own[entry["sequence"]] = f"{entry['operation']} of {entry['bytes']} B"
    waiting = {rank for rank, entries in dump.items() if any(entry["state"] != "completed" for entry in entries)}
    for group, by_rank in sorted(numbers.items()):
        for sequence in range(1, 1 + max(max(own) for own in by_rank.values())):
            asked = {
                rank: own.get(sequence, "nothing")
                for rank, own in by_rank.items()
                if min(own) <= sequence and (sequence in own or rank not in waiting)
            }
            did = list(asked.values())
            usual = max(did, key=did.count, default="")
            for rank, what in asked.items():
                if what != usual:
                    return rank, sequence, f"{what} in group {group!r}", usual
    raise NotJudged("no rank of this dump differs")


def expect_culprits(runs, probe, *kinds):
    for run in runs("find_culprit", recorded=kinds):
        for rank in run:
            for kind in kinds:
                drawn = run[probe.source_of(rank.rank, run.world_size)]
                dumps, every = probe.dumps_of(drawn.secret, kind), rank.read(kind, list[Found])
                rank.expect(len(every) == len(dumps), "the dumps that were asked for", len(dumps), len(every))
                for number, (dump, seen) in enumerate(zip(dumps, every, strict=True)):
                    expect_pair(rank, dump, seen, f"dump {number} of {len(dump)} ranks ({probe.KINDS[kind]})")


def expect_pair(rank, dump, seen, subject):
    culprit, sequence, did, others = culprit_of(dump)
    rank.expect_success(seen, f"find_culprit of {subject}")
    rank.expect(
        seen["numbers"] == [culprit, sequence],
        subject,
        f"({culprit}, {sequence}): there rank {culprit} has {did}, and the others {others}",
        seen["value"],
    )


def test_culprit_operation(runs, probe):
    """find_culprit: a rank that calls another collective"""
    expect_culprits(runs, probe, "operation")


def test_culprit_size(runs, probe):
    """find_culprit: a rank whose tensor has another size"""
    expect_culprits(runs, probe, "size")


def test_culprit_absent(runs, probe):
    """find_culprit: a rank that leaves one out, does not come, or comes once too often"""
    expect_culprits(runs, probe, "absent", "extra", "skipped")


def test_culprit_groups(runs, probe):
    """find_culprit: several groups, and ranks that only wait elsewhere"""
    expect_culprits(runs, probe, "groups", "absent in groups")


def test_culprit_lost(runs, probe):
    """find_culprit: entries in any order, and beginnings that are lost"""
    expect_culprits(runs, probe, "lost", "lost in groups")
