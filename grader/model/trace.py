"""What a rank communicated, and when: frozen values. Standard library only.

Times are seconds since the run began, on one clock for all its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """One call of a collective or point-to-point operation on one rank, by Python or by C++ (DDP's reducer).

    `operation` is the name at the level of the API, the same for all forms of a call: all_reduce, all_gather,
    reduce_scatter, broadcast, reduce, gather, scatter, all_to_all, barrier, send, recv.
    `bytes` is the payload: of all_gather the whole output, of reduce_scatter and all_to_all the whole input, of gather
    and scatter this rank's part, else the tensor itself. `group` holds global ranks, and so does `peer`.
    `end` is None for what was not seen to end. `line` is the line of the student's file that runs at the launch.
    `backward` is the ordinal of the backward pass during which it was launched, None outside of any; `remaining` says
    how many operations that compute gradients this pass still had to do then. `contiguous` is False where a tensor of
    the call lies in memory in another order than that of its elements, in which gloo takes it and NCCL does not.
    """

    operation: str
    bytes: int
    dtype: str
    group: tuple[int, ...]
    peer: int | None = None
    start: float
    end: float | None = None
    line: int | None = None
    backward: int | None = None
    remaining: int | None = None
    contiguous: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of a rank's time: `kind` is region or step (named by the probe), forward, backward or optimizer."""

    kind: str
    name: str
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All of one rank, in the order of launch. Not `complete` if there was more than is kept."""

    communications: tuple[Communication, ...] = ()
    spans: tuple[Span, ...] = ()
    complete: bool = True
