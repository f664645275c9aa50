"""Judges the recorded runs of `ShardedOptimizer`.

The optimizers are written out below, from their papers and the PyTorch pages, and replayed from the seed: the values
after every step are compared, on every rank. Memory is judged by what each process kept alive, on whatever instrument
shows most.
"""

import torch

TERMS = 64
"""Room for the rounding of a few steps."""
SLACK = 0.1
"""What a rank may keep besides, as a fraction of all parameters' bytes: step counts, dictionaries, and the up to 4 KiB
by which malloc rounds up each tensor."""
BALANCE = 1.2


# The optimizers, for one parameter. `memory` is a dict that belongs to the parameter.


def sgd(p, g, memory, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        memory["b"] = momentum * memory["b"] + (1 - dampening) * g if "b" in memory else g
        g = g + momentum * memory["b"] if nesterov else memory["b"]
    return p - lr * g


def adam(p, g, memory, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False):
    return adam_step(p, g + weight_decay * p, memory, lr, betas, eps, amsgrad)


def adamw(p, g, memory, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
    return adam_step(p * (1 - lr * weight_decay), g, memory, lr, betas, eps, False)


def adam_step(p, g, memory, lr, betas, eps, amsgrad):
    t = memory["t"] = memory.get("t", 0) + 1
    m = memory["m"] = betas[0] * memory.get("m", 0) + (1 - betas[0]) * g
    v = memory["v"] = betas[1] * memory.get("v", 0) + (1 - betas[1]) * g * g
    if amsgrad:
        v = memory["v_max"] = torch.maximum(v, memory.get("v_max", v))
    return p - lr * (m / (1 - betas[0] ** t)) / ((v / (1 - betas[1] ** t)).sqrt() + eps)


def rmsprop(p, g, memory, lr=1e-2, alpha=0.99, eps=1e-8, momentum=0.0, centered=False):
    v = memory["v"] = alpha * memory.get("v", 0) + (1 - alpha) * g * g
    if centered:
        mean = memory["mean"] = alpha * memory.get("mean", 0) + (1 - alpha) * g
        v = v - mean * mean
    b = memory["b"] = momentum * memory.get("b", 0) + g / (v.sqrt() + eps)
    return p - lr * b


def adagrad(p, g, memory, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10):
    t = memory["t"] = memory.get("t", 0) + 1
    g = g + weight_decay * p
    total = memory["sum"] = memory.get("sum", initial_accumulator_value) + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (total.sqrt() + eps)


RULES = {"SGD": sgd, "Adam": adam, "AdamW": adamw, "RMSprop": rmsprop, "Adagrad": adagrad}


# Replaying


def replay(probe, run, rule, names, steps, options, gradient=None):
    """The parameters after each step: a list of dicts by name.

    `options(step, name)` is what the rule is called with. `gradient(values, step, name)` is None where there is none.
    """
    gradient = gradient or (lambda values, step, name: probe.gradient(run.seed, step, name))
    values, memory = {name: probe.initial(run.seed, name) for name in names}, {name: {} for name in names}
    history = []
    for step in steps:
        given = {name: gradient(values, step, name) for name in names}
        values = {
            name: p if given[name] is None else rule(p, given[name], memory[name], **options(step, name))
            for name, p in values.items()
        }
        history.append(values)
    return history


def expect_history(run, rank, actual, wanted, title, start=None):
    """The values after every step. `start` holds those before the first."""
    before = start
    run.expect_equal(len(actual), len(wanted), f"{title}: the number of steps", ranks=[rank.rank])
    for number, (seen, values) in enumerate(zip(actual, wanted, strict=True)):
        subject = f"{title}: after step {number + 1}, the parameter"
        run.expect_close(seen, values, subject, ranks=[rank.rank], terms=TERMS, stale=before, budget=3)
        before = values


def starts(probe, run, names):
    return {name: probe.initial(run.seed, name) for name in names}


def options_by_name(groups, defaults):
    """The options that each parameter has: its group's own before the optimizer's."""
    table = {}
    for group in groups:
        own = {name: value for name, value in group.items() if name not in ("names", "lazy")}
        table |= {name: {**defaults, **own} for name in members(group)}
    return table


def members(group):
    return [group["names"]] if isinstance(group["names"], str) else group["names"]


def require(run, *names):
    """Fail with the run's diagnosis unless every rank came as far as these observations; what it did later is another
    check's business."""
    if not all(name in rank for rank in run for name in names):
        run.require_finished()


# The basic path


def test_trains(runs, probe):
    """On one rank it is a drop-in for AdamW"""
    run = runs("train")[0]
    seen, wanted = run[0]["is_optimizer"], "an instance of torch.optim.Optimizer"
    run.expect(seen, "the object", expected=wanted, actual="not one", ranks=[0])
    expect_trained(probe, run)


def expect_trained(probe, run):
    names = ["embedding", "weight", "bias"]
    options, steps = run.parameters["options"], range(run.parameters["steps"])
    wanted = replay(probe, run, adamw, names, steps, lambda step, name: options, model_gradient(probe, run))
    for rank in run:
        start = starts(probe, run, names)
        expect_history(run, rank, rank["history"], wanted, "a model under AdamW", start)
        subject, together = "the parameter with two names", rank["tied"]
        run.expect(together, subject, expected="one value", actual="two values", ranks=[rank.rank])


def model_gradient(probe, run):
    def gradient(values, step, name):
        leaves = {key: value.clone().requires_grad_() for key, value in values.items()}
        return torch.autograd.grad(probe.loss_of(leaves, run.seed, step), leaves[name])[0]

    return gradient


def test_same_as_unsharded(runs, probe):
    """On two and three ranks every step equals the unsharded one, on every rank"""
    for run in runs("train")[1:]:
        expect_trained(probe, run)


def test_replicas_identical(runs):
    """The parameters are bit-identical on all ranks after every step"""
    for run in runs("train")[1:]:
        for number in range(run.parameters["steps"]):
            values = {rank.rank: rank["history"][number] for rank in run}
            run.expect_identical(values, f"the parameters after step {number + 1}:")


# Options, groups, gradients


def test_optimizers(runs, probe):
    """SGD, Adam, AdamW, RMSprop and Adagrad train as they do unsharded, with all their options"""
    for run in runs("optimizers"):
        for title, (name, options) in run.parameters["optimizers"].items():
            expect_optimizer(probe, run, title, RULES[name], options)


def expect_optimizer(probe, run, title, rule, options):
    steps = range(run.parameters["steps"])
    wanted = replay(probe, run, rule, probe.SHAPES, steps, lambda step, name: options)
    for rank in run:
        expect_history(run, rank, rank[title], wanted, title, starts(probe, run, probe.SHAPES))


def test_groups(runs, probe):
    """Every group is visible with its own options and is trained with them"""
    for run in runs("options", finished=False):
        require(run, "visible", "history")
        groups, defaults = run.parameters["groups"], run.parameters["options"]
        table, steps = options_by_name(groups, defaults), range(run.parameters["steps"])
        wanted = replay(probe, run, adamw, probe.SHAPES, steps, lambda step, name, table=table: table[name])
        for rank in run:
            run.expect_equal(rank["visible"], shown(groups, defaults), "param_groups", ranks=[rank.rank])
            expect_history(run, rank, rank["history"], wanted, "several groups", starts(probe, run, probe.SHAPES))


def shown(groups, defaults):
    """`param_groups` as probe.visible() writes them down."""
    return [
        {"options": {name: group.get(name, value) for name, value in defaults.items()}, "parameters": members(group)}
        for group in groups
    ]


def test_schedulers(runs, probe):
    """Learning rates and other options that change take effect at once"""
    for run in runs("options"):
        expect_schedule(probe, run, "by hand", "options written into param_groups", sgd, by_hand(probe, run))
        expect_schedule(probe, run, "LambdaLR", "a LambdaLR with two groups", sgd, by_lambda(probe, run))
        subject = "a StepLR with Adam's own learning rate"
        expect_schedule(probe, run, "StepLR", subject, adam, lambda step, name: {"lr": 1e-3 * 0.1 ** (step // 2)})


def expect_schedule(probe, run, key, title, rule, options):
    wanted = replay(probe, run, rule, probe.SHAPES, range(len(run[0][key])), options)
    for rank in run:
        expect_history(run, rank, rank[key], wanted, title, starts(probe, run, probe.SHAPES))


def by_hand(probe, run):
    """What is written stays until it is overwritten."""

    def options(step, name):
        changed = dict(run.parameters["sgd"])
        for change in probe.BY_HAND[: step + 1]:
            changed |= change
        return changed

    return options


def by_lambda(probe, run):
    groups = run.parameters["two groups"]
    table = options_by_name(groups, run.parameters["sgd"])
    rows = {name: row for group, row in zip(groups, probe.FACTORS, strict=True) for name in members(group)}
    return lambda step, name: {**table[name], "lr": table[name]["lr"] * rows[name][step]}


def test_gradless(runs, probe):
    """Without a gradient a parameter is left alone; frozen ones are trained once they have one"""
    for run in runs("gradless"):
        for title, (name, options) in run.parameters["optimizers"].items():
            expect_gradless(probe, run, title, RULES[name], options)


def expect_gradless(probe, run, title, rule, options):
    present = run.parameters["present"]

    def gradient(values, step, name):
        return probe.gradient(run.seed, step, name) if present[name][step] else None

    steps = range(len(present["head"]))
    wanted = replay(probe, run, rule, probe.SHAPES, steps, lambda step, name: options, gradient)
    start = starts(probe, run, probe.SHAPES)
    for rank in run:
        expect_history(run, rank, rank[title], wanted, f"gradients now and then, {title}", start)


def test_few_parameters(runs, probe):
    """Fewer parameters than ranks"""
    for run in runs("calls", finished=False):
        require(run, *run.parameters["sets"])
        options, steps = run.parameters["adamw"], range(run.parameters["steps"])
        for title, names in run.parameters["sets"].items():
            wanted = replay(probe, run, adamw, names, steps, lambda step, name, options=options: options)
            for rank in run:
                expect_history(run, rank, rank[title], wanted, title, starts(probe, run, names))


def test_late_groups(runs, probe):
    """Groups that are added later are visible, trained and cleared like the first"""
    for run in runs("late"):
        for title, (name, options) in run.parameters["optimizers"].items():
            expect_late(probe, run, title, RULES[name], options)


def expect_late(probe, run, title, rule, defaults):
    groups = run.parameters["groups"]
    added = {name: 2 * max(number - 1, 0) for number, group in enumerate(groups) for name in members(group)}

    def gradient(values, step, name):
        return probe.gradient(run.seed, step, name) if step >= added[name] else None

    table, steps = options_by_name(groups, defaults), range(2 * (len(groups) - 1))
    wanted = replay(probe, run, rule, added, steps, lambda step, name: table[name], gradient)
    for rank in run:
        seen, ranks = rank[title], [rank.rank]
        visible = shown(groups, {"lr": 1e-3, **defaults})
        run.expect_equal(seen["visible"], visible, "param_groups after adding", ranks=ranks)
        expect_history(run, rank, seen["history"], wanted, f"groups added, {title}", starts(probe, run, added))
        expect_cleared(run, rank, seen["cleared"], "after groups were added")


# Calls


def test_zero_grad(runs):
    """zero_grad clears every gradient on every rank"""
    for run in runs("calls", finished=False):
        require(run, "left")
        for rank in run:
            for when, left in rank["left"].items():
                expect_cleared(run, rank, left, when)


def expect_cleared(run, rank, left, when):
    wanted, seen = "None or zeros everywhere", f"still there for {', '.join(left)}"
    run.expect(not left, f"gradients after zero_grad, {when}", expected=wanted, actual=seen, ranks=[rank.rank])


def test_closures(runs, probe):
    """A closure is called once, with gradients enabled, and step returns its loss"""
    for run in runs("calls"):
        names, steps = run.parameters["names"], range(run.parameters["steps"])
        options = run.parameters["options"]
        wanted = replay(probe, run, sgd, names, steps, lambda step, name, o=options: o, slope(probe, run))
        befores = [starts(probe, run, names), *wanted]
        losses = [float(probe.objective(run.seed, befores[step], step)) for step in steps]
        for rank in run:
            expect_calls(run, rank, len(steps))
            expect_history(run, rank, rank["history"], wanted, "steps with a closure", befores[0])
            expect_losses(run, rank, losses)


def slope(probe, run):
    """The gradient of probe.objective."""
    return lambda values, step, name: probe.gradient(run.seed, step, name) * (1 + values[name])


def expect_calls(run, rank, steps):
    calls, ranks = rank["calls"], [rank.rank]
    counts = [len(call) for call in calls]
    run.expect_equal(counts, [1] * steps, "how often each step called the closure", ranks=ranks)
    seen, enabled = "disabled", all(all(call) for call in calls)
    run.expect(enabled, "gradients inside the closure", expected="enabled", actual=seen, ranks=ranks)


def expect_losses(run, rank, losses):
    returned, ranks, subject = rank["returned"], [rank.rank], "what step(closure) returned"
    given = all(loss is not None for loss in returned)
    run.expect(given, subject, expected="the closure's loss", actual="None", ranks=ranks)
    run.expect_close(returned, losses, subject, ranks=ranks, terms=TERMS)
    nothing = rank["nothing"]
    run.expect(nothing == "NoneType", "what step() returned", expected="None", actual=f"a {nothing}", ranks=ranks)


# Saving and loading


def test_round_trip(runs, probe):
    """Training goes on from a loaded state_dict as if it had never stopped"""
    for run in runs("resume"):
        for title, (name, options) in run.parameters["optimizers"].items():
            expect_resumed(probe, run, title, RULES[name], options)
    for run in runs("memory", finished=False):
        for title in run.parameters["optimizers"]:
            expect_no_more(run, title)


def expect_no_more(run, title):
    """Loading its own state leaves a rank with as much as it had."""
    for rank in run:
        if f"{title}: after loading" not in rank:
            continue
        earlier = f"{title}: after adding" if f"{title}: after adding" in rank else f"{title}: after steps"
        before, after = kept(rank[earlier]), kept(rank[f"{title}: after loading"])
        most, subject = before + SLACK * rank[f"{title}: bytes"]["first"], f"what the rank keeps after loading, {title}"
        wanted = f"{megabytes(before)}, as before"
        run.expect(after <= most, subject, expected=wanted, actual=megabytes(after), ranks=[rank.rank])


def expect_resumed(probe, run, title, rule, defaults):
    half, steps = run.parameters["half"], run.parameters["steps"]
    table = options_by_name(run.parameters["groups"], defaults)

    def options(step, name):
        return {**table[name], "lr": table[name]["lr"] / (1 if step < 1 else 2)}

    wanted, start = replay(probe, run, rule, table, range(steps), options), starts(probe, run, table)
    for rank in run:
        seen = rank[title]
        expect_history(run, rank, seen["first"], wanted, f"{title}, saved in the middle", start)
        rest, saved = wanted[half:], wanted[half - 1]
        expect_history(run, rank, seen["fresh"], rest, f"{title}, loaded into a new optimizer", saved)
        expect_history(run, rank, seen["back"], rest, f"{title}, gone back to what was saved", saved)


# Memory


def test_state_sharded(runs):
    """All ranks together keep the state once"""
    for run, title, when in measurements(runs):
        expect_once(run, title, when)


def measurements(runs):
    """What was measured on every rank: tuples of run, optimizer and moment."""
    for run in runs("memory", finished=False):
        titles = run.parameters["optimizers"]
        require(run, *(f"{title}: after steps" for title in titles))
        for title in titles:
            yield run, title, "after steps"
            if all(f"{title}: after adding" in rank for rank in run):
                yield run, title, "after adding"


def expect_once(run, title, when):
    """At least the state itself, at most that and one copy of the parameters, summed over the ranks."""
    states, by_rank = run.parameters["states"][title], kept_by_rank(run, title, when)
    parameters = run[0][f"{title}: bytes"]["all" if when == "after adding" else "first"]
    total, subject = sum(by_rank), f"what the ranks keep {when}, added up"
    actual, what = f"{megabytes(total)} (by rank: {listed(by_rank)})", f"of {title} are {states} times the parameters"
    most, least = (states + 1 + SLACK * run.world_size) * parameters, (states - SLACK) * parameters
    wanted = f"at most {megabytes(most)}: all states {what}, and one copy of the parameters is allowed"
    run.expect(total <= most, subject, expected=wanted, actual=actual)
    wanted = f"at least {megabytes(least)}: all states {what}, and the ranks themselves must keep them"
    run.expect(total >= least, subject, expected=wanted, actual=actual)


def kept_by_rank(run, title, when):
    """Bytes that each process has more than before the optimizer was built, on the instrument that shows most."""
    return [kept(rank[f"{title}: {when}"]) for rank in run]


def kept(grown):
    beside_python = sum(grown[name] or 0 for name in ("heap", "shared", "files", "gpu"))
    return max(beside_python, grown["storages"])


def listed(sizes):
    return ", ".join(megabytes(number) for number in sizes)


def megabytes(number):
    return f"{number / 1e6:.1f} MB"


def test_balanced(runs):
    """The fullest rank keeps at most 1.2 times the mean"""
    for run, title, when in measurements(runs):
        expect_balance(run, title, when)


def expect_balance(run, title, when):
    by_rank = kept_by_rank(run, title, when)
    mean, fullest = sum(by_rank) / len(by_rank), max(by_rank)
    wanted = f"at most {BALANCE} times the mean, which is {megabytes(mean)}"
    actual = f"{megabytes(fullest)} (by rank: {listed(by_rank)})"
    subject = f"what the fullest rank keeps {when}, {title}"
    run.expect(fullest <= BALANCE * mean, subject, expected=wanted, actual=actual, ranks=[by_rank.index(fullest)])
