"""Judges what the ranks of exercise 01 recorded. A place is a host and a port as the student's code asked for them."""

from grader.checks import Attempt, NotJudged, TypedDict, holds, machines, places, rank_list

HOST, PORT = "The host where the ranks meet", "The port where the ranks meet"


class Talk(TypedDict):
    """The group as a process saw it, and what came of an all-gather and an all-reduce in it."""

    rank: int
    world_size: int
    gathered: list[float]
    total: float | None


class BadCall(Attempt):
    """A call with bad arguments: whether it looked for other ranks, and whether a group was left after it."""

    communicated: bool
    initialized: bool


class Cleanup(Attempt):
    """A call, and whether there was a group after it."""

    initialized: bool


# Joining


def test_joins(runs, probe):
    """setup_ddp joins all ranks in one group"""
    for run in runs("join", recorded=["group"]):
        expect_group(run, probe, "group", range(run.world_size))


def test_alone(runs, probe):
    """A rank that is alone joins a group of its own"""
    for run in runs("alone", recorded=["group"]):
        expect_group(run, probe, "group", [0])


def expect_group(run, probe, name, numbers):
    """The first processes are one group, in which process p is rank `numbers[p]`."""
    talks = {process: run[process].read(name, Talk | None) for process in range(len(numbers))}
    inside = {process: talk is not None for process, talk in talks.items()}
    run.expect_of_all("dist.is_initialized() after setup_ddp", dict.fromkeys(talks, True), inside)
    of_process = {number: probe.token(run[process].secret, name) for process, number in enumerate(numbers)}
    tokens = [of_process[number] for number in range(len(numbers))]
    wanted = {process: (len(numbers), number, tokens, sum(tokens)) for process, number in enumerate(numbers)}
    subjects = {
        "world_size": "dist.get_world_size() after setup_ddp",
        "rank": "dist.get_rank() after setup_ddp",
        "gathered": "The grader's own all-gather of one number from each rank",
        "total": "The grader's own all-reduce (sum) of one number from each rank",
    }
    for place, (key, subject) in enumerate(subjects.items()):
        expected = {process: values[place] for process, values in wanted.items()}
        run.expect_of_all(subject, expected, {process: talk[key] for process, talk in talks.items()})
    size = len(numbers)
    run.expect_moved(8 * (size - 1) * (size + 2))  # of float64, an all-gather and an all-reduce at ring cost


# The meeting place


def test_uses_environment(runs, probe):
    """The place comes from the environment, rank and world size come from the arguments"""
    for run in meetings(runs, probe, "join"):
        expect_host(run, probe.ADDRESSES[0])
        expect_port(run)
    if not holds(test_joins, runs, probe):
        return  # which rank of how many is told there
    for run in runs("device_rule"):
        groups = [machines.group_of(run, one) for one in decisions(run, "misled", len(probe.MISLEADING))]
        ranks, sizes = ({r: group[key] for r, group in enumerate(groups)} for key in ("rank", "world_size"))
        machines.expect_of_staged(run, "RANK says otherwise: the rank taken by", {r: r for r in ranks}, ranks)
        subject = "WORLD_SIZE says otherwise: the world size for"
        machines.expect_of_staged(run, subject, dict.fromkeys(sizes, len(sizes)), sizes)
        if holds(test_gpu_selection, runs, probe):  # else it is told there which GPU a rank selects
            expect_own_gpus(run, probe)


def expect_own_gpus(run, probe):
    """The GPU, too, is that of the argument."""
    told = decisions(run, "misled_locally", len(probe.MISLEADING_LOCALLY))
    chosen = {rank: machines.gpu_of(run, one) for rank, one in enumerate(told)}
    subject = "LOCAL_RANK, LOCAL_WORLD_SIZE and WORLD_SIZE say otherwise: the GPU selected by"
    machines.expect_of_staged(run, subject, {rank: f"GPU {rank}" for rank in chosen}, chosen)


def test_default_address(runs, probe):
    """Without MASTER_ADDR the ranks look for each other on localhost, at MASTER_PORT"""
    for run in meetings(runs, probe, "only_port"):
        expect_loopback(run)
        if holds(meets_at, runs, expect_port):
            expect_port(run)


def test_default_port(runs, probe):
    """Without MASTER_PORT the ranks agree on a default port, at MASTER_ADDR"""
    for run in meetings(runs, probe, "only_address"):
        expect_one_port(run)
        if run.came_to(["asked again"]) and all(rank.read("asked again", list[places.Place]) for rank in run):
            expect_one_port(run, "asked again", " when rank 0 has set up once more than the others")
        if holds(meets_at, runs, expect_host, probe.ADDRESSES[0]):
            expect_host(run, run.case.environment["MASTER_ADDR"])


def test_both_defaults(runs, probe):
    """Without both, the ranks look for each other on localhost, at the default port"""
    for run in meetings(runs, probe, "nowhere"):
        expect_loopback(run)
        expect_one_port(run)


def require_an_end(runs):
    """Where setup_ddp never ends on one rank, each further case would take its whole deadline to tell that again."""
    if any(run.timed_out for run in runs("alone", finished=False)):
        raise NotJudged("setup_ddp does not end")


def meetings(runs, probe, family):
    """The runs of a family whose ranks said where to meet. That they then met is judged where they meet at all."""
    require_an_end(runs)
    joins = holds(test_joins, runs, probe)
    for run in runs(family, recorded=["group"]) if joins else runs(family, after=["asked"], finished=False):
        if joins:
            expect_group(run, probe, "group", range(run.world_size))
        elif not all(rank.read("asked", list[places.Place]) for rank in run):
            raise NotJudged("the ranks look for each other nowhere")
        yield run


def meets_at(runs, expectation, *args):
    """The first set-up of a process meets as expected. A rank that is alone needs no meeting. Where `uses_environment`
    tells that it does not, other checks need not tell it again."""
    for run in runs("join", finished=False):
        if run.came_to(["asked"]):
            expectation(run, *args)


def asked_by(rank, name="asked"):
    """The places that a rank asked for; there must be one."""
    asked = rank.read(name, list[places.Place])
    rank.expect(asked, "The ranks' meeting place", "a TCP address", "none was used")
    return asked


def expect_host(run, host):
    for rank in run:
        for place in asked_by(rank):
            rank.expect(place["host"] == host, HOST, f"{host}, as MASTER_ADDR says", place["host"])


def expect_loopback(run):
    for rank in run:
        for place in asked_by(rank):
            rank.expect(places.is_loopback(place["host"], rank.read("host", str)), HOST, "localhost", place["host"])


def expect_port(run, name="port"):
    for rank in run:
        for place in asked_by(rank):
            right = str(place["port"]) == rank.read(name, str)
            rank.expect(right, PORT, "the one in MASTER_PORT", place["port"])


def expect_one_port(run, name="asked", when=""):
    """A legal port, the same for all ranks."""
    ports = [asked_by(rank, name)[0]["port"] for rank in run]
    for rank, port in zip(run, ports, strict=True):
        rank.expect(places.is_port(port), PORT + when, "a number from 1 to 65535", port)
    run.expect(len(set(ports)) == 1, PORT + when, "the same default on all ranks", f"by rank {ports}")


# The device rule


def test_gpu_backend(runs, probe):
    """With a GPU for every rank the group works over NCCL"""
    for run, machine, ranks in staged(runs, probe, probe.ENOUGH):
        expect_backend(run, machine, ranks, "cuda", "nccl")


def test_gpu_selection(runs, probe):
    """With a GPU for every rank, rank r selects GPU r"""
    for run, machine, ranks in staged(runs, probe, probe.ENOUGH):
        chosen = {rank: machines.gpu_of(run, one) for rank, one in ranks.items()}
        wanted = {rank: f"GPU {rank}" for rank in ranks}
        machines.expect_of_staged(run, f"{machine}: the GPU selected by", wanted, chosen)


def test_cpu_fallback(runs, probe):
    """With too few GPUs or none, all ranks work over gloo"""
    for run, machine, ranks in staged(runs, probe, probe.TOO_FEW):
        expect_backend(run, machine, ranks, "cpu", "gloo")
        over_nccl = [rank for rank, one in ranks.items() if machines.backends_of(run, one).get("cuda") == "nccl"]
        split, seen = 0 < len(over_nccl) < len(ranks), f"NCCL on {rank_list(over_nccl)} only"
        run.expect(not split, f"{machine}: NCCL or gloo", "one decision for all ranks", seen)


def staged(runs, probe, wanted):
    """(run, machine in words, the decision of each of its ranks) for the staged machines that are wanted, without those
    for one rank where only a rank that is alone does not join."""
    every = [(gpus, size, rank) for gpus, size in probe.ENOUGH + probe.TOO_FEW for rank in range(size)]
    require_an_end(runs)
    single = holds(test_alone, runs, probe) or not holds(test_joins, runs, probe)
    for run in runs("device_rule"):
        done = dict(zip(every, decisions(run, "decisions", len(every)), strict=True))
        for gpus, size in wanted if single else [one for one in wanted if one[1] > 1]:
            yield run, machines.in_words(gpus, size), {rank: done[gpus, size, rank] for rank in range(size)}


def decisions(run, name, count):
    found = run[0].read(name, list[machines.Decision])
    run[0].expect_equal(len(found), count, "how many staged ranks decided")
    return found


def expect_backend(run, machine, ranks, device, wanted):
    """The backend string of each rank offers what is wanted for a device's tensors."""
    offered = {rank: machines.backends_of(run, one).get(device) for rank, one in ranks.items()}
    asked = {rank: machines.backend_in_words(run, one) for rank, one in ranks.items()}
    right = f"{wanted} for {device} tensors"
    seen = {rank: right if offered[rank] == wanted else asked[rank] for rank in ranks}
    machines.expect_of_staged(run, f"{machine}: the backend of", dict.fromkeys(ranks, right), seen)


# Bad arguments, and leaving


def test_bad_arguments(runs, probe):
    """Bad arguments raise ValueError before any communication"""
    require_an_end(runs)
    launched = " and ".join(f"{name}={value}" for name, value in probe.LAUNCHER.items())
    for run in runs("bad_arguments", recorded=["bad"]):
        rank, outcomes = run[0], run[0].read("bad", list[BadCall])
        rank.expect_equal(len(outcomes), len(probe.BAD), "how many bad calls were made")
        for (number, world_size), outcome in zip(probe.BAD, outcomes, strict=True):
            call = f"setup_ddp({number}, {world_size}) with {launched} in the environment"
            rank.expect(not outcome["communicated"], call, "no communication", "it looked for other ranks")
            rank.expect_raised(outcome, "ValueError", call)
            rank.expect(not outcome["initialized"], call, "no group", "a group was left behind")
        if holds(test_alone, runs, probe):
            run.require_finished()
            expect_group(run, probe, "good", [0])


def test_cleanup(runs):
    """cleanup_ddp destroys the group"""
    for run in left_by(runs):
        cleanups = {rank.rank: rank.read("cleanup", Cleanup) for rank in run}
        for rank in run:
            rank.expect_success(cleanups[rank.rank], "cleanup_ddp with a group")
        left = {number: cleanup["initialized"] for number, cleanup in cleanups.items()}
        run.expect_of_all("dist.is_initialized() after cleanup_ddp", dict.fromkeys(left, False), left)
    for rank, cleanup in told(runs, "cleanup of the grader's group"):
        subject = "cleanup_ddp with a group that setup_ddp has not made"
        rank.expect_success(cleanup, subject)
        rank.expect(not cleanup["initialized"], f"dist.is_initialized() after {subject}", "False", "True")


def told(runs, name):
    """(rank, what came of a call) where the grader makes or destroys a group beside the student's code."""
    for run in runs("bad_arguments", finished=False):
        if run.came_to([name]):
            yield run[0], run[0].read(name, Cleanup)


def left_by(runs):
    """The runs in which there was a group to leave."""
    every = runs("alone", "join", recorded=["cleanup"], after=["group"])
    if not (joined := [run for run in every if all(rank.read("group", Talk | None) for rank in run)]):
        raise NotJudged("there is no group to leave")
    return joined


def test_cleanup_without_group(runs):
    """cleanup_ddp does nothing when there is no group"""
    never, again = "cleanup before any setup_ddp", "cleanup for the second time"
    first = runs("alone", "join", recorded=[never])
    later = [run for run in runs("alone", "join", finished=False) if run.came_to(["cleanup"])]
    for run in later:
        if not run.came_to([again]):
            run.require_finished()
    for call, every in ((never, first), (again, later)):
        for rank in (rank for run in every for rank in run):
            rank.expect_success(rank.read(call, Attempt), call)
    for rank, cleanup in told(runs, "cleanup of a group that the grader has destroyed"):
        rank.expect_success(cleanup, "cleanup_ddp after a set-up whose group dist.destroy_process_group has destroyed")


def test_setup_again(runs, probe):
    """After cleanup_ddp the process can join again, as another rank and elsewhere"""
    for run in runs("again"):
        expect_group(run, probe, "second", [(rank.rank + 1) % run.world_size for rank in run])
        expect_group(run, probe, "third", [0])
        if run.world_size > 1 and holds(meets_at, runs, expect_host, probe.ADDRESSES[0]):
            expect_host(run, probe.ADDRESSES[1])
        if run.world_size > 1 and holds(meets_at, runs, expect_port):
            expect_port(run, "second port")
    for rank, joined in told(runs, "joined anew"):
        subject = "setup_ddp after dist.destroy_process_group and cleanup_ddp"
        rank.expect_success(joined, subject)
        rank.expect(joined["initialized"], f"dist.is_initialized() after {subject}", "True", "False")
    if all(holds(check, runs, probe) for check in (test_gpu_backend, test_gpu_selection, test_cpu_fallback)):
        for run in runs("device_rule"):
            expect_decided_anew(run, probe)


def expect_decided_anew(run, probe):
    """A process decides as whom it joins now, and not as whom it joined first."""
    done = decisions(run, "turns", len(probe.TURNS))
    for turn, (one, (rank, size)) in enumerate(zip(done, probe.TURNS, strict=True)):
        who = f"rank {rank} of {size}, on a machine with 2 GPUs"
        if turn:
            who += f", after it was rank {probe.TURNS[turn - 1][0]} of {probe.TURNS[turn - 1][1]}"
        device, wanted = ("cuda", "nccl") if size <= 2 else ("cpu", "gloo")
        offers = machines.backends_of(run, one).get(device) == wanted
        right = f"{wanted} for {device} tensors"
        seen = machines.backend_in_words(run, one)
        run.expect(offers, f"The backend of a process that joins as {who}", right, seen)
        if size <= 2:
            gpu = machines.gpu_of(run, one)
            run.expect(gpu == f"GPU {rank}", f"The GPU selected by a process that joins as {who}", f"GPU {rank}", gpu)
