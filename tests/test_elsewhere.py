"""The core on a system without /proc, prctl, seccomp and bubblewrap, as macOS is: simulated on Linux."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import psutil
import pytest

from grader import catalog
from tests import small

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).parent / "elsewhere"
SOLUTION = small.FILES["reference/90_total/total.py"]
STUCK = SOLUTION.replace("    result =", "    if dist.get_rank() == 0:\n        dist.barrier()\n    result =")
MARK = "ranklings-stray-of-a-test"
DAEMONS = f"""\
import os
import subprocess
import sys

if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{MARK}"], start_new_session=True)
    os._exit(0)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A Python of its own, with this one's packages, in which every process begins with `sitecustomize.py`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    (packages / "ours.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    shutil.copy(HERE / "sitecustomize.py", packages)
    return python


def test_nothing_of_the_system_is_there(elsewhere, tmp_path):
    """The simulation bites, also in a process that is started anew, and psutil still works."""
    code = "import core, psutil; print(core.taken_away(), psutil.Process().ppid() > 0)"
    words = [str(elsewhere), "-c", code, "{}"]
    done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr
    plain = subprocess.run([sys.executable, "-c", code, "{}"], cwd=HERE, capture_output=True, text=True, check=False)
    assert plain.stdout == "False True\n", plain.stderr


@pytest.mark.one_in(3)
@pytest.mark.timeout(400)
def test_the_core_grades_elsewhere(elsewhere, tmp_path):
    """The solutions of 01 to 03 pass, a mutant fails by its check, ranks that wait for one another end at the deadline
    as a deadlock with their lines, and nothing is left, a daemon that has left its parents neither."""
    root = small.build(tmp_path / "small")
    manifest = root / "exercises/90_total/exercise.yaml"
    manifest.write_text(manifest.read_text().replace("deadline: 20", "deadline: 8"))
    given: dict[str, tuple[Path, str, Path]] = {}
    for name in ("01_process_group", "02_shard_data", "03_train_ddp"):
        given[name] = (ROOT, name, ROOT / "reference" / name / catalog.load(name, ROOT).file)
    mutant = given["03_train_ddp"][2].read_text().replace("sampler.set_epoch(epoch)", "pass")
    for name, text in {"mutant": mutant, "stuck": STUCK, "daemons": DAEMONS + SOLUTION}.items():
        (tmp_path / f"{name}.py").write_text(text)
        given[name] = (root, small.NAME, tmp_path / f"{name}.py")
    given["mutant"] = (ROOT, "03_train_ddp", tmp_path / "mutant.py")
    words = [str(elsewhere), str(HERE / "core.py"), json.dumps(given, default=str)]
    done = subprocess.run([*words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found.pop("taken away") and all(told["sandbox"] == "limits" for told in found.values())
    for name in ("01_process_group", "02_shard_data", "03_train_ddp", "daemons"):
        assert (found[name]["status"], found[name]["kinds"]) == ("passed", []), found[name]
    assert found["mutant"]["failed"] == ["reshuffles"] and found["mutant"]["kinds"] == []
    assert found["stuck"]["kinds"][-1] == "deadlocked" and found["stuck"]["longest"] >= 8
    assert set(found["stuck"]["lines"]) == {9, 11}, found["stuck"]
    assert not list(left())


def left() -> Any:
    """Daemons of the submission that still live."""
    for process in psutil.process_iter(["cmdline"]):
        if MARK in (process.info["cmdline"] or []):
            yield process
