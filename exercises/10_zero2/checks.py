"""Judges the recorded runs of `Zero2Optimizer`.

The optimizers, which grader.checks.replay has written out, are replayed with the mean of the ranks' gradients, drawn
again from their secrets; the values after every step are compared, on every rank. Traffic is judged from the trace at
ring cost, memory by what each process kept alive.
"""

from functools import partial

import torch

from grader.checks import CheckFailed, NotJudged, Tensor, Tensors, TypedDict, amount, holds, memory, parts, replay, told
from grader.checks.tolerance import MEMORY_BALANCE, MEMORY_SLACK

History = list[Tensors]
"""The parameters after each step."""
SMALL = 1024
"""Bytes. What is smaller does not count as traffic."""
TRAINED, LONE = "a model under SGD", "a group with one scalar"
REGION, ODD_REGION, COARSE_REGION = "a step", "a step on odd sizes", "a step on bfloat16"
BY_HAND, BY_LAMBDA, ADDED = "options written into param_groups", "a LambdaLR", "groups that are added"
OF_ADAM, CHANGED = "options of Adam written into param_groups", "groups that were added and changed"
ONE_EACH, DTYPES = "one gradient a rank", "several dtypes"
PLAIN = "SGD"
"""The optimizer of the memory case that has no state."""
RATES = (1e-3, 1e-3, 1e-2)
"""The learning rates of SGD, AdamW and Adagrad where nobody gives one."""
Returned = list[float | None]
Rates = list[float | None]


class Small(TypedDict):
    """What was seen of small parameters: elements of gradients after each step, and bytes of tensors in the end."""

    gradients: list[int]
    bytes: int


DONE = {
    "model": "training a model on one rank",
    "traffic": "training large parameters on one rank",
    "sizes": "training parameters of odd sizes on one rank",
    "kinds": "training with each optimizer on one rank",
    "strides": "training parameters that are not contiguous, on one rank",
    "dtypes": "training several dtypes on one rank",
    "groups": "groups on one rank",
    "schedules": "options that change, on one rank",
    "added": "add_param_group on one rank",
    "absent": "steps without some gradients, on one rank",
    "uneven": "steps without some gradients, on one rank",
    "accumulating": "several backward passes before a step, on one rank",
    "clearing": "zero_grad on one rank",
    "closures": "steps with a closure, on one rank",
    "lone": "a group with one scalar, on one rank",
}
"""The parts of the probe, in words."""


# Replaying


def mean(gradients):
    """Of the ranks' gradients, None where nobody has one; who has none counts as zero."""
    given = [gradient for gradient in gradients if gradient is not None]
    return total(given) / len(gradients) if given else None


def total(gradients):
    return torch.stack([gradient.double() for gradient in gradients]).sum(0)


def over_those_that_have(gradients):
    given = [gradient for gradient in gradients if gradient is not None]
    return total(given) / len(given) if given else None


def mistakes(world_size, rank):
    """What is often done in place of averaging, by a clause that names it: functions of the ranks' gradients."""

    def times(factor):
        return lambda gradients: None if mean(gradients) is None else factor * mean(gradients)

    def zeros(gradients):
        shape = next((gradient for gradient in gradients if gradient is not None), None)
        return mean(gradients) if shape is not None else 0.0

    return {
        "this is trained with the sum of the ranks' gradients, not their mean": times(world_size),
        "this is trained with gradients that were divided by the number of ranks once too often": times(1 / world_size),
        "this is trained with the rank's own gradients alone": lambda gradients: gradients[rank],
        "this is trained with the mean over those ranks that have a gradient, not over all": over_those_that_have,
        "this is trained as if a gradient that no rank has were zero": zeros,
        "here a parameter is skipped that only some ranks have a gradient for": lambda gradients: (
            None if any(gradient is None for gradient in gradients) else mean(gradients)
        ),
    }


def replayed(probe, run, kind, options, steps, shapes=None, given=None, micro_batches=1, combine=mean):
    """The parameters before the first step and after each, computed in float64. `options(step, name)` is what the
    optimizer of this kind is called with, `given(rank, step, name)` whether a rank has a gradient, and one of zeros."""
    shapes = shapes or probe.EVEN

    def drawn(rank, step, name):
        has, every = given(rank.rank, step, name) if given else 1, range(micro_batches)
        if not has:
            return None
        made = total([probe.gradient(rank.secret, step, name, shapes[name], number) for number in every])
        return made if has != probe.ZEROS else torch.zeros_like(made)

    def gradient(step, name, values):
        combined = combine([drawn(rank, step, name) for rank in run])
        return combined if combined is None or torch.is_tensor(combined) else torch.zeros_like(values[name])

    start = {name: probe.initial(run.seed, name, shape).double() for name, shape in shapes.items()}
    return replay.history(kind, start, steps, gradient, options)


def expect_history(run, name, replay_with, dtype_of=lambda name: torch.float64):
    """What every rank recorded under this name: the values after each step. `replay_with()` gives them from before the
    first step on, or what they are where the gradients are combined in another way (`combine=`)."""
    wanted = replay_with()
    for rank in run:
        seen = rank.read(name, History)
        rank.expect_equal(len(seen), len(wanted) - 1, f"{name}: the number of steps")
        for number, values in enumerate(seen, start=1):
            before, after = (as_dtypes(wanted[place], dtype_of) for place in (number - 1, number))
            expect = partial(rank.expect_close, values, after, f"{name}: after step {number}, the parameter", steps=4)
            try:
                expect(stale=before)
            except CheckFailed:  # to explain takes longer than to compare, so only what is wrong is explained
                clauses = {
                    clause: as_dtypes(replay_with(combine=combine)[number], dtype_of)
                    for clause, combine in mistakes(run.world_size, rank.rank).items()
                }
                expect(stale=before, alternatives=clauses, budget=3)


def as_dtypes(tensors, dtype_of):
    return {name: tensor.to(dtype_of(name)) for name, tensor in tensors.items()}


def fixed(options):
    """The same options for every parameter in every step."""
    return lambda step, name: options


def by_group(groups, defaults):
    """The options that each parameter has, the same in every step: its group's own before the optimizer's."""
    table = {}
    for group in groups:
        own = {name: value for name, value in group.items() if name not in ("names", "lazy")}
        table |= {name: {**defaults, **own} for name in members(group)}
    return lambda step, name: table[name]


def members(group):
    return [group["names"]] if isinstance(group["names"], str) else group["names"]


def judged(runs, probe, part, recorded):
    """Each run in which a part is judged: on one rank whatever several ranks do, and on several unless
    `same_as_unsharded` tells that these go wrong. What kept a run from coming to this part is told by the check of what
    came before."""
    (alone,) = runs("alone", recorded=[f"{part} alone"])
    if not alone.came_to(recorded):
        parts.expect_done(alone[0], part, DONE[part])
    if not holds(expect_trained, probe, alone):
        raise NotJudged("training on one rank goes wrong, which another check tells")
    yield alone
    yield from on_several(runs, probe, part, recorded)


def on_several(runs, probe, part, recorded):
    """The same on several ranks alone."""
    if holds(test_same_as_unsharded, runs, probe):
        families = {family: probe.PARTS[family] for family in ("train", "parts")}
        yield from parts.arrived(runs, families, part, recorded)


# The basic path


def test_is_optimizer(runs):
    """It is a torch.optim.Optimizer, as schedulers and trainers ask"""
    for run in runs("alone", recorded=["model alone"]):
        if "is_optimizer" not in run[0]:
            parts.expect_done(run[0], "model", DONE["model"])
        seen = run[0].read("is_optimizer", bool)
        run[0].expect(seen, "the object", "an instance of torch.optim.Optimizer", "not one")


def test_trains(runs, probe):
    """On one rank every step trains the parameters"""
    for run in runs("alone", recorded=["model alone"]):
        parts.expect_done(run[0], "model", DONE["model"])
        before = {name: probe.initial(run.seed, name, shape) for name, shape in probe.MODEL.items()}
        for number, values in enumerate(run[0].read(TRAINED, History), start=1):
            run[0].expect_like(values, before, f"{TRAINED}: shape and dtype")
            left = [name for name in before if values[name].equal(before[name])]
            run[0].expect(not left, f"{TRAINED}: in step {number}, parameters that change", "all", f"none of {left}")
            before = values


def expect_trained(probe, run):
    case = run.parameters["model"]

    def replay_with(combine=mean):
        def gradients(values, step):
            every = [replay.gradient(lambda t, r=r: probe.loss_of(t, r.secret, step), values, probe.MODEL) for r in run]
            return {name: combine([one[name] for one in every]) for name in probe.MODEL}

        start = {name: probe.initial(run.seed, name, shape) for name, shape in probe.MODEL.items()}
        optimizer, history = replay.Optimizer(replay.RULES["SGD"], start), [start]
        for step in range(case["steps"]):
            history.append(optimizer.step(gradients(history[-1], step), lambda name: case["options"]))
        return history

    expect_history(run, TRAINED, replay_with)


def test_same_as_unsharded(runs, probe):
    """On one, two and four ranks every step equals the unsharded one on the mean of the gradients"""
    for run in runs("alone", "train", recorded=[TRAINED]):
        expect_trained(probe, run)
    for run in runs("train", recorded=[TRAINED]):
        size = 8 * sum(torch.Size(shape).numel() for shape in probe.MODEL.values())
        # Each sum takes N - 1 messages at least, and so does telling its result.
        run.expect_moved(run.parameters["model"]["steps"] * 2 * (run.world_size - 1) * size)


def test_replicas_identical(runs, probe):
    """The parameters are bit-identical on all ranks after every step"""
    for run in runs("train", recorded=[TRAINED]):
        judge_identical(run, TRAINED, run.parameters["model"]["steps"], "the parameters after step")
    for run in runs("parts", finished=False) if holds(test_dtypes, runs, probe) else ():
        if run.came_to([DTYPES]):
            judge_identical(run, DTYPES, run.parameters["sizes"]["steps"], f"{DTYPES}: the parameters after step")


def judge_identical(run, name, steps, subject):
    histories = {rank.rank: rank.read(name, History) for rank in run}
    for rank in run:
        rank.expect_equal(len(histories[rank.rank]), steps, "the number of steps")
    for number in range(steps):
        by_rank = {rank: history[number] for rank, history in histories.items()}
        run.expect_identical(by_rank, f"{subject} {number + 1}:")


# Parameters and optimizers


def test_any_size(runs, probe):
    """Parameters of any size are trained, also where there are fewer elements than ranks"""
    for run in judged(runs, probe, "sizes", list(probe.SIZES)):
        for title, shapes in probe.SIZES.items():
            expect_steps(run, probe, title, shapes)


def expect_steps(run, probe, title, shapes=None, dtype_of=lambda name: torch.float64, **how):
    """The parts that train with the options and steps of "sizes"."""
    case = run.parameters["sizes"]
    expect_history(
        run,
        title,
        partial(replayed, probe, run, "SGD", fixed(case["options"]), range(case["steps"]), shapes, **how),
        dtype_of,
    )


def test_strided(runs, probe):
    """Parameters that are not contiguous are trained"""
    for run in judged(runs, probe, "strides", ["transposed parameters"]):
        expect_steps(run, probe, "transposed parameters", probe.STRIDED)


def test_dtypes(runs, probe):
    """Parameters of float64, float32 and bfloat16 are trained side by side"""
    for run in judged(runs, probe, "dtypes", [DTYPES]):
        expect_steps(run, probe, DTYPES, probe.DTYPES, probe.dtype_of)


def test_optimizers(runs, probe):
    """All options of SGD, Adam, AdamW and Adagrad have their effect, and so have their defaults"""
    (alone,) = runs("alone", finished=False)
    every = list(alone.parameters["kinds"]["optimizers"])
    for run in judged(runs, probe, "kinds", every):
        case = run.parameters["kinds"]
        for title, (kind, options) in case["optimizers"].items():
            expect_history(run, title, partial(replayed, probe, run, kind, fixed(options), range(case["steps"])))


# Groups and options


def test_groups(runs, probe):
    """Every group is visible with its own options and is trained with them"""
    for run in judged(runs, probe, "groups", ["visible", "several groups"]):
        case = run.parameters["groups"]
        groups, defaults = case["groups"], case["options"]
        for rank in run:
            rank.expect_equal(rank["visible"], shown(case), "param_groups")
            names = rank.read("visible beside a frozen one", list[str])
            rank.expect_equal(names, list(probe.EVEN), "the parameters in param_groups, of which one is frozen")
            expect_rates(probe, rank, rank.read("rates that nobody gave", Rates), " that was given none")
        options, steps = by_group(groups, defaults), range(case["steps"])
        expect_history(run, "several groups", partial(replayed, probe, run, "AdamW", options, steps))
    if holds(test_any_size, runs, probe):
        for run in judged(runs, probe, "lone", [LONE]):
            case, shapes = run.parameters["lone"], {**probe.MODEL, "scale": ()}
            options, steps = by_group(case["groups"], case["options"]), range(case["steps"])
            expect_history(run, LONE, partial(replayed, probe, run, "SGD", options, steps, shapes))


def shown(case):
    """`param_groups` as Training.visible() of the probe writes them down."""
    return [
        {"options": {name: group.get(name, value) for name, value in case["options"].items()}, "names": members(group)}
        for group in case["groups"]
    ]


def expect_rates(probe, rank, rates, where):
    """The learning rate that each optimizer shows where none was given."""
    for kind, wanted, seen in zip(probe.UNSAID, RATES, rates, strict=False):
        rank.expect(seen == wanted, f"lr in param_groups of {kind}{where}", wanted, seen)
    rank.expect_equal(len(rates), len(RATES), "the number of optimizers without lr")


def test_schedulers(runs, probe):
    """Learning rates and other options that change take effect at once"""
    for run in judged(runs, probe, "schedules", [BY_HAND, BY_LAMBDA, OF_ADAM]):
        case = run.parameters["schedules"]
        for name, kind, options, steps in (
            (BY_HAND, "SGD", by_hand(probe.BY_HAND, case["sgd"]), range(len(probe.BY_HAND))),
            (BY_LAMBDA, "SGD", by_lambda(probe, case), range(len(probe.FACTORS[0]))),
            (OF_ADAM, "Adam", by_hand(probe.OF_ADAM, {}), range(len(probe.OF_ADAM))),
        ):
            expect_history(run, name, partial(replayed, probe, run, kind, options, steps))


def by_hand(changes, first):
    """What is written stays until it is overwritten."""
    written = [dict(first)]
    for change in changes:
        written.append({**written[-1], **change})
    return lambda step, name: written[step + 1]


def by_lambda(probe, case):
    options = by_group(case["groups"], case["sgd"])
    rows = {name: row for group, row in zip(case["groups"], probe.FACTORS, strict=True) for name in members(group)}
    return lambda step, name: {**options(step, name), "lr": options(step, name)["lr"] * rows[name][step]}


def test_late_groups(runs, probe):
    """A group that is added between steps is trained from then on"""
    changes = holds(test_schedulers, runs, probe)
    for run in judged(runs, probe, "added", [ADDED]):
        case = run.parameters["added"]
        replay_with = partial(replayed_added, probe, run, case)
        expect_history(run, ADDED, lambda replay_with=replay_with, **how: replay_with(**how)[:-1])
        if changes:  # whether options that are written into the first groups take effect
            expect_history(run, CHANGED, lambda replay_with=replay_with, **how: replay_with(**how)[-2:])
        for rank in run:
            rank.expect_equal(rank["visible after adding"], shown(case), "param_groups after adding")
            rates = rank.read("rates of added groups that nobody gave", Rates)
            expect_rates(probe, rank, rates, ", in a group that was added and was given none")


def replayed_added(probe, run, case, **how):
    """The parameters before the first step and after each; before the last, other options are written into all groups
    that were added."""
    since = {name: 2 * number for number, group in enumerate(case["groups"]) for name in members(group)}
    own, last = by_group(case["groups"], case["options"]), 2 * len(case["groups"])

    def options(step, name):
        return {**own(step, name), **(case["changed"] if step == last and since[name] else {})}

    def given(rank, step, name):
        return step >= since[name]

    return replayed(probe, run, "SGD", options, range(last + 1), given=given, **how)


# Gradients


def test_absent(runs, probe):
    """A parameter without a gradient on any rank is skipped, one with a gradient of zeros is not"""
    (alone,) = runs("alone", finished=False)
    every = [f"nowhere, {title}" for title in alone.parameters["absent"]["optimizers"]]
    for run in judged(runs, probe, "absent", every):
        expect_present(run, probe, "nowhere", run.parameters["absent"])


def test_uneven(runs, probe):
    """A gradient that some ranks do not have counts as zero there"""
    (alone,) = runs("alone", finished=False)
    every = [f"somewhere, {title}" for title in alone.parameters["uneven"]["optimizers"]]
    for run in on_several(runs, probe, "uneven", [ONE_EACH]):
        expect_agreement(run, probe)
    for run in on_several(runs, probe, "uneven", every):
        expect_present(run, probe, "somewhere", run.parameters["uneven"])


def expect_agreement(run, probe):
    """Where each rank has a single gradient, all ranks train the same parameters."""
    before = {name: probe.initial(run.seed, name, shape) for name, shape in probe.EVEN.items()}
    for rank in run:
        rank.expect_equal(len(rank.read(ONE_EACH, History)), 1, f"{ONE_EACH}: the number of steps")
        rank.expect_like(rank.read(ONE_EACH, History)[0], before, f"{ONE_EACH}: shape and dtype")
    for owner, name in enumerate(probe.ONE_EACH):
        left = [rank.rank for rank in run if rank.read(ONE_EACH, History)[0][name].equal(before[name])]
        run.expect(
            len(left) in (0, run.world_size),
            f"after a step in which rank {owner} alone has a gradient for a parameter, that parameter",
            "trained on every rank",
            "unchanged here and trained elsewhere: the ranks do not agree on which gradients there are",
            ranks=left,
        )
    present, options = probe.one_each(), fixed(run.parameters["uneven"]["first"])
    how = {"given": lambda rank, step, name: probe.there(present[name][step], rank)}
    expect_history(run, ONE_EACH, partial(replayed, probe, run, "SGD", options, [0], **how))


def expect_present(run, probe, where, case):
    present, frozen = case["present"], case.get("frozen")
    how = {"given": lambda rank, step, name: name != frozen and probe.there(present[name][step], rank)}
    for title, (kind, options) in case["optimizers"].items():
        replay_with = partial(replayed, probe, run, kind, fixed(options), range(case["steps"]), **how)
        expect_history(run, f"{where}, {title}", replay_with)


def test_accumulates(runs, probe):
    """Gradients of several backward passes add up before a step"""
    for run in judged(runs, probe, "accumulating", ["accumulated"]):
        expect_steps(run, probe, "accumulated", micro_batches=2)


def test_zero_grad(runs, probe):
    """zero_grad clears the gradients, a step leaves none for the next, and another optimizer keeps its own"""
    for run in judged(runs, probe, "clearing", ["cleared"]):
        if holds(test_absent, runs, probe) or not holds(expect_cleared, run, probe, probe.ZEROS):
            expect_cleared(run, probe, 0)
        expect_steps(run, probe, "another optimizer beside it", probe.MODEL)


def expect_cleared(run, probe, otherwise):
    """`otherwise` is what a gradient that nobody has computed again is taken for: that it is skipped and not taken for
    zeros is another check's business."""
    present = probe.computed_again(run.parameters["sizes"]["steps"])
    expect_steps(run, probe, "cleared", given=lambda rank, step, name: present[name][step] or otherwise)


def test_closures(runs, probe):
    """A closure is called once, with gradients enabled, and step returns its loss"""
    for run in judged(runs, probe, "closures", ["nothing"]):
        steps = run.parameters["sizes"]["steps"]
        for rank in run:
            calls = rank.read("calls", list[list[bool]])
            rank.expect_equal([len(call) for call in calls], [1] * steps, "how often each step called the closure")
            rank.expect(all(all(call) for call in calls), "gradients inside the closure", "enabled", "disabled")
        expect_steps(run, probe, "steps with a closure")
        for rank in run:
            returned, nothing = rank.read("returned", Returned), rank.read("nothing", str)
            wanted = [float(number + 1 + rank.rank) for number in range(steps)]
            rank.expect_equal(returned, wanted, "what step(closure) returned, which is this rank's own loss")
            for made in rank.read("types returned", list[str]):
                rank.expect(made == "Tensor", "what step(closure) returned", "the loss, a Tensor", f"a {made}")
            rank.expect(nothing == "NoneType", "what step() returned", "None", f"a {nothing}")


# Traffic


def test_traffic(runs, probe):
    """A rank sends fewer bytes than an all-reduce and an all-gather would"""
    for run in runs("train", recorded=["traffic ended"], after=["model ended"]):
        judge_traffic(run, REGION, probe.LARGE)
        if run.came_to(["sizes ended"]):
            judge_traffic(run, ODD_REGION, probe.LARGE_ODD)
        if run.came_to(["coarse ended"]) and holds(test_dtypes, runs, probe):
            judge_traffic(run, COARSE_REGION, probe.LARGE_COARSE, itemsize=2, room=1.05)
        if run.finished:  # else not all that it communicated may be known
            run.expect_confirmed()


def judge_traffic(run, region, shapes, itemsize=8, room=1.0):
    """`room` lets those pass who add up coarse gradients in float32: with what is gathered they are at the bound."""
    size = itemsize * sum(torch.Size(shape).numel() for shape in shapes.values())
    once = (run.world_size - 1) / run.world_size * size
    sent = [rank.during(region).sent_bytes for rank in run]
    fewest = 0.9 * once * run.world_size  # half of what is needed: values tell the rest
    subject = f"the bytes that all ranks send in {region}"
    run.expect(sum(sent) >= fewest, subject, f"at least {amount(fewest)}", told(run[0].during(region)))
    for rank in run:
        part = rank.during(region).at_least(SMALL)
        rank.expect(
            part.sent_bytes < 3 * room * once,
            f"the bytes that a rank sends in {region}",
            f"fewer than the {amount(3 * once)} of an all-reduce ({amount(2 * once)}) and an all-gather",
            f"{amount(part.sent_bytes)}, by {told(part)}",
        )


# Memory


def kept(rank, title, when):
    """Bytes that a process has more than before the optimizer was built."""
    return memory.kept(rank, title, when)


def elements(probe, run):
    return sum(map(sum, probe.lengths(run.world_size)))


def test_gradients_freed(runs, probe):
    """After a step a rank keeps its share of the gradients at most"""
    for run in runs("memory", recorded=[f"{PLAIN}: between steps"]):
        share, count = elements(probe, run) // run.world_size, sum(map(len, probe.lengths(run.world_size)))
        for rank in run:
            wanted = f"at most {share + count} elements: 1/{run.world_size} of all, and one a parameter"
            for number, seen in enumerate(rank.read(f"{PLAIN}: gradient elements", list[int]), start=1):
                subject = f"the gradients that the parameters have after step {number}"
                rank.expect(seen <= share + count, subject, wanted, seen)
            most = 4 * (2 * (share + count) + MEMORY_SLACK * elements(probe, run))
            for when in ("after a step", "between steps"):
                seen = kept(rank, PLAIN, when)
                wanted = f"at most {amount(most)}: of gradients and of a copy of the parameters 1/{run.world_size} each"
                rank.expect(seen <= most, f"what a rank keeps {when} of SGD without momentum", wanted, amount(seen))
        expect_small_freed(probe, run)
        expect_sampled(runs, probe, run, PLAIN)


def expect_sampled(runs, probe, run, title):
    """What was measured has also been trained: some elements of each parameter, by what was recorded of them. Where
    training goes wrong anyhow, other checks say so."""
    if not holds(test_same_as_unsharded, runs, probe):
        return
    expect_values(probe, run, title, title, [size for group in probe.lengths(run.world_size) for size in group])
    if title in probe.SMALL_TITLES:
        expect_values(probe, run, title, f"{title}, small", [size for group in probe.SMALL for size in group])


def expect_values(probe, run, title, place, sizes):
    """Of parameters of these sizes, which were trained for two steps, the first of them in the first step alone."""
    kind, options = run.parameters["optimizers"][title]
    places = {rank.rank: probe.samples.places(rank.secret, place, sizes) for rank in run}

    def picked(seed, *what):
        """By rank, which were asked for elements of their own, and by whether they are the first parameter's."""
        parts, found = [*probe.samples.drawn(sizes, seed, place, *what)], {}
        for rank, chosen in places.items():
            first, *others = (part[where] for part, where in zip(parts, chosen, strict=True))
            found |= {(rank, True): first, (rank, False): torch.cat(others)}
        return found

    means = [replay.mean([picked(rank.secret, "gradient", step) for rank in run]) for step in range(2)]

    def given(step, name, values):
        return None if step and name[1] else means[step][name]

    *_, wanted = replay.history(kind, picked(run.seed, "initial"), range(2), given, lambda step, name: options)
    for rank in run:
        seen, ours = rank.read(f"{place}: values", Tensor), torch.cat([wanted[rank.rank, one] for one in (True, False)])
        rank.expect_close(seen, ours, f"where memory is measured, some elements of what {place} has trained,", steps=8)


def expect_small_freed(probe, run):
    """Of small parameters, one of which has more elements than a rank's share."""
    every = [size for group in probe.SMALL for size in group]
    most = sum(every) // run.world_size + len(every)
    for rank in run:
        for number, seen in enumerate(small(rank, PLAIN)["gradients"], start=1):
            subject = f"the gradients that {len(every)} small parameters have after step {number}"
            wanted = f"at most {most} elements: 1/{run.world_size} of all, and one a parameter"
            rank.expect(seen <= most, subject, wanted, seen)


def small(rank, title):
    return rank.read(f"{title}: small", Small)


def states(runs, probe):
    """(run, optimizer, fewest and most bytes by rank): what each rank keeps of an optimizer beyond what it keeps of
    plain SGD. It was looked at twice: what a backend lets go of late, on a busy machine, is in one of them at most. The
    most is no less than what the tensors have: what else grew under plain SGD, which comes first, would hide them."""
    for run in runs("memory"):
        for title in run.parameters["states"]:
            looks = [[kept(rank, title, when) - kept(rank, PLAIN, when) for rank in run] for when in LOOKS]
            beyond = [tensors(rank, title) - tensors(rank, PLAIN) for rank in run]
            yield run, title, [*map(min, *looks)], [*map(max, *looks, beyond)]


LOOKS = ("after a step", "between steps")


def tensors(rank, title):
    """Bytes of the tensors that a rank keeps between steps."""
    return rank.read(f"{title}: {LOOKS[1]}", memory.Growth)["storages"]


def test_state_sharded(runs, probe):
    """All ranks together keep the optimizer's state once"""
    for run, title, by_rank, most_by_rank in states(runs, probe):
        count, size = run.parameters["states"][title], 4 * elements(probe, run)
        slack = MEMORY_SLACK * run.world_size
        most, fewest = (count + slack) * size, (count - slack) * size
        subject = f"the state of {title} that the ranks keep, added up"
        seen = f"{amount(sum(by_rank))} (by rank: {told_sizes(by_rank)})"
        what = f"it is {count} times the parameters"
        run.expect(sum(by_rank) <= most, subject, f"at most {amount(most)}: {what}", seen)
        wanted = f"at least {amount(fewest)}: {what}, and the ranks themselves must keep it"
        run.expect(sum(most_by_rank) >= fewest, subject, wanted, seen)
        if title in probe.SMALL_TITLES:
            expect_small_once(probe, run, title, count)
        expect_sampled(runs, probe, run, title)


def expect_small_once(probe, run, title, count):
    """Small parameters are sharded, too. By half more is for counts of the step, of which each slice may have one."""
    size = 4 * sum(map(sum, probe.SMALL))
    by_rank = [small(rank, title)["bytes"] - small(rank, PLAIN)["bytes"] for rank in run]
    subject = f"the tensors in the state of {title} for small parameters that the ranks keep, added up"
    seen = f"{sum(by_rank)} bytes (by rank: {by_rank})"
    wanted = f"about {count * size} bytes: {count} times the parameters"
    run.expect(sum(by_rank) <= 1.5 * count * size, subject, wanted, seen)


def test_balanced(runs, probe):
    """The fullest rank keeps at most 1.2 times the mean"""
    for run, title, by_rank, _ in states(runs, probe):
        average, fullest = sum(by_rank) / len(by_rank), max(by_rank)
        run[by_rank.index(fullest)].expect(
            fullest <= MEMORY_BALANCE * average,
            f"the state of {title} on the fullest rank",
            f"at most {MEMORY_BALANCE} times the mean, which is {amount(average)}",
            f"{amount(fullest)} (by rank: {told_sizes(by_rank)})",
        )


def told_sizes(by_rank):
    return ", ".join(map(amount, by_rank))
