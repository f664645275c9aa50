"""Judges the recorded calls of `train_step`.

Every call is judged from the parameters that the rank had before it, so a fault in one call does not show up in the
next. Gradients and losses are compared at the accuracy of float32: a right weight may well be computed in float32, and
a wrong one is wrong by a percent or more. Communication is judged by what was launched, and where in backward, never
by time.
"""

from functools import partial

import torch

from grader.checks import CheckFailed, line_of, told

SMALL = 1024
"""Bytes; less than any parameter's gradient. What is smaller is a count."""
WARM = 2
"""DDP orders its buckets anew after the first synchronised backward, so communication is judged from this call on."""
OWN = "this is the gradient of this rank's own samples"
EQUAL_WEIGHTS = "every micro-batch of every rank counts the same here, whatever its size"
EQUAL_RANKS = "every rank counts the same here, however many samples it has"
LEAKED = "the gradients from before the call are in it"


# What was asked and what was seen


def calls(run, *plans):
    """(call, plan) of the run's calls with these plans, or of all."""
    numbered = list(enumerate(run.parameters["plans"]))
    return [(call, plan) for call, plan in numbered if not plans or plan in plans]


def data(probe, run, call, plan, rank):
    return probe.micro_batches(run.seed, call, plan, rank, run.parameters["loss"])


def joined(batches):
    """Many (inputs, targets) as one."""
    inputs, targets = zip(*batches, strict=True)
    return torch.cat(inputs), torch.cat(targets)


def gradient(probe, run, parameters, batch):
    """The gradient of the mean loss over a batch, by name."""
    inputs, targets = batch
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
    loss = probe.LOSSES[run.parameters["loss"]](probe.outputs_of(leaves, inputs), targets)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def mean_of(gradients):
    return {name: sum(one[name] for one in gradients) / len(gradients) for name in gradients[0]}


def sum_of(*gradients):
    return {name: sum(one[name] for one in gradients) for name in gradients[0]}


def rounded(tensors):
    """As float32, so that they are compared at its accuracy."""
    return {name: tensor.to(torch.float32) for name, tensor in tensors.items()}


def named(plan, subject):
    return f"{subject} {SITUATIONS[plan]}"


SITUATIONS = {
    "equal": "with equal micro-batches",
    "sizes": "with micro-batches of different sizes",
    "ranks": "with different numbers of samples on the ranks",
    "leftovers": "with old gradients in .grad before the call",
    "one": "with a single micro-batch",
    "counts": "with different numbers of micro-batches on the ranks",
    "all": "with different numbers of micro-batches and of samples on the ranks",
}


def every_run(runs):
    """The runs of "steps", and of the other families those that finished: what breaks those is for their own checks."""
    others = [*runs("single", finished=False), *runs("counts", finished=False)]
    return [*runs("steps"), *(run for run in others if all(rank.ending.kind == "finished" for rank in run))]


# The basic path


def expect_model_shape(run, rank, probe, before):
    kinds = {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in before.items()}
    own = {name: [list(weight.shape), str(weight.dtype)] for name, weight in probe.initial_parameters(run.seed).items()}
    run.expect_equal(kinds, own, "shape and dtype of the parameters", ranks=[rank.rank])


def test_trains(runs, probe):
    """Every call runs the model on the rank's samples and steps the optimizer"""
    for run in runs("steps"):
        for rank in run:
            for call, plan in calls(run):
                expect_trained(run, rank, probe, call, plan)


def expect_trained(run, rank, probe, call, plan):
    seen, ranks = rank[f"call {call}"], [rank.rank]
    expect_model_shape(run, rank, probe, seen["before"])
    wanted, used = samples_of(probe, plan, rank.rank), {number for one in seen["passes"] for number in one["numbers"]}
    subject = named(plan, "the samples in passes through the model with gradients,")
    run.expect_equal(sorted(used), sorted(wanted), subject, ranks=ranks)
    steps = len(seen["gradients"])
    run.expect(steps, "optimizer.step()", expected="called", actual="never called", ranks=ranks)
    missing = sorted(seen["before"].keys() - seen["gradients"][0].keys())
    subject = "the gradients at optimizer.step()"
    run.expect(not missing, subject, expected="one for each parameter", actual=f"none for {missing}", ranks=ranks)


def samples_of(probe, plan, rank):
    """The numbers of a rank's samples."""
    return range(sum(probe.PLANS[plan][rank]))


def test_one_step(runs, probe):
    """The optimizer steps once a call, and nothing else changes the parameters"""
    for run in runs("steps"):
        for rank in run:
            for call, plan in calls(run):
                seen, ranks = rank[f"call {call}"], [rank.rank]
                steps, subject = len(seen["gradients"]), named(plan, "the optimizer's steps in a call")
                run.expect(steps == 1, subject, expected="1", actual=f"{steps}", ranks=ranks)
                before, used = seen["before"], seen["gradients"][0]
                wanted = {name: before[name] - probe.LEARNING_RATE * used[name] for name in before}
                run.expect_close(seen["after"], wanted, "the parameters after the call:", ranks=ranks, stale=before)


# The gradient


def expect_gradient(run, probe, call, plan):
    """The gradient that each rank stepped with equals that of the loss over all samples of all ranks."""
    batches = [data(probe, run, call, plan, other) for other in range(run.world_size)]
    everything = joined([batch for own in batches for batch in own])
    for rank in run:
        seen, where = rank[f"call {call}"], {"ranks": [rank.rank]}
        run.expect(seen["gradients"], "optimizer.step()", expected="called", actual="never called", **where)
        wanted = gradient(probe, run, seen["before"], everything)
        clauses = partial(explanations, probe, run, rank.rank, seen["before"], batches)
        if plan == "leftovers":
            clauses = partial(explained_leftovers, probe, run, call, wanted)
        expect_explained(run, seen["gradients"][0], wanted, named(plan, "the gradient"), clauses, where)


def expect_explained(run, found, wanted, subject, clauses, where):
    """As expect_close. To explain takes longer than to compare, so only what is wrong is explained."""
    found, wanted = rounded(found), rounded(wanted)
    try:
        run.expect_close(found, wanted, subject, **where)
    except CheckFailed:
        alternatives = {clause: rounded(one) for clause, one in clauses().items()}
        run.expect_close(found, wanted, subject, alternatives=alternatives, budget=2, **where)


def explained_leftovers(probe, run, call, wanted):
    return {LEAKED: sum_of(wanted, mean_of(left_over(probe, run, call)))}


def left_over(probe, run, call):
    return [probe.leftovers(run.seed, call, rank) for rank in range(run.world_size)]


def explanations(probe, run, rank, parameters, batches):
    """Gradients that common mistakes lead to, by a clause that names the mistake."""
    own = [[gradient(probe, run, parameters, batch) for batch in batches_of_one] for batches_of_one in batches]
    whole = [gradient(probe, run, parameters, joined(batches_of_one)) for batches_of_one in batches]
    return {
        OWN: whole[rank],
        EQUAL_RANKS: mean_of(whole),
        EQUAL_WEIGHTS: mean_of([one for gradients in own for one in gradients]),
    }


def judge_plan(runs, probe, family, plan, world_sizes):
    """The gradient of the calls with a plan, in the runs of these world sizes."""
    for run in runs(family):
        if run.world_size in world_sizes:
            for call, _ in calls(run, plan):
                expect_gradient(run, probe, call, plan)


def test_accumulates(runs, probe):
    """On one rank, equal micro-batches give the gradient of the whole batch"""
    judge_plan(runs, probe, "steps", "equal", [1])


def test_weights_micro_batches(runs, probe):
    """On one rank, micro-batches of different sizes count by their samples"""
    judge_plan(runs, probe, "steps", "sizes", [1])


def test_all_ranks(runs, probe):
    """Every rank steps with the gradient over the samples of all ranks"""
    judge_plan(runs, probe, "steps", "equal", [2, 3])


def test_weights_ranks(runs, probe):
    """Ranks with different numbers of samples count by their samples"""
    judge_plan(runs, probe, "steps", "ranks", [2, 3])


def test_leftovers(runs, probe):
    """Gradients from before the call do not leak in"""
    judge_plan(runs, probe, "steps", "leftovers", [1, 2, 3])


# The loss


def test_loss(runs, probe):
    """The mean loss over this rank's samples is returned, as a float"""
    for run in every_run(runs):
        expect_losses(run, probe)


def expect_losses(run, probe):
    for rank in run:
        for call, plan in calls(run):
            seen, subject = rank[f"call {call}"], named(plan, "the returned loss")
            ranks = [rank.rank]
            subject_of_type = "the type of the returned loss"
            run.expect(seen["is_float"], subject_of_type, expected="float", actual=seen["type"], ranks=ranks)
            wanted = mean_loss(probe, run, seen["before"], data(probe, run, call, plan, rank.rank))
            found = torch.tensor(seen["loss"], dtype=torch.float32)
            run.expect_close(found, wanted.to(torch.float32), subject, ranks=ranks)


def mean_loss(probe, run, parameters, batches):
    inputs, targets = joined(batches)
    return probe.LOSSES[run.parameters["loss"]](probe.outputs_of(parameters, inputs), targets)


# Communication


def test_synchronised_once(runs, probe):
    """The gradients are communicated once a call, with at most one small collective beside"""
    for run in every_run(runs):
        if run.world_size > 1:
            for call, plan in calls(run)[WARM:]:
                expect_gradients_once(run, probe, call, plan)
                expect_few_counts(run, call, plan)


def expect_gradients_once(run, probe, call, plan):
    """What a rank sends of its gradients is what one all-reduce of all costs; or one all-gather, which costs more from
    three ranks on, but two all-reduces cost more still."""
    allowed = (run.world_size - 1) * gradient_bytes(probe)
    subject = named(plan, "the bytes of gradients that a rank sends in a call")
    run.expect_sent(f"call {call}", allowed, subject=subject, ignore_below=SMALL)


def gradient_bytes(probe):
    return sum(weight.numel() * weight.element_size() for weight in probe.initial_parameters(0).values())


def expect_few_counts(run, call, plan):
    """At most one collective that is smaller than any gradient. A collective of Python objects is made of two."""
    subject, wanted = named(plan, f"collectives below {SMALL} bytes in a call"), "at most 1, for counts"
    for rank in run:
        small = rank.during(f"call {call}").below(SMALL)
        kinds = {(one.operation, one.line) for one in small}
        objects = len(small) == 2 and len(kinds) == 1 and len(small.of("all_gather", "broadcast")) == 2
        where = {"ranks": [rank.rank], "line": line_of(small)}
        run.expect(len(small) <= 1 or objects, subject, expected=wanted, actual=f"{len(small)}, {told(small)}", **where)


def test_overlaps(runs, probe):
    """Communication starts while the last backward still computes"""
    for run in every_run(runs):
        if run.world_size > 1:
            for call, plan in calls(run)[WARM:]:
                expect_overlap(run, probe, call, plan)


def expect_overlap(run, probe, call, plan):
    """A quarter of the gradients' bytes or more are launched in the last backward while it still has gradients to
    compute; all but the first layer's can be. Where nothing is sent at all it is the gradient that is wrong."""
    subject = named(plan, "the gradients that a rank sends")
    if any(rank.during(f"call {call}").at_least(SMALL) for rank in run):
        run.expect_overlap(f"call {call}", subject=subject, at_least=SMALL, in_all=gradient_bytes(probe) / 4)


# Memory


def test_one_at_a_time(runs, probe):
    """The activations of at most one micro-batch are alive at a time"""
    for run in every_run(runs):
        for rank in run:
            for call, plan in calls(run):
                expect_one_alive(run, rank, probe, call, plan)


def expect_one_alive(run, rank, probe, call, plan):
    owner = owners(probe.PLANS[plan][rank.rank])
    subject = named(plan, "micro-batches with living activations,")
    for one in rank[f"call {call}"]["passes"]:
        alive = sorted({owner.get(number, -1) for number in (*one["numbers"], *one["alive"])})
        run.expect(len(alive) == 1, subject, expected="1 at a time", actual=f"{len(alive)}", ranks=[rank.rank])


def owners(sizes):
    """The micro-batch of each sample."""
    return dict(enumerate(batch for batch, size in enumerate(sizes) for _ in range(size)))


# Lists of other lengths


def test_one_micro_batch(runs, probe):
    """A list with a single micro-batch works"""
    judge_plan(runs, probe, "single", "one", [1, 2, 3])


def test_different_counts(runs, probe):
    """Ranks may have different numbers of micro-batches"""
    for plan in ("counts", "all"):
        judge_plan(runs, probe, "counts", plan, [2, 3])


# Bad input


def test_empty(runs, probe):
    """An empty list raises ValueError, and the next call works"""
    for run in runs("empty"):
        for rank in run:
            outcome = rank["empty"]
            fields = {"ranks": [rank.rank]}
            if not outcome["raised"]:
                run.fail("an empty list", expected="ValueError", actual=f"returned {outcome['returned']}", **fields)
            run.expect_raised(outcome, "ValueError", "an empty list", **fields)
        for call, plan in calls(run):
            expect_gradient(run, probe, call, plan)
