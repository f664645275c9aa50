"""Runs in every rank: trains small models under the student's FullyShardedModule and records their full state.

Initial values are the same on all ranks; batches are each rank's own, from its secret. All but the memory case is
float64. The blocks of a model are its units. Where memory is looked at, the last bits of all values of a unit are the
unit's own and stay so, so that they are known wherever they are. Nothing here knows an expected value.
"""

import gc
import math
import time
from collections import Counter

import torch
from torch import nn

from grader.kit import parts as in_parts
from grader.kit import samples, values
from grader.kit.memory import Meter, disregard_existing, reading

WIDTH, HIDDEN, BATCH = 15, 31, 6
"""Sizes that no number of ranks divides."""
STEPS, SCALE, CALLS_OF_TWICE = 3, 0.5, 4
STEPS_WITH_EVALUATION = 5
COARSE = torch.bfloat16


class Block(nn.Module):
    """Two linear layers around a nonlinearity, added to the input, half as much of it in evaluation: a unit. Some drop
    a part of what is between them."""

    drop = staticmethod(lambda inner: inner)

    def __init__(self, width=WIDTH, hidden=HIDDEN):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width, bias=False)
        self.register_buffer("gain", torch.ones(()))

    def forward(self, hidden, *, scale=1.0):
        look()
        inner = torch.tanh(self.up(hidden))
        if inner.requires_grad:
            inner.register_hook(look)
        return hidden + (scale if self.training else scale / 2) * self.gain * self.down(self.drop(inner))


LOOKERS = []
"""What is called when a block begins its forward and is in the middle of its backward."""


def look(gradient=None):
    """Changes no gradient."""
    for looker in LOOKERS:
        looker()


class Stack(nn.Module):
    """Some blocks, one of them a level deeper than the others, parameters and buffers of its own; the head's weight is
    that of the first layer. `passes` counts the calls of forward."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("shift", torch.zeros(WIDTH))
        self.register_buffer("passes", torch.zeros(()))
        self.blocks = nn.ModuleList([Block(), nn.Sequential(Block()), Block()])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WIDTH, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scratch", torch.ones(3), persistent=False)

    def forward(self, inputs, *, scale=1.0):
        self.passes = self.passes + 1
        hidden = self.embed(inputs) + self.shift
        for block in self.order():
            hidden = block(hidden, scale=scale)
        return self.head(self.norm(hidden))

    def order(self):
        first, (second,), third = self.blocks
        return [first, second, third]


DRAWN = []
"""The random numbers of the blocks that drop something, in the order in which they drew them."""


def drop_some(inner):
    """Half of the elements, drawn anew in each call."""
    DRAWN.append(torch.rand_like(inner).round())
    return inner * DRAWN[-1]


class Twice(Stack):
    """The first block computes twice in one forward."""

    def order(self):
        first, second, third = super().order()
        return [first, second, first, third]


class TwoNames(Stack):
    """The first block is the last one as well."""

    def __init__(self):
        super().__init__()
        self.blocks[2] = self.blocks[0]


class BlocksOnly(nn.Module):
    """Nothing but blocks, each with one weight under two names. The first gets the inputs themselves, which need no
    gradient. In memory the weight of the first has gaps, and that of the second is transposed."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(hidden=WIDTH), Block(hidden=WIDTH)
        self.first.up.weight = nn.Parameter(torch.empty(WIDTH, 2 * WIDTH, dtype=torch.float64)[:, ::2])
        self.second.up.weight = nn.Parameter(torch.empty(WIDTH, WIDTH).mT)
        for block in (self.first, self.second):
            block.down.weight = block.up.weight

    def forward(self, inputs, *, scale=1.0):
        return self.second(self.first(inputs, scale=SCALE * scale), scale=SCALE * scale)


class NoBlock(nn.Module):
    """No unit but the rest: a single small layer, of fewer elements than four ranks."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, inputs, *, scale=1.0):
        return inputs @ self.weight.expand(WIDTH, WIDTH) * scale + self.bias


MODELS = {
    "a stack of blocks": Stack,
    "a block that is used twice": Twice,
    "a block with two names": TwoNames,
    "nothing but blocks": BlocksOnly,
    "no block at all": NoBlock,
}


ZEROED = "with gradients that zero_grad sets to zeros"
DROPPED = "with units that draw random numbers"
EVALUATING = "in evaluation mode"


def build(title, seed, dtype=torch.float64):
    """The bare model with its initial values."""
    model = MODELS[title]().to(dtype)
    for name, tensor in model.state_dict().items():
        tensor.copy_(values.normal(tensor.shape, seed, "initial", title, name, scale=0.5))
    return model


def dropping(model, drop):
    """The model, whose blocks drop something in this way, if in any."""
    for block in model.modules():
        if isinstance(block, Block) and drop:
            block.drop = drop
    return model


def batch(secret, step, device="cpu"):
    """A rank's inputs and targets of a step, each of shape (BATCH, WIDTH)."""
    return values.normal((2, BATCH, WIDTH), secret, "batch", step).to(device)


def loss_of(model, secret, step, device="cpu"):
    inputs, targets = batch(secret, step, device)
    return (model(inputs) - targets).square().mean()


class Training:
    """A model under FullyShardedModule, and an optimizer over its parameters(). `draws_on`: whether no call of
    full_state_dict has changed torch's random numbers."""

    def __init__(self, rank, title, kind="SGD", options=None, set_to_none=True, drop=None):
        self.rank, self.set_to_none, self.draws_on = rank, set_to_none, True
        options = {"lr": 0.1, "momentum": 0.9} if options is None else options
        self.model = rank.student.FullyShardedModule(dropping(build(title, rank.seed), drop).to(rank.device), Block)
        self.optimizer = getattr(torch.optim, kind)(self.model.parameters(), **options)

    def backward(self, step, between=lambda: None):
        """Gradients of a step; `between` is called when backward has ended and is not finished yet."""
        self.optimizer.zero_grad(self.set_to_none)
        loss_of(self.model, self.rank.secret, step, self.rank.device).backward()
        between()
        self.model.finish_gradient_synchronization()

    def evaluate(self, inputs):
        """A forward in evaluation mode that could have a backward."""
        self.model.eval()
        self.model(inputs)
        self.model.train()

    def state(self):
        before = torch.get_rng_state()
        state = values.copies(self.model.full_state_dict())
        self.draws_on &= torch.get_rng_state().equal(before)
        return state

    def advance(self, steps):
        """Take the steps with these numbers; returns the full state after each."""
        history = []
        for step in steps:
            self.backward(step)
            self.optimizer.step()
            history.append(self.state())
        return history


# The runs


def alone(rank):
    in_parts.each(rank, PARTS)


def train(rank):
    in_parts.in_turn(rank, PARTS["train"])


def parts(rank):
    in_parts.in_turn(rank, PARTS["parts"])


def stack(rank):
    """The state before the first step and after each; each step's communication."""
    training = Training(rank, "a stack of blocks")
    before = training.model.full_state_dict()
    rank.record("state before training", values.copies(before))
    rank.record("with a graph", sorted(name for name, tensor in before.items() if tensor.grad_fn is not None))
    del before
    rank.record("elements", elements_of(training.model))
    history = []
    for step in range(STEPS):
        with rank.region(f"step {step + 1}"):
            training.backward(step)
            training.optimizer.step()
        history.append(training.state())
    rank.record("a stack of blocks", history)


def elements_of(model):
    """What `parameters()` yields on this rank."""
    return sum(parameter.numel() for parameter in model.parameters())


def outputs(rank):
    """What forward returns, in training and in evaluation; and training with evaluations in between, between two steps
    and between backward and step, under no_grad and without, where nobody asks for the gradients."""
    training = Training(rank, "a stack of blocks")
    inputs, _ = batch(rank.secret, 0, rank.device)
    seen = {}
    with torch.no_grad():
        seen["under no_grad"] = values.copies({"": training.model(inputs, scale=SCALE)})[""]
    watched = training.model.register_forward_hook(lambda model, given, output: seen.update({"with gradients": output}))
    history = training.advance([0])
    watched.remove()
    seen = values.copies(seen)
    training.model.eval()
    with torch.no_grad():
        seen["after a step"] = values.copies({"": training.model(inputs=inputs)})[""]
    training.model.train()
    rank.record("outputs", seen)
    training.backward(1)
    with torch.no_grad():
        training.model(inputs)
    training.optimizer.step()
    history.append(training.state())
    training.backward(2)
    training.evaluate(inputs)
    training.optimizer.step()
    history += [training.state(), *training.advance([3])]
    training.evaluate(inputs)
    rank.record("training after evaluation", history + training.advance([4]))


def models(rank):
    """Other models than a stack, the last two in turn; two of one class in turn, one with another optimizer, one with
    gradients that become zeros, not None; steps in evaluation mode, and units that draw random numbers, in turn as
    well."""
    *titles, last_but_one, last = list(MODELS)[1:]
    for title in titles:
        rank.record(title, Training(rank, title).advance(range(STEPS)))
    pair = {title: Training(rank, title) for title in (last_but_one, last)}
    rank.record("elements of blocks", elements_of(pair[last_but_one].model))
    of_one_class = {
        "under Adam": Training(rank, "a stack of blocks", "Adam", {"lr": 0.05}),
        ZEROED: Training(rank, "a stack of blocks", set_to_none=False),
    }
    for trainings in (pair, of_one_class):
        for title, history in in_turn(trainings).items():
            rank.record(title, history)
    pair_of_stacks(rank)


def in_turn(trainings):
    """The states after each step of several models that train in turn, by title."""
    histories = {title: [] for title in trainings}
    for step in range(STEPS):
        for title, training in trainings.items():
            histories[title] += training.advance([step])
    return histories


def pair_of_stacks(rank):
    """Two models in turn, one in evaluation mode, the other with blocks that drop something, one of them used
    twice. Recorded is what these drew in each forward, which comes before what is drawn again."""
    evaluating = Training(rank, "a stack of blocks")
    drawing = Training(rank, "a block that is used twice", drop=drop_some)
    evaluating.model.eval()
    histories, drawn = {EVALUATING: [], DROPPED: []}, []
    for step in range(STEPS):
        histories[EVALUATING] += evaluating.advance([step])
        DRAWN.clear()
        histories[DROPPED] += drawing.advance([step])
        drawn.append([values.copies({"": one})[""] for one in DRAWN[:CALLS_OF_TWICE]])
    rank.record("draws on after full_state_dict", drawing.draws_on)
    rank.record("drawn", drawn)
    for title, history in histories.items():
        rank.record(title, history)


def middle(rank):
    """The full state while gradients wait for the optimizer, in every second step before they are finished."""
    training, history = Training(rank, "a stack of blocks"), []

    def note():
        history.append(training.state())

    for step in range(STEPS):
        if step % 2:
            training.backward(step, note)
        else:
            training.backward(step)
            note()
        training.optimizer.step()
    rank.record("state between backward and step", history)
    rank.record("state at the end", training.state())


def dtypes(rank):
    """The full state of a model of another dtype."""
    model = rank.student.FullyShardedModule(build("a stack of blocks", rank.seed, COARSE).to(rank.device), Block)
    rank.record("state in bfloat16", values.copies(model.full_state_dict()))


PARTS = {"train": [stack, outputs], "parts": [models, middle, dtypes]}


# Memory


LARGE, LARGE_HIDDEN, BLOCKS = 258, 510, 6
"""Three ranks divide the size of each unit: padding is judged elsewhere."""
LOOKS, PAUSE = 12, 0.004
"""What only a backend still holds is let go of some milliseconds later: so many looks, so many seconds apart."""
LITTLE = 2 * LARGE * LARGE_HIDDEN * 4
"""Bytes, fewer than a block has: who has no more than that is not looked at again."""
TOWER = "a tower"
"""What is measured."""
FLOAT = 4
"""Bytes."""
PLACES = 8
"""Of how many elements of each tensor of the tower a rank is asked for the values."""
WITH_GRADIENTS = "evaluation with gradients"
PASSES = (0, 1, "evaluation", WITH_GRADIENTS, 2)
"""The tower's steps, and two evaluations between them, the second without no_grad."""
IN_EVALUATION = (0, "evaluation", WITH_GRADIENTS)
"""Those in evaluation mode."""
LAST_RATE = 32.0
"""The learning rate of the tower's last step, after which nothing is looked at."""
SAMPLES = 256
"""So many elements of a storage are looked at, and no more than twice as many."""
ALL, MOST = 0.9, 0.4
"""A unit is whole where a storage has all of it, or one of its larger parameters, which is most of it, and little else.
A rank's share is less. Memory that has been given back and handed out again may still hold a bit of several units."""


class Tower(nn.Module):
    """Large blocks between two small layers. `units` has all parameters by unit, the rest last."""

    def __init__(self, width=LARGE, hidden=LARGE_HIDDEN):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(width, hidden) for _ in range(BLOCKS))
        self.last = nn.Linear(width, 8, bias=False)

    def forward(self, inputs):
        hidden = self.first(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.last(hidden)

    def units(self):
        """Each unit's parameters, the rest last."""
        return [list(part.parameters()) for part in self.blocks] + [[*self.first.parameters(), *self.last.parameters()]]


TAG = 2**14
"""The lowest bits of a float32 value that tell its unit; nine bits of the fraction and the exponent are drawn."""


def tag_of(number):
    """The last bits of all values of a unit."""
    return 1 + 1117 * (number + 1)


def mark(tower, seed):
    """Draw the parameters of each unit, with the last bits by which they are known. In place."""
    for number, unit in enumerate(tower.units()):
        for nth, parameter in enumerate(unit):
            with torch.no_grad():
                parameter.normal_(std=0.05, generator=values.generator(seed, TOWER, number, nth))
                parameter.view(torch.int32).bitwise_and_(-TAG).bitwise_or_(tag_of(number))
    return tower


class Witness:
    """Which units' parameters are whole, and what the process has more than before the step, whenever a unit computes.
    What is there already between steps is judged by itself."""

    def __init__(self, rank):
        self.rank, self.sizes, self.most, self.growths = rank, [], {}, {}

    def mark(self, tower):
        """Give the parameters of each unit values by which they are known."""
        self.sizes = [sum(parameter.numel() for parameter in unit) for unit in tower.units()]
        return mark(tower, self.rank.seed)

    def begin(self, phase):
        self.phase = phase
        if "backward" not in phase:
            self.rest, self.already = self.bytes(), self.marked()

    def look(self):
        note_most(self.most, self.phase, lambda: len(self.marked() - self.already), enough=2)
        if "backward" not in self.phase:  # where gradients, which do not count, are there as well
            note_most(self.growths, self.phase, lambda: self.bytes() - self.rest, enough=LITTLE)

    def marked(self):
        """The numbers of the units whose parameters are whole."""
        return set().union(*map(self.units_in, storages()))

    def units_in(self, storage):
        """Those that are whole in a storage."""
        most = storage.nbytes() / FLOAT / 2
        for number, (found, size) in enumerate(zip(self.found_in(storage), self.sizes, strict=True)):
            if found >= ALL * size or found >= max(MOST * size, most):
                yield number

    def found_in(self, storage):
        """How many elements of each unit a storage has, by a sample."""
        elements = torch.empty(0, dtype=torch.float32, device=storage.device).set_(storage)
        stride = max(1, elements.numel() // SAMPLES)
        found = Counter((elements[::stride].view(torch.int32) & (TAG - 1)).tolist())
        return [found[tag_of(number)] * stride for number in range(len(self.sizes))]

    def everywhere(self):
        """How many elements of each unit all storages have together."""
        return [sum(found) for found in zip(*map(self.found_in, storages()), strict=True)]

    def bytes(self):
        return sum(size or 0 for size in reading(self.rank).values())


def storages():
    """Those of all tensors that Python knows, each once."""
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    found = [storage for storage in map(storage_of, tensors) if storage is not None]
    return {storage.data_ptr(): storage for storage in found}.values()


def storage_of(tensor):
    """None where a tensor has no memory of its own, as those that stand for several others."""
    try:
        storage = tensor.untyped_storage()
        return storage if storage.nbytes() and storage.data_ptr() and storage.device.type != "meta" else None
    except (RuntimeError, NotImplementedError):
        return None


def note_most(most, phase, read, enough):
    """The most that was seen in a phase. A reading that is the most, and more than enough, is repeated some
    milliseconds later, and the least of these counts."""
    before, smallest = most.get(phase, 0), math.inf
    for _ in range(LOOKS):
        time.sleep(PAUSE)
        smallest = min(smallest, read())
        if smallest <= max(before, enough):
            break
        gc.collect()
    most[phase] = max(before, smallest)


def memory(rank):
    """What a rank keeps between steps, and what is whole while it computes."""
    disregard_existing()
    warm_up(rank)
    meter, witness = Meter(rank, TOWER), Witness(rank)

    def measure(when):
        rank.record(*meter.growth(when))
        rank.record(f"elements {when}", witness.everywhere())

    model, optimizer, outputs = trained(rank, Tower, witness, measure)
    measure("after steps and evaluation")
    model.eval()
    outputs.append(model(tower_inputs(rank, WITH_GRADIENTS)).tolist())  # which has no backward, and is gone
    model.train()
    measure("after evaluation without no_grad")
    rank.record("state of the tower", sample(rank, model.full_state_dict()))
    measure("after full_state_dict")
    optimizer.param_groups[0]["lr"] = LAST_RATE
    outcome = rank.attempt(step, model, optimizer, tower_inputs(rank, PASSES[-1]), witness, outputs)
    rank.record("whole", witness.most)
    rank.record("growths", witness.growths)
    rank.record("the last step", outcome.described())
    if outcome.error is not None:
        return
    rank.record("outputs of the tower", [torch.tensor(one) for one in outputs])
    rank.record("state of the tower in the end", sample(rank, model.full_state_dict()))


def tower_inputs(rank, step):
    return tower_batch(rank.secret, step).to(rank.device)


def tower_batch(secret, step):
    """A rank's inputs of a pass."""
    return values.normal((2, 8), secret, "tower", step, dtype=torch.float32)


def places_of(secret, name, size):
    """At which places of a tensor of the tower a rank is asked for the values."""
    return samples.places(secret, name, [size], PLACES)[0]


def sample(rank, state):
    """The values of a full state at these places."""
    return {name: one.detach().cpu().take(places_of(rank.secret, name, one.numel())) for name, one in state.items()}


def warm_up(rank):
    """What the first step of all imports and allocates: of student code, and of libraries for matrices of this size."""
    trained(rank, lambda: Tower(12, 12), Witness(rank))[0].full_state_dict()
    bare, inputs = Tower().to(rank.device), torch.ones(2, 8, device=rank.device)
    for _ in range(2):
        bare(inputs).square().mean().backward()


def trained(rank, build_tower, witness, measure=lambda when: None):
    """A sharded tower after two steps, which change no value, the first in evaluation mode, and an evaluation; its
    optimizer, and what all forward passes returned."""
    model, outputs = rank.student.FullyShardedModule(witness.mark(build_tower()).to(rank.device), Block), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    measure("before the first step")
    first, second, evaluation, *_ = PASSES
    for number in (first, second):
        model.train(number not in IN_EVALUATION)
        step(model, optimizer, tower_inputs(rank, number), witness, outputs)
    model.eval()
    with torch.no_grad():
        witness.begin("evaluation")
        LOOKERS.append(witness.look)
        outputs.append(model(tower_inputs(rank, evaluation)).tolist())
        LOOKERS.clear()
    model.train()
    return model, optimizer, outputs


def step(model, optimizer, inputs, witness, outputs):
    """It begins with zero_grad, so that what it leaves of the gradients is there when the rank is at rest."""
    optimizer.zero_grad()
    mode = "" if model.training else f" {EVALUATING}"
    LOOKERS.append(witness.look)
    witness.begin("forward" + mode)
    output = model(inputs)
    outputs.append(output.tolist())
    loss = output.square().mean()
    del output
    witness.begin("backward" + mode)
    loss.backward()
    del loss
    LOOKERS.clear()
    model.finish_gradient_synchronization()
    optimizer.step()
