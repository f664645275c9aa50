"""What linear_scaled_lr and warmup_scheduler must do, judged over recorded runs."""

from itertools import pairwise

import torch
from typing_extensions import TypedDict

from grader.checks import Attempt, Tensor

# -- linear_scaled_lr -------------------------------------------------------------------------------------------------


class Asked(TypedDict):
    """What linear_scaled_lr answered."""

    outcome: Attempt
    value: float | None
    type: str


def call(arguments):
    return "linear_scaled_lr({:.6g}, {}, {})".format(*arguments)


def answers(runs, name, given):
    """(rank, arguments, what came of them)."""
    for run in runs("scale"):
        for rank in run:
            seen, wanted = rank.read(name, list[Asked]), given(rank.secret)
            rank.expect_equal(len(seen), len(wanted), "the number of answers")
            yield from ((rank, *pair) for pair in zip(wanted, seen, strict=True))


def judge_scaled(runs, name, given):
    """The rates for these arguments."""
    for rank, arguments, seen in answers(runs, name, given):
        rate, base, batch = arguments
        rank.expect_success(seen["outcome"], call(arguments), expected="a float")
        rank.expect(seen["value"] is not None, call(arguments), "a float", f"a {seen['type']}")
        mistakes = {
            "the inverse: the rate falls as the batch grows": rate * base / batch,
            "scaled by the square root of the batch": rate * (batch / base) ** 0.5,
            "not scaled": float(rate),
            "the quotient of the batches lost its fraction": float(rate * (batch // base)),
        }
        rank.expect_close(seen["value"], rate * batch / base, call(arguments), alternatives=mistakes)


def test_scales(runs, probe):
    """linear_scaled_lr: a batch k times as large, a rate k times as large"""
    judge_scaled(runs, "multiples", probe.multiples)


def test_scales_fractions(runs, probe):
    """linear_scaled_lr: smaller batches, and such that do not divide"""
    judge_scaled(runs, "fractions", probe.fractions)


def test_scale_type(runs, probe):
    """linear_scaled_lr: a Python float, also of whole numbers"""
    for rank, arguments, seen in answers(runs, "whole", lambda secret: probe.WHOLE):
        rank.expect_success(seen["outcome"], call(arguments), expected="a float")
        rank.expect(seen["type"] == "float", f"the type of {call(arguments)}", "float", seen["type"])


def test_refuses_scale(runs, probe):
    """linear_scaled_lr: ValueError for what is not positive"""
    for rank, arguments, seen in answers(runs, "impossible", probe.impossible):
        rank.expect_raised(seen["outcome"], "ValueError", call(arguments), returned=f"returned {seen['value']}")


# -- warmup_scheduler -------------------------------------------------------------------------------------------------


class Trained(TypedDict):
    """A training: what it raised, or the rates of its steps, by step and group."""

    outcome: Attempt
    rates: Tensor | None


def trainings(runs, *names):
    """(rank, name, rates by step and group) of trainings that came to their end."""
    for run in runs("schedule"):
        for rank in run:
            for name in names:
                yield rank, name, rates_of(rank, name)


def rates_of(rank, name, subject=None):
    seen = rank.read(name, Trained)
    rank.expect_success(seen["outcome"], subject or f"the training ({name})")
    return seen["rates"]


def ramp(rates, warmup, steps, factor=lambda step, warmup: (step + 1) / warmup):
    """The rates of these steps by the contract, or by another `factor`."""
    factors = [min(1.0, factor(step, warmup)) if step < warmup else 1.0 for step in range(steps)]
    return torch.outer(torch.tensor(factors, dtype=torch.float64), torch.tensor(rates, dtype=torch.float64))


def judge_steps(rank, seen, rates, warmup, first, last, subject):
    """The rates of the steps from `first` to before `last`."""
    steps = len(seen)

    def curve(factor):
        return ramp(rates, warmup, steps, factor)[first:last]

    wanted, full = ramp(rates, warmup, steps), ramp(rates, 0, steps)
    parts = ramp([1.0], warmup, steps)[:, 0]
    late = torch.cat([torch.zeros_like(wanted[:1]), wanted[:-1]])
    rising = torch.arange(1, steps + 1, dtype=torch.float64)[:, None] / max(warmup, 1) * full
    mistakes = {
        "each is one step late: step k has k/W of the rate": late[first:last],
        "each is one step early: step k has (k + 2)/W of the rate": curve(lambda k, w: (k + 2) / w),
        "(k + 1)/(W + 1) of the rate, so it is reached one step late": curve(lambda k, w: (k + 1) / (w + 1)),
        "the whole rate, without a warm-up": full[first:last],
        "the fractions were multiplied with one another": (parts.cumprod(0)[:, None] * full)[first:last],
        "the rate went on rising after the warm-up": rising[first:last],
    }
    rank.expect_equal(list(seen.shape), list(wanted.shape), f"{subject}: steps and groups")
    rank.expect_close(seen[first:last], wanted[first:last], subject, terms=warmup + 1, alternatives=mistakes)


def judge_single(runs, probe, chosen, words):
    """Chosen steps of the trainings with one group; `words` says which steps of a warm-up of W steps these are."""
    for place in range(3):
        for rank, _, seen in trainings(runs, f"single {place}"):
            rate, warmup = probe.single(rank.secret)[place]
            first, last = chosen(warmup)
            subject = f"W = {warmup}, rate {rate:.4g}: {words(warmup)}"
            judge_steps(rank, seen, [rate], warmup, first, last, subject)


def test_steppable(runs):
    """warmup_scheduler: gives something that can be stepped after an optimizer step"""
    for _ in trainings(runs, "two steps"):
        pass


def test_is_scheduler(runs):
    """warmup_scheduler: an LRScheduler, whose get_last_lr tells the rates of the step to come"""
    for run in runs("schedule"):
        for rank in run:
            rank.expect(rank.read("is one", bool), "what warmup_scheduler returned", "an LRScheduler", "no LRScheduler")
            seen = rates_of(rank, "reported", "get_last_lr() before each step")
            rank.expect_close(seen[:, 0], seen[:, 1], "what get_last_lr() says of the rates, step by step", terms=10)


def test_first_step(runs, probe):
    """warmup_scheduler: the first step is taken at 1/W of the rate"""
    judge_single(runs, probe, lambda warmup: (0, 1), lambda warmup: "the rate of step 0")


def test_ramps(runs, probe):
    """warmup_scheduler: step k at (k + 1)/W of the rate, the whole rate at step W - 1"""
    judge_single(runs, probe, lambda warmup: (1, warmup), lambda warmup: f"the rates of steps 1 to {warmup - 1}")


def test_holds(runs, probe):
    """warmup_scheduler: exactly the rate after the warm-up"""
    judge_single(runs, probe, lambda warmup: (warmup, None), lambda warmup: f"the rates from step {warmup} on")


def test_no_warm_up(runs, probe):
    """warmup_scheduler: 0 changes nothing"""
    judge_short(runs, probe, 0)


def test_single_step(runs, probe):
    """warmup_scheduler: with W = 1 the first step has the whole rate"""
    judge_short(runs, probe, 1)


def judge_short(runs, probe, warmup):
    for rank, _, seen in trainings(runs, f"warm-up of {warmup}"):
        rates = probe.own_rates(probe.several(rank.secret))
        judge_groups(rank, seen, rates, warmup, f"W = {warmup}")
        subject = f"what warmup_scheduler returned for W = {warmup}"
        rank.expect(rank.read(f"is one for {warmup}", bool), subject, "an LRScheduler", "no LRScheduler")


def judge_groups(rank, seen, rates, warmup, words):
    """All steps of a training, group by group."""
    rank.expect_equal(list(seen.shape), [len(seen), len(rates)], f"{words}: steps and groups")
    for group, rate in enumerate(rates):
        subject = f"{words}: the rates of group {group}, whose own is {rate:.4g}"
        others = {f"the rates of group {i}": ramp([r], warmup, len(seen)) for i, r in enumerate(rates) if i != group}
        wanted = ramp([rate], warmup, len(seen))
        rank.expect_close(seen[:, group : group + 1], wanted, subject, terms=warmup + 1, alternatives=others)


class Options(TypedDict):
    """By optimizer, what of its groups was changed."""

    outcome: Attempt
    changed: dict[str, list[str]]


def test_groups(runs, probe):
    """warmup_scheduler: every group has its own rate, one added later too, and keeps its other options"""
    for rank, name, seen in trainings(runs, *probe.OPTIMIZERS):
        groups = probe.several(rank.secret)
        judge_groups(rank, seen, probe.own_rates(groups), groups["warmup"], f"{name}, W = {groups['warmup']}")
    for run in runs("schedule"):
        for rank in run:
            seen = rank.read("options", Options)
            rank.expect_success(seen["outcome"], "a training with each optimizer")
            rank.expect_equal(sorted(seen["changed"]), sorted(probe.OPTIMIZERS), "the optimizers that were tried")
            for kind, names in seen["changed"].items():
                rank.expect(not names, f"{kind}: what changes in its groups beside lr", "none", ", ".join(names))


def test_separate(runs, probe):
    """warmup_scheduler: trainings at once do not disturb one another"""
    for rank, _, seen in trainings(runs, "side by side"):
        for place, (rate, warmup) in enumerate(probe.at_once(rank.secret)):
            subject = f"three at once, number {place}: W = {warmup}, rate {rate:.4g}: its rates"
            judge_steps(rank, seen[:, place : place + 1], [rate], warmup, 0, None, subject)
    for rank, _, seen in trainings(runs, "from one state"):
        subject = "what get_last_lr() says when another scheduler, which has loaded the same state, has gone on"
        rank.expect_close(seen[0], seen[1], subject, terms=10)


def test_refuses_steps(runs, probe):
    """warmup_scheduler: ValueError for a negative number of steps"""
    for run in runs("schedule"):
        for rank in run:
            for steps, seen in zip(probe.negative(rank.secret), rank.read("refused", list[Attempt]), strict=False):
                rank.expect_raised(seen, "ValueError", f"warmup_scheduler(optimizer, {steps})")
            rank.expect_equal(len(rank["refused"]), 2, "the number of answers")


def judge_resumed(runs, probe, how, words):
    """Trainings that were stopped some times have the rates of the one that was not."""
    for order in probe.FIRST:
        for rank, _, whole in trainings(runs, "undisturbed"):
            stops = ", ".join(map(str, probe.stops(rank.secret)))
            subject = f"resumed {words}after {stops} steps, {order}, each time by the second load of one state"
            seen = rates_of(rank, f"{order}{how}", subject)
            mistakes = {"they began anew with the last resumption": again(whole, probe.stops(rank.secret))}
            rank.expect_close(seen, whole, f"{subject}: the rates by step and group", terms=20, alternatives=mistakes)


def again(whole, stops):
    """The rates of a training that begins its warm-up anew each time."""
    ends = [*stops, len(whole)]
    return torch.cat([whole[: stops[0]], *(whole[: end - start] for start, end in pairwise(ends))])


def test_resumes(runs, probe):
    """warmup_scheduler: a new one over a new optimizer goes on, whichever was loaded first"""
    judge_resumed(runs, probe, "", "")


def test_resumes_rates(runs, probe):
    """warmup_scheduler: the loaded rates hold, not those that the new optimizer was made with"""
    judge_resumed(runs, probe, ", other rates", "over optimizers made with three times the rates ")


def test_resumes_from_file(runs, probe):
    """warmup_scheduler: the state goes through torch.save and torch.load"""
    judge_resumed(runs, probe, ", from a file", "from files ")
