"""Judges what the ranks of exercise 01 recorded. A meeting is [host, port] as the student's code asked for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
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
    for run in runs("join"):
        if run.world_size > 1:
            expect_place(run, probe.ADDRESSES[0])
    for run in runs("contradicting_environment"):
        expect_ranks(run, "The group's rank, though RANK says otherwise,", lambda v: (v.rank, group(run, v).get("rank")))
        sizes = {view.rank: (run.world_size, group(run, view).get("world_size")) for view in run}
        expect_ranks(run, "The group's world size, though WORLD_SIZE says otherwise,", lambda v: sizes[v.rank])


def test_default_address(runs, probe):
    """Without MASTER_ADDR the ranks meet on localhost, at MASTER_PORT"""
    for run in runs("only_port"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})
        expect_loopback(run)
        expect_port(run)


def test_default_port(runs, probe):
    """Without MASTER_PORT the ranks agree on a default port, at MASTER_ADDR"""
    for run in runs("only_address"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})
        expect_host(run, run.case.environment["MASTER_ADDR"])
        expect_one_port(run)


def test_both_defaults(runs, probe):
    """Without both, the ranks meet on localhost at the default port"""
    for run in runs("nowhere"):
        expect_group(run, probe, "group", {view.rank: view.rank for view in run})
        expect_loopback(run)
        expect_one_port(run)


def test_gpu_backend(runs):
    """With a GPU for every rank the group works over NCCL"""
    for run in (*runs("gpu_for_each"), *runs("gpus_to_spare")):
        expect_ranks(run, f"The backend, {machine(run)},", lambda v: backend_for(run, v, "cuda", "nccl"))


def test_gpu_selection(runs):
    """With a GPU for every rank, rank r selects GPU r"""
    for run in (*runs("gpu_for_each"), *runs("gpus_to_spare")):
        expect_ranks(run, f"The GPU selected, {machine(run)},", lambda v: (f"GPU {v.rank}", selected(run, v)))


def test_cpu_fallback(runs):
    """With too few GPUs or none, all ranks work over gloo"""
    for run in (*runs("too_few_gpus"), *runs("no_gpu")):
        for view in run:
            seen = fields(view, "decision")
            if seen.get("raised") and seen.get("refused"):
                fail_by_error(run, view, seen)
        expect_ranks(run, f"The backend, {machine(run)},", lambda v: backend_for(run, v, "cpu", "gloo"))


def test_bad_arguments(runs, probe):
    """Bad arguments raise ValueError before any communication"""
    for run in runs("bad_arguments"):
        for (rank, world_size), row in zip(probe.BAD, rows(run[0], "bad", len(probe.BAD)), strict=True):
            call = f"setup_ddp({rank}, {world_size})"
            run.expect(not row.get("communicated"), call, expected="no communication", actual="it looked for other ranks")
            expect_error(run, row, "ValueError", call)
            run.expect(row.get("initialized") is False, call, expected="no group", actual="a group was left behind")
        expect_group(run, probe, "good", {0: 0})


def test_cleanup(runs):
    """cleanup_ddp destroys the group"""
    for run in runs("join"):
        for view in run:
            expect_error(run, fields(view, "cleanup"), None, "cleanup_ddp with a group", view.rank)
        subject = "dist.is_initialized() after cleanup_ddp"
        expect_ranks(run, subject, lambda v: (False, fields(v, "cleanup").get("initialized")))


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
        if run.world_size > 1:
            expect_place(run, probe.ADDRESSES[1])


# -- what was observed ----------------------------------------------------------------------------------------------


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
    found = [tuple(place) for place in asked if isinstance(place, list) and len(place) == 2]
    if not found:
        run.fail("The ranks' meeting place", expected="a TCP address", actual="none was used", ranks=[view.rank])
    return found


def group(run: Any, view: Any) -> Mapping[str, Any]:
    """The group that the rank made on a staged machine. An error after that is not the student's: the GPUs are not real."""
    seen = fields(view, "decision")
    groups = seen.get("groups")
    if not isinstance(groups, list) or not groups or not isinstance(groups[-1], dict):
        fail_by_error(run, view, seen)
    return groups[-1]


def selected(run: Any, view: Any) -> str:
    """The GPU that the rank ends up with: what it selected, what it bound the group to, or GPU 0 if neither."""
    bound, chosen = group(run, view).get("gpu"), fields(view, "decision").get("selected")
    if bound is not None and chosen not in (None, bound):
        return f"GPU {chosen}, but a group bound to GPU {bound}"
    if bound is None and chosen is None:
        return "GPU 0" if view.rank == 0 else "none, which leaves GPU 0"
    return f"GPU {bound if chosen is None else chosen}"


def backend_for(run: Any, view: Any, device: str, wanted: str) -> tuple[str, str]:
    """(expected, actual) backend for a device's tensors; they are equal if the backend string offers what is wanted."""
    backend = group(run, view).get("backend")
    text = "the default" if backend is None else f"{backend}"
    offered = offers(backend, fields(view, "decision").get("gpus")).get(device)
    return (wanted, wanted) if offered == wanted else (f"{wanted} for {device} tensors", text)


def offers(backend: Any, gpus: Any) -> dict[str, str]:
    """The backend for each device's tensors. None lets torch choose by the machine."""
    if not isinstance(backend, str):
        return {"cuda": "nccl"} if gpus else {"cpu": "gloo"}
    if ":" in backend:
        pairs = (part.partition(":") for part in backend.lower().split(","))
        return {device: name for device, _, name in pairs}
    return {"cuda": "nccl"} if backend.lower() == "nccl" else {"cpu": backend.lower(), "cuda": backend.lower()}


def machine(run: Any) -> str:
    """The staged machine in words."""
    count = run.parameters.get("gpus", run.world_size + run.parameters.get("spare", 0))
    gpus = "no GPU" if count == 0 else f"{count} GPU{'s' if count > 1 else ''}"
    return f"with {gpus} for {run.world_size} rank{'s' if run.world_size > 1 else ''}"


def is_loopback(host: str, own_name: Any) -> bool:
    """Whether a host name or address means this machine and only it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOOPBACK_NAMES or host == own_name


# -- what is expected -----------------------------------------------------------------------------------------------


def expect_ranks(run: Any, subject: str, both: Callable[[Any], tuple[Any, Any]]) -> None:
    """`both(view)` is (expected, actual). The first fault is reported for all ranks that share it."""
    faults = {view.rank: pair for view in run if (pair := both(view))[0] != pair[1]}
    for expected, actual in faults.values():
        ranks = [rank for rank, pair in faults.items() if pair == (expected, actual)]
        run.fail(subject, expected=expected, actual=actual, ranks=ranks)


def expect_group(run: Any, probe: Any, name: str, numbers: Mapping[int, int]) -> None:
    """The processes in `numbers` are one group, in which process p is rank `numbers[p]`."""
    tokens = [probe.token(run.seed, number) for number in range(len(numbers))]
    wanted = {"initialized": True, "world_size": len(numbers), "gathered": tokens, "total": sum(tokens)}
    for key, subject in SUBJECTS.items():

        def both(view: Any, key: str = key) -> tuple[Any, Any]:
            if view.rank not in numbers:
                return None, None
            return wanted.get(key, numbers[view.rank]), fields(view, name).get(key)

        expect_ranks(run, subject, both)


def expect_place(run: Any, host: str) -> None:
    expect_host(run, host)
    expect_port(run)


def expect_host(run: Any, host: str) -> None:
    wanted = f"{host}, as MASTER_ADDR says"
    for_each_meeting(run, "The host where the ranks meet", wanted, lambda view, place: place[0] == host, 0)


def expect_port(run: Any) -> None:
    wanted = "the port in MASTER_PORT"
    right = lambda view, place: str(place[1]) == fields(view, "environment").get("MASTER_PORT")  # noqa: E731
    for_each_meeting(run, "The port where the ranks meet", wanted, right, 1)


def expect_loopback(run: Any) -> None:
    right = lambda view, place: is_loopback(str(place[0]), view["host"])  # noqa: E731
    for_each_meeting(run, "The host where the ranks meet", "localhost", right, 0)


def expect_one_port(run: Any) -> None:
    """A legal port, the same for all ranks."""
    legal = lambda view, place: isinstance(place[1], int) and 1 <= place[1] <= 65535  # noqa: E731
    for_each_meeting(run, "The port where the ranks meet", "a port from 1 to 65535", legal, 1)
    ports = {view.rank: meetings(run, view)[0][1] for view in run}
    agree = len(set(ports.values())) == 1
    run.expect(agree, "The default port", expected="the same on all ranks", actual=f"by rank {list(ports.values())}")


def for_each_meeting(run: Any, subject: str, wanted: str, right: Callable[[Any, Any], bool], part: int) -> None:
    def both(view: Any) -> tuple[Any, Any]:
        wrong = [place for place in meetings(run, view) if not right(view, place)]
        return wanted, f"{wrong[0][part]}" if wrong else wanted

    expect_ranks(run, subject, both)


def expect_error(run: Any, row: Mapping[str, Any], error: str | None, call: str, rank: int = 0) -> None:
    """The call raised `error` or a subclass of it, or nothing where `error` is None."""
    raised = row.get("raised")
    right = isinstance(raised, list) and (error in raised if error else not raised)
    actual = f"{raised[0]}: {row.get('message')}" if raised else "no exception"
    run.expect(right, call, expected=error or "no exception", actual=actual, ranks=[rank], line=row.get("line"))


def fail_by_error(run: Any, view: Any, seen: Mapping[str, Any]) -> None:
    """setup_ddp raised on a staged machine before it had joined, or for a GPU that there is not."""
    raised = seen.get("raised") or ["nothing"]
    subject, actual = f"setup_ddp, {machine(run)},", f"{raised[0]}: {seen.get('message')}"
    if raised == ["nothing"]:
        actual = "it returned without one"
    run.fail(subject, expected="a process group", actual=actual, ranks=[view.rank], line=seen.get("line"))
