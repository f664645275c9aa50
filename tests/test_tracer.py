"""The tracer on real ranks: what C++ launches is seen as well as what Python does, in order with backward."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.checks import CheckFailed, RunView
from grader.grading.report import refused_by_nccl
from grader.model import Deadlocked, Run
from grader.model.trace import Communication
from grader.ranks.inside import tracer
from tests.conftest import RunIt


def traced(run_on_ranks: RunIt, behaviour: str, world_size: int = 2) -> RunView:
    run = run_on_ranks(behaviour, world_size=world_size, trace=True)
    assert run.diagnosis is None, run.diagnosis
    return RunView(run)


def sentences(failure: pytest.ExceptionInfo[CheckFailed]) -> str:
    return "\n".join(finding.sentence() for finding in failure.value.findings)


def test_what_ddp_launches_in_backward_is_seen_and_overlap_is_told(run_on_ranks: RunIt) -> None:
    """The first step has one bucket, ready with the last gradient; then DDP has made four, of which three overlap."""
    run = traced(run_on_ranks, "trains_with_ddp")
    run.expect_count("step 0", "all_reduce", 1, at_least=4352)
    run.expect_count("step 1", "all_reduce", 4, at_least=1088, below=1089)
    run.expect_sent("step 1", 4352, ignore_below=100)
    run.expect_same_order("step 1")
    run.expect_overlap("step 1")
    with pytest.raises(CheckFailed) as failure:
        run.expect_overlap("step 0", at_least=4352)
    assert "begun when the last gradient was there" in sentences(failure)
    for rank in run:
        remaining = [c.remaining for c in rank.during("step 1").of("all_reduce")]
        assert remaining == sorted(remaining, reverse=True) and remaining[-1] == 0 and 0 not in remaining[:-1]
        assert {c.dtype for c in rank.during("step 1").of("all_reduce")} == {"float32"}


def test_forward_backward_and_optimizer_are_spans_in_their_order(run_on_ranks: RunIt) -> None:
    """Of nested modules only the outermost is told. Communication lies within the backward that launched it."""
    run = traced(run_on_ranks, "trains_with_ddp")
    spans = run[0].trace.spans
    one_step = [("region", "step 0"), ("forward", "DistributedDataParallel"), ("backward", "backward")]
    assert [(span.kind, span.name) for span in spans[:4]] == [*one_step, ("optimizer", "SGD")]
    assert all(span.end is not None and span.end >= span.start for span in spans)
    assert run[0].during("step 1").backwards == (1,)
    assert all(c.backward == 1 for c in run[0].during("step 1").of("all_reduce"))
    assert all(c.line and c.start >= 0 and (c.end is None or c.end >= c.start) for c in run[0].trace)
    assert all(c.end is not None for c in run[0].during("step 0")), "what is over is seen at a later operation"


def test_hooks_of_parameters_are_no_gradient_computation(run_on_ranks: RunIt) -> None:
    """All-reduces that a hook launches when the last gradient is there do not overlap, however many follow."""
    run = traced(run_on_ranks, "averages_by_hooks")
    run.expect_count("late", "all_reduce", 8)
    run.expect_overlap("early")
    with pytest.raises(CheckFailed) as late:
        run.expect_overlap("late")
    assert "begun when the last gradient was there" in sentences(late)
    with pytest.raises(CheckFailed) as after:
        run.expect_overlap("after")
    assert "begun outside of backward" in sentences(after)


def test_every_kind_of_communication_has_its_name_bytes_and_group(run_on_ranks: RunIt) -> None:
    """The payload is the whole output of a gathering collective and the whole input of a scattering one."""
    run = traced(run_on_ranks, "communicates_in_all_ways", world_size=3)
    told = [(c.operation, c.bytes) for c in run[2].during("collectives")]
    assert told == [
        ("all_reduce", 16),
        ("all_gather", 48),
        ("all_gather", 48),
        ("reduce_scatter", 48),
        ("all_to_all", 12),
        ("broadcast", 16),
        ("reduce", 16),
        ("gather", 16),
        ("scatter", 16),
        ("barrier", 0),
        ("barrier", 0),
    ]
    run.expect_same_order("collectives")
    assert [(c.operation, c.peer) for c in run[0].during("messages")] == [("send", 1)]
    assert [(c.operation, c.peer) for c in run[1].during("messages")] == [("recv", 0)]
    assert [(c.operation, c.group) for c in run[0].during("pair")] == [("all_reduce", (0, 1))]
    assert not run[2].during("pair")
    assert all(c.end is not None for rank in run for c in rank.trace), "each was waited for"


def test_what_other_threads_communicate_is_seen(run_on_ranks: RunIt) -> None:
    """Threads of a pool, and those that are made by hand. Nothing of ours stays in them."""
    run = traced(run_on_ranks, "sends_from_another_thread", world_size=3)
    for rank in run:
        peers = {c.operation: c.peer for c in rank.during("ring")}
        assert peers == {"send": (rank.rank + 1) % 3, "recv": (rank.rank - 1) % 3}
        assert [c.operation for c in rank.during("thread")] == ["all_reduce"]
        assert rank.read("left", list[str]) == []


def test_what_a_thread_communicates_that_the_import_has_started_is_seen(run_on_ranks: RunIt) -> None:
    """A pool of the whole process, say. It begins before there is a group, and before anything is traced."""
    source = """
from multiprocessing.pool import ThreadPool
import torch
import torch.distributed as dist
POOL = ThreadPool(1)
TWO = POOL.apply(torch.add, (torch.ones(1), 1))

def wanted(rank, *, lr=0.1): ...

def sends(rank):
    with rank.region("pool"):
        POOL.apply(dist.all_reduce, (TWO,))
    rank.record("sum", TWO.item())
"""
    run = RunView(run_on_ranks("sends", source=source, trace=True))
    run.expect_count("pool", "all_reduce", 1)
    assert [rank.read("sum", float) for rank in run] == [4.0, 4.0]


def test_the_collectives_of_a_dtensor_are_seen(run_on_ranks: RunIt) -> None:
    """They come from below the tensor subclass."""
    run = traced(run_on_ranks, "redistributes_a_dtensor")
    run.expect_count("gather", "all_gather", 1, at_least=64)


def test_what_operators_and_tensors_of_the_students_own_communicate_is_seen(run_on_ranks: RunIt) -> None:
    """Once each, in forward and in backward."""
    assert tracer.below_modes is not None, "this torch cannot look into operators that Python registers"
    run = traced(run_on_ranks, "communicates_below_the_dispatcher")
    for region in ("operator", "its gradient", "in another", "subclass"):
        run.expect_count(region, "all_reduce", 1, at_least=16)
        run.expect_count(region, "all_reduce", 1)
    assert [rank.read("gradient", list[float]) for rank in run] == [[4.0] * 4] * 2


def test_a_stuck_rank_tells_what_it_launched_and_never_saw_end(run_on_ranks: RunIt) -> None:
    """The monitor thread tells the trace together with the stack."""
    run: Run = run_on_ranks("is_stuck_in_the_second_collective", trace=True)
    assert {type(record.ending) for record in run.ranks} == {Deadlocked}
    last: list[Communication] = [record.trace.communications[-1] for record in run.ranks if record.trace]
    assert [c.operation for c in last] == ["all_reduce", "barrier"]
    assert last[0].end is None and last[1].end is None


def test_a_killed_rank_has_told_what_it_was_asked_to_tell(run_on_ranks: RunIt) -> None:
    """And nothing of what came after."""
    run = RunView(run_on_ranks("is_killed_after_telling", trace=True))
    assert not run.finished
    for rank in run:
        rank.expect_count("first", "all_reduce", 1)
        assert [(span.kind, span.name) for span in rank.trace.spans] == [("region", "first"), ("step", "forward 0")]
        assert "second" not in rank.trace.regions


def test_without_being_asked_nothing_is_traced(run_on_ranks: RunIt) -> None:
    """Regions cost nothing then."""
    run = run_on_ranks("trains_with_ddp")
    assert [record.trace for record in run.ranks] == [None, None]
    with pytest.raises(CheckFailed):
        RunView(run).expect_count("step 0", "all_reduce", 1)


def test_the_node_that_runs_is_known_to_this_torch(record_property: pytest.RecordProperty) -> None:
    """Says which is in use. Without torch's private function, hooks count as gradient computations."""
    record_property("current_node", getattr(tracer.current_node, "__name__", "none"))
    assert tracer.current_node is not None, "this torch does not tell which node of the graph runs"


def test_tensors_that_nccl_does_not_take_are_told(run_on_ranks: RunIt) -> None:
    """Those of one's own: into a list of outputs NCCL copies, and a functional collective copies what it is given."""
    run = run_on_ranks("communicates_views", world_size=2, trace=True)
    for record in run.ranks:
        assert record.trace is not None
        calls = record.trace.communications
        assert [call.contiguous for call in calls] == [True, True, False, False, True, False, True, True]
        (note,) = refused_by_nccl([run])
        assert f"(lines {', '.join(str(call.line) for call in calls if not call.contiguous)})" in note
        assert refused_by_nccl([replace(run, ranks=[replace(record, device="cuda")])]) == ()
