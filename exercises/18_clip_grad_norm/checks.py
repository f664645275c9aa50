"""Judges the recorded calls of `clip_grad_norm_sharded_`: the norm, what became of the gradients, and the traffic.

The judge draws the gradients of all ranks again and computes the norm over them in float64. Gradients are scaled by any
factor that the contract allows; one that is not allowed is compared with those that common mistakes lead to.
"""

import math

import torch

from grader.checks import Attempt, NotJudged, Tensor, TypedDict, holds, line_of, rank_list, told

F64 = torch.float64
EPSILON = 1e-6
ROUNDING = 1e-11
"""Relative, of a factor in float64."""
SMALL = 1024
"""Bytes of a small collective."""


class Clipped(Attempt):
    """A call: what it returned, and its gradients afterwards by number. `type` is that of what is no tensor,
    `elsewhere` the gradients that are other tensors now, `moved` the parameters whose values have changed, `around` how
    many elements beside each gradient have, `changed` what else has, `overwritten` whether the norm that the call
    before returned has."""

    type: str
    norm: Tensor
    after: dict[str, Tensor | None]
    elsewhere: list[str]
    moved: int
    around: list[int]
    changed: list[str]
    overwritten: bool


# What was recorded


def calls_in(runs, probe, *stages, family="clipping"):
    """(run, name, what was given, the ranks that took part) of all calls of some stages, in the runs that came to
    them."""
    names, every = [name for stage in stages for name in stage], list(probe.CALLS)
    before = every[: every.index(names[0])][-1:]
    came = runs(family, recorded=names, after=before)
    return [(run, name, probe.CALLS[name], range(run.world_size)) for run in came for name in names]


def calls_in_groups(runs, probe):
    """Likewise of the calls in groups."""
    names = [f"{what} among {among}" for what in probe.IN_GROUPS for among in probe.GROUPS]
    for run in runs("groups", recorded=names):
        for what, given in probe.IN_GROUPS.items():
            for among, ranks in probe.GROUPS.items():
                yield run, f"{what} among {among}", given, ranks


def clipped(rank, name):
    """What a rank recorded of a call that raised nothing."""
    seen = rank.read(name, Clipped)
    rank.expect_success(seen, f"clip_grad_norm_sharded_ of {name}")
    return seen


# What should come out


def gradients_of(run, name, given, ranks):
    """By rank its gradients before the call, by number; None where there is none."""
    return {number: given.gradients(run[number].secret, name, place, len(ranks)) for place, number in enumerate(ranks)}


def norm_of(gradients, p):
    """The p-norm over all of them in float64, and 0 where there are none."""
    flat = [one.double().reshape(-1) for one in gradients if one is not None and one.numel()]
    return float(torch.linalg.vector_norm(torch.cat(flat), p)) if flat else 0.0


def all_of(by_rank):
    return [one for gradients in by_rank.values() for one in gradients.values()]


def widest(gradients):
    """The widest dtype of all gradients; float64 where there are none."""
    dtypes = {one.dtype for one in gradients if one is not None}
    return max(dtypes, key=lambda dtype: (dtype.itemsize, -torch.finfo(dtype).eps)) if dtypes else F64


def wrong_norms(by_rank, number, p, dtype):
    """What a wrong norm may be, by the words for it."""
    own = {one: norm_of(gradients.values(), p) for one, gradients in by_rank.items()}
    wrong = {}
    if len(by_rank) > 1:
        wrong["this is the norm of the rank's own shards"] = own[number]
        wrong["the ranks' norms are added up"] = sum(own.values())
        wrong["this is the mean of the ranks' norms"] = sum(own.values()) / len(own)
        wrong["this is the largest of the ranks' norms"] = max(own.values())
        wrong["this is the norm of the means over the ranks"] = norm_of(all_of(by_rank), p) / math.sqrt(len(own))
    wrong["this is the square of the norm"] = norm_of(all_of(by_rank), p) ** 2
    other = 2.0 if math.isinf(p) else math.inf
    wrong[f"this is the {'L2' if other == 2 else 'infinity'} norm"] = norm_of(all_of(by_rank), other)
    per_shard = [norm_of([one], p) for one in all_of(by_rank) if one is not None]
    wrong["the shards' norms are added up"] = sum(per_shard)
    return {words: torch.tensor(one, dtype=F64).to(dtype) for words, one in wrong.items()}


def expect_norm(run, name, given, ranks):
    """On each of these ranks the norm over all shards of all of them, as accurate as the widest dtype."""
    by_rank = gradients_of(run, name, given, ranks)
    dtype, wanted = widest(all_of(by_rank)), norm_of(all_of(by_rank), given.norm_type)
    for number in ranks:
        seen = clipped(run[number], name)["norm"]
        subject = f"the norm returned for {name}"
        run[number].expect(seen.numel() == 1, subject, "one number", f"a tensor of shape {list(seen.shape)}")
        seen = seen.reshape(()).real.to(dtype)
        expected = torch.tensor(wanted, dtype=F64).to(dtype)
        wrong = wrong_norms(by_rank, number, given.norm_type, dtype)
        run[number].expect_close(seen, expected, subject, terms=8, world_size=len(ranks), alternatives=wrong)


def expect_gradients(run, name, given, ranks, by_own_word=False):
    """On each of these ranks its gradients, scaled where the norm is too large, else the same bits. `by_own_word` takes
    the norm that the rank itself has returned as well: whether that is right is another check's business."""
    by_rank = gradients_of(run, name, given, ranks)
    norm = norm_of(all_of(by_rank), given.norm_type)
    for number in ranks:
        before = {key: one for key, one in by_rank[number].items() if one is not None}
        after = expect_kept(run[number], name, by_rank[number])
        if norm <= given.max_norm - EPSILON or not norm:  # whatever zeros are scaled by, they stay
            expect_untouched(run[number], name, before, after, "below max_norm" if norm else "of 0")
        elif not (by_own_word and holds(expect_by_own_word, run[number], name, given, before, after)):
            expect_scaled(run[number], name, given, before, after, norm)


def expect_by_own_word(rank, name, given, before, after):
    norm = clipped(rank, name)["norm"]
    rank.expect(norm.numel() == 1 and float(norm.real) > given.max_norm, "the norm returned", "a large one", "another")
    expect_scaled(rank, name, given, before, after, float(norm.real))


def expect_kept(rank, name, before):
    """The gradients after the call, where there were some before, of the same shapes and dtypes."""
    after = clipped(rank, name)["after"]
    for key, one in before.items():
        seen = after.get(key)
        rank.expect((seen is None) == (one is None), f"gradient {key} of {name}", *map(words_for, (one, seen)))
    found = {key: one for key, one in after.items() if one is not None}
    rank.expect_like(found, {key: one for key, one in before.items() if one is not None}, f"the gradients of {name}")
    return found


def words_for(gradient):
    return "None" if gradient is None else "a gradient"


def expect_untouched(rank, name, before, after, words):
    for key, one in before.items():
        subject = f"gradient {key} of {name}, of a norm {words}"
        rank.expect_equal(after[key], one, subject)


def expect_scaled(rank, name, given, before, after, norm):
    """All gradients are scaled by one factor that the contract allows."""
    low, high = given.max_norm / (norm + EPSILON), given.max_norm / norm
    factor = measured(before, after) if math.isfinite(norm) else high
    allowed = low * (1 - ROUNDING) <= factor <= high * (1 + ROUNDING)
    factor = factor if allowed else low
    wanted = scaled(before, factor)
    wrong = {words: scaled(before, one) for words, one in wrong_factors(given, before, norm).items()}
    rank.expect_close(after, wanted, f"the gradients of {name}", stale=before, alternatives=wrong)


def scaled(gradients, factor):
    return {key: (one.double() * factor).to(one.dtype) for key, one in gradients.items()}


def measured(before, after):
    """The factor of float64 gradients, in least squares; NaN where there are none."""
    wide = [key for key, one in before.items() if one.dtype == F64]
    size = sum(float(before[key].square().sum()) for key in wide)
    return sum(float((before[key] * after[key]).sum()) for key in wide) / size if size else math.nan


def wrong_factors(given, before, norm):
    """By which factor gradients may have been scaled by mistake, by the words for it."""
    own = norm_of(before.values(), given.norm_type)
    wrong = {"divided by the norm, without max_norm": 1 / norm, "scaled twice": (given.max_norm / norm) ** 2}
    wrong["scaled by max_norm / norm²"] = given.max_norm / norm**2
    if own:
        wrong["scaled by the norm of the rank's own shards"] = min(1.0, given.max_norm / own)
        wrong["scaled by the norm of the rank's own shards, whatever that is"] = given.max_norm / own
    return {f"this is {words}" if words == "scaled twice" else words: one for words, one in wrong.items()}


def judge(calls):
    for call in calls:
        expect_norm(*call)
        expect_gradients(*call)


# The norm and the gradients


def test_norm(runs, probe):
    """Every rank gets the L2 norm over all shards of all ranks"""
    for call in calls_in(runs, probe, probe.FIRST):
        expect_norm(*call)


def test_returns_tensor(runs, probe):
    """The norm is a tensor, which later calls leave as it is"""
    for run, name, _, _ in calls_in(runs, probe, probe.FIRST):
        for rank in run:
            seen = clipped(rank, name)
            rank.expect(not seen["type"], "what was returned", "a tensor", f"an object of type {seen['type']}")
        for other in filter(lambda other: came_through(run, other), probe.CALLS):
            for rank in run:
                changed, subject = clipped(rank, other)["overwritten"], "the norm that a call has returned"
                rank.expect(not changed, subject, "the same after the next call", f"another after that with {other}")


def test_clips(runs, probe):
    """Where the norm exceeds max_norm every rank scales its gradients by max_norm/(norm + ε)"""
    for call in calls_in(runs, probe, probe.FIRST):
        expect_gradients(*call, by_own_word=True)


def test_one_collective(runs, probe):
    """For more ranks than one a call costs exactly one small collective"""
    for run, name, _, ranks in calls_in(runs, probe, probe.FIRST):
        for other in filter(lambda other: came_through(run, other), probe.CALLS):
            expect_cost(run, other, ranks)
        expect_cost(run, name, ranks)
        if run.finished:
            run.expect_confirmed()


def came_through(run, name):
    """Whether all ranks have told of a call that raised nothing."""
    told_of = run.came_to([name]) and all(f"the call with {name}" in rank.trace.regions for rank in run)
    return told_of and not any(rank.read(name, Clipped)["raised"] for rank in run)


def expect_cost(run, name, ranks):
    for number in ranks:
        clipped(run[number], name)
        part = run[number].during(f"the call with {name}")
        subject = f"what crosses in the call with {name}"
        messages = part.of("send", "recv")
        run[number].expect(
            not len(messages), subject, "one collective, no messages", told(messages), line=line_of(part)
        )
        run[number].expect(len(part) == 1, subject, "exactly one collective", told(part), line=line_of(part))
        run[number].expect(
            part.bytes < SMALL, subject, f"less than {SMALL} bytes", f"{part.bytes} bytes", line=line_of(part)
        )


def test_infinity_norm(runs, probe):
    """With norm_type inf it is the largest magnitude of all ranks"""
    for call in calls_in(runs, probe, probe.MAXIMUM):
        expect_norm(*call)


def test_clips_by_infinity_norm(runs, probe):
    """Where that exceeds max_norm the gradients are scaled as well"""
    for call in calls_in(runs, probe, probe.MAXIMUM):
        expect_gradients(*call, by_own_word=True)


def test_untouched(runs, probe):
    """Gradients whose norm is below max_norm stay as they are, bit for bit"""
    for call in calls_in(runs, probe, probe.SMALL):
        expect_gradients(*call)


def test_together(runs, probe):
    """The norm over all ranks decides, and not a rank's own"""
    judge(calls_in(runs, probe, probe.TOGETHER))


def test_tiny(runs, probe):
    """ε is at most 1e-6, for tiny and for huge gradients too, and a max_norm of 0 leaves nothing"""
    judge(calls_in(runs, probe, probe.TINY))


def test_in_place(runs, probe):
    """Gradients are scaled in place, and nothing else is touched"""
    for run, name, _, ranks in calls_in(runs, probe, probe.PLACES):
        for number in ranks:
            expect_in_place(run[number], name)
        for other in filter(lambda other: came_through(run, other), probe.CALLS):
            for rank in run:
                expect_in_place(rank, other)
                expect_rest_kept(rank, other, "")
        for other, given in probe.CALLS.items():
            if given.norm_type not in (2.0, math.inf) and run.came_to([other]):  # one that may be refused
                for rank in run:
                    if "ValueError" in rank.read(other, Clipped)["raised"]:
                        expect_rest_kept(rank, other, ", which raised ValueError")


def expect_rest_kept(rank, name, came_of_it):
    """Nothing beside the gradients is another one after the call."""
    hint = "What a call sets it puts back, however it ends: a `with` does so, and `finally`."
    for what in rank.read(name, Clipped)["changed"]:
        subject = f"{what} after the call with {name}{came_of_it}"
        rank.fail(subject, expected="as before", actual="changed", hint=hint)


def expect_in_place(rank, name):
    """The gradients are the tensors that they were, and neither the memory around them nor the parameters changed."""
    seen = clipped(rank, name)
    others = ", ".join(seen["elsewhere"])
    rank.expect(not others, f"the gradients of {name}", "the same tensors", f"new ones: {others}")
    subject = f"elements of the buffer around the gradients of {name}"
    rank.expect(not any(seen["around"]), subject, "as they were", f"{sum(seen['around'])} changed")
    rank.expect(not seen["moved"], f"the parameters of {name}", "as they were", f"{seen['moved']} changed")


def test_layouts(runs, probe):
    """Gradients may be transposed, views of a buffer, or without dimensions"""
    judge(calls_in(runs, probe, probe.PLACES))


def test_any_iterable(runs, probe):
    """Parameters may come from a generator or be frozen by now, and norm_type may be an int"""
    judge(calls_in(runs, probe, probe.KINDS))


# Dtypes


def test_dtypes_within(runs, probe):
    """Several dtypes on one rank: the norm is as accurate as the widest"""
    judge(calls_in(runs, probe, probe.WITHIN))


def test_half(runs, probe):
    """float16 gradients whose squares overflow"""
    judge(calls_in(runs, probe, probe.LARGE))


def test_dtypes_between(runs, probe):
    """Other dtypes on other ranks: the norm is as accurate as the widest, on every rank"""
    judge(calls_in(runs, probe, probe.BETWEEN))


# Not finite


def test_not_finite(runs, probe):
    """Infinite and NaN gradients give what torch's own function gives"""
    judge(calls_in(runs, probe, probe.NOT_FINITE))


def test_maximum_of_nan(runs, probe):
    """A NaN on any rank makes the infinity norm NaN"""
    judge(calls_in(runs, probe, probe.MAXIMUM_OF_NAN))


def test_other_norms(runs, probe):
    """Other norm types are right, or a ValueError on every rank"""
    for call in calls_in(runs, probe, probe.OTHERS):
        judge_or_refused(call)


def judge_or_refused(call):
    """A call with another norm type: right, or refused on every rank."""
    run, name, _, ranks = call
    attempts = [run[number].read(name, Clipped) for number in ranks]
    if any(one["raised"] for one in attempts):
        for number, one in zip(ranks, attempts, strict=True):
            run[number].expect_raised(one, "ValueError", f"a call with {name}")
    else:
        judge([call])


# Ranks with little or nothing


def test_none(runs, probe):
    """Gradients that are None are left out, and a rank that has no others takes part"""
    judge(calls_in(runs, probe, probe.NONE))


def test_empty(runs, probe):
    """Empty shards count as zero"""
    judge(calls_in(runs, probe, probe.EMPTY))


def test_no_parameters(runs, probe):
    """A rank without parameters takes part and gets the norm"""
    for call in calls_in(runs, probe, probe.NO_PARAMETERS):
        if call[2].norm_type in (2.0, math.inf):
            judge([call])
        elif holds(test_other_norms, runs, probe):
            judge_or_refused(call)


# Groups


def test_groups(runs, probe):
    """In a sub-group the norm is over its ranks' shards, and nobody else takes part"""
    for call in calls_in_groups(runs, probe):
        run, name, _, ranks = call
        judge([call])
        expect_cost(run, name, ranks)
        for number in ranks:
            part = run[number].during(f"the call with {name}")
            subject = f"the group of the collective in the call with {name}"
            seen = ", ".join(rank_list(one.group) for one in part)
            run[number].expect(len(part.in_group(ranks)) == len(part), subject, rank_list(ranks), seen)


def test_alone(runs, probe):
    """One rank alone: all of this is so for its own shards"""
    every = [probe.FIRST, probe.MAXIMUM, probe.SMALL]
    came = calls_in(runs, probe, *every, family="alone")
    if not came:
        raise NotJudged("the code did not come so far")
    judge(came)
    for check, stage in rarer(probe).items():
        if holds(check, runs, probe):  # what is wrong on several ranks as well has been told
            for call in calls_in(runs, probe, stage, family="alone"):
                if call[2].norm_type in (2.0, math.inf):
                    judge([call])
                elif holds(test_other_norms, runs, probe):
                    judge_or_refused(call)


def rarer(probe):
    """The calls with what is rarer, by the check of them on several ranks."""
    return {
        test_tiny: probe.TINY,
        test_layouts: probe.PLACES,
        test_any_iterable: probe.KINDS,
        test_dtypes_within: probe.WITHIN,
        test_half: probe.LARGE,
        test_not_finite: probe.NOT_FINITE,
        test_maximum_of_nan: probe.MAXIMUM_OF_NAN,
        test_other_norms: probe.OTHERS,
        test_none: probe.NONE,
        test_empty: probe.EMPTY,
        test_no_parameters: probe.NO_PARAMETERS,
    }
