"""The ladder: what each level denies, that one which does not hold is an error, and limits named by their verdicts."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from grader.model import Case, Exercise, Killed, Limits, Raised, Submission
from grader.model.errors import RunError, UsageError
from grader.ranks import Session, sandbox
from grader.ranks.host import proof
from grader.ranks.inside import seccomp
from grader.ranks.limits import reached
from grader.ranks.watch.census import Census
from grader.ranks.watch.folder import RunFolder, remove
from tests.conftest import LEVELS, STUDENTS, RunIt

inside_only = pytest.mark.skipif(sandbox.obstacle() is not None, reason=str(sandbox.obstacle()))


def inside(code: str) -> str:
    """What Python prints under bubblewrap as the host has it."""
    with seccomp.program() as filtering:
        words = sandbox.command([sys.executable, "-c", code], filtering.fileno())
        done = subprocess.run(words, pass_fds=[filtering.fileno()], capture_output=True, text=True, check=True)
    return done.stdout.strip()


# -- choosing ---------------------------------------------------------------------------------------------------------


def test_off_is_always_limits() -> None:
    assert sandbox.level_for("off") == "limits"


def test_require_without_bubblewrap_is_one_sentence_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """And auto goes on with limits."""
    monkeypatch.setattr(sandbox, "obstacle", lambda: "bubblewrap is not installed")
    with pytest.raises(RunError, match=r"bubblewrap is not installed.*make sandbox") as raised:
        sandbox.level_for("require")
    assert raised.value.exit_code == 3 and sandbox.level_for("auto") == "limits"


def test_an_obstacle_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No program, one that is too old, one that is refused."""
    old, refused = tmp_path / "old", tmp_path / "refused"
    old.write_text("#!/bin/sh\necho --tmpfs\n")
    script = 'case "$1" in --help) echo --size;; *) echo "bwrap: No permissions" >&2; exit 1;; esac'
    refused.write_text(f"#!/bin/sh\n{script}\n")
    for path, told in ((None, "not installed"), (old, "older than"), (refused, "No permissions")):
        if path:
            path.chmod(0o755)
        monkeypatch.setattr(sandbox.shutil, "which", lambda name, path=path: str(path) if path else None)
        sandbox._offered.cache_clear()
        assert told in str(sandbox.obstacle.__wrapped__())
    sandbox._offered.cache_clear()


# -- what is denied ---------------------------------------------------------------------------------------------------


@inside_only
def test_inside_there_is_no_project_no_other_process_and_no_network() -> None:
    """As code sees it that looks for them."""
    project = Path(__file__).resolve().parents[1]
    hidden = [str(project / name) for name in ("reference", "exercises", "tests", "grader")]
    code = f"""if True:
        import os, socket
        seen = [path for path in {hidden!r} if os.path.exists(path)]
        others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
        outside = socket.socket()
        outside.setblocking(False)
        print(seen, others, os.getpid(), outside.connect_ex(("192.0.2.1", 9)))
    """
    assert inside(code) == "[] [] 1 101"


@inside_only
def test_inside_the_machines_names_lead_to_the_ranks() -> None:
    """A program that meets at its own machine's name, as torchrun's agents do, meets there."""
    code = """if True:
        import socket
        own = socket.gethostname()
        names = [own, socket.getfqdn(), "localhost"]
        print(sorted({socket.gethostbyname(name) for name in names}), socket.getaddrinfo("ip6-localhost", 1)[0][4][0])
        with socket.create_server((own, 0)) as server, socket.create_connection((own, server.getsockname()[1])):
            print("met")
    """
    assert inside(code).split("\n") == ["['127.0.0.1'] ::1", "met"]


@inside_only
def test_inside_tmp_is_on_the_ranks_own_file_system() -> None:
    """A file is renamed from there into a folder of the ranks', as it is without a sandbox."""
    if any(path.is_relative_to("/tmp") for path in sandbox.shown()):
        pytest.skip("the environment lies under /tmp, where nobody may write then")
    code = """if True:
        import os
        open("/tmp/file", "w").close()
        os.rename("/tmp/file", "file")
        print(sorted(os.listdir(".")), os.listdir("/tmp"))
    """
    assert inside(code) == "['file', 'tmp'] []"


@inside_only
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, 40, socket.AF_PACKET])
def test_only_families_of_sockets_that_ranks_need_can_be_made(family: int) -> None:
    """A vsock (40) would lead out of a virtual machine."""
    code = f"""if True:
        import socket
        try:
            socket.socket({int(family)}, socket.SOCK_STREAM if {int(family)} != 17 else socket.SOCK_RAW)
            print("made")
        except PermissionError:
            print("refused")
    """
    allowed = family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
    assert inside(code) == ("made" if allowed else "refused")


def test_the_filter_is_whole_instructions_and_knows_what_it_does_not_know() -> None:
    """Each jump stays inside; an unknown machine gets a program that allows all."""
    for machine, own in itertools.product(("x86_64", "aarch64"), (None, 4711)):
        code = seccomp.assembled(machine, own)
        steps = [struct.unpack("=HBBI", code[place : place + 8]) for place in range(0, len(code), 8)]
        assert steps[-1][0] == 0x06 and len(code) % 8 == 0
        assert all(place + 1 + max(yes, no) < len(steps) for place, (kind, yes, no, _) in enumerate(steps) if kind != 6)
    assert len(seccomp.assembled("vax")) == 8


def test_a_level_that_does_not_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of the host is believed: something in the environment that nobody put there."""
    claims_of = proof.claims_of
    monkeypatch.setattr(proof, "claims_of", lambda *given: {**claims_of(*given), "environment": []})
    with Session(sandbox="off") as session, pytest.raises(RunError, match=r"does not hold.*environment holds"):
        session._await_ready()


@inside_only
def test_a_breach_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Were the project to be seen inside, the host would say so."""
    shown = sandbox.shown
    project = Path(__file__).resolve().parents[1]
    monkeypatch.setattr(sandbox, "shown", lambda: [*shown(), project / "exercises"])
    claims_of = proof.claims_of
    monkeypatch.setattr(proof, "claims_of", lambda root, env, seen, at: claims_of(root, env, shown(), at))
    with Session(sandbox="require") as session, pytest.raises(RunError, match=r"does not hold.*exercises can be read"):
        session._await_ready()


# -- limits -----------------------------------------------------------------------------------------------------------

GREEDY = {
    "too many threads": "    import threading, time\n"
    "    for _ in range(60):\n        threading.Thread(target=time.sleep, args=(60,)).start()\n",
    "too many processes": "    import subprocess\n"
    "    started = [subprocess.Popen(['sleep', '60']) for _ in range(60)]\n    started[0].wait()\n",
    "too much memory": "    keep = [b'x' * 2**20 for _ in range(400)]\n    rank.record('size', len(keep))\n",
    "too large a file": "    open('large', 'wb').truncate(2**25)\n",
    "too much output": "    while True: print('x' * 1000)\n",
    "too much processor time": "    while True: pass\n",
}
NAMES = ("processes", "processes", "memory", "the size of a file", "output", "processor time")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("greed", "name"), list(zip(GREEDY, NAMES, strict=True)))
def test_a_limit_that_is_reached_is_named(run_on_ranks: RunIt, level: str, greed: str, name: str) -> None:
    """By the kernel where it can, else by the census; on the rank that did it."""
    limits = Limits(memory=256 * 2**20, processes=50, file=2**24, output=2**20, cpu=1.0)
    how = {"world_size": 1, "process_group": False, "limits": limits}
    run = run_on_ranks("greedy", source=f"def greedy(rank):\n{GREEDY[greed]}", **how)
    assert run.diagnosis is not None and run.diagnosis.kind == "limit", run
    assert f"Reached the limit on {name} on rank 0" in run.diagnosis.findings[0].sentence()


def test_a_limit_of_the_system_is_told_from_an_error_of_the_student() -> None:
    """A message of C++ names memory; any other error is the student's."""
    limits = Limits()
    allocator = Raised(type="RuntimeError", message="DefaultCPUAllocator: can't allocate memory: you tried to …")
    assert str(reached(allocator, limits, 30)).startswith("memory: at most 4096 MiB")
    assert str(reached(Killed(signal="SIGXCPU"), limits, 30)) == "cpu: at most 60 s of processor time"
    assert reached(Raised(type="ValueError", message="no"), limits, 30) is None
    assert reached(Killed(signal="SIGKILL"), limits, 30) is None


def test_files_are_counted_however_they_are_nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small ones as well as large ones."""
    monkeypatch.setattr("grader.ranks.watch.census.DISK_EVERY", 0.0)
    census = Census(Limits(disk=2**20), tmp_path, 0)
    assert census.excess({}) is None
    for number in range(40):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").write_bytes(b"x" * 2**16)
    found = census.excess({})
    assert found is not None and found.text.startswith("disk: ") and not found.ranks


def test_a_folder_goes_however_deep_and_closed_it_is(tmp_path: Path) -> None:
    """What a student has nested by the thousand, or made such that nobody may enter."""
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    (top / "closed").mkdir(mode=0)
    remove(top)
    assert not top.exists()


def test_the_file_for_a_stack_is_read_whatever_is_put_in_its_place(tmp_path: Path) -> None:
    """A FIFO would keep a reader waiting for ever."""
    folder = RunFolder(tmp_path / "run", {"../x.py": b"1"}, 1)
    assert (folder.code / "x.py").read_bytes() == b"1"
    (folder.path / "stack0").unlink()
    os.mkfifo(folder.path / "stack0")
    assert folder.stack(0) == ""


def test_only_root_may_run_ranks_as_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="only root may run the ranks as another user"):
        Session(sandbox="off", user="nobody")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_user_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match="this machine has no such user"):
        Session(sandbox="off", user="no-such-user-here")


def _others_may_run_python() -> bool:
    """Whether `nobody` gets to this Python: its folders may be for their owner alone."""
    if os.geteuid() != 0:
        return False
    words = [sys.executable, "-c", "import torch.version"]
    try:
        return subprocess.run(words, user="nobody", group="nogroup", capture_output=True, check=False).returncode == 0
    except (PermissionError, LookupError):
        return False


@pytest.mark.skipif(not _others_may_run_python(), reason="needs root, and a Python that the user nobody may run")
def test_ranks_of_another_user_can_neither_read_what_is_private_nor_signal_the_judge(tmp_path: Path) -> None:
    secret = tmp_path / "checks.py"
    secret.write_text("secret")
    secret.chmod(0o600)
    source = f"""\
import os, signal

def student(rank):
    rank.record("user", os.getuid())
    for name, attempt in {{"read": lambda: open({str(secret)!r}), "kill": lambda: os.kill({os.getpid()}, 0)}}.items():
        try:
            attempt()
        except OSError as error:
            rank.record(name, type(error).__name__)
"""
    exercise = Exercise(
        name="90_total", title="", summary="", folder=STUDENTS, file="total.py", requires=(), cases=(), checks=()
    )
    submission = Submission(path=Path("total.py"), source=source.encode(), digest="")
    with Session(sandbox="off", user="nobody") as session:
        run = session.run(exercise, submission, Case(name="student", world_size=1, probe="student"))
    assert run.ranks[0].observations == {"user": 65534, "read": "PermissionError", "kill": "PermissionError"}
