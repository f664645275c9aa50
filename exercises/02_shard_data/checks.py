"""Judges what the ranks' samplers drew. Expected values are computed here only.

The samplers' seeds are drawn anew for each run, so some judgements are about chance. Each says with which probability a
right solution fails it, taking its permutations as random and independent; all of them together stay below 1e-9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Shard = list[int]

WAYS = {
    "second_pass": "on the second of two passes",
    "abandoned_pass": "after a pass that was abandoned at its first index",
    "detour": "after another epoch in between (epoch {detour}, then {epoch} again)",
    "epoch_set_twice": "when set_epoch({epoch}) is called twice",
    "other_samples": "for another data set of the same length",
    "launcher_variables": "with RANK=1, LOCAL_RANK=1 and WORLD_SIZE=2 in the environment",
    "process_group": "beside a process group in which this process is rank 0 of 1",
}


def brief(values: Any) -> str:
    """A list on one line, cut where it grows long."""
    shown = list(values)
    return f"[{', '.join(map(str, shown[:12]))}, … {len(shown)} in all]" if len(shown) > 12 else str(shown)


def some(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def flat(shards: list[Shard]) -> Shard:
    return [index for shard in shards for index in shard]


def named(setting: Any, replica: int | None = None) -> str:
    """A setting in words: whose share of what."""
    who = (
        f"rank {replica} of {setting.replicas}"
        if replica is not None
        else f"{some(setting.replicas, 'rank', 'ranks')} together"
    )
    epoch = "" if setting.epoch is None else f", epoch={setting.epoch}"
    flags = f"shuffle={setting.shuffle}, drop_last={setting.drop_last}, seed={setting.seed}{epoch}"
    return f"{who}, {some(setting.n, 'sample', 'samples')} ({flags})"


def answered(run: Any, answer: Any, subject: str) -> Any:
    """The answer, unless the student's code raised instead of giving one."""
    if isinstance(answer, dict) and "raised" in answer:
        error = f"{answer['raised'][0]}: {answer['message']}"
        run.expect(False, subject, expected="indices", actual=error, line=answer["line"])
    return answer


def answers(
    runs: Any, probe: Any, name: str = "general", count: int | None = None
) -> Iterator[tuple[Any, Any, list[dict[str, Any]]]]:
    """(run, setting, the answer of each replica), for the first `count` settings in each process."""
    for run in runs("orders"):
        settings = getattr(probe, name)(run.case.seed)[:count]
        for rank in run:
            for setting, told in zip(settings, rank[name][:count], strict=True):
                yield run, setting, [answered(run, each, named(setting, replica)) for replica, each in enumerate(told)]


def tables(runs: Any, probe: Any, *names: str) -> Iterator[tuple[Any, Any, list[tuple[Shard, ...]]]]:
    """(run, setting, the shards of all replicas for each epoch), for each table in each process."""
    for run in runs("orders"):
        for rank in run:
            for name in names:
                setting, _ = probe.TABLES[name]
                setting = setting._replace(seed=probe.seeds(run.case.seed)[0])
                told = [answered(run, each, named(setting, r)) for r, each in enumerate(rank["tables"][name])]
                yield run, setting, list(zip(*told, strict=True))


def share(setting: Any) -> int:
    """How many indices every rank draws."""
    n: int = setting.n
    replicas: int = setting.replicas
    return n // replicas if setting.drop_last else -(-n // replicas)


def judge_count(run: Any, setting: Any, told: list[dict[str, Any]]) -> None:
    for replica, answer in enumerate(told):
        subject, wanted = named(setting, replica), share(setting)
        drawn = len(answer["indices"])
        run.expect(drawn == wanted, subject, expected=some(wanted, "index", "indices"), actual=str(drawn))
        for when in ("before", "after"):
            length = answer[when]
            run.expect(length == wanted, f"len() {when} the pass, {subject}", expected=str(wanted), actual=str(length))


def judge_cover(run: Any, setting: Any, told: list[dict[str, Any]]) -> None:
    """For shards of the right size: all there, none strange, and none twice but for the padding."""
    counts = Counter(index for answer in told for index in answer["indices"])
    subject = named(setting)
    strangers = sorted(index for index in counts if not 0 <= index < setting.n)
    run.expect(not strangers, subject, expected=f"indices from 0 to {setting.n - 1}", actual=brief(strangers))
    missing = [index for index in range(setting.n) if index not in counts]
    if not setting.drop_last:
        run.expect(not missing, subject, expected="every sample drawn", actual=f"never drawn: {brief(missing)}")
    twice = sorted(index for index, count in counts.items() if count > 1)
    if setting.drop_last or setting.n % setting.replicas == 0:
        run.expect(not twice, subject, expected="no sample twice", actual=f"drawn more than once: {brief(twice)}")


def test_draws(runs: Any, probe: Any) -> None:
    """Draws indices, without a process group"""
    for run, setting, told in answers(runs, probe, count=3):
        for replica, answer in enumerate(told):
            run.expect(bool(answer["indices"]), named(setting, replica), expected="some indices", actual="none")


def test_counts(runs: Any, probe: Any) -> None:
    """Every rank draws exactly its share, and len() says how many"""
    for run, setting, told in answers(runs, probe):
        judge_count(run, setting, told)


def test_covers(runs: Any, probe: Any) -> None:
    """Together the ranks draw every sample, and repeat none but as padding"""
    for run, setting, told in answers(runs, probe):
        judge_cover(run, setting, told)


def test_small(runs: Any, probe: Any) -> None:
    """Works for fewer samples than ranks, and for none"""
    for run, setting, told in answers(runs, probe, "small"):
        judge_count(run, setting, told)
        judge_cover(run, setting, told)


def test_seed_and_epoch_alone(runs: Any, probe: Any) -> None:
    """The order depends on the seed and the epoch alone, in every process"""
    for run in runs("orders"):
        for rank in run:
            judge_histories(run, probe, rank)
            judge_calls(run, rank)
        judge_processes(run, probe)
        judge_fresh(run, probe)


def judge_histories(run: Any, probe: Any, rank: Any) -> None:
    """Whatever happened before or stands beside it, a replica draws the same in the same epoch."""
    setting, detour = probe.history(run.case.seed)
    told = rank["histories"]
    for replica in range(setting.replicas):
        first = answered(run, told["first"][replica], named(setting, replica))
        for name, way in WAYS.items():
            subject = f"{named(setting, replica)}, {way.format(epoch=setting.epoch, detour=detour)}"
            drawn = answered(run, told[name][replica], subject)
            run.expect(drawn == first, subject, expected=f"{brief(first)} as before", actual=brief(drawn))


def judge_calls(run: Any, rank: Any) -> None:
    """What is left out means shuffle=True, seed=0, drop_last=False, and positions mean what keywords do."""
    for answer in rank["three_calls"]:
        drawn = answered(run, answer, "ShardedSampler(dataset, 3, rank)")
        for name, call in (("defaults", "(dataset, 3, rank)"), ("positions", "(dataset, 3, rank, True, 0, False)")):
            run.expect(
                drawn[name] == drawn["keywords"],
                f"ShardedSampler{call} beside the same arguments by keyword",
                expected=brief(drawn["keywords"]),
                actual=brief(drawn[name]),
            )


def judge_processes(run: Any, probe: Any) -> None:
    """Each setting has one order, whichever process is asked."""
    for number, setting in enumerate(probe.general(run.case.seed)):
        orders = [[answered(run, each, named(setting))["indices"] for each in rank["general"][number]] for rank in run]
        for process, order in enumerate(orders):
            subject = f"{named(setting)}, asked in process {process}"
            expected, actual = f"{brief(flat(orders[0]))} as in process 0", brief(flat(order))
            run.expect(order == orders[0], subject, expected=expected, actual=actual)


def judge_fresh(run: Any, probe: Any) -> None:
    """Rank 0 started a new interpreter, with another hash seed, which must come to the same orders."""
    fresh = run[0]["fresh"] or {"code": 0, "error": "it was not started"}
    subject = "in a freshly started interpreter"
    ended = f"it ended with code {fresh.get('code')}: {fresh.get('error')}"
    run.expect("orders" in fresh, f"samplers {subject}", expected="indices", actual=ended)
    settings = probe.general(run.case.seed)[: probe.FRESH]
    for setting, told, drawn in zip(settings, run[0]["general"], fresh["orders"], strict=False):
        here = [answer["indices"] for answer in told]
        expected, actual = brief(flat(here)), brief(flat(drawn))
        run.expect(here == drawn, f"{named(setting)}, {subject}", expected=expected, actual=actual)


def test_reshuffles(runs: Any, probe: Any) -> None:
    """Every epoch and every seed has an order of its own"""
    # A false alarm needs two equal permutations of 24 among at most 72: below 72²/2 / 24! < 1e-20.
    for run, setting, epochs in tables(runs, probe, "one_rank", "three_ranks"):
        judge_different(run, named(setting), "epoch", dict(enumerate(epochs)))
    for run in runs("orders"):
        for rank in run:
            told = [[answered(run, each, "two ranks")["indices"] for each in shards] for shards in rank["seeds"]]
            orders = dict(zip(probe.seeds(run.case.seed), told, strict=True))
            judge_different(run, "24 samples on 2 ranks in epoch 1", "seed", orders)


def judge_different(run: Any, subject: str, what: str, orders: dict[int, Any]) -> None:
    """No two of the orders are equal; `orders` maps an epoch or a seed to the shards of all ranks."""
    first: dict[str, int] = {}
    for key, order in orders.items():
        earlier = first.setdefault(repr(list(order)), key)
        again = f"{what} {key} repeats the order of {what} {earlier}: {brief(order[0])}"
        run.expect(earlier == key, subject, expected=f"another order for each {what}", actual=again)


def test_one_permutation(runs: Any, probe: Any) -> None:
    """The shuffle is over the whole data set: samples move between the ranks"""
    # 72 epochs. A sample that never reaches a rank: at most 72 · (2/3)^72 < 2e-11 for three ranks, 48 · 2^-72 for two.
    # The same groups of samples in all epochs: (2 / C(24, 12))^71, which is nothing.
    for run, setting, epochs in tables(runs, probe, "two_ranks", "three_ranks"):
        for replica in range(setting.replicas):
            met = {index for shards in epochs for index in shards[replica]}
            never = [index for index in range(setting.n) if index not in met]
            subject = f"{named(setting, replica)} over {len(epochs)} epochs"
            run.expect(not never, subject, expected="every sample sooner or later", actual=f"never {brief(never)}")
        groups = {frozenset(frozenset(shard) for shard in shards) for shards in epochs}
        run.expect(
            len(groups) > 1,
            f"{named(setting)} over {len(epochs)} epochs",
            expected="other samples together on a rank in other epochs",
            actual=f"the same groups in all epochs, one of them {brief(sorted(epochs[0][0]))}",
        )


def test_keeps_order(runs: Any, probe: Any) -> None:
    """Without shuffle, the data set's order is kept in every epoch"""
    for run, setting, told in answers(runs, probe, "in_order"):
        counts = Counter(index for answer in told for index in answer["indices"])
        for replica, answer in enumerate(told):
            drawn = answer["indices"]
            kept = [index for index in drawn if counts[index] == 1]  # which of two equal ones is padding is free
            rising = all(left < right for left, right in pairwise(kept))
            subject = named(setting, replica)
            run.expect(rising, subject, expected="increasing indices, but for padding", actual=brief(drawn))
    judge_unmoved(runs, probe)


def judge_unmoved(runs: Any, probe: Any) -> None:
    """The first answers without shuffle equal those with another seed and epoch."""
    first = [entry for entry in answers(runs, probe) if not entry[1].shuffle]
    for (run, setting, told), (_, _, other) in zip(first, answers(runs, probe, "in_order"), strict=True):
        for replica, (answer, again) in enumerate(zip(told, other, strict=True)):
            run.expect(
                answer["indices"] == again["indices"],
                f"{named(setting, replica)}, then with another seed and epoch",
                expected=f"the same indices, {brief(answer['indices'])}",
                actual=brief(again["indices"]),
            )


def test_drop_last(runs: Any, probe: Any) -> None:
    """drop_last drops the tail of the order, so that every sample is seen sooner or later"""
    # A sample that is dropped in every epoch: 11 · (3/11)^24 < 4e-13 and 5 · (1/5)^18 < 2e-12.
    for run, setting, epochs in tables(runs, probe, "dropping_three", "dropping_one"):
        seen = {index for shards in epochs for shard in shards for index in shard}
        never = [index for index in range(setting.n) if index not in seen]
        subject = f"{named(setting)} over {len(epochs)} epochs"
        run.expect(not never, subject, expected="every sample sooner or later", actual=f"never {brief(never)}")
    for run, setting, told in answers(runs, probe):
        if setting.drop_last and not setting.shuffle:
            drawn = sorted(index for answer in told for index in answer["indices"])
            kept = list(range(share(setting) * setting.replicas))
            expected = f"the first {len(kept)} samples"
            run.expect(drawn == kept, named(setting), expected=expected, actual=brief(drawn[-12:]))


def test_global_generators(runs: Any, probe: Any) -> None:
    """Neither reads nor moves a global random number generator"""
    for run in runs("orders"):
        for rank in run:
            for told in rank["global_generators"]:
                draws = [answered(run, each, "a sampler beside freshly seeded global generators") for each in told]
                for each in draws:
                    judge_states(run, each["states"])
                judge_unread(run, *(each["indices"] for each in draws))


def judge_states(run: Any, states: dict[str, dict[str, str]]) -> None:
    """No step changed a state; the first step that did is named."""
    for step, after in states.items():
        moved = [name for name, state in after.items() if state != states["at the start"][name]]
        actual = f"{' and '.join(moved)} moved {step}"
        run.expect(not moved, "the states of the global generators", expected="none moved", actual=actual)


def judge_unread(run: Any, first: Shard, other: Shard, again: Shard) -> None:
    """Global seeds a, b, a: only an order that follows them is charged here."""
    run.expect(
        first == other or first != again,
        "the order after torch.manual_seed, numpy.random.seed and random.seed with another number",
        expected=f"unchanged, {brief(first)}",
        actual=brief(other),
    )


def test_data_loader(runs: Any, probe: Any) -> None:
    """Works as a DataLoader's sampler: yields Python ints and reads no sample itself"""
    for run in runs("orders"):
        for rank in run:
            for answer in rank["loaded"]:
                judge_loaded(run, answered(run, answer, "a sampler in a DataLoader"))


def judge_loaded(run: Any, told: dict[str, Any]) -> None:
    base = "an instance of torch.utils.data.Sampler"
    run.expect(told["is_sampler"], "a ShardedSampler", expected=base, actual="none")
    run.expect(told["kinds"] == ["int"], "the type of the indices", expected="int", actual=", ".join(told["kinds"]))
    touched = f"{told['touched']} read"
    run.expect(told["touched"] == 0, "building and iterating the sampler", expected="no sample read", actual=touched)
    sizes = [len(batch) for batch in told["batches"]]
    wanted = [2] * (told["length"] // 2) + [1] * (told["length"] % 2)
    run.expect(sizes == wanted, "the sizes of a DataLoader's batches", expected=brief(wanted), actual=brief(sizes))


def test_bad_rank(runs: Any, probe: Any) -> None:
    """A rank outside [0, num_replicas) raises ValueError"""
    for run in runs("orders"):
        for rank in run:
            for (replicas, number), attempt in zip(2 * probe.BAD_RANKS, rank["bad_ranks"], strict=True):
                subject = f"ShardedSampler(dataset, num_replicas={replicas}, rank={number})"
                run.expect_raised(attempt, "ValueError", subject)
