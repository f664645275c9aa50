"""Judges what the ranks' samplers drew. Expected values are computed here only.

Every process asks for the shards of all replicas, so a finding names the replica in its subject and no rank process.
The samplers' seeds are drawn anew for each run, so some judgements are about chance. Each says with which probability a
right solution fails it, taking its permutations as random and independent; all of them together stay below 1e-9.
"""

from collections import Counter
from itertools import chain, combinations, pairwise
from statistics import correlation, mean

from grader.checks import Attempt, TypedDict, count, error_text

WAYS = {
    "second_pass": "on the second of two passes",
    "abandoned_pass": "after a pass that was abandoned at its first index",
    "two_passes": "in a pass beside which another one was begun",
    "another_sampler": "beside another sampler, which is in epoch {detour}",
    "another_split": "beside another sampler of the same samples, for other replicas",
    "epoch_set_meanwhile": "when set_epoch({detour}) is called after its first index",
    "detour": "after another epoch in between (epoch {detour}, then {epoch} again)",
    "epoch_set_twice": "when set_epoch({epoch}) is called twice",
    "other_samples": "for another data set of the same length",
    "launcher_variables": "with RANK=1, LOCAL_RANK=1 and WORLD_SIZE=2 in the environment",
    "process_group": "beside a process group in which this process is rank 0 of 1",
    "group_of_three": "beside a process group in which this process is rank 1 of 3",
}
NEAR = (1, 32)
"""So far apart in the data set are samples that no shuffle keeps together."""
Shard = list[int]


class Drawn(TypedDict):
    """One pass, with len() before and after it."""

    before: int
    indices: Shard
    after: int


class Calls(TypedDict):
    defaults: Shard
    keywords: Shard
    positions: Shard
    named: Shard


class Watched(TypedDict):
    """One pass; by step, the global generators that had moved by then."""

    indices: Shard
    moved: dict[str, list[str]]


class Loaded(TypedDict):
    """In a DataLoader: how many indices there were, their types, how many samples the sampler itself read, the batches'
    sizes."""

    is_sampler: bool
    drawn: int
    kinds: list[str]
    touched: int
    sizes: list[int]


class Fresh(TypedDict):
    code: int
    error: str
    answer: dict[str, list[list[Shard] | None]] | None


def brief(values):
    """A list on one line, cut where it grows long."""
    return f"[{', '.join(map(str, values[:12]))}, … {len(values)} in all]" if len(values) > 12 else str(values)


def flat(shards):
    return list(chain.from_iterable(shards))


def named(setting, replica=None):
    """A setting in words: whose share of what."""
    replicas, samples = count(setting.replicas, "rank"), count(setting.n, "sample")
    who = f"{replicas} together" if replica is None else f"rank {replica} of {setting.replicas}"
    options = [f"{name}={value}" for name, value in setting.options().items()] or ["all options left out"]
    epoch = [f"epoch={setting.epoch}"] if setting.epoch is not None else []
    return f"{who}, {samples} ({', '.join([*options, *epoch])})"


# What was asked, and what was answered


def answered(run, answers, *subjects):
    """An answer for each subject. One that is an error fails the check."""
    run.expect_equal(len(answers), len(subjects), "the number of answers that the grader saw")
    for answer, subject in zip(answers, subjects, strict=True):
        if isinstance(answer, dict) and "raised" in answer:
            run.fail(subject, expected="indices", actual=error_text(answer), line=answer["line"])
    return answers


def by_replica(run, answers, setting):
    return answered(run, answers, *(named(setting, replica) for replica in range(setting.replicas)))


def draws(run, rank, probe, name="general", first=None):
    """(setting, what each replica drew) for the first so many settings that a process was asked for by this name."""
    settings, told = getattr(probe, name)(run.seed), rank.read(name, list[list[Drawn | Attempt]])
    run.expect_equal(len(told), len(settings), f"the number of settings in {name!r}")
    pairs = list(zip(settings, told, strict=True))[:first]
    return ((setting, by_replica(run, answers, setting)) for setting, answers in pairs)


def all_draws(runs, probe, name="general", first=None):
    """(run, setting, what each replica drew), for each process."""
    for run in runs("orders"):
        for rank in run:
            for setting, told in draws(run, rank, probe, name, first):
                yield run, setting, told


def tables(runs, probe, *names):
    """(run, setting, the shards of all replicas for each epoch), for each table."""
    for run in runs("orders"):
        for name in names:
            told = run[probe.owner(name, run)].read("tables", dict[str, list[list[Shard] | Attempt]])
            setting, epochs = probe.tables(run.seed)[name]
            shards = by_replica(run, told.get(name, []), setting)
            run.expect_equal(list(map(len, shards)), [epochs] * setting.replicas, "the number of epochs")
            yield run, setting, list(zip(*shards, strict=True))


# Shares


def share(setting):
    """How many indices every rank draws."""
    return setting.n // setting.replicas if setting.drop_last else -(-setting.n // setting.replicas)


def judge_count(run, setting, told):
    for replica, answer in enumerate(told):
        subject, wanted, drawn = named(setting, replica), share(setting), len(answer["indices"])
        run.expect(drawn == wanted, subject, count(wanted, "index", "indices"), drawn)
        for when in ("before", "after"):
            run.expect(answer[when] == wanted, f"len() {when} the pass, {subject}", wanted, answer[when])


def judge_cover(run, setting, told):
    """For shards of the right size: all there, none strange, and none twice but for the padding."""
    counts = Counter(index for answer in told for index in answer["indices"])
    subject = named(setting)
    strangers = sorted(index for index in counts if not 0 <= index < setting.n)
    run.expect(not strangers, subject, f"indices from 0 to {setting.n - 1}", brief(strangers))
    missing = [index for index in range(setting.n) if index not in counts]
    if not setting.drop_last:
        run.expect(not missing, subject, "every sample drawn", f"never drawn: {brief(missing)}")
    twice = sorted(index for index, times in counts.items() if times > 1)
    if setting.drop_last or setting.n % setting.replicas == 0:
        run.expect(not twice, subject, "no sample twice", f"drawn more than once: {brief(twice)}")


def test_draws(runs, probe):
    """Draws indices, without a process group"""
    for run, setting, told in all_draws(runs, probe, first=3):
        for replica, answer in enumerate(told):
            run.expect(answer["indices"], named(setting, replica), "some indices", "none")


def test_counts(runs, probe):
    """Every rank draws exactly its share, and len() says how many"""
    for run, setting, told in all_draws(runs, probe):
        judge_count(run, setting, told)


def test_covers(runs, probe):
    """Together the ranks draw every sample, and repeat none but as padding"""
    for run, setting, told in all_draws(runs, probe):
        if not setting.drop_last:
            judge_cover(run, setting, told)


def test_small(runs, probe):
    """Works for fewer samples than ranks, and for none"""
    for run, setting, told in all_draws(runs, probe, "small"):
        judge_count(run, setting, told)
        judge_cover(run, setting, told)


# One order for a seed and an epoch


def test_seed_and_epoch_alone(runs, probe):
    """The order depends on the seed and the epoch alone, in every process"""
    for run in runs("orders"):
        judge_histories(run, probe, "given", "dropping", "first_epoch")
        judge_processes(run, probe, "general")
        judge_fresh(run, probe, "general")


def judge_histories(run, probe, *names):
    """Whatever happened before or stands beside it, a replica draws the same in the same epoch."""
    for rank in run:
        told = rank.read("histories", dict[str, dict[str, list[Shard | Attempt]]])
        for name in names:
            judge_ways(run, probe.history(run.seed)[name], probe.wandering(run.seed)[1], told.get(name, {}), probe)


def judge_ways(run, setting, detour, told, probe):
    first = by_replica(run, told.get("first", []), setting)
    for name, words in WAYS.items():
        if setting.epoch is None and name in probe.EPOCH_SET_AGAIN:
            continue
        way = words.format(epoch=setting.epoch, detour=detour)
        subjects = [f"{named(setting, replica)}, {way}" for replica in range(setting.replicas)]
        again = answered(run, told.get(name, []), *subjects)
        for subject, before, drawn in zip(subjects, first, again, strict=True):
            run.expect(drawn == before, subject, f"{brief(before)} as before", brief(drawn))


def orders(run, rank, probe, name="general"):
    """(setting, the shards of all replicas) for each setting of this name."""
    return [(setting, [answer["indices"] for answer in told]) for setting, told in draws(run, rank, probe, name)]


def judge_processes(run, probe, name):
    """Each setting of this name has one order, whichever process is asked."""
    first = orders(run, run[0], probe, name)
    for rank in run:
        for (setting, wanted), (_, drawn) in zip(first, orders(run, rank, probe, name), strict=True):
            subject = f"{named(setting)}, asked in process {rank.rank}"
            run.expect(drawn == wanted, subject, f"{brief(flat(wanted))} as in process 0", brief(flat(drawn)))


def judge_fresh(run, probe, name):
    """Rank 0 started a new interpreter, with another hash seed, which must come to the same orders."""
    fresh = run[0].read("fresh", Fresh | None) or {"code": 0, "error": "it was not started", "answer": None}
    subject, ended = "in a freshly started interpreter", f"it ended with code {fresh['code']}: {fresh['error']}"
    run.expect(fresh["answer"] is not None, f"samplers {subject}", "indices", ended)
    answer = fresh["answer"].get(name, [])
    run.expect_equal(len(answer), probe.FRESH, f"the number of settings {subject}")
    for (setting, here), drawn in zip(orders(run, run[0], probe, name), answer, strict=False):
        run.expect(here == drawn, f"{named(setting)}, {subject}", brief(flat(here)), brief(flat(drawn or [])))


# Many orders


def test_reshuffles(runs, probe):
    """Every epoch and every seed has an order of its own"""
    # A false alarm needs two equal permutations of 24 among at most 72: below 72²/2 / 24! < 1e-20.
    judge_epochs(runs, probe, "one_rank", "three_ranks")
    for run in runs("orders"):
        for rank in run:
            for epoch in (1, 0):
                told = [(s.seed, order) for s, order in orders(run, rank, probe, "seeds") if s.epoch == epoch]
                judge_different(run, f"24 samples on 2 ranks in epoch {epoch}", "seed", told)
            told = [(setting.epoch, order) for setting, order in orders(run, rank, probe, "far_epochs")]
            judge_different(run, "24 samples on 2 ranks", "epoch", told)


def judge_epochs(runs, probe, *names):
    """No two epochs of these tables have the same order."""
    for run, setting, epochs in tables(runs, probe, *names):
        judge_different(run, named(setting), "epoch", enumerate(epochs))


def judge_different(run, subject, what, orders):
    """No two of the orders are equal; `orders` are pairs of an epoch or a seed and the shards of all ranks."""
    first = {}
    for key, order in orders:
        earlier = first.setdefault(repr(list(order)), key)
        again = f"{what} {key} repeats the order of {what} {earlier}: {brief(order[0])}"
        run.expect(earlier == key, subject, f"another order for each {what}", again)


def test_one_permutation(runs, probe):
    """The shuffle is over the whole data set: samples move between the ranks"""
    # 72 epochs. A sample that never reaches a rank: at most 72 · (2/3)^72 < 2e-11 for three ranks, 48 · 2^-72 for two.
    # The same groups of samples in all epochs: (2 / C(24, 12))^71, which is nothing.
    judge_moves(runs, probe, "two_ranks", "three_ranks")
    judge_mixed(runs, probe, "large")


def judge_mixed(runs, probe, *names):
    """In these tables every shard is a sample of the whole data set, and in no order, as far as its mean, the
    correlation of place and index and its steps up and down tell; neighbours part; and no two epochs deal out the same
    groups."""
    # Of 1500 indices out of 4500, in units of 4500: the mean is 1/2 with a deviation of 0.006, the correlation 0 with
    # one of 0.026, the part of steps that go up 1/2 with one of 0.0075. A tenth, a quarter and a tenth are more than
    # nine of these each: below 1e-18. Two equal ways to deal 4500 samples to 3 ranks are nothing.
    for run, setting, epochs in tables(runs, probe, *names):
        dealt = [frozenset(map(frozenset, shards)) for shards in epochs]
        subject, wanted = (
            f"{named(setting)} over {len(epochs)} epochs",
            "other samples together on a rank in each epoch",
        )
        run.expect(len(set(dealt)) == len(dealt), subject, wanted, "the same groups in another order")
        for epoch, shards in enumerate(epochs):
            for replica, shard in enumerate(shards):
                judge_shuffled(run, setting.n, shard, f"{named(setting, replica)}, epoch {epoch}")
            judge_apart(run, setting, shards, f"{named(setting)}, epoch {epoch}")


def judge_shuffled(run, n, shard, subject):
    run.expect(len(set(shard)) > 1, subject, "several indices", brief(shard))
    middle, rising = mean(shard), correlation(range(len(shard)), shard)
    run.expect(abs(middle - n / 2) < n / 10, f"{subject}: the mean of its indices", f"about {n // 2}", round(middle))
    seen = f"indices that {'rise' if rising > 0 else 'fall'} on the whole, {brief(shard)}"
    run.expect(abs(rising) < 0.25, subject, "indices in no order", seen)
    up = mean(left < right for left, right in pairwise(shard))
    seen = f"{up:.0%} of them, {brief(shard)}"
    run.expect(abs(up - 0.5) < 0.1, f"{subject}: the indices that are greater than the one before", "about half", seen)


def judge_apart(run, setting, shards, subject):
    """Samples that are near each other in the data set are as far apart in the shards as any two, however the order
    was dealt: every N-th entry, or in blocks."""
    # The distance of two random places is a third of the shard. Its mean over 4500 pairs has a deviation of 0.0035 of
    # the shard. A twelfth is more than twenty of these: nothing.
    place = {index: at for shard in shards for at, index in enumerate(shard)}
    for near in NEAR:
        pairs = [(index, index + near) for index in place if index + near in place]
        apart, wanted = sum(abs(place[a] - place[b]) for a, b in pairs) / max(1, len(pairs)), share(setting) / 3
        samples = f"{subject}: how far apart samples i and i+{near} are in the shards, on average"
        near_enough = abs(apart - wanted) < share(setting) / 12
        run.expect(near_enough, samples, f"about {round(wanted)} places", count(round(apart), "place"))


def judge_moves(runs, probe, *names):
    """In these tables each rank meets every sample, and not always in the same company."""
    for run, setting, epochs in tables(runs, probe, *names):
        for replica in range(setting.replicas):
            judge_seen(run, setting, [shards[replica] for shards in epochs], named(setting, replica))
        groups = {frozenset(frozenset(shard) for shard in shards) for shards in epochs}
        subject, wanted = (
            f"{named(setting)} over {len(epochs)} epochs",
            "other samples together on a rank in other epochs",
        )
        same = f"the same groups in all epochs, one of them {brief(sorted(epochs[0][0]))}"
        run.expect(len(groups) > 1, subject, wanted, same)
        if setting.replicas == 2:  # of more, two samples meet too rarely to be judged by so few epochs
            judge_company(run, setting, epochs, subject)


def judge_company(run, setting, epochs, subject):
    """No two samples always go to one rank, nor always to two."""
    # Two of 24 samples: at most (12/23)^72 for either, 276 pairs: 2e-18.
    together = Counter(pair for shard in chain(*epochs) for pair in combinations(sorted(shard), 2))
    for pair in combinations(range(setting.n), 2):
        if together[pair] in (0, len(epochs)):
            wanted = "any two samples on one rank in some epochs, and on two ranks in others"
            always = "together" if together[pair] else "apart"
            run.fail(subject, expected=wanted, actual=f"samples {pair[0]} and {pair[1]} {always} in all of them")


def judge_seen(run, setting, epochs, who):
    """Every sample is in one of the epochs."""
    seen = set(flat(epochs))
    never = [index for index in range(setting.n) if index not in seen]
    subject = f"{who} over {len(epochs)} epochs"
    run.expect(not never, subject, "every sample sooner or later", f"never {brief(never)}")


def test_keeps_order(runs, probe):
    """Without shuffle, the data set's order is kept in every epoch"""
    judge_rising(runs, probe, "in_order")
    judge_unmoved(runs, probe)


def judge_rising(runs, probe, name):
    """In the settings of this name that do not shuffle the indices rise."""
    for run, setting, told in all_draws(runs, probe, name):
        counts = Counter(index for answer in told for index in answer["indices"])
        for replica, answer in enumerate(told):
            drawn = answer["indices"]
            kept = [index for index in drawn if counts[index] == 1]  # which of two equal ones is padding is free
            rising = setting.shuffle or all(left < right for left, right in pairwise(kept))
            run.expect(rising, named(setting, replica), "increasing indices, but for padding", brief(drawn))


def judge_unmoved(runs, probe):
    """The first answers without shuffle equal those with another seed and epoch."""
    first = [entry for entry in all_draws(runs, probe) if not entry[1].shuffle]
    for (run, setting, told), (_, _, other) in zip(first, all_draws(runs, probe, "in_order"), strict=True):
        for replica, (answer, again) in enumerate(zip(told, other, strict=True)):
            subject, wanted = f"{named(setting, replica)}, then with another seed and epoch", answer["indices"]
            run.expect(
                again["indices"] == wanted, subject, f"the same indices, {brief(wanted)}", brief(again["indices"])
            )


def test_drop_last(runs, probe):
    """drop_last drops the tail of the order, so that every sample is seen sooner or later"""
    # A sample that is dropped in every epoch: 11 · (3/11)^24 < 4e-13 and 5 · (1/5)^18 < 2e-12.
    judge_tails(runs, probe, "general", "dropping_three", "dropping_one")


def judge_tails(runs, probe, name, *names):
    """Of these tables no epoch leaves out what others do; of the settings of a name, with drop_last, no sample comes
    twice, and without shuffle the first ones are kept."""
    for run, setting, epochs in tables(runs, probe, *names):
        judge_seen(run, setting, [flat(shards) for shards in epochs], named(setting))
    for run, setting, told in all_draws(runs, probe, name):
        if setting.drop_last:
            judge_cover(run, setting, told)
            kept, drawn = share(setting) * setting.replicas, sorted(flat(answer["indices"] for answer in told))
            right = setting.shuffle or drawn == list(range(kept))
            run.expect(right, named(setting), f"the first {count(kept, 'sample')}", brief(drawn[-12:]))


# Beside other code


def test_global_generators(runs, probe):
    """Neither reads nor moves a global random number generator"""
    judge_watched(runs, probe, "given", "dropping")


def judge_watched(runs, probe, *names):
    """The samplers of these settings, beside freshly seeded global generators."""
    for run in runs("orders"):
        for rank in run:
            told = rank.read("global_generators", dict[str, list[list[Watched | Attempt]]])
            for name in names:
                setting = probe.history(run.seed)[name]
                run.expect_equal(len(told.get(name, [])), setting.replicas, "the number of replicas")
                for answers in told[name]:
                    subjects = [f"{named(setting)}, beside freshly seeded global generators"] * 3
                    judge_generators(run, *answered(run, answers, *subjects))


def judge_generators(run, first, other, again):
    """Global seeds a, b, a: only an order that follows them is charged for having read them. Of the steps that moved a
    generator the first is named."""
    for answer in (first, other, again):
        for step, moved in answer["moved"].items():
            seen = f"{' and '.join(moved)} moved {step}"
            run.expect(not moved, "the states of the global generators", "none moved", seen)
    before, drawn = first["indices"], other["indices"]
    subject = "the order after torch.manual_seed, numpy.random.seed and random.seed with another number"
    run.expect(before == drawn or before != again["indices"], subject, f"unchanged, {brief(before)}", brief(drawn))


def test_data_loader(runs, probe):
    """Works as a DataLoader's sampler: yields Python ints and reads no sample itself"""
    judge_loaders(runs, probe, "given", "in_order")


def judge_loaders(runs, probe, *names):
    for run in runs("orders"):
        for rank in run:
            told = rank.read("loaded", dict[str, list[Loaded | Attempt]])
            for name in names:
                setting = probe.in_loaders()[name]
                subjects = [f"{named(setting, replica)}, in a DataLoader" for replica in range(setting.replicas)]
                for answer in answered(run, told.get(name, []), *subjects):
                    judge_loaded(run, answer)


def judge_loaded(run, told):
    run.expect(told["is_sampler"], "a ShardedSampler", "an instance of torch.utils.data.Sampler", "none")
    run.expect(told["kinds"] == ["int"], "the type of the indices", "int", ", ".join(told["kinds"]) or "no index")
    touched = f"{told['touched']} read"
    run.expect(told["touched"] == 0, "building and iterating the sampler", "no sample read", touched)
    run.expect(0 <= told["drawn"] <= 2**16, "the number of indices", "some", told["drawn"])
    pairs, one = divmod(told["drawn"], 2)
    wanted, sizes = [2] * pairs + [1] * one, told["sizes"]
    run.expect(sizes == wanted, "the sizes of a DataLoader's batches", brief(wanted), brief(sizes))


def test_bad_rank(runs, probe):
    """A rank outside [0, num_replicas) raises ValueError"""
    for run in runs("orders"):
        for rank in run:
            attempts, asked = rank.read("bad_ranks", list[Attempt]), 2 * probe.BAD_RANKS
            run.expect_equal(len(attempts), len(asked), "the number of bad ranks")
            for (replicas, number), attempt in zip(asked, attempts, strict=True):
                subject = f"ShardedSampler(dataset, num_replicas={replicas}, rank={number})"
                run.expect_raised(attempt, "ValueError", subject)


# With options left out


def test_defaults(runs, probe):
    """Left out, shuffle is True, seed 0 and drop_last False, and every promise holds with these as well"""
    for run in runs("orders"):
        for rank in run:
            judge_calls(run, rank)
    for run, setting, told in all_draws(runs, probe, "left_out"):
        judge_count(run, setting, told)
        judge_cover(run, setting, told)
    judge_rising(runs, probe, "left_out")
    for run in runs("orders"):
        judge_histories(run, probe, "left_out", "epoch_left_out")
        judge_processes(run, probe, "left_out")
        judge_fresh(run, probe, "left_out")
    for run in runs("orders"):
        for rank in run:
            told = [(setting.seed, order) for setting, order in orders(run, rank, probe, "epoch_left_out")]
            judge_different(run, "24 samples on 2 ranks, where set_epoch was never called", "seed", told)
    judge_epochs(runs, probe, "short_one_rank")
    judge_moves(runs, probe, "short_two_ranks")
    judge_tails(runs, probe, "left_out", "short_dropping_one")
    judge_watched(runs, probe, "left_out", "epoch_left_out")
    judge_loaders(runs, probe, "left_out")


def judge_calls(run, rank):
    """What is left out means shuffle=True, seed=0, drop_last=False, and positions mean what keywords do."""
    told = rank.read("four_calls", list[Calls | Attempt])
    for drawn in answered(run, told, *["ShardedSampler(dataset, 3, rank)"] * 3):
        calls = {
            "keywords": ("defaults", "(dataset, 3, rank)"),
            "named": ("positions", "(dataset, 3, rank, True, 2, True)"),
        }
        for keywords, (name, call) in calls.items():
            subject, wanted = f"ShardedSampler{call} beside the same arguments by keyword", drawn[keywords]
            run.expect(drawn[name] == wanted, subject, brief(wanted), brief(drawn[name]))
