"""The staged machine: what code is shown, what is noted of it, and how a check reads that."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from grader.checks import CheckFailed, RunView, machines, places
from grader.model import Case, Finished, RankRecord, Run

STAGE = """
import json, os, torch, torch.distributed as dist
from grader.kit.machine import StagedMachine
from torch.distributed.device_mesh import init_device_mesh
machine, seen = StagedMachine(), []
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="1")

def on(gpus, call):
    with machine.with_gpus(gpus, {"HERE": "1"}):
        try:
            call()
            error = None
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        seen.append({**machine.seen(), "error": error})
    assert not dist.is_initialized() and "HERE" not in os.environ

def join(backend):
    dist.init_process_group(backend, rank=1, world_size=2)

def a_rank_of_two():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    torch.cuda.set_device(1)
    assert torch.ones(3, device="cuda").to(1).cuda().device.type == "cpu" and machine.used == {1}
    placed = [torch.ones(3).cuda(4), torch.ones(3).to("cuda:5"), torch.ones(3, device=6), torch.ones(3).to(device=7)]
    assert machine.used == {1, 4, 5, 6, 7} and {one.device.type for one in placed} == {"cpu"}
    join("cpu:gloo,cuda:nccl")
    assert dist.get_backend() == "undefined" and dist.get_world_size() == 2

def groups_beside():
    join("nccl")
    objects = dist.new_group(backend="gloo")
    assert dist.get_backend(objects) == "gloo" and dist.get_backend() == "nccl"
    (own, _), split = dist.new_subgroups(1), dist.split_group(split_ranks=[[0], [1]])
    assert dist.get_world_size(own) == split.size() == 1 and dist.get_backend(own) == "nccl"
    names, left = [None, None], ["of rank 0"]
    dist.all_gather_object(names, "here", group=objects)
    dist.broadcast_object_list(left, src=0)
    dist.scatter_object_list(left, ["a", "b"])
    assert names == ["here", "here"] and left == ["b"]
    dist.barrier(device_ids=[1])
    dist.monitored_barrier(objects)
    torch.cuda.manual_seed_all(1)
    torch.set_default_device("cuda:1")
    assert torch.cuda.nccl.version() and torch.cuda.get_device_capability()
    torch.cuda.set_device(1)

def a_mesh():
    torch.cuda.set_device(1)
    join("cpu:gloo,cuda:nccl")
    mesh = init_device_mesh("cuda", (2, 1), mesh_dim_names=("dp", "tp"))
    assert mesh["dp"].size() == 2 and mesh.get_local_rank("dp") == 1 and mesh._flatten("all").size() == 2

def nccl_beside_gloo():
    join("gloo")
    dist.new_group(backend="nccl")

on(2, a_rank_of_two)
on(2, groups_beside)
on(2, a_mesh)
on(0, nccl_beside_gloo)
on(0, lambda: join("nccl"))
on(1, lambda: torch.cuda.set_device("cuda:1"))
on(2, lambda: join("cpu:glow,cuda:nccl"))
print(json.dumps(seen))
"""


def test_a_staged_machine_notes_what_is_decided_and_refuses_what_it_does_not_have() -> None:
    """Groups beside the default one, meshes, objects and barriers as well. In a process of its own, since torch is
    another one afterwards."""
    done = subprocess.run([sys.executable, "-c", STAGE], capture_output=True, text=True, check=True, timeout=100)
    joined, beside, mesh, refused, without, beyond, misspelt = json.loads(done.stdout)
    group = {"backend": "cpu:gloo,cuda:nccl", "rank": 1, "world_size": 2, "gpu": None}
    assert joined == {"gpus": 2, "groups": [group], "selected": 1, "refused": [], "error": None}
    assert beside == {**joined, "groups": [{**group, "backend": "nccl"}]} and mesh == joined
    assert "no GPUs found" in refused["error"] and refused["groups"] == [{**group, "backend": "gloo"}]
    assert "no GPUs found" in without["error"] and not without["groups"]
    assert "invalid device ordinal" in beyond["error"] and beyond["refused"] == [1] and beyond["selected"] is None
    assert "GLOW" in misspelt["error"] and not misspelt["groups"]


NAMED = """
import inspect, torch, torch.distributed as dist
from grader.kit.machine import StagedMachine

real = {}
for module in (torch.cuda, torch.accelerator, dist):
    for name, one in vars(module).items():
        try:
            real[module, name] = one, inspect.signature(one).parameters.values()
        except (TypeError, ValueError):
            pass
StagedMachine()
seen = 0
for (module, name), (one, parameters) in real.items():
    stand_in = getattr(module, name)
    if stand_in is not one:
        unnamed = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
        named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        inspect.signature(stand_in).bind(*unnamed, **dict.fromkeys(named))
        seen += 1
print(seen)
"""


def test_what_stands_in_takes_arguments_by_their_names() -> None:
    """As in `torch.cuda.set_device(device=rank)`."""
    done = subprocess.run([sys.executable, "-c", NAMED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


def run() -> RunView:
    record = RankRecord(rank=0, ending=Finished())
    return RunView(Run(case=Case(name="c", world_size=1, probe="c"), ranks=(record,), seconds=1.0))


def decision(backend: str | None = "nccl", *, gpu: int | None = None, **more: Any) -> machines.Decision:
    group = machines.StagedGroup(backend=backend, rank=1, world_size=2, gpu=gpu)
    plain: Any = {"raised": [], "message": "", "line": None, "gpus": 2, "rank": 1, "world_size": 2}
    return {**plain, "groups": [group], "selected": None, "refused": [], **more}


@pytest.mark.parametrize(
    "backend, gpus, offers",
    [
        ("nccl", 2, {"cuda": "nccl"}),
        ("Gloo", 2, {"cpu": "gloo", "cuda": "gloo"}),
        ("cpu:gloo,cuda:nccl", 2, {"cpu": "gloo", "cuda": "nccl"}),
        (None, 2, {"cuda": "nccl"}),
        (None, 0, {"cpu": "gloo"}),
    ],
)
def test_a_backend_string_offers_a_backend_for_each_device(
    backend: str | None, gpus: int, offers: dict[str, str]
) -> None:
    """As torch reads it."""
    assert machines.backends_of(run(), decision(backend, gpus=gpus)) == offers


def test_a_backend_that_nobody_named_is_told_as_what_torch_takes() -> None:
    """On a machine with GPUs that is NCCL alone, which a reader of "the default" cannot know."""
    assert machines.backend_in_words(run(), decision("gloo")) == "gloo"
    assert "NCCL alone" in machines.backend_in_words(run(), decision(None))
    assert "gloo alone" in machines.backend_in_words(run(), decision(None, gpus=0))


def test_the_gpu_of_a_rank_is_selected_or_bound() -> None:
    """Both ways count, and they must agree."""
    assert machines.gpu_of(run(), decision(selected=1)) == "GPU 1" == machines.gpu_of(run(), decision(gpu=1))
    assert machines.gpu_of(run(), decision()) == "none, which leaves GPU 0"
    assert machines.gpu_of(run(), decision(gpu=0, selected=1)) == "GPU 1, but a group bound to GPU 0"


def test_a_call_that_failed_for_a_missing_gpu_has_no_group() -> None:
    """An error after joining is charged only where a GPU was asked for that there is not."""
    failed: Any = {"raised": ["RuntimeError", "Exception"], "message": "invalid"}
    assert machines.group_of(run(), decision(**failed))["rank"] == 1
    for one in (decision(**failed, refused=[1]), decision(groups=[])):
        with pytest.raises(CheckFailed, match="2 GPUs, 2 ranks: the group of rank 1"):
            machines.group_of(run(), one)


def test_staged_ranks_are_named_in_the_subject() -> None:
    """The first fault is told for all that share it; the run's own ranks are not blamed."""
    with pytest.raises(CheckFailed) as failure:
        machines.expect_of_staged(run(), "the GPU of", {0: "a", 1: "b", 2: "b"}, {0: "a", 1: "c", 2: "c"})
    (finding,) = failure.value.findings
    assert finding.sentence() == "the GPU of ranks 1, 2: expected b, got c" and finding.ranks == ()


@pytest.mark.parametrize(
    "host, here",
    [("127.0.0.9", True), ("::1", True), ("LOCALHOST", True), ("Me", True), ("192.0.2.1", False), ("", False)],
)
def test_a_host_means_this_machine_and_only_it(host: str, here: bool) -> None:
    """By address, by a usual name, or by its own."""
    assert places.is_loopback(host, "me") is here


def test_a_port_that_ranks_can_agree_on() -> None:
    """0 stands for any, so the others cannot know it."""
    assert [places.is_port(port) for port in (None, 0, 1, 65535, 65536)] == [False, False, True, True, False]
