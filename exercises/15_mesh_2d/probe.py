"""Runs in every rank: builds meshes with the student's build_mesh, and trains small models by parallelize and
train_step.

What a model computes is recorded, never how it stores its parameters. All ranks begin with the same values, as the
contract has it. A batch belongs to the ranks of one tp group: it is drawn from the secret of the first of them, which
tells the others and nobody else. Nothing here knows an expected value.
"""

from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import cross_entropy, gelu, mse_loss

from grader.kit import groups, values
from grader.kit.memory import Meter, disregard_existing

FEATURES, WIDTH, HIDDEN, CLASSES, TOKENS, WORDS = 5, 7, 12, 3, 2, 6
"""Two, three and four ranks divide HIDDEN, the width of `up`. WORDS are those that an embedding knows."""
EQUAL, UNEQUAL = ((4, 4, 4, 4),) * 3, ((2, 5, 1), (5, 1, 3), (2, 1, 3))
"""Samples of each dp rank's batch, step by step. In the last of the unequal steps every rank has as many as in a step
before it, and all together have not."""
SGD = {"lr": 0.3, "momentum": 0.9}
LAYOUTS = {
    "mlp": "up and down alone",
    "around": "layers around up and down",
    "plain": "up and down without biases",
    "lopsided": "a bias in down and none in up",
    "frozen": "frozen parameters that have gradients left over",
    "others": "an embedding, and other frozen parameters that have gradients left over",
}
"""The models, by what they come with."""
FROZEN = {"frozen": ("first.bias", "up.weight", "down.bias"), "others": ("norm.weight", "up.bias", "down.weight")}
"""Layouts in which parameters are frozen, each kind of slice in one of them."""
STEPS = 3
TRAININGS = {
    "mlp": {"layout": "mlp"},
    "around": {"layout": "around"},
    "adam": {"layout": "around", "kind": "Adam", "options": {"lr": 0.05}},
    "plain": {"layout": "plain"},
    "lopsided": {"layout": "lopsided"},
    "single": {"layout": "mlp", "dtype": "float32"},
    "half": {"layout": "mlp", "dtype": "bfloat16", "steps": 0},
    "frozen": {"layout": "frozen", "options": {**SGD, "weight_decay": 0.1}, "left": "frozen"},
    "others": {"layout": "others", "options": {**SGD, "weight_decay": 0.1}, "left": "frozen"},
    "unequal": {"layout": "mlp", "sizes": UNEQUAL},
    "left": {"layout": "mlp", "left": "all"},
}
"""What is trained, and how: SGD, equal batches and float64 unless said otherwise. "left": gradients are left over from
before each call, of all parameters or of the frozen ones. One of no steps is evaluated as it is."""
WIDE, WIDE_HIDDEN, WIDE_BATCH = 32, 384, 8
"""The model whose communication is judged. No matrix of it and no activation of a batch is below two kilobytes, and
`up` and `down` are far larger than all of the rest together."""


# The models


class Model(nn.Module):
    """`up` and `down` with an activation between them; in the layouts "around" and those of FROZEN other layers
    before and after them, a normalisation, and a way around both. Inputs end with FEATURES there and with WIDTH
    elsewhere; in the layout "others" they are words, and the first layer is an embedding."""

    def __init__(self, layout, dtype=torch.float64, features=FEATURES, width=WIDTH, hidden=HIDDEN, classes=CLASSES):
        super().__init__()
        self.layout, bias = layout, layout != "plain"
        if self.surrounded:
            embeds = layout == "others"
            self.first = (nn.Embedding(WORDS, width) if embeds else nn.Linear(features, width)).to(dtype)
            self.norm = nn.LayerNorm(width, dtype=dtype)
        self.down = nn.Linear(hidden, width if self.surrounded else classes, bias=bias, dtype=dtype)
        self.up = nn.Linear(width, hidden, bias=bias and layout != "lopsided", dtype=dtype)
        if self.surrounded:
            self.last = nn.Linear(width, classes, dtype=dtype)
        for name in FROZEN.get(layout, ()):
            self.get_parameter(name).requires_grad_(False)

    @property
    def surrounded(self):
        return self.layout == "around" or self.layout in FROZEN

    def enter(self, inputs):
        """What `up` gets."""
        return self.norm(self.first(inputs)) if self.surrounded else inputs

    def activate(self, hidden):
        """Between `up` and `down`."""
        return torch.tanh(hidden) if self.surrounded else gelu(hidden)

    def leave(self, entered, result):
        """The outputs, from what `up` got and what `down` gave."""
        return self.last(entered + result) if self.surrounded else result

    def forward(self, inputs):
        entered = self.enter(inputs)
        return self.leave(entered, self.down(self.activate(self.up(entered))))


def token_cross_entropy(outputs, targets):
    """The mean over all tokens of all samples, which have equally many."""
    return cross_entropy(outputs.flatten(0, -2), targets.flatten())


def filled(model, seed):
    """The model with the values of a seed."""
    for name, parameter in model.named_parameters():
        parameter.data.copy_(values.normal(parameter.shape, seed, name, scale=0.5))
    return model


def plan_of(training):
    """Layout, dtype, kind of optimizer and its options, samples by step and dp rank, whose gradients are left over, and
    the number of steps."""
    usual = {"dtype": "float64", "kind": "SGD", "options": SGD, "sizes": EQUAL, "left": None, "steps": STEPS}
    return {**usual, **TRAININGS[training]}


def build(training, seed):
    """The model of a training, on the CPU."""
    plan = plan_of(training)
    return filled(Model(plan["layout"], getattr(torch, plan["dtype"])), seed)


def samples_of(training, place, step):
    """How many a dp rank's batch has in a step."""
    return plan_of(training)["sizes"][step][place]


def loss_of(training):
    return token_cross_entropy if surrounded(training) else mse_loss


def surrounded(training):
    return plan_of(training)["layout"] == "around" or plan_of(training)["layout"] in FROZEN


def batch(training, secret, step, samples):
    """(inputs, targets): of shape (samples, TOKENS, FEATURES), or int64 (samples, TOKENS) for an embedding, and int64
    (samples, TOKENS); or of shape (samples, WIDTH) and (samples, CLASSES), with TOKENS between them where batches
    differ in size."""
    dtype = getattr(torch, plan_of(training)["dtype"])
    place = (secret, "batch", training, step)
    if not surrounded(training):
        lead = (samples, TOKENS) if plan_of(training)["sizes"] is UNEQUAL else (samples,)
        inputs, targets = (values.normal((*lead, n), *place, n).to(dtype) for n in (WIDTH, CLASSES))
        return inputs, targets
    targets = torch.randint(CLASSES, (samples, TOKENS), generator=values.generator(*place, "targets"))
    if plan_of(training)["layout"] == "others":
        return torch.randint(WORDS, (samples, TOKENS), generator=values.generator(*place)), targets
    return values.normal((samples, TOKENS, FEATURES), *place).to(dtype), targets


# Meshes


def looked_at(mesh):
    """The sizes of a mesh's named dimensions, the ranks of this rank's group in each, and the type of its device."""
    names = list(mesh.mesh_dim_names or ())
    members = {name: sorted(dist.get_process_group_ranks(mesh.get_group(name))) for name in names}
    sizes = dict(zip(names, map(int, mesh.shape), strict=False))
    return {"sizes": sizes, "members": members, "device": str(mesh.device_type)}


def described(built, seen, here):
    """What came of build_mesh and of a look at what it gave, and where the ranks compute."""
    found = {"type": type(built.value).__name__, "seen": seen.value if seen.error is None else None, "here": here}
    return {**built.described(), **found}


def short_of_gpus(rank):
    """A mesh of one column on a machine that has GPUs, one less than there are ranks: they compute on the CPU. Where
    there are GPUs in truth, nothing is staged."""
    found = {}
    if rank.device.type == "cpu":
        with patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: rank.world_size - 1):
            built = rank.attempt(rank.student.build_mesh, rank.world_size, 1)
        found["mesh"] = described(built, rank.attempt(looked_at, built.value), "cpu")
    rank.record("short of GPUs", found)


class Grid:
    """A mesh that the student has built, or the grader's own where that one is not as asked: what is wrong with it is
    told by checks of its own."""

    def __init__(self, rank, dp, tp):
        self.rank, self.dp, self.tp, self.name = rank, dp, tp, f"{dp}x{tp}"
        own = init_device_mesh(rank.device.type, (dp, tp), mesh_dim_names=("dp", "tp"))
        built = rank.attempt(rank.student.build_mesh, rank.world_size, tp)
        seen = rank.attempt(looked_at, built.value)
        rank.record(f"mesh {self.name}", described(built, seen, rank.device.type))
        self.mesh = built.value if groups.all_agree(seen.value == looked_at(own)) else own
        self.place, self.secret = own.get_local_rank("dp"), shared_secret(rank, own.get_group("tp"))


def shared_secret(rank, group):
    """The secret of a group's first rank, told to its other ranks alone."""
    word = torch.tensor(rank.secret, device=rank.device)
    dist.broadcast(word, group=group, group_src=0)
    return int(word)


# Training


class Trainee:
    """A model that the student has parallelized, and its optimizer. `outputs` are those on one batch that all ranks
    know, after each step; `losses` what train_step returned; `begun` and `ended` the parameters that the optimizer
    has, before the first step and after the last."""

    def __init__(self, rank, mesh, training):
        self.rank, self.mesh, self.training, self.plan = rank, mesh, training, plan_of(training)
        self.outputs, self.losses, self.kinds = [], [], []
        self.model, self.returned = parallelized(rank, build(training, rank.seed).to(rank.device), mesh.mesh)
        groups = grouped(list(self.model.parameters()), 2 if surrounded(training) or self.plan["left"] else 1)
        # DTensors beside plain tensors, which torch's kernels for many at once, the default on GPUs, refuse
        self.optimizer = getattr(torch.optim, self.plan["kind"])(groups, foreach=False, **self.plan["options"])
        self.begun = self.ended = self.parameters()

    def parameters(self):
        """Copies of what this rank has of them."""
        held = [one for group in self.optimizer.param_groups for one in group["params"]]
        return [local(one).detach().cpu().clone() for one in held]

    def advance(self, number):
        """Take the step of this number."""
        if self.plan["left"]:
            for parameter in [one for group in self.optimizer.param_groups for one in group["params"]]:
                if self.plan["left"] == "all" or not parameter.requires_grad:
                    parameter.grad = torch.ones_like(parameter)
        samples = samples_of(self.training, self.mesh.place, number)
        inputs, targets = self.placed(batch(self.training, self.mesh.secret, number, samples))
        step = self.rank.student.train_step
        loss = step(self.model, self.optimizer, inputs, targets, loss_of(self.training))
        self.kinds.append(values.kind_of(loss))
        self.losses.append(values.number(loss))
        self.ended = self.parameters()
        self.evaluate()

    def evaluate(self):
        inputs, _ = self.placed(batch(self.training, self.rank.seed, "evaluation", 3))
        self.outputs.append(evaluated(self.model, inputs))

    def placed(self, tensors):
        return [tensor.to(self.rank.device) for tensor in tensors]


def grouped(parameters, number):
    """An optimizer's groups, so many, without options of their own."""
    return [{"params": parameters[place::number]} for place in range(number)]


def parallelized(rank, model, mesh):
    """What parallelize returned, or the model if that was none; and what it was."""
    returned = rank.student.parallelize(model, mesh)
    is_module = isinstance(returned, nn.Module)
    return returned if is_module else model, {"module": is_module, "type": type(returned).__name__}


def evaluated(model, inputs):
    """A copy of the outputs, a plain tensor on the CPU."""
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
        if hasattr(outputs, "full_tensor"):
            outputs = outputs.full_tensor()
    model.train()
    return outputs.detach().cpu().clone()


def train(rank, mesh, training, steps, title=""):
    """A model's training from its beginning to its end, or to where something was raised. One of no steps is evaluated
    as it is: a model of its own, for what evaluates one before it is trained need not be able to train it."""
    trainees = []

    def go():
        trainees.append(trainee := Trainee(rank, mesh, training))
        for number in range(steps):
            trainee.advance(number)
        if not steps:
            trainee.evaluate()

    outcome = rank.attempt(go).described()
    rank.record(f"{mesh.name} {title or training}", {**outcome, **told(trainees[0] if trainees else None)})


def told(trainee):
    if trainee is None:
        lists = {name: [] for name in ("outputs", "losses", "kinds", "begun", "ended")}
        return {**lists, "returned": {"module": False, "type": "nothing"}}
    return {name: getattr(trainee, name) for name in ("outputs", "losses", "kinds", "begun", "ended", "returned")}


def training(rank):
    """On each mesh that the manifest names, train its models; then the other parts."""
    meshes = {}
    for dp, tp, trainings in rank.parameters["meshes"]:
        mesh = meshes[dp, tp] = Grid(rank, dp, tp)
        if [dp, tp] == rank.parameters.get("short_of_gpus"):
            short_of_gpus(rank)
        if [dp, tp] == rank.parameters.get("memory"):
            measure_memory(rank, mesh)
        train(rank, mesh, "mlp", 0, "forward")
        for name in trainings:
            train(rank, mesh, name, plan_of(name)["steps"])
        if [dp, tp] in rank.parameters.get("traffic", []):
            communicate(rank, mesh)
            rank.tell_trace()
    for part in rank.parameters["then"]:
        PARTS[part](rank, meshes)


def in_turn(rank, meshes):
    """Two models on different meshes, trained in turn."""
    trainees = {}

    def go():
        for dp, tp in rank.parameters["in_turn"]:
            mesh = meshes[dp, tp]
            trainees[mesh.name] = Trainee(rank, mesh, "around")
        for number in range(STEPS):
            for trainee in trainees.values():
                trainee.advance(number)

    outcome = rank.attempt(go).described()
    for dp, tp in rank.parameters["in_turn"]:
        name = f"{dp}x{tp}"
        rank.record(f"{name} in turn", {**outcome, **told(trainees.get(name))})


# Communication and memory


def wide():
    """The model whose communication is judged, with layers around up and down."""
    return Model("around", torch.float64, WIDE, WIDE, WIDE_HIDDEN, WIDE)


def communicate(rank, mesh):
    """Two steps of a wider model; the second is looked at, and of how many samples a loss is taken at most."""
    samples = [0]

    def noting_loss(outputs, targets):
        samples.append(len(local(outputs)))
        return mse_loss(outputs, targets)

    def go():
        model, _ = parallelized(rank, filled(wide(), rank.seed).to(rank.device), mesh.mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
        for number in range(2):
            inputs, targets = values.normal((2, WIDE_BATCH, WIDE), mesh.secret, "wide", number).to(rank.device)
            with rank.region(f"step {number} on a mesh of {mesh.name}"):
                rank.student.train_step(model, optimizer, inputs, targets, noting_loss)

    rank.record(f"{mesh.name} traffic", {**rank.attempt(go).described(), "samples": max(samples)})


SIDE = 512


def large(side):
    """A model of two matrices of side · 2 side."""
    return Model("mlp", torch.float64, width=side, hidden=2 * side, classes=side)


def large_shapes():
    """Those of its parameters, by name."""
    with torch.device("meta"):
        return {name: parameter.shape for name, parameter in large(SIDE).named_parameters()}


def large_bytes():
    """Those of both matrices together, 8 MiB."""
    return 8 * 2 * 2 * SIDE * SIDE


def measure_memory(rank, mesh):
    """What the process keeps because of a large model. The first model, a small one, is there for what is allocated
    once."""
    disregard_existing()
    for name, side in {"warm up": 2 * rank.world_size, "large": SIDE}.items():
        outcome = rank.attempt(grown, rank, mesh, name, side)
        if outcome.value:
            rank.record(*outcome.value)
        rank.record(name, outcome.described())


def grown(rank, mesh, name, side):
    meter = Meter(rank, name)
    model, _ = parallelized(rank, filled(large(side), rank.seed).to(rank.device), mesh.mesh)
    growth = meter.growth("at rest")
    rank.record(f"{name} elements", sum(local(one).numel() for one in model.parameters()))
    rank.record(f"{name} storages", storages([local(one).detach() for one in model.parameters()]))
    return growth


def storages(tensors):
    """The bytes of each storage in which some of the tensors lie, and those that they have of it."""
    found = {}
    for tensor in tensors:
        whole = tensor.untyped_storage()
        found.setdefault(whole.data_ptr(), [whole.nbytes(), 0])[1] += tensor.nbytes
    return list(found.values())


def local(tensor):
    """What this rank has of it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def refusals(rank, meshes):
    """Sizes that make no mesh."""
    for tp in rank.parameters["refused"]:
        outcome = rank.attempt(rank.student.build_mesh, rank.world_size, tp)
        rank.record(f"tp_size {tp}", outcome.described())


PARTS = {"in_turn": in_turn, "refusals": refusals}
