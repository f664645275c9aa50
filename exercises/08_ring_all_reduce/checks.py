"""Judges the recorded calls of `ring_all_reduce`: what the tensors hold, and what each rank sent to whom.

Sums are compared within the tolerance of their dtype, whole numbers exactly. What crossed is judged by what was sent,
in elements of the tensor: a message of a wider dtype may carry them, and one of bytes as well.
"""

import itertools
import math

import torch

from grader.checks import Attempt, NotJudged, Tensor, TypedDict, count, holds, line_of, rank_list, told

MESSAGES = ("send", "recv")


class Called(Attempt):
    """A call: what it returned, where the tensor was before and after, its elements, and what lies around them."""

    returned: str
    before: dict[str, object]
    after: dict[str, object]
    result: Tensor
    around: Tensor


# What was recorded


def runs_with(runs, probe, names):
    """The runs in which these calls came to an end, or should have; not those that stopped before the first of them."""
    calls = list(probe.CALLS)
    before = calls[: calls.index(next(iter(names)))][-1:]
    for run in runs("ring", finished=False, after=before) if before else ():
        if not run.came_to(list(names)):
            expect_none_raised(run, made(run, names))
    came = runs("ring", recorded=list(names), after=before)
    seen = [run for run in came if made(run, names)]
    if not seen:
        raise NotJudged("the code did not come so far")
    return seen


def made(run, calls):
    """Those of some calls that were made at this world size."""
    return {name: given for name, given in calls.items() if run.world_size in given.sizes}


def expect_none_raised(run, names):
    """What ended a run may be a message that a call left behind which had raised on every rank."""
    for name in names:
        if run.came_to([name]):
            for rank in run:
                called(rank, name)


def first(probe):
    """The name of the call that comes first, by which most is judged."""
    return next(iter(probe.FIRST))


def called(rank, name):
    """What a rank recorded of a call that raised nothing."""
    seen = rank.read(name, Called)
    rank.expect_success(seen, f"ring_all_reduce of {name}")
    return seen


def calls_of(run, probe):
    """(rank, name, what was handed in, its communication) of all calls that every rank came through and has told of,
    the first among them in any case."""
    for rank in run:
        called(rank, first(probe))
        told_of = {*rank.trace.regions, f"the call with {first(probe)}"}
        for name, given in made(run, probe.CALLS).items():
            if run.came_to([name]) and f"the call with {name}" in told_of:
                yield rank, name, given, rank.during(f"the call with {name}")


def total(parts):
    """The sum of some tensors: of whole numbers exactly, else rounded once."""
    wide = torch.float64 if parts[0].dtype.is_floating_point else torch.int64
    return sum(one.to(wide) for one in parts).to(parts[0].dtype)


# What the sums are


def expect_sum(run, given, name, ranks=None, times=1):
    """Each of these ranks has the sum of theirs, which is summed again where there were more `times` than one."""
    numbers = sorted(range(run.world_size) if ranks is None else ranks)
    parts = {number: given.values(run[number].secret, name) for number in numbers}
    once = total(list(parts.values()))
    for number in numbers:
        seen = called(run[number], name)["result"]
        run[number].expect_close(
            seen, once * len(parts) ** (times - 1), f"the sum in {name}", world_size=len(parts),
            terms=len(parts) * times, stale=parts[number], alternatives=mistakes(seen, parts, once),
        )  # fmt: skip


def mistakes(seen, parts, once):
    """What a wrong sum may be, and what its chunks may be, each by the words for it."""
    if len(parts) == 1 or seen.numel() < len(parts) or (seen.shape, seen.dtype) != (once.shape, once.dtype):
        return {}
    known = {f"the sum of {rank_list(some)} alone": total([parts[one] for one in some]) for some in subsets(parts)}
    known |= {f"the sum with rank {one}'s counted twice": total([once, parts[one]]) for one in parts}
    return {f"this is {words}": one for words, one in known.items()} | by_chunk(seen, {"": once} | known, len(parts))


def subsets(ranks):
    return [some for size in range(1, len(ranks)) for some in itertools.combinations(sorted(ranks), size)]


def by_chunk(seen, known, number):
    """The tensor that each chunk of a wrong sum is taken from, put together, by the words for the first wrong chunks;
    nothing where one is from none of them."""
    pieces, words = [], []
    for place, piece in enumerate(seen.reshape(-1).tensor_split(number)):
        candidates = {label: one.reshape(-1).tensor_split(number)[place] for label, one in known.items()}
        label = next((label for label, one in candidates.items() if alike(piece, one)), None)
        if label is None:
            return {}
        pieces.append(candidates[label])
        words += [f"chunk {place} of {number} is {label}"] if label else []
    return {", ".join(words[:2]): torch.cat(pieces).view(seen.shape)} if words else {}


def alike(piece, other):
    difference = (piece.double() - other.double()).abs().max()
    return bool(difference <= 0.01 * other.double().abs().max())


def test_sums(runs, probe):
    """Every rank ends with the sum of all ranks' tensors"""
    judge_sums(runs, probe, probe.FIRST)


def judge_sums(runs, probe, calls):
    for run in runs_with(runs, probe, calls):
        for name, given in made(run, calls).items():
            expect_sum(run, given, name)


def test_in_place(runs, probe):
    """The sum is in the tensor's own memory, and nothing is returned"""
    for run in runs_with(runs, probe, probe.FIRST):
        for rank in run:
            for name in filter(rank.__contains__, made(run, probe.CALLS)):
                seen = rank.read(name, Called)
                if not seen["raised"]:
                    expect_in_place(rank, seen, name)


def expect_in_place(rank, seen, name):
    changed = [what for what, value in seen["before"].items() if seen["after"].get(what) != value]
    subject, what = f"the tensor after the call with {name}", " and ".join(changed[:2])
    rank.expect(not changed, subject, f"the {what} that it had", f"another {what}")
    rank.expect(seen["returned"] == "NoneType", "what was returned", "None", f"an object of type {seen['returned']}")


def test_identical(runs, probe):
    """All ranks end with the same bits"""
    for run in runs_with(runs, probe, probe.FIRST):
        expect_identical(run, first(probe))


def expect_identical(run, name):
    """The same bits on all ranks, but for those of a NaN: there are many, and none is better than the others."""
    results = {rank.rank: called(rank, name)["result"] for rank in run}
    alike = {
        number: one.masked_fill(one.isnan(), math.nan) if one.is_floating_point() else one
        for number, one in results.items()
    }
    run.expect_identical(alike, f"the sum in {name}")


# What crosses


def elements(part, given):
    """How many of the tensor's elements some messages can carry. A message may be of another dtype."""
    own = given.dtype.itemsize
    widths = [max(own, getattr(getattr(torch, one.dtype, None), "itemsize", own)) for one in part]
    return math.ceil(sum(one.bytes / width for one, width in zip(part, widths, strict=True)))


def test_point_to_point(runs, probe):
    """What crosses, crosses by messages between two ranks"""
    for run in runs_with(runs, probe, probe.FIRST):
        for rank, name, given, part in calls_of(run, probe):
            expect_messages_alone(rank, name, part)
            if name in probe.FIRST:
                sent, least = elements(part.of("send"), given), math.prod(given.shape)
                rank.expect(sent >= least, f"elements sent in the call with {name}", f"{least} or more", sent)
        if run.finished:
            run.expect_confirmed()


def expect_messages_alone(rank, name, part):
    others = part.of(*{one.operation for one in part} - {*MESSAGES})
    subject = f"what crosses in the call with {name}"
    rank.expect(not len(others), subject, "send and recv alone", told(others), line=line_of(others))


def test_neighbour(runs, probe):
    """A rank sends to its right neighbour, and to nobody else"""
    for run in runs_with(runs, probe, probe.FIRST):
        for rank, name, _, _ in calls_of(run, probe):
            expect_right(rank, name, (rank.rank + 1) % run.world_size)


def expect_right(rank, name, right):
    rank.expect_peers(f"the call with {name}", "send", [right], subject=f"to whom rank {rank.rank} sends")


def test_messages(runs, probe):
    """A rank sends at most 2(N-1) messages"""
    for run in runs_with(runs, probe, probe.FIRST):
        for rank, name, _, part in calls_of(run, probe):
            expect_messages(rank, name, part, run.world_size)


def expect_messages(rank, name, part, number):
    sent = part.of("send")
    expected = f"at most 2(N-1) = {2 * (number - 1)}"
    subject = f"messages sent in the call with {name}"
    rank.expect(len(sent) <= 2 * (number - 1), subject, expected, len(sent), line=line_of(sent))


def test_volume(runs, probe):
    """A rank sends at most 2(N-1) ceil(numel/N) elements"""
    for run in runs_with(runs, probe, probe.FIRST):
        for rank, name, given, part in calls_of(run, probe):
            expect_volume(rank, name, given, part, run.world_size)


def expect_volume(rank, name, given, part, number):
    sent, size = part.of("send"), math.prod(given.shape)
    most = 2 * (number - 1) * math.ceil(size / number)
    rank.expect(
        elements(sent, given) <= most,
        f"elements sent in the call with {name}",
        f"at most 2(N-1) ceil({size}/{number}) = {most}",
        f"{elements(sent, given)}, in {count(len(sent), 'message')}",
        line=line_of(sent),
    )


def test_alone(runs, probe):
    """One rank alone has its sum already, and talks to nobody"""
    for run in runs("alone", recorded=[first(probe)]):
        expect_sum(run, probe.CALLS[first(probe)], first(probe))
        if holds(test_in_place, runs, probe):
            expect_in_place(run[0], called(run[0], first(probe)), first(probe))
        part = run[0].during(f"the call with {first(probe)}")
        run[0].expect(not len(part), "what one rank communicates", "nothing", told(part), line=line_of(part))


# Any tensor


def test_dtypes(runs, probe):
    """Any dtype: floating ones with inf and NaN, and whole numbers exactly"""
    judge_sums(runs, probe, probe.DTYPES)
    for run in runs_with(runs, probe, probe.DTYPES):
        for name in made(run, probe.DTYPES):
            expect_identical(run, name)


def test_shapes(runs, probe):
    """Tensors of any shape"""
    judge_sums(runs, probe, probe.SHAPES)


def test_views(runs, probe):
    """Views whose elements do not lie one after the other"""
    judge_sums(runs, probe, probe.VIEWS)


def test_around(runs, probe):
    """What lies around a view stays as it is"""
    for run in runs_with(runs, probe, probe.VIEWS):
        for name in made(run, {**probe.SHAPES, **probe.VIEWS}):
            for rank in run:
                expect_around(rank, probe.CALLS[name], name)


def expect_around(rank, given, name):
    wanted = given.around(given.memory(rank.secret, name), rank.rank)
    rank.expect_equal(called(rank, name)["around"], wanted, f"the memory around {name}")


def test_again(runs, probe):
    """A second call goes on from what the first has left"""
    for run in runs_with(runs, probe, probe.AGAIN):
        for name, given in made(run, probe.AGAIN).items():
            expect_sum(run, given, name, times=2)


def test_sizes(runs, probe):
    """Any number of elements: N does not divide it, fewer than N, one, none"""
    judge_sums(runs, probe, probe.SIZES)
    for run in runs_with(runs, probe, probe.SIZES) if holds(test_identical, runs, probe) else ():
        if run.came_to([probe.SINGLE]) and all(rank[probe.SINGLE] is not None for rank in run):
            by_rank = {rank.rank: rank.read(probe.SINGLE, Tensor) for rank in run}
            run.expect_identical(by_rank, f"the sum of {probe.SINGLE},")


def test_waits(runs, probe):
    """When the call returns, everything has been sent"""
    judge_sums(runs, probe, probe.LATE)
    for run in runs_with(runs, probe, probe.FIRST):
        for rank, name, _, part in [*calls_of(run, probe), *calls_in_groups(run, probe)]:
            if not rank.read(name, Called)["raised"]:
                expect_waited_for(rank, name, part)


def expect_waited_for(rank, name, part):
    """A message whose Work is let go of is cancelled unless its peer was there before it."""
    under_way = part.of(*MESSAGES).not_over()
    subject = f"messages of the call with {name} that were begun and never waited for"
    rank.expect(not len(under_way), subject, "none", told(under_way), line=line_of(under_way))


# Groups


def groups_in(runs, probe, what):
    """(run, name of the call, the group's ranks in its order) for each group that was handed tensors of this kind.
    Where torch makes no groups in another order, it has sorted them."""
    names = {f"{what} among {name}": ranks for name, ranks in probe.GROUPS.items()}
    came = runs("ring", recorded=list(names), after=list(probe.CALLS)[-1:])
    run = next((run for run in came if run.world_size == probe.WORLD), None)
    if run is None:
        raise NotJudged("the code did not come so far")
    ordered = all(rank.read("ordered", bool) for rank in run)
    for name, ranks in names.items():
        yield run, name, ranks if ordered else tuple(sorted(ranks))


def calls_in_groups(run, probe):
    """(rank, name, what was handed in, its communication) of all calls in groups that all their ranks came through."""
    for what, (name, ranks) in itertools.product(probe.IN_GROUPS, probe.GROUPS.items()):
        key = f"{what} among {name}"
        for rank in map(run.__getitem__, ranks if run.world_size == probe.WORLD and run.came_to([key]) else ()):
            if f"the call with {key}" in rank.trace.regions:
                yield rank, key, probe.IN_GROUPS[what], rank.during(f"the call with {key}")


def judge_groups(runs, probe, what):
    """In every group the sum of its ranks' tensors."""
    for run, name, ranks in groups_in(runs, probe, what):
        expect_sum(run, probe.IN_GROUPS[what], name, ranks)


def test_groups(runs, probe):
    """In a sub-group its ranks sum their tensors, and nobody else takes part"""
    judge_groups(runs, probe, "a vector")


def test_group_ring(runs, probe):
    """In a sub-group the ring is the group's own"""
    for run, name, ranks in groups_in(runs, probe, "a vector"):
        for place, number in enumerate(ranks):
            part = run[number].during(f"the call with {name}")
            if len(ranks) > 1:  # what one rank does alone is told by `alone`
                expect_messages_alone(run[number], name, part)
            expect_right(run[number], name, ranks[(place + 1) % len(ranks)])
            expect_messages(run[number], name, part, len(ranks))
            expect_volume(run[number], name, probe.IN_GROUPS["a vector"], part, len(ranks))


def test_everything(runs, probe):
    """All of it at once: views that differ by rank, an odd size, whole numbers, a sub-group"""
    judge_groups(runs, probe, "an odd matrix")
    in_place, around = (holds(check, runs, probe) for check in (test_in_place, test_around))
    for run, name, ranks in groups_in(runs, probe, "an odd matrix"):
        for number in ranks:
            if in_place:
                expect_in_place(run[number], called(run[number], name), name)
            if around:
                expect_around(run[number], probe.IN_GROUPS["an odd matrix"], name)
