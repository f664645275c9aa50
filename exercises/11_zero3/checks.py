"""Judges the recorded runs of `FullyShardedModule`.

Training is replayed on the bare model with the mean of the gradients of the ranks' private batches, and the full state
is compared after every step, on every rank. Collectives are counted in the trace; memory is judged by what each
process kept alive, and by which units' parameters were whole while one computed.
"""

from functools import partial
from itertools import chain, combinations

import torch
from torch.func import functional_call

from grader.checks import Attempt, CheckFailed, Tensor, Tensors, amount, holds, memory, once, parts, replay, told
from grader.checks.tolerance import MEMORY_SLACK

History = list[Tensors]
"""The full state after each step."""
Drawn = list[list[Tensor]]
"""The random numbers of a step's blocks, by step."""
AFTER_STATE = "torch's random numbers after full_state_dict"
SEED = "Which numbers do blocks draw in the next step, after what full_state_dict does to torch's generator?"
SMALL = 1024
"""Bytes. What is smaller does not count as traffic of a unit."""
STACK, TWICE = "a stack of blocks", "a block that is used twice"
SGD = {"lr": 0.1, "momentum": 0.9}
COUNTER = "passes"
"""The buffer of a stack that counts its calls."""
UNITS = 4
"""Of the stack: three blocks and the rest."""
TWO = 2
"""So many units may be whole at a time."""
DONE = {
    "stack": "training a stack of blocks on one rank",
    "outputs": "forward passes on one rank",
    "models": "training other models, with Adam, zeroed gradients, in evaluation mode and with dropout, on one rank",
    "middle": "full_state_dict between backward and step, on one rank",
    "dtypes": "full_state_dict of a bfloat16 model on one rank",
}
"""The parts of the probe, in words."""


# Replaying


def state_with(model, values):
    """The full state of the bare model with these parameters, in float64, without what counts calls."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
        return {name: tensor.clone() for name, tensor in model.state_dict().items() if name != COUNTER}


@once
def replayed(probe, run, title, kind="SGD", options=SGD, combine=replay.mean, training=True, drawn=None, steps=None):
    """The full state before the first step and after each of so many, `probe.STEPS` unless told. `drawn(rank)` are the
    random numbers of each step's blocks in their order, where they drop something."""
    model = probe.build(title, run.seed).train(training)

    def gradients(values, step):
        def loss(rank):
            return lambda tensors: probe.loss_of(partial(called, tensors, rank), rank.secret, step)

        def called(tensors, rank, inputs, **how):
            numbers = iter(drawn(rank)[step] if drawn else ())
            probe.dropping(model, (lambda inner: inner * next(numbers).to(inner.dtype)) if drawn else None)
            return functional_call(model, tensors, (inputs,), how)

        return combine([replay.gradient(loss(rank), values) for rank in run])

    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer, values = replay.Optimizer(replay.RULES[kind], start), [start]
    for step in range(steps or probe.STEPS):
        values.append(optimizer.step(gradients(values[-1], step), lambda name: options))
    return [state_with(model, one) for one in values]


def mistakes(rank):
    """What is often done in place of averaging, by a clause that names it."""
    return {
        "this is trained with the sum of the ranks' gradients, not their mean": lambda every: replay.total(*every),
        "this is trained with gradients that were divided by the number of ranks once too often": lambda every: (
            replay.combined(every, [1 / len(every) ** 2] * len(every))
        ),
        "this is trained with the rank's own gradients alone": lambda every: every[rank],
    }


def expect_history(run, probe, name, title, **how):
    """What every rank recorded under this name: the full state after each step of a model."""
    wanted = replayed(probe, run, title, **how)
    for rank in run:
        seen = rank.read(name, History)
        rank.expect_equal(len(seen), len(wanted) - 1, f"{name}: the number of steps")
        for number, state in enumerate(seen, start=1):
            expect_state(run, rank, probe, state, wanted, number, f"{name}: after step {number},", title, **how)


def expect_state(run, rank, probe, state, wanted, number, subject, title, **how):
    """The parameters and buffers that the bare model has, with their values; others are for `state_dict`."""
    common = {name: state[name] for name in wanted[number] if name in state}
    rank.expect(common, subject, "the full state", "none of the bare model's keys")
    after, before = ({name: one[name] for name in common} for one in (wanted[number], wanted[number - 1]))
    expect = partial(rank.expect_close, common, after, subject, steps=4, stale=before)
    try:
        expect()
    except CheckFailed:  # to explain takes longer than to compare, so only what is wrong is explained
        clauses = {
            clause: {name: replayed(probe, run, title, combine=combine, **how)[number][name] for name in common}
            for clause, combine in mistakes(rank.rank).items()
        }
        expect(alternatives=clauses, budget=3)


def judged(runs, probe, part, recorded):
    """Each run in which a part is judged: on one rank whatever several ranks do, and on several unless
    `same_as_unsharded` tells that these go wrong. What kept a run from coming to this part is told by the check of what
    came before."""
    (alone,) = runs("alone", finished=False)
    if not alone.came_to(recorded):
        if not alone.came_to([f"{part} alone"]):
            alone.require_finished()
        parts.expect_done(alone[0], part, DONE[part])
    yield alone
    if holds(test_same_as_unsharded, runs, probe):
        families = {family: probe.PARTS[family] for family in ("train", "parts")}
        yield from parts.arrived(runs, families, part, recorded)


# Values


def test_trains(runs, probe):
    """On one rank it trains as the bare module does"""
    for run in runs("alone", recorded=["stack alone"]):
        parts.expect_done(run[0], "stack", DONE["stack"])
        expect_history(run, probe, STACK, STACK)


def test_same_as_unsharded(runs, probe):
    """On two and four ranks every step equals the unsharded one on the mean of the gradients"""
    for run in runs("train", recorded=[STACK]):
        expect_history(run, probe, STACK, STACK)
        size = sum(p.numel() for p in probe.build(STACK, run.seed).parameters()) * 8
        # Gathered once a step at least, and each sum takes as many bytes again.
        run.expect_moved(2 * probe.STEPS * (run.world_size - 1) * size)


def test_outputs(runs, probe):
    """forward returns what the bare module does, with and without gradients"""
    for run in judged(runs, probe, "outputs", ["outputs"]):
        before, after, *_ = replayed(probe, run, STACK)
        for rank in run:
            inputs, _ = probe.batch(rank.secret, 0)
            seen = rank.read("outputs", Tensors)
            for when, values, how in (
                ("with gradients", before, {}),
                ("under no_grad", before, {"scale": probe.SCALE}),
                ("after a step", after, {}),
            ):
                model = probe.build(STACK, run.seed)
                model.load_state_dict(values, strict=False)
                model.train(when != "after a step")
                rank.expect(when in seen, f"the output {when}", "a tensor", "none")
                rank.expect_close(seen[when], model(inputs, **how).detach(), f"the output {when}", steps=4)


def test_evaluation(runs, probe):
    """Evaluation does not disturb training, with or without no_grad"""
    for run in judged(runs, probe, "outputs", ["outputs", "training after evaluation"]):
        expect_history(run, probe, "training after evaluation", STACK, steps=probe.STEPS_WITH_EVALUATION)


def test_models(runs, probe):
    """Units used twice or with two names, only units, none, two models, Adam, zeroed gradients, dropout, evaluation"""
    titles = list(probe.MODELS)[1:]
    others = ["under Adam", probe.ZEROED, probe.EVALUATING, probe.DROPPED]
    for run in judged(runs, probe, "models", [*titles, *others]):
        for title in titles:
            expect_history(run, probe, title, title)
        expect_history(run, probe, "under Adam", STACK, kind="Adam", options={"lr": 0.05})
        expect_history(run, probe, probe.ZEROED, STACK)
        expect_history(run, probe, probe.EVALUATING, STACK, training=False)
        for rank in run:
            drawn = rank.read("drawn", Drawn)
            wanted = [[(probe.BATCH, probe.HIDDEN)] * probe.CALLS_OF_TWICE] * probe.STEPS
            seen = [[tuple(one.shape) for one in step] for step in drawn]
            rank.expect_equal(seen, wanted, "the shapes of what the blocks of each step drew")
            again = any(torch.equal(one, other) for one, other in combinations(chain.from_iterable(drawn), 2))
            draws_on = rank.read("draws on after full_state_dict", bool)
            rank.expect(draws_on or not again, AFTER_STATE, "as before", "changed", hint=SEED)
            rank.expect(not again, "what blocks drew", "other numbers in every call of a forward", "some of them again")
        expect_history(run, probe, probe.DROPPED, TWICE, drawn=lambda rank: rank.read("drawn", Drawn))


# The full state


def test_state_dict(runs, probe):
    """full_state_dict has the bare module's keys, full tensors and buffers, on every rank"""
    for run in runs_of_stack(runs, probe):
        wanted = probe.build(STACK, run.seed).state_dict()
        for rank in run:
            state = rank.read("state before training", Tensors)
            rank.expect_equal(sorted(state), sorted(wanted), "the keys of full_state_dict")
            rank.expect_like(state, wanted, "shape and dtype in full_state_dict")
            rank.expect_close(state, wanted, "before training,")
            carried = rank.read("with a graph", list[str])
            rank.expect(not carried, "tensors of full_state_dict with a graph", "none", carried)
            if STACK in rank:
                history, after = rank.read(STACK, History), {COUNTER: wanted[COUNTER] + probe.STEPS}
                seen = {COUNTER: history[-1].get(COUNTER) if history else None}
                subject = "after training, the buffer that counts calls of forward,"
                rank.expect_close(seen, after, subject, stale={COUNTER: wanted[COUNTER]})
    for title in list(probe.MODELS)[1:] if holds(test_models, runs, probe) else ():
        for run in judged(runs, probe, "models", [title]):
            wanted = sorted(probe.build(title, run.seed).state_dict())
            for rank in run:
                for state in rank.read(title, History):
                    rank.expect_equal(sorted(state), wanted, f"{title}: the keys of full_state_dict")
    for run in judged(runs, probe, "dtypes", ["state in bfloat16"]):
        wanted = probe.build(STACK, run.seed, probe.COARSE).state_dict()
        for rank in run:
            state = rank.read("state in bfloat16", Tensors)
            rank.expect_like(state, wanted, "of a bfloat16 model, shape and dtype in full_state_dict")
            rank.expect_close(state, wanted, "of a bfloat16 model,")


def runs_of_stack(runs, probe):
    """Those of one rank and of several."""
    return judged(runs, probe, "stack", ["state before training"])


def test_middle(runs, probe):
    """full_state_dict between backward and step shows the old parameters and changes nothing"""
    for run in judged(runs, probe, "middle", ["state between backward and step", "state at the end"]):
        wanted = replayed(probe, run, STACK)
        for rank in run:
            states = rank.read("state between backward and step", History)
            rank.expect_equal(len(states), probe.STEPS, "the number of steps")
            subject = "between backward and step"
            for number, state in enumerate(states):
                before = wanted[number]
                rank.expect_close({n: state.get(n) for n in before}, before, f"{subject} {number + 1},", steps=4)
            end = rank.read("state at the end", Tensors)
            rank.expect_close({n: end.get(n) for n in wanted[-1]}, wanted[-1], "at the end,", steps=4)


# Shards


def elements_of(model, unit_class):
    """(all elements, units with parameters)."""
    blocks = [part for part in model.modules() if isinstance(part, unit_class)]
    inside = {p for block in blocks for p in block.parameters()}
    rest = any(p not in inside for p in model.parameters())
    return sum(p.numel() for p in model.parameters()), len(blocks) + rest


def test_shards(runs, probe):
    """parameters() yields this rank's 1/N of the elements"""
    for run in runs_of_stack(runs, probe):
        judge_elements(run, probe, STACK, "elements")
    for run in runs("parts", finished=False):
        if run.came_to(["elements of blocks"]):
            judge_elements(run, probe, "nothing but blocks", "elements of blocks")


def judge_elements(run, probe, title, name):
    total, units = elements_of(probe.build(title, run.seed), probe.Block)
    most = total // run.world_size + units * run.world_size
    seen, subject = [rank.read(name, int) for rank in run], f"the elements of parameters() of {title}"
    for rank in run:
        wanted = f"at most {most}: 1/{run.world_size} of {total}, and up to {run.world_size} a unit"
        rank.expect(seen[rank.rank] <= most, subject, wanted, seen[rank.rank])
    run.expect(sum(seen) >= total, f"{subject} on all ranks", f"at least {total}", sum(seen))


# Communication


def traced(runs, probe):
    """(the step, rank, its traffic in it without what is small) of each rank that has others."""
    for run in runs("train", recorded=[STACK]):
        for rank in run:
            for step in range(1, probe.STEPS + 1):
                yield f"step {step}", rank, rank.during(f"step {step}").at_least(SMALL)


def test_gathers(runs, probe):
    """A step costs at most two all-gathers a unit"""
    for step, rank, part in traced(runs, probe):
        seen = len(part.of("all_gather"))
        rank.expect(
            UNITS <= seen <= 2 * UNITS,
            f"the all-gathers of {step}",
            f"{UNITS} to {2 * UNITS}: one or two for each of {UNITS} units",
            told(part, "all_gather"),
        )


def test_reduces(runs, probe):
    """A step costs exactly one reduce-scatter a unit, and no other large collective"""
    for step, rank, part in traced(runs, probe):
        seen = len(part.of("reduce_scatter"))
        wanted = f"{UNITS}: one for each unit"
        rank.expect(seen == UNITS, f"the reduce-scatters of {step}", wanted, told(part, "reduce_scatter"))
        others = [one.operation for one in part if one.operation not in ("all_gather", "reduce_scatter")]
        rank.expect(not others, f"other collectives of {step}", "none of a kilobyte or more", told(part.of(*others)))
    for run in runs("train", finished=False):
        if run.finished:  # else not all that it communicated may be known
            run.expect_confirmed()


# Memory


def expect_shares(rank, probe, when, most):
    """No unit is whole, unless these are all that the rank keeps: others than expected may be gathered together."""
    sizes = [sum(p.numel() for p in unit) for unit in probe.Tower().units()]
    found = rank.read(f"elements {when}", list[int])
    rank.expect_equal(len(found), len(sizes), f"units {when}")
    whole = [number for number, size in enumerate(sizes) if found[number] >= probe.ALL * size]
    kept = sum(map(min, found, sizes))
    actual = f"{len(whole)} of {len(sizes)}"
    rank.expect(not whole or kept <= most, f"units whose parameters are whole {when}", "none", actual)


AT_REST = (
    "before the first step",
    "after steps and evaluation",
    "after evaluation without no_grad",
    "after full_state_dict",
)


def test_at_rest(runs, probe):
    """Between steps a rank keeps 1/N of the parameters"""
    for run in runs("memory"):
        total, units = elements_of(probe.Tower(), probe.Block)
        share = total / run.world_size + units * run.world_size
        most = 4 * (2 * share + MEMORY_SLACK * total)
        for rank in run:
            for when in AT_REST:
                expect_shares(rank, probe, when, share + MEMORY_SLACK * total)
                seen = memory.kept(rank, probe.TOWER, when)
                wanted = f"at most {amount(most)}: 1/{run.world_size} of {amount(4 * total)}, and as much for gradients"
                rank.expect(seen <= most, f"what a rank keeps {when}", wanted, amount(seen))
        if holds(test_same_as_unsharded, runs, probe):
            tower = probe.mark(probe.Tower(), run.seed)
            subject = "where memory is measured, in full_state_dict, some of"
            for rank in run:
                expect_sampled(probe, rank, "state of the tower", tower, subject)


def expect_sampled(probe, rank, name, tower, subject):
    """The elements of the tower's state that a rank is asked for, under whatever other keys there are more of them."""
    seen, state = rank.read(name, Tensors), {key: one.detach().float() for key, one in tower.named_parameters()}
    wanted = {key: one.take(probe.places_of(rank.secret, key, one.numel())) for key, one in state.items()}
    rank.expect_close({key: one for key, one in seen.items() if key in wanted}, wanted, subject, steps=4)


def expect_computed(runs, probe, run):
    """What was measured has also computed: what forward returned, and some elements of what was trained."""
    tower = probe.mark(probe.Tower(), run.seed).double()
    batches = {rank.rank: [probe.tower_batch(rank.secret, step).double() for step in probe.PASSES] for rank in run}
    right = holds(test_outputs, runs, probe)  # else that says what is wrong in evaluation
    for rank in run:
        rank.expect_success(rank.read("the last step", Attempt), "a step after full_state_dict")
        seen, subject = rank.read("outputs of the tower", list[Tensor]), "what forward returns where memory is measured"
        rank.expect_equal(len(seen), len(probe.PASSES), "passes where memory is measured")
        for step, inputs, output in zip(probe.PASSES, batches[rank.rank], seen, strict=True):
            evaluates = step in probe.IN_EVALUATION
            tower.train(not evaluates)
            if right or not evaluates:
                rank.expect_close(output, tower(inputs).detach().float(), subject, steps=4)
    if not holds(test_evaluation, runs, probe):  # which says what is wrong with steps after one
        return
    tower.train()
    sum(tower(passes[-1]).square().mean() for passes in batches.values()).backward()
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter.sub_(parameter.grad, alpha=probe.LAST_RATE / run.world_size)
    for rank in run:
        subject = "where memory is measured, after the last step, some of"
        expect_sampled(probe, rank, "state of the tower in the end", tower, subject)


def test_gathered(runs, probe):
    """While it computes the parameters of two units at most are whole"""
    block = 4 * sum(p.numel() for p in probe.Block(probe.LARGE, probe.LARGE_HIDDEN).parameters())
    forward = ("forward", f"forward {probe.EVALUATING}")
    for run in runs("memory", recorded=["whole", "growths"]):
        for rank in run:
            whole, growths = rank.read("whole", dict[str, int]), rank.read("growths", dict[str, int])
            for when in (*forward, "backward", f"backward {probe.EVALUATING}", "evaluation"):
                seen = whole.get(when, 0)
                subject = f"units whose parameters are whole while one computes, in {when}"
                rank.expect(seen <= TWO, subject, f"at most {TWO}", seen)
            for when in (*forward, "evaluation"):
                most, seen = (TWO + 0.5) * block, growths.get(when)
                rank.expect(seen is not None, f"passes through the blocks, in {when}", "some", "none")
                subject = f"what a rank has more than at rest while a block computes, in {when}"
                rank.expect(seen <= most, subject, f"at most {amount(most)}: two units and a little", amount(seen))
        if holds(test_same_as_unsharded, runs, probe):
            expect_computed(runs, probe, run)
