"""What memory_bytes, step_seconds and plan must say, by a cost model that is written here a second time."""

import functools
import math
import re
from itertools import chain
from math import gcd

import numpy as np
from typing_extensions import TypedDict

from grader.checks import Attempt

ROUNDINGS = 200
"""Terms of a cost, for the tolerance: formulas may be arranged in any way, and differences of costs are judged."""
ADAM = np.array([[16, 0], [4, 12], [2, 14], [0, 16]])
"""Bytes a parameter that each stage of ZeRO keeps whole, and divides among the replicas."""

# -- The cost model: numbers, or arrays of them for many plans at once ------------------------------------------------


def parameters(model, plan):
    """Those of a GPU of the first stage."""
    layers, hidden, _, seq_len, vocab, _ = model
    _, tp, pp, *_ = plan
    return (layers / pp * (12 * hidden**2 + 13 * hidden) + (vocab + seq_len) * hidden) / tp


def state(model, plan, stage=None):
    """Bytes of parameters, gradients and Adam, at the plan's stage of ZeRO or at another."""
    whole, divided = ADAM[plan[3] if stage is None else stage].T
    return (whole + divided / plan[0]) * parameters(model, plan)


def layer_bytes(model, plan):
    """What one layer keeps of one micro-batch without recomputation."""
    _, hidden, heads, seq_len, *_ = model
    return seq_len * plan[4] * hidden * (10 + 24 / plan[1] + 5 * heads * seq_len / (hidden * plan[1]))


def kept_bytes(model, plan):
    """What one layer keeps of one micro-batch until its backward."""
    return np.where(plan[5], 2.0 * model[3] * plan[4] * model[1], layer_bytes(model, plan))


def micro_batches(model, plan):
    return model[5] // (plan[0] * plan[4])


def memory(model, plan):
    in_flight = np.minimum(plan[2], micro_batches(model, plan))
    kept = model[0] / plan[2] * in_flight * kept_bytes(model, plan)
    return state(model, plan) + kept + plan[5] * layer_bytes(model, plan)


def compute(model, cluster, plan):
    """Seconds of one micro-batch on the last stage."""
    layers, hidden, _, seq_len, vocab, _ = model
    _, tp, pp, _, batch, recompute = plan
    layer = 24 * batch * seq_len * hidden**2 + 4 * batch * seq_len**2 * hidden
    return (layers / pp * (3 + recompute) * layer + 6 * batch * seq_len * hidden * vocab) / (tp * cluster[3])


def message(model, plan):
    """Bytes of the activations between two layers."""
    return 2 * plan[4] * model[3] * model[1]


def tensor(model, cluster, plan):
    """Seconds of the all-reduces of one micro-batch."""
    tp, steps = plan[1], 2 * (plan[1] - 1)
    ring = steps / tp * message(model, plan) / cluster[4] + steps * cluster[6]
    return model[0] / plan[2] * (4 + 2 * plan[5]) * ring


def pipeline(model, cluster, plan):
    """Seconds of one micro-batch's way to the next stage and back."""
    bandwidth = cluster[4] if cluster[0] == 1 else cluster[5]
    return np.where(plan[2] > 1, 2 * (message(model, plan) / plan[1] / bandwidth + cluster[6]), 0.0)


def passes(model, plan):
    """How often the parameters' bytes go around among the replicas in a step."""
    count = micro_batches(model, plan)
    return np.choose(plan[3], [2 + 0 * count, 2 + 0 * count, count + 1, 3 * count])


def data(model, cluster, plan):
    """Seconds of gradients and parameters among the replicas."""
    dp, tp, *_ = plan
    bandwidth = np.where(cluster[1] % (tp * dp) == 0, cluster[4], cluster[5])
    one = (dp - 1) / dp * 2 * parameters(model, plan) / bandwidth + (dp - 1) * cluster[6]
    return passes(model, plan) * one


def seconds(model, cluster, plan):
    one = compute(model, cluster, plan) + tensor(model, cluster, plan) + pipeline(model, cluster, plan)
    return (micro_batches(model, plan) + plan[2] - 1) * one + data(model, cluster, plan)


# -- All plans of a cluster -------------------------------------------------------------------------------------------


def divisors(number):
    return [k for k in range(1, number + 1) if number % k == 0]


def legal_plans(model, cluster):
    """As six arrays: dp, tp, pp, ZeRO's stage, micro-batch, recomputation."""
    layers, _, heads, _, _, batch = model
    gpus, rows = cluster[0] * cluster[1], []
    for tp in divisors(gcd(heads, cluster[1])):
        for pp in divisors(gcd(layers, gpus // tp)):
            dp = gpus // (tp * pp)
            if batch % dp == 0:
                stages = range(4 if pp == 1 else 2)
                sizes = divisors(batch // dp)
                rows += [(dp, tp, pp, stage, size, again) for stage in stages for size in sizes for again in (0, 1)]
    return np.array(rows, dtype=np.int64).reshape(-1, 6).T


# -- Memory -----------------------------------------------------------------------------------------------------------


class Asked(TypedDict):
    """What a cost function returned."""

    outcome: Attempt
    value: float | None
    type: str


def shown(model, cluster, plan):
    """A question, in the symbols of the statement."""
    model_text = "L={}, h={}, a={}, s={}, V={}, B={}".format(*model)
    plan_text = "d={}, t={}, p={}, z={}, b={}, r={}".format(*(int(x) for x in plan))
    fitting = "" if memory(model, plan) <= cluster[2] else "; a plan that does not fit"
    return f"{model_text}; {cluster[0]} x {cluster[1]} GPUs; {plan_text}{fitting}"


def answers(runs, name, rows):
    """(rank, row, two numbers) of the questions of a kind, asked in pairs."""
    for run in runs("costs"):
        for rank in run:
            seen, given = rank.read(name, list[list[Asked]]), rows(rank.secret)
            rank.expect_equal([len(pair) for pair in seen], [2] * len(given), "the number of answers")
            for row, pair in zip(given, seen, strict=True):
                for one in pair:
                    rank.expect_success(one["outcome"], shown(row[0], *row[-2:]), expected="a number")
                    expect_number(rank, one, shown(row[0], *row[-2:]))
                yield rank, row, [one["value"] for one in pair]


def expect_number(rank, seen, subject):
    """A finite one: some costs are judged by others that the student's function gives, and NaN is like NaN."""
    rank.expect(seen["value"] is not None, subject, "a number", f"a {seen['type']}")
    rank.expect(math.isfinite(seen["value"]), subject, "a finite number", seen["value"])


def close(rank, actual, expected, subject, **mistakes):
    """Numbers; a mistake's words have underscores in place of blanks."""
    clauses = {words.replace("_", " "): float(value) for words, value in mistakes.items()}
    rank.expect_close(float(actual), float(expected), subject, terms=ROUNDINGS, alternatives=clauses)


def by_micro_batch(runs, probe, name):
    """Of each pair: what of the memory does not grow with the micro-batch, and what does."""
    again = name == "recomputed"
    for rank, (model, cluster, plan, _), (one, two) in answers(
        runs, name, lambda secret: probe.memory_pairs(secret, name, recompute=(again,))
    ):
        yield rank, model, plan, shown(model, cluster, plan), 2 * one - two, two - one


def test_state(runs, probe):
    """memory_bytes: parameters, gradients and Adam, sharded by ZeRO"""
    for name in ("memory", "recomputed"):
        for rank, model, plan, words, fixed, _ in by_micro_batch(runs, probe, name):
            subject = f"2 · memory_bytes(b) - memory_bytes(2b), the model's state: {words}"
            others = {f"that_of_ZeRO_stage_{z}": state(model, plan, z) for z in range(4) if z != plan[3]}
            bare = (*model[:3], 0, 0, model[5])
            close(
                rank, fixed, state(model, plan), subject, **others,
                without_the_embeddings=state(bare, plan), not_divided_by_t=state(model, plan) * plan[1],
                without_dividing_the_layers_by_p=state((model[0] * plan[2], *model[1:]), plan),
            )  # fmt: skip


def test_activations(runs, probe):
    """memory_bytes: activations, all kept"""
    for rank, model, plan, words, _, grows in by_micro_batch(runs, probe, "memory"):
        layer = layer_bytes(model, plan)
        elements, pairs = model[3] * plan[4] * model[1], plan[4] * model[2] * model[3] ** 2
        close(
            rank, grows, model[0] * layer, f"memory_bytes(2b) - memory_bytes(b), the activations of b: {words}",
            those_of_one_micro_batch_where_the_first_stage_holds_p=model[0] / plan[2] * layer,
            all_of_them_divided_by_t=model[0] * (34 * elements + 5 * pairs) / plan[1],
            without_the_matrices_of_attention=model[0] * (10 + 24 / plan[1]) * elements,
        )  # fmt: skip


def test_recomputed(runs, probe):
    """memory_bytes: activations, recomputed"""
    rows = by_micro_batch(runs, probe, "recomputed")
    once = answers(runs, "one stage", lambda secret: probe.memory_pairs(secret, "recomputed", recompute=(True,)))
    for (rank, model, plan, words, _, grows), (_, _, (one, two)) in zip(rows, once, strict=True):
        layer, kept = (two - one) / model[0], model[0] * kept_bytes(model, plan)  # whatever a layer was said to be
        close(
            rank, grows, kept + layer, f"memory_bytes(2b) - memory_bytes(b), the activations of b: {words}",
            without_the_layer_that_is_being_recomputed=kept, as_without_recomputation=model[0] * layer,
            those_of_one_micro_batch_where_the_first_stage_holds_p=kept / plan[2] + layer,
        )  # fmt: skip


def test_in_flight(runs, probe):
    """memory_bytes: no more micro-batches in flight than there are"""
    for rank, (model, small, cluster, plan), (full, few) in answers(runs, "half filled", probe.half_filled):
        count = micro_batches(small, plan)
        expected = model[0] / plan[2] * (plan[2] - count) * kept_bytes(model, plan)
        subject = f"how much less {count} micro-batches need than p or more: {shown(model, cluster, plan)}"
        close(rank, full - few, expected, subject)


# -- Time -------------------------------------------------------------------------------------------------------------


def more_micro_batches(runs, probe, kind):
    """Of each question: what one micro-batch more takes."""
    for rank, row, (one, three) in answers(runs, kind, lambda secret: probe.timed(secret, kind)):
        model, _, cluster, plan = row
        more = (three - one) / (2 * micro_batches(model, plan))
        yield rank, model, cluster, plan, more, f"one micro-batch more: {shown(model, cluster, plan)}"


def test_compute(runs, probe):
    """step_seconds: the arithmetic of a micro-batch"""
    for rank, model, cluster, plan, more, words in more_micro_batches(runs, probe, "compute"):
        bare, once = (*model[:4], 0, model[5]), (*plan[:5], 0)
        close(
            rank, more, compute(model, cluster, plan), words,
            without_the_logits=compute(bare, cluster, plan), without_the_recomputation=compute(model, cluster, once),
            not_divided_by_t=compute(model, cluster, plan) * plan[1],
        )  # fmt: skip


def test_bubble(runs, probe):
    """step_seconds: m micro-batches and p - 1 more"""
    for rank, row, (one, three) in answers(runs, "bubble", lambda secret: probe.timed(secret, "bubble")):
        model, larger, cluster, plan = row
        few, many = micro_batches(model, plan), micro_batches(larger, plan)
        rank.expect(one > 0, f"step_seconds: {shown(model, cluster, plan)}", "more than 0", one)
        subject = f"how many times as long a step of {many} micro-batches takes as one of {few}, with p = {plan[2]}"
        expected = (many + plan[2] - 1) / (few + plan[2] - 1)
        close(rank, three / one, expected, subject, there_is_no_bubble=many / few)


def test_tensor(runs, probe):
    """step_seconds: all-reduces of tensor parallelism"""
    for rank, model, cluster, plan, more, words in more_micro_batches(runs, probe, "tensor"):
        expected = tensor(model, cluster, plan)
        once = (*plan[:5], 0)
        close(
            rank, more, expected, words, without_those_of_the_recomputation=tensor(model, cluster, once),
            an_all_reduce_sends_the_bytes_twice=expected / 2, for_all_layers=expected * plan[2],
        )  # fmt: skip


def test_pipeline(runs, probe):
    """step_seconds: from stage to stage and back"""
    for kind in ("pipeline", "pipeline on one node"):
        for rank, model, cluster, plan, more, words in more_micro_batches(runs, probe, kind):
            expected = pipeline(model, cluster, plan)
            close(rank, more, expected, words, one_way_only=expected / 2, each_GPU_sends_everything=expected * plan[1])


def judge_whole(runs, probe, kind, words, mistakes=lambda *question: {}):
    """The whole time of a step."""
    for rank, row, found in answers(runs, kind, lambda secret: probe.timed(secret, kind)):
        for model, value in zip(row[:2], found, strict=True):
            question = (model, *row[2:])
            expected = seconds(*question)
            close(rank, value, expected, f"{words}: {shown(*question)}", **mistakes(*question))


def test_data(runs, probe):
    """step_seconds: gradients and parameters among the replicas, at each stage of ZeRO"""

    def mistakes(model, cluster, plan):
        whole = data(model, cluster, plan)
        most = {f"that_of_ZeRO_stage_{z}": data(model, cluster, (*plan[:3], z, *plan[4:])) for z in range(4)}
        return {**most, "half_of_it": whole / 2, "twice_as_much": whole * 2}

    judge_whole(runs, probe, "data", "a step that only communicates among replicas", mistakes)


def test_link(runs, probe):
    """step_seconds: replicas inside a node, and across nodes"""

    def mistakes(model, cluster, plan):
        fast, slow = (*cluster[:5], cluster[4], cluster[6]), (*cluster[:4], cluster[5], *cluster[5:])
        rest = seconds(model, cluster, plan) - data(model, cluster, plan)
        return {
            "as_within_a_node": rest + data(model, fast, plan),
            "as_across_nodes": rest + data(model, slow, plan),
        }

    judge_whole(runs, probe, "link", "a step that communicates only", mistakes)


def test_latency(runs, probe):
    """step_seconds: the latency of every message"""
    judge_whole(runs, probe, "latency", "a step that takes nothing but latency")


def test_total(runs, probe):
    """step_seconds: all of it together"""
    judge_whole(runs, probe, "total", "a whole step")


# -- Plans ------------------------------------------------------------------------------------------------------------

EDGE = 1e-9
"""So near to a GPU's memory, relatively, a plan may be taken to fit or not."""
BORROWED = re.compile(
    r"\W*|(min|max)\(\) (arg is an empty sequence|iterable argument is empty)|not enough values to unpack \(.*"
    r"|zero-size array to reduction operation .*|attempt to get arg(min|max) of an empty sequence|All-NaN .*"
    r"|need at least one array to .*|\S+ is not in list|\w+\.\w+\(x\): x not in \w+|no \w+ for empty data"
    r"|can only convert an array of size 1 to a Python scalar|The truth value of an empty array is ambiguous.*"
    r"|'?a'? cannot be empty unless no samples are taken|index 0 is out of bounds for array with size 0"
)
"""The whole of a message that is nobody's own words: none at all, or what Python and NumPy say where nothing is left to
choose from. Whatever else it says is taken to say that nothing fits."""


class Planned(TypedDict):
    """What `plan` found."""

    outcome: Attempt
    fields: list[int]
    type: str


@functools.cache
def to_be_found(model, cluster):
    return Best(model, cluster)


class Best:
    """What there is to be found on a cluster."""

    def __init__(self, model, cluster):
        self.model, self.cluster, every = model, cluster, legal_plans(model, cluster)
        needs, times = memory(model, every), seconds(model, cluster, every)
        self.memory, self.plans = cluster[2], {tuple(map(int, plan)): i for i, plan in enumerate(every.T)}
        self.needs, self.times = needs, times
        self.fits, surely = needs <= self.memory * (1 + EDGE), needs <= self.memory * (1 - EDGE)
        self.possible, self.best = bool(self.fits.any()), float(times[surely].min()) if surely.any() else None
        self.words = "L={}, h={}, a={}, s={}, V={}, B={} on {} x {} GPUs".format(*model, *cluster[:2])


def found(runs, family, names, questions):
    """(rank, what there is to be found, what was)."""
    for run in runs(family):
        for rank in run:
            for name in names:
                seen, given = rank.read(name, list[Planned]), questions(rank.secret)[name]
                rank.expect_equal(len(seen), len(given), "the number of answers")
                yield from ((rank, to_be_found(*question), one) for question, one in zip(given, seen, strict=True))


def possible(runs, probe, *names):
    """Those where a plan fits, and one was found that is legal."""
    yield from legal_ones(found(runs, "plans", names, probe.clusters))


def trapped(runs, probe):
    """The same of those that catch searches which leave something out, or keep what they found."""
    yield from legal_ones(found(runs, "trapped", ["unusual", "twins"], probe.traps))


def legal_ones(asked):
    for rank, there, seen in asked:
        if there.possible:
            expect_legal(rank, there, seen)
            yield rank, there, there.plans[tuple(seen["fields"])], seen


def expect_legal(rank, there, seen):
    rank.expect_success(seen["outcome"], f"plan: {there.words}", expected="a plan")
    rank.expect(seen["fields"], f"plan: {there.words}", "a Plan of whole numbers", f"a {seen['type']}")
    if tuple(seen["fields"]) not in there.plans:
        told = f"{plan_text(seen)}: {broken_rule(there, seen)}"
        rank.fail(f"plan: {there.words}", expected="a legal plan", actual=told)


def broken_rule(there, seen):
    """Why a plan is not legal."""
    (layers, _, heads, *_, total), (nodes, per_node, *_) = there.model, there.cluster
    dp, tp, pp, stage, batch, _ = seen["fields"]
    gpus = nodes * per_node
    rules = {
        "a number below 1": min(dp, tp, pp, batch) < 1,
        f"dp · tp · pp is not {gpus}": dp * tp * pp != gpus,
        f"tp does not divide {heads} heads": tp > 0 and heads % tp,
        f"tp does not divide a node's {per_node} GPUs": tp > 0 and per_node % tp,
        f"pp does not divide {layers} layers": pp > 0 and layers % pp,
        f"dp · micro_batch does not divide {total} sequences": dp * batch > 0 and total % (dp * batch),
        "zero_stage is above 1 in a pipeline": pp > 1 and stage > 1,
    }
    return next((words for words, broken in rules.items() if broken), "zero_stage is not 0 to 3")


def plan_text(seen):
    return "dp={}, tp={}, pp={}, zero_stage={}, micro_batch={}, recompute={}".format(*seen["fields"])


def test_legal(runs, probe):
    """plan: a legal plan where all of them fit, and no other one anywhere"""
    for _ in possible(runs, probe, "roomy"):
        pass
    anywhere = found(runs, "plans", ["ordinary", "thumb", "tight", "short"], probe.clusters)
    for rank, there, seen in chain(anywhere, found(runs, "trapped", ["unusual", "twins"], probe.traps)):
        if not seen["outcome"]["raised"] and seen["fields"]:
            expect_legal(rank, there, seen)


def expect_fits(rank, there, place, seen):
    wanted = f"at most {there.memory / 1e9:.4g} GB"
    actual = f"{there.needs[place] / 1e9:.4g} GB by {plan_text(seen)}"
    rank.expect(there.fits[place], f"plan: {there.words}: the fullest GPU's memory", wanted, actual)


def test_fits(runs, probe):
    """plan: one that fits into memory, wherever there is one"""
    for rank, there, place, seen in chain(possible(runs, probe, "ordinary", "thumb"), trapped(runs, probe)):
        expect_fits(rank, there, place, seen)


def expect_fast(rank, there, place, seen):
    """At most 5 % above the best."""
    if there.best is not None:
        time, wanted = there.times[place], f"at most {1.05 * there.best:.4g} s, 1.05 times the least there is"
        actual = f"{time:.4g} s, {time / there.best:.3g} times the least, by {plan_text(seen)}"
        rank.expect(time <= 1.05 * there.best * (1 + EDGE), f"plan: {there.words}: a step", wanted, actual)


def test_best(runs, probe):
    """plan: at most 5 % slower than the best, where rules of thumb are three times slower too"""
    asked = possible(runs, probe, "roomy", "ordinary", "thumb")
    for rank, there, place, seen in chain(asked, trapped(runs, probe)):
        expect_fast(rank, there, place, seen)


def test_tight(runs, probe):
    """plan: the only one that fits, also where it fills the memory exactly"""
    for rank, there, place, seen in possible(runs, probe, "tight"):
        expect_fits(rank, there, place, seen)


def test_short(runs, probe):
    """plan: ValueError where memory is short on every plan, and it says so"""
    for rank, there, seen in found(runs, "plans", ["short"], probe.clusters):
        expect_refused(rank, seen, there, f"plan: {there.words} of {there.memory / 1e9:.4g} GB")


def test_indivisible(runs, probe):
    """plan: ValueError where there is no legal plan, and it says so"""
    for rank, there, seen in found(runs, "plans", ["indivisible"], probe.clusters):
        expect_refused(rank, seen, there, f"plan: {there.words}, among which it cannot be divided")


def expect_refused(rank, seen, there, subject):
    rank.expect(not there.possible, subject, "a cluster without a plan", "one that has")
    rank.expect_raised(seen["outcome"], "ValueError", subject, returned=f"a {seen['type']}")
    said = seen["outcome"]["message"]
    wanted = "your own words: that nothing fits, or what is short"
    rank.expect(not BORROWED.fullmatch(said), f"{subject}: the message", wanted, repr(said))


def test_large(runs, probe):
    """plan: thousands of GPUs, in a short time"""
    for rank, there, seen in found(runs, "largest", ["large"], lambda secret: {"large": probe.large(secret)}):
        if there.possible:
            expect_legal(rank, there, seen)
            place = there.plans[tuple(seen["fields"])]
            expect_fits(rank, there, place, seen)
            expect_fast(rank, there, place, seen)
