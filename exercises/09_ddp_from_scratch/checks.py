"""Judges the recorded runs of `BucketedDDP`.

What every rank must end with is computed from what all ranks were given: the parameters from the seed, each rank's
batches from its secret. Where all gradients of the first step are wrong by one factor, the other checks ask for that
factor as well, so that it is told once. Communication is judged by what was launched and where in backward, never by
time.
"""

from functools import lru_cache
from itertools import combinations, product
from math import prod
from typing import Any

import torch

from grader.checks import Attempt, NotJudged, RankView, Tensor, Tensors, TypedDict, amount, holds, line_of, replay, told
from grader.checks.tolerance import Reduction

SMALL = 1024
"""Bytes; less than any bucket of the networks whose communication is judged. What is smaller carries no gradients."""
PADDING = 512
"""Bytes by which a bucket may be longer than its gradients, so that it divides evenly."""
REDUCING = ("all_reduce", "reduce_scatter", "reduce", "all_to_all", "all_gather")
"""What may carry a bucket; the first of these that is seen does. A second half, such as an all-gather after a
reduce-scatter, is not counted."""
SECOND_HALF = {"reduce_scatter": ["all_gather"], "all_to_all": ["all_gather"], "reduce": ["broadcast", "scatter"]}
AT_THE_END = 2
"""So many buckets may be launched when the last gradient is there: the last one, and one that a bucket's successor
sends on its way."""
DISORDER = 1 / 6
"""Of all pairs of buckets, so many may be launched in the order of registration."""
ACCIDENTS = {"LookupError", "TypeError", "AttributeError", "NameError", "ArithmeticError"}
"""Errors that nobody raises to say that a call was wrong."""
OF_PYTHON = ("x not in ", " is not in list", "zip() argument", "values to unpack", "changed size during iteration")
"""What Python itself says in errors of other kinds that are accidents as well."""
HELD_UP, BESIDE = "the step in which one rank is late", "a step while another wrapper is in no_sync"
PARTS = {
    "construction": "making a BucketedDDP",
    "first_step": "the first step",
    "held_up": "a step in which one rank is late",
    "later_steps": "four steps",
    "calls": "forward passes without gradients",
    "optimizer": "a step with an optimizer",
    "tiny": "steps with tiny buckets",
    "middle": "steps with buckets of middle size",
    "halves": "a step in bfloat16",
    "huge": "a step with one huge bucket",
    "default": "a step with bucket_cap_mb left out",
    "frozen": "a step with frozen parameters",
    "tied": "a step with a shared parameter",
    "dtypes": "a step with several dtypes",
    "layouts": "a step with parameters that are laid out transposed",
    "no_sync_once": "a step after no_sync",
    "no_sync_twice": "steps, the second after two times no_sync",
    "after_exception": "a step after an exception in no_sync",
    "unused_everywhere": "steps, one with parameters that no rank uses",
    "unused_after_no_sync": "a step without parameters that were used in no_sync",
    "unused_somewhere": "steps with parameters that some ranks do not use",
    "two_wrappers": "a backward pass through two wrappers",
    "layouts_somewhere": "a step with parameters that are laid out transposed and that some ranks do not use",
    "twice": "two backward passes before one finish_gradient_synchronization",
    "twice_again": "two backward passes without one parameter before one finish_gradient_synchronization",
}
"""The parts of the probe in words, in their order."""
APART = (
    "unused_everywhere",
    "unused_after_no_sync",
    "unused_somewhere",
    "two_wrappers",
    "layouts_somewhere",
    "twice",
    "twice_again",
)
"""Those in runs of their own."""


class Part(Attempt):
    seen: Any


class Made(TypedDict):
    is_module: bool
    own: bool
    state: Tensors


class Stepped(TypedDict):
    gradients: Tensors
    after: Tensors


class Taken(TypedDict):
    """A step of a plan: the gradients after no_sync, and after the step."""

    inside: Tensors
    after: Tensors


Called = TypedDict("Called", {"positional": Tensor, "named": list[Any], "kind": str})


# What was seen


def part_of(runs, part, kind=Any):
    """(run, what each rank saw in a part, by rank) for all runs. An exception in the part fails the check, and so does
    a rank that did not come to its end, unless it had stopped before."""
    family = [name for name in PARTS if (name in APART) == (part in APART)]
    before = family[: family.index(part)]
    if part in APART:
        in_order(runs, before)
    came = runs("apart" if part in APART else "train", recorded=[part], after=before[-1:])
    if all(run.world_size == 1 for run in came):
        raise NotJudged("several ranks do not come so far")
    for run in came:
        working(runs, run, "first_step", *(["later_steps"] if PARTS[part].startswith("steps") else []))
        yield run, {rank.rank: saw(rank, part, kind) for rank in run}


def in_order(runs, before):
    """Where one of these parts has raised, ranks may be at different places, so that nothing after it is judged, not
    even that they come to an end."""
    for run in runs("apart", finished=False):
        if run.came_to(before) and not all(holds(saw, rank, name) for rank in run for name in before):
            raise NotJudged("an exception before has left the ranks in disorder")


def saw(rank, part, kind=Any):
    outcome = rank.read(part, Part)
    rank.expect_success(outcome, PARTS[part])
    return rank.expect_kind(outcome["seen"], kind, f"What the grader saw in {PARTS[part]}")


def twin(runs, run):
    """The run of the family "train" on so many ranks."""
    return next(one for one in runs("train", finished=False) if one.world_size == run.world_size)


def working(runs, run, *parts):
    """Where a first step raises or hangs, nothing else is judged, and of several steps nothing where those do. Nor is
    what torch's own DistributedDataParallel has done."""
    basic = twin(runs, run)
    if any(rank.get("made") for rank in basic):
        raise NotJudged("torch's DistributedDataParallel does the work")
    for part in parts:
        if not all(holds(saw, rank, part, list[Taken]) for rank in basic):
            raise NotJudged(f"{PARTS[part]} cannot be taken")


# What should have been seen


@lru_cache(maxsize=1024)
def gradient(probe, seed, secret, model, place, batches):
    """A rank's gradient of the sum of the losses of some batches, by name; `batches` are (place, layers left out).
    What is in none is left out."""
    layers, tensors, sums = probe.MODELS[model], probe.initial(seed, model, *place), {}
    for batch, skip in batches:
        inputs, targets = probe.batch(secret, *batch)
        names = dict.fromkeys(one.like or one.name for one in layers if not one.frozen and one.name not in skip)

        def loss(given, inputs=inputs, targets=targets, skip=skip):
            return probe.loss_of(probe.compute(model, given, inputs, skip), targets)

        found = replay.gradient(loss, tensors, names)
        sums = {name: sums.get(name, 0) + found.get(name, 0) for name in {**sums, **found}}
    return sums


def gradients(probe, run, model, place, *batches, skip=()):
    """Those of all ranks, for batches from which the same layers are left out."""
    batches = tuple((batch, skip) for batch in batches)
    return [gradient(probe, run.seed, rank.secret, model, place, batches) for rank in run]


def planned(probe, run, part, number, *, inside=False):
    """The gradients of all ranks in a step of a plan, or of what comes before it in no_sync."""
    plan, found = probe.PLANS[part], []
    for rank in run:
        step, place = plan.steps[number], (part, number)
        quiet = [((*place, batch), ()) for batch in range(sum(step.quiet))]
        last = [((*place, len(quiet)), step.skip[rank.rank])]
        batches = tuple(quiet if inside else quiet + last)
        found.append(gradient(probe, run.seed, rank.secret, plan.model, place, batches))
    return found


def mean(every, count=None):
    """The mean over ranks, by name; a rank without a gradient counts as zero."""
    sums, kinds, count = {}, {}, count or len(every)
    for one in every:
        kinds |= {name: tensor.dtype for name, tensor in one.items()}
        sums |= {name: tensor.double() + sums.get(name, 0) for name, tensor in one.items()}
    return {name: (tensor / count).to(kinds[name]) for name, tensor in sums.items()}


class Baseline:
    """How all gradients of the first step are wrong on so many ranks, so that the other checks need not tell it again:
    by a `factor`, which is 1 where they are right, and by being rounded to float32 (`dtype`)."""

    def __init__(self, runs, probe, run):
        working(runs, run, "first_step")
        run = twin(runs, run)
        if returned_early(run) or any(never_awaited(runs)):
            raise NotJudged("the gradients are read before they are there")
        wanted = mean(planned(probe, run, "first_step", 0))
        found = {rank.rank: rank["first_step"]["seen"][0]["after"] for rank in run if rank["first_step"]["seen"]}
        if not all(rank.rank in found and holds(rank.expect_like, found[rank.rank], wanted, "") for rank in run):
            raise NotJudged("the first step leaves no gradients to compare with")
        exact = replay.projection(found[0], wanted)
        for self.dtype, self.factor in product((torch.float64, torch.float32), (1.0, exact)):
            if self.factor and all(holds(self.expect_close, rank, found[rank.rank], wanted, "") for rank in run):
                return
        raise NotJudged("the gradients of the first step are not the average")

    def expect_close(self, rank, found, wanted, subject, **how):
        found, right = ({name: self.rounded(one) for name, one in tensors.items()} for tensors in (found, wanted))
        right = {name: (value.double() * self.factor).to(value.dtype) for name, value in right.items()}
        rank.expect_close(found, right, subject, terms=2 * rank.world_size, **how)

    def rounded(self, tensor):
        return tensor.to(self.dtype) if tensor.dtype == torch.float64 else tensor


def expect_average(runs, probe, run, seen, every, subject, clauses=None):
    """Every rank has the mean of the ranks' gradients, with the factor of the first step."""
    clauses = {**told_apart(every), **(clauses or {})}
    expect_gradients(run, seen, mean(every), subject, clauses, Baseline(runs, probe, run).expect_close)


def told_apart(every):
    """Gradients that common mistakes lead to, by a clause that names the mistake."""
    clauses = {f"this is rank {number}'s own gradient": one for number, one in enumerate(every)}
    for number in range(len(every)):
        rest = every[:number] + every[number + 1 :]
        clauses[f"rank {number}'s gradient is missing"] = mean(rest, len(every))
    return clauses


def expect_gradients(run, seen, wanted, subject, clauses, expect_close=RankView.expect_close):
    for rank in (rank for rank in run if rank.rank in seen):
        found = seen[rank.rank]
        lacking, more = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
        rank.expect(not lacking, f"{subject}: gradients", "one for each parameter in use", f"None for {lacking}")
        full = [name for name in more if found[name].any()]
        rank.expect(not full, f"{subject}: gradients without use", "None or zeros", f"others for {full}")
        found = {name: found[name] for name in wanted}
        rank.expect_like(found, wanted, f"{subject}: shape and dtype of the gradients")
        expect_close(rank, found, wanted, f"{subject}: the gradient of", alternatives=clauses, budget=2)


def expect_steps(runs, probe, part, numbers=None, clauses=lambda run, number: {}):
    """The gradients after each step of a plan, or after some. Gives back the runs of several ranks, whose communication
    may then be judged."""
    judged = list(part_of(runs, part, list[Taken]))
    for run, seen in judged:
        for number in numbers or range(len(probe.PLANS[part].steps)):
            now = {rank: taken[number]["after"] if number < len(taken) else {} for rank, taken in seen.items()}
            subject = f"step {number + 1} of {PARTS[part]}"
            every = planned(probe, run, part, number)
            expect_average(runs, probe, run, now, every, subject, clauses(run, number))
    return [run for run, _ in judged if run.world_size > 1]


def sizes(probe, model):
    """(bytes, dtype) of each gradient, in the order of registration."""
    trained = [layer for layer in probe.MODELS[model] if not layer.frozen and not layer.like]
    return [(prod(one.shape) * one.dtype.itemsize, str(one.dtype).removeprefix("torch.")) for one in trained]


# Replicas, and the wrapper as a module


def test_replicates(runs, probe):
    """Every rank begins with rank 0's parameters and buffers"""
    for run in runs("train", recorded=["construction"]):
        for rank in run:
            state = saw(rank, "construction", Made)["state"]
            wanted, own = (
                {**probe.initial(secret, "stateful", "own"), **probe.buffers(secret)}
                for secret in (run[0].secret, rank.secret)
            )
            rank.expect_like(state, wanted, "names, shapes and dtypes after construction")
            how = {"reduction": Reduction.EXACT, "stale": None if rank.rank == 0 else own}
            rank.expect_close(state, wanted, "after construction,", **how)


def test_module(runs, probe):
    """It is a torch.nn.Module, and an optimizer over its parameters() trains the module's"""
    for run, seen in part_of(runs, "construction", Made):
        for rank in run:
            rank.expect(seen[rank.rank]["is_module"], "the object", "an instance of torch.nn.Module", "not one")
            rank.expect(seen[rank.rank]["own"], "what is wrapped", "the module that was given", "a copy of it")
    for run, seen in part_of(runs, "optimizer", Stepped):
        start = probe.initial(run.seed, "frozen", "optimizer")
        for rank in run:
            gradients, after = seen[rank.rank]["gradients"], seen[rank.rank]["after"]
            rank.expect_like(after, start, "names, shapes and dtypes of the parameters after a step")
            given = {name: gradients.get(name, torch.zeros_like(value)) for name, value in start.items()}
            rank.expect_like(given, start, "shape and dtype of the gradients")
            wanted = {name: start[name] - probe.LEARNING_RATE * given[name] for name in start}
            rank.expect_close(after, wanted, "after a step of SGD, the parameter", stale=start)


def test_forward(runs, probe):
    """forward hands on all arguments and gives back what the module returns"""
    for run, seen in part_of(runs, "calls"):
        tensors = probe.initial(run.seed, "plain", "calls")
        for rank in run:
            inputs, _ = probe.batch(rank.secret, "calls")
            called = rank.expect_kind(seen[rank.rank], Called, "what forward returned")
            wanted = 6 * probe.compute("plain", tensors, inputs)
            rank.expect_close(called["positional"], wanted, "forward(inputs, 2.0, 3.0)")
            report = {"report": "'a word'", "skipped": ["'second'"]}
            wanted = [probe.compute("plain", tensors, inputs, ["second"]), report]
            rank.expect_equal(called["kind"], "tuple", "what forward(inputs=..., skip=..., report=...) gives back")
            rank.expect_close(called["named"], wanted, "forward(inputs=..., skip=..., report=...)")


def test_no_ddp(runs):
    """It does without torch's DistributedDataParallel"""
    for run in runs("train", recorded=["made"], after=["first_step"]):
        for rank in run:
            made = rank.read("made", list[str])
            if not made and not holds(saw, rank, "first_step"):
                raise NotJudged("the first step cannot be taken")
            kind = "Reducer, the heart of DistributedDataParallel," if "Reducer" in made else "DistributedDataParallel"
            rank.expect(not made, f"objects of {kind} made in the first step", "none", len(made))


# The gradients of a step


def test_averages(runs, probe):
    """After finish_gradient_synchronization every gradient is the mean over all ranks"""
    for run in runs("train", recorded=["first_step"], after=["construction"]):
        if not all(holds(saw, rank, "construction") for rank in run) or any(rank.get("made") for rank in run):
            raise NotJudged("there is no wrapper of one's own")
        if returned_early(run) or any(never_awaited(runs)):
            raise NotJudged("the gradients are read before they are there")
        taken = {rank.rank: saw(rank, "first_step", list[Taken]) for rank in run}
        seen, every = (
            {rank: steps[0]["after"] if steps else {} for rank, steps in taken.items()},
            planned(probe, run, "first_step", 0),
        )
        expect_gradients(run, seen, mean(every), "the first step", told_apart(every))
        run.expect_moved(3 * (run.world_size - 1) * sum(size for size, _ in sizes(probe, "plain")))
        if run.finished:
            run.expect_confirmed()


def returned_early(run):
    """The ranks that had returned from finishing while another one was in the middle of backward, if any rank sends."""
    late = run[run.world_size - 1].get("held_up")
    early = isinstance(late, dict) and late.get("seen")
    return early if early and any(len(rank.trace.during(HELD_UP).at_least(SMALL)) for rank in run) else []


def test_waits(runs):
    """finish_gradient_synchronization waits until every rank has sent its gradients"""
    for run, seen in part_of(runs, "held_up", list[int]):
        if run.world_size > 1 and not any(rank.during(HELD_UP).at_least(SMALL) for rank in run):
            raise NotJudged("no rank sends its gradients")
        late = run.world_size - 1
        run.expect(
            not seen[late],
            f"finish_gradient_synchronization, while rank {late} is in the middle of backward",
            "waits",
            "has returned",
            ranks=[number for number in seen[late] if 0 <= number < late],
        )
    for rank, left, begun in never_awaited(runs):
        rank.expect(False, "all-reduces of a step that nobody waits for", "none", f"{left} of {begun}")
    for rank, left, begun in left_alone(runs):
        subject = "all-reduces that nobody waits for, where some parameters are not used"
        rank.expect(False, subject, "none", f"{left} of {begun}")


def never_awaited(runs):
    """(rank, how many all-reduces it never asked for, of how many) in a step of two ranks, where it left some so."""
    for run in runs("train", finished=False):
        for rank in run:
            if run.world_size > 1 and holds(saw, rank, "default", list[bool]):
                awaited = saw(rank, "default", list[bool])
                if not all(awaited):
                    yield rank, awaited.count(False), len(awaited)


def left_alone(runs):
    """The same of the steps in which some parameters are not used, where these come to their end."""
    for run in runs("apart", finished=False):
        for rank in run:
            if "awaited" in rank and all(holds(saw, rank, part) for part in APART if part.startswith("unused")):
                awaited = rank.read("awaited", list[bool])
                if not all(awaited):
                    yield rank, awaited.count(False), len(awaited)


def test_later_steps(runs, probe):
    """Later steps average as the first one, whether gradients were set to None or to zeros"""

    def before(run, number):
        return {"this is the gradient of the step before": mean(planned(probe, run, "later_steps", number - 1))}

    expect_steps(runs, probe, "later_steps", (1, 2, 3), before)


# Buckets


def carried(rank, region):
    """The communications that carried buckets in a region."""
    part = rank.during(region).at_least(SMALL)
    if not len(part):
        raise NotJudged("no rank sends its gradients")
    return next((part.of(kind) for kind in REDUCING if len(part.of(kind))), part)


def length(rank, one):
    """The bytes of a bucket; an all-gather has it once for each rank."""
    return one.bytes / rank.world_size if one.operation == "all_gather" else one.bytes


def steps_of(runs, probe, *kinds):
    """(rank, kind, what carried its buckets) in each step with buckets of these kinds."""
    for kind in kinds:
        for run, _ in part_of(runs, kind):
            for rank in run if run.world_size > 1 else ():
                for region in regions_of(probe, kind):
                    yield rank, kind, carried(rank, region)


def elements(rank, one):
    return length(rank, one) / getattr(torch, one.dtype).itemsize


def regions_of(probe, part):
    """The steps of a plan, in the words of the trace."""
    return [f"step {number} of {part}" for number in range(len(probe.PLANS[part].steps))]


def last_region(probe, part):
    return regions_of(probe, part)[-1]


def greedy(gradients, cap):
    """How many buckets greedy packing makes, of gradients of one dtype."""
    count, room = 0, 0.0
    for size, _ in gradients[::-1]:
        if size > room:
            count, room = count + 1, cap
        room -= size
    return count


def test_bucket_sizes(runs, probe):
    """No bucket is larger than bucket_cap_mb, unless it holds a single parameter"""
    more = ["layouts"] if holds(test_layouts, runs, probe) else []
    for rank, kind, part in steps_of(runs, probe, "tiny", "middle", "halves", *more):
        plan = probe.PLANS[kind]
        if kind == "tiny" and carries_all(rank, probe, part, plan.model):  # no bucket has room for two
            least, subject = len(probe.MODELS[plan.model]), f"buckets with bucket_cap_mb={plan.cap:g}"
            rank.expect(len(part) >= least, subject, f"{least}, one for each parameter", told(part), line=line_of(part))
        for one in part:
            expect_room(rank, probe, plan, one, f"a bucket with bucket_cap_mb={plan.cap:g}")


def carries_all(rank, probe, sent, model):
    """Whether these have as many elements as the gradients of a model in float64."""
    return sum(elements(rank, one) for one in sent) >= sum(size / 8 for size, _ in sizes(probe, model))


def expect_room(rank, probe, plan, one, subject):
    """A bucket is no larger than the cap, or holds one parameter. It counts in the width of its model's gradients."""
    given = {(size, getattr(torch, dtype).itemsize) for size, dtype in sizes(probe, plan.model)}
    single = any(0 <= elements(rank, one) - size / width <= PADDING / 8 for size, width in given)
    width = getattr(torch, one.dtype).itemsize if len({width for _, width in given}) > 1 else min(given)[1]
    size, most = elements(rank, one) * width, plan.cap * 2**20
    wanted = f"at most {amount(most)}, or one parameter"
    rank.expect(single or size <= most + PADDING, subject, wanted, amount(size), line=one.line)


def test_bucket_count(runs, probe):
    """There are not many more buckets than greedy packing needs, and nothing large is sent beside them"""
    later = ("later_steps", "middle") if holds(test_later_steps, runs, probe) else ()
    for rank, kind, part in steps_of(runs, probe, "huge", "halves", *later[1:]):
        most = 2 * greedy(sizes(probe, probe.PLANS[kind].model), probe.PLANS[kind].cap * 1e6) + 1
        subject = f"buckets with bucket_cap_mb={probe.PLANS[kind].cap:g}"
        rank.expect(len(part) <= most, subject, f"at most {most}", f"{len(part)}, {told(part)}", line=line_of(part))
    for kind in ("first_step", *later):
        for run, _ in part_of(runs, kind):
            for rank, region in product(run if run.world_size > 1 else (), regions_of(probe, kind)):
                expect_nothing_beside(rank, probe, region, probe.PLANS[kind].model)


def expect_nothing_beside(rank, probe, region, model):
    """Where the buckets have carried all gradients, nothing large is sent but what belongs to them."""
    part, sent = rank.during(region).at_least(SMALL), carried(rank, region)
    kinds = {one.operation for one in sent}
    if not kinds <= {*REDUCING} or not carries_all(rank, probe, sent, model):
        return  # another way of sending, whatever it is
    (kind,) = kinds
    others = part.of(*{one.operation for one in part} - {kind, *SECOND_HALF.get(kind, ())})
    subject = f"what is sent beside the buckets in {region}"
    rank.expect(not len(others), subject, f"nothing of {SMALL} bytes or more", told(others), line=line_of(others))


def test_default_cap(runs, probe):
    """Left out, bucket_cap_mb is 25"""
    total = sum(size for size, _ in sizes(probe, "wide"))
    for run, _ in part_of(runs, "default"):
        for rank in run if run.world_size == 2 else ():
            part = carried(rank, "a step with bucket_cap_mb left out")
            largest, most = max(length(rank, one) for one in part), 2 * greedy(sizes(probe, "wide"), 25e6) + 1
            subject = f"buckets for {amount(total)}, with bucket_cap_mb left out"
            wanted = f"at most {most}, of at most {amount(25 * 2**20)}"
            good = len(part) <= most and largest <= 25 * 2**20 + PADDING
            rank.expect(good, subject, wanted, told(part), line=line_of(part))


def test_overlaps(runs, probe):
    """Each bucket is launched while backward runs, all but the last while gradients are still to be computed"""
    for rank, kind, part in steps_of(runs, probe, "tiny", "middle"):
        if len(part) <= AT_THE_END:
            raise NotJudged("there are too few buckets")
        subject = f"the {len(part)} buckets of a step with {kind} buckets"
        expect_in_backward(rank, part, subject)
        expect_early(rank, part, subject)
        if kind == "tiny":
            expect_reversed(rank, part, probe)
    for kind in ("first_step", "later_steps"):
        for run, _ in part_of(runs, kind):
            for region in regions_of(probe, kind):
                expect_all_in_backward(run, region)
                for rank in run if run.world_size > 1 else ():
                    expect_early(rank, carried(rank, region), f"the buckets of {region}")


def expect_early(rank, part, subject):
    late = [one for one in part if not one.remaining]
    wanted = "launched while gradients were still to be computed, but for the last"
    seen = f"{len(late)} launched when the last gradient was there"
    rank.expect(len(late) <= AT_THE_END, subject, wanted, seen, line=line_of(part))


def expect_reversed(rank, part, probe):
    """Of buckets with one gradient each, whose sizes tell them apart, most pairs are in reverse order."""
    place = {size / 8: number for number, (size, _) in enumerate(sizes(probe, "deep"))}
    launched = [place[whole] for one in part for whole in place if 0 <= elements(rank, one) - whole <= PADDING / 8]
    pairs = list(combinations(launched, 2))
    wrong = sum(first < later for first, later in pairs)
    subject = "the order of buckets with one parameter each"
    seen = f"{wrong} of {len(pairs)} pairs in forward order"
    rank.expect(
        wrong <= DISORDER * len(pairs), subject, "roughly the reverse of registration", seen, line=line_of(part)
    )


def expect_in_backward(rank, part, subject):
    outside = [one for one in part if one.backward is None]
    seen = f"{len(outside)} launched outside of backward"
    rank.expect(not outside, subject, "launched while backward runs", seen, line=outside[0].line if outside else None)


def test_asynchronous(runs, probe):
    """Buckets are launched asynchronously: backward goes on before they are there"""
    for rank, _, part in steps_of(runs, probe, "tiny"):
        within = [one for one in part if one.remaining]
        if not within:
            raise NotJudged("no bucket is launched while there is something to compute")
        spans = [span for span in rank.trace.spans if part.start <= span.start < part.end]
        layers = [span.start for span in spans if span.name == "layer" and span.start > within[0].start]
        free = goes_on(runs, rank.world_size)
        waits = [span.start for span in spans if span.name in (["wait"] if free else ["wait", "wait in a thread"])]
        starts = [one.start for one in rank.trace.communications if part.start <= one.start < part.end]
        open_ = [sum(start < layer for start in starts) - sum(wait < layer for wait in waits) for layer in layers]
        rank.expect(
            sum(count > 0 for count in open_) * 2 > len(open_) and bool(waits or free),  # else it waits unseen
            "the buckets launched in backward",
            "on their way while the next layer's gradient is computed",
            "waited for at once",
            line=line_of(part),
        )


def goes_on(runs, world_size):
    """Whether the other ranks came to the end of backward while the last one was late: no hook of theirs waits for what
    it has not sent, neither by itself nor for a thread that does."""
    run = next(run for run in runs("train", finished=False) if run.world_size == world_size)
    spans = run[world_size - 1].trace.spans
    return any(span.name == "the others have gone on" for span in spans)


def expect_all_in_backward(run, region):
    for rank in run if run.world_size > 1 else ():
        expect_in_backward(rank, carried(rank, region), f"the buckets of {region}")


# Parameters of all kinds


def expect_elements(rank, probe, part):
    """What carries the buckets has as many elements as the gradients, in whatever dtype."""
    sent, given = carried(rank, last_region(probe, part)), sizes(probe, part)
    found = sum(elements(rank, one) for one in sent)
    wanted = sum(size / getattr(torch, dtype).itemsize for size, dtype in given)
    good = wanted <= found <= wanted + PADDING / 4 * len(sent)
    rank.expect(good, f"the buckets of {PARTS[part]}", f"{wanted:.0f} elements", f"{found:.0f}", line=line_of(sent))


def test_frozen(runs, probe):
    """Frozen parameters get no gradient, are not sent and hold up no bucket"""
    overlapping = holds(test_overlaps, runs, probe)
    for run in expect_steps(runs, probe, "frozen"):
        for rank in run:
            for step in saw(rank, "frozen", list[Taken]):
                given = sorted(name for name in step["after"] if name.startswith("frozen"))
                rank.expect(not given, "the gradients of frozen parameters", "None", f"gradients for {given}")
            expect_elements(rank, probe, "frozen")
            expect_nothing_beside(rank, probe, last_region(probe, "frozen"), "frozen")
        if overlapping:
            expect_all_in_backward(run, "step 0 of frozen")


def test_tied(runs, probe):
    """A parameter that two layers share is averaged once"""
    overlapping = holds(test_overlaps, runs, probe)
    for run in expect_steps(runs, probe, "tied"):
        for rank in run:
            expect_elements(rank, probe, "tied")
        if overlapping:
            expect_all_in_backward(run, "step 0 of tied")


def test_dtypes(runs, probe):
    """Several dtypes: each bucket has one, and every gradient the accuracy of its own"""
    roomy, overlapping = holds(test_bucket_sizes, runs, probe), holds(test_overlaps, runs, probe)
    for run in expect_steps(runs, probe, "dtypes"):
        for rank in run:
            sent, given = carried(rank, last_region(probe, "dtypes")), sizes(probe, "dtypes")
            for dtype in dict.fromkeys([*(dtype for _, dtype in given), *(one.dtype for one in sent)]):
                these = [one for one in sent if one.dtype == dtype]
                wanted = sum(size for size, kind in given if kind == dtype)
                found = sum(length(rank, one) for one in these)
                good = wanted <= found <= wanted + PADDING * len(these)
                subject = f"{dtype} in the buckets of {PARTS['dtypes']}"
                rank.expect(good, subject, amount(wanted), amount(found), line=line_of(sent))
            for one in sent if roomy else ():
                expect_room(rank, probe, probe.PLANS["dtypes"], one, f"a bucket of {one.dtype}, of several dtypes")
        if overlapping:
            expect_all_in_backward(run, "step 0 of dtypes")


def test_layouts(runs, probe):
    """Parameters that are not contiguous are averaged element by element"""
    overlapping = holds(test_overlaps, runs, probe)
    for run in expect_steps(runs, probe, "layouts"):
        if overlapping:
            expect_all_in_backward(run, "step 0 of layouts")
    if holds(test_unused_somewhere, runs, probe):
        expect_steps(runs, probe, "layouts_somewhere")


def test_two_wrappers(runs, probe):
    """Two wrappers in one process have nothing to do with one another"""
    overlapping = holds(test_overlaps, runs, probe)
    for run, seen in part_of(runs, "two_wrappers", dict[str, Tensors]):
        for model in ("plain", "tied"):
            mine = {rank: found.get(model, {}) for rank, found in seen.items()}
            every = gradients(probe, run, model, ("two",), ("two", model))
            expect_average(runs, probe, run, mine, every, PARTS["two_wrappers"])
        if not holds(test_later_steps, runs, probe):
            continue
        beside = {rank: found.get("beside", {}) for rank, found in seen.items()}
        every = gradients(probe, run, "plain", ("two",), ("beside",))
        expect_average(runs, probe, run, beside, every, BESIDE)
        if overlapping:
            expect_all_in_backward(run, BESIDE)


# no_sync


def in_no_sync(runs, probe):
    """The parts with no_sync; the second comes after another step, and is judged where such steps are right."""
    return ("no_sync_once", "no_sync_twice") if holds(test_later_steps, runs, probe) else ("no_sync_once",)


def test_no_sync_inside(runs, probe):
    """In no_sync gradients add up on each rank, and nothing is sent"""
    for part, times in zip(in_no_sync(runs, probe), ("once", "twice"), strict=False):
        for run, seen in part_of(runs, part, list[Taken]):
            last = len(probe.PLANS[part].steps) - 1
            for rank, own in zip(run, planned(probe, run, part, last, inside=True), strict=True):
                sent = rank.during(f"no_sync before {last_region(probe, part)}")
                silent = run.world_size == 1 or not len(sent)
                rank.expect(silent, f"in no_sync, entered {times}", "nothing sent", told(sent), line=line_of(sent))
                inside = seen[rank.rank][-1]["inside"] if seen[rank.rank] else {}
                expect_gradients(run, {rank.rank: inside}, own, f"in no_sync, entered {times}", {})


def test_no_sync_after(runs, probe):
    """The backward pass after no_sync averages all that has added up"""
    overlapping = holds(test_overlaps, runs, probe)
    for part in in_no_sync(runs, probe):

        def last(run, number, part=part):
            return {
                "only the last backward pass is in it": mean(
                    gradients(probe, run, "plain", (part, number), (part, number, 2))
                )
            }

        for run in expect_steps(runs, probe, part, clauses=last):
            if overlapping:
                expect_all_in_backward(run, last_region(probe, part))


def test_no_sync_exception(runs, probe):
    """no_sync ends with its block, also when an exception leaves it"""
    overlapping, silent = holds(test_overlaps, runs, probe), holds(test_no_sync_inside, runs, probe)
    for run in expect_steps(runs, probe, "after_exception"):
        for rank in run:
            left, sent = rank.read("left no_sync", bool), rank.during("no_sync, left by an exception")
            rank.expect(left, "an exception in no_sync", "leaves it", "is swallowed")
            quiet = not silent or not len(sent)
            rank.expect(quiet, "in no_sync, left by an exception", "nothing sent", told(sent), line=line_of(sent))
        if overlapping:
            expect_all_in_backward(run, "step 0 of after_exception")


# Parameters that a backward pass does not use


def test_unused_everywhere(runs, probe):
    """Parameters that no rank uses end with no gradient or zeros, and hold nothing up"""
    expect_without_some(runs, probe, "unused_everywhere", used=1)


def expect_without_some(runs, probe, part, used=None):
    """The gradients of all steps. In the one whose number is `used` all ranks use everything, so it overlaps again."""
    if any(left_alone(runs)):
        raise NotJudged("the gradients are read before they are there")
    for run in expect_steps(runs, probe, part):
        if used is not None and holds(test_overlaps, runs, probe):
            expect_all_in_backward(run, regions_of(probe, part)[used])


def test_unused_somewhere(runs, probe):
    """Parameters that some ranks do not use count as zero there"""
    expect_without_some(runs, probe, "unused_somewhere", used=1 if holds(test_unused_everywhere, runs, probe) else None)


def test_used_in_no_sync(runs, probe):
    """What was used in no_sync alone is averaged as well"""
    expect_without_some(runs, probe, "unused_after_no_sync")


# Wrong use


def says_what_is_wrong(outcome):
    """Whether an error was raised on purpose, as far as its kind and its message tell."""
    message = outcome["message"].strip()
    return bool(message) and not ACCIDENTS & {*outcome["raised"]} and not any(one in message for one in OF_PYTHON)


def test_twice(runs, probe):
    """Two backward passes before one finish raise an error, or are averaged both"""
    in_order(runs, APART[: APART.index("layouts_somewhere")])
    for part, before in (("twice", "layouts_somewhere"), ("twice_again", "twice")):
        for run in runs("apart", recorded=[part], after=[before]):
            Baseline(runs, probe, run)
            for rank in run:
                outcome = rank.read(part, Part)
                if outcome["raised"]:
                    clear = says_what_is_wrong(outcome)
                    seen = ": ".join(outcome["raised"][:1])
                    rank.expect(clear, PARTS[part], "an error that says what is wrong", seen)
                else:
                    skip = probe.UNUSED if part == "twice_again" else ()
                    every = gradients(probe, run, "plain", ("twice",), ("twice", 0), ("twice", 1), skip=skip)
                    expect_average(runs, probe, run, {rank.rank: saw(rank, part, Tensors)}, every, PARTS[part])
