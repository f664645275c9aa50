"""Judges the recorded calls of `run_gpipe` and `run_1f1b`.

What gradients and losses have to be is computed from what the ranks were given, by the whole model on the whole batch.
A schedule whose gradients are wrong on the ordinary batch is not judged on others as well, but for one mistake: where
nobody divides by the number of micro-batches, all gradients are so many times too large, and are taken as they are.
"""

import math

import torch

from grader.checks import Attempt, NotJudged, Tensors, TypedDict, amount, holds, line_of, once, rank_list, replay, told

SMALL = 2048
"""Bytes; less than the activations of a micro-batch of the ordinary batch. What is smaller is a word between ranks."""
LETTERS = {"forward": "F", "backward": "B"}
OF_THE_PROCESS = {
    "torch's default dtype": "What do you set for the whole process, and who puts it back, also where a stage raises?",
    "torch's random numbers": "Which masks does a stage with dropout draw for one batch, and which for the next one?",
}
"""Hints for what a call is to leave as it is, beside what it is handed."""


class Pass(TypedDict):
    """A pass of a stage: its samples' numbers, those whose outputs were alive as it began, and whether the neighbour
    had begun by then, if that was asked."""

    kind: str
    numbers: list[int]
    alive: list[int]
    waited: bool | None


class Called(Attempt):
    """A call: what it returned, the gradients that parameters have after it, the stage's passes, what of the
    batch and of the stage is no longer as it was, and whether the stage was in training mode in each forward, if that
    was asked."""

    returned: str
    loss: float | None
    gradients: Tensors
    passes: list[Pass]
    changed: list[str]
    stage_changed: list[str]
    modes: list[bool]


class Refused(Attempt):
    """A call in which a stage raises, and what of the batch is no longer as it was."""

    changed: list[str]


# What was recorded


def calls(runs, probe, schedule, names, family="pipeline"):
    """(run, what the call is called, what was handed in) of some calls of a schedule, from the runs that came so far;
    one that did not come to their end fails the check."""
    keys, in_order = [probe.key(schedule, name) for name in names], probe.LATE_KEYS if family == "late" else probe.KEYS
    before, given = in_order[: in_order.index(keys[0])][-1:], probe.CALLS | probe.LATE
    for run in runs(family, recorded=keys, after=before):
        if family == "late" and any(rank.read(key, Called)["raised"] for rank in run for key in before):
            continue  # it ended there
        for name in names:
            if run.world_size in given[name].sizes:
                yield run, name, given[name]


def done(runs, probe, schedule, name=None):
    """(run, what was handed in, by rank what was recorded) of the ordinary batch, or another, on several ranks, where
    all ranks came to the end of the call; that one did not is told where gradients are judged."""
    name = probe.ORDINARY if name is None else name
    given, key = probe.CALLS[name], probe.key(schedule, name)
    for run in runs("pipeline", recorded=[key], after=[key]):
        if run.world_size in given.sizes and not any(rank.read(key, Called)["raised"] for rank in run):
            yield run, given, {rank: rank.read(key, Called) for rank in run}


def for_each(schedules, judged):
    """Judge some schedules, those that came so far. `judged(schedule)` is true if there was anything to judge."""
    some = False
    for schedule in schedules:
        try:
            some |= bool(judged(schedule))
        except NotJudged:
            continue
    if not some:
        raise NotJudged("no call came so far, or none with right gradients")


def called(rank, key):
    """What a rank recorded of a call that raised nothing."""
    seen = rank.read(key, Called)
    rank.expect_success(seen, key)
    return seen


def passes(seen, kind):
    """The numbers of the samples in the passes of a kind, each micro-batch's once, in order."""
    return list(dict.fromkeys(tuple(one["numbers"]) for one in seen["passes"] if one["kind"] == kind))


# Gradients


@once
def model(run, probe, name, given, ranks):
    """All stages' parameters by name, in float64, and the mean loss as a function of them and of the samples."""
    secrets, last = [run[number].secret for number in ranks], len(ranks) - 1
    stages = [given.parameters(secret, name, place) for place, secret in enumerate(secrets)]
    tensors = {f"{place}.{key}": one.double() for place, stage in enumerate(stages) for key, one in stage.items()}
    inputs, targets = given.inputs(secrets[0], name), given.targets(secrets[-1], name)
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    if given.read_in:
        inputs[:, 1:] /= 2  # as a first stage does which is given another dtype than its own

    def loss(tensors, samples=slice(None)):
        hidden = inputs[samples]
        for place in range(len(ranks)):
            mine = {key: tensors[f"{place}.{key}"] for key in stages[place]}
            hidden = probe.compute(given.kind(place), mine, hidden, place == 0, place == last)
        return probe.loss_fn(hidden, targets[samples])

    return tensors, loss


@once
def gradients_of_all(run, probe, name, given, ranks):
    """The gradients of the mean loss, by name."""
    tensors, loss = model(run, probe, name, given, ranks)
    return replay.gradient(loss, tensors)


def expect_gradients(run, probe, schedule, name, given, ranks=None, factor=1):
    """Each stage's gradients are those of the whole model on the whole batch, added to what was there."""
    ranks, key = range(run.world_size) if ranks is None else ranks, probe.key(schedule, name)
    ranks = tuple(ranks)
    whole = gradients_of_all(run, probe, name, given, ranks)
    for place, number in enumerate(ranks):
        rank, seen = run[number], called(run[number], key)
        how = {"subject": f"the gradients of stage {place} in {key}", "terms": 4 * given.batch, "budget": 2}
        wanted = expected(probe, rank, name, given, place, whole, factor)
        if not holds(rank.expect_close, seen["gradients"], wanted, **how):
            wrong = {
                clause: expected(probe, rank, name, given, place, one, 1, left)
                for clause, (one, left) in mistakes(given, *model(run, probe, name, given, ranks), whole).items()
            }
            rank.expect_close(seen["gradients"], wanted, alternatives=wrong, **how)


def expected(probe, rank, name, given, place, gradients, factor, left=True):
    """A stage's gradients after the call, by name: of those that are not frozen."""
    frozen, before = probe.FROZEN.get(given.kind(place), ()), given.gradients(rank.secret, name, place)
    names = [key for key in probe.SHAPES[given.kind(place)] if key not in frozen]
    made = {key: gradients[f"{place}.{key}"] * factor for key in names}
    return {key: (made[key] + (before[key] if left and before else 0)).to(given.dtype) for key in names}


def mistakes(given, tensors, loss, whole):
    """Gradients that common mistakes lead to and whether the old ones are in them, by a clause for the mistake."""
    m, part = given.micro_batches, given.samples
    alone = [replay.gradient(lambda t, i=i: loss(t, slice(i * part, (i + 1) * part)) / m, tensors) for i in range(m)]
    found = {
        "the gradients that were there before are not in them": (whole, False),
        f"as if every micro-batch were the whole batch: they are {m} times too large": (scaled(whole, m), True),
        f"divided by the number of micro-batches once too often: they are {m} times too small": (
            scaled(whole, 1 / m),
            True,
        ),
    }
    for number in {0, m - 1} if m > 1 else ():
        found[f"micro-batch {number} alone is in them"] = (alone[number], True)
        rest = replay.total(*(one for place, one in enumerate(alone) if place != number))
        found[f"micro-batch {number} is not in them"] = (rest, True)
    return found


def scaled(gradients, factor):
    return replay.combined([gradients], [factor])


def as_they_are(given):
    return 1


def too_large(given):
    return given.micro_batches


@once
def working(runs, probe):
    """The schedules whose gradients are right on the ordinary batch, with the factor by which each is wrong elsewhere:
    1, or the number of micro-batches."""
    found = {}
    for schedule in probe.SCHEDULES:
        for factor in (as_they_are, too_large):
            if schedule not in found and holds(judge_first, runs, probe, schedule, factor):
                found[schedule] = factor
    return found


@once
def judge_first(runs, probe, schedule, factor):
    for run, name, given in calls(runs, probe, schedule, probe.FIRST):
        expect_gradients(run, probe, schedule, name, given, factor=factor(given))


def judge(runs, probe, names, family="pipeline"):
    """Gradients in some calls of the schedules that work."""
    factors = working(runs, probe)

    def judged(schedule):
        found = list(calls(runs, probe, schedule, names, family))
        for run, name, given in found:
            expect_gradients(run, probe, schedule, name, given, factor=factors[schedule](given))
        return found

    for_each(factors, judged)


def test_gpipe(runs, probe):
    """run_gpipe: every stage's gradients are those of the whole model on the whole batch"""
    judge_first(runs, probe, "run_gpipe", as_they_are)


def test_one_f_one_b(runs, probe):
    """run_1f1b: every stage's gradients are those of the whole model on the whole batch"""
    judge_first(runs, probe, "run_1f1b", as_they_are)


def test_alone(runs, probe):
    """One rank alone is a pipeline of one stage"""
    factors, loss_is_right = working(runs, probe), holds(test_loss, runs, probe)
    turns_are_right = all(holds(check, runs, probe) for check in (test_one_f_one_b_order, test_alive))
    for schedule in probe.SCHEDULES:
        for run, name, given in calls(runs, probe, schedule, [*probe.FIRST, *probe.FEW], "alone"):
            factor = factors.get(schedule, as_they_are)(given)
            expect_gradients(run, probe, schedule, name, given, factor=factor)
            seen = run[0].read(probe.key(schedule, name), Called)
            for kind in LETTERS:
                expect_once(run[0], schedule, seen, given, kind)
            part = run[0].during(probe.key(schedule, name)).at_least(SMALL)
            run[0].expect(not len(part), "what one rank communicates", "nothing", told(part), line=line_of(part))
            if turns_are_right and schedule == "run_1f1b":  # else that is told there
                expect_in_turn(run[0], seen, given, f"the order in {probe.key(schedule, name)}")
                expect_few_alive(run[0], seen)
            if loss_is_right:  # else that is told where the loss is judged
                expect_returned(run, probe, run[0], schedule, name, seen, given)
        for run, name, given in calls(runs, probe, schedule, probe.ALONE, "alone"):  # without a backward
            expect_gradients(run, probe, schedule, name, given)
            expect_once(run[0], schedule, run[0].read(probe.key(schedule, name), Called), given, "forward")


def test_loss(runs, probe):
    """The last rank returns the mean loss of the batch as a float, the others None"""
    factors = working(runs, probe)

    def judged(schedule):
        found = [(probe.ORDINARY, *one) for one in done(runs, probe, schedule)]
        for name in probe.RETURNING if schedule in factors else ():
            for run, given, by_rank in so_far(done, runs, probe, schedule, name):
                # where gradients are wrong, that is told by another check
                if holds(expect_gradients, run, probe, schedule, name, given, factor=factors[schedule](given)):
                    found.append((name, run, given, by_rank))
        for name, run, given, by_rank in found:
            for rank, seen in by_rank.items():
                expect_returned(run, probe, rank, schedule, name, seen, given)
        return found

    for_each(probe.SCHEDULES, judged)


def so_far(found, *arguments, **options):
    """What there is of it; nothing where the code did not come so far."""
    try:
        return list(found(*arguments, **options))
    except NotJudged:
        return []


def expect_returned(run, probe, rank, schedule, name, seen, given):
    """On the last rank the mean loss over the batch, at the accuracy of float32."""
    last = rank.rank == run.world_size - 1
    kind, subject = "float" if last else "NoneType", f"what {probe.key(schedule, name)} returned"
    rank.expect(seen["returned"] == kind, subject, f"a {kind}", f"a {seen['returned']}")
    if not last:
        return
    tensors, loss = model(run, probe, name, given, tuple(range(run.world_size)))
    value, wanted = rank.expect_kind(seen["loss"], float, subject), loss(tensors).float()
    found = torch.tensor(value, dtype=torch.float32)
    part = slice(given.batch - given.samples, None)
    clauses = {"this is that of the last micro-batch alone": loss(tensors, part).float()}
    how = {"terms": given.batch, "alternatives": clauses}
    rank.expect_close(found, wanted, f"the loss that {probe.key(schedule, name)} returned", **how)


# Schedules


def schedule_of(seen):
    """F0 F1 B0 …: a stage's passes, each micro-batch's first forward and first backward."""
    number = {samples: place for place, samples in enumerate(passes(seen, "forward"))}
    done = [(LETTERS.get(one["kind"], "?"), number.get(tuple(one["numbers"]), "?")) for one in seen["passes"]]
    return [f"{letter}{place}" for letter, place in dict.fromkeys(done)]


def test_once(runs, probe):
    """Every micro-batch goes through a stage once, forward and backward"""

    def judged(schedule):
        found = list(done(runs, probe, schedule))
        for _, given, by_rank in found:
            for rank, seen in by_rank.items():
                for kind in LETTERS:
                    expect_once(rank, schedule, seen, given, kind)
        return found

    for_each(probe.SCHEDULES, judged)


def expect_once(rank, schedule, seen, given, kind):
    """As many passes of a kind as there are micro-batches. Those without samples, for a shape, do not count."""
    sizes = [len(one["numbers"]) for one in seen["passes"] if one["kind"] == kind and any(one["numbers"])]
    told_sizes = f"{len(sizes)}, of {' and '.join(map(str, sorted(set(sizes)))) or 'no'} samples"
    wanted = f"{given.micro_batches}, of {given.samples} samples"
    rank.expect_equal(told_sizes, wanted, f"{kind} passes of a stage in {schedule}")


def test_gpipe_order(runs, probe):
    """run_gpipe does all forwards, then all backwards"""

    def judged(schedule):
        found = list(done(runs, probe, schedule))
        for rank, seen in (pair for _, _, by_rank in found for pair in by_rank.items()):
            expect_forwards_first(rank, seen, None, f"the order in {schedule}")
        return found

    for_each(["run_gpipe"], judged)


def expect_forwards_first(rank, seen, _, subject):
    order = schedule_of(seen)
    right = order and order == sorted(order, key=lambda one: one[0] == "B")
    rank.expect(right, subject, "all F, then all B", " ".join(order) or "nothing")


def test_one_f_one_b_order(runs, probe):
    """run_1f1b: N - r - 1 forwards on rank r, then one forward and one backward in turn"""

    def judged(schedule):
        found = list(done(runs, probe, schedule))
        for _, given, by_rank in found:
            for rank, seen in by_rank.items():
                expect_in_turn(rank, seen, given, f"the order in {schedule}")
        return found

    for_each(["run_1f1b"], judged)


def expect_in_turn(rank, seen, given, subject):
    ahead, m = min(rank.world_size - rank.rank - 1, given.micro_batches), given.micro_batches
    turns = [one for i in range(m - ahead) for one in (f"F{ahead + i}", f"B{i}")]
    wanted = [f"F{i}" for i in range(ahead)] + turns + [f"B{i}" for i in range(m - ahead, m)]
    rank.expect_equal(" ".join(schedule_of(seen)), " ".join(wanted), subject)


def test_alive(runs, probe):
    """run_1f1b: at most N - r outputs of a stage are alive on rank r"""

    def judged(schedule):
        found = list(done(runs, probe, schedule))
        for rank, seen in (pair for _, _, by_rank in found for pair in by_rank.items()):
            expect_few_alive(rank, seen)
        return found

    for_each(["run_1f1b"], judged)


def expect_few_alive(rank, seen):
    """As each pass begins; the output of a forward that begins is not among them."""
    owner = {number: place for place, samples in enumerate(passes(seen, "forward")) for number in samples}
    if not owner:
        raise NotJudged("nothing goes through the stage")
    most = rank.world_size - rank.rank
    for one in seen["passes"]:
        alive = {owner[number] for number in one["alive"] if number in owner}
        place = owner.get(next(iter(one["numbers"]), 0), "?")
        subject = f"outputs of stage {rank.rank} that are alive as {LETTERS.get(one['kind'], '?')}{place} begins"
        rank.expect(len(alive) <= most, subject, f"at most N - r = {most}", len(alive))


def test_pipelined(runs, probe):
    """A stage begins while its neighbour is still at work"""

    def judged(schedule):
        seen_of = [pair for _, _, by_rank in done(runs, probe, schedule) for pair in by_rank.items()]
        asked = [(rank, one) for rank, seen in seen_of for one in seen["passes"] if one["waited"] is not None]
        for rank, one in asked:
            subject = f"the neighbour's first {one['kind']}, as the last one begins here in {schedule}"
            actual = "not begun: what it needs has not been sent, or it waits for more than that"
            rank.expect(one["waited"], subject, "begun", actual)
        return asked

    for_each(probe.SCHEDULES, judged)


# Messages


def test_messages(runs, probe):
    """Activations and gradients cross once, between neighbours, and nothing else does"""

    def judged(schedule):
        found = list(done(runs, probe, schedule))
        for run, given, _ in found:
            for rank in run:
                expect_messages(rank, probe, schedule, given)
            if run.finished:
                run.expect_confirmed()
        return found

    for_each(probe.SCHEDULES, judged)


def expect_messages(rank, probe, schedule, given):
    """What a rank sends of SMALL bytes or more."""
    every = rank.during(probe.key(schedule, probe.ORDINARY))
    part = every.at_least(SMALL)
    others = part.of(*{one.operation for one in part} - {"send", "recv"})
    subject = f"what crosses in {schedule}, beside small words"
    rank.expect(not len(others), subject, "messages between neighbours", told(others), line=line_of(others))
    beside = {"activations": rank.rank + 1, "gradients": rank.rank - 1}
    sent = part.of("send")
    strangers = sent.with_peers(*{*sent.peers} - {*beside.values()})
    where = f"{told(strangers)} to {rank_list(strangers.peers)}"
    rank.expect(not len(strangers), subject, "messages between neighbours", where, line=line_of(strangers))
    size = given.samples * math.prod(probe.SHAPE) * given.dtype.itemsize
    for what, peer in beside.items():
        mine, count = sent.with_peers(peer), given.micro_batches if 0 <= peer < rank.world_size else 0
        rank.expect(
            [one.bytes for one in mine] == [size] * count,
            f"the {what} that rank {rank.rank} sends in {schedule}",
            f"{count} messages of {amount(size)}" if count else "none",
            told(found := mine if len(mine) else every.of("send").with_peers(peer)),
            line=line_of(found),
        )


def test_awaited(runs, probe):
    """What was sent arrives, however late its receiver comes for it"""
    for schedule in working(runs, probe):
        for run in runs("late", finished=False):
            rank, name = run[run.world_size - 1], f"lost in {schedule}"
            lost = name in rank and rank.read(name, bool)
            rank.expect(not lost, f"the last gradient, when {schedule} returns", "sent", "still to be sent, and lost")
    judge(runs, probe, probe.LATE, "late")


# Other batches, other stages


def test_accumulates(runs, probe):
    """Gradients are added to those that are there already"""
    judge(runs, probe, probe.LEFT)


def test_few(runs, probe):
    """Fewer micro-batches than stages"""
    judge(runs, probe, probe.FEW)
    orders = {
        "run_gpipe": (test_gpipe_order, expect_forwards_first),
        "run_1f1b": (test_one_f_one_b_order, expect_in_turn),
    }
    for schedule, (ordinary, expect_order) in orders.items():
        if holds(ordinary, runs, probe):  # one that is wrong there as well is told there
            for run, name, given in calls(runs, probe, schedule, probe.FEW):
                for rank in run:
                    key = probe.key(schedule, name)
                    expect_order(rank, called(rank, key), given, f"the order in {key}")


def test_read(runs, probe):
    """The first rank alone reads inputs, of any dtype, and the last rank alone targets"""
    judge(runs, probe, probe.READ)
    expect_left_alone(runs, probe, probe.READ)


def expect_left_alone(runs, probe, names):
    """What the caller has handed in is as before."""

    def judged(schedule):
        found = list(calls(runs, probe, schedule, names))
        for run, name, _ in found:
            for rank in run:
                key = probe.key(schedule, name)
                for what in rank.read(key, Called)["changed"]:
                    expect_as_before(rank, what, key)
        return found

    for_each(probe.SCHEDULES, judged)


def expect_as_before(rank, what, subject):
    """Of what a call is to leave as it is, something has changed."""
    hint = OF_THE_PROCESS.get(what)
    rank.fail(f"{what} after {subject}", expected="as the caller left it", actual="changed", hint=hint)


def test_dtypes(runs, probe):
    """float32 and bfloat16"""
    judge(runs, probe, probe.DTYPES)
    expect_left_alone(runs, probe, probe.DTYPES)
    for_each(working(runs, probe), lambda schedule: expect_sent_in_dtype(runs, probe, schedule))


def expect_sent_in_dtype(runs, probe, schedule):
    """A rank's messages to its neighbours have the bytes that a micro-batch has in the dtype of the model; small words
    may go beside them."""
    found = list(calls(runs, probe, schedule, probe.DTYPES))
    for run, name, given in found:
        size = given.samples * math.prod(probe.SHAPE) * given.dtype.itemsize
        for rank in run:
            sent = rank.during(key := probe.key(schedule, name)).of("send")
            for what, peer in {"activations": rank.rank + 1, "gradients": rank.rank - 1}.items():
                part = sent.with_peers(peer)
                fitting = sum(one.bytes == size for one in part)
                rank.expect(
                    fitting == given.micro_batches or not 0 <= peer < run.world_size,
                    f"the {what} that rank {rank.rank} sends in {key}",
                    f"{given.micro_batches} messages of {amount(size)}, which a micro-batch has in {name}",
                    told(part),
                    line=line_of(part),
                )
    return found


def test_frozen(runs, probe):
    """Stages with frozen parameters, in part or altogether"""
    judge(runs, probe, probe.FROZEN_STAGES)
    expect_left_alone(runs, probe, probe.FROZEN_STAGES)
    for_each(probe.SCHEDULES, lambda schedule: expect_modes(runs, probe, schedule))


def expect_modes(runs, probe, schedule):
    """A frozen stage was given in evaluation mode, others in training mode, and so they computed. Afterwards they are
    as before, but for their gradients."""
    found = list(calls(runs, probe, schedule, probe.FROZEN_STAGES))
    for run, name, given in found:
        for rank in run:
            modes, training = called(rank, key := probe.key(schedule, name))["modes"], given.kind(rank.rank) != "frozen"
            words = {True: "training", False: "evaluation"}
            for mode in modes:
                rank.expect_equal(words[mode], words[training], f"the mode in which the stage computes in {key}")
            for what in rank.read(key, Called)["stage_changed"]:
                expect_as_before(rank, what, key)
    return found


def test_plain(runs, probe):
    """A stage without parameters"""
    judge(runs, probe, probe.PLAIN)


def test_groups(runs, probe):
    """In a sub-group the pipeline is the group's own"""
    factors, given = working(runs, probe), probe.IN_GROUPS

    def judged(schedule):
        keys = [probe.key(schedule, name) for name in probe.GROUPS]
        came = runs("pipeline", recorded=keys, after=probe.KEYS[: probe.KEYS.index(keys[0])][-1:])
        found = [run for run in came if run.world_size == probe.WORLD]
        for run in found:
            ordered = all(rank.read("ordered", bool) for rank in run)
            for name, members in probe.GROUPS.items():
                ranks = members if ordered else tuple(sorted(members))
                expect_gradients(run, probe, schedule, name, given, ranks=ranks, factor=factors[schedule](given))
        return found

    for_each(factors, judged)


# Bad input, and stages that raise


def test_bad_input(runs, probe):
    """ValueError on every rank where num_micro_batches is below 1 or does not divide the batch, in a group as well"""

    def judged(schedule):
        found = list(calls(runs, probe, schedule, probe.BAD, "alone"))
        found += calls(runs, probe, schedule, probe.BAD)
        for run, name, _ in found:
            for rank in run:
                expect_refused(rank, probe.key(schedule, name))
        found += refused_in_group(runs, probe, schedule)
        return found

    for_each(probe.SCHEDULES, judged)


def expect_refused(rank, key):
    seen = rank.read(key, Called)
    rank.expect_raised(seen, "ValueError", key, returned=f"returned a {seen['returned']}")


def refused_in_group(runs, probe, schedule):
    """The runs in which two ranks of four are given bad input, and the others take no part."""
    keys = [probe.key(schedule, name) for name in probe.BAD_IN_GROUP]
    came = runs("pipeline", recorded=keys, after=probe.KEYS[: probe.KEYS.index(keys[0])][-1:])
    found = [run for run in came if run.world_size == probe.WORLD]
    for run in found:
        for number in probe.GROUPS[probe.BAD_GROUP]:
            for key in keys:
                expect_refused(run[number], key)
    return found


def test_after(runs, probe):
    """The next batch is not disturbed by one that was refused"""
    judge(runs, probe, probe.AFTER)


def test_faults(runs, probe):
    """An exception in a stage reaches the caller, and no rank returns as if nothing had happened"""
    judged = 0
    families = {"pipeline": (probe.FAULTS, probe.KEYS), "late": (probe.FAULTS_LATER, probe.LATE_KEYS)}
    for family, (faults, keys) in families.items():
        for run in so_far(runs, family, finished=False, after=keys[-1:]):
            for name, (given, schedule, broken, _) in faults.items():
                if run.world_size in given.sizes and not run[0].on_gpu:
                    judged += 1
                    expect_raised(run, probe, schedule, name, broken, came=family == "pipeline")
    if not judged:
        raise NotJudged("the code did not come so far")


def expect_raised(run, probe, schedule, name, broken, came):
    """A rank that recorded nothing was stuck, which ends a job as well, and is told by name. Not so the one whose stage
    raises: nothing keeps it, if it came to the call for certain."""
    subject, wanted = f"{schedule} with {name}, that of rank {broken}", "an exception on every rank"
    if came:
        run[broken].expect(name in run[broken], subject, wanted, "it did not come out of the function")
    for rank in run:
        if name in rank:
            seen = rank.read(name, Refused)
            rank.expect(seen["raised"], subject, wanted, "returned")
            if rank.rank == broken:
                rank.expect(probe.FAULT in seen["said"], subject, f"the stage's own: {probe.FAULT}", seen["message"])
                for what in seen["changed"]:
                    expect_as_before(rank, what, subject)
