"""Judges the recorded runs of `build_mesh`, `parallelize` and `train_step`.

Expected outputs and losses come from the bare model, trained in one process on the union of the dp batches. The weight
of a batch may well be computed in float32. Where that cannot hold it, and for losses, float32 is the accuracy at which
they are compared: a wrong weight is wrong by a percent or more. Where training differs, `Ranks` tries what common
mistakes lead to, rank by rank. Communication is judged by the members of the group in which it runs.
"""

from dataclasses import replace

import torch
from torch.nn.functional import linear

from grader.checks import Attempt, Tensor, TypedDict, amount, count, holds, line_of, listed, memory, replay, told

SMALL = 1024
"""Bytes. What is smaller is a count, a loss or a barrier; the matrices and activations judged have twice it."""


class Seen(TypedDict):
    """A mesh's dimensions with their sizes, the ranks of a rank's group in each, and the type of its device."""

    sizes: dict[str, int]
    members: dict[str, list[int]]
    device: str


class Built(Attempt):
    """`here` is the type of the device on which the rank computes."""

    type: str
    seen: Seen | None
    here: str


class Returned(TypedDict):
    module: bool
    type: str


class Sent(Attempt):
    """Steps whose communication is judged; `samples` are those of the largest batch that a loss was taken of."""

    samples: int


class Trained(Attempt):
    """Outputs after each step, or those of no step; of each step the loss that was returned, and its type; what the
    rank has of each parameter before the first step and after the last."""

    outputs: list[Tensor]
    losses: list[float | None]
    kinds: list[str]
    begun: list[Tensor]
    ended: list[Tensor]
    returned: Returned


# What was asked


def meshes(runs, wanted=lambda dp, tp: True, training=None):
    """(run, dp, tp) for every mesh, or for those on which a training was asked for."""
    for family in ("alone", "pair", "three", "four"):
        (run,) = runs(family, finished=False)
        for dp, tp, trainings in run.parameters["meshes"]:
            if wanted(dp, tp) and (training is None or training in trainings):
                yield run, dp, tp


def arrived(run, name):
    """The run, if every rank came as far as this record; else its diagnosis."""
    if not run.came_to([name]):
        run.require_finished()
    return run


def alone(dp, tp):
    return dp == tp == 1


def tp_only(dp, tp):
    return dp == 1 < tp


def dp_only(dp, tp):
    return tp == 1 < dp


def both(dp, tp):
    return dp > 1 < tp


# What training computes


def union(probe, run, tp, training, step):
    """(inputs, targets) of each dp rank in a step."""
    secrets = [run[first].secret for first in range(0, run.world_size, tp)]
    samples = [probe.samples_of(training, place, step) for place in range(len(secrets))]
    return [probe.batch(training, secret, step, n) for secret, n in zip(secrets, samples, strict=True)]


def wanted_of(probe, run, tp, training):
    """Of the bare model in one process: outputs before each step and after the last, by step the loss and those of the
    dp ranks' batches, and the trained model."""
    plan, loss_fn, model = probe.plan_of(training), probe.loss_of(training), probe.build(training, run.seed)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    optimizer = replay.Optimizer(replay.RULES[plan["kind"]], {name: model.get_parameter(name).data for name in trained})
    evaluation, _ = probe.batch(training, run.seed, "evaluation", 3)
    outputs, losses, by_row = [model(evaluation).detach()], [], []
    for step in range(probe.STEPS):
        batches = union(probe, run, tp, training, step)
        by_row.append([float(loss_fn(model(inputs), targets).detach()) for inputs, targets in batches])
        inputs, targets = map(torch.cat, zip(*batches, strict=True))
        loss = loss_fn(model(inputs), targets)
        gradients = torch.autograd.grad(loss, [model.get_parameter(name) for name in trained])
        put(model, optimizer.step(dict(zip(trained, gradients, strict=True)), lambda name: plan["options"]))
        losses.append(float(loss.detach()))
        outputs.append(model(evaluation).detach())
    return outputs, losses, by_row, model


def put(model, values):
    for name, value in values.items():
        model.get_parameter(name).data = value


class Ranks:
    """The ranks of a mesh in one process, to try mistakes. Each has a whole model, of which only its slices of `up` and
    `down` are used. `f` says whether backward sums over the tp group what flows back out of `up`, `biases` how often
    the bias of `down` is added. `combine(gradients, d, t, samples)` makes the gradients of a rank from those of all,
    `gradients[d][t]` by name, and the samples of the dp ranks."""

    def __init__(self, probe, run, tp, training, combine, f=True, biases=1):
        self.probe, self.run, self.training, self.combine, self.f = probe, run, training, combine, f
        self.tp, self.dp, self.biases, self.plan = tp, run.world_size // tp, biases, probe.plan_of(training)
        self.models = [[probe.build(training, run.seed) for _ in range(tp)] for _ in range(self.dp)]
        self.trained = [n for n, p in self.models[0][0].named_parameters() if p.requires_grad]
        start, rule = self.models[0][0].state_dict(), replay.RULES[self.plan["kind"]]
        self.optimizers = [[replay.Optimizer(rule, start) for _ in range(tp)] for _ in range(self.dp)]

    def outputs(self, row, inputs):
        """Those of each rank of a tp group."""
        entered = [model.enter(inputs) for model in row]
        for place, model in enumerate(row):
            parts = [
                self.part(other, entered[place] if self.f or other is model else entered[number].detach(), number)
                for number, other in enumerate(row)
            ]
            bias = 0 if model.down.bias is None else self.biases * model.down.bias
            yield model.leave(entered[place], sum(parts) + bias)

    def part(self, model, entered, place):
        rows = torch.arange(model.up.out_features).chunk(self.tp)[place]
        bias = None if model.up.bias is None else model.up.bias[rows]
        hidden = model.activate(linear(entered, model.up.weight[rows], bias))
        return linear(hidden, model.down.weight[:, rows])

    def step(self, number):
        batches = union(self.probe, self.run, self.tp, self.training, number)
        gradients = [self.gradients_of(row, *batch) for row, batch in zip(self.models, batches, strict=True)]
        samples = [len(inputs) for inputs, _ in batches]
        for d, row in enumerate(self.models):
            for t, model in enumerate(row):
                combined = self.combine(gradients, d, t, samples)
                put(model, self.optimizers[d][t].step(combined, lambda name: self.plan["options"]))

    def gradients_of(self, row, inputs, targets):
        """By name, of each rank of a tp group."""
        loss_fn, gradients = self.probe.loss_of(self.training), []
        for model, output in zip(row, self.outputs(row, inputs), strict=True):
            parameters = [model.get_parameter(name) for name in self.trained]
            found = torch.autograd.grad(loss_fn(output, targets), parameters, retain_graph=True)
            gradients.append(dict(zip(self.trained, found, strict=True)))
        return gradients

    def outputs_after(self, steps):
        """By rank, on the batch that all ranks know."""
        for number in range(steps):
            self.step(number)
        inputs, _ = self.probe.batch(self.training, self.run.seed, "evaluation", 3)
        with torch.no_grad():
            return [output for row in self.models for output in self.outputs(row, inputs)]


def weighted(gradients, d, t, samples):
    """What is right: the mean over the dp group, each batch by its samples."""
    return replay.combined([row[t] for row in gradients], [n / sum(samples) for n in samples])


def unweighted(gradients, d, t, samples):
    return replay.mean([row[t] for row in gradients])


def own(gradients, d, t, samples):
    return gradients[d][t]


def times(factor, names=None):
    """What is right, times a factor that dp and tp give; where `names` are given, the gradients of those alone."""

    def combine(gradients, d, t, samples):
        right, by = weighted(gradients, d, t, samples), factor(len(gradients), len(gradients[0]))
        return {name: by * one if names is None or names(name) else one for name, one in right.items()}

    return combine


def averaged_only(names):
    """The gradients with these names are averaged, and the others are left as they are."""

    def combine(gradients, d, t, samples):
        right = weighted(gradients, d, t, samples)
        return {name: one if names(name) else gradients[d][t][name] for name, one in right.items()}

    return combine


def split(name):
    return name in ("up.weight", "up.bias", "down.weight")


MISTAKES = {
    "the dp ranks' gradients are not averaged: each trains on its own batch": {"combine": own},
    "every dp rank counts the same here, however many samples it has": {"combine": unweighted},
    "the gradients are added up over dp and not averaged": {"combine": times(lambda dp, tp: dp)},
    "the gradients are divided by the size of dp once too often": {"combine": times(lambda dp, tp: 1 / dp)},
    "the gradients are divided by the size of tp": {"combine": times(lambda dp, tp: 1 / tp)},
    "the gradients are multiplied by the size of tp": {"combine": times(lambda dp, tp: tp)},
    "the gradients of up and down are multiplied by the size of tp": {"combine": times(lambda dp, tp: tp, split)},
    "the gradients outside of up and down are multiplied by the size of tp": {
        "combine": times(lambda dp, tp: tp, lambda name: not split(name))
    },
    "the gradients of up and down are not averaged over dp": {"combine": averaged_only(lambda name: not split(name))},
    "the gradients outside of up and down are not averaged over dp": {"combine": averaged_only(split)},
    "what flows back out of up is not summed over tp, so layers before it are trained on one slice's part": {
        "combine": weighted,
        "f": False,
    },
    "the gradients are never used": {"combine": times(lambda dp, tp: 0)},
}
"""By clause that names it: how Ranks are made."""


def expect_training(probe, run, dp, tp, training, title="", steps=None):
    """All outputs of a training, whose record is called `title` after the mesh, are those of one process."""
    name, what = f"{dp}x{tp} {title or training}", probe.LAYOUTS[probe.plan_of(training)["layout"]]
    where, steps = f"on a mesh of {dp} x {tp}, with {what}", range(1, probe.STEPS + 1) if steps is None else steps
    arrived(run, name)
    wanted, *_ = wanted_of(probe, run, tp, training)
    for rank in run:
        record = rank.read(name, Trained)
        rank.expect_success(record, f"training {where}" if any(steps) else f"the outputs {where}")
        rank.expect(len(record["outputs"]) == len(steps), f"forward passes {where}", len(steps), len(record["outputs"]))
        for number, output in zip(steps, record["outputs"], strict=True):
            subject = f"the outputs after {count(number, 'step')} {where}"
            expect_outputs(probe, run, rank, tp, training, number, output, wanted[number], subject)


def expect_outputs(probe, run, rank, tp, training, steps, output, right, subject):
    rank.expect_like({"outputs": output}, {"outputs": right}, subject)
    dtype = torch.float32 if steps and not weights_are_exact(probe, run.world_size // tp, training) else right.dtype
    output, right = output.to(dtype), right.to(dtype)
    if not holds(rank.expect_close, output, right, subject, steps=3):  # to explain takes longer than to compare
        clauses = {clause: one.to(dtype) for clause, one in explained(probe, run, rank, tp, training, steps).items()}
        clauses = {clause: one for clause, one in clauses.items() if not holds(rank.expect_close, one, right, "")}
        rank.expect_close(output, right, subject, steps=3, alternatives=clauses, budget=2)


def weights_are_exact(probe, dp, training):
    """Whether each batch has the same share of the union, and it is a power of two, which is exact in every dtype."""
    return len({probe.samples_of(training, place, 0) for place in range(dp)}) == 1 and dp & (dp - 1) == 0


def explained(probe, run, rank, tp, training, steps):
    """A rank's outputs that common mistakes lead to, by a clause that names the mistake."""
    if not steps:
        many = Ranks(probe, run, tp, training, weighted, biases=tp).outputs_after(0)
        return {"the bias of down is added once by every tp rank": many[rank.rank]}
    return {
        clause: Ranks(probe, run, tp, training, **how).outputs_after(steps)[rank.rank]
        for clause, how in MISTAKES.items()
    }


# The mesh


def test_dimensions(runs):
    """The mesh has the dimensions dp and tp, of the right sizes, for the ranks' device"""
    for run, dp, tp in meshes(runs):
        name = f"mesh {dp}x{tp}"
        arrived(run, name)
        for rank in run:
            expect_mesh(rank, rank.read(name, Built), dp, tp)
    (run,) = runs("pair", finished=False)
    for rank in arrived(run, "short of GPUs"):
        for built in rank.read("short of GPUs", dict[str, Built]).values():
            expect_mesh(rank, built, run.world_size, 1, f", where there are fewer GPUs than {run.world_size} ranks")


def expect_mesh(rank, built, dp, tp, where=""):
    call = f"build_mesh({rank.world_size}, {tp}){where}"
    rank.expect_success(built, call)
    if built["seen"] is None:
        rank.fail(call, expected="a DeviceMesh", actual=f"a {built['type']}")
    rank.expect_equal(built["seen"]["sizes"], {"dp": dp, "tp": tp}, f"the mesh of {dp} x {tp}, its dimensions{where}")
    rank.expect_equal(built["seen"]["device"], built["here"], f"the mesh of {dp} x {tp}, its device type{where}")


def test_neighbours(runs):
    """The ranks of tp are neighbours, those of dp are tp_size apart"""
    for run, dp, tp in meshes(runs):
        for rank in arrived(run, f"mesh {dp}x{tp}"):
            seen = rank.read(f"mesh {dp}x{tp}", Built)["seen"] or {"members": {}}
            for dimension, members in groups_of(rank, tp).items():
                subject = f"the {dimension} group on a mesh of {dp} x {tp}"
                rank.expect_equal(seen["members"].get(dimension), members, subject)


def groups_of(rank, tp):
    """The ranks of a rank's dp and tp group."""
    row, place = divmod(rank.rank, tp)
    return {"tp": list(range(row * tp, row * tp + tp)), "dp": list(range(place, rank.world_size, tp))}


def test_refuses(runs):
    """A tp_size below 1, or one that does not divide world_size, raises ValueError on every rank"""
    for family in ("alone", "pair", "four"):
        (run,) = runs(family, finished=False)
        for tp in run.parameters["refused"]:
            for rank in arrived(run, f"tp_size {tp}"):
                attempt = rank.read(f"tp_size {tp}", Attempt)
                rank.expect_raised(attempt, "ValueError", f"build_mesh({run.world_size}, {tp})")


# Training


def test_trains_alone(runs, probe):
    """On one rank every step is that of the bare model"""
    for run, dp, tp in meshes(runs, alone):
        expect_training(probe, run, dp, tp, "mlp")


def test_around_alone(runs, probe):
    """On one rank, layers before and after up and down take part, and so does what lies between these two"""
    for run, dp, tp in meshes(runs, alone):
        expect_training(probe, run, dp, tp, "around")


def test_returns_module(runs):
    """parallelize returns a module"""
    for run, dp, tp in meshes(runs, training="mlp"):
        for rank in arrived(run, f"{dp}x{tp} forward"):
            record = rank.read(f"{dp}x{tp} forward", Trained)
            returned = record["returned"]
            if returned["type"] == "nothing":
                rank.expect_success(record, "parallelize")
            rank.expect(returned["module"], "what parallelize returned", "a module", f"a {returned['type']}")


def test_forward(runs, probe):
    """The parallel model computes what the model does"""
    for run, dp, tp in meshes(runs, training="mlp"):
        expect_training(probe, run, dp, tp, "mlp", "forward", [0])


def test_tensor_parallel(runs, probe):
    """With tp alone, every step is that of one process"""
    for run, dp, tp in meshes(runs, tp_only):
        expect_training(probe, run, dp, tp, "mlp")
        expect_bias(probe, run, dp, tp, "mlp")


def expect_bias(probe, run, dp, tp, training):
    """Where a rank has the bias of down, it has been trained. A rank that leaves it to another one to add it does not
    see in its outputs what has become of its own."""
    first, trained = (
        model.down.bias.data for model in (probe.build(training, run.seed), wanted_of(probe, run, tp, training)[-1])
    )
    for rank in run:
        record = rank.read(f"{dp}x{tp} {training}", Trained)
        for begun, ended in zip(record["begun"], record["ended"], strict=True):
            if begun.equal(first):
                subject = f"the bias of down after {count(probe.STEPS, 'step')} on a mesh of {dp} x {tp}"
                rank.expect_close(
                    ended, trained, subject, steps=probe.STEPS, alternatives={"it has not been trained": begun}
                )


def test_data_parallel(runs, probe):
    """With dp alone, every step is that of one process on the union of the batches"""
    for run, dp, tp in meshes(runs, dp_only):
        expect_training(probe, run, dp, tp, "mlp")


def test_both(runs, probe):
    """On a mesh of 2 x 2, every step is that of one process on the union of the batches"""
    for run, dp, tp in meshes(runs, both):
        expect_training(probe, run, dp, tp, "mlp")


def test_around_tp(runs, probe):
    """Inside tp, layers before and after up and down get whole gradients, the same on all ranks"""
    for run, dp, tp in meshes(runs, tp_only, "around"):
        expect_training(probe, run, dp, tp, "around")


def test_around_dp(runs, probe):
    """Across dp, layers before and after up and down are trained on the union, too"""
    for run, dp, tp in meshes(runs, dp_only, "around"):
        expect_training(probe, run, dp, tp, "around")
    for run, dp, tp in meshes(runs, both, "around"):
        if holds(test_both, runs, probe) and holds(test_around_tp, runs, probe):
            expect_training(probe, run, dp, tp, "around")


def test_adam(runs, probe):
    """With Adam every step is that of one process"""
    for run, dp, tp in meshes(runs, training="adam"):
        expect_training(probe, run, dp, tp, "adam")


def test_unequal(runs, probe):
    """dp batches of different sizes count by their samples"""
    for run, dp, tp in meshes(runs, training="unequal"):
        if dp_only(dp, tp) or holds(test_both, runs, probe):
            expect_training(probe, run, dp, tp, "unequal")


def test_without_bias(runs, probe):
    """up and down may be without biases, both or one of them"""
    for training in ("plain", "lopsided"):
        for run, dp, tp in meshes(runs, training=training):
            expect_training(probe, run, dp, tp, training)


def test_dtypes(runs, probe):
    """The model keeps its dtype"""
    for run, dp, tp in meshes(runs, training="single"):
        expect_training(probe, run, dp, tp, "single")
    for run, dp, tp in meshes(runs, training="half"):
        expect_training(probe, run, dp, tp, "half", steps=[0])


def test_left_over(runs, probe):
    """Gradients left over from before a call do not count"""
    for run, dp, tp in meshes(runs, training="left"):
        expect_training(probe, run, dp, tp, "left")


def test_frozen(runs, probe):
    """Frozen parameters stay as they are, and the others are trained"""
    for training in probe.FROZEN:
        for run, dp, tp in meshes(runs, training=training):
            expect_training(probe, run, dp, tp, training)


def test_in_turn(runs, probe):
    """Two models on different meshes are trained in turn"""
    (run,) = runs("four", finished=False)
    for dp, tp in run.parameters["in_turn"]:
        expect_training(probe, run, dp, tp, "around", "in turn")


# The loss


def test_loss(runs, probe):
    """train_step returns the mean loss over the union of the dp batches, on every rank"""
    for run, dp, tp in meshes(runs, training="mlp"):
        expect_loss(probe, run, dp, tp, "mlp")
    for run, dp, tp in meshes(runs, training="unequal"):
        expect_loss(probe, run, dp, tp, "unequal")
    for run, dp, tp in meshes(runs, training="others"):  # whose inputs are whole numbers
        if holds(test_frozen, runs, probe):
            expect_loss(probe, run, dp, tp, "others")


def expect_loss(probe, run, dp, tp, training):
    """Of each step, up to one that was taken with other parameters than those of one process, on the rank itself or on
    the first one of its dp group: others see to that. What the ranks of a dp group return is made of the same numbers,
    and has the same bits; those of a tp group may have rounded in other places. It is judged at the accuracy of
    float32, in which it may be added up."""
    arrived(run, f"{dp}x{tp} {training}")
    outputs, losses, by_row, _ = wanted_of(probe, run, tp, training)
    for rank in run:
        other = run[rank.rank % tp]  # the first one of its dp group
        record, beside = (one.read(f"{dp}x{tp} {training}", Trained) for one in (rank, other))
        if not record["losses"]:
            rank.expect_success(record, "train_step")
        rank.expect(bool(record["losses"]), "the first loss", "a number", listed(record["kinds"][:1]))
        for step, seen in enumerate(record["losses"][: len(losses)]):
            before = [one["outputs"][step - 1 : step] for one in (record, beside)] if step else []
            if not all(are_close(rank, one, outputs[step]) for one in before):
                break
            samples = [probe.samples_of(training, place, step) for place in range(dp)]
            subject = f"the loss of step {step} on a mesh of {dp} x {tp}"
            subject += f", with batches of {listed(samples)} samples" if len(set(samples)) > 1 else ""
            rank.expect(seen is not None, subject, "a number", listed(record["kinds"][step : step + 1]))
            clauses = mistaken_losses(by_row[step], rank.rank // tp, losses[step], tp, losses[:step])
            right = torch.tensor(losses[step])
            rank.expect_close(torch.tensor(float(seen)), right, subject, steps=step + 1, alternatives=clauses)
            same = beside["losses"][step : step + 1]
            rank.expect(same in ([], [None], [seen]), subject, f"{same} as on rank {other.rank}", f"[{seen}]")


def are_close(rank, seen, right):
    return any(holds(rank.expect_close, one.float(), right.float(), "", steps=3) for one in seen)


def mistaken_losses(by_row, row, right, tp, before):
    """What common mistakes lead to, by a clause that names the mistake, where it is not the right one by chance."""
    clauses = {
        "this is the loss of the rank's own batch": by_row[row],
        "this is the mean of the dp ranks' losses, however many samples each has": sum(by_row) / len(by_row),
        "the losses are added up over dp": sum(by_row),
        "the loss is added up over tp": right * tp,
    }
    if before:
        clauses["this is the loss of the step before"] = before[-1]
    return {clause: torch.tensor(one) for clause, one in clauses.items() if abs(one - right) > 1e-3 * abs(right)}


def test_returns_float(runs):
    """The loss is a Python float"""
    for run, dp, tp in meshes(runs, training="mlp"):
        for rank in arrived(run, f"{dp}x{tp} mlp"):
            record = rank.read(f"{dp}x{tp} mlp", Trained)
            if not record["kinds"]:
                rank.expect_success(record, "train_step")
            for kind in record["kinds"]:
                rank.expect_equal(kind, "float", "the type of what train_step returned")


# Communication


def steps_on(runs, wanted):
    """(run, rank, tp, what a rank communicated in a step of the wide model) on each mesh of four ranks."""
    (run,) = runs("four", finished=False)
    for dp, tp in run.parameters["traffic"]:
        if wanted(dp, tp):
            for rank in arrived(run, f"{dp}x{tp} traffic"):
                rank.expect_success(rank.read(f"{dp}x{tp} traffic", Sent), f"a step on a mesh of {dp} x {tp}")
                part = rank.during(f"step 1 on a mesh of {dp}x{tp}")
                yield rank, dp, tp, part.at_least(SMALL)


def partners(communication):
    """The ranks that it is shared with."""
    return set(communication.group if communication.peer is None else [communication.peer])


def test_own_groups(runs):
    """Nothing of size goes over another group than a rank's own tp and dp group"""
    for rank, dp, tp, part in steps_on(runs, both):
        allowed = [set(members) for members in groups_of(rank, tp).values()]
        for one in part:
            others = partners(one)
            inside = others == {rank.rank} or any(others <= members for members in allowed)
            rank.expect(
                inside,
                f"the ranks of each collective in a step on a mesh of {dp} x {tp}",
                " or ".join(listed(sorted(members)) for members in allowed),
                f"{one.operation} of {amount(one.bytes)} with {listed(sorted(others))}",
                line=one.line,
            )
    for family in ("pair", "three", "four"):
        (run,) = runs(family, finished=False)
        if run.finished:  # else not all that it communicated may be known
            run.expect_confirmed()


def within(part, rank, dimension, tp):
    """What a rank launched in its group of a dimension, messages to its ranks included."""
    members = set(groups_of(rank, tp)[dimension])
    inside = (one for one in part if partners(one) <= members and partners(one) != {rank.rank})
    return replace(part, communications=tuple(inside))


def test_activations(runs, probe):
    """Activations go through the tp group, and the weights of up and down do not"""
    activation, weights = 8 * probe.WIDE_BATCH * probe.WIDE, 8 * 2 * probe.WIDE * probe.WIDE_HIDDEN
    for rank, dp, tp, part in steps_on(runs, lambda dp, tp: tp > 1):
        seen = within(part, rank, "tp", tp)
        subject, line = f"what a step sends through the tp group on a mesh of {dp} x {tp}", line_of(seen)
        least = f"at least {amount(2 * activation)}: an activation in forward, and its gradient in backward"
        rank.expect(seen.bytes >= 2 * activation, subject, least, told(seen), line=line)
        # Gradients of other layers may be among it, where their activations are split as well (sequence parallelism).
        most = f"less than {amount(weights / 2)}: up and down, together {amount(weights)}, stay where they are"
        rank.expect(seen.bytes < weights / 2, subject, most, told(seen), line=line)


def test_gradients(runs, probe):
    """Gradients go through the dp group, and each row computes on its own batch"""
    model = probe.wide()
    for rank, dp, tp, part in steps_on(runs, lambda dp, tp: dp > 1):
        size = sum(8 * p.numel() // (tp if split(name) else 1) for name, p in model.named_parameters())
        least = sum(8 * p.numel() // (tp if split(name) else 1) for name, p in model.named_parameters() if p.dim() > 1)
        seen = within(part, rank, "dp", tp)
        subject = f"what a step sends through the dp group on a mesh of {dp} x {tp}"
        wanted = f"about {amount(size)} or more, which a rank's gradients have"
        rank.expect(seen.bytes >= least, subject, wanted, told(seen), line=line_of(seen))
        samples, most = rank.read(f"{dp}x{tp} traffic", Sent)["samples"], probe.WIDE_BATCH
        subject = f"samples of which a loss is taken on a mesh of {dp} x {tp}"
        rank.expect(samples <= most, subject, f"{most}, those of the row's own batch", samples)


def test_slices(runs, probe):
    """Of up and down a rank keeps its slices only"""
    (run,) = runs("four", finished=False)
    whole, tp = probe.large_bytes(), run.world_size
    most = whole * (2 / tp + 0.1)  # two slices, since DDP has a buffer for gradients beside the parameters
    for rank in arrived(run, "large"):
        rank.expect_success(rank.read("large", Attempt), "parallelize of a large model")
        mine = sum(shape.numel() // (tp if split(name) else 1) for name, shape in probe.large_shapes().items())
        subject = f"elements in the parameters of up and down on a mesh of 1 x {tp}"
        elements = rank.read("large elements", int)
        rank.expect(elements <= mine, subject, f"{mine}, with slices of all but down's bias", elements)
        for size, own in rank.read("large storages", list[list[int]]):
            subject = f"memory that parameters of up and down lie in on a mesh of 1 x {tp}"
            rank.expect(size <= 2 * own, subject, f"{amount(own)}, which the slices have", amount(size))
        seen = memory.kept(rank, "large", "at rest")
        wanted = f"at most {amount(most)}, since up and down have {amount(whole)} and a slice {amount(whole / tp)}"
        rank.expect(seen <= most, f"what a rank keeps of up and down on a mesh of 1 x {tp}", wanted, amount(seen))
