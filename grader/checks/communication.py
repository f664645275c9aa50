"""Expectations about what a rank communicated in a region that the probe marked, judged from its trace: by what was
launched, how much and in which order; no clock is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grader.checks.expect import Expectations
from grader.checks.traffic import Traffic, traffic
from grader.model import RankRecord
from grader.model.words import amount, rank_list


class Communication(Expectations):
    """The part of a RankView that looks at its trace."""

    _record: RankRecord

    @property
    def trace(self) -> Traffic:
        """What this rank communicated. A rank that could not tell fails the check."""
        trace = self._record.trace
        if trace is None or not trace.complete:
            reason = "more than the grader keeps" if trace else "nothing, since it left before it could tell"
            self.fail("What the rank communicated", actual=reason)
        return traffic(trace)

    def during(self, region: str) -> Traffic:
        """What this rank launched in a region that the probe marked. Never having been there fails the check."""
        trace = self.trace
        if region not in trace.regions:
            self.fail(f"The code never came to {region}")
        return trace.during(region)

    def expect_count(
        self,
        region: str,
        operation: str,
        count: int | tuple[int, int],
        *,
        subject: str = "",
        at_least: float = 0,
        below: float = float("inf"),
        **fields: Any,
    ) -> None:
        """The rank launches an operation so often in a region: `count` is a number, or the least and the most.
        Only payloads of `at_least` bytes and `below` others are counted."""
        low, high = count if isinstance(count, tuple) else (count, count)
        wanted = f"{low}" if low == high else f"{low} to {high}"
        part = self.during(region).of(operation).at_least(at_least).below(below)
        self.expect(
            low <= len(part) <= high,
            subject or f"{operation} in {region}",
            expected=f"{wanted} {operation}",
            actual=told(part, operation),
            **{"line": line_of(part), **fields},
        )

    def expect_none(self, region: str, *operations: str, subject: str = "", at_least: float = 0, **fields: Any) -> None:
        """The rank launches none of some operations in a region."""
        for operation in operations:
            self.expect_count(region, operation, 0, subject=subject, at_least=at_least, **fields)

    def expect_peers(
        self, region: str, operation: str, peers: Sequence[int], *, subject: str = "", **fields: Any
    ) -> None:
        """The rank's messages of a kind, send or recv, go to none but these ranks of the world in a region, or come
        from none but these."""
        part = self.during(region).of(operation)
        others = [peer for peer in part.peers if peer not in peers]
        self.expect(
            not others,
            subject or f"the ranks of each {operation} in {region}",
            expected=rank_list(peers) if peers else "none",
            actual=", ".join(f"{len(part.with_peers(peer))} {operation} with rank {peer}" for peer in part.peers),
            **{"line": line_of(part.with_peers(*others)), **fields},
        )

    def expect_sent(
        self, region: str, at_most: float, *, subject: str = "", ignore_below: float = 0, **fields: Any
    ) -> None:
        """The rank sends no more bytes in a region, at ring cost, than `at_most`. Payloads below `ignore_below` bytes
        do not count."""
        part = self.during(region).at_least(ignore_below)
        self.expect(
            part.sent_bytes <= at_most,
            subject or f"the bytes that a rank sends in {region}",
            expected=f"at most {amount(at_most)}",
            actual=f"{amount(part.sent_bytes)}, by {told(part)}",
            **{"line": line_of(part), **fields},
        )

    def expect_overlap(
        self, region: str, *, subject: str = "", at_least: float = 0, in_all: float = 0, **fields: Any
    ) -> None:
        """In the last backward pass of a region the rank launches something while gradients are still to be computed:
        communications of `at_least` bytes, and of `in_all` bytes together. Judged by the order of launch."""
        part = self.during(region).at_least(at_least)
        last = part.in_backward(part.backwards[-1]) if part.backwards else replace(part, communications=())
        early, much = last.overlapping(), f"{amount(in_all)} or more " if in_all else ""
        self.expect(
            len(early) and early.bytes >= in_all,
            subject or f"communication during the last backward pass of {region}",
            expected=f"{much}begun while gradients were still being computed",
            actual=_when(part, last),
            **{"line": line_of(last) or line_of(part), **fields},
        )


def told(part: Traffic, operation: str = "") -> str:
    """4 all_reduce of 1.2 MB: operations by kind, with the mean payload of each kind."""
    kinds = [operation] if operation and not len(part) else list(dict.fromkeys(c.operation for c in part))
    return ", ".join(_told_kind(part.of(kind), kind) for kind in kinds) or "no communication"


def _told_kind(part: Traffic, kind: str) -> str:
    if not len(part):
        return f"no {kind}"
    sizes = {c.bytes for c in part}
    about = "" if len(sizes) == 1 else "about "
    return f"{len(part)} {kind} of {about}{amount(part.bytes / len(part))}"


def line_of(part: Traffic) -> int | None:
    """The student's line at which the last of them was launched."""
    return next((c.line for c in reversed(part.communications) if c.line), None)


def _when(part: Traffic, last: Traffic) -> str:
    """When communication began that was not, or not enough, begun during backward."""
    if early := last.overlapping():
        return f"only {told(early)} of {told(part)}"
    if last:
        return f"{told(last)}, begun when the last gradient was there"
    if not len(part):
        return "no communication"
    earlier = any(c.backward is not None for c in part)
    return f"{told(part)}, begun {'in earlier backward passes' if earlier else 'outside of backward'}"
