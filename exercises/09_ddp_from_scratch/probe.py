"""Runs in every rank: wraps small networks in the student's BucketedDDP, runs backward passes and records gradients.

A network is a chain of layers, each one parameter. What it computes is a function of its parameters by name, which the
checks repeat. Parameters are loaded anew before each backward pass, from the seed; what a network has before it is
wrapped, and what a rank trains on, is the rank's own, from its secret. Nothing here knows an expected value.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear
from torch.nn.parallel import DistributedDataParallel

from grader.kit import spies, values
from grader.kit.meeting import wait_until

WIDTH, SAMPLES = 32, 4
CAP = 0.01
"""The bucket_cap_mb of most parts: a square matrix in float64 fits, and no other beside it."""
LEARNING_RATE = 0.1
SETTLED, RETURNED = 5.0, 0.2
"""Seconds in which the other ranks call finish_gradient_synchronization while one is held up, and in which it returns
where it does not wait. A right one cannot return before the held up rank goes on, however long it takes."""


@dataclass(frozen=True)
class Layer:
    """A layer with one parameter. One of shape (k, WIDTH) turns a batch by a matrix, one with fewer dimensions scales
    it. `like` names the layer whose parameter it shares, as a module of its own; `strided` is a matrix that is laid out
    transposed."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float64
    frozen: bool = False
    strided: bool = False
    like: str = ""


SQUARE, HALF, TALL, THIN, VECTOR = (WIDTH, WIDTH), (WIDTH // 2, WIDTH), (WIDTH + 16, WIDTH), (4, WIDTH), (WIDTH,)
MODELS = {
    "plain": [
        *(Layer("first", SQUARE), Layer("gain", ()), Layer("second", HALF), Layer("shift", VECTOR)),
        *(Layer("third", TALL), Layer("fourth", SQUARE), Layer("last", HALF)),
    ],
    "stateful": [
        *(Layer("first", SQUARE), Layer("gain", ()), Layer("frozen", VECTOR, frozen=True)),
        *(Layer("strided", TALL, strided=True), Layer("last", HALF, torch.bfloat16)),
    ],
    "frozen": [
        *(Layer("first", SQUARE), Layer("frozen matrix", SQUARE, frozen=True), Layer("second", HALF)),
        *(Layer("third", SQUARE), Layer("frozen vector", VECTOR, frozen=True), Layer("fourth", HALF)),
        *(Layer("fifth", SQUARE), Layer("frozen end", SQUARE, frozen=True)),
    ],
    "tied": [
        *(Layer("embedding", SQUARE), Layer("second", HALF), Layer("third", SQUARE), Layer("fourth", HALF)),
        Layer("head", SQUARE, like="embedding"),
    ],
    "dtypes": [
        *(Layer("first", SQUARE), Layer("second", SQUARE), Layer("third", SQUARE, torch.bfloat16)),
        *(Layer("fourth", TALL, torch.bfloat16), Layer("fifth", SQUARE, torch.float32)),
        *(Layer("sixth", SQUARE, torch.float32), Layer("seventh", SQUARE), Layer("last", HALF, torch.float32)),
    ],
    "layouts": [
        *(Layer("first", SQUARE, strided=True), Layer("second", TALL), Layer("gain", ()), Layer("thin", THIN)),
        Layer("third", TALL, strided=True),
    ],
    "deep": [Layer(f"layer {number}", (16 + 7 * number % 16 * 3, WIDTH)) for number in range(16)],
    "halves": [Layer(f"layer {number}", (16 + 7 * number % 16 * 3, WIDTH), torch.bfloat16) for number in range(16)],
    "wide": [Layer(f"layer {number}", (2**18 // WIDTH, WIDTH), torch.float32) for number in range(27)],
}
"""The layers by model, in the order of forward and of registration. Those of "deep" have a size of their own each, from
4 to 16 KB; those of "halves" as many elements. In "layouts" two parameters that are larger than the cap have little
between them."""
BUFFERS = {"average": torch.float64, "cache": torch.float32, "count": torch.int64, "mask": torch.bool}
"""Of the model "stateful"; "cache" is not part of its state dict."""
BEYOND = 2**60 + 1
"""Near this are the whole numbers of "count", all odd: float64 does not hold them."""


@dataclass(frozen=True)
class Step:
    """A synchronised backward pass. Before it come those in no_sync, in `quiet` a number of them for each time that it
    is entered. `skip` are the layers that each rank leaves out; with `zeros` gradients are zeros before, not None. The
    module is in evaluation mode if `evaluating`, as one is whose normalisation layers are not to learn. If
    `between`, a forward without gradients comes between forward and backward, as where a model is its own teacher."""

    quiet: tuple[int, ...] = ()
    skip: tuple[tuple[str, ...], ...] = ((), (), ())
    zeros: bool = False
    evaluating: bool = False
    between: bool = False


@dataclass(frozen=True)
class Plan:
    """Steps of a model in one wrapper, with an evaluation before each but the first."""

    model: str
    steps: tuple[Step, ...]
    cap: float = CAP


FEWER = (("second", "last"),) * 3
UNUSED = ("second",)
"""Left out of both passes of "twice_again", so that some buckets are launched in backward and some are not."""
ONE = (Step(),)
PLANS = {
    "first_step": Plan("plain", ONE),
    "later_steps": Plan("plain", (Step(), Step(evaluating=True), Step(zeros=True), Step(between=True))),
    "tiny": Plan("deep", (Step(), Step(), Step()), cap=1e-6),
    "middle": Plan("deep", (Step(), Step()), cap=0.03),
    "halves": Plan("halves", ONE, cap=0.03),
    "huge": Plan("deep", ONE, cap=1000.0),
    **{model: Plan(model, ONE) for model in ("frozen", "tied", "layouts")},
    "dtypes": Plan("dtypes", ONE, cap=0.02),
    "no_sync_once": Plan("plain", (Step(quiet=(2,)),)),
    "no_sync_twice": Plan("plain", (Step(), Step(quiet=(1, 1)))),
    "after_exception": Plan("plain", ONE),
    "unused_everywhere": Plan("plain", (Step(skip=FEWER), Step())),
    "unused_after_no_sync": Plan("plain", (Step(quiet=(1,), skip=FEWER),)),
    "unused_somewhere": Plan(
        "plain",
        (Step(skip=(("last",), ("first", "fourth"), ())), Step(), Step(skip=((), ("third",), ("second", "last")))),
    ),
    "layouts_somewhere": Plan("layouts", (Step(skip=(("third",), (), ("first",))),)),
}
"""What most parts of a run do."""


def initial(seed, model, *place):
    """The values of a model's parameters by name, of those that are shared once."""
    made = {}
    for layer in MODELS[model]:
        if not layer.like:
            scale = 0.3 if len(layer.shape) < 2 else layer.shape[1] ** -0.5
            made[layer.name] = values.normal(layer.shape, seed, model, layer.name, *place, scale=scale).to(layer.dtype)
    return made


def buffers(secret):
    """The values of the buffers that a rank begins with."""
    drawn = {name: 9 * values.normal((6,), secret, "buffer", name) for name in BUFFERS}
    drawn["mask"], drawn["count"] = drawn["mask"] > 0, 2 * (2**40 * drawn["count"][0]).long() + BEYOND
    return {name: drawn[name].to(dtype) for name, dtype in BUFFERS.items()}


def batch(secret, *place):
    """A rank's inputs and targets, both float64 of shape (SAMPLES, WIDTH)."""
    return values.normal((2, SAMPLES, WIDTH), secret, "batch", *place).unbind()


def compute(model, tensors, inputs, skip=(), keep=lambda hidden: None):
    """The outputs, of the inputs' shape, without the layers in `skip`. `keep` is called with each layer's output."""
    hidden = inputs
    for layer in MODELS[model]:
        if layer.name not in skip:
            hidden = apply(tensors[layer.like or layer.name].to(inputs.dtype), hidden)
            keep(hidden)
    return hidden


def apply(weight, hidden):
    if weight.dim() < 2:
        return hidden * (1 + weight)
    turned = torch.tanh(linear(hidden, weight))
    return turned if weight.shape[0] == weight.shape[1] else hidden + linear(turned, weight.T)


def loss_of(outputs, targets):
    """A tensor without dimensions, large enough for gradients in bfloat16."""
    return (outputs - targets).square().sum() / SAMPLES


class Network(nn.Module):
    """A model of the table. Its first values are the rank's own. `keep` is called with each layer's output."""

    def __init__(self, model, secret):
        super().__init__()
        self.model, self.keep = model, lambda hidden: None
        made = {}
        for layer in MODELS[model]:
            if not layer.like:
                value = torch.zeros(layer.shape, dtype=layer.dtype)
                value = value.T.contiguous().T if layer.strided else value
                made[layer.name] = nn.Parameter(value, requires_grad=not layer.frozen)
                self.register_parameter(layer.name, made[layer.name])
            else:
                self.add_module(layer.name, nn.ParameterList([made[layer.like]]))
        for name, value in buffers(secret).items() if model == "stateful" else ():
            self.register_buffer(name, value, persistent=name != "cache")
        if model != "wide":
            self.load(initial(secret, model, "own"))

    def load(self, tensors):
        with torch.no_grad():
            for name, value in tensors.items():
                self.get_parameter(name).copy_(value)

    def forward(self, inputs, *more, skip=(), report=None):
        """`more` are factors of the outputs; with `report` they come with a dict."""
        tensors = dict(self.named_parameters(remove_duplicate=False))
        outputs = compute(self.model, tensors, inputs, skip, self.keep)
        for factor in more:
            outputs = outputs * factor
        return outputs if report is None else (outputs, {"report": report, "skipped": list(skip)})


class Wrapped:
    """A network in a BucketedDDP, and what is done with it."""

    def __init__(self, rank, model, **options):
        self.rank, self.model = rank, model
        self.given = Network(model, rank.secret).to(rank.device)
        self.wrapper = rank.student.BucketedDDP(self.given, **options)
        modules = self.wrapper.modules() if isinstance(self.wrapper, nn.Module) else ()
        self.network = next((module for module in modules if isinstance(module, Network)), self.given)

    def load(self, *place):
        self.network.load(initial(self.rank.seed, self.model, *place))

    def train(self, mode):
        """The mode of the wrapper, and of the network whether the wrapper hands it on or not."""
        for module in (self.wrapper, self.network):
            if isinstance(module, nn.Module):
                module.train(mode)

    def loss(self, *place, **options):
        """Forward of the rank's batch for a place, with those options that say something."""
        options = {name: option for name, option in options.items() if option}
        inputs, targets = (tensor.to(self.rank.device) for tensor in batch(self.rank.secret, *place))
        return loss_of(self.wrapper(inputs, **options), targets)

    def finish(self):
        self.wrapper.finish_gradient_synchronization()

    def gradients(self):
        named = self.network.named_parameters()
        return values.copies({name: weight.grad for name, weight in named if weight.grad is not None})


# -- the parts of a run, each recorded by its own name ---------------------------------------------------------------


def train(rank):
    made, reducers = spies.note_instances(DistributedDataParallel), spies.note_instances(dist.Reducer)
    do(rank, "construction", construction)
    do(rank, "first_step")
    rank.record("made", made or reducers)
    do(rank, "held_up", held_up)
    do(rank, "later_steps")
    do(rank, "calls", calls)
    do(rank, "optimizer", optimizer)
    with spies.marked_waits(rank, "wait", beside="wait in a thread"):
        do(rank, "tiny")
    for part in ("middle", "halves", "huge"):
        do(rank, part)
    rank.tell_trace()
    do(rank, "default", default)
    for part in ("frozen", "tied", "dtypes", "layouts", "no_sync_once", "no_sync_twice", "after_exception"):
        do(rank, part)


def apart(rank):
    """What makes ranks wait for one another, or gloo end their processes, if it goes wrong: apart from the others, of
    which no trace would be left."""
    with noted_all_reduces() as begun:
        for part in ("unused_everywhere", "unused_after_no_sync", "unused_somewhere"):
            do(rank, part)
        rank.record("awaited", [one.awaited for one in begun])
    do(rank, "two_wrappers", two_wrappers)
    do(rank, "layouts_somewhere")
    do(rank, "twice", twice)
    do(rank, "twice_again", partial(twice, skip=UNUSED))


def do(rank, part, function=None):
    """One part, that of a plan where there is no function. Where it fails on this rank and others are stuck in it, this
    rank ends with the exception; where it has ended on all of them, the next part may begin."""
    outcome = rank.attempt(function, rank) if function else rank.attempt(carry_out, rank, part)
    rank.record(part, {**outcome.described(), "seen": outcome.value})
    files = [rank.shared / f"{part}.{number}" for number in range(rank.world_size)]
    files[rank.rank].touch()
    if outcome.error is not None and not wait_until(lambda: all(file.exists() for file in files), 1.0):
        raise outcome.error


def carry_out(rank, part):
    """The steps of a plan: the gradients after no_sync, and after each step."""
    plan, seen = PLANS[part], []
    wrapped = Wrapped(rank, plan.model, bucket_cap_mb=plan.cap)
    if part == "after_exception":
        rank.record("left no_sync", leaves_no_sync(rank, wrapped))
    if part == "tiny":
        wrapped.network.keep = lambda hidden: (
            hidden.requires_grad and hidden.register_hook(lambda _: mark(rank, "layer"))
        )
    for number, step in enumerate(plan.steps):
        wrapped.network.zero_grad(set_to_none=not step.zeros)
        wrapped.load(part, number)
        wrapped.train(not step.evaluating)
        if number:
            with torch.no_grad():
                wrapped.loss("evaluation")
        seen.append(take(rank, wrapped, part, number, step))
    return seen


def take(rank, wrapped, part, number, step):
    quiet = 0
    with rank.region(f"no_sync before step {number} of {part}"):
        for many in step.quiet:
            with wrapped.wrapper.no_sync():
                for _ in range(many):
                    wrapped.loss(part, number, quiet).backward()
                    quiet += 1
    inside = wrapped.gradients()
    with rank.region(f"step {number} of {part}"):
        loss = wrapped.loss(part, number, quiet, skip=step.skip[rank.rank])
        if step.between:
            with torch.no_grad():
                wrapped.loss("evaluation")
        loss.backward()
        wrapped.finish()
    return {"inside": inside, "after": wrapped.gradients()}


def leaves_no_sync(rank, wrapped):
    """Whether an exception comes out of no_sync, after a backward pass in it."""
    try:
        with rank.region("no_sync, left by an exception"), wrapped.wrapper.no_sync():
            wrapped.loss("left").backward()
            raise LookupError("of the grader's own, to leave no_sync")
    except LookupError:
        return True
    return False


def mark(rank, name):
    """A moment, among what the trace shows."""
    with rank.region(name):
        pass


def construction(rank):
    """What each rank has once the wrapper is made."""
    wrapped = Wrapped(rank, "stateful")
    tensors = {**dict(wrapped.network.named_parameters()), **dict(wrapped.network.named_buffers())}
    is_module, own = isinstance(wrapped.wrapper, nn.Module), wrapped.network is wrapped.given
    return {"is_module": is_module, "own": own, "state": values.copies(tensors)}


def held_up(rank):
    """The last rank stops in the middle of backward until the others have returned from finishing, or seem to wait. It
    tells which of them had returned, and marks that all others are through with backward."""
    wrapped, late = Wrapped(rank, "plain", bucket_cap_mb=CAP), rank.world_size - 1
    called, gone = ([rank.shared / f"{word} {number}" for number in range(late)] for word in ("called", "returned"))
    outputs, returned = [], []

    def hold_up(_):
        if wait_until(lambda: all(file.exists() for file in called), SETTLED):
            mark(rank, "the others have gone on")
        wait_until(lambda: any(file.exists() for file in gone), RETURNED)
        returned.extend(number for number, file in enumerate(gone) if file.exists())

    wrapped.network.keep = outputs.append
    with rank.region("the step in which one rank is late"):
        loss = wrapped.loss("held up")
        if rank.rank == late > 0:
            outputs[0].register_hook(hold_up)  # by then all gradients but the first layer's are there
        loss.backward()
        (rank.shared / f"called {rank.rank}").touch()
        wrapped.finish()
        if rank.device.type == "cuda":  # there it is the stream that waits
            torch.cuda.current_stream().synchronize()
        (rank.shared / f"returned {rank.rank}").touch()
    return returned


def calls(rank):
    """Two forward passes of the wrapper, without gradients: with positional arguments and with named ones."""
    wrapped = Wrapped(rank, "plain")
    wrapped.load("calls")
    inputs = batch(rank.secret, "calls")[0].to(rank.device)
    with torch.no_grad():
        given = wrapped.wrapper(inputs, 2.0, 3.0), wrapped.wrapper(inputs=inputs, skip=["second"], report="a word")
    return {"positional": plain(given[0]), "named": plain(given[1]), "kind": type(given[1]).__name__}


def plain(value):
    """What a call gave back, as it can be recorded: tensors, texts, and lists and dicts of them."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else values.short(value)


def optimizer(rank):
    """A step of SGD over the wrapper's parameters: gradients before it, values after it."""
    wrapped = Wrapped(rank, "frozen", bucket_cap_mb=CAP)
    wrapped.load("optimizer")
    sgd = torch.optim.SGD(wrapped.wrapper.parameters(), lr=LEARNING_RATE)
    wrapped.loss("optimizer").backward()
    wrapped.finish()
    gradients = wrapped.gradients()
    sgd.step()
    return {"gradients": gradients, "after": values.copies(wrapped.network.named_parameters())}


def default(rank):
    """A step of a model with more than 25 MB of gradients, whose values nobody looks at; on two ranks alone. Gives back
    of each all-reduce whether it was waited for."""
    if rank.world_size != 2:
        return []
    wrapped = Wrapped(rank, "wide")
    with noted_all_reduces() as begun, rank.region("a step with bucket_cap_mb left out"):
        wrapped.wrapper(torch.zeros(1, WIDTH, device=rank.device)).sum().backward()
        wrapped.finish()
        return [one.awaited for one in begun]


class Noted(dist.Work):
    """The handle of a collective, which notes whether somebody waits for it or asks whether it is done."""

    def __init__(self, work):
        super().__init__()
        self.work, self.awaited = work, False

    def asked(self):
        self.awaited = True
        return self.work

    def wait(self, *timeout):
        return self.asked().wait(*timeout)

    def is_completed(self):
        return self.asked().is_completed()

    def synchronize(self):
        return self.asked().synchronize()

    def get_future(self):
        return self.asked().get_future()

    def result(self):
        return self.asked().result()


@contextmanager
def noted_all_reduces():
    """The handles of the all-reduces that are begun in here, as a list that grows."""
    begun, method, function = [], vars(dist.ProcessGroup)["allreduce"], dist.ProcessGroup.allreduce

    def all_reduce(*args, **kwargs):
        begun.append(Noted(function(*args, **kwargs)))
        return begun[-1]

    dist.ProcessGroup.allreduce = all_reduce
    try:
        yield begun
    finally:
        dist.ProcessGroup.allreduce = method


def two_wrappers(rank):
    """Two networks, each in a wrapper of its own, in one backward pass; and one of them again while the other is in
    no_sync."""
    pair = [Wrapped(rank, model, bucket_cap_mb=CAP) for model in ("plain", "tied")]
    for wrapped in pair:
        wrapped.load("two")
    sum(wrapped.loss("two", wrapped.model) for wrapped in pair).backward()
    for wrapped in pair:
        wrapped.finish()
    seen = {wrapped.model: wrapped.gradients() for wrapped in pair}
    one, other = pair
    one.network.zero_grad()
    with other.wrapper.no_sync(), rank.region("a step while another wrapper is in no_sync"):
        one.loss("beside").backward()
        one.finish()
    return seen | {"beside": one.gradients()}


def twice(rank, skip=()):
    """Two backward passes that leave out some layers, and one call of finish_gradient_synchronization after them."""
    wrapped = Wrapped(rank, "plain", bucket_cap_mb=CAP)
    wrapped.load("twice")
    for number in range(2):
        wrapped.loss("twice", number, skip=skip).backward()
    wrapped.finish()
    return wrapped.gradients()
