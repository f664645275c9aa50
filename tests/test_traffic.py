"""grader.model.trace and grader.checks.traffic, and the expectations of grader.checks on traces made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.checks import CheckFailed, RunView, amount
from grader.checks.traffic import disagreement, sent_bytes, traffic
from grader.model import Case, Finished, RankRecord, Run
from grader.model.trace import Communication, Span, Trace
from grader.records.structure import trace_of, unstructure

GROUP = (0, 1, 2, 3)


def call(operation: str = "all_reduce", size: int = 1000, start: float = 1.5, **more: Any) -> Communication:
    return Communication(operation=operation, bytes=size, dtype="float32", start=start, **{"group": GROUP, **more})


def region(name: str = "step", start: float = 1.0, end: float | None = 2.0, kind: str = "region") -> Span:
    return Span(kind=kind, name=name, start=start, end=end)


def run_of(*traces: Trace | None) -> RunView:
    ranks = tuple(RankRecord(rank=i, ending=Finished(), trace=trace) for i, trace in enumerate(traces))
    return RunView(Run(case=Case(name="c", world_size=len(traces), probe="c"), ranks=ranks, seconds=1.0))


def trace(*calls: Communication, spans: tuple[Span, ...] = (region(),), complete: bool = True) -> Trace:
    return Trace(communications=calls, spans=spans, complete=complete)


def sentence(failure: pytest.ExceptionInfo[CheckFailed]) -> str:
    return "\n".join(finding.sentence() for finding in failure.value.findings)


@pytest.mark.parametrize(
    "operation, expected",
    [
        ("all_reduce", 1500),
        ("all_gather", 750),
        ("reduce_scatter", 750),
        ("broadcast", 750),
        ("send", 1000),
        ("recv", 0),
        ("barrier", 0),
    ],
)
def test_bytes_are_counted_at_ring_cost(operation: str, expected: float) -> None:
    """Four ranks, 1000 bytes."""
    assert sent_bytes(call(operation)) == expected


def test_one_rank_alone_sends_nothing() -> None:
    """A ring of one."""
    assert sent_bytes(call(group=(0,))) == 0


def test_selections_narrow_down_and_keep_the_order() -> None:
    """Each is a Traffic again."""
    part = traffic(
        trace(call(size=10), call("barrier", 0), call(size=2000), call(size=3000, start=2.5), call(group=(0, 1)))
    )
    assert [c.bytes for c in part.during("step").of("all_reduce").in_group(GROUP)] == [10, 2000]
    assert [c.bytes for c in part.at_least(1000).below(3000)] == [2000, 1000]
    assert part.of("barrier").bytes == 0 and len(part.of("send")) == 0
    with pytest.raises(KeyError):
        part.during("nowhere")


def test_backward_passes_are_counted_also_where_nothing_is_communicated() -> None:
    """The last one of a region is the last that began in it."""
    passes = [region("backward", start, start + 0.1, "backward") for start in (0.5, 1.1, 1.4, 2.1)]
    part = traffic(trace(call(backward=2, remaining=3), spans=(region(), *passes))).during("step")
    assert part.backwards == (1, 2)
    assert len(part.in_backward(2).overlapping()) == 1 and len(part.in_backward(1)) == 0


def test_a_wrong_count_is_told_with_kind_size_and_line() -> None:
    """The sentence that a student reads."""
    run = run_of(trace(*[call(size=1_200_000, line=12)] * 4))
    with pytest.raises(CheckFailed) as failure:
        run.expect_count("step", "all_reduce", 1)
    assert sentence(failure) == (
        "all_reduce in step on rank 0: expected 1 all_reduce, got 4 all_reduce of 1.2 MB (line 12)"
    )
    run.expect_count("step", "all_reduce", (2, 4))
    run.expect_count("step", "all_reduce", 0, below=1000)
    with pytest.raises(CheckFailed):
        run.expect_none("step", "broadcast", "all_reduce")


def test_a_missing_collective_is_told() -> None:
    """No line, since nothing was launched."""
    with pytest.raises(CheckFailed) as failure:
        run_of(trace()).expect_count("step", "all_reduce", 1)
    assert sentence(failure) == "all_reduce in step on rank 0: expected 1 all_reduce, got no all_reduce"


def test_bytes_sent_are_held_to_a_formula() -> None:
    """One number, or one for each rank; small messages can be left out."""
    run = run_of(*[trace(call(), call("send", 100), call("recv", 100))] * 4)
    run.expect_sent("step", 1600)
    run.expect_sent("step", dict.fromkeys(range(4), 1500), ignore_below=500)
    with pytest.raises(CheckFailed) as failure:
        run.expect_sent("step", 1599)
    assert "at most 1.6 kB" in sentence(failure)


def test_overlap_is_judged_in_the_last_backward_pass_alone() -> None:
    """Launched in an earlier pass, after all gradients, or after backward is no overlap."""
    spans = (region(), region("backward", 1.1, 1.2, "backward"), region("backward", 1.4, 1.6, "backward"))
    run_of(trace(call(backward=1, remaining=1), spans=spans)).expect_overlap("step")
    for late in (call(backward=0, remaining=9), call(backward=1, remaining=0), call()):
        with pytest.raises(CheckFailed):
            run_of(trace(late, spans=spans)).expect_overlap("step")
    with pytest.raises(CheckFailed):
        run_of(trace(call(backward=1, remaining=1, size=8), spans=spans)).expect_overlap("step", at_least=100)


def test_ranks_that_disagree_are_told_at_the_first_place() -> None:
    """Messages between two ranks are not collectives; sizes of an all-to-all may differ."""
    right = trace(call("send", 5), call(group=(0, 1)), call("all_to_all", 4, group=(0, 1)))
    other = trace(call(group=(0, 1)), call("all_to_all", 8, group=(0, 1)))
    run_of(right, other).expect_same_order("step")
    wrong = trace(call("barrier", 0, group=(0, 1)))
    with pytest.raises(CheckFailed) as failure:
        run_of(right, wrong).expect_same_order("step")
    assert "rank 0: all_reduce of 1 kB float32, rank 1: barrier of 0 bytes" in sentence(failure)
    assert disagreement({0: traffic(right), 1: traffic(other)}) is None


@pytest.mark.parametrize("bad", [None, trace(complete=False), trace(spans=())])
def test_a_trace_that_is_missing_cut_or_elsewhere_fails_the_check(bad: Trace | None) -> None:
    """It never passes for want of evidence."""
    with pytest.raises(CheckFailed):
        run_of(bad).expect_none("step", "broadcast")


def test_a_trace_comes_back_from_plain_data() -> None:
    """As it crosses from the ranks and lies in files."""
    whole = trace(call(peer=1, end=2.0, line=3, backward=0, remaining=1), spans=(region(end=None),))
    assert trace_of(unstructure(whole)) == whole


def test_messages_are_selected_by_the_rank_at_the_other_end() -> None:
    """In world numbers. A recv from any rank names none."""
    part = traffic(trace(call("send", peer=3), call("send", peer=1), call("send", peer=3), call("recv")))
    assert part.peers == (1, 3) and len(part.with_peers(3)) == 2 and len(part.with_peers(0, 1)) == 1


def test_peers_are_told_with_the_line_of_the_first_that_should_not_be() -> None:
    """Whoever sends nothing sends to nobody wrong."""
    right = trace(call("send", peer=1, line=4), call("recv", peer=3))
    wrong = trace(call("send", peer=1, line=4), call("send", peer=3, line=5), call("send", peer=1, line=6))
    run_of(right, trace(), right).expect_peers("step", "send", {0: [1], 1: [], 2: [0, 1]})
    with pytest.raises(CheckFailed) as failure:
        run_of(right, wrong).expect_peers("step", "send", {0: [1], 1: [1]})
    (finding,) = failure.value.findings
    assert (finding.expected, finding.actual) == ("rank 1", "2 send with rank 1, 1 send with rank 3")
    assert (finding.ranks, finding.line) == ((1,), 5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
ROW = st.fixed_dictionaries(dict.fromkeys(unstructure(trace(call()))["communications"][0], JSON))


@given(JSON | st.fixed_dictionaries({"communications": st.lists(ROW, max_size=2), "spans": JSON, "complete": JSON}))
def test_forged_data_gives_a_trace_or_none(raw: Any) -> None:
    """Nothing is raised."""
    assert isinstance(trace_of(raw), Trace | None)


@pytest.mark.parametrize(
    "size, text", [(0, "0 bytes"), (999, "999 bytes"), (1200, "1.2 kB"), (4.35e6, "4.35 MB"), (2e9, "2 GB")]
)
def test_amounts_read_well(size: float, text: str) -> None:
    """In powers of ten."""
    assert amount(size) == text
