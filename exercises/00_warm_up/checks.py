"""Judges the recorded calls of the five functions, each function by itself.

Sums and means are compared within the tolerance of their dtype. A mean may be computed in float32 everywhere but in
`accuracy`, which asks for more. Where ranks have to hear of each other, the kernel has to have counted as many bytes as
the least that could have told them.
"""

import torch

from grader.checks import Attempt, Tensor, TypedDict, count

NOTHING_RETURNED = (
    "A function gives what it returns. The collectives give nothing: they write into what they are given."
)
EARLIER = "Keep what two calls have returned. Is the first still what it was, after the second?"


class Summed(TypedDict):
    """A call of `total`: what it returned, and its argument afterwards."""

    type: str
    tensor: Tensor
    argument: Tensor


class Gathered(TypedDict):
    """What a call of `gather_in_order` returned."""

    type: str
    values: list[object]


class GatheredOf(Gathered):
    """The same, with the argument afterwards."""

    argument: object


class Asked(Attempt):
    """A question to a function that communicates with nobody."""

    answer: object
    type: str


class AskedOfCalls(Asked):
    argument: list[list[object]]


class Averaged(TypedDict):
    """A call of `average`: the means by name, or the name of the type that is no float; the argument afterwards."""

    type: str
    means: dict[str, float | str]
    argument: list[list[object]]


def expect_type(rank, function, wanted, seen):
    """A function returned a tensor, a list or a dict. None is often what a collective returned."""
    none = seen == "NoneType"
    told = {"actual": "None", "hint": NOTHING_RETURNED} if none else {"actual": f"an object of type {seen}"}
    rank.expect_type(seen, wanted, f"what {function} returned", expected=f"a {wanted}", **told)


# total


def judge_total(run, name, given, later=""):
    """Every rank has the sum of what all were given. `later` says that it was looked at once more, and when."""
    wanted = sum(given)
    for rank in run:
        seen = rank.read(f"{name}{later}", Summed)
        expect_type(rank, "total", "tensor", seen["type"])
        alternatives = {"this is the rank's own value": given[rank.rank]} if run.world_size > 1 else None
        subject, how = f"the sum of {name}{later}", {"terms": run.world_size, "alternatives": alternatives}
        rank.expect_close(seen["tensor"], wanted, subject, hint=EARLIER if later else None, **how)


def kinds(run, probe):
    """(name, what each rank was given) of each further tensor."""
    every = [probe.kinds(rank.secret) for rank in run]
    return [(name, [one[name] for one in every]) for name in every[0]]


def test_total(runs, probe):
    """total: every rank gets the sum"""
    for run in runs("total", recorded=("vector",)):
        judge_total(run, "vector", [probe.vector(rank.secret) for rank in run])
        if run.world_size > 1:  # each rank has to be told of the others; half, for float32 would do for some of it
            run.expect_moved(run.world_size * probe.ELEMENTS * 8 / 2)


def test_total_argument(runs, probe):
    """total: the argument stays as it is"""
    for run in runs("total", recorded=("vector",)):
        for rank in run:
            for name, given in {"vector": probe.vector(rank.secret), **probe.kinds(rank.secret)}.items():
                if name in rank:
                    rank.expect_equal(rank.read(name, Summed)["argument"], given, f"the argument after total, {name}")


def test_total_kinds(runs, probe):
    """total: single numbers, whole numbers, views"""
    for run in runs("total"):
        further = kinds(run, probe)
        for name, given in further:
            judge_total(run, name, given)
        for name, given in [("vector", [probe.vector(rank.secret) for rank in run]), *further]:
            judge_total(run, name, given, probe.AFTERWARDS)


# gather_in_order


def judge_gathered(run, name, wanted, hint=None):
    """Every rank has what each rank handed in, in rank order."""
    for rank in run:
        gathered = rank.read(name, GatheredOf if name.startswith("round") else Gathered)
        expect_type(rank, "gather_in_order", "list", gathered["type"])
        rank.expect_equal(len(gathered["values"]), run.world_size, "the length of the list")
        for number, (seen, handed_in) in enumerate(zip(gathered["values"], wanted, strict=True)):
            same = repr(seen) == repr(handed_in)  # of plain values, among which 1, 1.0 and True are different ones
            subject, expected = f"entry {number} of the list", f"{brief(handed_in)}, from rank {number}"
            rank.expect(same, subject, expected, brief(seen), hint=hint)


def brief(value):
    """A value in a line, at most sixty characters of it."""
    text = f"{len(value)} bytes, {value[:8].hex()}…" if isinstance(value, bytes) and len(value) > 8 else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def test_gathers(runs, probe):
    """gather_in_order: every rank gets all values, in rank order"""
    for run in runs("gather_in_order", recorded=("words", "letters")):
        judge_gathered(run, "words", [probe.word(rank.secret) for rank in run])
        judge_gathered(run, "letters", [probe.letter(rank.secret) for rank in run])
        if run.world_size > 1:
            run.expect_moved(run.world_size * (run.world_size - 1) * probe.LETTER)


def test_gathers_objects(runs, probe):
    """gather_in_order: any object of any size, None as well"""
    for run in runs("gather_in_order"):
        judge_gathered(run, "words at the end", [probe.word(rank.secret) for rank in run], hint=EARLIER)
        for number, names in enumerate(probe.ROUNDS):
            handed_in = [probe.OBJECTS[names[rank.rank]](rank.secret) for rank in run]
            judge_gathered(run, f"round {number}", probe.plain(handed_in))
            for rank in run:
                argument, given = (
                    rank.read(f"round {number}", GatheredOf)["argument"],
                    probe.plain(handed_in[rank.rank]),
                )
                subject = "the argument after gather_in_order"
                rank.expect(repr(argument) == repr(given), subject, brief(given), brief(argument))


# right_neighbour


def judge_places(runs, probe, last):
    """The answers for the last place of each ring, or for all others."""
    for run in runs("right_neighbour"):
        rank, places = run[-1], probe.rings(run.seed)
        answers = rank.read("answers", list[Asked])
        rank.expect_equal(len(answers), len(places), "the number of answers")
        for (number, size), seen in zip(places, answers, strict=True):
            if (number == size - 1) is last:
                subject = f"right_neighbour({number}, {size})"
                rank.expect_success(seen, subject, expected=(number + 1) % size)
                rank.expect_type(seen["type"], "int", f"the type of {subject}")
                rank.expect_equal(seen["answer"], (number + 1) % size, subject)


def test_neighbour(runs, probe):
    """right_neighbour: the next rank, where there is one"""
    judge_places(runs, probe, last=False)


def test_wraps(runs, probe):
    """right_neighbour: round the ring, also for a rank alone"""
    judge_places(runs, probe, last=True)


# average


def judge_means(run, probe, call, dtype, later=""):
    """Every rank has the mean over the ranks under each name, as accurate as this dtype."""
    every = [probe.numbers(rank.secret, call) for rank in run]
    wanted = {name: sum(own[name] for own in every) / run.world_size for name in probe.names_of(call)}
    for rank in run:
        seen = rank.read(f"call {call}{later}", Averaged)
        expect_type(rank, "average", "dict", seen["type"])
        missing, strange = sorted(wanted.keys() - seen["means"]), sorted(seen["means"].keys() - wanted)
        rank.expect(not missing and not strange, "the names", "those of the argument", told(missing, strange))
        for name, mean in seen["means"].items():
            rank.expect_type(mean if isinstance(mean, str) else "float", "float", f"the type of {name!r}")
        own = {name: rounded(every[rank.rank][name], dtype) for name in wanted}
        alternatives = {"this is the rank's own number": own} if run.world_size > 1 else None
        found, exact = ({name: rounded(one[name], dtype) for name in wanted} for one in (seen["means"], wanted))
        what = f"the mean{later}, of" if later else "the mean of"
        how = {"terms": run.world_size, "alternatives": alternatives, "budget": 2}
        rank.expect_close(found, exact, what, hint=EARLIER if later else None, **how)


def rounded(number, dtype):
    return torch.tensor(number, dtype=torch.float64).to(dtype)


def told(missing, strange):
    """Which names there are too few or too many."""
    words = [f"{count(len(names), 'name')} {what}, {names[0]!r} first" for names, what in
             ((missing, "missing"), (strange, "too many")) if names]  # fmt: skip
    return " and ".join(words)


def test_averages(runs, probe):
    """average: the mean for each name, a float"""
    for run in runs("average", recorded=("call 1",)):
        judge_means(run, probe, 1, torch.float32)
        for rank in run:
            given = [list(one) for one in probe.numbers(rank.secret, 1).items()]
            argument = rank.read("call 1", Averaged)["argument"]
            rank.expect(argument == given, "the argument after the call", "as before", "changed")
        if run.world_size > 1:  # float32 would do here, and there are ways to need a little less than all of it
            run.expect_moved(run.world_size * len(probe.NAMES) * 4 / 2)


def test_own_order(runs, probe):
    """average: each rank's names in an order of its own"""
    for run in runs("average"):
        judge_means(run, probe, 0, torch.float32)
        judge_means(run, probe, 2, torch.float32)
        judge_means(run, probe, 0, torch.float32, probe.AFTERWARDS)


def test_accuracy(runs, probe):
    """average: as exact as Python's floats"""
    for run in runs("average", recorded=("call 1",)):
        judge_means(run, probe, 1, torch.float64)


# stuck


def answers(runs, probe):
    """(rank, the calls of a group, what was said of them), for every group that was asked of."""
    for run in runs("stuck"):
        rank, groups = run[-1], probe.calls(run.seed)
        seen = rank.read("answers", list[AskedOfCalls])
        rank.expect_equal(len(seen), len(groups), "the number of answers")
        for group, answer in zip(groups, seen, strict=True):
            yield rank, group, answer


def ordinary(group):
    """Whether these are ranks 0 to N - 1, more than one."""
    return len(group) > 1 and list(group) == list(range(len(group)))


def is_stuck(group):
    """Whether two ranks make different calls."""
    return len({tuple(names) for names in group.values()}) > 1


def lengths(group):
    return {len(names) for names in group.values()}


def judge_stuck(runs, probe, chosen):
    """The answers about the chosen groups."""
    for rank, group, seen in answers(runs, probe):
        if chosen(group):
            wanted = is_stuck(group)
            rank.expect_success(seen, f"stuck({shown(group)})", expected=wanted)
            rank.expect_equal(seen["answer"], wanted, f"stuck({shown(group)})")


def shown(group):
    """The calls of a group, rank by rank, of those that make the same calls only the first two."""
    rows, seen = [], {}
    for number, names in group.items():
        seen[tuple(names)] = seen.get(tuple(names), 0) + 1
        if seen[tuple(names)] < 3:
            rows.append(f"{number}: [{', '.join(names)}]")
    return f"{{{', '.join(rows)}{', …' if len(rows) < len(group) else ''}}}"


def test_stuck_answers(runs, probe):
    """stuck: answers True or False"""
    for rank, group, seen in answers(runs, probe):
        if ordinary(group) and 0 not in lengths(group):
            rank.expect_success(seen, f"stuck({shown(group)})", expected="True or False")
            rank.expect_type(seen["type"], "bool", f"the type of stuck({shown(group)})")


def test_stuck_names(runs, probe):
    """stuck: True for different calls at the same place"""
    judge_stuck(runs, probe, lambda group: ordinary(group) and is_stuck(group) and len(lengths(group)) == 1)


def test_stuck_lengths(runs, probe):
    """stuck: True where a rank makes fewer calls, or none"""
    judge_stuck(runs, probe, lambda group: ordinary(group) and len(lengths(group)) > 1)


def test_stuck_free(runs, probe):
    """stuck: False where all make the same calls"""
    judge_stuck(runs, probe, lambda group: ordinary(group) and not is_stuck(group))


def test_stuck_groups(runs, probe):
    """stuck: any set of ranks, also one alone"""
    judge_stuck(runs, probe, lambda group: not ordinary(group))


def test_stuck_argument(runs, probe):
    """stuck: the lists stay as they are"""
    for rank, group, seen in answers(runs, probe):
        given = [[number, names] for number, names in group.items()]
        rank.expect(seen["argument"] == given, f"the argument after stuck({shown(group)})", "as before", "changed")
