"""Judges what the ranks' samplers drew. Expected values are computed here only.

Every process asks for the shards of all replicas, so a finding names the replica in its subject and no rank process.
The samplers' seeds are drawn anew for each run, so some judgements are about chance. Each says with which probability a
right solution fails it, taking its permutations as random and independent; all of them together stay below 1e-9.
"""

from collections import Counter
from itertools import chain, pairwise

from grader.checks import Attempt, TypedDict, count, error_text

WAYS = {
    "second_pass": "on the second of two passes",
    "abandoned_pass": "after a pass that was abandoned at its first index",
    "detour": "after another epoch in between (epoch {detour}, then {epoch} again)",
    "epoch_set_twice": "when set_epoch({epoch}) is called twice",
    "other_samples": "for another data set of the same length",
    "launcher_variables": "with RANK=1, LOCAL_RANK=1 and WORLD_SIZE=2 in the environment",
    "process_group": "beside a process group in which this process is rank 0 of 1",
}
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


class Watched(TypedDict):
    """One pass; by step, the global generators that had moved by then."""

    indices: Shard
    moved: dict[str, list[str]]


class Loaded(TypedDict):
    """In a DataLoader: the types of the indices, how many samples the sampler itself read, the batches' sizes."""

    is_sampler: bool
    kinds: list[str]
    touched: int
    sizes: list[int]


class Fresh(TypedDict):
    code: int
    error: str
    answer: list[list[Shard]] | None


def brief(values):
    """A list on one line, cut where it grows long."""
    return f"[{', '.join(map(str, values[:12]))}, … {len(values)} in all]" if len(values) > 12 else str(values)


def flat(shards):
    return list(chain.from_iterable(shards))


def named(setting, replica=None):
    """A setting in words: whose share of what."""
    replicas, samples = count(setting.replicas, "rank"), count(setting.n, "sample")
    who = f"{replicas} together" if replica is None else f"rank {replica} of {setting.replicas}"
    epoch = "" if setting.epoch is None else f", epoch={setting.epoch}"
    flags = f"shuffle={setting.shuffle}, drop_last={setting.drop_last}, seed={setting.seed}{epoch}"
    return f"{who}, {samples} ({flags})"


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
    """(run, setting, the shards of all replicas for each epoch), for each table in each process."""
    for run in runs("orders"):
        for rank in run:
            told = rank.read("tables", dict[str, list[list[Shard] | Attempt]])
            for name in names:
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
        for rank in run:
            judge_histories(run, probe, rank)
            judge_calls(run, rank)
        judge_processes(run, probe)
        judge_fresh(run, probe)


def judge_histories(run, probe, rank):
    """Whatever happened before or stands beside it, a replica draws the same in the same epoch."""
    setting, detour = probe.history(run.seed)
    told = rank.read("histories", dict[str, list[Shard | Attempt]])
    first = by_replica(run, told.get("first", []), setting)
    for name, words in WAYS.items():
        way = words.format(epoch=setting.epoch, detour=detour)
        subjects = [f"{named(setting, replica)}, {way}" for replica in range(setting.replicas)]
        again = answered(run, told.get(name, []), *subjects)
        for subject, before, drawn in zip(subjects, first, again, strict=True):
            run.expect(drawn == before, subject, f"{brief(before)} as before", brief(drawn))


def judge_calls(run, rank):
    """What is left out means shuffle=True, seed=0, drop_last=False, and positions mean what keywords do."""
    told = rank.read("three_calls", list[Calls | Attempt])
    for drawn in answered(run, told, *["ShardedSampler(dataset, 3, rank)"] * 3):
        for name, call in (("defaults", "(dataset, 3, rank)"), ("positions", "(dataset, 3, rank, True, 0, False)")):
            subject, wanted = f"ShardedSampler{call} beside the same arguments by keyword", drawn["keywords"]
            run.expect(drawn[name] == wanted, subject, brief(wanted), brief(drawn[name]))


def orders(run, rank, probe, name="general"):
    """(setting, the shards of all replicas) for each setting of this name."""
    return [(setting, [answer["indices"] for answer in told]) for setting, told in draws(run, rank, probe, name)]


def judge_processes(run, probe):
    """Each setting has one order, whichever process is asked."""
    first = orders(run, run[0], probe)
    for rank in run:
        for (setting, wanted), (_, drawn) in zip(first, orders(run, rank, probe), strict=True):
            subject = f"{named(setting)}, asked in process {rank.rank}"
            run.expect(drawn == wanted, subject, f"{brief(flat(wanted))} as in process 0", brief(flat(drawn)))


def judge_fresh(run, probe):
    """Rank 0 started a new interpreter, with another hash seed, which must come to the same orders."""
    fresh = run[0].read("fresh", Fresh | None) or {"code": 0, "error": "it was not started", "answer": None}
    subject, ended = "in a freshly started interpreter", f"it ended with code {fresh['code']}: {fresh['error']}"
    run.expect(fresh["answer"] is not None, f"samplers {subject}", "indices", ended)
    run.expect_equal(len(fresh["answer"]), probe.FRESH, f"the number of settings {subject}")
    for (setting, here), drawn in zip(orders(run, run[0], probe), fresh["answer"], strict=False):
        run.expect(here == drawn, f"{named(setting)}, {subject}", brief(flat(here)), brief(flat(drawn)))


# Many orders


def test_reshuffles(runs, probe):
    """Every epoch and every seed has an order of its own"""
    # A false alarm needs two equal permutations of 24 among at most 72: below 72²/2 / 24! < 1e-20.
    for run, setting, epochs in tables(runs, probe, "one_rank", "three_ranks"):
        judge_different(run, named(setting), "epoch", enumerate(epochs))
    for run in runs("orders"):
        for rank in run:
            told = [(setting.seed, order) for setting, order in orders(run, rank, probe, "seeds")]
            judge_different(run, "24 samples on 2 ranks in epoch 1", "seed", told)


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
    for run, setting, epochs in tables(runs, probe, "two_ranks", "three_ranks"):
        for replica in range(setting.replicas):
            judge_seen(run, setting, [shards[replica] for shards in epochs], named(setting, replica))
        groups = {frozenset(frozenset(shard) for shard in shards) for shards in epochs}
        subject, wanted = (
            f"{named(setting)} over {len(epochs)} epochs",
            "other samples together on a rank in other epochs",
        )
        same = f"the same groups in all epochs, one of them {brief(sorted(epochs[0][0]))}"
        run.expect(len(groups) > 1, subject, wanted, same)


def judge_seen(run, setting, epochs, who):
    """Every sample is in one of the epochs."""
    seen = set(flat(epochs))
    never = [index for index in range(setting.n) if index not in seen]
    subject = f"{who} over {len(epochs)} epochs"
    run.expect(not never, subject, "every sample sooner or later", f"never {brief(never)}")


def test_keeps_order(runs, probe):
    """Without shuffle, the data set's order is kept in every epoch"""
    for run, setting, told in all_draws(runs, probe, "in_order"):
        counts = Counter(index for answer in told for index in answer["indices"])
        for replica, answer in enumerate(told):
            drawn = answer["indices"]
            kept = [index for index in drawn if counts[index] == 1]  # which of two equal ones is padding is free
            rising = all(left < right for left, right in pairwise(kept))
            run.expect(rising, named(setting, replica), "increasing indices, but for padding", brief(drawn))
    judge_unmoved(runs, probe)


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
    for run, setting, epochs in tables(runs, probe, "dropping_three", "dropping_one"):
        judge_seen(run, setting, [flat(shards) for shards in epochs], named(setting))
    for run, setting, told in all_draws(runs, probe):
        if setting.drop_last and not setting.shuffle:
            drawn, kept = (
                sorted(flat(answer["indices"] for answer in told)),
                list(range(share(setting) * setting.replicas)),
            )
            run.expect(drawn == kept, named(setting), f"the first {len(kept)} samples", brief(drawn[-12:]))


# Beside other code


def test_global_generators(runs, probe):
    """Neither reads nor moves a global random number generator"""
    for run in runs("orders"):
        for rank in run:
            told = rank.read("global_generators", list[list[Watched | Attempt]])
            run.expect_equal(len(told), probe.history(run.seed)[0].replicas, "the number of replicas")
            for answers in told:
                subjects = ["a sampler beside freshly seeded global generators"] * 3
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


def test_data_loader(runs):
    """Works as a DataLoader's sampler: yields Python ints and reads no sample itself"""
    for run in runs("orders"):
        for rank in run:
            told = rank.read("loaded", list[Loaded | Attempt])
            for answer in answered(run, told, *["a sampler in a DataLoader"] * 3):
                judge_loaded(run, answer)


def judge_loaded(run, told):
    run.expect(told["is_sampler"], "a ShardedSampler", "an instance of torch.utils.data.Sampler", "none")
    run.expect(told["kinds"] == ["int"], "the type of the indices", "int", ", ".join(told["kinds"]))
    touched = f"{told['touched']} read"
    run.expect(told["touched"] == 0, "building and iterating the sampler", "no sample read", touched)
    wanted, sizes = [2, 2, 1], told["sizes"]  # 14 samples on 3 ranks
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
