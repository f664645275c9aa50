"""A level of isolation tries, before any student's code comes, whether it holds. Runs in the host, which is inside."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

OUTSIDE = ("192.0.2.1", 9)
"""An address that is reserved for documentation (RFC 5737); without a network even the way to it is missing."""
AF_VSOCK = 40


def breaches(level: str, claims: Mapping[str, Any], variables: Set[str]) -> list[str]:
    """What should be impossible at this level and is not, in words. `claims` comes from `claims_of`, `variables` are
    the names in the environment that this process began with."""
    found = list(_everywhere(claims, variables))
    return [*found, *_inside(claims)] if level == "bubblewrap" else found


def claims_of(project: Path | None, environment: Sequence[str], shown: Sequence[Path], scratch: str) -> dict[str, Any]:
    """What the judge knows and the host cannot: the folders that must not be seen and what may be seen of them."""
    folders = [project, *(project / name for name in ("reference", "exercises", "tests"))] if project else []
    folders.append(Path.home())
    hidden = {str(path): _on_the_way(path, shown) for path in folders}
    return {"hidden": hidden, "environment": list(environment), "judge": os.getpid(), "scratch": scratch}


def _on_the_way(folder: Path, shown: Sequence[Path]) -> list[str]:
    """Names in a folder that lead to something that is shown."""
    return [path.relative_to(folder).parts[0] for path in shown if path != folder and path.is_relative_to(folder)]


def _everywhere(claims: Mapping[str, Any], variables: Set[str]) -> Iterator[str]:
    unknown = sorted(variables - set(claims["environment"]))
    if unknown:
        yield f"the environment holds {', '.join(unknown)}"
    if os.getsid(0) != os.getpid():
        yield "the processes share a session with the judge"
    if os.fstat(0).st_rdev != os.stat(os.devnull).st_rdev:
        yield "there is an input"
    if problem := _in_a_child(lambda: _limits_hold(Path(claims["scratch"])) or _filter_holds()):
        yield problem


def _limits_hold(scratch: Path) -> str:
    """Set limits as a rank has them, then try to pass one."""
    import resource

    from grader.ranks.inside import limits

    limits.limit(limits.Bounds(file=4096, cpu=10, memory=1 << 30, processes=100, alone=False))
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        return "a process may dump core"
    try:
        with open(scratch / "large", "wb", buffering=0) as file:
            file.seek(1 << 20)
            file.write(b"x")
    except OSError as error:
        return "" if error.errno == errno.EFBIG else f"a large file fails otherwise: {error.strerror}"
    finally:
        (scratch / "large").unlink(missing_ok=True)
    return "a file may be larger than its limit"


def _filter_holds() -> str:
    """Be held to what a rank is held to, then try it on the process above. Without a filter nothing is claimed."""
    import resource

    from grader.ranks.inside import seccomp

    if not seccomp.install():
        return ""
    above, cores = os.getppid(), os.sched_getaffinity(0)
    attempts: dict[str, Callable[[], object]] = {
        "the limits": lambda: resource.prlimit(above, resource.RLIMIT_NOFILE),
        "the priority": lambda: os.setpriority(os.PRIO_PROCESS, above, os.getpriority(os.PRIO_PROCESS, above)),
        "the cores": lambda: os.sched_setaffinity(above, cores),
        "the scheduling": lambda: os.sched_setscheduler(above, os.SCHED_OTHER, os.sched_param(0)),
    }
    os.sched_setaffinity(os.getpid(), cores)
    for name, attempt in attempts.items():
        with contextlib.suppress(PermissionError):
            attempt()
            return f"{name} of another process can be changed"
    return ""


def networks_are_had() -> bool:
    """Whether each run can have a network of its own here, which is tried out as a run does it. Raises nothing."""
    return _in_a_child(_network_is_had) == ""


def _network_is_had() -> str:
    from grader.ranks.watch import network  # not in the judge, which may be where there is none of this

    try:
        network.move_to_own()
    except OSError as error:
        return f"a run has no network of its own ({error.strerror})"
    return ""


def _in_a_child(look: Callable[[], str]) -> str:
    """What `look` returns, in a process of its own, which keeps what it changes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = "the proof went wrong"
        with contextlib.suppress(BaseException):
            text = look()
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = file.read().decode(errors="replace")
    os.waitpid(child, 0)
    return answer


def _inside(claims: Mapping[str, Any]) -> Iterator[str]:
    for folder, allowed in claims["hidden"].items():
        seen = _listed(Path(folder)) - set(allowed)
        if seen:
            yield f"{folder} can be read ({', '.join(sorted(seen)[:3])})"
    others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    if others:
        yield f"{len(others)} other processes can be seen"
    yield from _network()
    for path in ("/", "/usr", "/etc", os.path.dirname(os.__file__), os.path.dirname(__file__)):
        with contextlib.suppress(OSError):
            (Path(path) / "written").write_text("")
            yield f"{path} can be written to"


def _listed(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _network() -> Iterator[str]:
    with contextlib.suppress(OSError):
        socket.socket(AF_VSOCK, socket.SOCK_STREAM).close()
        yield "vsock can be used"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as outside:
        outside.setblocking(False)
        code = outside.connect_ex(OUTSIDE)
        if code != errno.ENETUNREACH:
            yield f"the network can be reached ({errno.errorcode.get(code, code)})"
