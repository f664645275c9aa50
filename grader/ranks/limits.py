"""Which limit of its case an ending has to do with, in words. Pure."""

from __future__ import annotations

from grader.model import MIB, Ending, Killed, Limits, Raised

_SIGNS = {
    "memory": ("can't allocate memory", "std::bad_alloc", "[Errno 12]", "Cannot allocate memory"),
    "file": ("[Errno 27]",),
    "disk": ("[Errno 28]",),
    "processes": ("can't start new thread", "[Errno 11] Resource temporarily unavailable"),
}
"""What C++ and the system say where a limit was reached, by the limit."""
_SIGNALS = {"SIGXCPU": "cpu", "SIGXFSZ": "file"}


def reached(ending: Ending, limits: Limits, deadline: float) -> str | None:
    """What was reached, as "memory: at most 4096 MiB for each rank"; None for an ending that no limit has caused."""
    if isinstance(ending, Killed) and ending.limit:
        return ending.limit
    name = _name(ending)
    return f"{name}: {_most(name, limits, deadline)}" if name else None


def _name(ending: Ending) -> str | None:
    if isinstance(ending, Killed):
        return _SIGNALS.get(ending.signal)
    if not isinstance(ending, Raised):
        return None
    if ending.type == "MemoryError":
        return "memory"
    told = "\n".join((ending.message, *ending.causes))
    return next((name for name, signs in _SIGNS.items() if any(sign in told for sign in signs)), None)


def _most(name: str, limits: Limits, deadline: float) -> str:
    return {
        "memory": f"at most {limits.memory // MIB} MiB for each rank",
        "file": f"at most {limits.file // MIB} MiB in one file",
        "disk": f"at most {limits.disk // MIB} MiB of files",
        "processes": f"at most {limits.processes} processes and threads",
        "cpu": f"at most {limits.cpu or 2 * deadline:g} s of processor time",
    }[name]
