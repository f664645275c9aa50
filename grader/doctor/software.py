"""Facts about Python, torch and what ranks talk through."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import platform
import sys
from collections.abc import Iterator

from grader import calling
from grader.doctor.fact import Fact, Mark, rated
from grader.model.errors import RunError
from grader.ranks import Session, sandbox

OLDEST, TOO_NEW = (2, 11), (2, 15)
"""Versions of torch: from the first, below the second."""


def python() -> Fact:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return rated("python", sys.version_info >= (3, 11), found, "new enough", "3.11 or newer is needed", Mark.NO)


def torch() -> Fact:
    remedy = f"nothing can be graded. {calling.installing('torch')}"
    if importlib.util.find_spec("torch") is None:
        return Fact(name="torch", mark=Mark.NO, found="not installed", meaning=remedy)
    try:
        import torch
    except Exception as error:
        return Fact(name="torch", mark=Mark.NO, found=f"cannot be imported: {error}", meaning=remedy)
    return torch_version(str(torch.__version__))


def torch_version(version: str) -> Fact:
    """Whether a version lies in the range that the grader is proven with."""
    release = tuple(int(part) for part in version.partition("+")[0].split(".")[:2])
    low, high = (".".join(map(str, bound)) for bound in (OLDEST, TOO_NEW))
    otherwise = f"the grader is proven from {low} to below {high}; verdicts may be wrong with this one"
    return rated("torch", OLDEST <= release < TOO_NEW, version, "in the supported range", otherwise)


def gloo() -> Fact:
    """Really forms a group of one, on the loopback interface as in a grade, and reduces a number in it."""
    absent = Fact(name="gloo", mark=Mark.NO, found="absent", meaning="ranks on the CPU cannot meet; install torch anew")
    try:
        import torch
        import torch.distributed as dist
        from torch._C._distributed_c10d import HashStore
    except Exception:
        return absent
    if not (dist.is_available() and dist.is_gloo_available()):
        return absent
    number = torch.ones(())
    try:
        with _loopback():
            dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
            dist.all_reduce(number)
            dist.destroy_process_group()
    except RuntimeError as error:
        found = f"fails: {str(error).splitlines()[0][:120]}"
        return Fact(name="gloo", mark=Mark.NO, found=found, meaning="ranks on the CPU cannot meet")
    return Fact(name="gloo", mark=Mark.YES, found="a group was formed", meaning="ranks meet on the CPU")


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """The interface that ranks are told to use, for as long as the block runs."""
    name, before = "GLOO_SOCKET_IFNAME", os.environ.get("GLOO_SOCKET_IFNAME")
    interface = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if interface:
        os.environ[name] = interface
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def nccl() -> Fact:
    try:
        import torch.distributed as dist
    except Exception:
        return rated("nccl", False, "absent", "", "all ranks compute on the CPU")
    good = dist.is_available() and dist.is_nccl_available()
    return rated("nccl", good, "in this torch" if good else "absent", "ranks can meet on GPUs", "ranks meet on the CPU")


def gpus() -> Fact:
    try:
        import torch
    except Exception:
        return rated("GPUs", False, "none", "", "all ranks compute on the CPU")
    count = torch.cuda.device_count()
    found = ", ".join(sorted({torch.cuda.get_device_name(gpu) for gpu in range(count)}))
    meaning = f"cases of up to {count} rank{'s' if count > 1 else ''} run on them, larger ones on the CPU"
    return rated("GPUs", count > 0, f"{count}: {found}" if count else "none", meaning, "all ranks compute on the CPU")


def fork_server() -> Fact:
    good = "forkserver" in multiprocessing.get_all_start_methods()
    otherwise = "use --start-method spawn: the same verdicts, some seconds later"
    return rated("fork server", good, "available" if good else "absent", "ranks start in a few ms", otherwise)


def bubblewrap() -> Fact:
    otherwise = f"resource limits alone guard this account: grade only what you trust. {calling.sandbox()}"
    found = sandbox.obstacle()
    meaning = "ranks see no file but their own, no other process and no network"
    return rated("bubblewrap", found is None, "works" if found is None else found, meaning, otherwise)


def ranks() -> Fact:
    """Really starts the process that ranks are forked from, at the level that a grade would have."""
    name = "ranks"
    try:
        with Session() as session:
            session.await_ready()
            missing, level = session.missing, session.level
    except RunError as error:
        return Fact(name=name, mark=Mark.NO, found="cannot start", meaning=str(error))
    starts = "can start, inside bubblewrap" if level == sandbox.BUBBLEWRAP else "can start"
    found = f"without {', '.join(missing)}" if missing else starts
    otherwise = "found here and not where ranks are: install it beside torch"
    return rated(name, not missing, found, "what exercises import is found there", otherwise, Mark.NO)


PROBES = (python, torch, gloo, nccl, gpus, fork_server, bubblewrap, ranks)
