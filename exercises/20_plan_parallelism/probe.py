"""Runs in one rank: asks what plans cost and for plans, and records the answers. No cost formula stands here.

Models, clusters and plans are tuples in the order of the dataclasses' fields. Plans are drawn so that they are legal.
"""

import operator

from grader.kit.values import number, random_for

MODEL = ("layers", "hidden", "heads", "seq_len", "vocab", "global_batch")
CLUSTER = ("nodes", "gpus_per_node", "memory_bytes", "flops", "intra_bandwidth", "inter_bandwidth", "latency")
PLAN = ("dp", "tp", "pp", "zero_stage", "micro_batch", "recompute")
HUGE = 1e40
"""FLOP/s or bytes/s that take no time."""
TINY = 1e6
"""Bytes of a GPU into which no plan fits. What it would cost is asked all the same."""

# -- What plans cost --------------------------------------------------------------------------------------------------


def situation(draw, tp=(1, 2, 4, 8), pp=(1, 2, 3, 4), dp=(1, 2, 3, 4, 8), stages=(0, 1, 2, 3), recompute=(False, True)):
    """A model, (nodes, GPUs a node) and a legal plan, each drawn from such choices. A replica has at least twice as
    many micro-batches as there are stages of its pipeline."""
    t, p, d = draw.choice(tp), draw.choice(pp), draw.choice(dp)
    gpus, batch = t * p * d, draw.randrange(1, 5)
    per_node = draw.choice([g for g in range(t, min(gpus, 16) + 1, t) if gpus % g == 0])
    hidden, seq_len = draw.randrange(300, 6000), draw.randrange(100, 5000)
    size = (p * draw.randrange(1, 12), hidden, t * draw.randrange(1, 9), seq_len, draw.randrange(10_000, 150_000))
    stage = draw.choice(stages if p == 1 else [z for z in stages if z < 2])
    model = (*size, d * batch * 2 * p * draw.randrange(2, 7))
    return model, (gpus // per_node, per_node), (d, t, p, stage, batch, draw.choice(recompute))


def with_batch(model, factor):
    """The same model with so many times the global batch."""
    return (*model[:5], model[5] * factor)


def fewer(model, plan, micro_batches):
    """The same model with a global batch of so many micro-batches a replica."""
    return (*model[:5], plan[0] * plan[4] * micro_batches)


def twice(plan):
    """The same plan with micro-batches twice as large."""
    return (*plan[:4], 2 * plan[4], plan[5])


def one_stage(plan):
    """The same plan without a pipeline or recomputation."""
    return (*plan[:2], 1, *plan[3:5], False)


def cluster(shape, memory=1e12, flops=HUGE, intra=HUGE, inter=HUGE, latency=0.0):
    return (*shape, memory, flops, intra, inter, latency)


def memory_pairs(secret, name, **how):
    """(model, cluster, plan, the same with micro-batches twice as large)."""
    draws = [situation(random_for(secret, name, place), **how, **sharded(place)) for place in range(24)]
    return [(model, cluster(shape), plan, twice(plan)) for model, shape, plan in draws]


def sharded(place):
    """The first of a kind of question have replicas and no pipeline, and the stages of ZeRO in turn."""
    return {"pp": (1,), "dp": (2, 3, 4, 8), "stages": (place,)} if place < 4 else {}


def half_filled(secret):
    """(model, the same with fewer micro-batches than stages, cluster, plan)."""
    rows = []
    for place in range(12):
        draw = random_for(secret, "half filled", place)
        model, shape, plan = situation(draw, pp=(2, 3, 4, 5))
        rows.append((model, fewer(model, plan, draw.randrange(1, plan[2])), cluster(shape, TINY), plan))
    return rows


SPEEDS = {
    "compute": {"flops": (1e13, 6e14)},
    "bubble": {"flops": (1e13, 6e14)},
    "tensor": {"intra": (1e10, 9e11)},
    "pipeline": {"inter": (1e9, 9e10)},
    "pipeline on one node": {"intra": (1e10, 9e11)},
    "data": {"inter": (1e9, 9e10), "intra": (1e10, 9e11)},
    "link": {"inter": (1e9, 9e10), "intra": (1e10, 9e11)},
    "latency": {"latency": (1e-6, 1e-3)},
    "total": {"flops": (1e13, 6e14), "inter": (1e9, 9e10), "intra": (1e10, 9e11), "latency": (1e-6, 1e-4)},
}
"""What takes time in the clusters of each kind of question, between which bounds. The rest is infinitely fast."""
SITUATIONS = {
    "compute": {"stages": (0, 1)},
    "bubble": {"stages": (0, 1), "pp": (2, 3, 4, 6), "tp": (1, 2)},
    "tensor": {"stages": (0, 1), "pp": (1, 2), "tp": (2, 4, 8), "dp": (1,)},
    "pipeline": {"stages": (0, 1), "pp": (2, 3, 4), "tp": (1, 2, 4), "dp": (1,)},
    "pipeline on one node": {"stages": (0, 1), "pp": (2, 3, 4), "tp": (1,), "dp": (1,)},
    "data": {"pp": (1,), "tp": (1,), "dp": (2, 3, 4, 8)},
    "link": {"pp": (2, 3, 4, 6), "tp": (1, 2), "dp": (2, 3, 4, 6)},
    "latency": {"dp": (2, 3, 4, 8)},
    "total": {},
}
NODES = {
    "tensor": lambda d, t, p: (p, t),
    "pipeline": lambda d, t, p: (p, t),
    "pipeline on one node": lambda d, t, p: (1, p),
    "data": lambda d, t, p: (d, 1),
}
"""How the GPUs are spread over nodes, where that is not drawn."""
COUNT = 24
"""Questions of a kind."""


def timed(secret, kind):
    """(model, the same with three times the batch, cluster, plan) of a kind of question."""
    rows = []
    for place in range(COUNT):
        draw = random_for(secret, kind, place)
        model, shape, plan = situation(draw, **SITUATIONS[kind])
        while kind == "link" and place < 4 and not across(shape, plan, place % 2):
            model, shape, plan = situation(draw, **SITUATIONS[kind])
        if kind == "data":
            plan = (*plan[:3], place % 4, *plan[4:])
        speeds = {name: draw.uniform(*bounds) for name, bounds in SPEEDS[kind].items()}
        speeds |= {"memory": TINY} if kind == "total" else {}
        shape = NODES[kind](*plan[:3]) if kind in NODES else shape
        rows.append((model, with_batch(model, 3), cluster(shape, **speeds), plan))
    return rows


def across(shape, plan, fewer_than_a_node):
    """Whether replicas are on several nodes, though there are fewer GPUs of them than a node has, or though a node is
    divided by their number."""
    row = plan[0] * plan[1]
    return shape[1] % row and (row < shape[1] if fewer_than_a_node else plan[1] > 1 and shape[1] % plan[0] == 0)


def costs(rank):
    secret = rank.secret
    for name, again in (("memory", False), ("recomputed", True)):
        rows = memory_pairs(secret, name, recompute=(again,))
        rank.record(name, [[bytes_of(rank, *row[:3]), bytes_of(rank, *row[:2], row[3])] for row in rows])
    rank.record("one stage", [both_of_one_stage(rank, *row) for row in rows])
    rows = half_filled(secret)
    rank.record("half filled", [[bytes_of(rank, row[0], *row[2:]), bytes_of(rank, *row[1:])] for row in rows])
    for kind in SPEEDS:
        rows = timed(secret, kind)
        rank.record(kind, [[seconds_of(rank, row[0], *row[2:]), seconds_of(rank, *row[1:])] for row in rows])


def both_of_one_stage(rank, model, _, plan, larger):
    shape = (plan[0], plan[1])
    return [bytes_of(rank, model, cluster(shape), one_stage(each)) for each in (plan, larger)]


def bytes_of(rank, *arguments):
    return asked(rank, "memory_bytes", arguments)


def seconds_of(rank, *arguments):
    return asked(rank, "step_seconds", arguments)


def asked(rank, name, arguments):
    """The number that a function of the student's returned, or what it raised."""
    outcome = rank.attempt(call, rank.student, name, arguments)
    return {"outcome": outcome.described(), "value": number(outcome.value), "type": type(outcome.value).__name__}


def call(student, name, arguments):
    kinds = ((student.ModelSpec, MODEL), (student.ClusterSpec, CLUSTER), (student.Plan, PLAN))
    named = [(kind, dict(zip(names, one, strict=True))) for (kind, names), one in zip(kinds, arguments, strict=False)]
    return getattr(student, name)(*(kind(**fields) for kind, fields in named))


# -- Which plans are found --------------------------------------------------------------------------------------------

SHAPES = [(1, 1), (1, 2), (1, 8), (2, 8), (3, 1), (4, 4), (6, 8), (16, 8), (32, 4), (64, 8), (128, 8)]
DEPTHS = [12, 24, 30, 32, 36, 40, 48, 60, 80, 96]
WIDTHS = [1024, 2048, 3072, 4096, 5120, 8192, 12288]
THUMB = [
    ((32, 8192, 64, 1024, 51200, 64), (16, 4, 24e9, 6e13, 2.5e11, 1.25e9, 5e-6)),
    ((96, 5120, 40, 1024, 51200, 64), (64, 8, 40e9, 4e14, 6e10, 1.25e9, 5e-6)),
    ((48, 5120, 40, 1024, 51200, 128), (32, 8, 80e9, 4e14, 6e10, 1.25e9, 5e-6)),
    ((24, 12288, 96, 1024, 51200, 192), (64, 8, 24e9, 4e14, 2.5e11, 1.25e10, 5e-6)),
    ((96, 4096, 32, 1024, 51200, 32), (4, 8, 16e9, 4e14, 1.6e10, 1.25e9, 5e-6)),
    ((61, 5120, 40, 1024, 51200, 192), (32, 1, 16e9, 2e14, 1.6e10, 1.25e9, 5e-6)),
    ((61, 4096, 32, 1024, 51200, 320), (32, 2, 24e9, 2e14, 2.5e11, 3e9, 5e-6)),
    ((31, 8192, 64, 1024, 51200, 2560), (32, 1, 40e9, 4e14, 6e10, 1.25e9, 5e-6)),
    ((23, 8192, 64, 64, 51200, 32768), (32, 1, 80e9, 4e14, 6e10, 1.25e9, 5e-6)),
    ((64, 2048, 16, 1024, 51200, 63), (64, 1, 80e9, 4e14, 6e10, 1.25e10, 5e-6)),
]
"""Where many a rule of thumb finds a plan that takes three times as long as the best; then one where hundreds of
sequences in a micro-batch are best, and one where 64 stages are all there is."""
UNUSUAL = [
    ((99, 3840, 60, 4096, 51200, 3), (3, 12, 16e9, 4e14, 6e10, 6e9, 2e-6)),
    ((72, 6144, 96, 512, 32000, 128), (48, 12, 12e9, 4e14, 4e11, 1.25e9, 1e-4)),
    ((126, 9216, 72, 2048, 128000, 7680), (96, 8, 48e9, 1.5e14, 1.6e10, 5e10, 1e-4)),
    ((12, 768, 12, 2048, 128000, 120), (48, 3, 40e9, 4e14, 2.5e11, 2.5e10, 1e-4)),
    ((80, 3072, 48, 4096, 32000, 3), (5, 12, 12e9, 6e13, 6e10, 1.25e9, 0.0)),
    ((99, 1920, 15, 2048, 51200, 1024), (128, 6, 32e9, 6e13, 2.5e11, 2.5e10, 1e-4)),
    ((60, 2304, 36, 4096, 32000, 36), (6, 6, 8e9, 2e14, 1.6e10, 1.25e10, 2e-6)),
    ((63, 9216, 72, 2048, 51200, 30), (5, 12, 32e9, 2e14, 1.6e10, 1.25e9, 2e-6)),
    ((30, 1152, 18, 1024, 32000, 10), (3, 6, 48e9, 4e14, 2.5e11, 1.25e10, 1e-4)),
    ((128, 1920, 15, 4096, 128000, 384), (96, 8, 40e9, 6e13, 1.6e10, 1.25e10, 1e-4)),
    ((64, 1536, 24, 512, 51200, 1), (16, 12, 32e9, 4e14, 6e10, 1.25e10, 2e-5)),
    ((80, 1152, 18, 512, 128000, 7680), (12, 6, 48e9, 4e14, 4e11, 3e9, 1e-4)),
    ((80, 1536, 12, 1024, 51200, 15), (1, 4, 80e9, 4e14, 1.6e10, 3e9, 1e-4)),
    ((126, 3072, 24, 1024, 51200, 480), (32, 16, 16e9, 4e14, 4e11, 5e10, 2e-5)),
    ((30, 1536, 12, 4096, 32000, 2), (1, 6, 16e9, 6e13, 4e11, 1.25e9, 2e-5)),
]
"""Where the best plan is of a kind that a search may never look at: ZeRO stage 3 where less would fit, degrees and
micro-batches that are no powers of two, hundreds of replicas, many stages, fewer micro-batches than stages; then a
pipeline within one node, a higher stage of ZeRO for the room of larger micro-batches, stage 3 without recomputation.
Whatever leaves such plans out is more than a tenth slower on one of these."""
TWINS = [
    ((80, 4096, 32, 1024, 51200, 48), (2, 4, 40e9, 4e14, 2.5e11, 2.5e10, 0.0), {"layers": 40}),
    ((60, 5120, 40, 1024, 32000, 3072), (12, 2, 24e9, 4e14, 2.5e11, 2.5e10, 2e-6), {"hidden": 2560}),
    ((60, 5120, 40, 2048, 32000, 256), (4, 4, 40e9, 2e14, 2.5e11, 3e9, 2e-6), {"heads": 20}),
    ((24, 2048, 16, 4096, 32000, 128), (12, 2, 80e9, 2e14, 6e10, 2.5e10, 2e-5), {"seq_len": 8192}),
    ((36, 4096, 32, 1024, 32000, 3072), (4, 2, 24e9, 4e14, 6e10, 2.5e10, 0.0), {"vocab": 256000}),
    ((32, 2048, 16, 4096, 32000, 128), (2, 4, 40e9, 4e14, 2.5e11, 1.25e9, 0.0), {"global_batch": 2560}),
    ((48, 1536, 12, 4096, 32000, 128), (12, 4, 16e9, 6e13, 6e10, 3e9, 2e-5), {"nodes": 16}),
    ((12, 5120, 40, 4096, 51200, 1536), (2, 4, 80e9, 6e13, 6e10, 2.5e10, 2e-5), {"gpus_per_node": 8}),
    ((36, 5120, 40, 4096, 32000, 512), (2, 8, 16e9, 6e13, 1.6e10, 3e9, 5e-6), {"memory_bytes": 25.3e9}),
    ((40, 3072, 24, 1024, 51200, 512), (8, 8, 1.72e9, 2e14, 6e10, 1.25e9, 2e-5), {"memory_bytes": 2.4e9}),
    ((40, 5120, 40, 1024, 32000, 48), (2, 4, 40e9, 6e13, 1.6e10, 2.5e10, 2e-6), {"flops": 9e14}),
    ((60, 4096, 32, 2048, 32000, 64), (2, 4, 80e9, 4e14, 2.5e11, 1.25e9, 0.0), {"intra_bandwidth": 1.6e10}),
    ((12, 1536, 12, 4096, 32000, 16), (8, 8, 24e9, 6e13, 2.5e11, 1.25e9, 2e-5), {"inter_bandwidth": 5e10}),
    ((48, 4096, 32, 1024, 32000, 3072), (2, 8, 16e9, 2e14, 2.5e11, 1.25e10, 0.0), {"latency": 1e-4}),
    ((60, 5120, 40, 2048, 32000, 64), (8, 2, 40e9, 1.5e14, 2.5e11, 1.25e10, 2e-6), {"nodes": 1, "gpus_per_node": 16}),
    ((32, 1536, 12, 1024, 51200, 128), (4, 4, 16e9, 6e13, 6e10, 2.5e10, 5e-6), {"seq_len": 4096, "global_batch": 32}),
    ((40, 2048, 16, 1024, 51200, 192), (6, 4, 16e9, 4e14, 1.6e10, 3e9, 0.0), {"layers": 20, "hidden": 4096}),
    ((36, 8192, 64, 1024, 32000, 256), (4, 4, 30.89e9, 4e14, 2.5e11, 1.25e9, 5e-6), {"memory_bytes": 30.91e9}),
    (
        (40, 1536, 12, 4096, 32000, 16), (4, 2, 16e9, 1.5e14, 6e10, 1.25e9, 5e-6),
        {"intra_bandwidth": 9.6e11, "inter_bandwidth": 2e10},
    ),
]  # fmt: skip
"""A model and a cluster, and what is changed in its twin: one field alone, or two whose product or ratio stays.
No plan is within a tenth of the best before and after, so a plan that was kept by anything less than all that was asked
is wrong for one of the two; so is one that was kept by the memory in whole GB."""
TIGHT = [
    ((60, 4096, 32, 4096, 51200, 192), (32, 8), (3.34e9, 3.72e9)),
    ((24, 4096, 32, 1024, 51200, 512), (64, 1), (1.78e9, 2.28e9)),
    ((60, 4096, 32, 2048, 51200, 96), (64, 8), (3.13e9, 3.81e9)),
    ((80, 2048, 16, 2048, 51200, 32), (128, 1), (2.64e9, 3.10e9)),
    ((10, 2304, 18, 4096, 51200, 12), (6, 4), (1.67e9, 2.36e9)),
    ((6, 1536, 12, 4096, 51200, 84), (9, 6), (5.21e8, 7.08e8)),
    ((2, 1152, 9, 1024, 32000, 15), (3, 2), (5.24e8, 6.06e8)),
]
"""A model, nodes, and between which bounds of a GPU's memory there is one plan that fits; below them there is none."""
FULL = [
    ((16, 2048, 16, 2048, 32000, 16), (8, 1), 2363293696.0),
    ((8, 2048, 16, 1024, 51200, 64), (2, 4), 1107722240.0),
    ((32, 1024, 16, 512, 32000, 32), (8, 2), 491945984.0),
]
"""A model, nodes, and the bytes of a GPU's memory that one plan fills to the last; all others need more. Nothing is
divided by anything but powers of two, so that no arrangement of the formulas rounds."""
INDIVISIBLE = [
    ((5, 512, 4, 512, 32000, 3), (4, 1)),
    ((7, 1152, 9, 1024, 32000, 5), (1, 8)),
    ((12, 768, 12, 512, 32000, 4), (5, 1)),
]
"""Models, and clusters among whose GPUs they cannot be divided."""
LARGE = [
    ((128, 16384, 128, 4096, 128000, 16384), (2048, 8)),
    ((96, 12288, 96, 2048, 51200, 12288), (1536, 8)),
    ((120, 10240, 80, 2048, 51200, 3840), (480, 16)),
    ((31, 4096, 32, 2048, 51200, 16384), (2048, 8)),
    ((31, 4096, 32, 2048, 51200, 64), (64, 16)),
]
"""Of the last two, the first leaves thousands of replicas and no fewer, the second sixteen GPUs for a layer."""


def speeds(draw):
    return (
        draw.choice([6e13, 1.5e14, 2e14, 4e14]) * draw.uniform(0.9, 1.1),
        draw.choice([1.6e10, 6e10, 2.5e11]) * draw.uniform(0.9, 1.1),
        draw.choice([1.25e9, 3e9, 1.25e10, 2.5e10]) * draw.uniform(0.9, 1.1),
        draw.choice([0.0, 2e-6, 5e-6, 2e-5]),
    )


def ordinary(secret, place):
    """A drawn model and cluster, the first ones of one GPU."""
    draw = random_for(secret, "ordinary", place)
    hidden, depth = draw.choice(WIDTHS[: 2 if place < 2 else None]), draw.choice(DEPTHS[: 3 if place < 2 else None])
    batch = draw.choice([1, 2, 3]) * 2 ** draw.randrange(5, 12)
    model = (depth, hidden, hidden // 128, draw.choice([1024, 2048, 4096]), 51200, batch)
    memory = draw.choice([16e9, 24e9, 40e9, 80e9]) if place > 1 else 80e9
    return model, (*(SHAPES[0] if place < 2 else draw.choice(SHAPES)), memory, *speeds(draw))


def jittered(draw, cluster):
    """The same with speeds that nobody has seen before."""
    return (*cluster[:3], *(x * draw.uniform(0.95, 1.05) for x in cluster[3:6]), cluster[6])


def twin(draw, model, cluster, change):
    """Before and after a change of some fields, with speeds that nobody has seen before, the same ones in both."""
    changed = {**dict(zip(MODEL + CLUSTER, model + cluster, strict=True)), **change}
    after = tuple(changed[name] for name in MODEL), tuple(changed[name] for name in CLUSTER)
    factors = [draw.uniform(0.95, 1.05) for _ in range(3)]
    return [
        (each, (*c[:3], *(x * factor for x, factor in zip(c[3:6], factors, strict=True)), c[6]))
        for each, c in ((model, cluster), after)
    ]


def clusters(secret):
    """What plans are asked for: by name, models and clusters."""
    draw = random_for(secret, "clusters")
    thumb = [(model, jittered(draw, c)) for model, c in THUMB]

    def tight(low, high):
        rows = []
        for model, shape, (least, most) in TIGHT:
            at = draw.uniform(low, high)
            rows.append((model, (*shape, least + at * (most - least), *speeds(draw))))
        return rows

    first = [ordinary(secret, place) for place in range(22)]
    asked = first[:2]
    for place in range(2, 22, 2):  # the same model on two clusters, then the same cluster for two models
        asked += [first[place], (first[place][0], first[place + 1][1]), first[place + 1]]
    roomy = [ordinary(secret, place) for place in range(100, 108)]
    missing = [(model, (*c[:2], c[2] * draw.uniform(1e-4, 1e-2), *c[3:])) for model, c in THUMB[:3]]
    return {
        "short": [*missing, *tight(-0.3, -0.1)],
        "ordinary": asked,
        "roomy": [(model, (*c[:2], 1e16, *c[3:])) for model, c in roomy],
        "thumb": thumb,
        "tight": [*tight(0.05, 0.95), *((model, (*shape, filled, *speeds(draw))) for model, shape, filled in FULL)],
        "indivisible": [(model, (*shape, 80e9, *speeds(draw))) for model, shape in INDIVISIBLE],
    }


def traps(secret):
    """The same for searches that leave something out, or keep what they found."""
    draw = random_for(secret, "traps")
    return {
        "unusual": [(model, jittered(draw, c)) for model, c in UNUSUAL],
        "twins": [one for row in TWINS for one in twin(draw, *row)],
    }


def large(secret):
    draw = random_for(secret, "large")
    return [(model, (*shape, 80e9, *speeds(draw))) for model, shape in LARGE]


def plans(rank):
    for name, rows in clusters(rank.secret).items():
        rank.record(name, [planned(rank, row) for row in rows])


def trapped(rank):
    for name, rows in traps(rank.secret).items():
        rank.record(name, [planned(rank, row) for row in rows])


def largest(rank):
    rank.record("large", [planned(rank, row) for row in large(rank.secret)])


def planned(rank, arguments):
    """The fields of the plan that was found, whole numbers; none where it has other ones."""
    outcome = rank.attempt(call, rank.student, "plan", arguments)
    try:
        fields = [operator.index(getattr(outcome.value, name)) for name in PLAN[:5]]
        fields.append(int(bool(outcome.value.recompute)))
    except (AttributeError, TypeError):
        fields = []
    return {"outcome": outcome.described(), "fields": fields, "type": type(outcome.value).__name__}
