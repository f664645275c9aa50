"""Bad input of a command, on the real program: one sentence, the right exit code, no traceback, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import small
from tests.conftest import CHOICE, LEVELS

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.build(tmp_path_factory.mktemp("root"))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A TMPDIR of the test's own, which must be empty again afterwards."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def environment(scratch: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(Path(__file__).parents[1])}


def grader(root: Path, scratch: Path, *arguments: str) -> Done:
    command = [sys.executable, "-m", "grader", *arguments]
    done = subprocess.run(
        command, cwd=root, env=environment(scratch), capture_output=True, text=True, timeout=110, check=False
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


def told(done: Done) -> str:
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("grader: ")]
    return line


def test_a_wrong_exercise_name_offers_the_nearest(root: Path, scratch: Path) -> None:
    """Exit code 2."""
    done = grader(root, scratch, "grade", "totl")
    assert done.returncode == 2 and "90_total" in told(done)


def test_a_missing_file_is_named(root: Path, scratch: Path) -> None:
    """Exit code 2, before anything is started."""
    done = grader(root, scratch, "grade", "90", "--submission", "nowhere.py")
    assert done.returncode == 2 and "nowhere.py" in told(done)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\x00\x01\x02", "binary"),
        (b"x = '\xff'\n", "UTF-8"),
        (b"def total(value)\n    return value\n", "line 1"),
        (b"def other(): ...\n", "does not define total"),
        (b"def total(): ...\n", "total(value)"),
        (b"import no_such_module\n", "no_such_module"),
    ],
    ids=["empty", "binary", "not UTF-8", "syntax error", "missing name", "wrong signature", "import error"],
)
def test_a_file_that_cannot_be_graded_gets_a_page_with_the_reason(
    root: Path, scratch: Path, tmp_path: Path, content: bytes, words: str
) -> None:
    """The student's fault: exit code 1, nought points, one reason."""
    (tmp_path / "total.py").write_bytes(content)
    done = grader(root, scratch, "grade", "90", "--submission", str(tmp_path / "total.py"), "--plain")
    page = " ".join(done.stdout.split())
    assert done.returncode == 1 and words in page and "0/100" in page


def test_a_manifest_with_a_typo_names_path_line_and_remedy(tmp_path: Path, scratch: Path) -> None:
    """The author's fault: exit code 3."""
    root = small.build(tmp_path)
    manifest = root / "exercises" / small.NAME / "exercise.yaml"
    manifest.write_text(manifest.read_text().replace("world_sizes: [1, 2]", "wold_sizes: [1, 2]"))
    done = grader(root, scratch, "grade", "90")
    assert done.returncode == 3 and "exercise.yaml:6" in told(done) and "world_sizes" in told(done)


def test_no_room_for_a_scratch_folder_is_told(root: Path, tmp_path: Path) -> None:
    """The machine's fault: exit code 3, and the remedy."""
    nowhere = tmp_path / "gone"
    code = (
        "import tempfile, sys\n"
        f"tempfile.tempdir = {str(nowhere)!r}\n"
        "sys.argv = ['grader', 'grade', '90', '--submission', sys.argv[1]]\n"
        "from grader.cli import main; main()\n"
    )
    arguments = [sys.executable, "-c", code, str(root / "reference" / small.NAME)]
    done = subprocess.run(
        arguments, cwd=root, env=environment(tmp_path), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 3 and "TMPDIR" in told(done) and "Traceback" not in done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("level", LEVELS)
def test_ctrl_c_leaves_nothing(root: Path, scratch: Path, tmp_path: Path, level: str) -> None:
    """One sentence, exit code 130, no process, no folder; sent while a rank is in an endless loop."""
    (tmp_path / "total.py").write_text("def total(value):\n    while True: pass\n")
    words = ["grade", "90", "--submission", str(tmp_path / "total.py"), "--sandbox", CHOICE[level]]
    command = [sys.executable, "-m", "grader", *words]
    process = subprocess.Popen(command, cwd=root, env=environment(scratch), stderr=subprocess.PIPE, text=True)
    children: list[psutil.Process] = []
    while not busy(children, process.pid):  # how many there are at once depends on what is called off
        assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "nothing is left running" in stderr and "Traceback" not in stderr
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


def busy(processes: list[psutil.Process], judge: int) -> list[psutil.Process]:
    """The ranks that want a core. Host and supervisors, which import and fork before, are nearer to the judge."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            above = [parent.pid for parent in process.parents()]
            if process.status() == psutil.STATUS_RUNNING and above.index(judge) >= 2:
                found.append(process)
    return found


def test_a_temporary_folder_of_ours_is_never_left(root: Path, scratch: Path) -> None:
    """The control: a right grade, with TMPDIR empty afterwards and exit code 0."""
    done = grader(root, scratch, "grade", "90", "--submission", str(root / "reference" / small.NAME), "--plain")
    assert done.returncode == 0 and "100/100" in done.stdout
    assert tempfile.gettempdir() != str(scratch)
