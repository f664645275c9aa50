"""Judges what the ranks of exercise 01 recorded. A meeting is [host, port] as the student's code asked for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from grader.model import Finding
from grader.model.errors import CheckFailed

LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
NO_ERROR = "no exception"
HOST, PORT = "The host where the ranks meet", "The port where the ranks meet"
SUBJECTS = {
    "initialized": "dist.is_initialized() after setup_ddp",
    "world_size": "dist.get_world_size() after setup_ddp",
    "rank": "dist.get_rank() after setup_ddp",
    "gathered": "An all-gather of one number from each rank",
    "total": "An all-reduce (sum) of one number from each rank",
}


def test_joins(runs, probe):
    """setup_ddp joins all ranks in one group"""
    for run in runs("join"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})


def test_uses_environment(runs, probe):
    """The place comes from the environment, rank and world size come from the arguments"""
    meets_at(runs, expect_host, probe.ADDRESSES[0])
    meets_at(runs, expect_port)
    for run in runs("device_rule"):
        misled = rows(run[0], "misled", 2)
        numbers = {r: (r, group(row).get("rank")) for r, row in enumerate(misled)}
        report(None, "RANK says otherwise: the rank taken by", numbers)
        sizes = {r: (2, group(row).get("world_size")) for r, row in enumerate(misled)}
        report(None, "WORLD_SIZE says otherwise: the world size for", sizes)


def test_default_address(runs, probe):
    """Without MASTER_ADDR the ranks meet on localhost, at MASTER_PORT"""
    for run in runs("only_port"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})
        expect_loopback(run)
        if obeyed(runs, expect_port):
            expect_port(run)


def test_default_port(runs, probe):
    """Without MASTER_PORT the ranks agree on a default port, at MASTER_ADDR"""
    for run in runs("only_address"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})
        expect_one_port(run)
        if obeyed(runs, expect_host, probe.ADDRESSES[0]):
            expect_host(run, run.case.environment["MASTER_ADDR"])


def test_both_defaults(runs, probe):
    """Without both, the ranks meet on localhost at the default port"""
    for run in runs("nowhere"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})
        expect_loopback(run)
        expect_one_port(run)


def test_gpu_backend(runs, probe):
    """With a GPU for every rank the group works over NCCL"""
    for machine, ranks in machines(runs, probe, probe.ENOUGH):
        backends = {r: backend_for(row, "cuda", "nccl") for r, row in ranks.items()}
        report(None, f"{machine}: the backend of", backends)


def test_gpu_selection(runs, probe):
    """With a GPU for every rank, rank r selects GPU r"""
    for machine, ranks in machines(runs, probe, probe.ENOUGH):
        choices = {r: (f"GPU {r}", selected(row)) for r, row in ranks.items()}
        report(None, f"{machine}: the GPU selected by", choices)


def test_cpu_fallback(runs, probe):
    """With too few GPUs or none, all ranks work over gloo"""
    for machine, ranks in machines(runs, probe, probe.TOO_FEW):
        backends = {r: backend_for(row, "cpu", "gloo") for r, row in ranks.items()}
        report(None, f"{machine}: the backend of", backends)
        over_nccl = [r for r, row in ranks.items() if backend_for(row, "cuda", "nccl")[0] == "nccl"]
        if 0 < len(over_nccl) < len(ranks):
            only = f"NCCL on {named(over_nccl)} only"
            fail_staged(f"{machine}: NCCL or gloo", expected="one decision for all ranks", actual=only)


def test_bad_arguments(runs, probe):
    """Bad arguments raise ValueError before any communication"""
    launched = " and ".join(f"{name}={value}" for name, value in probe.LAUNCHER.items())
    for run in runs("bad_arguments"):
        for (rank, world_size), row in zip(probe.BAD, rows(run[0], "bad", len(probe.BAD)), strict=True):
            call = f"setup_ddp({rank}, {world_size}) with {launched} in the environment"
            calm = row.get("communicated") == 0
            run.expect(calm, call, expected="no communication", actual="it looked for other ranks")
            expect_error(run, row, "ValueError", call)
            run.expect(row.get("initialized") is False, call, expected="no group", actual="a group was left behind")
        expect_group(run, probe, "good", {0: 0})


def test_cleanup(runs):
    """cleanup_ddp destroys the group"""
    for run in runs("join"):
        for view in run:
            expect_error(run, fields(view, "cleanup"), None, "cleanup_ddp with a group", view.rank)
        states = {view.rank: (False, fields(view, "cleanup").get("initialized")) for view in run}
        report(run, "dist.is_initialized() after cleanup_ddp", states)


def test_cleanup_without_group(runs):
    """cleanup_ddp does nothing when there is no group"""
    for run in runs("join"):
        for view in run:
            before, after = rows(view, "without_group", 2)
            expect_error(run, before, None, "cleanup_ddp before any setup_ddp", view.rank)
            expect_error(run, after, None, "cleanup_ddp for the second time", view.rank)


def test_setup_again(runs, probe):
    """After cleanup_ddp the process can join again, as another rank and elsewhere"""
    for run in runs("again"):
        expect_group(run, probe, "second", {view.rank: (view.rank + 1) % run.world_size for view in run})
        expect_group(run, probe, "third", {0: 0})
        if run.world_size > 1 and obeyed(runs, expect_host, probe.ADDRESSES[0]):
            expect_host(run, probe.ADDRESSES[1])
        if run.world_size > 1 and obeyed(runs, expect_port):
            expect_port(run)


def fields(view: Any, name: str) -> Mapping[str, Any]:
    """The observation `name`, which is a dict."""
    value = view[name]
    return value if isinstance(value, dict) else {}


def rows(view: Any, name: str, count: int) -> list[Mapping[str, Any]]:
    """The observation `name`, which is a list of `count` dicts."""
    value = view[name]
    right = isinstance(value, list) and len(value) == count and all(isinstance(row, dict) for row in value)
    return value if right else [{}] * count


def meetings(run: Any, view: Any) -> list[tuple[str, int]]:
    """(host, port) of each meeting that the rank asked for; there must be one."""
    asked = view["asked"] if isinstance(view["asked"], list) else []
    found = [tuple(place) for place in asked if isinstance(place, list) and list(map(type, place)) == [str, int]]
    if not found:
        run.fail("The ranks' meeting place", expected="a TCP address", actual="none was used", ranks=[view.rank])
    return found


def machines(runs: Any, probe: Any, wanted: Sequence[tuple[int, int]]) -> Iterator[tuple[str, dict[int, Any]]]:
    """(machine in words, what each of its ranks did) for the staged machines that are wanted."""
    staged = [(gpus, size, rank) for gpus, size in probe.ENOUGH + probe.TOO_FEW for rank in range(size)]
    for run in runs("device_rule"):
        done = dict(zip(staged, rows(run[0], "decisions", len(staged)), strict=True))
        for gpus, size in wanted:
            yield in_words(gpus, size), {rank: done[gpus, size, rank] for rank in range(size)}


def in_words(gpus: Any, size: Any) -> str:
    have = "No GPU" if gpus == 0 else "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"{have}, {size} rank{'s' if size != 1 else ''}"


def named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def group(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The group that a rank made on a staged machine.

    An error after that is not charged, since the GPUs are not real, unless it is for a GPU that there is not.
    """
    groups = row.get("groups")
    joined = isinstance(groups, list) and groups and isinstance(groups[-1], dict)
    if not joined or (row.get("raised") and row.get("refused")):
        subject = f"{in_words(row.get('gpus'), row.get('world_size'))}: setup_ddp on rank {row.get('rank')}"
        actual = error_text(row) if row.get("raised") else "none"
        fail_staged(subject, expected="a process group", actual=actual, line=row.get("line"))
    return groups[-1]


def selected(row: Mapping[str, Any]) -> str:
    """The GPU that the rank ends up with: what it selected, what it bound the group to, or GPU 0 if neither."""
    bound, chosen = group(row).get("gpu"), row.get("selected")
    if bound is not None and chosen not in (None, bound):
        return f"GPU {chosen}, but a group bound to GPU {bound}"
    if bound is None and chosen is None:
        return "GPU 0" if row.get("rank") == 0 else "none, which leaves GPU 0"
    return f"GPU {bound if chosen is None else chosen}"


def backend_for(row: Mapping[str, Any], device: str, wanted: str) -> tuple[str, str]:
    """(expected, actual) backend for a device's tensors; they are equal if the backend string offers what is wanted."""
    backend = group(row).get("backend")
    text = "the default" if backend is None else f"{backend}"
    right = offers(backend, row.get("gpus")).get(device) == wanted
    return (wanted, wanted) if right else (f"{wanted} for {device} tensors", text)


def offers(backend: Any, gpus: Any) -> dict[str, str]:
    """The backend for each device's tensors. None lets torch choose by the machine."""
    if not isinstance(backend, str):
        return {"cuda": "nccl"} if gpus else {"cpu": "gloo"}
    if ":" in backend:
        pairs = (part.partition(":") for part in backend.lower().split(","))
        return {device: name for device, _, name in pairs}
    return {"cuda": "nccl"} if backend.lower() == "nccl" else {"cpu": backend.lower(), "cuda": backend.lower()}


def is_loopback(host: str, own_name: Any) -> bool:
    """Whether a host name or address means this machine and only it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK_NAMES or host == own_name


def report(run: Any, subject: str, both: Mapping[int, tuple[Any, Any]]) -> None:
    """`both` holds (expected, actual) by rank. The first fault is reported for all ranks that share it.

    `run` None: one process played the ranks. They are named in the subject then, since they are no run's own ranks.
    """
    faults = {rank: pair for rank, pair in both.items() if pair[0] != pair[1]}
    for expected, actual in faults.values():
        ranks = [rank for rank, pair in faults.items() if pair == (expected, actual)]
        if run is None:
            fail_staged(f"{subject} {named(ranks)}", expected=f"{expected}", actual=f"{actual}")
        run.fail(subject, expected=expected, actual=actual, ranks=ranks)


def fail_staged(subject: str, **fields_: Any) -> NoReturn:
    raise CheckFailed((Finding(subject=subject, **fields_),))


def expect_group(run: Any, probe: Any, name: str, numbers: Mapping[int, int]) -> None:
    """The processes in `numbers` are one group, in which process p is rank `numbers[p]`."""
    tokens = [probe.token(run.seed, number) for number in range(len(numbers))]
    wanted = {"initialized": True, "world_size": len(numbers), "gathered": tokens, "total": sum(tokens)}
    for key, subject in SUBJECTS.items():
        seen = {process: fields(run[process], name).get(key) for process in numbers}
        report(run, subject, {process: (wanted.get(key, numbers[process]), seen[process]) for process in numbers})


def meets_at(runs: Any, expectation: Callable[..., None], *args: Any) -> None:
    """The first set-up of a process meets as expected. A rank that is alone needs no meeting."""
    for run in runs("join"):
        if run.world_size > 1:
            expectation(run, *args)


def obeyed(runs: Any, expectation: Callable[..., None], *args: Any) -> bool:
    """Whether the same holds. Where it does not, one check has told so, and a second need not."""
    try:
        meets_at(runs, expectation, *args)
    except CheckFailed:
        return False
    return True


def expect_host(run: Any, host: str) -> None:
    expect_meetings(run, 0, f"{host}, as MASTER_ADDR says", lambda view, asked: asked == host)


def expect_loopback(run: Any) -> None:
    expect_meetings(run, 0, "localhost", lambda view, asked: is_loopback(str(asked), view["host"]))


def expect_port(run: Any) -> None:
    given = {view.rank: fields(view, "environment").get("MASTER_PORT") for view in run}
    expect_meetings(run, 1, "the one in MASTER_PORT", lambda view, asked: str(asked) == given[view.rank])


def expect_meetings(run: Any, part: int, wanted: str, right: Callable[[Any, Any], bool]) -> None:
    """Host (part 0) or port (part 1) of every meeting are right."""
    for view in run:
        for asked in (place[part] for place in meetings(run, view)):
            run.expect(right(view, asked), (HOST, PORT)[part], expected=wanted, actual=asked, ranks=[view.rank])


def expect_one_port(run: Any) -> None:
    """A legal port, the same for all ranks."""
    ports = {view.rank: meetings(run, view)[0][1] for view in run}
    for rank, port in ports.items():
        run.expect(1 <= port <= 65535, PORT, expected="a number from 1 to 65535", actual=port, ranks=[rank])
    agree = len(set(ports.values())) == 1
    run.expect(agree, PORT, expected="the same default on all ranks", actual=f"by rank {list(ports.values())}")


def expect_error(run: Any, row: Mapping[str, Any], error: str | None, call: str, *ranks: int) -> None:
    """The call raised `error` or a subclass of it, or nothing where `error` is None."""
    raised = row.get("raised")
    right = isinstance(raised, list) and (error in raised if error else not raised)
    run.expect(right, call, expected=error or NO_ERROR, actual=error_text(row), ranks=ranks, line=row.get("line"))


def error_text(row: Mapping[str, Any]) -> str:
    raised = row.get("raised")
    return f"{raised[0]}: {row.get('message')}" if isinstance(raised, list) and raised else NO_ERROR
