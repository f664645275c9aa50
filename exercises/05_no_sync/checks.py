"""Judges the recorded calls of `train_step`.

Every call is judged from the parameters that the rank had before it, so a fault in one call does not show up in the
next. Gradients and losses are compared at the accuracy of float32: a right weight may well be computed in float32, and
a wrong one is wrong by a percent or more. Communication is judged by what was launched, and where in backward, never
by time.
"""

import torch

from grader.checks import (
    Attempt,
    CheckFailed,
    NotJudged,
    Tensors,
    TypedDict,
    amount,
    holds,
    line_of,
    once,
    replay,
    told,
)

SMALL = 1024
"""Bytes; less than any parameter's gradient. What is smaller is a count."""
WARM = 2
"""DDP orders its buckets anew after the first synchronised backward, so communication is judged from this call on."""
SITUATIONS = {
    "equal": "with equal micro-batches",
    "sizes": "with micro-batches of different sizes",
    "ranks": "with different numbers of samples on the ranks",
    "leftovers": "with old gradients in .grad before the call",
    "one": "with a single micro-batch",
    "counts": "with different numbers of micro-batches on the ranks",
    "all": "with different numbers of micro-batches and of samples on the ranks",
    "many": "with thousands of samples",
    "long": "with nine micro-batches on each rank, twice as large on one",
    "lengths": "with micro-batches of sequences, of another length in each, and targets for each position",
    "bytes": "with inputs of uint8",
    "second": "with a second model",
    "successor": "with a new model, made when the second one was gone",
    "one, leftovers": "with a single micro-batch and old gradients in .grad before the call",
}


OPTIMIZERS = {"momentum": "SGD with momentum and weight decay", "AdamW": "AdamW"}


class Pass(TypedDict):
    """A pass through the model with gradients: its samples' numbers, and those whose inner activations and outputs were
    still alive."""

    numbers: list[int]
    alive: list[int]
    outputs: list[int]


class Step(TypedDict):
    """One call of `train_step`: the parameters around it, the gradients of each optimizer step in it, and what is left
    of the list after it: the place that each pair had before, or -1 for another object."""

    before: Tensors
    after: Tensors
    gradients: list[Tensors]
    passes: list[Pass]
    left: list[int]
    type: str
    is_float: bool
    loss: float | None


class Refusal(Attempt):
    returned: str


# What was asked and what was seen


def calls(run, *plans):
    """(call, plan) of the run's calls with these plans, or of all."""
    numbered = list(enumerate(run.parameters["plans"]))
    return [(call, plan) for call, plan in numbered if not plans or plan in plans]


def steps_of(runs, probe):
    """(run, rank, call, plan, step) for every call of every rank: of one rank, and of several where they finished; what
    breaks those is for checks of their own."""
    for run in runs_of(runs, "steps", "single", "counts", "optimizers"):
        for rank in run:
            for call, plan in calls(run):
                yield run, rank, call, plan, step_of(run, rank, probe, call)


def runs_of(runs, *families):
    """The run of one rank, and those of some families that finished."""
    return [*runs("alone"), *(run for run in runs(*families, finished=False) if run.finished)]


@once
def step_of(run, rank, probe, call):
    """What a rank recorded of a call, with parameters as they were handed in."""
    step, like = rank.read(f"call {call}", Step), probe.initial_parameters(run.seed)
    for when in ("before", "after"):
        rank.expect_like(step[when], like, "shape and dtype of the parameters")
    return step


def gradients_of(rank, step):
    """What the optimizer stepped with: a gradient for each parameter. That it steps once is judged by `one_step`."""
    if not step["gradients"] or any(not same(step["gradients"][0], other) for other in step["gradients"][1:]):
        raise NotJudged("the optimizer does not step once with one gradient")
    missing = sorted(step["before"].keys() - step["gradients"][0].keys())
    rank.expect(not missing, "the gradients at optimizer.step()", "one for each parameter", f"none for {missing}")
    return rank.expect_like(step["gradients"][0], step["before"], "shape and dtype of the gradients")


def same(gradients, others):
    kinds = ({name: (one.dtype, one.shape) for name, one in each.items()} for each in (gradients, others))
    return len({*map(str, kinds)}) == 1 and all(gradients[name].equal(others[name]) for name in gradients)


def data(probe, run, call, plan, rank):
    place, loss = probe.source(run.parameters["plans"], call), probe.loss_of(run.parameters, call)
    return probe.micro_batches(run[rank].secret, place, plan, rank, loss)


def mean_loss(probe, run, call, batches):
    """The mean loss over the samples of some batches, as a function of the parameters. Inputs of one shape go through
    the model at once."""
    loss, kinds = probe.LOSSES[probe.loss_of(run.parameters, call)], {}
    for inputs, targets in batches:
        kinds.setdefault(inputs.shape[1:], []).append((inputs, targets))
    joined = [[torch.cat(part) for part in zip(*kind, strict=True)] for kind in kinds.values()]
    samples = sum(len(targets) for _, targets in joined)

    def mean(tensors):
        parts = [loss(probe.Network.compute(tensors, inputs), targets) * len(targets) for inputs, targets in joined]
        return sum(parts) / samples

    return mean


def rounded(tensors, dtype=torch.float32):
    """As float32, so that they are compared at its accuracy."""
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


# The basic path


def test_trains(runs, probe):
    """Every call runs the model on all of the rank's samples"""
    for run in runs_of(runs, "steps"):
        for rank in run:
            for call, plan in calls(run):
                step = step_of(run, rank, probe, call)
                used = sorted({number for one in step["passes"] for number in one["numbers"]})
                wanted = list(range(sum(probe.PLANS[plan][rank.rank])))
                subject = f"the samples in passes through the model with gradients, {SITUATIONS[plan]}"
                rank.expect_equal(used, wanted, subject)


def test_one_step(runs, probe):
    """The optimizer, whichever it is, steps once a call, and nothing else changes the parameters"""
    for run in runs_of(runs, "steps", "single", "optimizers"):
        for rank in run:
            optimizers = {}
            for call, plan in calls(run):
                expect_step(run, rank, probe, call, plan, optimizers)


def expect_step(run, rank, probe, call, plan, optimizers):
    """A call changes the parameters by one step with the gradients that it had. `optimizers` remember earlier calls."""
    step, name = step_of(run, rank, probe, call), probe.optimizer_of(run.parameters, call)
    before, steps = step["before"], len(step["gradients"])
    words = SITUATIONS[plan] if name == "plain" else f"{SITUATIONS[plan]}, {OPTIMIZERS[name]}"
    rank.expect(steps == 1, f"the optimizer's steps in a call {words}", "1", steps)
    (kind, options), rates = probe.OPTIMIZERS[name], probe.rates()
    model = plan if plan in probe.OTHERS else "first"
    optimizer = optimizers.setdefault((model, name), replay.Optimizer(replay.RULES[kind], before))
    optimizer.values = dict(before)
    wanted = optimizer.step(gradients_of(rank, step), lambda name: {**options, "lr": rates[name]})
    rank.expect_close(step["after"], wanted, f"the parameters after the call {words}:", stale=before)


# The gradient


def judge_plan(every, probe, plan):
    """The gradient of the calls with a plan, in some runs."""
    for run in every:
        for call, _ in calls(run, plan):
            expect_gradient(run, probe, call, plan)


def expect_gradient(run, probe, call, plan):
    """The gradient that each rank stepped with equals that of the loss over all samples of all ranks."""
    batches = [data(probe, run, call, plan, other) for other in range(run.world_size)]
    everything = mean_loss(probe, run, call, [batch for own in batches for batch in own])
    subject = f"the gradient {SITUATIONS[plan]}"
    for rank in run:
        step = step_of(run, rank, probe, call)
        found, gradient = rounded(gradients_of(rank, step)), replay.gradient(everything, step["before"])
        try:
            rank.expect_close(found, rounded(gradient), subject)
        except CheckFailed:  # to explain takes longer than to compare, so only what is wrong is explained
            clauses = explained(probe, run, call, rank.rank, step["before"], batches)
            clauses |= divided_as_before(probe, run, call, gradient)
            clauses = {clause: rounded(one) for clause, one in clauses.items()}
            rank.expect_close(found, rounded(gradient), subject, alternatives=clauses, budget=2)


def explained(probe, run, call, rank, parameters, batches):
    """Gradients that common mistakes lead to, by a clause that names the mistake."""
    own = [[replay.gradient(mean_loss(probe, run, call, [one]), parameters) for one in mine] for mine in batches]
    whole = [replay.gradient(mean_loss(probe, run, call, mine), parameters) for mine in batches]
    every = [gradient for gradients in own for gradient in gradients]
    return {
        "this is the gradient of this rank's own samples": whole[rank],
        "every rank counts the same here, however many samples it has": replay.mean(whole),
        "every micro-batch of every rank counts the same here, whatever its size": replay.mean(every),
    }


def divided_as_before(probe, run, call, gradient):
    """Gradients that are divided by the samples of an earlier call, where those were others, by a clause for each."""
    samples = [sum(map(sum, probe.PLANS[plan][: run.world_size])) for _, plan in calls(run)]
    return {
        f"this is divided by {count}, the number of samples in an earlier call": {
            name: one * samples[call] / count for name, one in gradient.items()
        }
        for count in dict.fromkeys(samples[:call])
        if count != samples[call]
    }


def test_accumulates(runs, probe):
    """On one rank, equal micro-batches give the gradient of the whole batch"""
    judge_plan(runs("alone"), probe, "equal")


def test_weights_micro_batches(runs, probe):
    """On one rank, micro-batches of different sizes count by their samples"""
    judge_plan(runs("alone"), probe, "sizes")


def test_all_ranks(runs, probe):
    """Every rank steps with the gradient over the samples of all ranks"""
    judge_plan(runs("steps"), probe, "equal")
    for run in runs("steps"):
        run.expect_moved(len(calls(run)) * (run.world_size - 1) * gradient_bytes(probe) / 4)


def test_weights_ranks(runs, probe):
    """Ranks with different numbers of samples count by their samples, few or thousands, whatever the model"""
    judge_plan(runs("steps"), probe, "ranks")
    for plan in ("ranks", "long", "many", "bytes", *probe.OTHERS, "lengths"):
        judge_plan(runs("optimizers"), probe, plan)


def test_leftovers(runs, probe):
    """Gradients from before the call do not leak in"""
    for run in runs_of(runs, "steps", "single"):
        for call, plan in calls(run, *probe.TWINS):
            twin = probe.source(run.parameters["plans"], call)
            left = replay.mean([probe.leftovers(rank.secret, call) for rank in run])
            for rank in run:
                clean, found = (gradients_of(rank, step_of(run, rank, probe, one)) for one in (twin, call))
                half = torch.float16  # fine enough: what is left over is far larger than the gradient
                clauses = {"the gradients from before the call are in it": rounded(replay.total(clean, left), half)}
                how = {"alternatives": clauses, "budget": 2}
                rank.expect_close(rounded(found, half), rounded(clean, half), f"the gradient {SITUATIONS[plan]}", **how)


# The loss


def test_loss(runs, probe):
    """The mean loss over this rank's samples is returned, as a float"""
    for run, rank, call, plan, step in steps_of(runs, probe):
        rank.expect_type("float" if step["is_float"] else step["type"], "float", "the type of the returned loss")
        wanted = mean_loss(probe, run, call, data(probe, run, call, plan, rank.rank))(step["before"])
        found = torch.tensor(step["loss"], dtype=torch.float32)
        rank.expect_close(found, wanted.to(torch.float32), f"the returned loss {SITUATIONS[plan]}")


# Communication


def regions(runs, probe, cold=False):
    """(run, rank, region, plan) for every call whose communication is judged: between ranks, once DDP is warm, which
    it is not with other models; those before as well if `cold`. Where nothing is sent at all and the gradient is wrong,
    it is that which is wrong."""
    found = []
    for run, rank, call, plan, _ in steps_of(runs, probe):
        region = f"call {call}"
        if run.world_size > 1 and (cold or (call >= WARM and plan not in probe.OTHERS)):
            sent = any(one.during(region).at_least(SMALL) for one in run)
            if sent or holds(expect_gradient, run, probe, call, plan):
                found.append((run, rank, region, plan))
    if not any(run.case.name == "steps" for run, *_ in found):
        raise NotJudged("no rank sends its gradients")
    return found


def gradient_bytes(probe):
    return sum(weight.nbytes for weight in probe.initial_parameters(0).values())


def test_synchronised_once(runs, probe):
    """The gradients are communicated once a call, with at most one small collective beside"""
    for run, rank, region, plan in regions(runs, probe):
        expect_sent_once(run, rank, region, plan, probe)
        least, launched = gradient_bytes(probe) / 4, rank.during(region).at_least(SMALL)  # in half precision
        subject = f"the bytes of gradients that a rank sends in a call {SITUATIONS[plan]}"
        rank.expect(launched.bytes >= least, subject, f"those of {amount(least)} or more", told(launched))
        expect_few_counts(rank, region, plan)
    for run, rank, region, plan in regions(runs, probe, cold=True):
        expect_sent_once(run, rank, region, plan, probe)
    for run in {id(run): run for run, *_ in regions(runs, probe)}.values():
        run.expect_confirmed()


def expect_sent_once(run, rank, region, plan, probe):
    """One all-reduce of all gradients; or one all-gather, which costs more from three ranks on, but two all-reduces
    cost more still. And a little more: counts may travel with the gradients, which may be padded."""
    allowed = (run.world_size - 1) * gradient_bytes(probe) + SMALL
    subject = f"the bytes of gradients that a rank sends in a call {SITUATIONS[plan]}"
    rank.expect_sent(region, allowed, subject=subject, ignore_below=SMALL)


def expect_few_counts(rank, region, plan):
    """At most one collective that is smaller than any gradient. A collective of Python objects is made of two."""
    small = rank.during(region).below(SMALL)
    kinds = {(one.operation, one.line) for one in small}
    objects = len(small) == 2 and len(kinds) == 1 and len(small.of("all_gather", "broadcast")) == 2
    objects = objects and {one.dtype for one in small} == {"int64", "uint8"}  # their sizes, and their pickles
    subject, seen = f"collectives below {SMALL} bytes in a call {SITUATIONS[plan]}", f"{len(small)}, {told(small)}"
    rank.expect(len(small) <= 1 or objects, subject, "at most 1, for counts", seen, line=line_of(small))


def test_overlaps(runs, probe):
    """Communication starts while the last backward still computes"""
    for _, rank, region, plan in regions(runs, probe):
        # A quarter of the gradients' bytes or more, as they are sent; all but the first layer's can be.
        subject, sent = f"the gradients that a rank sends {SITUATIONS[plan]}", rank.during(region).at_least(SMALL).bytes
        rank.expect_overlap(region, subject=subject, at_least=SMALL, in_all=min(gradient_bytes(probe), sent) / 4)


# Memory


def test_one_at_a_time(runs, probe):
    """The activations of at most one micro-batch are alive at a time"""
    for _, rank, _, plan, step in steps_of(runs, probe):
        if not step["passes"]:
            raise NotJudged("no sample goes through the model")
        sizes = probe.PLANS[plan][rank.rank]
        owner = dict(enumerate(batch for batch, size in enumerate(sizes) for _ in range(size)))
        for one in step["passes"]:
            alive = {owner.get(number, -1) for number in (*one["numbers"], *one["alive"])}
            subject = f"micro-batches with living activations, {SITUATIONS[plan]}"
            rank.expect(len(alive) == 1, subject, "1 at a time", len(alive))
            # A local name may still hold the last outputs, which nobody minds; those before it are being collected.
            earlier = {owner.get(number, -1) for number in one["outputs"]} - alive
            subject = f"earlier micro-batches whose outputs are still alive, {SITUATIONS[plan]}"
            rank.expect(len(earlier) <= 1, subject, "at most 1", len(earlier))


# Lists of other lengths, and bad input


def test_one_micro_batch(runs, probe):
    """A list with a single micro-batch works as longer ones do"""
    several = holds(test_all_ranks, runs, probe)  # where longer ones go wrong between ranks, one rank is judged
    for run in runs("single", finished=False):
        if run.world_size == 1 or several:
            run.require_finished()
            judge_plan([run], probe, "one")


def test_different_counts(runs, probe):
    """Ranks may have different numbers of micro-batches"""
    for plan in ("counts", "all"):
        judge_plan(runs("counts"), probe, plan)


def test_empty(runs, probe):
    """An empty list raises ValueError, the next call works, and a list stays as it was"""
    several = holds(test_all_ranks, runs, probe)
    for run in runs("empty", recorded=["empty"]):
        for rank in run:
            refusal = rank.read("empty", Refusal)
            rank.expect_raised(refusal, "ValueError", "an empty list", returned=f"returned {refusal['returned']}")
        if several:
            run.require_finished()
            judge_plan([run], probe, "equal")
    for _, rank, _, plan, step in steps_of(runs, probe):
        subject = f"the pairs in the list after a call {SITUATIONS[plan]}, by their places before it (-1: another)"
        rank.expect_equal(step["left"], list(range(len(probe.PLANS[plan][rank.rank]))), subject)
