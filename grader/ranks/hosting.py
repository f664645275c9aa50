"""What a host is started with: its environment, whose it is, a place in the temporary folder."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import psutil

from grader.kit import gpus
from grader.model.errors import NoRankStarted, UsageError
from grader.ranks import packages, sandbox
from grader.ranks.host import proof
from grader.ranks.inside import seccomp

if TYPE_CHECKING:
    import pwd

Made = TypeVar("Made")
ABOVE_PACKAGE = Path(__file__).resolve().parents[2]
KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "TZ",
    "VIRTUAL_ENV",
)


def environment(scratch: Path, package: str, device: str = "auto") -> dict[str, str]:
    """What ranks get of the environment: a whitelist, one thread, loopback, the Flight Recorder, no GPU for "cpu";
    matplotlib looks at the fonts that it brings only, for a machine may have thousands and they would be read anew.

    `torch.cuda.is_available` asks NVML. By itself it asks CUDA, which takes 0.2 s in every rank (on an H200), and after
    which no fork of that process can use a GPU ("Cannot re-initialize CUDA in forked subprocess")."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    if device == "cpu":
        kept.update(gpus.HIDDEN)
    found = packages.variables()
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return {
        **kept,
        **({"GLOO_SOCKET_IFNAME": loopback} if loopback else {}),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        **found,
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [found.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "MPL_IGNORE_SYSTEM_FONTS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }


def temporary(make: Callable[[], Made]) -> Made:
    """What `make` makes in the temporary folder. Raises NoRankStarted where there is no room."""
    try:
        return make()
    except OSError as error:
        raise NoRankStarted(
            f"No scratch folder could be made in the temporary folder: {error.strerror}. Set TMPDIR to one with room."
        ) from error


def user_of(name: str) -> pwd.struct_passwd:
    """The user of that name, as whom only root may run ranks. Raises UsageError."""
    import pwd  # not on Windows

    if os.geteuid() != 0:
        raise UsageError(f"--rank-user {name}: only root may run the ranks as another user.")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"--rank-user {name}: this machine has no such user.") from None


def identity(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Popen arguments that run the host as `user`, in no group but their own."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


def started(
    descriptor: int, level: str, scratch: Path, log: IO[bytes], user: pwd.struct_passwd | None, device: str
) -> subprocess.Popen[bytes]:
    """A host that hears of runs over `descriptor`. Raises PermissionError where `user` may not run Python."""
    inside = level == sandbox.BUBBLEWRAP
    variables = environment(scratch, sandbox.PACKAGE if inside else str(ABOVE_PACKAGE), device)
    claims = proof.claims_of(sandbox.checkout(), [*variables, "LC_CTYPE", "PWD"], sandbox.shown(), str(scratch))
    told = json.dumps({**claims, "modules": packages.present()})
    words = [sys.executable, "-m", "grader.ranks.host", str(descriptor), level, told]
    with seccomp.program() as filtering:
        return subprocess.Popen(
            sandbox.command(words, filtering.fileno()) if inside else words,
            pass_fds=[descriptor, *([filtering.fileno()] if inside else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=variables,
            cwd=None if inside else scratch,
            start_new_session=True,
            **identity(user),
        )


def kill_at_once(host: subprocess.Popen[bytes]) -> None:
    """Kill a host that is still beginning, with all below it: a bubblewrap that is killed before its child has asked
    the kernel to end with it would leave that child behind."""
    with contextlib.suppress(psutil.Error):
        beginning = psutil.Process(host.pid)
        beginning.suspend()
        _await_stop(host.pid)  # it starts nobody from here on; a child whose start was under way is there
        for process in beginning.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
    host.kill()


def _await_stop(child: int) -> None:
    """Wait until a child that was sent SIGSTOP has stopped or is gone: a signal is sent before it arrives."""
    if sys.platform == "linux":  # where a killed host may leave others, and where Python can look without reaping
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
