"""What a rank communicates, and when. Runs in a rank whose case asks for a trace.

A TorchDispatchMode sees every c10d operation with its tensors and group, those that DDP's C++ reducer and backward
hooks launch included, in one order with the operations that compute gradients. So overlap can be judged by the order
of launch, without a clock. An operation's end is when its Work is first seen to be complete, which is asked at every
operation of the rank and after every wait; one that never ends (a deadlock) has none. torch.profiler would know the
ends more exactly, but there can be only one profiler in a process, and it tells nothing of a rank that is stuck.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import TorchDispatchMode

from grader.ranks.inside import handed_over, threads

MAX_EVENTS = 5000
NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "monitored_barrier": "barrier",
    "recv_any_source": "recv",
    "isend": "send",
    "irecv": "recv",
}
FORMS = ("_", "_out", "_coalesced", "_base", "_into_tensor", "_tensor", "_single")
"""Endings by which torch tells the forms of one operation apart."""
GROUPS = {"process_group", "group_name"}
"""What tells a communication among torch's operations: it names its group."""
COMMUNICATION = ("c10d", "_c10d_functional")
OF_TORCH = ("aten", "prims", "prim", "profiler")
"""Namespaces of operators that do not communicate."""
SCRIPT_OBJECT = torch.ScriptObject
ACCUMULATION = "AccumulateGrad"
current_node: Callable[[], Any] | None = getattr(torch._C, "_current_autograd_node", None)
"""torch's function for the autograd node that runs now. It is private; without it every operation of a backward pass
that is no view counts as one that computes gradients, those of hooks included."""


def _below_modes() -> Any:
    """The dispatch keys below that of Python's modes, by private functions of torch; None where it lacks one."""
    private: Any = torch._C
    known = hasattr(private, "_dispatch_keyset_full_after") and hasattr(private, "_dispatch_keys")
    if not known or not hasattr(torch._ops.OpOverload, "redispatch"):
        return None
    return private._dispatch_keyset_full_after(private.DispatchKey.Python)


below_modes = _below_modes()
"""Without it what an operator communicates that the student has registered with torch.library is not seen."""


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Active once it is entered: in that thread, in those of its backward passes, and in those that Python starts."""

    def __init__(self, student_file: str, began: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.student_file, self.began = student_file, began
        self.communications: list[dict[str, Any]] = []
        self.spans: list[dict[str, Any]] = []
        self.complete, self.begun = True, False
        self._open: list[tuple[Any, dict[str, Any]]] = []
        self._unwaited: dict[int, dict[str, Any]] = {}
        self._depth: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._backward: int | None = None
        self._computed: list[int] = []
        threads.follow(self)  # those too that a student's file starts when it is imported

    # -- what is told -----------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """All so far as JSON-able data, in the form that grader.model.trace reads. May be asked from another thread."""
        rows = [self._told(event) for event in list(self.communications)]
        return {"communications": rows, "spans": [dict(s) for s in list(self.spans)], "complete": self.complete}

    def _told(self, event: dict[str, Any]) -> dict[str, Any]:
        row, backward = dict(event), event["backward"]
        computed = row.pop("computed")
        row["remaining"] = None if backward is None else self._computed[backward] - computed
        return row

    # -- spans ------------------------------------------------------------------------------------------------

    def seconds(self) -> float:
        return (time.monotonic_ns() - self.began) / 1e9

    @contextlib.contextmanager
    def span(self, kind: str, name: str) -> Iterator[None]:
        """Record a stretch of time. Of nested ones of a kind only the outermost, but of regions each."""
        self._enter(kind, name)
        try:
            yield
        finally:
            self._leave(kind)

    def _enter(self, kind: str, name: str) -> None:
        self._depth[kind] += 1
        if self._depth[kind] > 1 and kind != "region":
            return
        if kind == "backward":
            self._backward = len(self._computed)
            self._computed.append(0)
        self._keep(self.spans, {"kind": kind, "name": name, "start": self.seconds(), "end": None})

    def _leave(self, kind: str) -> None:
        self._depth[kind] -= 1
        if self._depth[kind] and kind != "region":
            return
        self.look()
        if kind == "backward":
            self._backward = None
        for span in reversed(self.spans):
            if span["kind"] == kind and span["end"] is None:
                span["end"] = self.seconds()
                return

    def _keep(self, rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
        if len(rows) < MAX_EVENTS:
            rows.append(row)
        else:
            self.complete = False

    # -- operations -------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(map(_says_what_it_means, types)):
            return NotImplemented  # a DTensor, say: first it says what that means for plain tensors
        self.look()
        if func.namespace not in COMMUNICATION:
            self._count(func)
            return func(*args, **kwargs) if func.namespace in OF_TORCH else self._within(func, args, kwargs)
        arguments = handed_over.arguments(func, args, kwargs)
        functional = func.namespace == "_c10d_functional"
        event = None
        if GROUPS & arguments.keys():
            event = self._launched(operation_of(func), arguments, functional)
        result = func(*args, **kwargs)
        if event is not None:
            self._follow(event, result, functional)
        elif "tensor" in arguments:  # of wait_tensor
            self._waited(arguments["tensor"])
        return result

    def _within(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator of the student's own, which may communicate, and see what is in it. torch takes the mode
        away while it handles an operation; so go on below the place where modes are asked, and with the mode."""
        tensors = list(handed_over.tensors([*args, *kwargs.values()]))
        if not tensors or below_modes is None:
            return func(*args, **kwargs)
        keys = functools.reduce(operator.or_, map(torch._C._dispatch_keys, tensors))
        with self:
            return func.redispatch(keys & below_modes, *args, **kwargs)

    def _count(self, func: Any) -> None:
        """Count what computes gradients: an operation of a node of the graph, but not of the accumulation, to which
        torch also counts the hooks of parameters."""
        if self._backward is None or func.namespace == "profiler" or getattr(func, "is_view", False):
            return
        node = current_node() if current_node else None
        if current_node is None or (node is not None and ACCUMULATION not in node.name()):
            self._computed[self._backward] += 1

    def _launched(self, name: str, arguments: dict[str, Any], functional: bool) -> dict[str, Any]:
        tensors, group = handed_over.payload(name, arguments), _group(arguments)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if name == "all_gather" and not any(key.startswith("out") for key in arguments):
            size *= len(group)  # a functional collective has its input only
        peer = arguments.get("dst", arguments.get("src"))
        event = {
            "operation": name,
            "bytes": size,
            "dtype": str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
            "group": group,
            "peer": group[peer] if type(peer) is int and 0 <= peer < len(group) else None,
            "start": self.seconds(),
            "end": None,
            "line": self._line(),
            "backward": self._backward,
            "computed": 0 if self._backward is None else self._computed[self._backward],
            "contiguous": functional or handed_over.contiguous(arguments),  # functional ones copy what they are given
        }
        self._keep(self.communications, event)
        return event

    def _line(self) -> int | None:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.student_file:
            frame = frame.f_back  # type: ignore[assignment]
        return frame.f_lineno if frame is not None else None

    # -- ends -------------------------------------------------------------------------------------------------

    def _follow(self, event: dict[str, Any], result: Any, functional: bool) -> None:
        """Remember how to see the end: by the Work that the call gave, or by the tensor that is waited for."""
        if functional:
            self._unwaited |= {tensor.untyped_storage().data_ptr(): event for tensor in handed_over.tensors(result)}
            return
        parts = [part for part in (result if isinstance(result, tuple) else (result,)) if type(part) is SCRIPT_OBJECT]
        works = [work for part in parts if (work := dist.Work.unbox(part)) is not None]
        with self._lock:
            self._open += [(work, event) for work in works]
        if not works:  # it has blocked, or NCCL gives no Work to who has not asked for one
            event["end"] = self.seconds()

    def _waited(self, tensor: torch.Tensor) -> None:
        event = self._unwaited.pop(tensor.untyped_storage().data_ptr(), None)
        if event is not None:
            event["end"] = self.seconds()

    def look(self, waited: Any = None) -> None:
        """Which of the open operations have ended? `waited` has, even if its is_completed() is still False."""
        if not self._open:
            return
        with self._lock:
            still = [(work, event) for work, event in self._open if work is not waited and not work.is_completed()]
            open_before, self._open = self._open, still
        for _, event in open_before:
            if not any(event is other for _, other in still):
                event["end"] = self.seconds()

    # -- hooks ------------------------------------------------------------------------------------------------

    def active(self) -> Tracer:
        """For a with statement around all that is traced. Once a process."""
        self._install()
        return self

    def _install(self) -> None:
        """Mark forward, backward and optimizer steps, and look for ends after every wait."""
        modules.register_module_forward_pre_hook(lambda module, _: self._enter("forward", type(module).__name__))
        modules.register_module_forward_hook(lambda *_: self._leave("forward"), always_call=True)
        optimizers.register_optimizer_step_pre_hook(lambda opt, *_: self._enter("optimizer", type(opt).__name__))
        optimizers.register_optimizer_step_post_hook(lambda *_: self._leave("optimizer"))
        for name in ("backward", "grad"):
            setattr(torch.autograd, name, self._spanned(getattr(torch.autograd, name)))
        work: Any = dist.Work
        wait = work.wait

        @functools.wraps(wait)
        def ranklings_traced_wait(*args: Any, **kwargs: Any) -> Any:
            result = wait(*args, **kwargs)
            self.look(waited=args[0])
            return result

        work.wait = ranklings_traced_wait
        self.begun = True

    def _spanned(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def ranklings_backward(*args: Any, **kwargs: Any) -> Any:
            with self.span("backward", "backward"):
                return function(*args, **kwargs)

        return ranklings_backward


def _says_what_it_means(kind: type[torch.Tensor]) -> bool:
    """Whether a subclass makes of an operation others, of plain tensors: DTensor and its like, and a student's own.
    Others of torch's, such as the FakeTensors on which DTensor works out its shapes, communicate nothing."""
    handler: Any = kind.__torch_dispatch__
    if handler is torch.Tensor.__torch_dispatch__:
        return False
    return kind.__module__.startswith("torch.distributed") or not kind.__module__.startswith("torch.")


def operation_of(func: Any) -> str:
    """all_reduce for c10d.allreduce_, c10d.allreduce_coalesced_, _c10d_functional.all_reduce and so on."""
    name = str(func._schema.name).rpartition("::")[2].strip("_")
    while name not in NAMES and (form := next((form for form in FORMS if name.endswith(form)), "")):
        name = name.removesuffix(form)
    return NAMES.get(name, name)


def _group(arguments: dict[str, Any]) -> list[int]:
    """The global ranks of the group that an operation runs in."""
    if "group_name" in arguments:
        c10d: Any = dist.distributed_c10d
        group = c10d._resolve_process_group(arguments["group_name"])
    else:
        group = dist.ProcessGroup.unbox(arguments["process_group"])
    try:
        return list(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError):  # a group that torch.distributed does not know, made by hand
        return list(range(group.size()))
