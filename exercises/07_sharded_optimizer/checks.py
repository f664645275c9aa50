"""Judges the recorded runs of `ShardedOptimizer`.

The optimizers, which grader.checks.replay has written out, are replayed from the seed: the values after every step are
compared, on every rank. Memory is judged by what each process kept alive, on whatever instrument shows most.
"""

import torch
from torch.optim.lr_scheduler import OneCycleLR

from grader.checks import Attempt, Tensor, Tensors, TypedDict, amount, holds, listed, memory, parts, replay
from grader.checks.tolerance import MEMORY_BALANCE, MEMORY_SLACK

History = list[Tensors]
"""The parameters after each step."""
TRAINED = "a model under AdamW"
CLEARED, ONE, TWO = "uncleared", "one parameter", "two parameters"
BY_HAND, BY_LAMBDA = "options written into param_groups", "a LambdaLR with two groups"
BY_STEP, BY_STEP_LATER = "a StepLR with Adam's own learning rate", "a StepLR from the third step on"
OF_ADAM, AFTER = "options of Adam written into param_groups", "an optimizer after another"
BY_ONE_CYCLE = "a OneCycleLR"
SMALL, UNTRAINED = "small: bytes of tensors", "with a group that has no gradient yet"
DONE = {
    "model_under_adamw": "training a model on one rank",
    "kinds": "training with each optimizer on one rank",
    "several_groups": "groups on one rank",
    "changing_options": "options that change, on one rank",
    "now_and_then": "steps without some gradients, on one rank",
    "added_groups": "add_param_group on one rank",
    "clearing": "zero_grad on one rank",
    "closures": "steps with a closure, on one rank",
    "saving": "saving and loading on one rank",
    "few_loaded": "saving and loading few parameters on one rank",
    "saving_added": "saving and loading with add_param_group on one rank",
}
"""The parts of the probe, in words."""
MEANWHILE = "What is frozen may have changed since saving. What in your state_dict, or of who owns what, hangs on it?"
TWICE = "Which tensors are there twice once a state_dict is loaded, and who still refers to the old or the loaded ones?"
Uncleared = TypedDict("Uncleared", {"before the first step": list[str], "after a step": list[str]})


# Replaying


def replayed(probe, run, kind, steps, options, names=None, gradient=None, initial=None):
    """The parameters before the first step and after each. `options(step, name)` is what the optimizer of this kind is
    called with; `gradient(step, name, values)` is None where there is none."""
    gradient = gradient or (lambda step, name, values: probe.gradient(run.seed, step, name))
    initial = initial or probe.initial
    start = {name: initial(run.seed, name) for name in names or probe.SHAPES}
    return replay.history(kind, start, steps, gradient, options)


def expect_history(run, name, wanted):
    """What every rank recorded under this name: the values after each step. `wanted` begins with those before them."""
    for rank in run:
        history = rank.read(name, History)
        rank.expect_equal(len(history), len(wanted) - 1, f"{name}: the number of steps")
        for number, (seen, values, before) in enumerate(zip(history, wanted[1:], wanted, strict=False), start=1):
            subject = f"{name}: after step {number}, the parameter"
            rank.expect_close(seen, values, subject, steps=4, stale=before, budget=3)


def optimizers(case):
    """(title, kind, options) of the optimizers that were tried."""
    return [(title, kind, options) for title, (kind, options) in case["optimizers"].items()]


def judged(runs, probe, family, part, recorded, after=()):
    """(run, the parameters) of each run in which a part of a family is judged: on one rank whatever several ranks do,
    and on several unless `same_as_unsharded` tells that these go wrong. What kept a run from coming as far as `after`
    is told by the check of what came before."""
    (alone,) = runs("alone", recorded=[f"{part} alone"])
    if not alone.came_to(recorded):
        parts.expect_done(alone[0], part, DONE[part])
    yield alone, alone.parameters[family]
    if holds(test_same_as_unsharded, runs, probe):
        for run in runs(family, finished=False):
            if run.came_to(after):
                if not run.came_to(recorded):
                    run.require_finished()
                yield run, run.parameters


def fixed(options):
    """The same options for every parameter in every step."""
    return lambda step, name: options


def members(group):
    return [group["names"]] if isinstance(group["names"], str) else group["names"]


def by_group(groups, defaults):
    """The options that each parameter has, the same in every step: its group's own before the optimizer's."""
    table = {}
    for group in groups:
        own = {name: value for name, value in group.items() if name not in ("names", "lazy")}
        table |= {name: {**defaults, **own} for name in members(group)}
    return lambda step, name: table[name]


def shown(groups, defaults):
    """`param_groups` as Training.visible() of the probe writes them down."""
    return [
        {"options": {name: group.get(name, value) for name, value in defaults.items()}, "parameters": members(group)}
        for group in groups
    ]


# The basic path


def test_is_optimizer(runs):
    """It is a torch.optim.Optimizer, as schedulers and trainers ask"""
    for run in runs("alone", recorded=["model_under_adamw alone"]):
        if "is_optimizer" not in run[0]:
            parts.expect_done(run[0], "model_under_adamw", DONE["model_under_adamw"])
        seen = run[0].read("is_optimizer", bool)
        run[0].expect(seen, "the object", "an instance of torch.optim.Optimizer", "not one")


def test_trains(runs, probe):
    """On one rank it trains as AdamW does"""
    for run in runs("alone", recorded=["model_under_adamw alone"]):
        parts.expect_done(run[0], "model_under_adamw", DONE["model_under_adamw"])
        expect_trained(probe, run, run.parameters["train"])


def expect_trained(probe, run, case):
    def gradient(step, name, values):
        return replay.gradient(lambda tensors: probe.loss_of(tensors, run.seed, step), values, [name])[name]

    options, steps = fixed(case["options"]), range(case["steps"])
    wanted = replayed(probe, run, "AdamW", steps, options, probe.MODEL, gradient, probe.model_initial)
    expect_history(run, TRAINED, wanted)
    for rank in run:
        rank.expect(rank.read("tied", bool), "the parameter with two names", "one value", "two values")


def test_same_as_unsharded(runs, probe):
    """On two and three ranks every step equals the unsharded one, on every rank"""
    for run in runs("train", recorded=[TRAINED, "tied"]):
        expect_trained(probe, run, run.parameters)
        size = sum(probe.model_initial(run.seed, name).nbytes for name in probe.MODEL)
        run.expect_moved(run.parameters["steps"] * (run.world_size - 1) * size)  # each new value to all who lack it


def test_replicas_identical(runs):
    """The parameters are bit-identical on all ranks after every step"""
    for run in runs("train"):
        histories = {rank.rank: rank.read(TRAINED, History) for rank in run}
        for rank in run:
            rank.expect_equal(len(histories[rank.rank]), run.parameters["steps"], "the number of steps")
        for number in range(run.parameters["steps"]):
            by_rank = {rank: history[number] for rank, history in histories.items()}
            run.expect_identical(by_rank, f"the parameters after step {number + 1}:")


# Options, groups, gradients


def test_optimizers(runs, probe):
    """All options of SGD, Adam, AdamW, RMSprop and Adagrad have their effect, and so have their defaults"""
    (alone,) = runs("alone", finished=False)
    every = [*(title for title, *_ in optimizers(alone.parameters["optimizers"])), AFTER]
    for run, case in judged(runs, probe, "optimizers", "kinds", every):
        for title, kind, options in optimizers(case):
            steps = [*range(case["steps"])]
            if not options.get("nesterov"):
                steps.append(case["steps"] - 1)  # with the gradients that were there (see `Training.again`)
            last = replayed(probe, run, kind, steps, fixed(options))
            expect_history(run, title, last)
        expect_successor(run, probe, case, last[-1])


def expect_successor(run, probe, case, start):
    """Another optimizer that begins with these values, over the same parameters."""
    kind, options = case["then"]

    def given(step, name, values):
        return probe.gradient(run.seed, step, name)

    expect_history(run, AFTER, replay.history(kind, start, range(case["steps"]), given, fixed(options)))


def test_groups(runs, probe):
    """Every group is visible with its own options and is trained with them"""
    for run, case in judged(runs, probe, "options", "several_groups", ["visible", "several groups"]):
        groups, defaults = case["groups"], case["options"]
        wanted = replayed(probe, run, "AdamW", range(case["steps"]), by_group(groups, defaults))
        for rank in run:
            rank.expect_equal(rank["visible"], shown(groups, defaults), "param_groups")
        expect_history(run, "several groups", wanted)


def test_schedulers(runs, probe):
    """Learning rates and other options that change take effect at once"""
    every = [BY_HAND, BY_LAMBDA, BY_STEP, BY_STEP_LATER, OF_ADAM, BY_ONE_CYCLE]
    for run, case in judged(runs, probe, "options", "changing_options", every, after=["several groups"]):
        sgd = case["sgd"]
        for name, kind, steps, options in (
            (BY_HAND, "SGD", len(probe.BY_HAND), by_hand(probe.BY_HAND, sgd)),
            (BY_LAMBDA, "SGD", len(probe.FACTORS[0]), by_lambda(probe, case)),
            (BY_STEP, "Adam", 5, lambda step, name: {"lr": 1e-3 * 0.1 ** (step // 2)}),
            (BY_STEP_LATER, "SGD", 5, lambda step, name, sgd=sgd: {**sgd, "lr": sgd["lr"] * 0.5 ** max(step - 2, 0)}),
            (OF_ADAM, "Adam", len(probe.OF_ADAM), by_hand(probe.OF_ADAM, {})),
            (BY_ONE_CYCLE, "SGD", probe.ONE_CYCLE["total_steps"], by_one_cycle(probe, sgd)),
        ):
            expect_history(run, name, replayed(probe, run, kind, range(steps), options))


def by_hand(changes, first):
    """What is written stays until it is overwritten."""
    written = [dict(first)]
    for change in changes:
        written.append({**written[-1], **change})
    return lambda step, name: written[step + 1]


def by_lambda(probe, case):
    groups = case["two groups"]
    options = by_group(groups, case["sgd"])
    rows = {name: row for group, row in zip(groups, probe.FACTORS, strict=True) for name in members(group)}
    return lambda step, name: {**options(step, name), "lr": options(step, name)["lr"] * rows[name][step]}


def by_one_cycle(probe, sgd):
    """What the scheduler makes of torch's own optimizer."""
    optimizer, rows = torch.optim.SGD([torch.zeros(1)], **sgd), []
    scheduler = OneCycleLR(optimizer, **probe.ONE_CYCLE)
    for _ in range(probe.ONE_CYCLE["total_steps"]):
        rows.append({**sgd, **{name: optimizer.param_groups[0][name] for name in ("lr", "momentum")}})
        optimizer.step()
        if len(rows) < probe.ONE_CYCLE["total_steps"]:
            scheduler.step()
    return lambda step, name: rows[step]


def test_gradless(runs, probe):
    """Without a gradient a parameter is left alone; frozen ones are trained once they have one"""
    (alone,) = runs("alone", finished=False)
    every = [f"gradients now and then, {title}" for title, *_ in optimizers(alone.parameters["gradless"])]
    for run, case in judged(runs, probe, "gradless", "now_and_then", every):
        present = case["present"]

        def given(step, name, values, run=run, present=present):
            return probe.gradient_that(present[name][step], run.seed, step, name)

        for title, kind, options in optimizers(case):
            wanted = replayed(probe, run, kind, range(len(present["head"])), fixed(options), gradient=given)
            expect_history(run, f"gradients now and then, {title}", wanted)


def some_gradients(probe, run, there):
    """The gradients of the probe where `there(step, name)`, else None."""
    return lambda step, name, values: probe.gradient(run.seed, step, name) if there(step, name) else None


def test_few_parameters(runs, probe):
    """Fewer parameters than ranks"""
    for run in runs("calls", recorded=(ONE, TWO), after=[CLEARED]):
        options, steps = fixed(run.parameters["adamw"]), range(run.parameters["steps"])
        for title, names in run.parameters["sets"].items():
            expect_history(run, title, replayed(probe, run, "AdamW", steps, options, names))


def test_late_groups(runs, probe):
    """Groups that are added later are visible, trained and cleared like the first"""
    (alone,) = runs("alone", finished=False)
    every = [f"{title}: uncleared" for title, *_ in optimizers(alone.parameters["late"])]
    changes = holds(test_schedulers, runs, probe)
    for run, case in judged(runs, probe, "late", "added_groups", every):
        for title, kind, options in optimizers(case):
            expect_late(probe, run, case, title, kind, options, changes)


def expect_late(probe, run, case, title, kind, defaults, changes):
    """`changes`: whether options that are written into the first groups take effect."""
    groups = case["groups"]
    added = {name: 2 * max(number - 1, 0) for number, group in enumerate(groups) for name in members(group)}
    own, late, last = (
        by_group(groups, defaults),
        {name for one in groups[1:] for name in members(one)},
        max(added.values()) + 2,
    )
    given, steps = some_gradients(probe, run, lambda step, name: step >= added[name]), range(last + 1)

    def options(step, name):
        return {**own(step, name), **(case["changed"] if step == last and name in late else {})}

    wanted = replayed(probe, run, kind, steps, options, gradient=given)
    for rank in run:
        visible = shown(groups, {"lr": 1e-3, **defaults})
        rank.expect_equal(rank[f"{title}: visible"], visible, "param_groups after adding")
    expect_history(run, f"groups added, {title}", wanted[:-1])
    if changes:
        expect_history(run, f"groups added and changed, {title}", wanted[-2:])
    for rank in run:
        expect_cleared(rank, rank.read(f"{title}: uncleared", list[str]), "after groups were added")


# Calls


def test_zero_grad(runs):
    """zero_grad clears every gradient on every rank"""
    (alone,) = runs("alone", recorded=["clearing alone"])
    if CLEARED not in alone[0]:
        parts.expect_done(alone[0], "clearing", DONE["clearing"])
    for run in (alone, *runs("calls", recorded=[CLEARED])):
        for rank in run:
            for when, names in rank.read(CLEARED, Uncleared).items():
                expect_cleared(rank, names, when)


def expect_cleared(rank, names, when):
    seen = f"still there for {listed(names, 6)}"
    rank.expect(not names, f"gradients after zero_grad, {when}", "None or zeros everywhere", seen)


def test_closures(runs, probe):
    """A closure is called once, with gradients enabled, and step returns its loss"""

    def slope(step, name, values):
        """The gradient of probe.objective."""
        return probe.gradient(run.seed, step, name) * (1 + values[name])

    for run, case in judged(runs, probe, "calls", "closures", ["nothing"], after=[TWO]):
        steps, options = range(case["steps"]), fixed(case["options"])
        wanted = replayed(probe, run, "SGD", steps, options, case["names"], slope)
        losses = [float(probe.objective(run.seed, wanted[step], step)) for step in steps]
        for rank in run:
            expect_calls(rank, len(steps))
        expect_history(run, "steps with a closure", wanted)
        for rank in run:
            expect_losses(rank, [*(loss + rank.rank for loss in losses), 0.0])  # the last closure's is zero


def expect_calls(rank, steps):
    calls = rank.read("calls", list[list[bool]])
    rank.expect_equal([len(call) for call in calls], [1] * steps, "how often each step called the closure")
    rank.expect(all(all(call) for call in calls), "gradients inside the closure", "enabled", "disabled")


def expect_losses(rank, losses):
    returned, subject = rank.read("returned", list[float | None]), "what step(closure) returned"
    rank.expect(None not in returned, subject, "the closure's loss", "None")
    rank.expect_close(returned, losses, subject, steps=4)
    nothing = rank.read("nothing", str)
    rank.expect(nothing == "NoneType", "what step() returned", "None", f"a {nothing}")


# Saving and loading


def test_round_trip(runs, probe):
    """Training goes on from a loaded state_dict as if it had never stopped"""
    (alone,) = runs("alone", finished=False)
    every = [f"{title}, gone back to what was saved" for title, *_ in optimizers(alone.parameters["resume"])]
    for run, case in judged(runs, probe, "resume", "saving", every):
        for title, kind, options in optimizers(case):
            expect_resumed(probe, run, case, title, kind, options)
    if all(holds(check, runs, probe) for check in (test_late_groups, test_gradless)):
        expect_added(runs, probe)
    if holds(test_few_parameters, runs, probe):
        expect_few_loaded(runs, probe)
    for run in runs("memory", finished=False):
        for rank in run:
            for title, _, _ in optimizers(run.parameters):
                expect_no_more(probe, run, rank, title)


def expect_resumed(probe, run, case, title, kind, defaults):
    own, half = by_group(case["groups"], defaults), case["half"]

    def options(step, name):
        """Half of each learning rate from step 1 on, and half of that and more weight decay from where it is saved."""
        lr, decay = own(step, name)["lr"], own(step, name)["weight_decay"]
        if step < half:
            return {**own(step, name), "lr": lr / (1 if step < 1 else 2)}
        return {**own(step, name), "lr": lr / 4, "weight_decay": decay + 0.1}

    wanted = replayed(probe, run, kind, range(case["steps"]), options)
    expect_history(run, f"{title}, saved and loaded before the first step", wanted[: half + 1])
    expect_history(run, f"{title}, saved in the middle", wanted)
    expect_history(run, f"{title}, loaded into a new optimizer", wanted[half:])
    expect_history(run, f"{title}, gone back to what was saved", wanted[half:])


def expect_added(runs, probe):
    """Saving and loading, with a group that is added in between."""
    (alone,) = runs("alone", finished=False)
    expect_loaded_unfrozen(alone, alone.parameters["resume"])
    if holds(test_same_as_unsharded, runs, probe):
        for run in runs("resume", finished=False):
            expect_loaded_unfrozen(run, run.parameters)
    every = [f"{title}, loaded: uncleared" for title, *_ in optimizers(alone.parameters["resume"])]
    for run, case in judged(runs, probe, "resume", "saving_added", every):
        for title, kind, options in optimizers(case):
            expect_went_on(probe, run, case, title, kind, options)


def expect_loaded_unfrozen(run, case):
    """Loading raised nothing where other parameters are frozen than were when the state was saved. Of a run that ended
    there, the ranks that its end came from are asked."""
    subject = f"load_state_dict of an optimizer whose parameters are all trained, where {case['later']!r} was frozen"
    for number in run.run.diagnosis.ranks if run.run.diagnosis else range(run.world_size):
        for title, *_ in optimizers(case):
            if (name := f"{title}: loaded") in run[number]:
                run[number].expect_success(run[number].read(name, Attempt), f"{subject} at saving", hint=MEANWHILE)


def expect_went_on(probe, run, case, title, kind, defaults):
    """The second group is there from the second step on; in the last step the learning rates are half of what they
    were."""
    own, first = by_group(case["groups"], defaults), {*members(case["groups"][0])} - {case["later"]}
    given = some_gradients(probe, run, lambda step, name: step or name in first)

    def options(step, name):
        return {**own(step, name), "lr": own(step, name)["lr"] / (2 if step == 4 else 1)}

    wanted = replayed(probe, run, kind, range(5), options, gradient=given)
    expect_history(run, f"{title}, saved with a group that was added", wanted)
    for rank in run:
        expect_cleared(rank, rank.read(f"{title}, loaded: uncleared", list[str]), "after loading")


def expect_few_loaded(runs, probe):
    every = [f"{title}, saved and loaded" for title in (ONE, TWO)]
    for run, case in judged(runs, probe, "calls", "few_loaded", every, after=["nothing"]):
        for title, names in case["sets"].items():
            wanted = replayed(probe, run, "AdamW", range(2), fixed(case["adamw"]), names)
            expect_history(run, f"{title}, saved and loaded", wanted)


def expect_no_more(probe, run, rank, title):
    """Loading its own state leaves a rank with as much as it had. Where it could not be loaded, the runs of "resume"
    say so."""
    if f"{title}: after loading" not in rank:
        return
    earlier = "after adding" if f"{title}: after adding" in rank else "after steps"
    before, after = kept(rank, title, earlier), kept(rank, title, "after loading")
    most = before + MEMORY_SLACK * parameter_bytes(probe, run, "after steps")
    subject = f"what the rank keeps after loading, {title}"
    rank.expect(after <= most, subject, f"{amount(before)}, as before", amount(after), hint=TWICE)
    if title != "Adagrad" or f"{title}: {UNTRAINED}" in rank:
        rank.expect_success(rank.read(f"{title}: a step after loading", Attempt), f"a step after loading, {title}")
        expect_sampled(probe, run, rank, title, "after loading")


# Memory


def kept(rank, title, when):
    """Bytes that a process has more than before the optimizer was built."""
    return memory.kept(rank, title, when)


def parameter_bytes(probe, run, when):
    """Bytes of all parameters that the optimizer has by then; they are float32."""
    *first, last = probe.layout(run.world_size)
    groups = [*first, last] if when == "after adding" else first
    return 4 * probe.UNIT * sum(size for group in groups for size in group)


def measurements(runs, probe):
    """(run, optimizer, moment, bytes by rank) for all that was measured on every rank. Where several ranks go wrong
    anyhow, that they did not come so far is told by `same_as_unsharded`."""
    measured = ["Adagrad: after steps", "Adam: after steps"]
    right = holds(test_same_as_unsharded, runs, probe)
    for run in runs("memory", recorded=measured) if right else runs("memory", finished=False, after=measured):
        for title, _, _ in optimizers(run.parameters):
            for when in ("after steps", "after adding"):
                if all(f"{title}: {when}" in rank for rank in run):
                    yield run, title, when, [kept(rank, title, when) for rank in run]


def test_state_sharded(runs, probe):
    """All ranks together keep the state once"""
    for run, title, when, by_rank in measurements(runs, probe):
        # At least the state itself, at most that and one copy of the parameters, summed over the ranks.
        states, size = run.parameters["states"][title], parameter_bytes(probe, run, when)
        total, subject = sum(by_rank), f"what the ranks keep {when}, added up"
        seen, what = f"{amount(total)} (by rank: {sizes(by_rank)})", f"of {title} are {states} times the parameters"
        most, least = (states + 1 + MEMORY_SLACK * run.world_size) * size, (states - MEMORY_SLACK) * size
        wanted = f"at most {amount(most)}: all states {what}, and one copy of the parameters is allowed"
        run.expect(total <= most, subject, wanted, seen)
        wanted = f"at least {amount(least)}: all states {what}, and the ranks themselves must keep them"
        run.expect(total >= least, subject, wanted, seen)
        if when == "after steps" and all(f"{title}: {UNTRAINED}" in rank for rank in run):
            expect_added_once(run, title, states, parameter_bytes(probe, run, "after adding") - size)
        for rank in run:
            expect_sampled(probe, run, rank, title, when)


def expect_sampled(probe, run, rank, title, when):
    """What was measured has also been trained: some elements of each parameter, by what was recorded of them."""
    kind, options = run.parameters["optimizers"][title]
    *first, last = probe.layout(run.world_size)
    sizes = [[probe.UNIT * size for group in groups for size in group] for groups in (first, [last])]
    late = title == "Adagrad"  # then the last group is added after loading, and has no gradient
    steps = [0, 1, 3] if late else [0, 1, 2, 3]
    begins = {"first": 0, "added": 4 if late else 2}
    wanted = sampled(probe, run, rank, title, sizes, begins, steps, kind, options)
    state = wanted[{"after steps": 2, "after adding": 3, "after loading": -1}[when]]
    names = ["first"] if when == "after steps" else begins
    expect_values(rank, f"{title}: values {when}", torch.cat([state[name] for name in names]))


def sampled(probe, run, rank, title, sizes, begins, steps, kind, options):
    """The values that a rank is asked for (see `sample` of the probe), before the first step and after each. `sizes`
    are those of the parameters, in parts; `begins` says from which step on each part, by name, has gradients."""
    every = [size for part in sizes for size in part]
    places = probe.samples.places(rank.secret, title, every)
    counts = [len(part) * probe.samples.PLACES for part in sizes]

    def picked(*place):
        parts = probe.samples.drawn(every, run.seed, title, *place)
        values = torch.cat([part[where] for part, where in zip(parts, places, strict=True)])
        return dict(zip(begins, values.split(counts), strict=True))

    gradients = {step: picked("gradient", step) for step in steps}

    def given(step, name, values):
        return gradients[step][name] if step >= begins[name] else None

    return replay.history(kind, picked("initial"), steps, given, fixed(options))


def expect_values(rank, name, wanted):
    rank.expect_close(
        rank.read(name, Tensor), wanted, f"where memory is measured, {name}, some elements of them", steps=8
    )


def expect_added_once(run, title, states, added):
    """What a group makes that is added and has no gradient yet is kept once, too. That there is nothing yet is fine."""
    grown = [kept(rank, title, UNTRAINED) - kept(rank, title, earlier(rank, title)) for rank in run]
    most = (states + 1 + MEMORY_SLACK * run.world_size) * added
    run.expect(
        sum(grown) <= most,
        f"what the ranks keep more of {title} {UNTRAINED}, added up",
        f"at most {amount(most)}: all its states are {states} times its parameters, and one copy of these is allowed",
        f"{amount(sum(grown))} (by rank: {sizes(grown)})",
    )


def earlier(rank, title):
    """The last look before that group was added."""
    return "after loading" if f"{title}: after loading" in rank else "after steps"


def test_balanced(runs, probe):
    """The fullest rank keeps at most 1.2 times the mean"""
    for run, title, when, by_rank in measurements(runs, probe):
        mean, fullest = sum(by_rank) / len(by_rank), max(by_rank)
        run[by_rank.index(fullest)].expect(
            fullest <= MEMORY_BALANCE * mean,
            f"what the fullest rank keeps {when}, {title}",
            f"at most {MEMORY_BALANCE} times the mean, which is {amount(mean)}",
            f"{amount(fullest)} (by rank: {sizes(by_rank)})",
        )
    for run in runs("memory", finished=False):
        if run.came_to([SMALL]):
            expect_small_balanced(run)
            for rank in run:
                expect_small_trained(probe, run, rank)


def expect_small_trained(probe, run, rank):
    """One group more in each step."""
    begins = {f"group {number}": number for number in range(len(probe.SMALL))}
    options = {"lr": 0.01, "momentum": 0.9}
    wanted = sampled(probe, run, rank, "small", probe.SMALL, begins, range(len(probe.SMALL)), "SGD", options)
    expect_values(rank, "small: values", torch.cat([*wanted[-1].values()]))


def expect_small_balanced(run):
    by_rank = [rank.read(SMALL, int) for rank in run]
    mean, fullest = sum(by_rank) / len(by_rank), max(by_rank)
    run[by_rank.index(fullest)].expect(
        fullest <= MEMORY_BALANCE * mean,
        "the tensors that the fullest rank keeps of many small parameters, some of them added after loading",
        f"at most {MEMORY_BALANCE} times the mean of {mean:.0f} bytes",
        f"{fullest} bytes (by rank: {by_rank})",
    )


def sizes(by_rank):
    return ", ".join(map(amount, by_rank))
