"""What a host is started with: its environment, whose it is, a place in the temporary folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grader.model.errors import NoRankStarted, UsageError
from grader.ranks.host import protocol

if TYPE_CHECKING:
    import pwd

Made = TypeVar("Made")
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
    """What ranks get of the environment: a whitelist, one thread, loopback, the Flight Recorder, no GPU for "cpu"."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    if device == "cpu":
        kept["CUDA_VISIBLE_DEVICES"] = ""
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return {
        **kept,
        **({"GLOO_SOCKET_IFNAME": loopback} if loopback else {}),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": package,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        **protocol.HUGE_PAGES,
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
