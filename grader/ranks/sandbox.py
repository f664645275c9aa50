"""The ladder of isolation: bubblewrap where it works, else resource limits alone.

Under bubblewrap the host, and with it every rank, lives in namespaces of its own. It may make networks, one for each
run, and ranks may make nothing. It sees a system that is read-only,
Python, the grader's package and nothing else of the disk; no other process; no network but its own loopback; and a
scratch folder in memory. It is process 1 there, which no process inside can signal, and everything inside ends with it.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from grader import calling
from grader.model.errors import RunError
from grader.ranks import packages
from grader.ranks.host.protocol import FOLDER, TMP
from grader.ranks.inside import seccomp

BUBBLEWRAP, LIMITS = "bubblewrap", "limits"
PACKAGE = "/ranklings"
"""Where the grader's package is seen inside, so that no writable folder is on the module path."""
HOST_NAME = "ranks"
"""The machine's name inside; the file `hosts` beside this one knows it."""
SCRATCH_BYTES, SHARED_BYTES = 4 << 30, 2 << 30
TRY_SECONDS = 60
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group")
_ETC_MORE = ("localtime", "timezone", "nccl.conf")
GPUS = ("/dev/nvidia*", "/dev/dxg")
_HARDWARE = ("/sys/devices/system", "/sys/bus/pci", "/sys/devices/pci*", "/sys/module/nvidia*", "/sys/class/net")
NETWORKS = ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_NET_ADMIN")
"""What it takes to make a network, inside the namespaces only. A supervisor gives it up before it has ranks."""
_NEEDED_OPTION = "--size"
"""bubblewrap 0.7 and newer can limit a file system in memory."""


def level_for(choice: str) -> str:
    """The level that `auto`, `require` or `off` comes to here. Raises RunError for `require` without bubblewrap."""
    if choice == "off":
        return LIMITS
    found = obstacle()
    if found is None:
        return BUBBLEWRAP
    if choice == "require":
        raise RunError(f"--sandbox require was asked for, but {found}. {calling.sandbox()}")
    return LIMITS


@functools.cache
def obstacle() -> str | None:
    """Why bubblewrap cannot be used here, as half a sentence; None if it can, which is tried out."""
    program = shutil.which("bwrap")
    if not sys.platform.startswith("linux"):
        return "bubblewrap exists for Linux only"
    if program is None:
        return "bubblewrap is not installed"
    if _NEEDED_OPTION not in _offered(program):
        return f"{program} is older than bubblewrap 0.7"
    return None if _granted(program) else _refusal([])


@functools.cache
def _granted(program: str) -> tuple[str, ...]:
    """The options that let the host give each run a network of its own, where bubblewrap takes them: one that is
    installed setuid gives capabilities to nobody but root."""
    return () if _refusal(NETWORKS) else NETWORKS


def _refusal(options: Sequence[str]) -> str | None:
    """Why bubblewrap does not work with these options; None if it does."""
    try:
        with seccomp.program() as filtering:
            words = command(["/bin/true"], filtering.fileno(), options)
            tried = subprocess.run(
                words, pass_fds=[filtering.fileno()], capture_output=True, timeout=TRY_SECONDS, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here ({error})"
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {tried.returncode}"]
    return f"bubblewrap is installed and does not work here ({said[-1]})"


@functools.cache
def _offered(program: str) -> str:
    """The text of bubblewrap's own help."""
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout


def command(words: Sequence[str], filtering: int, options: Sequence[str] | None = None) -> list[str]:
    """A command line that runs `words` inside. `filtering` is the descriptor of a seccomp program; `options` are
    those that are granted here unless given."""
    program = shutil.which("bwrap") or "bwrap"
    apart = [
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    if "--disable-userns" in _offered(program):
        apart.append("--disable-userns")
    return [
        program, *apart, "--hostname", HOST_NAME, "--as-pid-1", "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", *(_granted(program) if options is None else options), "--seccomp", str(filtering),
        *_file_systems(), "--chdir", FOLDER, "--", *words,
    ]  # fmt: skip


def _file_systems() -> list[str]:
    bound = shown()
    words = ["--ro-bind", "/usr", "/usr", *_links(), *_read_only(f"/etc/{name}" for name in (*_ETC, *_ETC_MORE))]
    # Without a network, names are looked up in files alone. A question to a server would only fail, with a warning of
    # PyTorch's that reads like the student's own output.
    # The names are those of the machine inside, whose own is HOST_NAME: they lead to the ranks, as those of a machine
    # mostly lead to itself.
    for name in ("nsswitch.conf", "hosts"):
        words += ["--ro-bind", str(Path(__file__).with_name(name)), f"/etc/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev", *_devices(), "--size", str(SHARED_BYTES), "--tmpfs", "/dev/shm"]
    words += ["--remount-ro", "/dev", *_read_only(path for mark in _HARDWARE for path in sorted(glob.glob(mark)))]
    for path in bound:
        words += ["--ro-bind", str(path), str(path)]
    package = Path(__file__).resolve().parents[1]
    words += ["--ro-bind", str(package), f"{PACKAGE}/{package.name}"]
    words += ["--size", str(SCRATCH_BYTES), "--tmpfs", FOLDER]
    if not any(path.is_relative_to("/tmp") for path in bound):  # else the way to Python would be writable
        # One file system with the ranks' folders, as it mostly is without a sandbox: a file that moves from here to
        # there moves at both levels. Where it would not, an exercise stages that itself.
        words += ["--dir", TMP, "--symlink", TMP, "/tmp"]
    return [*words, "--remount-ro", "/"]


def _links() -> list[str]:
    """/bin and its like, which are links into /usr on most systems."""
    words: list[str] = []
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), name]
        elif path.is_dir():
            words += ["--ro-bind", name, name]
    return words


def _read_only(paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind-try", path, path)]


def _devices() -> list[str]:
    """The GPUs, where there are any."""
    found = sorted(path for mark in GPUS for path in glob.glob(mark))
    return [word for path in found for word in ("--dev-bind-try", path, path)]


def shown() -> list[Path]:
    """What of the disk is seen inside: the folders that Python and its packages lie in, outermost first, and needed
    packages that lie elsewhere; nothing of the project itself and no whole home folder."""
    roots = [Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent]
    roots += [Path(folder) for folder in site.getsitepackages()]
    roots += [Path(os.path.realpath(root)) for root in roots]
    own = _outermost(root for root in roots if root.is_dir())
    return _outermost([*own, *packages.elsewhere(own, checkout())])


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that may be shown, without those that lie in others."""
    project, wanted = checkout(), list[Path]()
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        inside = any(path.is_relative_to(outer) for outer in (*wanted, Path("/usr")))
        if path.is_absolute() and not inside and not (project and _would_show(path, project)):
            wanted.append(path)
    return wanted


def checkout() -> Path | None:
    """The clone or copy that this package lies in, beside exercises; None where it was installed among others."""
    folder = Path(__file__).resolve().parents[2]
    return folder if (folder / "exercises").is_dir() else None


def _would_show(root: Path, project: Path) -> bool:
    """Whether a folder holds the project or is of it; an environment that lies in it is not."""
    return project.is_relative_to(root) or (root.is_relative_to(project) and not _is_environment(root))


def _is_environment(path: Path) -> bool:
    return any((folder / "pyvenv.cfg").exists() for folder in (path, *path.parents))
