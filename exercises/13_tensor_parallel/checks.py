"""Judges the recorded layers: what they hold, their outputs and gradients against the dense layer's, and their traffic.

The judge draws the slices, inputs and upstream gradients of all ranks again, puts them together to dense layers, and
takes these through forward and backward in one process. What a layer would do without the other ranks is computed in
the same way, so that a sum that was forgotten is told by name.
"""

import torch
from torch.nn.functional import gelu, linear

from grader.checks import (
    Attempt,
    NotJudged,
    Tensor,
    Tensors,
    TypedDict,
    amount,
    count,
    holds,
    line_of,
    memory,
    rank_list,
    replay,
    told,
)


class Built(Attempt):
    """A layer that was not called: what it holds, by name, and what became of the dense layers' parameters."""

    module: bool
    held: dict[str, Tensor | None]
    lacks: list[str]
    dense: Tensors
    replaced: list[str]
    gradients: list[Tensor | None]
    training: bool
    after: dict[str, Tensor | None]
    bytes: dict[str, int]
    trained: dict[str, bool]
    elements: int


class Kept(Attempt):
    """Bytes that a module keeps alive when the dense layers are gone: of all tensors, and of its slices."""

    all: int
    slices: int


Called = TypedDict(
    "Called",
    {
        "done": dict[str, Attempt],
        "slices": dict[str, Tensor | None],
        "outputs": list[Tensor],
        "need gradients": int,
        "written": int,
        "upstream written": int,
        "inputs": list[Tensor | None],
        "gradients": dict[str, Tensor | None],
        "dense with gradients": int,
    },
)
"""A layer that was: how far it came, its outputs and its inputs' gradients by pass, its parameters' gradients, and how
many inputs and upstream gradients were written to."""


# What was recorded


def runs_with(runs, probe, *stages, family="layers"):
    """(run, name, what was given, the ranks that took part) of all calls of some stages."""
    names = [name for stage in stages for name in stage]
    calls = [*probe.BUILT, *probe.CALLS]
    came = runs(family, recorded=names, after=calls[: calls.index(names[0])][-1:])
    return [(run, name, probe.CALLS[name], range(run.world_size)) for run in came for name in names]


def groups_with(runs, probe):
    """Likewise of the calls in groups."""
    names = [f"{what} among {among}" for what in probe.IN_GROUPS for among in probe.GROUPS]
    for run in runs("groups", recorded=names):
        for what, given in probe.IN_GROUPS.items():
            for among, ranks in probe.GROUPS.items():
                yield run, f"{what} among {among}", given, ranks


def built(runs, probe, *kinds):
    """(rank, what was given, what was seen, name) of the layers of some kinds that were looked at."""
    for run in runs("layers", "alone", recorded=list(probe.BUILT)):
        for name, given in probe.BUILT.items():
            for rank in run if given.kind in kinds else ():
                yield rank, given, rank.read(name, Built), name


def standing(runs, probe):
    """Those of any kind that could be built: that the others could not is another check's business."""
    every = list(built(runs, probe, "column", "row", "mlp"))
    found = [one for one in every if not one[2]["raised"] and one[2]["module"]]
    if not found:
        raise NotJudged("no layer could be built")
    return found


def called(rank, name, step):
    """What a rank recorded of a call that came through this step."""
    seen = rank.read(name, Called)
    for part, words in {
        "prepare": "building",
        "forward": "the forward pass of",
        "backward": "the backward pass of",
    }.items():
        if part in seen["done"]:
            rank.expect_success(seen["done"][part], f"{words} {name}")
        if part == step:
            break
    rank.expect(step in seen["done"], f"the {step} pass of {name}", "no exception", "it was not come to")
    return seen


# What should come out


def pieces(run, name, given, ranks):
    """What each rank has: its slices, and its inputs and upstream gradients by pass, all in float64."""
    for number in ranks:
        where = (run[number].secret, run.seed, name, len(ranks))
        slices = {key: one.double() for key, one in given.slices(*where).items()}
        inputs, upstream = ([one.double() for one in part(*where)] for part in (given.inputs, given.upstream))
        yield number, slices, inputs, upstream


def whole(given, parts):
    """The dense parameters, inputs and upstream gradients that all ranks' pieces make together."""
    parts = list(parts)
    slices = {}
    for key, (_, dim) in given.shapes().items():
        own = [one[key] for _, one, _, _ in parts]
        slices[key] = own[0] if dim is None else torch.cat(own, dim)
    inputs = [together(given.kind == "row", one) for one in zip(*(piece[2] for piece in parts), strict=True)]
    upstream = [together(given.kind == "column", one) for one in zip(*(piece[3] for piece in parts), strict=True)]
    return slices, inputs, upstream


def together(cut, tensors):
    """One after the other along the features, or any of those that are all the same."""
    return torch.cat(tensors, dim=-1) if cut else tensors[0]


def compute(given, tensors, inputs, **how):
    """The outputs of dense layers of these parameters."""
    hidden = inputs
    for place, (prefix, *_) in enumerate(given.layers()):
        hidden = gelu(hidden, **how) if place else hidden
        hidden = linear(hidden, tensors[f"{prefix}weight"], tensors.get(f"{prefix}bias"))
    return hidden + inputs if given.residual else hidden


def backward_of(given, slices, inputs, upstream):
    """The gradients of a layer of these parameters: of its inputs by pass, and of its parameters over all passes."""
    found = []
    for one, gradient in zip(inputs, upstream, strict=True):

        def loss(tensors, gradient=gradient):
            return (compute(given, tensors, tensors["inputs"]) * gradient).sum()

        found.append(replay.gradient(loss, {**slices, "inputs": one}))
    rounds = sum(range(1, given.rounds + 1))
    found = [replay.total(*[one] * rounds) for one in found]
    sums = replay.total(*[{key: one[key] for key in slices} for one in found])
    of_inputs = [one["inputs"] for one in found]
    return [sum(of_inputs)] * given.passes if given.shared else of_inputs, sums


def part_of(tensor, dim, place, number):
    """The part of a dense tensor that belongs to one of the ranks."""
    return tensor if dim is None else tensor.tensor_split(number, dim)[place]


def as_dtype(given, values):
    return {label: one.to(given.dtype) for label, one in values.items()}


# What a layer holds


def shape_of(tensor):
    return "none" if tensor is None else f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def expected_shapes(given, number):
    """The shape of each slice."""
    found = {}
    for key, (shape, dim) in given.shapes().items():
        sizes = [size // number if place == dim else size for place, size in enumerate(shape)]
        found[key] = f"{sizes} {str(given.dtype).removeprefix('torch.')}"
    return found


def expect_shapes(runs, probe, *kinds):
    for rank, given, seen, name in built(runs, probe, *kinds):
        rank.expect_success(seen, f"building {name}")
        rank.expect(seen["module"], name, "a torch.nn.Module", "none")
        shapes = {key: shape_of(seen["held"].get(key)) for key in given.shapes()}
        rank.expect_equal(shapes, expected_shapes(given, rank.world_size), f"what {name} holds")


def test_column_shapes(runs, probe):
    """A column-parallel layer holds its rows of weight and bias"""
    expect_shapes(runs, probe, "column")


def test_row_shapes(runs, probe):
    """A row-parallel layer holds its columns of the weight, and the bias"""
    expect_shapes(runs, probe, "row")


def test_mlp_shapes(runs, probe):
    """The MLP holds a column-parallel `up` and a row-parallel `down`"""
    expect_shapes(runs, probe, "mlp")


def test_slices(runs, probe):
    """The slices are the dense layer's, in the order of the ranks"""
    for rank, given, seen, name in standing(runs, probe):
        for key, tensor in given.dense(rank.seed, name).items():
            dim = given.shapes()[key][1]
            wanted = part_of(tensor, dim, rank.rank, rank.world_size)
            others = [part_of(tensor, dim, other, rank.world_size) for other in range(rank.world_size)]
            wrong = {f"this is rank {other}'s slice": one for other, one in enumerate(others) if other != rank.rank}
            own = seen["held"].get(key)
            subject = f"{key} of {name}"
            if holds(rank.expect_like, {key: own}, {key: wanted}, subject) if own is not None else False:
                rank.expect_close(own, wanted, subject, alternatives=wrong if dim is not None else {})


NAMES = {"column": "a column-parallel layer", "row": "a row-parallel layer", "mlp": "an MLP"}
SLACK, SMALL = 1.25, 1024
"""A module may keep something small beside its slices."""


def test_own_storage(runs, probe):
    """The slices lie in memory of their own, and the dense layers are not kept"""
    for rank, _, seen, name in standing(runs, probe):
        for key, before in seen["held"].items():
            after = seen["after"].get(key)
            same = before is None or (after is not None and before.equal(after))
            subject = f"{key} of {name} when the dense layer has been overwritten"
            rank.expect(same, subject, "as it was", "overwritten as well: it lies in the dense layer's memory")
        own = sum(one.numel() * one.itemsize for one in seen["held"].values() if one is not None)
        for key, size in seen["bytes"].items():
            subject = f"bytes of memory that {key} of {name} keeps alive"
            rank.expect(size <= own, subject, f"at most {own}, those of the rank's slices", size)
    for run in runs("layers", "alone", recorded=["kept"], after=list(probe.BUILT)[-1:]):
        for rank in run:
            for kind, seen in rank.read("kept", dict[str, Kept]).items():
                fine = seen["raised"] or seen["all"] <= SLACK * seen["slices"] + SMALL
                subject = f"bytes that {NAMES[kind]} keeps alive when the caller has let go of the dense ones"
                rank.expect(fine, subject, f"{seen['slices']}, those of its slices", seen["all"])
            expect_slices_alone(rank, probe)


def expect_slices_alone(rank, probe):
    """Of large layers, one module after the other, a rank keeps its slices, in whatever form it keeps something."""
    slices = 0
    for kind in probe.LAYERS:
        slices += probe.large_bytes(kind, rank.world_size)
        most, seen = SLACK * slices, memory.kept(rank, probe.MEASURED, kind)
        subject = f"what a rank keeps when {NAMES[kind]} was built from large layers, which the caller has let go"
        wanted = f"at most {amount(most)}, since the slices have {amount(slices)}"
        rank.expect(seen <= most, subject, wanted, amount(seen))


def test_dense_unchanged(runs, probe):
    """The dense layers stay as they are, and get no gradients"""
    for rank, given, seen, name in standing(runs, probe):
        for key, wanted in given.dense(rank.seed, name).items():
            subject = f"the dense layer's {key} after building {name}"
            rank.expect(key in seen["dense"] and seen["dense"][key].equal(wanted), subject, "as it was", "other values")
        replaced = ", ".join(seen["replaced"])
        rank.expect(
            not replaced, f"the dense layer's parameters after building {name}", "as they were", f"other: {replaced}"
        )
        kept = all(one is not None and bool((one == 1).all()) for one in seen["gradients"])
        subject = f"the gradients that the dense layer's parameters had before building {name}"
        rank.expect(kept, subject, "as they were", "cleared, or other values")
        subject = f"the dense layer's mode after building {name}"
        rank.expect(seen["training"], subject, "training, as it was", "evaluation")
    for run, name, _, ranks in runs_with(runs, probe, probe.COLUMN):
        for number in ranks:
            with_gradients = run[number].read(name, Called)["dense with gradients"]
            run[number].expect(not with_gradients, f"the dense layer's gradients after {name}", "none", with_gradients)


def test_parameters(runs, probe):
    """parameters() yields the slices and nothing more; `bias` is None where the dense layer has none"""
    for rank, given, seen, name in standing(runs, probe):
        for key in sorted(seen["held"].keys() - given.shapes().keys()):
            found = "no such attribute, or no tensor" if key in seen["lacks"] else shape_of(seen["held"][key])
            rank.expect_equal(found, "none", f"{key} of {name}")
        for key, found in seen["trained"].items():
            rank.expect(found, f"{key} of {name}", "among its parameters()", "not among them")
        own = sum(one.numel() for one in seen["held"].values() if one is not None)
        rank.expect(
            seen["elements"] == own,
            f"elements of the parameters() of {name}",
            f"{own}, those of its slices",
            seen["elements"],
        )


# Outputs


def expect_outputs(run, name, given, ranks):
    """On each of these ranks the dense layers' outputs, or its part of them."""
    parts = list(pieces(run, name, given, ranks))
    slices, inputs, _ = whole(given, parts)
    for place, (number, own, own_inputs, _) in enumerate(parts):
        seen = called(run[number], name, "forward")["outputs"]
        subject = f"the outputs of {name}"
        run[number].expect(len(seen) == given.passes, subject, f"{given.passes} passes", len(seen))
        for nth, one in enumerate(inputs):
            dim = -1 if given.kind == "column" else None
            wanted = part_of(compute(given, slices, one), dim, place, len(ranks)).to(given.dtype)
            run[number].expect_like({subject: seen[nth]}, {subject: wanted}, subject)
            expect_values(
                run[number], seen[nth], wanted, subject, ranks,
                wrong_outputs(given, slices, one, own, own_inputs[nth], len(ranks)),
            )  # fmt: skip


def expect_values(rank, seen, wanted, subject, ranks, wrong):
    """Sums over the ranks and over the features."""
    rank.expect_close(seen, wanted, subject, terms=16, world_size=len(ranks), alternatives=wrong)


def wrong_outputs(given, slices, inputs, own, own_inputs, number):
    """What wrong outputs may be, by the words for it."""
    wrong = {}
    if number > 1 and given.kind in ("row", "mlp"):
        wrong["this is the rank's own part: not summed over the ranks"] = compute(given, own, own_inputs)
        last = given.layers()[-1][0] + "bias"
        if given.bias:
            wrong["the bias is added once on each rank"] = compute(
                given, {**slices, last: number * slices[last]}, inputs
            )
            wrong["the bias is missing"] = compute(given, {**slices, last: 0 * slices[last]}, inputs)
    if given.kind == "mlp":
        wrong["GELU by the tanh approximation"] = compute(given, slices, inputs, approximate="tanh")
    return as_dtype(given, wrong)


def test_column_outputs(runs, probe):
    """A column-parallel layer gives this rank's part of the outputs"""
    for call in runs_with(runs, probe, probe.COLUMN):
        if call[2].kind == "column":
            expect_outputs(*call)


def test_gathers(runs, probe):
    """With gather_output every rank has all outputs"""
    for call in runs_with(runs, probe, probe.COLUMN):
        if call[2].kind == "gathered":
            expect_outputs(*call)


def test_row_outputs(runs, probe):
    """A row-parallel layer sums over the ranks"""
    for call in runs_with(runs, probe, probe.ROW):
        if not call[2].bias:
            expect_outputs(*call)


def test_row_bias(runs, probe):
    """A row-parallel layer adds its bias once"""
    for call in runs_with(runs, probe, probe.ROW):
        if call[2].bias:
            expect_outputs(*call)


def test_mlp_outputs(runs, probe):
    """The MLP gives down(gelu(up(x))) on every rank"""
    for call in runs_with(runs, probe, probe.MLP):
        expect_outputs(*call)


# Gradients


def expect_gradients(run, name, given, ranks, of=("inputs", "parameters")):
    """On each of these ranks the dense layers' gradients, or its part of them: of the inputs, of the parameters."""
    parts = list(pieces(run, name, given, ranks))
    of_inputs, of_slices = backward_of(given, *whole(given, parts))
    for place, (number, *own) in enumerate(parts):
        seen = called(run[number], name, "backward")
        if "inputs" in of and given.needs_grad:
            dim = -1 if given.kind == "row" else None
            wanted = [part_of(one, dim, place, len(ranks)) for one in of_inputs]
            alone = alone_on(given, place, len(ranks), *own)
            expect_input_gradients(run[number], name, given, seen["inputs"], wanted, alone, ranks)
        if "parameters" in of:
            for key, (_, dim) in given.shapes().items():
                wanted = part_of(of_slices[key], dim, place, len(ranks)).to(given.dtype)
                subject = f"the gradient of {key} of {name}"
                if key.startswith(given.frozen):
                    run[number].expect(seen["gradients"].get(key) is None, subject, "None: it is frozen", "a gradient")
                    continue
                expect_gradient(run[number], seen["gradients"].get(key), wanted, subject, {}, ranks)


def alone_on(given, place, number, slices, inputs, upstream):
    """What the gradients of a rank's inputs would be without the other ranks', by the words for it."""
    if number == 1 or given.kind == "row":
        return [{} for _ in inputs]
    own = [part_of(one, -1, place, number) if given.kind == "gathered" else one for one in upstream]
    words = "this is the rank's own part: not summed over the ranks"
    return [{words: one} for one in backward_of(given, slices, inputs, own)[0]]


def expect_input_gradients(rank, name, given, seen, wanted, alone, ranks):
    subject = f"the gradient of the inputs of {name}"
    rank.expect(len(seen) == len(wanted), subject, f"{len(wanted)} of them", len(seen))
    for one, right, wrong in zip(seen, wanted, alone, strict=True):
        expect_gradient(rank, one, right.to(given.dtype), subject, as_dtype(given, wrong), ranks)


def expect_gradient(rank, seen, wanted, subject, wrong, ranks):
    rank.expect(seen is not None, subject, "a gradient", "None")
    rank.expect_like({subject: seen}, {subject: wanted}, subject)
    expect_values(rank, seen, wanted, subject, ranks, wrong)


def test_column_gradients(runs, probe):
    """A column-parallel layer's weight and bias get the dense gradients' slices"""
    for call in runs_with(runs, probe, probe.COLUMN):
        if call[2].kind == "column":
            expect_gradients(*call, of=["parameters"])


def test_input_gradient(runs, probe):
    """The gradient of a column-parallel layer's inputs is the sum over the ranks"""
    for call in runs_with(runs, probe, probe.COLUMN):
        if call[2].kind == "column":
            expect_gradients(*call, of=["inputs"])


def test_gather_gradients(runs, probe):
    """Gathered outputs hand back to each rank the gradient of its part"""
    for call in runs_with(runs, probe, probe.COLUMN):
        if call[2].kind == "gathered":
            expect_gradients(*call)


def test_row_gradients(runs, probe):
    """A row-parallel layer's inputs, weight and bias get the dense gradients' slices"""
    for call in runs_with(runs, probe, probe.ROW):
        expect_gradients(*call)


def test_mlp_gradients(runs, probe):
    """The MLP's inputs and parameters get the dense gradients' slices"""
    for call in runs_with(runs, probe, probe.MLP):
        expect_gradients(*call)


# What it costs


def expect_cost(run, name, which, ranks):
    """For more ranks than one exactly one all-reduce and nothing else, in this group; for one at most that."""
    for number in ranks:
        part = run[number].during(f"the {which} pass of {name}")
        reduces = part.of("all_reduce")
        others = part.of(*({one.operation for one in part} - {"all_reduce"}))
        subject = f"what crosses in the {which} pass of {name}"
        run[number].expect(
            not len(others), subject, "one all_reduce and nothing else", told(part), line=line_of(others)
        )
        expected = "one all_reduce" if len(ranks) > 1 else "at most one all_reduce"
        least = 1 if len(ranks) > 1 else 0
        fine = least <= len(reduces) <= 1
        run[number].expect(fine, subject, expected, told(part, "all_reduce"), line=line_of(reduces))
        run[number].expect(
            len(reduces.in_group(ranks)) == len(reduces),
            f"the group of the all_reduce in the {which} pass of {name}",
            f"ranks {', '.join(map(str, ranks))}",
            ", ".join(str(number) for one in reduces for number in one.group),
            line=line_of(reduces),
        )


def test_forward_traffic(runs, probe):
    """The MLP's forward pass costs one all-reduce"""
    for run, name, _, ranks in runs_with(runs, probe, probe.MLP):
        for number in ranks:
            called(run[number], name, "forward")
        expect_cost(run, name, "forward", ranks)
        expect_no_more(run, probe, "forward")
        if run.finished:
            run.expect_confirmed()


def test_backward_traffic(runs, probe):
    """The MLP's backward pass costs one all-reduce"""
    for run, name, _, ranks in runs_with(runs, probe, probe.MLP):
        for number in ranks:
            called(run[number], name, "backward")
        expect_cost(run, name, "backward", ranks)
        expect_no_more(run, probe, "backward")


def expect_no_more(run, probe, which):
    """However else the MLP is used, each pass costs one all-reduce at most."""
    for name, given in probe.CALLS.items():
        region = f"the {which} pass of {name}"
        if given.kind != "mlp" or not run.came_to([name]) or any(region not in rank.trace.regions for rank in run):
            continue
        most = given.passes * (given.rounds if which == "backward" else 1)
        for rank in run:
            part = rank.during(region)
            fine = len(part) == len(part.of("all_reduce")) <= most
            expected = f"at most {count(most, 'all_reduce')} and nothing else"
            rank.expect(fine, f"what crosses in {region}", expected, told(part), line=line_of(part))


# However it is used


def expect_all(run, name, given, ranks):
    """Outputs, and gradients where there are any."""
    expect_outputs(run, name, given, ranks)
    if given.graded:
        expect_gradients(run, name, given, ranks)


def test_shapes(runs, probe):
    """Inputs of any shape: one vector, three dimensions, none in the batch, not contiguous"""
    for call in runs_with(runs, probe, probe.SHAPES):
        expect_all(*call)


def test_sums(runs, probe):
    """A loss that is the plain sum of the outputs, and no gradient that is written to"""
    for run, name, given, ranks in runs_with(runs, probe, probe.SHAPES, probe.SUMS):
        if name in probe.SUMS:
            expect_all(run, name, given, ranks)
        for number in ranks:
            changed = run[number].read(name, Called)["upstream written"]
            subject = f"the gradient of its outputs that backward of {name} was given"
            run[number].expect(not changed, subject, "as it was", "other values: it was written to")


def test_residual(runs, probe):
    """The inputs may be used elsewhere, too: a residual connection"""
    for call in runs_with(runs, probe, probe.RESIDUAL):
        expect_all(*call)


def test_twice(runs, probe):
    """A layer may be called several times before backward, and again when it has been trained"""
    for call in runs_with(runs, probe, probe.TWICE):
        expect_all(*call)


def test_no_gradient(runs, probe):
    """Inputs that need no gradient, frozen slices, evaluation mode, and calls under no_grad"""
    for call in runs_with(runs, probe, probe.NO_GRADIENT):
        expect_all(*call)
        run, name, given, ranks = call
        for number in ranks if not given.needs_grad else ():
            changed = run[number].read(name, Called)["need gradients"]
            run[number].expect(not changed, f"requires_grad of the inputs of {name}", "as the caller set it", "True")
            changed = run[number].read(name, Called)["written"]
            run[number].expect(
                not changed, f"the inputs of {name}", "as they were", "other values: they were written to"
            )


def test_dtypes(runs, probe):
    """Layers of float32 and bfloat16"""
    for call in runs_with(runs, probe, probe.DTYPES):
        expect_all(*call)


def expect_slices(run, name, given, ranks):
    """On each of these ranks its part of the dense layers, as the module was built."""
    for place, number in enumerate(ranks):
        seen = called(run[number], name, "prepare")["slices"]
        for key, tensor in given.dense(run.seed, name).items():
            dim = given.shapes()[key][1]
            wanted, subject = part_of(tensor, dim, place, len(ranks)), f"{key} of {name}"
            run[number].expect_like({key: seen.get(key)}, {key: wanted}, subject)
            run[number].expect_close(seen[key], wanted, subject)


def test_groups(runs, probe):
    """In a sub-group its ranks share the layer, and nobody else takes part"""
    for run, name, given, ranks in groups_with(runs, probe):
        expect_slices(run, name, given, ranks)
        expect_all(run, name, given, ranks)
        if given.kind == "mlp":
            expect_cost(run, name, "forward", ranks)
            expect_cost(run, name, "backward", ranks)


def test_alone(runs, probe):
    """One rank alone has the dense layers, and an all-reduce more at most"""
    for call in runs_with(runs, probe, probe.COLUMN, probe.ROW, probe.MLP, family="alone"):
        run, name, given, ranks = call
        expect_all(run, name, given, ranks)
        if given.kind == "mlp":
            expect_cost(run, name, "forward", ranks)
            expect_cost(run, name, "backward", ranks)


def test_bad_widths(runs, probe):
    """A width that the ranks cannot share equally is a ValueError on every rank, and none waits for another"""
    came = runs("layers", recorded=["refusals", "waits"], after=list(probe.CALLS)[-1:])
    if not came:
        raise NotJudged("the code did not come so far")
    for run in came:
        for rank in run:
            seen = rank.read("refusals", dict[str, Attempt])
            for name in probe.BAD:
                rank.expect(name in seen, f"building {name}", "ValueError", "it was not come to")
                rank.expect_raised(seen[name], "ValueError", f"building {name} on {run.world_size} ranks")
        for rank in run:
            for name, others in rank.read("waits", dict[str, list[int]]).items():
                subject = f"building {name}, where rank {rank.rank} comes late for it"
                actual = f"{rank_list(others)} did not raise before rank {rank.rank} came"
                rank.expect(not others, subject, "ValueError on the other ranks at once", actual)
